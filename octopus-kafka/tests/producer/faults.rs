//! What goes wrong between the producer and the broker.

use std::time::Duration;

use kafka_protocol::error::ResponseError;
use octopus_kafka::{
    Kind,
    broker::{ApiKey, Fault, first, nth},
    producer::Config,
};

use crate::{
    record,
    support::{PATIENCE, World, eventually},
    values,
};

/// Writes some records one by one and some together, while the second request meets this fault; each stands there once,
/// where it was said to. Gives how often a producer id was asked for.
async fn once_though(fault: impl FnOnce(Fault)) -> usize {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    fault(world.broker().faults().on(ApiKey::Produce, nth(2)));
    let producer = world.cluster.producer(Config::default());
    let topic = world.name("t");
    let mut expected = Vec::new();
    for round in 0..4i64 {
        let names: Vec<_> = (0..5).map(|number| format!("{round}.{number}")).collect();
        let sendings: Vec<_> = names
            .iter()
            .map(|name| producer.send(&topic, record(name), PATIENCE))
            .collect();
        for (number, sending) in (0..).zip(sendings) {
            assert_eq!(sending.await.unwrap().offset, Some(5 * round + number));
        }
        expected.extend(names);
    }
    assert_eq!(values(&world, "t", 20).await, expected);
    world.received(ApiKey::InitProducerId).len()
}

#[tokio::test]
async fn a_batch_whose_answer_is_lost_is_written_once() {
    assert_eq!(once_though(|fault| fault.cut_after(0)).await, 1);
    assert_eq!(once_though(|fault| fault.cut_after(30)).await, 1);
}

#[tokio::test]
async fn a_batch_that_is_lost_is_written_once() {
    assert_eq!(once_though(Fault::close).await, 1);
}

