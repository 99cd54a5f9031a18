//! *Limits*: the fetches of a user, and the turns that all fetches poll in.

use std::time::Duration;

use octopus_core::Limits;
use octopus_kafka::broker::ApiKey;
use serde_json::json;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    client::{BINARY, Response},
    reader::{Reader, partitions, place},
    service::Service,
};

const MILLI: Duration = Duration::from_millis(1);
const SHORT_TURN: Duration = Duration::from_millis(50);

impl Service {
    /// So many instances, two a user, each assigned a topic of its user's that holds nothing behind its position.
    async fn quiet(&self, count: u16) -> Vec<Reader> {
        let mut readers = Vec::new();
        for number in 0..count {
            let user = self.user(number / 2);
            if number % 2 == 0 {
                self.topic(&user, "t");
            }
            let reader = self.reader(&user, "g", &format!("i{number}"), json!({})).await;
            reader.assign(&["t"]).await;
            reader.post("positions/end", partitions(&["t"])).await.expect(204);
            readers.push(reader);
        }
        readers
    }

    /// Begins fetches of 30 s, one behind the other.
    async fn all_fetch(&self, readers: &[Reader]) -> Vec<JoinHandle<Response>> {
        let mut fetches = Vec::new();
        for reader in readers {
            let came = self.arrivals();
            fetches.push(reader.fetch("?timeout=30000"));
            self.arrived(came + 1).await;
        }
        fetches
    }

    /// Who has asked the broker for records, in the order of their first time.
    fn polled(&self) -> Vec<String> {
        let mut polled = Vec::new();
        for received in self.asked(ApiKey::Fetch) {
            if !polled.contains(&received.client_id) {
                polled.push(received.client_id);
            }
        }
        polled
    }

    /// A request to the service and back.
    async fn round_trip(&self) {
        self.user(0).get("/").await.expect(404);
    }
}

/// Polls stay open for so long that none of them ends by itself in a test.
fn long_turns(max_polls: usize) -> Limits {
    let mut limits = Limits::default();
    limits.turn = Duration::from_secs(60);
    limits.max_polls = max_polls;
    limits
}

fn refused(reply: &Response) -> ((u16, u64), Option<&str>) {
    (reply.error(), reply.header("retry-after"))
}

const TOO_MANY: ((u16, u64), Option<&str>) = ((429, 42901), Some("1"));

