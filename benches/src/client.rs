//! A client of the service that takes as little as it can beside it: a blocking socket that stays open, and replies that
//! are counted and thrown away.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    str,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use octopus_core::Format;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    stand::{SUBJECT, TOKEN},
    system::now,
};

/// The bytes that are read at once.
const BUFFER: usize = 256 * 1024;
/// Longer than any answer takes; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the service.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A reply, but for its body.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// The bytes of its body.
    pub length: usize,
    /// When its first byte was here.
    pub first_byte: Instant,
}

impl Client {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// Where nobody listens there.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER],
        })
    }

    /// Asks, and gives the body of the answer, which is a success.
    ///
    /// # Errors
    ///
    /// Where the answer is not one, or does not come whole.
    pub fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        self.send(request)?;
        let mut body = Vec::new();
        let reply = self.receive_into(|bytes| body.extend_from_slice(bytes))?;
        let text = String::from_utf8_lossy(&body);
        ensure!(matches!(reply.status, 200 | 204), "{} {text}", reply.status);
        Ok(body)
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// Where the connection is closed.
    pub fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(request)?)
    }

    /// The next reply, whose body is thrown away.
    ///
    /// # Errors
    ///
    /// Where it does not come whole, or has no length.
    pub fn receive(&mut self) -> Result<Reply> {
        self.receive_into(|_| ())
    }

    fn receive_into(&mut self, mut keep: impl FnMut(&[u8])) -> Result<Reply> {
        let mut filled = self.read(0, BUFFER)?;
        let first_byte = now();
        let body = loop {
            let end = self.buffer[..filled]
                .windows(4)
                .position(|four| four == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None => filled += self.read(filled, BUFFER)?,
            }
        };
        let head = str::from_utf8(&self.buffer[..body])?;
        let status = head.get(9..12).context("a status")?.parse()?;
        let named = |name| head.lines().find_map(move |line: &str| line.strip_prefix(name));
        if named("transfer-encoding:").is_some() {
            bail!("a reply without a length");
        }
        let length = named("content-length: ").map_or(Ok(0), str::parse)?;
        keep(&self.buffer[body..filled]);
        let mut left = length - (filled - body);
        while left > 0 {
            let read = self.read(0, left.min(BUFFER))?;
            keep(&self.buffer[..read]);
            left -= read;
        }
        Ok(Reply {
            status,
            length,
            first_byte,
        })
    }

    /// Reads into this part of the buffer.
    fn read(&mut self, from: usize, to: usize) -> Result<usize> {
        let read = self.stream.read(&mut self.buffer[from..to])?;
        ensure!(read > 0, "the connection ended in mid reply");
        Ok(read)
    }
}

/// A consumer instance, and the connection that it is used on.
#[derive(Debug)]
pub struct Instance {
    client: Client,
    path: String,
    format: Format,
    topic: String,
    fetch: Vec<u8>,
}

