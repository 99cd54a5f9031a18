//! Subscription and assignment: what an instance reads, and in whose namespace.

use std::{collections::BTreeSet, pin::Pin, sync::Arc, time::Duration};

use octopus_core::{Error, Limits, Namespace, TopicName};
use octopus_kafka::broker::{ApiKey, Request, always};
use octopus_server::Topics;
use serde_json::{Value, json};

use crate::{
    raw::is_error,
    reader::{Reader, partitions},
    service::{Service, on_kafka},
};

/// [SU-01] [D-12] [D-15] a subscribe takes the place of the one before; what is read back has its order.
#[tokio::test]
async fn a_subscribe_replaces_the_one_before() {
    let (service, reader) = start(&["a", "b", "c"]).await;
    assert_eq!(subscription(&reader).await, json!([]));
    for topics in [&["b", "a"][..], &["c"], &["a", "c", "b"], &["a", "b", "c"]] {
        let reply = reader.post("subscription", json!({"topics": topics})).await;
        assert_eq!(reply.expect(204).text(), "");
        assert_eq!(subscription(&reader).await, json!(topics));
    }
    let path = format!("{}/subscription", reader.path);
    assert_eq!(reader.user.delete(&path).await.expect(204).text(), "");
    assert_eq!(subscription(&reader).await, json!([]));
    assert_eq!(reader.user.delete(&path).await.expect(204).text(), "", "again");
    assert!(
        service
            .broker
            .group_members(&on_kafka(&reader.user, "g"))
            .is_empty()
    );
}

/// [SU-02] [D-43] and nothing changes.
#[tokio::test]
async fn a_subscribe_to_nothing_or_to_a_pattern_is_refused() {
    let (_service, reader) = start(&["a", "b"]).await;
    reader.subscribe(&["a"]).await;
    for (body, names) in [
        (json!({"topics": []}), "topics"),
        (json!({"topic_pattern": "b.*"}), "topic_pattern"),
        (json!({"topic_pattern": "b.*", "topics": ["b"]}), "topic_pattern"),
        (json!({"topic_pattern": "", "topics": ["b"]}), "topic_pattern"),
        (json!({"topic_pattern": ["b"]}), "topic_pattern"),
        (
            json!({"topic_pattern": "b", "topics": [""], "x": 1}),
            "topic_pattern",
        ),
    ] {
        let reply = reader.post("subscription", body.clone()).await;
        is_error(&body.to_string(), &reply, 422, 42204, names);
        assert_eq!(subscription(&reader).await, json!(["a"]), "{body}");
    }
}

/// [SU-03] [D-13] an instance subscribes or is assigned partitions; an unsubscribe frees it for the other, and so does an
/// assign of nothing.
#[tokio::test]
async fn to_switch_one_unsubscribes_first() {
    let (service, reader) = start(&["a", "b"]).await;
    let unsubscribe = || async {
        let path = format!("{}/subscription", reader.path);
        reader.user.delete(&path).await.expect(204);
    };
    reader.assign(&["a"]).await;
    let reply = reader.post("subscription", json!({"topics": ["b"]})).await;
    is_error(
        "a subscribe while assigned",
        &reply,
        409,
        40903,
        "unsubscribe first",
    );
    assert_eq!(reader.assigned().await, partitions(&["a"])["partitions"]);
    assert_eq!(subscription(&reader).await, json!([]));

    unsubscribe().await;
    assert_eq!(reader.assigned().await, json!([]));
    reader.subscribe(&["b"]).await;
    for body in [partitions(&["a"]), partitions(&[])] {
        let reply = reader.post("assignments", body).await;
        is_error(
            "an assign while subscribed",
            &reply,
            409,
            40903,
            "unsubscribe first",
        );
    }
    assert_eq!(subscription(&reader).await, json!(["b"]));
    service.fill(&reader.user, "b", 1);
    assert_eq!(reader.offsets(&service, "").await, [("b".to_owned(), 0)]);
    is_error(
        "once its group gave it partitions",
        &reader.post("assignments", partitions(&["a"])).await,
        409,
        40903,
        "unsubscribe first",
    );

    unsubscribe().await;
    assert_eq!(
        (subscription(&reader).await, reader.assigned().await),
        (json!([]), json!([]))
    );
    reader.assign(&["a"]).await;
    reader.assign(&[]).await;
    reader.subscribe(&["b"]).await;
}

