"""Asks and changes a cluster: admin.py ADDRESS. A line of JSON in, `[COMMAND, ARGUMENT...]`, a line of JSON out, the
result or `{"error": TEXT}`, until the input ends."""
import json
import socket
import struct
import sys

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

address = sys.argv[1]
client = AdminClient({"bootstrap.servers": address, "reconnect.backoff.max.ms": 500, "log_level": 0,
                      "topic.metadata.refresh.interval.ms": 2000, "socket.timeout.ms": 10000})


def partition(topic):
    return client.list_topics(topic, timeout=5).topics[topic].partitions[0]


def create(topic, config):
    replicas = len(address.split(","))
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=config)
    client.create_topics([new], operation_timeout=10)[topic].result()


def delete(topic):
    client.delete_topics([topic], operation_timeout=10)[topic].result()


def leader(topic):
    return partition(topic).leader


def coordinator(group):
    return client.describe_consumer_groups([group], request_timeout=5)[group].result().coordinator.id


def whole():
    """Whether every partition has a leader and three replicas in sync."""
    cluster = client.list_topics(timeout=5)
    return len(cluster.brokers) == 3 and all(
        part.leader > 0 and len(part.isrs) == len(part.replicas) == 3
        for topic in cluster.topics.values() for part in topic.partitions.values())


def in_sync(topic):
    part = partition(topic)
    return [sorted(part.replicas), sorted(part.isrs)]


def elect(topic):
    asked = [TopicPartition(topic, 0)]
    client.elect_leaders(ElectionType.PREFERRED, asked).result()


def delete_records(topic, offset):
    asked = [TopicPartition(topic, 0, offset)]
    for future in client.delete_records(asked, request_timeout=5, operation_timeout=5).values():
        return future.result().low_watermark


def reassign(topic, replicas):
    """AlterPartitionReassignments, version 0, which librdkafka does not have; a broker hands it to the controller."""
    name = topic.encode()
    body = struct.pack(">iB", 5000, 2) + bytes([len(name) + 1]) + name + struct.pack(">BiB", 2, 0, len(replicas) + 1)
    body += struct.pack(f">{len(replicas)}i", *replicas) + b"\0\0\0"
    request = struct.pack(">hhih", 45, 0, 1, 5) + b"admin" + b"\0" + body
    for broker in address.split(","):
        host, port = broker.split(":")
        try:
            with socket.create_connection((host, int(port)), 2) as stream:
                stream.settimeout(8)
                stream.sendall(struct.pack(">i", len(request)) + request)
                answer = stream.makefile("rb")
                length, = struct.unpack(">i", answer.read(4))
                frame = answer.read(length)
                break
        except (OSError, struct.error) as error:
            failed = error
    else:
        raise failed
    # The correlation id, no tags, the throttle; the error; a text; a topic's name; its partition and its error.
    code, = struct.unpack_from(">h", frame, 9)
    at = 11 + max(frame[11], 1) + 1
    at += frame[at] + 1
    own, = struct.unpack_from(">h", frame, at + 4)
    if code or own:
        raise RuntimeError(f"reassignment: {code}, {own}")


COMMANDS = {command.__name__: command for command in [
    create, delete, leader, coordinator, whole, in_sync, elect, delete_records, reassign]}
for line in sys.stdin:
    command, *arguments = json.loads(line)
    try:
        result = COMMANDS[command](*arguments)
    except Exception as error:
        result = {"error": f"{command}: {error!r}"}
    print(json.dumps(result), flush=True)
