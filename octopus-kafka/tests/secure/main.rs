//! The way to Kafka with TLS and a sign-in: against listeners of the test's own, and against a real Apache Kafka where
//! `OCTOPUS_TEST_KAFKA` is set.

mod certificate;
mod front;
mod kafka;
mod tls;
