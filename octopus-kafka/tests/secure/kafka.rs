//! A real Apache Kafka with SASL_PLAINTEXT, SASL_SSL and mutual TLS. Runs where `OCTOPUS_TEST_KAFKA` is `maven`.