/// [SU-04] [D-15] [NS-03] a subscribed instance has what its group gives it, and that comes with a fetch.
#[tokio::test]
async fn a_subscribed_instance_is_assigned_partitions_during_a_fetch() {
    let (service, reader) = start(&["b", "a", "c"]).await;
    service.fill(&reader.user, "b", 1);
    reader.subscribe(&["c", "b", "a"]).await;
    assert_eq!(reader.assigned().await, json!([]), "before a fetch");
    let group = on_kafka(&reader.user, "g");
    assert!(service.broker.group_members(&group).is_empty());
    let seek = reader.seek("b", 0).await;
    is_error("a seek before it", &seek, 409, 40903, "topic b");

    assert_eq!(reader.offsets(&service, "").await, [("b".to_owned(), 0)]);
    let assigned = partitions(&["a", "b", "c"])["partitions"].take();
    assert_eq!(reader.assigned().await, assigned, "by topic");
    assert_eq!(service.broker.group_members(&group).len(), 1);
    let path = format!("{}/subscription", reader.path);
    reader.user.delete(&path).await.expect(204);
    assert_eq!(reader.assigned().await, json!([]));
    assert!(
        service.broker.group_members(&group).is_empty(),
        "it has left [D-46]"
    );
}

/// [AS-01] [D-12] [D-15] an assign takes the place of the one before; a partition that is kept keeps its position, what
/// was left of another is forgotten, and one that comes back is read as if it never had been.
#[tokio::test]
async fn an_assign_replaces_the_one_before() {
    let (service, reader) = start(&["a", "b", "c"]).await;
    for topic in ["a", "b", "c"] {
        service.fill(&reader.user, topic, 3);
    }
    let at = |topic: &str, offset: i64| (topic.to_owned(), offset);
    let assigned = |topics: &[&str]| partitions(topics)["partitions"].take();
    assert_eq!(reader.assigned().await, json!([]));
    let reply = reader.post("assignments", partitions(&["b", "a"])).await;
    assert_eq!(reply.expect(204).text(), "");
    assert_eq!(reader.assigned().await, assigned(&["a", "b"]), "by topic");
    assert_eq!(subscription(&reader).await, json!([]));

    // Each reply is cut behind its first record, so that records of both topics are left.
    let mut read = BTreeSet::new();
    for _ in 0..2 {
        read.extend(reader.offsets(&service, "max_bytes=1").await);
    }
    assert_eq!(read, BTreeSet::from([at("a", 0), at("b", 0)]));
    reader.assign(&["c", "a"]).await;
    assert_eq!(reader.assigned().await, assigned(&["a", "c"]));
    let mut read = BTreeSet::new();
    for _ in 0..5 {
        read.extend(reader.offsets(&service, "max_bytes=1").await);
    }
    let rest = BTreeSet::from([at("a", 1), at("a", 2), at("c", 0), at("c", 1), at("c", 2)]);
    assert_eq!(read, rest, "a goes on, and nothing is left of b");

    reader.assign(&["b"]).await;
    let read = reader.offsets(&service, "").await;
    assert_eq!(read, [at("b", 0), at("b", 1), at("b", 2)], "as never read");
}

/// [D-12] the same of a second subscribe.
#[tokio::test]
async fn a_topic_that_a_second_subscribe_keeps_keeps_its_position() {
    let (service, reader) = start(&["a", "b"]).await;
    service.fill(&reader.user, "a", 2);
    reader.subscribe(&["a"]).await;
    assert_eq!(
        reader.offsets(&service, "max_bytes=1").await,
        [("a".to_owned(), 0)]
    );
    reader.subscribe(&["b", "a"]).await;
    assert_eq!(reader.offsets(&service, "").await, [("a".to_owned(), 1)]);
    assert_eq!(reader.assigned().await, partitions(&["a", "b"])["partitions"]);
    reader.subscribe(&["b"]).await;
    service.fill(&reader.user, "a", 1);
    service.fill(&reader.user, "b", 1);
    assert_eq!(reader.offsets(&service, "").await, [("b".to_owned(), 0)]);
    assert_eq!(reader.assigned().await, partitions(&["b"])["partitions"]);
}

