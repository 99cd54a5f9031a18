//! A client that reads a reply as slowly as it likes.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// Longer than anything that a test waits for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection, and where in a reply it is.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) stream: TcpStream,
    held: Vec<u8>,
    at: At,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Head,
    /// So many bytes of a body with a known length.
    Length(usize),
    /// A chunk's size.
    Size,
    /// So many bytes of a chunk.
    Chunk(usize),
    /// What ends a chunk.
    ChunkEnd,
    End,
}

impl Reader {
    /// A connection whose client's kernel takes about this many bytes that nobody reads.
    pub(crate) async fn with_window(addr: SocketAddr, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self {
            stream: socket.connect(addr).await.unwrap(),
            held: Vec::new(),
            at: At::Head,
        }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads the head of a reply: its status line and headers.
    pub(crate) async fn head(&mut self) -> String {
        assert_eq!(self.at, At::Head);
        let head = self.until(b"\r\n\r\n").await.expect("a head");
        let lower = head.to_ascii_lowercase();
        self.at = match lower.split_once("content-length: ") {
            Some((_, rest)) => At::Length(rest.split_once("\r\n").unwrap().0.parse().unwrap()),
            None if lower.contains("transfer-encoding: chunked") => At::Size,
            None => At::End,
        };
        head
    }

    /// Reads some of the body, at most `most` bytes; nothing at its end.
    ///
    /// # Errors
    ///
    /// Where the connection ends before the body does.
    pub(crate) async fn some(&mut self, most: usize) -> io::Result<Vec<u8>> {
        loop {
            match self.at {
                At::Head => panic!("the head comes first"),
                At::End => return Ok(Vec::new()),
                At::Size => {
                    let size = self.until(b"\r\n").await?;
                    self.at = At::Chunk(usize::from_str_radix(size.trim_end(), 16).unwrap());
                }
                At::ChunkEnd => {
                    assert_eq!(self.until(b"\r\n").await?, "\r\n");
                    self.at = At::Size;
                }
                At::Chunk(0) => {
                    assert_eq!(self.until(b"\r\n").await?, "\r\n");
                    self.at = At::End;
                }
                At::Length(0) => self.at = At::End,
                At::Length(left) => {
                    let some = self.take(most.min(left)).await?;
                    self.at = At::Length(left - some.len());
                    return Ok(some);
                }
                At::Chunk(left) => {
                    let some = self.take(most.min(left)).await?;
                    self.at = match left - some.len() {
                        0 => At::ChunkEnd,
                        left => At::Chunk(left),
                    };
                    return Ok(some);
                }
            }
        }
    }

    /// Some of what came, at most so much.
    async fn take(&mut self, most: usize) -> io::Result<Vec<u8>> {
        if self.held.is_empty() {
            self.more().await?;
        }
        let count = most.min(self.held.len());
        Ok(self.held.drain(..count).collect())
    }

    /// Reads the rest of the body; gives its length, or how much came before the connection's end.
    ///
    /// # Errors
    ///
    /// Where the connection ends before the body does.
    pub(crate) async fn rest(&mut self) -> Result<usize, usize> {
        let mut length = 0;
        loop {
            match self.some(usize::MAX).await {
                Ok(some) if some.is_empty() => return Ok(length),
                Ok(some) => length += some.len(),
                Err(_) => return Err(length),
            }
        }
    }

    async fn until(&mut self, end: &[u8]) -> io::Result<String> {
        loop {
            if let Some(at) = self.held.windows(end.len()).position(|window| window == end) {
                return Ok(String::from_utf8(self.held.drain(..at + end.len()).collect()).unwrap());
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> io::Result<()> {
        self.held.reserve(64 * 1024);
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.held)).await;
        match read.expect("something in time")? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
