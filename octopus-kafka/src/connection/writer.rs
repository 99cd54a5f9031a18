//! Sends requests whole, in the order in which they came.

use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, WriteHalf},
    sync::mpsc,
};

use super::{Awaited, CORRELATION_ID, Lost, Outgoing, Shared};

/// The time that the end of the stream may take to send.
const LAST_WORD: Duration = Duration::from_secs(1);
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
        // A peer that takes nothing must not keep the task once the reader gave the connection up.
        tokio::select! {
            written = write(&mut stream, &mut joined) => if let Err(error) = written {
                shared.poison(&error.to_string());
                break;
            },
            () = sent.closed() => break,
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
    // A clean end, where the peer takes it at once; the socket closes in any case.
    let _ = tokio::time::timeout(LAST_WORD, stream.shutdown()).await;
}

async fn write<S: AsyncWrite>(stream: &mut WriteHalf<S>, bytes: &mut BytesMut) -> io::Result<()> {
    stream.write_all(bytes).await?;
    bytes.clear();
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, atomic::AtomicUsize};

    use tokio::{
        io::split,
        sync::oneshot,
        time::{Instant, timeout},
    };

    use super::{super::State, *};

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_does_not_keep_the_task() {
        let (here, _there) = tokio::io::duplex(16);
        let (_read, write) = split(here);
        let (requests, outgoing) = mpsc::unbounded_channel();
        let (sent, mut awaited) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            in_flight: AtomicUsize::new(2),
            state: Mutex::new(State {
                fault: None,
                used: Instant::now(),
                throttled: None,
            }),
        });
        let run = tokio::spawn(run(write, outgoing, sent, Arc::clone(&shared)));
        let request = || {
            let (answer, answered) = oneshot::channel();
            let frame = BytesMut::zeroed(JOINED);
            let deadline = Instant::now();
            (
                Outgoing {
                    frame,
                    deadline,
                    answer,
                },
                answered,
            )
        };
        let ((first, _first), (second, unsent)) = (request(), request());
        assert!(requests.send(first).is_ok());
        let begun = awaited.recv().await.unwrap();
        assert_eq!(begun.correlation_id, 1);
        assert!(requests.send(second).is_ok());
        shared.poison("it did not answer in time");
        drop(awaited);
        timeout(Duration::from_secs(60), run)
            .await
            .expect("it ends")
            .unwrap();
        let lost = unsent.await.unwrap().unwrap_err();
        assert!(!lost.sent, "the second never began");
    }
}
