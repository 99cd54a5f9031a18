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
    import os

    from kafka import KafkaConsumer

    class Told(logging.Handler):
        """Ends at the first refusal: the client itself goes on trying."""

        def emit(self, record):
            if "SaslAuthenticationFailedError" in record.getMessage():
                print("refused", flush=True)
                os._exit(0)

    logging.getLogger("kafka").addHandler(Told())
    consumer = KafkaConsumer(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=password,
        api_version_auto_timeout_ms=30000,
    )
    print(sorted(consumer.topics()))
