use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use kafka_protocol::{
    messages::{ApiVersionsResponse, api_versions_response::ApiVersion},
    protocol::Encodable,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::yield_now,
};

use super::*;

pub(super) const METADATA: i16 = ApiKey::Metadata as i16;
const LARGEST: usize = 1 << 20;
const BUDGET: usize = 4 << 20;

/// The broker's end of a connection.
pub(super) struct Peer(pub(super) DuplexStream);

/// A request as it came.
pub(super) struct Came {
    pub(super) api_key: i16,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    client_id: String,
    pub(super) body: Vec<u8>,
}

impl Peer {
    pub(super) async fn request(&mut self) -> Came {
        let length = self.0.read_i32().await.unwrap();
        let mut frame = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut frame).await.unwrap();
        let at = |i: usize| i16::from_be_bytes([frame[i], frame[i + 1]]);
        let name = usize::try_from(at(8)).unwrap();
        Came {
            api_key: at(0),
            version: at(2),
            correlation_id: i32::from_be_bytes(frame[4..8].try_into().unwrap()),
            client_id: String::from_utf8(frame[10..10 + name].to_vec()).unwrap(),
            body: frame[10 + name..].to_vec(),
        }
    }

    pub(super) async fn answer(&mut self, correlation_id: i32, body: &[u8]) {
        self.0.write_all(&frame(correlation_id, body)).await.unwrap();
    }

    /// Reads to the end: what else came.
    pub(super) async fn rest(&mut self) -> usize {
        let mut rest = Vec::new();
        let read = self.0.read_to_end(&mut rest);
        // No time passes for real: a stream that is left open fails at once.
        let read = tokio::time::timeout(Duration::from_secs(3600), read).await;
        read.expect("it is closed").unwrap()
    }
}

