//! A client that shows the bytes: HTTP/1.1 by hand.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Longer than anything that a test waits for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const V2: &str = "application/vnd.kafka.v2+json";
pub(crate) const BINARY: &str = "application/vnd.kafka.binary.v2+json";
pub(crate) const JSON: &str = "application/vnd.kafka.json.v2+json";

/// A caller with a token.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) subject: String,
    pub(crate) token: String,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The status and the error code.
    pub(crate) fn error(&self) -> (u16, u64) {
        let code = self.json()["error_code"]
            .as_u64()
            .unwrap_or_else(|| panic!("no error: {self:?}"));
        (self.status, code)
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

impl Client {
    /// A request on a connection of its own, with a v2 content type where there is a body.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut connection = self.connect().await;
        connection.send(&self.head(method, path, headers, body)).await;
        connection.receive().await
    }

    /// As [`send`](Self::send); `None` where the server is not there, or leaves before its response is whole.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Response> {
        let stream = TcpStream::connect(self.address).await.ok()?;
        // A free port of loopback may be given to who asks for it: that is nobody but oneself.
        if stream.local_addr().ok()? == self.address {
            return None;
        }
        let mut connection = Connection {
            stream,
            read: Vec::new(),
        };
        let request = self.head(method, path, headers, body);
        connection.stream.write_all(request.as_bytes()).await.ok()?;
        connection.try_receive().await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Response {
        self.send("POST", path, &[], body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.send("DELETE", path, &[], "").await
    }

    /// A fetch of `instance` with an `Accept`.
    pub(crate) async fn fetch(&self, instance: &str, query: &str, accept: &str) -> Response {
        self.send(
            "GET",
            &format!("{instance}/records{query}"),
            &[("Accept", accept)],
            "",
        )
        .await
    }

    /// Fetches until a reply has records; a rebalance or a slow machine may give some empty ones first.
    pub(crate) async fn fetch_some(&self, instance: &str, query: &str, accept: &str) -> Vec<Value> {
        for _ in 0..60 {
            if let Value::Array(records) = self.fetch(instance, query, accept).await.expect(200).json()
                && !records.is_empty()
            {
                return records;
            }
        }
        panic!("no records of {instance}");
    }

    /// A connection whose fetch of 30 s holds the instance: another one is refused, and it has no answer. One that came
    /// between, or found records, is tried again.
    pub(crate) async fn polling(&self, instance: &str, accept: &str) -> Connection {
        let path = format!("{instance}/records?timeout=30000");
        let fetch = self.head("GET", &path, &[("Accept", accept)], "");
        for _ in 0..100 {
            let mut connection = self.connect().await;
            connection.send(&fetch).await;
            for _ in 0..10 {
                let is_held = self.fetch(instance, "?timeout=1", accept).await.status == 409;
                if connection.is_answered() {
                    break;
                }
                if is_held {
                    return connection;
                }
            }
        }
        panic!("the poll does not hold its instance");
    }

    /// The text of a request, for those who send it piece by piece.
    pub(crate) fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nsubject: {}\r\nauthorization: Bearer {}\r\n",
            self.address, self.subject, self.token
        );
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            if !headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            {
                text += &format!("Content-Type: {V2}\r\n");
            }
            text += &format!("Content-Length: {}\r\n", body.len());
        } else if method == "POST" {
            text += "Content-Length: 0\r\n";
        }
        text + "\r\n" + body
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::of(TcpStream::connect(self.address).await.expect("a connection"))
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) const fn of(stream: TcpStream) -> Self {
        Self {
            stream,
            read: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("a request sent");
    }

    /// Whether some of a response has come, or the connection's end.
    fn is_answered(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.stream.try_read(&mut bytes) {
            Ok(read) => {
                self.read.extend_from_slice(&bytes[..read]);
                true
            }
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// The next response, whole.
    pub(crate) async fn receive(&mut self) -> Response {
        self.try_receive().await.expect("a whole response")
    }

    /// The next response; `None` if the connection ends before it is whole.
    pub(crate) async fn try_receive(&mut self) -> Option<Response> {
        let end = loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await?;
        };
        let head: Vec<u8> = self.read.drain(..end).collect();
        let head = String::from_utf8(head).expect("a head of UTF-8");
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let header = |name: &str| {
            headers
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, value)| value.as_str())
        };
        let body = if let Some(length) = header("content-length") {
            let length = length.parse().expect("a length");
            self.take(length).await?
        } else if header("transfer-encoding") == Some("chunked") {
            self.chunks().await?
        } else {
            Vec::new()
        };
        Some(Response {
            status,
            headers,
            body,
        })
    }

    async fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = find(&self.read, b"\r\n") {
                    break end;
                }
                self.more().await?;
            };
            let size = std::str::from_utf8(&self.read[..end]).expect("a chunk's size");
            let size = usize::from_str_radix(size, 16).expect("a chunk's size");
            self.read.drain(..end + 2);
            body.extend(self.take(size).await?);
            assert_eq!(self.take(2).await?, b"\r\n");
            if size == 0 {
                return Some(body);
            }
        }
    }

    async fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.read.len() < length {
            self.more().await?;
        }
        Some(self.read.drain(..length).collect())
    }

    async fn more(&mut self) -> Option<()> {
        self.read.reserve(64 * 1024);
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.read))
            .await
            .expect("an answer in time");
        read.ok().filter(|&n| n > 0).map(|_| ())
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
