//! Starts a real Apache Kafka for tests, prints its address, and ends it when its input ends.
//!
//! `cargo run -p octopus-kafka --features testing --example kafka [VERSION [NODES]]`: 3.9.2 or 4.4.0 (the default), and
//! one node (the default) or three.
#![expect(clippy::print_stdout, reason = "the address is what it is asked for")]

use std::{
    env,
    io::{self, Read, Write},
};

use octopus_kafka::testing::{Node, Nodes, Release};

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1);
    let release = args
        .next()
        .map_or_else(|| Ok(Release::default()), |version| version.parse())?;
    let (node, nodes);
    let address = match args.next().as_deref() {
        None | Some("1") => {
            node = Node::start(release)?;
            node.address()
        }
        Some("3") => {
            nodes = Nodes::start(release)?;
            nodes.address()
        }
        Some(_) => return Err(io::Error::other("one node or three")),
    };
    println!("{address}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
