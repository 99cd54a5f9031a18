"""Signs in and lists the topics: CLIENT ADDRESS MECHANISM USER PASSWORD. Prints them, or `refused`."""

import sys

client, address, mechanism, user, password = sys.argv[1:]

if client == "librdkafka":
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    errors = []
    admin = AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    try:
        print(sorted(admin.list_topics(timeout=30 if password != "wrong" else 3).topics))
    except KafkaException:
        admin.poll(1)
        told = any(error.code() == KafkaError._AUTHENTICATION for error in errors)
        print("refused" if told else errors)
else:
    import logging

    from kafka import KafkaConsumer
    from kafka.errors import KafkaError, NoBrokersAvailable, SaslAuthenticationFailedError

    logging.disable(logging.CRITICAL)
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
            bootstrap_timeout_ms=30000 if password != "wrong" else 3000,
            api_version_auto_timeout_ms=30000 if password != "wrong" else 3000,
        )
        print(sorted(consumer.topics()))
    except (SaslAuthenticationFailedError, NoBrokersAvailable):
        print("refused")
