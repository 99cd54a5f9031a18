//! A client that sends and reads raw bytes.

use std::{io, mem, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::server::{SOON, Server, assert_sent};

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::over(TcpSocket::new_v4().unwrap(), server.addr).await
    }

    /// A client whose kernel takes about this many bytes that nobody reads.
    pub(crate) async fn with_window(addr: SocketAddr, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self::over(socket, addr).await
    }

    async fn over(socket: TcpSocket, addr: SocketAddr) -> Self {
        let stream = socket.connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            read: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn get(&mut self, path: &str) {
        self.send(get(path)).await;
    }

    /// Reads one reply.
    pub(crate) async fn reply(&mut self) -> Reply {
        timeout(SOON, self.reply_in_time()).await.expect("no reply")
    }

    async fn reply_in_time(&mut self) -> Reply {
        let head = self.head().await;
        let mut body = Vec::new();
        if head.contains("transfer-encoding: chunked") {
            loop {
                let line = self.until(b"\r\n").await;
                let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
                let chunk = self.exactly(length + 2).await;
                body.extend_from_slice(&chunk[..length]);
                if length == 0 {
                    break;
                }
            }
        } else if let Some((_, rest)) = head.split_once("content-length: ") {
            let length = rest.split_once("\r\n").unwrap().0.parse().unwrap();
            body = self.exactly(length).await;
        }
        assert_sent(&body, 0);
        Reply { head, body }
    }

    pub(crate) async fn head(&mut self) -> String {
        self.until(b"\r\n\r\n").await
    }

    async fn until(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end) {
                return String::from_utf8(self.read.drain(..at + end.len()).collect()).unwrap();
            }
            let count = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(count, 0, "the end came first");
        }
    }

    async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.read.len() < count {
            let more = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(more, 0, "the end came first");
        }
        let rest = self.read.split_off(count);
        mem::replace(&mut self.read, rest)
    }

    /// Reads bytes of a body, at most `most` and at least one; what came with the head first.
    pub(crate) async fn some(&mut self, most: usize) -> Vec<u8> {
        if self.read.is_empty() {
            self.read.reserve(most);
            let mut stream = (&mut self.stream).take(most as u64);
            let count = stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(count, 0, "the end came first");
        }
        let rest = self.read.split_off(most.min(self.read.len()));
        mem::replace(&mut self.read, rest)
    }

    /// The server closed the connection in order, and had nothing more to say.
    pub(crate) async fn is_closed(&mut self) {
        assert!(self.read.is_empty());
        let mut byte = [0];
        let count = timeout(SOON, self.stream.read(&mut byte))
            .await
            .expect("still open");
        assert_eq!(count.unwrap(), 0, "more came");
    }

    /// The server closed the connection, over bytes that it had read or not.
    pub(crate) async fn is_closed_or_reset(&mut self) {
        assert!(self.read.is_empty());
        let mut byte = [0];
        match timeout(SOON, self.stream.read(&mut byte))
            .await
            .expect("still open")
        {
            Ok(count) => assert_eq!(count, 0, "more came"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }

    /// The server reset the connection, at the latest after what the kernel had already taken.
    pub(crate) async fn is_reset(&mut self) {
        let mut scrap = Vec::with_capacity(1 << 20);
        let end = timeout(SOON, async {
            loop {
                scrap.clear();
                match self.stream.read_buf(&mut scrap).await {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) => return Some(error.kind()),
                }
            }
        });
        let end = end.await.expect("still open");
        assert_eq!(end, Some(io::ErrorKind::ConnectionReset));
    }

    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: octopus\r\n\r\n")
}
