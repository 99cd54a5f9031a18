//! Requests that are written as they stand, and what an error looks like on the wire.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{Client, Response};

/// The path of a group's creates.
pub(crate) const GROUP: &str = "/api/v2/consumers/g";
/// The instance of most tests.
pub(crate) const INSTANCE: &str = "/api/v2/consumers/g/instances/i";

/// A request, byte by byte: nothing is added to it but the length of its body.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    address: SocketAddr,
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Raw {
    /// A user's request with the headers that each one has, without a body.
    pub(crate) fn of(user: &Client, method: &str, target: &str) -> Self {
        let bare = Self {
            address: user.address,
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        bare.add("Host", user.address.to_string())
            .add("subject", &user.subject)
            .add("authorization", format!("Bearer {}", user.token))
    }

    /// One header line more.
    pub(crate) fn add(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// The only line of a header.
    pub(crate) fn set(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).add(name, value)
    }

    /// No line of a header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// A body, of no type that is named.
    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Its head, as far as the header lines go.
    fn head(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    /// Sends it on a connection of its own.
    pub(crate) async fn send(&self) -> Response {
        let mut bytes = self.head();
        if self.method == "HEAD" {
            // Its reply has a length and no body: only the connection's end shows where it ends.
            bytes.extend_from_slice(b"Connection: close\r\n");
        }
        if !self.body.is_empty() || self.method == "POST" {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        self.exchange(&bytes).await
    }

    /// Sends its body in chunks of these lengths' bytes, and the end only if it is asked for.
    pub(crate) async fn send_chunked(&self, chunk: usize, is_ended: bool) -> Response {
        let mut bytes = self.head();
        bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for part in self.body.chunks(chunk) {
            bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        if is_ended {
            bytes.extend_from_slice(b"0\r\n\r\n");
        }
        self.exchange(&bytes).await
    }

    /// Sends only its head, which says that a body of this length follows.
    pub(crate) async fn announce(&self, length: usize) -> Response {
        let mut bytes = self.head();
        bytes.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
        self.exchange(&bytes).await
    }

    async fn exchange(&self, bytes: &[u8]) -> Response {
        let user = Client {
            address: self.address,
            subject: String::new(),
            token: String::new(),
        };
        let mut connection = user.connect().await;
        // What is refused unread may not be taken whole.
        let _ = connection.stream.write_all(bytes).await;
        if self.method != "HEAD" {
            return connection.receive().await;
        }
        let mut text = String::new();
        connection
            .stream
            .read_to_string(&mut text)
            .await
            .expect("a reply");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        Response {
            status: status.and_then(|text| text.parse().ok()).expect("a status"),
            headers: lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            body: body.as_bytes().to_vec(),
        }
    }
}

/// Checks that a reply is an error in its one form: this status, this code, and a message with these words and with
/// nothing of Kafka's [RT-04].
#[track_caller]
pub(crate) fn is_error(what: &str, reply: &Response, status: u16, code: u64, words: &str) {
    let body = reply.json();
    let fields = body.as_object().unwrap_or_else(|| panic!("{what}: {reply:?}"));
    let (found, message) = (body["error_code"].as_u64(), body["message"].as_str());
    assert_eq!((reply.status, found), (status, Some(code)), "{what}: {body}");
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(names, ["error_code", "message"], "{what}: nothing else");
    let message = message.unwrap_or_else(|| panic!("{what}: {body}"));
    assert!(message.contains(words), "{what}: {message:?} names {words:?}");
    assert!(message.len() < 512, "{what}: a short message");
    for inside in ["ns-", "Error", "_", "127.0.0.1", "broker"] {
        // The names of a request's fields and types are the caller's own.
        let told = message.replace("max_bytes", "").replace("topic_pattern", "");
        assert!(
            words.contains(inside) || !told.contains(inside),
            "{what}: {message:?} tells of {inside:?}"
        );
    }
}

/// A JSON text as a value.
pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {text}"))
}