impl Instance {
    /// Makes an instance in a group of this name.
    ///
    /// # Errors
    ///
    /// Where the service refuses it.
    pub fn create(mut client: Client, group: &str, topic: &str, format: Format) -> Result<Self> {
        let path = format!("/api/v2/consumers/{group}");
        let word = match format {
            Format::Binary => "binary",
            Format::Json => "json",
        };
        let body = format!(r#"{{"name":"one","format":"{word}","auto.offset.reset":"earliest"}}"#);
        client.ask(&request("POST", &path, "", &body))?;
        let path = format!("{path}/instances/one");
        let accept = format!("Accept: application/vnd.kafka.{word}.v2+json\r\n");
        Ok(Self {
            client,
            fetch: request("GET", &format!("{path}/records?timeout=30000"), &accept, ""),
            path,
            format,
            topic: topic.to_owned(),
        })
    }

    /// As [`create`](Self::create), on a connection of its own, with the topic assigned.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn assigned(service: SocketAddr, group: &str, topic: &str, format: Format) -> Result<Self> {
        let mut instance = Self::create(Client::connect(service)?, group, topic, format)?;
        let partitions = format!(r#"{{"partitions":[{{"topic":"{topic}","partition":0}}]}}"#);
        instance.ask("POST", "/assignments", &partitions)?;
        Ok(instance)
    }

    /// Subscribes to the topic.
    ///
    /// # Errors
    ///
    /// Where the service refuses it.
    pub fn subscribe(&mut self) -> Result<()> {
        let topics = format!(r#"{{"topics":["{}"]}}"#, self.topic);
        self.ask("POST", "/subscription", &topics)
    }

    /// Goes back to the topic's first record.
    ///
    /// # Errors
    ///
    /// Where the service refuses it.
    pub fn rewind(&mut self) -> Result<()> {
        let offsets = format!(
            r#"{{"offsets":[{{"topic":"{}","partition":0,"offset":0}}]}}"#,
            self.topic
        );
        self.ask("POST", "/positions", &offsets)
    }

    /// Deletes the instance, and gives its connection back.
    ///
    /// # Errors
    ///
    /// Where the service refuses it.
    pub fn delete(mut self) -> Result<Client> {
        self.ask("DELETE", "", "")?;
        Ok(self.client)
    }

    /// Sends a fetch that waits for 30 s.
    ///
    /// # Errors
    ///
    /// Where the connection is closed.
    pub fn send_fetch(&mut self) -> Result<()> {
        self.client.send(&self.fetch)
    }

    /// The reply to a fetch, thrown away.
    ///
    /// # Errors
    ///
    /// Where it is no success, or does not come whole.
    pub fn receive(&mut self) -> Result<Reply> {
        let reply = self.client.receive()?;
        ensure!(reply.status == 200, "a fetch: {}", reply.status);
        Ok(reply)
    }

    /// Fetches until there are records, and throws them away.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive), or where none come.
    pub fn fetch_some(&mut self) -> Result<Reply> {
        let start = now();
        while start.elapsed() < PATIENCE {
            self.send_fetch()?;
            let reply = self.receive()?;
            if reply.length > "[]".len() {
                return Ok(reply);
            }
        }
        bail!("no records")
    }

    /// Reads a topic of this many values of this length from its first record to its last, and looks at each record: that
    /// none is missing, comes again or out of order, and that its value has its length.
    ///
    /// # Errors
    ///
    /// Where one does.
    pub fn check(&mut self, records: usize, bytes: usize) -> Result<Whole> {
        #[derive(Deserialize)]
        struct Record<'a> {
            offset: usize,
            #[serde(borrow)]
            value: &'a RawValue,
        }
        let value_length = match self.format {
            // Base64 in quotes.
            Format::Binary => bytes.div_ceil(3) * 4 + 2,
            Format::Json => bytes,
        };
        self.rewind()?;
        let (mut next, mut whole) = (0, 0);
        while next < records {
            let body = self.client.ask(&self.fetch)?;
            let list: Vec<Record<'_>> = serde_json::from_slice(&body)?;
            ensure!(!list.is_empty(), "{next} of {records} records");
            for record in list {
                ensure!(record.offset == next, "{} in place of {next}", record.offset);
                let length = record.value.get().len();
                ensure!(length == value_length, "a value of {length} bytes");
                next += 1;
            }
            whole += body.len() - 1;
        }
        ensure!(next == records, "{next} in place of {records} records");
        Ok(Whole(whole))
    }

    /// Reads a topic from its first record to its last, which [`rewind`](Self::rewind) and [`check`](Self::check) came
    /// before, and only counts bytes.
    ///
    /// # Errors
    ///
    /// Where a reply is no success, or the bytes are not those of the whole topic.
    pub fn drain(&mut self, whole: Whole) -> Result<()> {
        let mut bytes = 0;
        while bytes < whole.0 {
            bytes += self.fetch_some()?.length - 1;
        }
        ensure!(bytes == whole.0, "{bytes} bytes in place of {}", whole.0);
        Ok(())
    }

    fn ask(&mut self, method: &str, route: &str, body: &str) -> Result<()> {
        let path = format!("{}{route}", self.path);
        self.client.ask(&request(method, &path, "", body)).map(drop)
    }
}

/// The bytes of a topic's records and of a comma behind each: what replies with all of them have, but for one bracket of
/// each. It is the same wherever replies are cut.
#[derive(Debug, Clone, Copy)]
pub struct Whole(usize);

fn request(method: &str, path: &str, accept: &str, body: &str) -> Vec<u8> {
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nsubject: {SUBJECT}\r\nauthorization: Bearer {TOKEN}\r\n{accept}"
    );
    if method == "POST" {
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    (request + "\r\n" + body).into_bytes()
}
