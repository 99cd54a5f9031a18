"""A member of a group: member.py CLIENT ASSIGNOR ADDRESS GROUP TOPIC TOPIC; without an assignor the broker assigns.

Reads what it is assigned, commits it, and goes when its input ends; prints the offsets that it read by topic, as
JSON. Its member id sorts before those of ours."""
import json
import select
import sys

client, assignor, address, group, *topics = sys.argv[1:]


def done():
    return bool(select.select([sys.stdin], [], [], 0)[0])


offsets = {}
if client == "librdkafka":
    from confluent_kafka import Consumer

    protocol = {"session.timeout.ms": 10000, "heartbeat.interval.ms": 500, "partition.assignment.strategy": assignor}
    if not assignor:
        protocol = {"group.protocol": "consumer"}
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "client.id": "foreign", **protocol})
    consumer.subscribe(topics)
    while not done():
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            offsets.setdefault(message.topic(), []).append(message.offset())
            consumer.commit(message, asynchronous=False)
    consumer.close()
else:
    from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = KafkaConsumer(*topics, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest",
                             enable_auto_commit=False, session_timeout_ms=10000, heartbeat_interval_ms=500,
                             partition_assignment_strategy=[assignors[assignor]], client_id="foreign")
    while not done():
        for partition, messages in consumer.poll(200).items():
            offsets.setdefault(partition.topic, []).extend(message.offset for message in messages)
            consumer.commit({TopicPartition(partition.topic, 0): OffsetAndMetadata(messages[-1].offset + 1, "", -1)})
    consumer.close()

print(json.dumps(offsets))