#[tokio::test]
async fn a_batch_whose_answer_makes_no_sense_is_written_once() {
    let nonsense = [0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(once_though(|fault| fault.garbage(nonsense.to_vec())).await, 1);
}

#[tokio::test]
async fn a_batch_that_is_refused_for_a_while_is_written_once() {
    for code in [3, 5, 6, 7, 19, 20, 56] {
        assert_eq!(once_though(|fault| fault.error(code)).await, 1, "{code}");
    }
}

#[tokio::test]
async fn a_batch_that_was_appended_and_refused_is_written_once() {
    for code in [6, 7, 20] {
        let edit = move |response: &mut _| {
            if let octopus_kafka::broker::Response::Produce(response) = response {
                response.responses[0].partition_responses[0].error_code = code;
            }
        };
        assert_eq!(once_though(|fault| fault.edit(edit)).await, 1, "{code}");
    }
}

#[tokio::test]
async fn a_producer_that_kafka_does_not_know_any_more_goes_on() {
    for (code, ids) in [(45, 1), (59, 1), (47, 2), (90, 2)] {
        assert_eq!(once_though(|fault| fault.error(code)).await, ids, "{code}");
    }
}

#[tokio::test]
async fn a_throttled_producer_waits() {
    assert_eq!(
        once_though(|fault| fault.throttle(Duration::from_secs(1))).await,
        1
    );
}

/// The broker says nothing any more: the batch goes over another connection.
#[tokio::test]
async fn a_connection_that_died_without_a_word_takes_a_part_of_the_time() {
    assert_eq!(once_though(Fault::never).await, 1);
}

#[tokio::test]
async fn a_batch_of_an_unknown_fate_is_told_as_such_and_the_next_one_is_written() {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    let faults = world.broker().faults();
    // It is appended, and nobody hears of it.
    faults.on(ApiKey::Produce, nth(1)).cut_after(0);
    faults.on(ApiKey::Produce, nth(2)).error(-1);
    let producer = world.cluster.producer(Config::default());
    let topic = world.name("t");
    let sending = producer.send(&topic, record("lost"), PATIENCE);
    let not = sending.await.unwrap_err();
    assert!(not.may_be_written());
    assert_eq!(
        not.error().kind(),
        &Kind::Response(ResponseError::UnknownServerError)
    );
    for value in ["a", "b"] {
        producer.send(&topic, record(value), PATIENCE).await.unwrap();
    }
    assert_eq!(values(&world, "t", 3).await, ["lost", "a", "b"]);
}

#[tokio::test]
async fn what_the_service_may_not_write_ends_at_once() {
    for api in [ApiKey::Produce, ApiKey::Metadata] {
        let world = World::embedded().await;
        world.topic("t", &[]).await;
        let cluster = octopus_kafka::Cluster::new(octopus_kafka::Config::new(vec![
            world.broker().addr().to_string(),
        ]));
        world
            .broker()
            .faults()
            .on(api, first(1))
            .topic(world.name("t"))
            .error(29);
        let producer = cluster.producer(Config::default());
        let not = producer.send(&world.name("t"), record("x"), PATIENCE).await;
        let not = not.unwrap_err();
        assert!(!not.may_be_written());
        assert_eq!(
            octopus_core::Error::from(not.error().clone()),
            octopus_core::Error::KafkaUnauthorized
        );
        assert_eq!(world.broker().end_offset(&world.name("t")), Some(0));
    }
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    world
        .broker()
        .faults()
        .on(ApiKey::InitProducerId, first(1))
        .error(31);
    let producer = world.cluster.producer(Config::default());
    let not = producer.send(&world.name("t"), record("x"), PATIENCE).await;
    assert!(!not.unwrap_err().may_be_written());
    assert_eq!(world.received(ApiKey::Produce).len(), 0);
    producer
        .send(&world.name("t"), record("x"), PATIENCE)
        .await
        .unwrap();
}

/// An unclean election takes away what was acknowledged: nobody can help that, and the producer goes on.
#[tokio::test]
async fn a_leader_that_lost_the_end_of_its_log_is_written_to() {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    let producer = world.cluster.producer(Config::default());
    let topic = world.name("t");
    for value in ["a", "b", "c"] {
        producer.send(&topic, record(value), PATIENCE).await.unwrap();
    }
    world.broker().elect(&topic, Some(1)).unwrap();
    for value in ["d", "e"] {
        producer.send(&topic, record(value), PATIENCE).await.unwrap();
    }
    assert_eq!(values(&world, "t", 3).await, ["a", "d", "e"]);
}

/// A batch that was given up can still come late: then it is fenced.
#[tokio::test]
async fn a_late_copy_of_a_batch_that_was_given_up_is_not_appended_behind_the_next_one() {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    let producer = world.cluster.producer(Config::default());
    let topic = world.name("t");
    producer.send(&topic, record("a"), PATIENCE).await.unwrap();
    world.broker().faults().on(ApiKey::Produce, nth(1)).never();
    let lost = producer.send(&topic, record("lost"), Duration::from_millis(500));
    eventually("it is sent", || world.received(ApiKey::Produce).len() == 2).await;
    assert!(lost.await.unwrap_err().may_be_written());
    producer.send(&topic, record("b"), PATIENCE).await.unwrap();
    // As the bytes of the lost request: epoch 0, sequence 1.
    let id = producer_id_of(&world.broker().read(&topic, 0).unwrap());
    let mut late = octopus_kafka::records::BatchWriter::new(octopus_kafka::records::Compression::None);
    late.idempotent(id, 0, 1).push(0, None, Some(b"lost"), &[]);
    let late = world.cluster.produce(&topic, late.finish(), PATIENCE).await;
    let code = late.unwrap_err().kind().clone();
    assert_eq!(code, Kind::Response(ResponseError::InvalidProducerEpoch));
    assert_eq!(values(&world, "t", 2).await, ["a", "b"]);
}

fn producer_id_of(batch: &[u8]) -> i64 {
    i64::from_be_bytes(batch[43..51].try_into().unwrap())
}
