//! The binary on a real cluster that fails: three nodes of Apache Kafka that are killed, stopped, rolled and reassigned
//! while librdkafka writes, and a checker that compares what is read by HTTP with what was acknowledged. It needs Java,
//! Maven, and in `OCTOPUS_TEST_PYTHON` a Python that has confluent-kafka; without that it says so and does nothing.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::disallowed_methods,
    reason = "how long things take is asked of the real clock"
)]
#![allow(clippy::print_stdout, reason = "what the checker says is what it is for")]

mod admin;
mod check;
mod faults;
mod ledger;
mod named;
mod reader;
mod seed;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
mod world;
mod writer;
