//! Sends requests whole, in the order in which they came.

use std::{io, sync::Arc};

use bytes::BytesMut;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, WriteHalf},
    sync::mpsc,
};

use super::{Awaited, CORRELATION_ID, Lost, Outgoing, Shared};

/// The bytes of small requests that go out in one write.
const JOINED: usize = 64 * 1024;

pub(super) async fn run<S: AsyncWrite>(
    mut stream: WriteHalf<S>,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    sent: mpsc::UnboundedSender<Awaited>,
    shared: Arc<Shared>,
) {
    let mut correlation_id = 0i32;
    let mut joined = BytesMut::new();
    'requests: while let Some(first) = outgoing.recv().await {
        let mut next = Some(first);
        while let Some(request) = next.take() {
            let Outgoing {
                mut frame,
                deadline,
                answer,
            } = request;
            if let Some(why) = shared.lock().fault.clone() {
                let _ = answer.send(Err(Lost {
                    sent: false,
                    why,
                    timeout: false,
                }));
                shared.end();
                break 'requests;
            }
            if answer.is_closed() {
                // The caller left before a byte of it was sent.
                shared.end();
            } else {
                correlation_id = correlation_id.wrapping_add(1) & i32::MAX;
                frame[CORRELATION_ID].copy_from_slice(&correlation_id.to_be_bytes());
                if let Err(unheard) = sent.send(Awaited {
                    correlation_id,
                    deadline,
                    answer,
                }) {
                    let why = shared.poison("its reader ended");
                    let _ = unheard.0.answer.send(Err(Lost {
                        sent: false,
                        why,
                        timeout: false,
                    }));
                    shared.end();
                    break 'requests;
                }
                joined.extend_from_slice(&frame);
            }
            if joined.len() < JOINED {
                next = outgoing.try_recv().ok();
            }
        }
        shared.touch();
        if let Err(error) = write(&mut stream, &mut joined).await {
            shared.poison(&error.to_string());
            break;
        }
    }
    // Those still on their way here were never sent.
    outgoing.close();
    let why = shared.poison("it was closed");
    while let Ok(Outgoing { answer, .. }) = outgoing.try_recv() {
        let _ = answer.send(Err(Lost {
            sent: false,
            why: Arc::clone(&why),
            timeout: false,
        }));
        shared.end();
    }
    let _ = stream.shutdown().await;
}

async fn write<S: AsyncWrite>(stream: &mut WriteHalf<S>, bytes: &mut BytesMut) -> io::Result<()> {
    stream.write_all(bytes).await?;
    bytes.clear();
    stream.flush().await
}
