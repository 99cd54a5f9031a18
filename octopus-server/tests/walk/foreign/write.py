"""Writes one set of records with librdkafka: write.py ADDRESS TOPIC COMPRESSION.

Prints, as JSON, the records that a binary and a json instance must return for them."""
import base64
import json
import sys

from confluent_kafka import Producer

address, topic, compression = sys.argv[1:]
short = topic.split(".", 1)[1]
odd = [("a", b"1"), ("a", None), ("b", b""), ("a", b"\xff\x00")]
RECORDS = [  # key, value, headers, and what a json instance shows for key and value
    (None, b'{"step": 7, "loss": 0.31}', [], None, {"step": 7, "loss": 0.31}),
    (b"", b"", odd, "", ""),
    (b"plain", None, [], "plain", None),
    (b'"quoted"', b" [1, 2.50, 1e2] ", [("trace", b"\x00\x01")], "quoted", [1, 2.5, 100.0]),
    (b"null", b"null", [], None, None),
    (b'{"a":1} {"b":2}', "naïve \u2028 text\t\"quoted\"\\".encode(), [], '{"a":1} {"b":2}', "naïve \u2028 text\t\"quoted\"\\"),
    (b"7", b"x" * 5000, [("h", b"v")] * 20, 7, "x" * 5000),
]
NOT_UTF8 = (b"\xff\xfe", b"\x00\x80", [], None, None)

failures = []
producer = Producer({"bootstrap.servers": address, "compression.type": compression, "linger.ms": 50,
                     "message.timeout.ms": 30000})
for key, value, headers, _, _ in [*RECORDS, NOT_UTF8]:
    producer.produce(topic, key=key, value=value, headers=headers or None, partition=0,
                     on_delivery=lambda error, _: error and failures.append(str(error)))
producer.flush(30)
assert not failures and not len(producer), failures


def b64(data):
    return None if data is None else base64.b64encode(data).decode()


def record(offset, key, value, headers):
    return {"topic": short, "key": key, "value": value, "partition": 0, "offset": offset,
            "headers": [{"name": name, "value": b64(data)} for name, data in headers]}


print(json.dumps({
    "binary": [record(i, b64(r[0]), b64(r[1]), r[2]) for i, r in enumerate([*RECORDS, NOT_UTF8])],
    "json": [record(i, r[3], r[4], r[2]) for i, r in enumerate(RECORDS)],
}))
