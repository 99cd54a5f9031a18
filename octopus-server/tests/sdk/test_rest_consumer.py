"""Every call of the SDK's `RESTConsumer`."""

from __future__ import annotations

import pytest
from diaspora_event_sdk import RESTConsumer
from diaspora_event_sdk.sdk.rest_consumer import CommitLostError
from diaspora_event_sdk.sdk.web_client import WebAPIError


@pytest.fixture
def filled(client, topic) -> str:
    """A topic with the records 0 to 9."""
    client.produce_batch(topic, [{"value": n, "key": f"k{n}"} for n in range(10)])
    return topic


def take(consumer: RESTConsumer, count: int) -> list[dict]:
    """Fetches until so many records came."""
    records: list[dict] = []
    for _ in range(30):
        records += consumer.fetch(timeout_ms=1000)
        if len(records) >= count:
            break
    assert len(records) == count, [record["offset"] for record in records]
    return records


def test_it_subscribes_fetches_and_commits(client, filled):
    with RESTConsumer(
        "g", client=client, name="one", format="json", auto_offset_reset="earliest"
    ) as consumer:
        assert consumer.base_uri.startswith("http://localhost:8000/api/v2/consumers/g/")
        consumer.subscribe([filled])
        assert consumer.subscription() == [filled]
        records = take(consumer, 10)
        assert [record["value"] for record in records] == list(range(10))
        assert {record["topic"] for record in records} == {filled}
        assert consumer.assignment() == [(filled, 0)]
        assert consumer.committed([(filled, 0)]) == {}
        consumer.commit()
        assert consumer.committed([(filled, 0)]) == {(filled, 0): 10}
        consumer.commit({(filled, 0): 4})
        assert consumer.committed([(filled, 0)]) == {(filled, 0): 5}
        consumer.unsubscribe()
        assert consumer.subscription() == []
    assert consumer.closed
    consumer.close()

    with RESTConsumer("g", client=client, format="json") as consumer:
        consumer.subscribe(filled)
        assert [record["value"] for record in take(consumer, 5)] == list(range(5, 10))


def test_it_is_assigned_and_seeks(client, filled):
    at = (filled, 0)
    with RESTConsumer("g", client=client, auto_offset_reset="earliest") as consumer:
        consumer.assign([at])
        assert consumer.assignment() == [at]
        assert [record["key"] for record in take(consumer, 10)][:2] == [b"k0", b"k1"]
        consumer.seek({at: 7})
        assert [record["value"] for record in take(consumer, 3)] == [b"7", b"8", b"9"]
        consumer.seek_to_beginning([at])
        assert take(consumer, 10)[0]["offset"] == 0
        consumer.seek_to_end()
        assert consumer.fetch(timeout_ms=500) == []
        client.produce(filled, "late")
        assert [record["value"] for record in take(consumer, 1)] == [b'"late"']


def test_a_reply_stays_under_max_bytes(client, filled):
    with RESTConsumer("g", client=client, auto_offset_reset="earliest") as consumer:
        consumer.assign([(filled, 0)])
        # A key of two bytes and a value of one: three records fit, and the first comes in any case.
        assert len(consumer.fetch(timeout_ms=5000, max_bytes=9)) in (2, 3)
        assert len(consumer.fetch(timeout_ms=5000, max_bytes=1)) == 1


def test_it_commits_by_itself(client, filled):
    with RESTConsumer(
        "auto", client=client, auto_commit_enable=True, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([filled])
        take(consumer, 10)
    with RESTConsumer("auto", client=client, consumer_request_timeout_ms=1000) as consumer:
        assert consumer.committed([(filled, 0)]) == {(filled, 0): 10}
        assert consumer.subscription() == []


def test_two_of_a_name_and_too_many_are_refused(client):
    held = [RESTConsumer("g", client=client, name="one", fetch_min_bytes=1)]
    try:
        with pytest.raises(WebAPIError) as taken:
            RESTConsumer("g", client=client, name="one")
        assert (taken.value.http_status, taken.value.error_code) == (409, 40902)
        held += [RESTConsumer("g", client=client) for _ in range(3)]
        client.web_client.retry_config.max_retries = 0
        with pytest.raises(WebAPIError) as many:
            RESTConsumer("g", client=client)
        assert (many.value.http_status, many.value.error_code) == (429, 42901)
    finally:
        for consumer in held:
            consumer.close()


def test_it_is_made_again_after_a_restart_and_goes_on_from_the_commit(client, filled, service):
    consumer = RESTConsumer(
        "again", client=client, name="one", format="json", auto_offset_reset="earliest"
    )
    consumer.subscribe([filled])
    take(consumer, 10)
    consumer.commit({(filled, 0): 3})
    service.restart()
    with pytest.raises(CommitLostError) as lost:
        consumer.commit()
    assert (lost.value.http_status, lost.value.error_code) == (404, 40403)
    assert consumer.subscription() == [filled]
    assert [record["value"] for record in take(consumer, 6)] == list(range(4, 10))
    consumer.commit()
    assert consumer.committed([(filled, 0)]) == {(filled, 0): 10}

    service.restart()
    client.produce(filled, 10)
    assert [record["value"] for record in take(consumer, 1)] == [10], "a fetch is sent again"
    consumer.close()


def test_a_commit_of_offsets_on_one_that_was_made_again_is_lost(client, filled, service):
    consumer = RESTConsumer("again", client=client, auto_offset_reset="earliest")
    consumer.subscribe([filled])
    take(consumer, 10)
    service.restart()
    with pytest.raises(CommitLostError) as lost:
        consumer.commit({(filled, 0): 9})
    assert (lost.value.http_status, lost.value.error_code) == (409, 40903)
    take(consumer, 10)
    consumer.commit({(filled, 0): 9})
    assert consumer.committed([(filled, 0)]) == {(filled, 0): 10}
    consumer.close()


def test_an_assignment_is_made_again(client, filled, service):
    with RESTConsumer("again", client=client, auto_offset_reset="earliest") as consumer:
        consumer.assign([(filled, 0)])
        take(consumer, 10)
        service.restart()
        assert consumer.assignment() == [(filled, 0)]
        assert len(take(consumer, 10)) == 10, "nothing was committed"


def test_without_recovery_a_lost_instance_is_an_error(client, filled, service):
    consumer = RESTConsumer("again", client=client, recover=False)
    service.restart()
    with pytest.raises(WebAPIError) as gone:
        consumer.subscribe([filled])
    assert (gone.value.http_status, gone.value.error_code) == (404, 40403)
    consumer.close()
