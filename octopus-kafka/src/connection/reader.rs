//! Reads answers in the order of the requests, and hands each to who waits for it.

use std::sync::Arc;

use bytes::Bytes;
use futures_channel::mpsc;
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadHalf},
    time::{Instant, timeout_at},
};

use super::{Awaited, Lost, Shared};
use crate::{
    answer,
    error::Kind,
    frame::{self, Budget},
    security,
};

pub(super) async fn run<S: AsyncRead>(
    mut stream: ReadHalf<S>,
    mut awaited: mpsc::UnboundedReceiver<Awaited>,
    most: usize,
    budget: Budget,
    shared: Arc<Shared>,
) {
    let mut head = Head::default();
    let (why, first) = loop {
        // Between requests the broker has nothing to say: its bytes are a fault, and its end is noticed at once.
        let request = tokio::select! {
            biased;
            () = shared.ended() => break ("it was closed".to_owned(), None),
            request = awaited.recv() => match request {
                Ok(request) => request,
                Err(_) => break ("it was closed".to_owned(), None),
            },
            got = head.more(&mut stream) => break match got {
                Ok(()) => ("it said something that nobody asked for".to_owned(), None),
                Err(error) => (security::explain(&error), None),
            },
        };
        let answer = timeout_at(request.deadline, next(&mut stream, &mut head, most, &budget));
        let answer = tokio::select! {
            biased;
            () = shared.ended() => break ("it was closed".to_owned(), Some((request, None))),
            answer = answer => answer,
        };
        match answer {
            Ok(Ok(frame)) if frame.starts_with(&request.correlation_id.to_be_bytes()) => {
                // Whoever asked may have left: the next one must know of it.
                let throttle = request.throttle_at.and_then(|at| answer::throttle_in(&frame, at));
                if let Some(time) = throttle {
                    shared.throttle(Instant::now() + time);
                }
                shared.hear();
                let _ = request.answer.send(Ok(frame));
            }
            Ok(Ok(_)) => {
                let why = "an answer has the wrong correlation id".to_owned();
                break (why, Some((request, None)));
            }
            Ok(Err(fault)) => {
                let kind = matches!(fault, frame::Fault::TooLarge(_)).then_some(Kind::TooLarge);
                break (fault.to_string(), Some((request, kind)));
            }
            Err(_) => {
                shared.give_up();
                break (
                    "it did not answer in time".to_owned(),
                    Some((request, Some(Kind::Timeout))),
                );
            }
        }
    };
    let why = shared.poison(&why);
    awaited.close();
    let lose = |request: Awaited, kind| {
        shared.end();
        let _ = request.answer.send(Err(Lost {
            sent: true,
            why: Arc::clone(&why),
            kind,
        }));
    };
    if let Some((request, kind)) = first {
        lose(request, kind);
    }
    while let Ok(request) = awaited.recv().await {
        lose(request, None);
    }
}

async fn next<S: AsyncRead>(
    stream: &mut ReadHalf<S>,
    head: &mut Head,
    most: usize,
    budget: &Budget,
) -> Result<Bytes, frame::Fault> {
    while head.read < head.bytes.len() {
        head.more(stream).await.map_err(frame::Fault::Io)?;
    }
    let length = std::mem::take(head).bytes;
    frame::read(stream, length, most, budget).await
}

/// The length of the next frame, as far as it came.
#[derive(Default)]
struct Head {
    bytes: [u8; 4],
    read: usize,
}

impl Head {
    /// Reads some of it; what was read is kept if the future is dropped.
    async fn more<S: AsyncRead>(&mut self, stream: &mut ReadHalf<S>) -> std::io::Result<()> {
        let mut rest = &mut self.bytes[self.read..];
        let read = stream.read_buf(&mut rest).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.read += read;
        Ok(())
    }
}
