//! Each way of a client with its reply: what the next fetch returns, and what auto-commit has committed.

use std::time::Duration;

use bytes::Bytes;
use octopus_kafka::records::{BatchWriter, Compression};
use tokio::{
    io::AsyncWriteExt as _,
    time::{sleep, timeout},
};

use crate::{
    client::{BINARY, Client, JSON},
    reader::Reader,
    record::{self, LENGTH},
    service::{Service, on_kafka},
};

/// Longer than anything that is waited for; only a hang meets it.
const SOON: Duration = Duration::from_secs(60);
/// The time that a reply has [RP-03].
const LIMIT: Duration = Duration::from_secs(30);
const PACE: Duration = Duration::from_millis(10);
const TICK: Duration = Duration::from_millis(1);
/// The time between two auto-commits [AK-01].
const INTERVAL: Duration = Duration::from_secs(5);

/// A record, and a small one behind it.
#[derive(Debug, Clone, Copy)]
enum Topic {
    /// 8 MiB of control characters: 48 MiB of text, 10.7 MiB of base64.
    Huge,
    /// 2 MiB of them: 12 MiB of text, 2.7 MiB of base64.
    Large,
    /// A few bytes, which the kernel takes whole; the next ones come when the client has left.
    Small,
}

/// What a client does with the reply of its fetch.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// It stops to read.
    StopsReading,
    /// It has read half of it when its time is over.
    ReadsTooSlowly,
    /// It reads the second half in the last moment of its time.
    ReadsJustFastEnough,
    /// It resets its connection in the middle of the reply.
    Resets,
    /// It closes in the middle of the reply.
    Closes,
    /// It closes its sending side in the middle of the reply, and would read on.
    HalfCloses,
    /// It sends its next fetch behind a long poll, and leaves.
    PipelinesAndLeaves,
    /// It leaves between the last byte and its next fetch.
    LeavesAtTheEnd,
    /// It resets over a reply that was handed to its kernel and that it has not read.
    ResetsUnread,
}

/// How each way ends: the position that the instance holds then, where the next fetch starts.
///
/// A reply that took too long is not fetched again, and one that was handed to the network whole counts as received.
const WAYS: [(Way, Topic, i64); 9] = [
    (Way::StopsReading, Topic::Huge, 1),
    (Way::ReadsTooSlowly, Topic::Large, 1),
    (Way::ReadsJustFastEnough, Topic::Large, 1),
    (Way::Resets, Topic::Large, 0),
    (Way::Closes, Topic::Large, 0),
    (Way::HalfCloses, Topic::Large, 0),
    (Way::PipelinesAndLeaves, Topic::Small, 1),
    (Way::LeavesAtTheEnd, Topic::Large, 1),
    (Way::ResetsUnread, Topic::Small, 1),
];

/// [RP-02] [RP-03] [RP-04] [RP-05] [FE-11] [AK-06] the next fetch starts where it should, and without auto-commit nothing
/// is committed.
#[tokio::test]
async fn the_next_fetch_starts_where_the_fate_of_the_reply_says() {
    let table = Table::start().await;
    for accept in [JSON, BINARY] {
        for (way, topic, position) in WAYS {
            let what = format!("{way:?} {accept}");
            let case = table.case(way, topic, accept, false).await;
            case.take().await;
            assert_eq!(case.next().await, position, "{what}");
            case.user.delete(&case.path).await.expect(204);
            assert_eq!(case.committed(), None, "{what}");
        }
    }
}

/// [RP-03] [RP-04] [RP-05] [AK-01] [AK-04] a fetch commits the positions from before its poll: behind a reply that was
/// received, and before one that was not, which it returns again.
#[tokio::test]
async fn a_fetch_commits_what_the_fate_of_the_reply_before_says() {
    let table = Table::start().await;
    for (way, topic, position) in WAYS {
        let what = format!("{way:?}");
        let case = table.case(way, topic, BINARY, true).await;
        case.take().await;
        table.service.clock.advance(INTERVAL);
        assert_eq!(case.next().await, position, "{what}");
        // The commit goes alongside the poll.
        case.commits(position).await;
        case.user.delete(&case.path).await.expect(204);
        assert_eq!(case.committed(), Some(position + 1), "{what}");
    }
}

/// [RP-03] [RP-04] [RP-05] [AK-03] [AK-04] so does a delete, also one that comes while the reply's fate is open.
#[tokio::test]
async fn a_delete_commits_what_the_fate_of_the_reply_before_says() {
    let table = Table::start().await;
    for (way, topic, position) in WAYS {
        let case = table.case(way, topic, JSON, true).await;
        case.take().await;
        case.user.delete(&case.path).await.expect(204);
        let committed = case.committed();
        assert_eq!(committed, Some(position), "{way:?}");
    }
}

/// A service with the topics of all cases.
struct Table {
    service: Service,
    user: Client,
    cases: std::cell::Cell<u32>,
}

/// One instance in a group of its own, over one topic.
struct Case<'a> {
    service: &'a Service,
    user: &'a Client,
    way: Way,
    topic: String,
    group: String,
    path: String,
    accept: &'static str,
}

impl Table {
    async fn start() -> Self {
        let service = Service::start().await;
        let user = service.user(1);
        for (topic, length) in [("huge", LENGTH), ("large", 2 << 20)] {
            service.topic(&user, topic);
            service
                .broker
                .append(&on_kafka(&user, topic), batch(length))
                .unwrap();
            service.write(&user, topic, &[b"behind"]);
        }
        let cases = std::cell::Cell::new(0);
        Self { service, user, cases }
    }

