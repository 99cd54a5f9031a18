use kafka_protocol::messages::{
    ApiKey,
    metadata_response::{MetadataResponseBroker, MetadataResponsePartition},
};

use super::*;
use crate::{
    Config,
    broker::{self, Broker, Request, nth},
};

fn info(id: u128, leader_epoch: i32) -> Topic {
    Topic::Known(TopicInfo {
        id: Uuid::from_u128(id),
        leader: Some(BrokerId(1)),
        leader_epoch,
        partitions: 1,
    })
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn an_answer_is_believed_for_five_minutes() {
    let now = Instant::now();
    let mut state = State::default();
    assert_eq!(state.known("t", now), Known::Not);
    assert_eq!(state.merge("t", info(1, 3), now), info(1, 3));
    assert_eq!(state.known("t", now), Known::Fresh(info(1, 3)));
    assert_eq!(state.known("t", now + seconds(299)), Known::Fresh(info(1, 3)));
    assert_eq!(state.known("t", now + seconds(300)), Known::Not);
}

#[test]
fn what_was_contradicted_is_asked_for_again_ten_times_a_second_at_most() {
    let now = Instant::now();
    let mut state = State::default();
    state.merge("t", info(1, 3), now);
    state.topics.get_mut("t").unwrap().stale = true;
    assert_eq!(state.known("t", now), Known::NotBefore(now + PACE));
    assert_eq!(state.known("t", now + PACE), Known::Not);
    state.merge("t", info(1, 4), now + PACE);
    assert_eq!(state.known("t", now + PACE), Known::Fresh(info(1, 4)));
}

/// [KF-20] [K14]
#[test]
fn a_topic_without_a_leader_is_asked_for_until_it_has_one() {
    let now = Instant::now();
    let mut state = State::default();
    let leaderless = Topic::Known(TopicInfo {
        id: Uuid::nil(),
        leader: None,
        leader_epoch: 1,
        partitions: 1,
    });
    state.merge("t", leaderless, now);
    assert_eq!(state.known("t", now), Known::NotBefore(now + PACE));
    assert_eq!(state.known("t", now + PACE), Known::Not);
}

/// [NS-05] a topic that is not listed is no error, and is looked for once a second.
#[test]
fn a_missing_topic_is_asked_for_once_a_second_whatever_is_said_of_it() {
    let now = Instant::now();
    let mut state = State::default();
    for topic in [Topic::Missing, Topic::Denied] {
        state.merge("t", topic, now);
        assert_eq!(state.known("t", now + seconds(1) / 2), Known::Fresh(topic));
        assert_eq!(state.known("t", now + seconds(1)), Known::Not);
    }
    state.merge("t", Topic::Missing, now);
    state.topics.get_mut("t").unwrap().stale = true;
    assert_eq!(
        state.known("t", now + seconds(1) / 2),
        Known::Fresh(Topic::Missing)
    );
}

/// [KF-20] [K14]
#[test]
fn an_older_epoch_of_the_same_topic_is_not_taken() {
    let now = Instant::now();
    let mut state = State::default();
    state.merge("t", info(1, 5), now);
    assert_eq!(state.merge("t", info(1, 4), now), info(1, 5));
    assert_eq!(state.merge("t", info(1, 5), now), info(1, 5));
    assert_eq!(state.merge("t", info(1, 6), now), info(1, 6));
    // A broker that tells no epochs is believed.
    assert_eq!(state.merge("t", info(1, -1), now), info(1, -1));
}

/// [KF-23] [D-22] a topic that was made again is another one, whatever its epoch.
#[test]
fn another_id_replaces_what_was_known() {
    let now = Instant::now();
    let mut state = State::default();
    state.merge("t", info(1, 5), now);
    assert_eq!(state.merge("t", info(2, 0), now), info(2, 0));
    state.merge("t", Topic::Missing, now);
    assert_eq!(state.merge("t", info(2, 0), now), info(2, 0));
}

#[test]
fn topics_that_nobody_asks_for_go() {
    let mut now = Instant::now();
    let mut state = State::default();
    for i in 0..10_000 {
        now += seconds(1);
        state.merge(&i.to_string(), info(1, 0), now);
    }
    assert!(state.topics.len() <= KEPT, "{}", state.topics.len());
    assert!(matches!(state.known("9999", now), Known::Fresh(_)));
}

fn answer(topics: Vec<MetadataResponseTopic>) -> MetadataResponse {
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(7))
        .with_host(StrBytes::from_static_str("::1"))
        .with_port(9092);
    MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_controller_id(BrokerId(7))
        .with_topics(topics)
}

