"""Writes seeded records with librdkafka until its input ends: write.py ADDRESS SEED RATE TOPIC...

RATE records a second, each to partition 0 of one of the topics, with acks=all and idempotence, a compression a topic;
besides them transactions to the first and the last topic, some committed, some aborted, the last one left open.
Prints a line for each record that is acknowledged, `TOPIC OFFSET HASH`, and at the end a line of counts. The offset is
`None` where the broker only says that it has the record from an earlier try."""
import base64
import hashlib
import random
import select
import sys
import threading
import time

from confluent_kafka import KafkaException, Producer

address, seed, rate, *topics = sys.argv[1:]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
counts = {"sent": 0, "refused": 0, "renewed": 0, "committed": 0, "aborted": 0, "open": 0}
output = threading.Lock()
ended = threading.Event()


def text(data):
    return "null" if data is None else base64.b64encode(data).decode()


def digest(key, value, headers):
    lines = [text(key), text(value)] + [f"{name}={text(data)}" for name, data in headers]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def size(rng):
    kind = rng.random()
    if kind < 0.70:
        return rng.randrange(1, 500)
    if kind < 0.95:
        return rng.randrange(500, 10_000)
    if kind < 0.9985:
        return rng.randrange(10_000, 100_000)
    return rng.randrange(1_000_000, 3_000_000) if kind < 0.9997 else rng.randrange(6_000_000, 8_000_000)


def data(rng, length):
    if rng.random() < 0.5:
        return rng.randbytes(length)
    return (rng.randbytes(40) * (length // 40 + 1))[:length]


def record(rng):
    key = rng.choice([None, b"", rng.randbytes(rng.randrange(1, 40)), f"key-{rng.randrange(100)}".encode()])
    kind = rng.random()
    value = None if kind < 0.02 else b"" if kind < 0.04 else data(rng, size(rng))
    names = ["trace", "trace", "n\u00e4me", ""]
    headers = [(rng.choice(names), rng.choice([None, b"", rng.randbytes(8)])) for _ in range(rng.choice([0, 0, 0, 1, 3]))]
    return key, value, headers


def send(producer, topic, rng):
    key, value, headers = record(rng)
    seen = digest(key, value, headers)

    def delivered(error, message):
        if error is not None:
            counts["refused"] += 1
            return
        with output:
            print(message.topic(), message.offset(), seen)

    while True:
        try:
            producer.produce(topic, key=key, value=value, headers=headers or None, partition=0, on_delivery=delivered)
            counts["sent"] += 1
            return
        except BufferError:
            producer.poll(0.1)


def config(codec, **more):
    return {"bootstrap.servers": address, "acks": "all", "enable.idempotence": True, "compression.type": codec,
            "linger.ms": 20, "message.timeout.ms": 300_000, "message.max.bytes": 9_000_000,
            "topic.metadata.refresh.interval.ms": 10_000, "reconnect.backoff.max.ms": 1000,
            "log_level": 0, **more}


class Writer:
    """A producer for a compression, made again where librdkafka calls an error of it fatal."""

    def __init__(self, codec):
        self.codec = codec
        self.open()

    def open(self):
        self.fatal = False
        self.producer = Producer(config(self.codec, error_cb=self.failed))

    def failed(self, error):
        self.fatal = self.fatal or error.fatal()

    def write(self, topic, rng):
        try:
            send(self.producer, topic, rng)
        except KafkaException:
            self.fatal = True
        if self.fatal:
            self.producer.flush(10)
            counts["renewed"] += 1
            self.open()


def transact(rng):
    """Transactions, one after the other."""
    producer = None
    while not ended.is_set():
        try:
            if producer is None:
                producer = Producer(config("lz4", **{
                    "transactional.id": f"checker-{seed}", "transaction.timeout.ms": 60_000,
                    "message.timeout.ms": 50_000}))
                producer.init_transactions(30)
            producer.begin_transaction()
            for _ in range(rng.randrange(1, 20)):
                send(producer, rng.choice([topics[0], topics[-1]]), rng)
            producer.flush(30)
            ended.wait(rng.random() * 1.5)
            if ended.is_set():
                counts["open"] += 1
                return producer
            if rng.random() < 0.5:
                producer.commit_transaction(30)
                counts["committed"] += 1
            else:
                producer.abort_transaction(30)
                counts["aborted"] += 1
        except KafkaException:
            # What it was at ends with its id's next holder.
            counts["renewed"] += 1
            producer = None
            ended.wait(1)
    return producer


def main():
    rng = random.Random(int(seed))
    writers = {topic: Writer(CODECS[i % len(CODECS)]) for i, topic in enumerate(topics)}
    transactions = threading.Thread(target=transact, args=[random.Random(rng.random())])
    transactions.start()
    while not ended.is_set():
        start = time.monotonic()
        burst = 10 if rng.random() < 0.02 else 1
        for _ in range(max(1, int(rate) // 10) * burst):
            topic = rng.choice(topics)
            writers[topic].write(topic, rng)
        for writer in writers.values():
            writer.producer.poll(0)
        with output:
            sys.stdout.flush()
        rest = max(0.0, start + 0.1 - time.monotonic())
        if select.select([sys.stdin], [], [], rest)[0]:
            ended.set()
    transactions.join()
    unanswered = sum(writer.producer.flush(90) for writer in writers.values())
    print("end", *[f"{name}={count}" for name, count in counts.items()], f"unanswered={unanswered}")


main()
