//! A client that sends and reads raw bytes.

use std::{io, mem, net::Shutdown};

use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    time::timeout,
};

use crate::{
    frames::{
        ACK, CANCEL, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
        SETTINGS, WINDOW_UPDATE, headers, status,
    },
    over::{Over, Stream},
    server::{Door, SOON, assert_sent},
};

pub(crate) struct Client {
    pub(crate) stream: Stream,
    pub(crate) over: Over,
    read: Vec<u8>,
    /// Of HTTP/2: the stream of the last request.
    pub(crate) last: u32,
    /// Frames of other streams are not looked at.
    pub(crate) others_are_ignored: bool,
    /// The body's bytes that were not asked for yet.
    body: Vec<u8>,
    is_body_whole: bool,
}

pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(door: Door) -> Self {
        Self::by(TcpSocket::new_v4().unwrap(), door).await
    }

    /// A client whose kernel takes about this many bytes that nobody reads.
    pub(crate) async fn with_window(door: Door, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self::by(socket, door).await
    }

    async fn by(socket: TcpSocket, door: Door) -> Self {
        let stream = socket.connect(door.addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Self {
            stream: Stream::of(stream, door.over).await,
            over: door.over,
            read: Vec::new(),
            last: 0,
            others_are_ignored: false,
            body: Vec::new(),
            is_body_whole: false,
        };
        if door.over == Over::Http2 {
            client.send(PREFACE).await;
            client.send_frame(SETTINGS, 0, 0, &[]).await;
        }
        client
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub(crate) async fn send_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send(Frame::new(kind, flags, stream, payload).bytes()).await;
    }

    pub(crate) async fn get(&mut self, path: &str) {
        match self.over {
            Over::Http1 | Over::Https1 => self.send(get(path)).await,
            Over::Http2 => self.ask("GET", path, END_STREAM, &[]).await,
        }
    }

    /// Sends a request's head of HTTP/2.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, flags: u8, more: &[(&str, &str)]) {
        self.last += if self.last == 0 { 1 } else { 2 };
        let list = headers(method, path, more);
        self.send_frame(HEADERS, flags | END_HEADERS, self.last, &list)
            .await;
        self.body.clear();
        self.is_body_whole = false;
    }

    /// Sends a request that has a body of this length, and some of it.
    pub(crate) async fn post(&mut self, path: &str, length: usize, some: &str) {
        let length = length.to_string();
        match self.over {
            Over::Http1 | Over::Https1 => {
                let head =
                    format!("POST {path} HTTP/1.1\r\nHost: octopus\r\nContent-Length: {length}\r\n\r\n");
                self.send(head + some).await;
            }
            Over::Http2 => {
                self.ask("POST", path, 0, &[("content-length", &length)]).await;
                self.send_frame(DATA, 0, self.last, some.as_bytes()).await;
            }
        }
    }

    /// Sends the first byte of a next request.
    pub(crate) async fn begin(&mut self) {
        match self.over {
            Over::Http1 | Over::Https1 => self.send("G").await,
            Over::Http2 => self.send([0]).await,
        }
    }

    /// Makes the windows wide again by what a frame of data took.
    pub(crate) async fn widen(&mut self, frame: &Frame) {
        let count = u32::try_from(frame.payload.len()).unwrap().to_be_bytes();
        if !frame.payload.is_empty() {
            self.send_frame(WINDOW_UPDATE, 0, 0, &count).await;
            if !frame.has(END_STREAM) {
                self.send_frame(WINDOW_UPDATE, 0, frame.stream, &count).await;
            }
        }
    }

    /// Reads what came for requests that were given up, and makes the connection's window wide again.
    pub(crate) async fn drain(&mut self) {
        let mut count = self.body.len();
        self.body.clear();
        // What is on its way comes before the answer.
        self.send_frame(PING, 0, 0, &[7; 8]).await;
        loop {
            let frame = self.frame().await.unwrap().expect("the end came first");
            match frame.kind {
                PING => break,
                DATA => count += frame.payload.len(),
                _ => {}
            }
        }
        if let count @ 1.. = u32::try_from(count).unwrap() {
            self.send_frame(WINDOW_UPDATE, 0, 0, &count.to_be_bytes()).await;
        }
    }

    /// Gives up the last request, and nothing else of the connection.
    pub(crate) async fn cancel(&mut self) {
        self.send_frame(RST_STREAM, 0, self.last, &CANCEL.to_be_bytes())
            .await;
    }

    /// The next frame of HTTP/2 that is not about the connection's settings and windows; `None` at the end.
    pub(crate) async fn frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            let Some((frame, length)) = Frame::parse(&self.read) else {
                if self.stream.read_buf(&mut self.read).await? == 0 {
                    return Ok(None);
                }
                continue;
            };
            self.read.drain(..length);
            match frame.kind {
                SETTINGS | PING if !frame.has(ACK) => {
                    let payload = if frame.kind == PING { &*frame.payload } else { &[] };
                    // Whoever has closed does not want to know.
                    let answer = Frame::new(frame.kind, ACK, 0, payload).bytes();
                    let _ = self.stream.write_all(&answer).await;
                    let _ = self.stream.flush().await;
                }
                SETTINGS | WINDOW_UPDATE => {}
                _ => return Ok(Some(frame)),
            }
        }
    }

    /// The next frame of the last request.
    async fn own_frame(&mut self) -> Frame {
        loop {
            let frame = self.frame().await.unwrap().expect("the end came first");
            if frame.stream == self.last {
                return frame;
            }
            let is_known = self.others_are_ignored || matches!(frame.kind, PING | GOAWAY);
            assert!(is_known, "{frame:?}");
        }
    }

    /// Reads one reply.
    pub(crate) async fn reply(&mut self) -> Reply {
        timeout(SOON, self.reply_in_time()).await.expect("no reply")
    }

    async fn reply_in_time(&mut self) -> Reply {
        let head = self.head().await;
        let mut body = Vec::new();
        if self.over == Over::Http2 {
            while !(self.is_body_whole && self.body.is_empty()) {
                body.extend(self.some(usize::MAX).await);
            }
            assert_sent(&body, 0);
            return Reply { head, body };
        }
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
        if self.over == Over::Http2 {
            let frame = self.own_frame().await;
            assert_eq!(frame.kind, HEADERS, "{frame:?}");
            self.is_body_whole = frame.has(END_STREAM);
            return format!("HTTP/2 {}", status(&frame.payload));
        }
        self.until(b"\r\n\r\n").await
    }

    /// Some more of the body, whose window is not made wider before somebody asks for them.
    async fn more_data(&mut self) {
        let frame = self.own_frame().await;
        assert_eq!(frame.kind, DATA, "{frame:?}");
        self.is_body_whole = frame.has(END_STREAM);
        self.body.extend(frame.payload);
    }

    async fn some_data(&mut self, most: usize) -> Vec<u8> {
        while self.body.is_empty() && !self.is_body_whole {
            self.more_data().await;
        }
        let rest = self.body.split_off(most.min(self.body.len()));
        let some = mem::replace(&mut self.body, rest);
        if !some.is_empty() {
            let count = u32::try_from(some.len()).unwrap().to_be_bytes();
            let streams = if self.is_body_whole {
                &[0][..]
            } else {
                &[0, self.last]
            };
            for stream in streams {
                let frame = Frame::new(WINDOW_UPDATE, 0, *stream, &count);
                // Who has sent all may have closed.
                let _ = self.stream.write_all(&frame.bytes()).await;
                let _ = self.stream.flush().await;
            }
        }
        some
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
        if self.over == Over::Http2 {
            return self.some_data(most).await;
        }
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
        self.is_at_end().await.unwrap();
    }

    /// The server closed the connection, over bytes that it had read or not.
    pub(crate) async fn is_closed_or_reset(&mut self) {
        if let Err(error) = self.is_at_end().await {
            // A reset, or over TLS an end without a farewell.
            let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    }

    async fn is_at_end(&mut self) -> io::Result<()> {
        if self.over == Over::Http2 {
            while let Some(frame) = timeout(SOON, self.frame()).await.expect("still open")? {
                assert!(matches!(frame.kind, GOAWAY | PING), "{frame:?}");
            }
            return Ok(());
        }
        assert!(self.read.is_empty());
        let mut byte = [0];
        let count = timeout(SOON, self.stream.read(&mut byte))
            .await
            .expect("still open")?;
        assert_eq!(count, 0, "more came");
        Ok(())
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
        self.stream.tcp().set_zero_linger().unwrap();
    }

    /// Ends the sending side of the socket, whatever is spoken on it.
    pub(crate) fn half_close(&self) {
        SockRef::from(self.stream.tcp())
            .shutdown(Shutdown::Write)
            .unwrap();
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: octopus\r\n\r\n")
}
