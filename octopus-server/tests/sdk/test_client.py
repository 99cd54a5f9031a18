"""Every call of the SDK's `Client`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from diaspora_event_sdk import RESTConsumer
from diaspora_event_sdk.sdk.web_client import WebAPIError


def read(client, topic: str, count: int, format: str = "json") -> list[dict]:
    """The topic's records from its start, which are so many."""
    with RESTConsumer(
        f"g-{topic}-{format}", client=client, format=format, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        records: list[dict] = []
        for _ in range(30):
            records += consumer.fetch(timeout_ms=1000)
            if len(records) >= count:
                break
        assert len(records) == count
        return records


def test_a_user_is_made_and_deleted(client):
    made = client.create_user()
    assert made["status"] == "success"
    assert made["subject"] == client.subject_openid
    assert made["namespace"] == client.namespace
    assert client.create_user()["status"] == "success", "it may be asked for again"

    client.create_topic("of-the-user")
    assert client.delete_user()["status"] == "success"
    assert client.list_namespaces()["namespaces"].get(client.namespace, []) == []


def test_topics_are_made_listed_and_deleted(client, service):
    assert client.create_topic("metrics")["status"] == "success"
    assert client.create_topic("events_2")["topics"] == ["events_2", "metrics"]
    again = client.create_topic("metrics")
    assert again["status"] == "success"
    listed = client.list_namespaces()
    assert listed["status"] == "success"
    assert listed["namespaces"] == {client.namespace: ["events_2", "metrics"]}

    service.restart()
    assert client.list_namespaces()["namespaces"] == listed["namespaces"]

    assert client.delete_topic("metrics")["topics"] == ["events_2"]
    assert client.list_namespaces()["namespaces"][client.namespace] == ["events_2"]


def test_a_topic_that_is_made_anew_is_empty(client, topic):
    client.produce(topic, "old")
    assert client.recreate_topic(topic)["status"] == "success"
    assert client.produce(topic, "new")["offset"] == 0
    assert [record["value"] for record in read(client, topic, 1)] == ["new"]


@pytest.mark.parametrize("name", ["ab", "a" * 33, "a.b", "runs:1"])
def test_a_bad_name_of_a_topic_is_refused(client, name):
    with pytest.raises(WebAPIError) as refused:
        client.create_topic(name)
    assert (refused.value.http_status, refused.value.error_code) == (422, 42204)


def test_another_ones_namespace_is_closed(client, new_client, topic):
    other = new_client()
    with pytest.raises(WebAPIError) as there:
        other.produce(topic, 1, namespace=client.namespace)
    with pytest.raises(WebAPIError) as nowhere:
        other.produce(topic, 1, namespace="ns-ffffffffffff")
    for refused in (there.value, nowhere.value):
        assert (refused.http_status, refused.error_code) == (403, 40301)
    assert there.value.message == nowhere.value.message
    assert topic not in other.list_namespaces()["namespaces"].get(other.namespace, [])


def test_a_record_comes_back_as_it_was_written(client, topic):
    at = datetime(2026, 10, 26, 15, 4, 5, 678000, tzinfo=UTC)
    headers = {"trace": b"\x00\x01", "note": "é", "none": None}
    wrote = client.produce(
        topic, {"step": 1, "loss": 0.52}, key="job-42", headers=headers, timestamp=at
    )
    assert (wrote["topic_name"], wrote["partition_id"], wrote["offset"]) == (topic, 0, 0)
    assert wrote["timestamp"].startswith("2026-10-26T15:04:05.678")
    client.produce(topic, "done", key={"a": [1, 2]})
    client.produce(topic, "plain text", value_type="STRING", key="42")
    client.produce(topic, key="only a key")
    # Numbers keep their digits: no float of 53 bits in between.
    client.produce(topic, 12345678901234567890123)

    json = read(client, topic, 5)
    assert [record["offset"] for record in json] == list(range(5))
    assert json[0]["key"] == "job-42"
    assert json[0]["value"] == {"step": 1, "loss": 0.52}
    assert json[0]["headers"] == [
        {"name": "trace", "value": b"\x00\x01"},
        {"name": "note", "value": "é".encode()},
        {"name": "none", "value": None},
    ]
    assert (json[1]["key"], json[1]["value"]) == ({"a": [1, 2]}, "done")
    assert (json[2]["key"], json[2]["value"]) == (42, "plain text")
    assert (json[3]["key"], json[3]["value"]) == ("only a key", None)
    assert json[4]["value"] == 12345678901234567890123

    client.produce(topic, b"\x00\xff", key=b"\x01")
    binary = read(client, topic, 6, "binary")
    assert binary[0]["value"] == b'{"step":1,"loss":0.52}'
    assert (binary[1]["key"], binary[1]["value"]) == (b'{"a":[1,2]}', b'"done"')
    assert binary[3]["value"] is None
    assert (binary[5]["key"], binary[5]["value"]) == (b"\x01", b"\x00\xff")


def test_a_batch_writes_what_it_can(client, topic):
    outcome = client.produce_batch(
        topic,
        [
            {"value": {"step": 1}},
            {"value": "done", "id": "last"},
            {"value": 3, "timestamp": "2026-10-26T15:04:05", "id": "no-offset"},
        ],
    )
    wrote = {entry["id"]: entry["offset"] for entry in outcome["successes"]}
    assert wrote == {"0": 0, "last": 1}
    assert all(entry["topic_name"] == topic for entry in outcome["successes"])
    [failed] = outcome["failures"]
    assert (failed["id"], failed["error_code"]) == ("no-offset", 40005)
    assert failed["message"]
    assert [record["value"] for record in read(client, topic, 2)] == [{"step": 1}, "done"]

    whole = client.produce_batch(topic, [{"value": n} for n in range(500)])
    assert [entry["offset"] for entry in whole["successes"]] == list(range(2, 502))
    assert whole["failures"] == []
    with pytest.raises(WebAPIError) as refused:
        client.produce_batch(topic, [{"value": n} for n in range(501)])
    assert refused.value.http_status == 422
    assert client.produce(topic, "after")["offset"] == 502, "nothing of it was written"


def test_a_topic_that_is_not_there_takes_no_records(client, service):
    if service.is_dev:
        # In development the first record makes the topic.
        assert client.produce("of-itself", 1)["offset"] == 0
        return
    with pytest.raises(WebAPIError) as refused:
        client.produce("nowhere", 1)
    assert (refused.value.http_status, refused.value.error_code) == (404, 40401)
    assert client.list_namespaces()["namespaces"].get(client.namespace, []) == []


def test_keys(client, service, topic):
    if service.is_dev:
        with pytest.raises(WebAPIError) as refused:
            client.create_key()
        assert (refused.value.http_status, refused.value.error_code) == (400, 40002)
        return
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    client.produce(topic, "by the service")
    first, key = client.create_key(), client.create_key()
    for field in ("status", "access_key", "secret_key", "create_date", "endpoint", "fresh"):
        assert field in key
    assert first["secret_key"] != key["secret_key"]

    def read_by_kafka(key: dict, patience: int = 30_000) -> list[bytes]:
        consumer = KafkaConsumer(
            f"{client.namespace}.{topic}",
            group_id=f"{client.namespace}.own",
            bootstrap_servers=key["endpoint"].split(","),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username=key["access_key"],
            sasl_plain_password=key["secret_key"],
            auto_offset_reset="earliest",
            consumer_timeout_ms=patience,
            allow_auto_create_topics=False,
        )
        try:
            return [next(consumer).value]
        finally:
            consumer.close(timeout_ms=2000)

    assert read_by_kafka(key) == [b'"by the service"']
    with pytest.raises((KafkaError, StopIteration)):
        read_by_kafka(first, 5_000)
    assert client.delete_key()["status"] == "success"
    assert key["secret_key"] not in service.said()


def test_a_revoked_token_is_refused(client, authority, service):
    client.list_namespaces()
    authority.revoke(client.subject_openid)
    # A token that was found good is good for a minute at most; a server that starts remembers none.
    service.restart()
    asked = authority.asked
    # The SDK gets itself a new token where one is refused.
    assert client.list_namespaces()["status"] == "success"
    assert authority.asked > asked


def test_the_command_line_has_no_secret(service, authority):
    line = service.command_line()
    assert authority.service[1] not in line


def test_a_logout_ends_the_sdks_sign_in(client):
    client.logout()