/// [LI-01] at once, while the clock stands still; nothing is fetched, and other users are not concerned.
#[tokio::test]
async fn a_users_third_fetch_is_refused() {
    let service = Service::with(long_turns(3), |builder| builder).await;
    let readers = service.quiet(2).await;
    let user = &readers[0].user;
    let third = service.reader(user, "h", "third", json!({})).await;
    third.assign(&["t"]).await;
    let fetches = service.all_fetch(&readers).await;
    for _ in 0..2 {
        let reply = user.fetch(&third.path, "?timeout=30000", BINARY).await;
        assert_eq!(refused(&reply), TOO_MANY);
    }
    assert!(!service.polled().iter().any(|client| client.contains("third")));

    let other = service.user(9);
    service.topic(&other, "t");
    service.fill(&other, "t", 1);
    let reader = service.reader(&other, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    reader.reply(&service, "").await.expect(200);

    // One ends, and the third may; it holds no place of its own.
    service.fill(user, "t", 1);
    for fetch in fetches {
        fetch.await.unwrap().expect(200);
    }
    third.reply(&service, "").await.expect(200);
}

/// [LI-02] three at once.
#[tokio::test]
async fn three_fetches_poll_at_once() {
    let service = Service::with(long_turns(3), |builder| builder).await;
    let readers = service.quiet(5).await;
    let fetches = service.all_fetch(&readers).await;
    service.until(|| service.polled().len() == 3).await;
    for _ in 0..5 {
        service.round_trip().await;
    }
    let names = |numbers: &[u16]| -> Vec<_> {
        let names = numbers.iter().map(|number| format!("octopus-g-i{number}"));
        names.collect()
    };
    assert_eq!(service.polled(), names(&[0, 1, 2]));
    service.clock.advance(SHORT_TURN);
    service.until(|| service.polled().len() == 5).await;
    assert_eq!(service.polled(), names(&[0, 1, 2, 3, 4]));
    service.clock.advance(Duration::from_secs(30));
    for fetch in fetches {
        assert_eq!(fetch.await.unwrap().expect(200).text(), "[]");
    }
}

/// [LI-02] [LI-03] in the order asked; a turn that finds nothing goes behind those who wait, also if there are records
/// for it by then.
#[tokio::test]
async fn a_turn_that_finds_nothing_goes_to_the_back_of_the_line() {
    let mut limits = long_turns(1);
    // Long enough for a slow machine to ask Kafka in it.
    limits.short_turn = Duration::from_secs(1);
    let service = Service::with(limits, |builder| builder).await;
    let readers = service.quiet(6).await;
    // Of three users.
    let readers = [&readers[0], &readers[2], &readers[4]].map(Clone::clone);
    let mut fetches = service.all_fetch(&readers).await;
    service.until(|| !service.polled().is_empty()).await;
    service.clock.advance(Duration::from_secs(1));
    service.until(|| service.polled().len() >= 2).await;
    service.fill(&readers[0].user, "t", 1);
    let reply = service.soon(fetches.remove(0)).await.unwrap().expect(200);
    assert_eq!(place(&reply.json()[0]).1, 0);
    assert_eq!(service.polled(), ["octopus-g-i0", "octopus-g-i2", "octopus-g-i4"]);
    assert!(fetches.iter().all(|fetch| !fetch.is_finished()));
}

/// [LI-03] [LI-05] a turn that found records is kept until its reply is sent; whoever gets none within its wait is
/// refused then, and has fetched nothing.
#[tokio::test]
async fn a_fetch_without_a_turn_is_refused_at_the_end_of_its_wait() {
    let service = Service::with(long_turns(1), |builder| builder).await;
    let readers = service.quiet(4).await;
    let (slow, late) = (&readers[0], &readers[2]);
    let large = vec![b'v'; 1_500_000];
    service.write(&slow.user, "t", &[&large]);
    let mut stalled = slow.stalled("?timeout=30000").await;
    service.fill(&late.user, "t", 1);

    for (query, wait) in [("?timeout=2000", 2_000), ("", 5_000)] {
        let came = service.arrivals();
        let fetch = late.fetch(query);
        service.arrived(came + 1).await;
        service.clock.advance(Duration::from_millis(wait) - MILLI);
        let busy = late.user.fetch(&late.path, "?timeout=1", BINARY).await;
        assert_eq!(busy.error(), (409, 40904), "it waits");
        service.clock.advance(MILLI);
        assert_eq!(refused(&fetch.await.unwrap()), TOO_MANY);
    }
    assert_eq!(service.polled(), ["octopus-g-i0"]);

    // Once that reply is read its turn is free.
    let came = service.arrivals();
    let fetch = late.fetch("?timeout=30000");
    service.arrived(came + 1).await;
    assert_eq!(stalled.receive().await.expect(200).body.len(), {
        let head = r#"[{"topic":"t","key":null,"value":"","partition":0,"offset":0,"headers":[]}]"#;
        head.len() + 2_000_000
    });
    let reply = service.soon(fetch).await.unwrap().expect(200);
    assert_eq!(place(&reply.json()[0]).1, 0);
}

/// [LI-04] at most about 1.5 s behind 11 quiet long polls, the most there can be.
#[tokio::test]
async fn a_fetch_with_records_gets_through_behind_eleven_quiet_ones() {
    let service = Service::start().await;
    let readers = service.quiet(12).await;
    let (ready, quiet) = readers.split_last().unwrap();
    ready
        .post("positions/beginning", partitions(&["t"]))
        .await
        .expect(204);
    // The other instance of that user waits at the end of the same topic.
    service.fill(&ready.user, "t", 1);
    let beside = &quiet[10];
    beside.post("positions/end", partitions(&["t"])).await.expect(204);
    let fetches = service.all_fetch(quiet).await;
    service.until(|| service.polled().len() >= 3).await;
    let came = service.arrivals();
    let fetch = ready.fetch("?timeout=5000");
    tokio::pin!(fetch);
    service.arrived(came + 1).await;
    let mut waited = Duration::ZERO;
    let reply = loop {
        // As long as a slow machine may need for what the clock set off.
        if let Ok(reply) = timeout(Duration::from_millis(600), &mut fetch).await {
            break reply.unwrap();
        }
        service.clock.advance(SHORT_TURN);
        waited += SHORT_TURN;
        assert!(waited <= Duration::from_millis(1_500));
    };
    assert_eq!(reply.expect(200).json().as_array().map(Vec::len), Some(1));
    assert!(fetches.iter().all(|fetch| !fetch.is_finished()));
}
