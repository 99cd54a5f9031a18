"""Writes a record every 300 ms or so, 60 of them: ADDRESS USER PASSWORD TOPIC."""

import sys
import time

from confluent_kafka import Producer

address, user, password, topic = sys.argv[1:]
written = []
producer = Producer(
    {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": password,
        "linger.ms": 0,
        "enable.idempotence": True,
        "log_level": 0,
    }
)
for number in range(60):
    producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: error or written.append(1))
    producer.poll(0.1)
    time.sleep(0.2)
producer.flush(30)
print("written", len(written))
