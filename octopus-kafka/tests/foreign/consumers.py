"""Members of a group that the broker assigns in: ADDRESS TOPIC ASSIGNOR. Prints what they have, line by line."""

import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

address, topic, assignor = sys.argv[1:]


def member():
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "group.protocol": "consumer",
            "group.remote.assignor": assignor,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    return consumer


def partitions(consumer):
    return sorted(part.partition for part in consumer.assignment())


def wait(members, done):
    end = time.time() + 60
    while not done():
        if time.time() > end:
            raise SystemExit("not in time: %s" % [partitions(m) for m in members])
        for consumer in members:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                records.append(message)


records = []
one = member()
wait([one], lambda: len(partitions(one)) == 4)
print("alone", partitions(one))
two = member()
both = [one, two]
wait(both, lambda: [len(partitions(m)) for m in both] == [2, 2])
print("shared", *[len(partitions(m)) for m in both], "together", sorted(partitions(one) + partitions(two)))
producer = Producer({"bootstrap.servers": address, "log_level": 0})
for number in range(100):
    producer.produce(topic, b"%d" % number, partition=number % 4)
producer.flush(30)
wait(both, lambda: len(records) == 100)
for consumer in both:
    consumer.commit(asynchronous=False)
committed = one.committed([TopicPartition(topic, p) for p in range(4)], 30)
print("read", len({m.value() for m in records}), "committed", sum(part.offset for part in committed))
two.close()
wait([one], lambda: len(partitions(one)) == 4)
print("alone", partitions(one))
one.close()
