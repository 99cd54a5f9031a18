//! Two instances of one group.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{
    client::{BINARY, Client},
    kafka::Broker,
    server::Server,
};

const GROUP: &str = "/api/v2/consumers/pair";

async fn join(user: &Client, name: &str) -> String {
    let create = json!({"name": name, "auto.offset.reset": "earliest"}).to_string();
    user.post(GROUP, &create).await.expect(200);
    let instance = format!("{GROUP}/instances/{name}");
    user.post(
        &format!("{instance}/subscription"),
        r#"{"topics": ["left", "right"]}"#,
    )
    .await
    .expect(204);
    instance
}

async fn topics(user: &Client, instance: &str) -> Vec<String> {
    let assigned = user
        .get(&format!("{instance}/assignments"))
        .await
        .expect(200)
        .json();
    let partitions = assigned["partitions"].as_array().unwrap();
    partitions
        .iter()
        .map(|p| p["topic"].as_str().unwrap().to_owned())
        .collect()
}

/// Fetches with each instance until it has as many topics as it should; gives the records that came meanwhile.
async fn settle(user: &Client, instances: &[(&str, usize)]) -> Vec<Value> {
    let mut records = Vec::new();
    for _ in 0..60 {
        let mut settled = true;
        for (instance, share) in instances {
            let reply = user
                .fetch(instance, "?timeout=300", BINARY)
                .await
                .expect(200)
                .json();
            records.extend(reply.as_array().unwrap().iter().cloned());
            settled &= topics(user, instance).await.len() == *share;
        }
        if settled {
            return records;
        }
    }
    panic!("the group does not settle");
}

/// [KF-50] Two instances share two topics, and one takes over when the other leaves; with commits, no record comes
/// twice.
#[rstest]
#[case::classic("classic")]
#[case::consumer("consumer")]
#[tokio::test(flavor = "multi_thread")]
async fn two_instances_share_two_topics_and_one_takes_over(#[case] protocol: &str) {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &["--kafka-group-protocol", protocol]).await;
    let user = server.user(0);
    let (left, right) = (
        broker.topic(&user, "left").await,
        broker.topic(&user, "right").await,
    );

    let one = join(&user, "one").await;
    settle(&user, &[(&one, 2)]).await;
    let two = join(&user, "two").await;
    settle(&user, &[(&one, 1), (&two, 1)]).await;
    assert_ne!(topics(&user, &one).await, topics(&user, &two).await);

    broker.write(&left, &[b"l0", b"l1"]).await;
    broker.write(&right, &[b"r0", b"r1"]).await;
    let mut seen: BTreeMap<(String, i64), usize> = BTreeMap::new();
    let note = |seen: &mut BTreeMap<(String, i64), usize>, records: Vec<Value>| {
        for r in records {
            *seen
                .entry((
                    r["topic"].as_str().unwrap().to_owned(),
                    r["offset"].as_i64().unwrap(),
                ))
                .or_default() += 1;
        }
    };
    note(&mut seen, user.fetch_some(&one, "?timeout=1000", BINARY).await);
    note(&mut seen, user.fetch_some(&two, "?timeout=1000", BINARY).await);
    user.post(&format!("{one}/offsets"), "").await.expect(200);
    user.post(&format!("{two}/offsets"), "").await.expect(200);

    user.delete(&one).await.expect(204);
    note(&mut seen, settle(&user, &[(&two, 2)]).await);
    broker.write(&left, &[b"l2"]).await;
    broker.write(&right, &[b"r2"]).await;
    for _ in 0..60 {
        note(
            &mut seen,
            user.fetch(&two, "?timeout=500", BINARY)
                .await
                .expect(200)
                .json()
                .as_array()
                .unwrap()
                .clone(),
        );
        if seen.len() == 6 {
            break;
        }
    }
    let expected: BTreeMap<_, _> = ["left", "right"]
        .iter()
        .flat_map(|topic| (0..3).map(|offset| (((*topic).to_owned(), offset), 1)))
        .collect();
    assert_eq!(seen, expected);
}