/// [AS-02] on every route that names partitions, and nothing is done.
#[tokio::test]
async fn a_partition_other_than_0_is_not_found() {
    let (service, reader) = start(&["a"]).await;
    service.fill(&reader.user, "a", 3);
    reader.assign(&["a"]).await;
    for partition in [1, -1, 7, i32::MAX, i32::MIN] {
        for (route, list) in [
            ("assignments", "partitions"),
            ("offsets", "offsets"),
            ("positions", "offsets"),
            ("positions/beginning", "partitions"),
            ("positions/end", "partitions"),
        ] {
            for topic in ["a", "missing"] {
                let mut items =
                    json!([{"topic": "a", "partition": 0}, {"topic": topic, "partition": partition}]);
                if list == "offsets" {
                    items[0]["offset"] = json!(2);
                    items[1]["offset"] = json!(2);
                }
                let reply = reader.post(route, json!({list: items})).await;
                let names = format!("Partition {partition} of topic {topic}");
                is_error(route, &reply, 404, 40402, &names);
            }
        }
        let body = json!({"partitions": [{"topic": "a", "partition": partition}]}).to_string();
        is_error(
            "offsets",
            &reader.committed(&body).await,
            404,
            40402,
            "of topic a",
        );
    }
    assert_eq!(reader.assigned().await, partitions(&["a"])["partitions"]);
    assert_eq!(service.committed(&reader.user, "g", "a"), None);
    assert_eq!(
        reader.offsets(&service, "max_bytes=1").await,
        [("a".to_owned(), 0)],
        "nothing was sought"
    );
}

/// [AS-02] at once: neither a request in progress nor Kafka is waited for.
#[tokio::test]
async fn a_partition_other_than_0_is_not_found_at_once() {
    let (service, reader) = start(&["a"]).await;
    reader.assign(&["a"]).await;
    let came = service.arrivals();
    let fetch = reader.fetch("?timeout=30000");
    service.arrived(came + 1).await;
    service.broker.faults().on(ApiKey::Metadata, always()).never();
    let one = json!({"topic": "a", "partition": 1, "offset": 0});
    is_error(
        "a seek",
        &reader.post("positions", json!({"offsets": [one]})).await,
        404,
        40402,
        "Partition 1",
    );
    let one = json!({"partitions": [{"topic": "missing", "partition": 1}]});
    is_error(
        "an assign",
        &reader.post("assignments", one).await,
        404,
        40402,
        "Partition 1",
    );
    assert!(!fetch.is_finished());
}

