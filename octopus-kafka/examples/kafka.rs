//! Starts a real Apache Kafka for tests, prints its address, and ends it when its input ends.
//!
//! `cargo run -p octopus-kafka --features testing --example kafka [VERSION [NODES]]`: 3.9.2 or 4.4.0 (the default), and
//! one node (the default) or three. With `secured FILE` in their place it is a node of 4.4.0 with users and rules for
//! them, the address is that of a listener with SASL, and the password of its user `octopus` is what stands in the file.
#![expect(clippy::print_stdout, reason = "the address is what it is asked for")]

use std::{
    env, fs,
    io::{self, Read, Write},
    time::Duration,
};

use octopus_kafka::testing::{Node, Nodes, Release, Secured};

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "secured").is_some() {
        let file = args
            .next()
            .ok_or_else(|| io::Error::other("the file of a password"))?;
        let node = secured(fs::read_to_string(file)?.trim_end())?;
        return serve(node.sasl_address());
    }
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
    serve(&address)
}

fn serve(address: &str) -> io::Result<()> {
    println!("{address}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn secured(password: &str) -> io::Result<Node> {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
    Node::start_secured(&Secured {
        identity: format!("{}{}", signing_key.serialize_pem(), cert.pem()),
        clients: cert.pem(),
        password: password.to_owned(),
        session: Duration::from_secs(60),
        advertised: None,
    })
}
