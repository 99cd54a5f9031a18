#!/usr/bin/env python3
"""Makes the batches in this folder again: what librdkafka and Kafka itself wrote, as a fetch returns it.

    python3 -m venv VENV && VENV/bin/pip install confluent-kafka==2.16.1
    VENV/bin/python make.py 127.0.0.1:9092

The address is that of one Kafka node on which topics may be made; the topics it makes stay there.

    rdkafka-CODEC.bin        a batch that librdkafka compressed
    broker-CODEC.bin         the same records, compressed by the broker (the topic's compression.type)
    append-time.bin          a topic whose message.timestamp.type is LogAppendTime
    transactions.bin         a committed and an aborted transaction with their markers, and a record behind them
"""
import socket
import struct
import sys
import uuid
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TIME = 1_700_000_000_000
RECORDS = [
    (None, None, []),
    (b"", b"", []),
    (b'{"id": 1}', b'{"text": "caf\xc3\xa9", "list": [1, 2.5e3, null, true]}', [("trace", b"1")]),
    (b"text", "Grüße, мир, 世界 🐙".encode(), [("a", b"1"), ("b", None), ("a", b"2"), ("a", None), ("", b"")]),
    (b"\xff\xfe", b"\x00\x80\xc3", [("bytes", b"\xff\x00")]),
    (b"large", b"0123456789abcdef" * 2500, []),
    (b"\x00" * 300, None, [("h%d" % i, b"v" * i) for i in range(130)]),
]


def make_topic(admin, **config):
    name = "golden-" + uuid.uuid4().hex
    new = NewTopic(name, num_partitions=1, replication_factor=1, config=config)
    admin.create_topics([new])[name].result(30)
    return name


def send(producer, topic, records):
    for i, (key, value, headers) in enumerate(records):
        # 60 days lie between two records: more milliseconds than 32 bits hold.
        producer.produce(topic, value, key, partition=0, timestamp=TIME + i * 60 * 86_400_000, headers=headers)


def fetch_all(address, topic, end):
    """The partition's batches up to the offset `end`, each as a fetch returns it."""
    whole, offset = b"", 0
    while offset < end:
        part = fetch(address, topic, offset)
        at = 0
        while at < len(part):
            base, length = struct.unpack_from(">qi", part, at)
            (delta,) = struct.unpack_from(">i", part, at + 23)
            offset = base + delta + 1
            at += 12 + length
        whole += part
    return whole


def fetch(address, topic, offset):
    """The partition's records from an offset on, by Fetch version 4."""
    name = topic.encode()
    body = struct.pack(">iiiibi", -1, 1000, 1, 1 << 24, 0, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iiqi", 1, 0, offset, 1 << 24)
    request = struct.pack(">hhih", 1, 4, 7, 4) + b"gold" + body
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        frame = stream.read(length)
    at = 4 + 4 + 4 + 2 + len(name) + 4  # correlation id, throttle, topics, name, partitions
    _, error, _, _, aborted = struct.unpack_from(">ihqqi", frame, at)
    assert error == 0, error
    at += 26 + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", frame, at)
    return frame[at + 4 : at + 4 + size]


def main(address):
    here = Path(__file__).parent
    admin = AdminClient({"bootstrap.servers": address})
    common = {"bootstrap.servers": address, "linger.ms": 200, "acks": "all"}

    def write(topic_config, producer_config, file):
        topic = make_topic(admin, **topic_config)
        producer = Producer(common | producer_config)
        send(producer, topic, RECORDS)
        producer.flush(30)
        (here / file).write_bytes(fetch_all(address, topic, len(RECORDS)))

    for codec in CODECS:
        write({}, {"compression.type": codec}, f"rdkafka-{codec}.bin")
        if codec != "none":
            write({"compression.type": codec}, {}, f"broker-{codec}.bin")
    write({"message.timestamp.type": "LogAppendTime"}, {"compression.type": "lz4"}, "append-time.bin")

    topic = make_topic(admin)
    transactional = Producer(common | {"transactional.id": uuid.uuid4().hex})
    transactional.init_transactions(60)
    for records, end in [
        (RECORDS[:2], transactional.commit_transaction),
        (RECORDS[2:4], transactional.abort_transaction),
    ]:
        transactional.begin_transaction()
        send(transactional, topic, records)
        transactional.flush(30)
        end(60)
    plain = Producer(common)
    send(plain, topic, RECORDS[4:5])
    plain.flush(30)
    (here / "transactions.bin").write_bytes(fetch_all(address, topic, 7))


if __name__ == "__main__":
    main(sys.argv[1])