    async fn case(&self, way: Way, topic: Topic, accept: &'static str, commits: bool) -> Case<'_> {
        let (service, user) = (&self.service, &self.user);
        let number = self.cases.get();
        self.cases.set(number + 1);
        let topic = match topic {
            Topic::Huge => "huge".to_owned(),
            Topic::Large => "large".to_owned(),
            Topic::Small => {
                let topic = format!("t{number}");
                service.topic(user, &topic);
                service.write(user, &topic, &[b"early"]);
                topic
            }
        };
        let group = format!("g{number}");
        let format = if accept == JSON { "json" } else { "binary" };
        let create = format!(
            r#"{{"name": "i", "format": "{format}", "auto.offset.reset": "earliest", "auto.commit.enable": {commits}}}"#
        );
        user.post(&format!("/api/v2/consumers/{group}"), &create)
            .await
            .expect(200);
        let path = format!("/api/v2/consumers/{group}/instances/i");
        let partitions = format!(r#"{{"partitions": [{{"topic": "{topic}", "partition": 0}}]}}"#);
        user.post(&format!("{path}/assignments"), &partitions)
            .await
            .expect(204);
        Case {
            service,
            user,
            way,
            topic,
            group,
            path,
            accept,
        }
    }
}

impl Case<'_> {
    fn request(&self) -> String {
        let path = format!("{}/records?timeout=30000", self.path);
        self.user.head("GET", &path, &[("Accept", self.accept)], "")
    }

    /// Fetches, and does with the reply what the way says.
    async fn take(&self) {
        match self.way {
            Way::StopsReading => {
                let mut reader = self.begun().await;
                self.service.clock.advance(LIMIT);
                assert!(reader.rest().await.is_err(), "the connection is closed");
            }
            Way::ReadsTooSlowly => {
                let mut reader = self.begun().await;
                self.half(&mut reader).await;
                self.service.clock.advance(LIMIT);
                assert!(reader.rest().await.is_err(), "the connection is closed");
            }
            Way::ReadsJustFastEnough => {
                let mut reader = self.begun().await;
                self.half(&mut reader).await;
                self.service.clock.advance(LIMIT - TICK);
                reader.rest().await.expect("the second half");
            }
            Way::Resets => {
                let reader = self.begun().await;
                reader.stream.set_zero_linger().unwrap();
            }
            Way::Closes => drop(self.begun().await),
            Way::HalfCloses => {
                let mut reader = self.begun().await;
                reader.stream.shutdown().await.unwrap();
                assert!(reader.rest().await.is_err(), "the connection is closed");
            }
            Way::PipelinesAndLeaves => {
                assert_eq!(self.next().await, 0);
                let came = self.service.arrivals();
                let mut reader = Reader::with_window(self.user.address, 4096).await;
                reader.send(&(self.request() + &self.request())).await;
                self.service.arrived(came + 1).await;
                drop(reader);
                self.service.write(self.user, &self.topic, &[b"late"]);
            }
            Way::LeavesAtTheEnd => {
                let mut reader = self.begun().await;
                reader.rest().await.expect("all of it");
            }
            Way::ResetsUnread => {
                let mut reader = Reader::with_window(self.user.address, 4096).await;
                reader.send(&self.request()).await;
                timeout(SOON, reader.stream.readable())
                    .await
                    .expect("a reply")
                    .unwrap();
                reader.stream.set_zero_linger().unwrap();
                drop(reader);
                self.service.write(self.user, &self.topic, &[b"behind"]);
            }
        }
    }

    /// A reply over 2 MiB whose beginning was read.
    async fn begun(&self) -> Reader {
        let mut reader = Reader::with_window(self.user.address, 4096).await;
        reader.send(&self.request()).await;
        let head = reader.head().await.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        assert!(!head.contains("content-length"), "{head}");
        assert!(reader.some(1000).await.unwrap().starts_with(b"["));
        reader
    }

    async fn half(&self, reader: &mut Reader) {
        let mut read = 0;
        while read < 1_300_000 {
            read += reader.some(100_000).await.unwrap().len();
        }
    }

    /// The offset that the next fetch returns first, at once or as soon as the service knows that the client left.
    async fn next(&self) -> i64 {
        let next = async {
            loop {
                let reply = self.user.fetch(&self.path, "?timeout=30000", self.accept).await;
                match reply.status {
                    200 if reply.body == b"[]" => {}
                    200 => return record::offset(&reply.body),
                    _ => assert_eq!(reply.error(), (409, 40904)),
                }
                sleep(TICK).await;
            }
        };
        // A turn that a busy machine was too slow for is followed by another one in its time.
        let time = async {
            loop {
                sleep(PACE).await;
                self.service.clock.advance(PACE);
            }
        };
        tokio::select! {
            offset = timeout(SOON, next) => offset.expect("a reply"),
            () = time => unreachable!("time does not end"),
        }
    }

    fn committed(&self) -> Option<i64> {
        self.service.committed(self.user, &self.group, &self.topic)
    }

    async fn commits(&self, position: i64) {
        let commits = async {
            while self.committed() != Some(position) {
                sleep(TICK).await;
            }
        };
        let in_time = timeout(Duration::from_secs(20), commits).await;
        assert!(in_time.is_ok(), "{:?}: {:?}", self.way, self.committed());
    }
}

fn batch(length: usize) -> Bytes {
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(1_700_000_000_000, None, Some(&vec![1; length]), &[]);
    batch.finish()
}