/// [NS-01] [NS-02] [NS-03] where a caller's topics and groups are on Kafka: two users' topics and groups of one name do
/// not meet, and no reply shows the namespace.
#[tokio::test]
async fn topics_and_groups_are_those_of_the_callers_namespace() {
    let service = Service::start().await;
    let mut readers = Vec::new();
    for (number, value) in [(1, &b"one"[..]), (2, b"two")] {
        let user = service.user(number);
        service.topic(&user, "t");
        service.write(&user, "t", &[value]);
        let reader = service.reader(&user, "g", "i", json!({"format": "json"})).await;
        reader.subscribe(&["t"]).await;
        readers.push(reader);
    }
    assert_eq!(on_kafka(&readers[0].user, "t"), "ns-000000000001.t");
    for (reader, value) in readers.iter().zip(["one", "two"]) {
        let records = reader.records(&service, "").await;
        assert_eq!(
            (records.len(), &records[0]["topic"], &records[0]["value"]),
            (1, &json!("t"), &json!(value))
        );
        assert_eq!(reader.assigned().await, partitions(&["t"])["partitions"]);
        assert_eq!(subscription(reader).await, json!(["t"]));
        reader.commit_of("t", 40).await.expect(200);
        let committed = reader.committed(&partitions(&["t"]).to_string()).await;
        assert!(
            committed.text().contains(r#""topic":"t""#),
            "{}",
            committed.text()
        );
    }
    for (reader, namespace) in readers.iter().zip(["ns-000000000001", "ns-000000000002"]) {
        let (group, topic) = (format!("{namespace}.g"), format!("{namespace}.t"));
        assert_eq!(service.broker.group_members(&group).len(), 1);
        assert_eq!(service.broker.committed(&group, &topic), Some(41));
        reader.delete().await.expect(204);
    }
}

/// [NS-04] a topic that the namespace does not hold, whoever else holds it, and nothing changes.
#[tokio::test]
async fn a_topic_that_the_namespace_does_not_hold_is_not_found() {
    let (service, reader) = start(&["a"]).await;
    service.topic(&service.user(2), "theirs");
    service.broker.create_topic("bare");
    let own = on_kafka(&reader.user, "a");
    let theirs = on_kafka(&service.user(2), "theirs");
    let long = "l".repeat(400);
    let assigned = service.reader(&reader.user, "g", "assigned", json!({})).await;
    assigned.assign(&["a"]).await;
    reader.subscribe(&["a"]).await;
    for topic in [
        "missing", "theirs", "bare", "A", &own, &theirs, "a/b", "..", "ä", "a b", &long,
    ] {
        let names: String = topic.chars().take(20).collect();
        for topics in [vec![topic], vec!["a", topic]] {
            let reply = reader.post("subscription", json!({"topics": topics})).await;
            is_a_missing_topic(&reply, &names);
            assert_eq!(subscription(&reader).await, json!(["a"]), "{topic}");
            let reply = assigned.post("assignments", partitions(&topics)).await;
            is_a_missing_topic(&reply, &names);
            assert_eq!(
                assigned.assigned().await,
                partitions(&["a"])["partitions"],
                "{topic}"
            );
            is_a_missing_topic(&reader.committed(&partitions(&topics).to_string()).await, &names);
        }
    }
}

/// [A36]
/// [NS-05] a topic that the namespace holds and the cluster does not list is taken, takes nothing from the others, and is
/// never made: no request asks for it, and none allows it.
#[tokio::test]
async fn a_topic_that_the_cluster_does_not_list_is_never_made() {
    for subscribes in [true, false] {
        let service = Service::with(Limits::default(), |builder| builder.topics(Arc::new(Holds))).await;
        let user = service.user(1);
        service.topic(&user, "here");
        service.fill(&user, "here", 1);
        let reader = service.reader(&user, "g", "i", json!({})).await;
        if subscribes {
            reader.subscribe(&["gone", "here"]).await;
        } else {
            reader.assign(&["gone", "here"]).await;
        }
        assert_eq!(reader.offsets(&service, "").await, [("here".to_owned(), 0)]);
        service.fill(&user, "here", 1);
        assert_eq!(reader.offsets(&service, "").await, [("here".to_owned(), 1)]);
        assert_eq!(service.broker.end_offset(&on_kafka(&user, "gone")), None);
        let mut asked = 0;
        for received in service.asked(ApiKey::Metadata) {
            if let Request::Metadata(metadata) = received.request {
                assert!(!metadata.allow_auto_topic_creation, "subscribes: {subscribes}");
                asked += 1;
            }
        }
        assert!(asked > 0);
        assert!(service.asked(ApiKey::CreateTopics).is_empty());
    }
}

/// [A36] [NS-05] a topic that is deleted while an instance reads it.
#[tokio::test]
async fn a_topic_deleted_while_it_is_read_gives_no_records_and_the_others_go_on() {
    for subscribes in [true, false] {
        let (service, reader) = start(&["a", "b"]).await;
        service.fill(&reader.user, "a", 1);
        service.fill(&reader.user, "b", 1);
        if subscribes {
            reader.subscribe(&["a", "b"]).await;
        } else {
            reader.assign(&["a", "b"]).await;
        }
        let mut read = BTreeSet::new();
        while read.len() < 2 {
            read.extend(reader.offsets(&service, "").await);
        }
        assert!(service.broker.delete_topic(&on_kafka(&reader.user, "a")));
        service.fill(&reader.user, "b", 1);
        assert_eq!(reader.offsets(&service, "").await, [("b".to_owned(), 1)]);
        assert_eq!(service.broker.end_offset(&on_kafka(&reader.user, "a")), None);
        assert!(service.asked(ApiKey::CreateTopics).is_empty());
    }
}

/// [A24] [D-14] with nothing assigned, subscribed or not.
#[tokio::test]
async fn a_commit_of_every_position_with_nothing_assigned_commits_nothing() {
    let (service, reader) = start(&["a"]).await;
    assert_eq!(reader.commit().await.expect(200).text(), "[]");
    reader.subscribe(&["a"]).await;
    assert_eq!(reader.commit().await.expect(200).text(), "[]");
    assert!(service.asked(ApiKey::OffsetCommit).is_empty());
}

/// [D-46] an unsubscribe and a delete are answered once the group was left.
#[tokio::test]
async fn an_unsubscribe_and_a_delete_wait_for_the_leave() {
    for deletes in [false, true] {
        let service = Service::start().await;
        let reader = joined(&service).await;
        let group = on_kafka(&reader.user, "g");
        assert_eq!(service.broker.group_members(&group).len(), 1);
        end(&reader, deletes).await.unwrap().expect(204);
        assert!(
            service.broker.group_members(&group).is_empty(),
            "deletes: {deletes}"
        );
        assert_eq!(service.asked(ApiKey::LeaveGroup).len(), 1);
    }
}

/// [D-46] where Kafka does not answer, they are answered after 5 s, here as many hundredths.
#[tokio::test]
async fn a_leave_that_is_not_answered_does_not_hold_an_unsubscribe_or_a_delete() {
    let mut limits = Limits::default();
    assert_eq!(limits.close_wait, Duration::from_secs(5));
    limits.close_wait /= 100;
    for deletes in [false, true] {
        let service = Service::with(limits.clone(), |builder| builder).await;
        let reader = joined(&service).await;
        service.broker.faults().on(ApiKey::LeaveGroup, always()).never();
        end(&reader, deletes).await.unwrap().expect(204);
        assert_eq!(service.asked(ApiKey::LeaveGroup).len(), 1, "deletes: {deletes}");
        let status = if deletes { 404 } else { 200 };
        let path = format!("{}/subscription", reader.path);
        assert_eq!(reader.user.get(&path).await.status, status);
    }
}

/// A service, and an instance `i` of the group `g` that reads from the first record, with these topics there.
async fn start(topics: &[&str]) -> (Service, Reader) {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in topics {
        service.topic(&user, topic);
    }
    let reader = service.reader(&user, "g", "i", json!({})).await;
    (service, reader)
}

/// An instance that is in its group.
async fn joined(service: &Service) -> Reader {
    let user = service.user(1);
    service.topic(&user, "a");
    service.fill(&user, "a", 1);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.subscribe(&["a"]).await;
    reader.records(service, "").await;
    reader
}

/// An unsubscribe or a delete, beside the test.
fn end(reader: &Reader, deletes: bool) -> tokio::task::JoinHandle<crate::client::Response> {
    let path = if deletes { "" } else { "/subscription" };
    let (user, path) = (reader.user.clone(), format!("{}{path}", reader.path));
    tokio::spawn(async move { user.delete(&path).await })
}

async fn subscription(reader: &Reader) -> Value {
    let path = format!("{}/subscription", reader.path);
    reader.user.get(&path).await.expect(200).json()["topics"].take()
}

/// The message may show a name with any sign in it: only its form is checked.
#[track_caller]
fn is_a_missing_topic(reply: &crate::client::Response, names: &str) {
    assert_eq!(reply.error(), (404, 40401), "{names}: {reply:?}");
    let body = reply.json();
    let message = body["message"].as_str().unwrap();
    assert!(message.contains(names), "{message}");
}

/// A namespace of the topics `here` and `gone`.
#[derive(Debug)]
struct Holds;

impl Topics for Holds {
    fn held<'a>(
        &'a self,
        _: &'a Namespace,
        topics: &'a [TopicName],
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<BTreeSet<TopicName>, Error>> + Send + 'a>> {
        let held = topics
            .iter()
            .filter(|topic| matches!(topic.as_str(), "here" | "gone"));
        let held: BTreeSet<TopicName> = held.cloned().collect();
        Box::pin(std::future::ready(Ok(held)))
    }
}
