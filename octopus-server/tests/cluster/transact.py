"""Writes with transactions of librdkafka: transact.py ADDRESS TOPIC. Prints `[value, offset]` pairs in JSON for what it
wrote: two records in a transaction that is committed, two in one that is aborted, one outside, and two in one that
is left open."""
import json
import sys

from confluent_kafka import Producer

address, topic = sys.argv[1:]
written = []


def write(producer, *values):
    def delivered(error, message):
        assert error is None, error
        written.append([message.value().decode(), message.offset()])

    for value in values:
        producer.produce(topic, value=value, partition=0, on_delivery=delivered)
    assert producer.flush(30) == 0


def transactional(name):
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"{topic}-{name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


first = transactional("first")
write(first, "committed-0", "committed-1")
first.commit_transaction(30)
first.begin_transaction()
write(first, "aborted-0", "aborted-1")
first.abort_transaction(30)
write(Producer({"bootstrap.servers": address}), "outside")
write(transactional("second"), "open-0", "open-1")
print(json.dumps(written), flush=True)
