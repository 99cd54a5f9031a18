"""A session as in a scientist's notebook: plain requests over HTTP first, then the same by the SDK."""

from __future__ import annotations

import base64

import requests
from diaspora_event_sdk import RESTConsumer

V2 = "application/vnd.kafka.v2+json"
JSON = "application/vnd.kafka.json.v2+json"


def test_a_notebook(client):
    base = client.web_service_address.rstrip("/")
    client.create_topic("rest-demo")
    sign_in = {
        "Subject": client.subject_openid,
        "Authorization": client.web_client.authorizer.get_authorization_header(),
    }
    v2 = {**sign_in, "Content-Type": V2}

    # Write one record, then several.
    records = f"{base}/api/v3/{client.namespace}/topics/rest-demo/records"
    wrote = requests.post(
        records,
        headers=sign_in,
        json={
            "key": {"type": "STRING", "data": "job-42"},
            "value": {"type": "JSON", "data": {"step": 1}},
            "headers": [{"name": "trace", "value": base64.b64encode(b"\x00\x01").decode()}],
        },
    )
    assert wrote.status_code == 200
    assert (wrote.json()["error_code"], wrote.json()["offset"]) == (200, 0)
    wrote = requests.post(
        f"{records}:batch",
        headers=sign_in,
        json={
            "entries": [
                {"id": "2", "value": {"type": "JSON", "data": {"step": 2}}},
                {"id": "3", "value": {"type": "STRING", "data": "done"}},
                {
                    "id": "bad",
                    "value": {"type": "JSON", "data": {"step": 5}},
                    "timestamp": "2026-10-26T15:04:05",
                },
            ]
        },
    )
    assert wrote.status_code == 207
    assert [entry["id"] for entry in wrote.json()["successes"]] == ["2", "3"]
    assert [entry["id"] for entry in wrote.json()["failures"]] == ["bad"]

    # Read them.
    made = requests.post(
        f"{base}/api/v2/consumers/demo",
        headers=v2,
        json={"name": "inst", "format": "json", "auto.offset.reset": "earliest"},
    )
    assert made.status_code == 200
    instance = made.json()["base_uri"]
    topics = {"topics": ["rest-demo"]}
    assert requests.post(f"{instance}/subscription", headers=v2, json=topics).status_code == 204
    assert requests.get(f"{instance}/subscription", headers=v2).json() == topics

    def fetch(timeout: int = 5000) -> list[dict]:
        reply = requests.get(
            f"{instance}/records", headers={**v2, "Accept": JSON}, params={"timeout": timeout}
        )
        reply.raise_for_status()
        return reply.json()

    assert requests.get(f"{instance}/records", headers=v2).status_code == 406
    read: list[dict] = []
    for _ in range(10):
        read += fetch()
        if len(read) >= 3:
            break
    assert [record["value"] for record in read] == [{"step": 1}, {"step": 2}, "done"]
    assert read[0]["headers"] == [{"name": "trace", "value": "AAE="}]

    # Commit, seek, and read again.
    at = {"partitions": [{"topic": "rest-demo", "partition": 0}]}
    commit = requests.post(f"{instance}/offsets", headers=v2)
    assert (commit.status_code, commit.json()) == (200, [])
    committed = requests.get(f"{instance}/offsets", headers=v2, json=at).json()["offsets"]
    assert committed[0]["offset"] == 3
    back = {"offsets": [{"topic": "rest-demo", "partition": 0, "offset": 1}]}
    assert requests.post(f"{instance}/offsets", headers=v2, json=back).status_code == 200
    assert requests.post(f"{instance}/positions/beginning", headers=v2, json=at).status_code == 204
    assert [record["offset"] for record in fetch()] == [0, 1, 2]
    assert requests.post(f"{instance}/positions", headers=v2, json=back).status_code == 204
    assert [record["offset"] for record in fetch()] == [1, 2]
    assert requests.post(f"{instance}/positions/end", headers=v2, json=at).status_code == 204
    assert fetch(500) == []
    assert requests.delete(f"{instance}/subscription", headers=v2).status_code == 204
    assert requests.post(f"{instance}/assignments", headers=v2, json=at).status_code == 204
    assert requests.get(f"{instance}/assignments", headers=v2).json() == at
    assert requests.delete(instance, headers=v2).status_code == 204
    gone = requests.get(f"{instance}/subscription", headers=v2)
    assert (gone.status_code, gone.json()["error_code"]) == (404, 40403)

    # The same by the SDK: its group goes on after the record that was committed last.
    client.produce("rest-demo", {"step": 6}, key="job-42")
    with RESTConsumer("demo", client=client, name="sdk", format="binary") as consumer:
        consumer.subscribe(["rest-demo"])
        offsets: list[int] = []
        for _ in range(10):
            offsets += [record["offset"] for record in consumer.fetch(timeout_ms=3000)]
            if offsets and offsets[-1] == 3:
                break
        assert offsets == [2, 3]
        consumer.commit()
        assert consumer.committed([("rest-demo", 0)]) == {("rest-demo", 0): 4}
    assert client.delete_topic("rest-demo")["status"] == "success"
