//! The producer without any broker.

use std::future::poll_fn;

use super::*;
use crate::Config as Settings;

/// A producer without any broker, on a clock that stands still.
fn producer() -> Producer {
    Cluster::new(Settings::new(Vec::new())).producer(Config::default())
}

fn record(value: &'static str) -> NewRecord {
    NewRecord {
        value: Some(value.into()),
        ..NewRecord::default()
    }
}

async fn ends(lane: &std::sync::Weak<Lane>, within: Duration) -> bool {
    let end = Instant::now() + within;
    while lane.strong_count() > 0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    lane.strong_count() == 0
}

fn lane(producer: &Producer) -> std::sync::Weak<Lane> {
    Arc::downgrade(&producer.0.lanes()["t"])
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_quiet_for_long_is_forgotten() {
    let producer = producer();
    let not = producer.send("t", record("a"), Duration::from_secs(1)).await;
    assert!(!not.unwrap_err().may_be_written());
    let lane = lane(&producer);
    assert!(!ends(&lane, Duration::from_secs(500)).await);
    let again = producer.send("t", record("a"), Duration::from_secs(1)).await;
    assert!(!again.unwrap_err().may_be_written());
    assert!(
        !ends(&lane, Duration::from_secs(500)).await,
        "it was used meanwhile"
    );
    assert!(ends(&lane, Duration::from_secs(200)).await);
    assert!(producer.0.lanes().is_empty());
    let once_more = producer.send("t", record("a"), Duration::from_secs(1)).await;
    assert!(!once_more.unwrap_err().may_be_written());
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_is_gone_leaves_no_task_behind() {
    let producer = producer();
    let mut sending = producer.send("t", record("a"), Duration::from_secs(60));
    let lane = lane(&producer);
    drop(producer);
    let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut sending).poll(cx))).await;
    assert!(first.is_pending());
    assert!(
        !ends(&lane, Duration::from_secs(30)).await,
        "someone waits for it"
    );
    assert!(!sending.await.unwrap_err().may_be_written());
    assert!(ends(&lane, Duration::from_secs(60)).await);
}

#[tokio::test(start_paused = true)]
async fn a_record_gives_its_memory_back_however_it_ends() {
    let producer = producer();
    let all = producer.0.memory.available_permits();
    let withdrawn = producer.send("t", record("a"), Duration::from_secs(60));
    assert_eq!(producer.0.memory.available_permits(), all - RECORD_HEAD - 1);
    drop(withdrawn);
    assert_eq!(producer.0.memory.available_permits(), all);
    let late = producer.send("t", record("b"), Duration::from_secs(1));
    assert!(late.await.is_err());
    assert_eq!(producer.0.memory.available_permits(), all);
    let refused = producer.send("a b", record("c"), Duration::from_secs(1));
    assert!(refused.await.is_err());
    assert_eq!(producer.0.memory.available_permits(), all);
}

#[test]
fn what_a_caller_is_told_of_a_loss_says_whether_it_may_be_there() {
    let not = |sent| NotWritten {
        sent,
        error: Error::new(Api::Produce, Kind::Timeout),
    };
    assert_eq!(
        not(true).to_string(),
        "the record may have been written: Produce: no answer in time"
    );
    assert_eq!(
        not(false).to_string(),
        "the record was not written: Produce: no answer in time"
    );
}

/// A caller may send again what is refused with 429 or 503, and nothing else.
#[test]
fn what_a_caller_is_shown_says_whether_to_send_it_again() {
    use octopus_core::Error as Shown;
    let shown = |sent, kind| {
        Shown::from(NotWritten {
            sent,
            error: Error::new(Api::Produce, kind),
        })
    };
    let closed = || Kind::Closed {
        sent: true,
        why: "it ended".into(),
    };
    let gone = || Kind::Response(ResponseError::UnknownTopicOrPartition);
    for (kind, not_sent, sent) in [
        (Kind::Full, Shown::ProducerFull, Shown::MayBeWritten),
        (Kind::Timeout, Shown::NotWritten, Shown::MayBeWritten),
        (closed(), Shown::NotWritten, Shown::MayBeWritten),
        (
            Kind::Response(ResponseError::NotEnoughReplicas),
            Shown::NotWritten,
            Shown::MayBeWritten,
        ),
        (
            Kind::Unreachable("a:1".into()),
            Shown::KafkaUnreachable,
            Shown::MayBeWritten,
        ),
        (
            Kind::Response(ResponseError::MessageTooLarge),
            Shown::RecordTooLarge,
            Shown::MayBeWritten,
        ),
        (
            Kind::Response(ResponseError::InvalidTimestamp),
            Shown::RecordRefused,
            Shown::MayBeWritten,
        ),
        (gone(), Shown::KafkaTopicUnknown, Shown::KafkaTopicUnknown),
    ] {
        assert_eq!(shown(false, kind.clone()), not_sent, "{kind:?}");
        assert_eq!(shown(true, kind.clone()), sent, "{kind:?}");
    }
    assert_eq!(Shown::MayBeWritten.code().status(), 500);
    for safe in [Shown::ProducerFull, Shown::NotWritten, Shown::KafkaUnreachable] {
        assert!(matches!(safe.code().status(), 429 | 503), "{safe:?}");
    }
}