fn listed(name: &'static str, code: i16) -> MetadataResponseTopic {
    let partition = |i| {
        MetadataResponsePartition::default()
            .with_partition_index(i)
            .with_leader_id(BrokerId(10 + i))
            .with_leader_epoch(i)
    };
    MetadataResponseTopic::default()
        .with_name(Some(KafkaTopic::from(StrBytes::from_static_str(name))))
        .with_error_code(code)
        .with_partitions(vec![partition(1), partition(0)])
}

/// [ER-01] [ER-02] what is wrong with one topic is told of that one only.
#[tokio::test]
async fn an_answer_is_read_topic_by_topic() {
    let cache = Cache::default();
    let names = ["good", "unknown", "denied", "bad", "left out"].map(str::to_owned);
    let topics = vec![
        listed("denied", 29),
        listed("not asked for", 0),
        listed("unknown", 3),
        listed("bad", 17),
        listed("good", 0),
    ];
    let kept = cache.keep(&names, &answer(topics));
    let good = Topic::Known(TopicInfo {
        id: Uuid::nil(),
        leader: Some(BrokerId(10)),
        leader_epoch: 0,
        partitions: 2,
    });
    let invalid = Error::response(Api::Metadata, ResponseError::InvalidTopicException);
    let expected = [
        Ok(good),
        Ok(Topic::Missing),
        Ok(Topic::Denied),
        Err(invalid),
        Ok(Topic::Missing),
    ];
    assert_eq!(kept, expected);
    assert_eq!(cache.address(BrokerId(7)).as_deref(), Some("[::1]:9092"));
    assert_eq!(cache.lock().topics.len(), 4, "what was not asked for is not kept");
    // An answer without brokers says nothing of them.
    cache.keep(&[], &answer(Vec::new()).with_brokers(Vec::new()));
    assert_eq!(cache.addresses().len(), 1);
}

async fn cluster() -> (Broker, Cluster) {
    let broker = Broker::start(broker::Config::default()).await.unwrap();
    let cluster = Cluster::new(Config::new(vec![broker.addr().to_string()]));
    (broker, cluster)
}

/// The names in each Metadata request.
fn asked(broker: &Broker) -> Vec<Vec<String>> {
    let requests = broker.requests().into_iter();
    requests
        .filter_map(|received| {
            if let Request::Metadata(request) = received.request {
                Some(request)
            } else {
                None
            }
        })
        .map(|request| {
            assert!(!request.allow_auto_topic_creation);
            let topics = request.topics.unwrap().into_iter();
            topics.map(|topic| topic.name.unwrap().to_string()).collect()
        })
        .collect()
}

fn soon() -> Instant {
    Instant::now() + seconds(30)
}

/// [NS-05] no request allows the cluster to make a topic.
#[tokio::test]
async fn those_who_wait_are_asked_for_together() {
    let (broker, cluster) = cluster().await;
    for name in ["a", "b", "d"] {
        broker.create_topic(name);
    }
    let (a, b, c, d) = tokio::join!(
        cluster.topic("a", soon()),
        cluster.topic("b", soon()),
        cluster.topic("c", soon()),
        cluster.topic("d", soon()),
    );
    assert!(
        [a, b, d]
            .into_iter()
            .all(|topic| matches!(topic, Ok(Topic::Known(_))))
    );
    assert_eq!(c, Ok(Topic::Missing));
    let asked = asked(&broker);
    assert_eq!(asked[0], ["a"]);
    assert_eq!(asked[1], ["b", "c", "d"]);
    assert_eq!(asked.len(), 2);
    cluster.topic("a", soon()).await.unwrap();
    assert_eq!(broker.requests().len(), 3, "with the one for versions");
}

#[tokio::test]
async fn who_waits_for_a_question_that_was_dropped_asks_for_itself() {
    let (broker, cluster) = cluster().await;
    broker.create_topic("a");
    let slow = broker.faults().on(ApiKey::Metadata, nth(1));
    slow.delay(Duration::from_millis(200));
    let other = cluster.clone();
    let dropped = tokio::spawn(async move { other.topic("a", soon()).await });
    while asked(&broker).is_empty() {
        tokio::task::yield_now().await;
    }
    let (topic, ()) = tokio::join!(cluster.topic("a", soon()), async { dropped.abort() });
    assert!(matches!(topic, Ok(Topic::Known(_))));
    assert_eq!(asked(&broker), [["a"], ["a"]]);
}
