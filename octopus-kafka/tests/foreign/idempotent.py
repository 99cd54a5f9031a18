"""Writes COUNT numbers as an idempotent producer, and reads them back: ADDRESS TOPIC COUNT. Prints how many were
acknowledged, and whether each is there once and in its order."""

import sys
import time

from confluent_kafka import Consumer, Producer

address, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
written = []
producer = Producer(
    {
        "bootstrap.servers": address,
        "enable.idempotence": True,
        "linger.ms": 1,
        "batch.num.messages": 20,
        "retry.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
)
for number in range(count):
    producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: error or written.append(1))
    producer.poll(0)
    if number % 50 == 0:
        time.sleep(0.02)
producer.flush(60)
print("written", len(written))

consumer = Consumer(
    {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
)
consumer.subscribe([topic])
read = []
deadline = time.monotonic() + 30
while len(read) < count and time.monotonic() < deadline:
    message = consumer.poll(1)
    if message is not None and not message.error():
        read.append(int(message.value()))
print("in order" if read == list(range(count)) else read)
consumer.close()