fn frame(correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = i32::try_from(4 + body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(correlation_id.to_be_bytes());
    frame.extend(body);
    frame
}

fn hello(version: i16) -> Vec<u8> {
    let speaks = |(key, newest)| {
        ApiVersion::default()
            .with_api_key(key)
            .with_min_version(0)
            .with_max_version(newest)
    };
    let apis = [
        (METADATA, 12),
        (ApiKey::SaslHandshake as i16, 1),
        (ApiKey::SaslAuthenticate as i16, 2),
    ];
    let mut body = BytesMut::new();
    ApiVersionsResponse::default()
        .with_api_keys(apis.map(speaks).to_vec())
        .encode(&mut body, version)
        .unwrap();
    body.to_vec()
}

pub(super) fn within(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// An open connection, its other end, and the budget that it reads by; so many bytes may be on their way.
async fn open_with(on_their_way: usize) -> (Connection, Peer, Budget) {
    let (ours, theirs) = duplex(on_their_way);
    let budget = Budget::new(BUDGET);
    let mut peer = Peer(theirs);
    let greet = async {
        let came = peer.request().await;
        peer.answer(came.correlation_id, &hello(3)).await;
    };
    let opened = Connection::open(ours, LARGEST, budget.clone(), within(5));
    let (connection, ()) = tokio::join!(opened, greet);
    (connection.unwrap(), peer, budget)
}

pub(super) async fn open() -> (Connection, Peer, Budget) {
    open_with(1 << 20).await
}

/// A Metadata request of version 4 with this body.
pub(super) async fn ask(connection: &Connection, body: &[u8], seconds: u64) -> Result<Vec<u8>, Kind> {
    let write = |_, out: &mut BytesMut| {
        out.extend_from_slice(body);
        Ok(())
    };
    let deadline = within(seconds);
    let answer = connection.send(METADATA, &(4..=4), "a client", write, None, deadline);
    answer.await.map(|answer| answer.bytes.to_vec())
}

fn closed(sent: bool, kind: &Kind) -> bool {
    matches!(kind, Kind::Closed { sent: was, .. } if *was == sent)
}

/// Lets the tasks do all that they can.
pub(super) async fn settle() {
    for _ in 0..32 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_carries_its_key_its_version_its_client_and_its_body() {
    let (connection, mut peer, _) = open().await;
    let serve = async {
        let came = peer.request().await;
        peer.answer(came.correlation_id, b"yes").await;
        came
    };
    let (answer, came) = tokio::join!(ask(&connection, b"body", 5), serve);
    assert_eq!(answer.unwrap(), b"yes");
    assert_eq!((came.api_key, came.version), (METADATA, 4));
    assert_eq!(
        (came.client_id.as_str(), came.body.as_slice()),
        ("a client", &b"body"[..])
    );
    assert_eq!(connection.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn answers_reach_their_callers_however_they_are_split() {
    let answers = [frame(2, b"first"), frame(3, b""), frame(4, b"third")].concat();
    for split in 0..=answers.len() {
        let (connection, mut peer, _) = open().await;
        let serve = async {
            for id in 2..=4 {
                assert_eq!(peer.request().await.correlation_id, id);
            }
            peer.0.write_all(&answers[..split]).await.unwrap();
            settle().await;
            peer.0.write_all(&answers[split..]).await.unwrap();
        };
        let (first, second, third, ()) = tokio::join!(
            ask(&connection, b"1", 5),
            ask(&connection, b"2", 5),
            ask(&connection, b"3", 5),
            serve
        );
        assert_eq!(first.unwrap(), b"first");
        assert_eq!(second.unwrap(), b"");
        assert_eq!(third.unwrap(), b"third");
    }
}

/// [KF-05]
#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_early_is_none_wherever_it_ends() {
    let answer = frame(2, b"an answer");
    for length in 0..answer.len() {
        let (connection, mut peer, _) = open().await;
        let serve = async {
            peer.request().await;
            peer.0.write_all(&answer[..length]).await.unwrap();
            drop(peer);
        };
        let (answer, ()) = tokio::join!(ask(&connection, b"", 5), serve);
        assert!(closed(true, &answer.unwrap_err()), "{length}");
        assert!(connection.fault().is_some());
        assert!(closed(false, &ask(&connection, b"", 5).await.unwrap_err()));
    }
}

/// [KF-08] [KF-09] [KF-10]
#[tokio::test(start_paused = true)]
async fn what_is_no_answer_ends_the_connection() {
    let mut large = i32::try_from(LARGEST + 1).unwrap().to_be_bytes().to_vec();
    large.extend(2i32.to_be_bytes());
    for (bytes, why) in [
        (large, "bound"),
        (vec![0x80, 0, 0, 0, 0, 0, 0, 2], "negative"),
        (vec![0, 0, 0, 0], "short"),
        (frame(3, b"of the next one"), "correlation"),
        (frame(-2, b""), "correlation"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "web server"),
        (vec![0x15, 3, 3, 0, 2, 2, 40], "TLS"),
    ] {
        let (connection, mut peer, budget) = open().await;
        let serve = async {
            peer.request().await;
            peer.0.write_all(&bytes).await.unwrap();
        };
        let (answer, ()) = tokio::join!(ask(&connection, b"", 5), serve);
        let kind = answer.unwrap_err();
        assert_eq!(kind == Kind::TooLarge, why == "bound");
        assert!(kind == Kind::TooLarge || closed(true, &kind), "{why}");
        let fault = connection.fault().unwrap();
        assert!(fault.contains(why), "{fault}");
        assert_eq!(peer.rest().await, 0, "it is closed");
        assert_eq!((connection.in_flight(), budget.left()), (0, BUDGET));
    }
}

/// [KF-08]
#[tokio::test(start_paused = true)]
async fn bytes_that_nobody_asked_for_end_the_connection() {
    let (connection, mut peer, _) = open().await;
    peer.0.write_all(&[0]).await.unwrap();
    assert_eq!(peer.rest().await, 0);
    assert!(connection.fault().unwrap().contains("nobody asked"));
    assert!(closed(false, &ask(&connection, b"", 5).await.unwrap_err()));
    assert_eq!(connection.in_flight(), 0);
}

/// [KF-30] [K19]
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_before_its_request_was_sent_sends_nothing() {
    let (connection, mut peer, _) = open().await;
    {
        let left = pin!(ask(&connection, b"left", 5));
        let polled = left.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        assert_eq!(connection.in_flight(), 1);
    }
    let serve = async {
        let came = peer.request().await;
        peer.answer(came.correlation_id, b"yes").await;
        came.body
    };
    let (answer, body) = tokio::join!(ask(&connection, b"stayed", 5), serve);
    assert_eq!(
        (answer.unwrap().as_slice(), body.as_slice()),
        (&b"yes"[..], &b"stayed"[..])
    );
    assert_eq!(connection.in_flight(), 0);
}

/// [KF-30] [K19]
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_behind_its_request_leaves_the_connection_in_step() {
    let (connection, mut peer, budget) = open().await;
    let hold: Hold = Arc::new(());
    let held = Arc::downgrade(&hold);
    let came = {
        let write = |_, _: &mut BytesMut| Ok(());
        let mut left = pin!(connection.send(METADATA, &(4..=4), "", write, Some(hold), within(5)));
        tokio::select! {
            _ = &mut left => panic!("nothing was answered"),
            came = peer.request() => came,
        }
    };
    settle().await;
    assert_eq!(
        (connection.in_flight(), held.strong_count()),
        (1, 1),
        "its answer is awaited"
    );
    // The answer is large, and nobody wants it.
    peer.answer(came.correlation_id, &vec![7; 100_000]).await;
    let serve = async {
        let came = peer.request().await;
        peer.answer(came.correlation_id, b"mine").await;
    };
    let (answer, ()) = tokio::join!(ask(&connection, b"", 5), serve);
    assert_eq!(answer.unwrap(), b"mine");
    assert_eq!((connection.in_flight(), held.strong_count()), (0, 0));
    assert_eq!(budget.left(), BUDGET);
}

/// [ER-06] the caller is answered in time, whatever the broker does; a late answer is no fault.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_dropped_and_the_connection_goes_on() {
    let (connection, mut peer, _) = open().await;
    let began = Instant::now();
    assert_eq!(ask(&connection, b"", 2).await, Err(Kind::Timeout));
    assert_eq!(began.elapsed().as_secs(), 2);
    let late = peer.request().await.correlation_id;
    tokio::time::advance(Duration::from_secs(7)).await;
    peer.answer(late, b"late").await;
    let serve = async {
        let came = peer.request().await;
        peer.answer(came.correlation_id, b"mine").await;
    };
    let (answer, ()) = tokio::join!(ask(&connection, b"", 5), serve);
    assert_eq!(answer.unwrap(), b"mine");
}

/// [KF-04] [KF-06] [KF-45] [ER-06] the first in line is told that there was no answer in time, those behind it that the
/// connection ended, and whether their requests may have been carried out.
#[tokio::test(start_paused = true)]
async fn a_broker_that_is_silent_for_long_loses_the_connection() {
    // The second request does not fit on its way, so that the third is not begun.
    let (connection, mut peer, _) = open_with(300).await;
    let began = Instant::now();
    let large = [0; 500];
    let (first, second, third) = tokio::join!(
        ask(&connection, b"", 12),
        async {
            settle().await;
            ask(&connection, &large, 60).await
        },
        async {
            settle().await;
            settle().await;
            ask(&connection, b"", 60).await
        },
    );
    assert_eq!(first, Err(Kind::Timeout));
    assert!(closed(true, &second.unwrap_err()));
    assert!(closed(false, &third.unwrap_err()));
    assert_eq!(began.elapsed().as_secs(), 12);
    assert!(connection.fault().unwrap().contains("in time"));
    assert!(peer.rest().await < 600, "it is closed");
    assert_eq!(connection.in_flight(), 0);
}

/// [KF-07]
#[tokio::test(start_paused = true)]
async fn a_dribbling_answer_does_not_put_the_end_off() {
    let (connection, mut peer, _) = open().await;
    let began = Instant::now();
    let serve = async {
        peer.request().await;
        for byte in frame(2, &[0; 1000]) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if peer.0.write_all(&[byte]).await.is_err() {
                break;
            }
        }
    };
    let (answer, ()) = tokio::join!(ask(&connection, b"", 3), serve);
    assert_eq!(answer, Err(Kind::Timeout));
    assert!(
        (10..=12).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_connection_is_closed_at_once() {
    let (connection, mut peer, _) = open().await;
    let began = Instant::now();
    connection.poison("it lies");
    assert_eq!(peer.rest().await, 0);
    // The same with a request on its way, which the broker has.
    let (connection, mut peer, _) = open().await;
    let (answer, rest) = tokio::join!(ask(&connection, b"", 60), async {
        peer.request().await;
        connection.poison("it lies");
        peer.rest().await
    });
    let Err(Kind::Closed { sent: true, why }) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((&*why, rest), ("it lies", 0));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(connection.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_dropped_is_closed() {
    let (connection, mut peer, _) = open().await;
    drop(connection);
    assert_eq!(peer.rest().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_connection_is_ready_again_in_time() {
    let (connection, _peer, _) = open().await;
    connection.throttle(within(3));
    assert!(!connection.is_ready(Instant::now()));
    assert!(!connection.is_ready(within(2)));
    assert!(connection.is_ready(within(3)));
}

/// [ER-04] also where who asked is not there any more: the broker does not read from it either way.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_waits_for_throttles_the_connection_too() {
    let (connection, mut peer, _) = open().await;
    assert_eq!(ask(&connection, b"", 2).await, Err(Kind::Timeout));
    let late = peer.request().await.correlation_id;
    peer.answer(late, &3000i32.to_be_bytes()).await;
    settle().await;
    assert_eq!(connection.in_flight(), 0);
    assert_eq!(connection.throttled(Instant::now()), Some(within(3)));
}

/// [KF-42] [K24] [ER-01] versions are chosen from what this connection's broker speaks.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_common_version_is_not_sent() {
    let (connection, mut peer, _) = open().await;
    for (api_key, range) in [(METADATA, 13..=13), (77, 0..=9)] {
        let write = |_, _: &mut BytesMut| Ok(());
        let sent = connection.send(api_key, &range, "", write, None, within(5));
        assert_eq!(sent.await.unwrap_err(), Kind::Unsupported);
    }
    drop(connection);
    assert_eq!(peer.rest().await, 0);
}

/// [KF-43] [K24]
#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_know_the_first_version_is_asked_in_version_0() {
    let (ours, theirs) = duplex(4096);
    let mut peer = Peer(theirs);
    let serve = async {
        let first = peer.request().await;
        // Such a broker answers in version 0: an error, and an empty list or its own range.
        peer.answer(first.correlation_id, &[0, 35, 0, 0, 0, 0]).await;
        let second = peer.request().await;
        peer.answer(second.correlation_id, &hello(0)).await;
        (first, second)
    };
    let opened = Connection::open(ours, LARGEST, Budget::new(BUDGET), within(5));
    let (connection, (first, second)) = tokio::join!(opened, serve);
    assert_eq!((first.api_key, first.version), (18, 3));
    assert_eq!((second.api_key, second.version), (18, 0));
    assert!(second.body.is_empty(), "version 0 has nothing to say");
    assert_eq!(connection.unwrap().versions.choose(METADATA, &(0..=13)), Some(12));
}

#[tokio::test(start_paused = true)]
async fn what_answers_the_first_request_otherwise_is_no_broker() {
    for (answer, what) in [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "a web server answered",
        ),
        (vec![0x15, 3, 1, 0, 2, 2, 50], "a TLS port answered"),
        (frame(1, &[0, 42]), "can't be read"),
        (frame(1, &[0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]), "can't be read"),
        (frame(1, &[0, 0, 9, 0, 1]), "can't be read"),
        (frame(9, &hello(3)), "wrong correlation id"),
    ] {
        let (ours, theirs) = duplex(4096);
        let mut peer = Peer(theirs);
        let serve = async {
            peer.request().await;
            peer.0.write_all(&answer).await.unwrap();
            peer.rest().await
        };
        let opened = Connection::open(ours, LARGEST, Budget::new(BUDGET), within(5));
        let (connection, rest) = tokio::join!(opened, serve);
        let error = connection.unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert_eq!(rest, 0);
    }
}

/// [KF-04] [ER-06] a broker that takes the connection and says nothing.
#[tokio::test(start_paused = true)]
async fn an_opening_that_is_never_answered_ends_in_time() {
    let (ours, mut theirs) = duplex(4096);
    let began = Instant::now();
    let opened = Connection::open(ours, LARGEST, Budget::new(BUDGET), within(5)).await;
    assert_eq!(*opened.unwrap_err().kind(), Kind::Timeout);
    assert_eq!(began.elapsed().as_secs(), 5);
    let mut sent = Vec::new();
    theirs.read_to_end(&mut sent).await.unwrap();
    assert_eq!(&sent[4..8], [0, 18, 0, 3], "and the stream is closed");
}
