//! Sends requests whole, in the order in which they came.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures_channel::mpsc;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, WriteHalf},
    sync::oneshot,
};

use super::{Awaited, CORRELATION_ID, Lost, Outgoing, Shared};
use crate::security;

/// The bytes of small requests that go out in one write.
const JOINED: usize = 64 * 1024;

pub(super) async fn run<S: AsyncWrite>(
    mut stream: WriteHalf<S>,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    sent: mpsc::UnboundedSender<Awaited>,
    shared: Arc<Shared>,
) {
    tokio::select! {
        biased;
        () = shared.ended() => {}
        () = send(&mut stream, &mut outgoing, &sent, &shared) => {}
    }
    // Those still on their way here were never sent.
    outgoing.close();
    let why = shared.poison("it was closed");
    while let Ok(request) = outgoing.recv().await {
        lose(request.answer, &why, &shared);
    }
}

/// Ends when there is no caller any more, or when the stream breaks.
async fn send<S: AsyncWrite>(
    stream: &mut WriteHalf<S>,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
    sent: &mpsc::UnboundedSender<Awaited>,
    shared: &Shared,
) {
    let mut correlation_id = 0i32;
    let mut joined = BytesMut::new();
    while let Ok(first) = outgoing.recv().await {
        if let Err(Unheard) = join(first, outgoing, sent, &mut correlation_id, &mut joined, shared) {
            return;
        }
        shared.touch();
        if let Err(error) = write(stream, &mut joined).await {
            shared.poison(&security::explain(&error));
            return;
        }
    }
}

/// The reader is gone.
struct Unheard;

/// Joins the frame of this request and those behind it, as far as they go out in one write.
fn join(
    first: Outgoing,
    outgoing: &mut mpsc::UnboundedReceiver<Outgoing>,
    sent: &mpsc::UnboundedSender<Awaited>,
    correlation_id: &mut i32,
    joined: &mut BytesMut,
    shared: &Shared,
) -> Result<(), Unheard> {
    let mut next = Some(first);
    while let Some(request) = next.take() {
        let Outgoing {
            mut frame,
            deadline,
            answer,
            throttle_at,
            hold,
        } = request;
        if answer.is_closed() {
            // The caller left before a byte of it was sent.
            shared.end();
        } else {
            *correlation_id = correlation_id.wrapping_add(1) & i32::MAX;
            frame[CORRELATION_ID].copy_from_slice(&correlation_id.to_be_bytes());
            let request = Awaited {
                correlation_id: *correlation_id,
                deadline,
                answer,
                throttle_at,
                _hold: hold,
            };
            if let Err(unheard) = sent.unbounded_send(request) {
                let why = shared.poison("its reader ended");
                lose(unheard.into_inner().answer, &why, shared);
                return Err(Unheard);
            }
            joined.extend_from_slice(&frame);
        }
        if joined.len() < JOINED {
            next = outgoing.try_recv().ok();
        }
    }
    Ok(())
}

/// Tells a caller that its request was never sent.
fn lose(answer: oneshot::Sender<Result<Bytes, Lost>>, why: &Arc<str>, shared: &Shared) {
    shared.end();
    let _ = answer.send(Err(Lost {
        sent: false,
        why: Arc::clone(why),
        kind: None,
    }));
}

async fn write<S: AsyncWrite>(stream: &mut WriteHalf<S>, bytes: &mut BytesMut) -> io::Result<()> {
    stream.write_all(bytes).await?;
    bytes.clear();
    stream.flush().await
}
