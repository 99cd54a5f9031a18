//! Starts one node of a real Apache Kafka for tests, prints its address, and ends it when its input ends.
//!
//! `cargo run -p octopus-kafka --features testing --example kafka`
#![expect(clippy::print_stdout, reason = "the address is what it is asked for")]

use std::io::{self, Read, Write};

fn main() -> io::Result<()> {
    let node = octopus_kafka::testing::Node::start()?;
    println!("{}", node.address());
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
