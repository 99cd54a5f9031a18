//! *Instances, fetches and commits*: commits, what is committed, and seeks.

use std::time::Duration;

use octopus_core::Limits;
use octopus_kafka::broker::{ApiKey, Request, always, first};
use serde_json::json;

use crate::{
    client::V2,
    reader::partitions,
    service::{Service, on_kafka},
};

/// [A23] [CO-01] [CO-03] [CO-04] the specification's numbers.
#[tokio::test]
async fn a_commit_of_offset_41_is_42_for_the_group() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;

    let at = json!({"topic": "t", "partition": 0, "offset": 41, "metadata": "up to \"here\" ✓"});
    let reply = reader.post("offsets", json!({"offsets": [at]})).await.expect(200);
    assert_eq!((reply.text(), reply.header("content-type")), ("[]", Some(V2)));
    assert_eq!(service.committed(&user, "g", "t"), Some(42));
    let reply = reader
        .committed(&partitions(&["t"]).to_string())
        .await
        .expect(200);
    assert_eq!(
        reply.text(),
        r#"{"offsets":[{"topic":"t","partition":0,"offset":42,"metadata":"up to \"here\" ✓"}]}"#
    );

    // Without metadata, the earlier one is gone.
    reader.commit_of("t", 0).await.expect(200);
    let reply = reader.committed(&partitions(&["t"]).to_string()).await;
    assert_eq!(
        reply.text(),
        r#"{"offsets":[{"topic":"t","partition":0,"offset":1,"metadata":""}]}"#
    );
}

/// [CO-02] [CO-03] what a reply left out is not committed, what it holds is.
#[tokio::test]
async fn a_commit_without_a_body_commits_what_was_returned() {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in ["t", "u"] {
        service.topic(&user, topic);
        service.fill(&user, topic, 50);
    }
    for (body, group) in [("", "g"), (" \n", "h"), ("null", "i")] {
        let reader = service.reader(&user, group, "i", json!({})).await;
        reader.assign(&["t", "u"]).await;
        // One byte a record, and fewer than 43 of them.
        assert_eq!(reader.offsets(&service, "max_bytes=43").await.len(), 42);
        let reply = user.post(&format!("{}/offsets", reader.path), body).await;
        assert_eq!(reply.expect(200).text(), "[]");
        let reply = reader.committed(&partitions(&["t", "u"]).to_string()).await;
        let offsets = &reply.expect(200).json()["offsets"];
        assert_eq!(
            (&offsets[0]["offset"], &offsets[1]["offset"]),
            (&json!(42), &json!(0))
        );
        assert_eq!(service.committed(&user, group, "u"), Some(0), "{body:?}");
        reader.delete().await.expect(204);
    }
}

/// [D-39] `latest` is fixed at such a commit, and at the first fetch.
#[tokio::test]
async fn a_commit_without_a_body_learns_the_positions_first() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 7);
    let latest = json!({"auto.offset.reset": "latest"});
    let reader = service.reader(&user, "g", "i", latest.clone()).await;
    reader.assign(&["t"]).await;
    reader.commit().await.expect(200);
    assert_eq!(service.committed(&user, "g", "t"), Some(7));
    service.write(&user, "t", &[b"v"]);
    assert_eq!(reader.offsets(&service, "").await, [("t".to_owned(), 7)]);

    let reader = service.reader(&user, "h", "i", latest).await;
    reader.assign(&["t"]).await;
    assert_eq!(reader.turn(&service).await.text(), "[]");
    service.write(&user, "t", &[b"v"]);
    assert_eq!(reader.offsets(&service, "").await, [("t".to_owned(), 8)]);
}

/// [D-13] [D-14] nothing is sent where there is nothing to commit.
#[tokio::test]
async fn a_commit_of_nothing_is_answered_and_not_sent() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let reader = service.reader(&user, "g", "i", json!({})).await;
    for assigned in [false, true] {
        if assigned {
            reader.assign(&["t"]).await;
        } else {
            assert_eq!(reader.commit().await.expect(200).text(), "[]");
        }
        let none = json!({"offsets": []});
        assert_eq!(
            reader.post("offsets", none.clone()).await.expect(200).text(),
            "[]"
        );
        reader.post("positions", none).await.expect(204);
        let reply = reader.committed(r#"{"partitions": []}"#).await.expect(200);
        assert_eq!(reply.text(), r#"{"offsets":[]}"#);
        for route in ["offsets", "positions", "positions/beginning", "positions/end"] {
            assert_eq!(reader.post(route, json!({})).await.error(), (422, 422), "{route}");
        }
        assert_eq!(reader.committed("{}").await.error(), (422, 422));
    }
    assert!(service.asked(ApiKey::OffsetCommit).is_empty());
    assert_eq!(service.committed(&user, "g", "t"), None);
}

/// [CO-04] [D-16] any topic of the namespace's may be asked about; those never committed are left out.
#[tokio::test]
async fn what_was_never_committed_is_left_out() {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in ["a", "b", "c"] {
        service.topic(&user, topic);
    }
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["b"]).await;
    service
        .broker
        .commit(&on_kafka(&user, "g"), &on_kafka(&user, "c"), 5);
    let ask = partitions(&["c", "b", "a"]).to_string();
    let reply = reader.committed(&ask).await.expect(200);
    assert_eq!(
        reply.text(),
        r#"{"offsets":[{"topic":"c","partition":0,"offset":5,"metadata":""}]}"#
    );
    reader.commit_of("b", 0).await.expect(200);
    let reply = reader.committed(&ask).await.expect(200).json();
    let topics: Vec<_> = reply["offsets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|at| &at["topic"])
        .collect();
    assert_eq!(topics, ["c", "b"], "in the order asked");

    assert_eq!(reader.committed("").await.error(), (404, 40402));
    assert_eq!(reader.committed("null").await.error(), (404, 40402));
    let unknown = partitions(&["b", "nowhere"]).to_string();
    assert_eq!(reader.committed(&unknown).await.error(), (404, 40401));
}

/// [CO-05] [SK-01] [D-17] with one partition that is not assigned, none is committed or sought.
#[tokio::test]
async fn what_is_not_assigned_is_neither_committed_nor_sought() {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in ["a", "b"] {
        service.topic(&user, topic);
        service.fill(&user, topic, 5);
    }
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["a"]).await;
    let both = json!({"offsets": [
        {"topic": "a", "partition": 0, "offset": 3},
        {"topic": "b", "partition": 0, "offset": 3},
    ]});
    for (route, body) in [
        ("offsets", both.clone()),
        ("positions", both),
        ("positions/end", partitions(&["a", "b"])),
    ] {
        let refused = reader.post(route, body).await;
        assert_eq!(refused.error(), (409, 40903), "{route}");
        assert!(
            refused.text().contains(" b "),
            "it names the partition: {}",
            refused.text()
        );
    }
    assert_eq!(service.committed(&user, "g", "a"), None);
    assert_eq!(reader.offsets(&service, "").await[0], ("a".to_owned(), 0));

    // A subscribed one has none before its first fetch.
    let reader = service.reader(&user, "h", "i", json!({})).await;
    reader.subscribe(&["a"]).await;
    assert_eq!(reader.commit_of("a", 1).await.error(), (409, 40903));
    assert_eq!(reader.seek("a", 1).await.error(), (409, 40903));
    reader.records(&service, "").await;
    reader.commit_of("a", 1).await.expect(200);
    reader.seek("a", 1).await.expect(204);
    assert_eq!(reader.offsets(&service, "").await[0], ("a".to_owned(), 1));
}

/// [CO-06] [ER-01] [ER-02] [ER-03] [ER-05] [ER-06] what Kafka says to a commit.
#[tokio::test]
async fn a_commit_that_kafka_refuses_says_why() {
    let mut limits = Limits::default();
    limits.call_wait = Duration::from_secs(1);
    for (code, error) in [
        (22, (409, 40903)),
        (25, (409, 40903)),
        (27, (409, 40903)),
        (82, (409, 40903)),
        (12, (400, 40002)),
        (3, (404, 40401)),
        (29, (403, 40301)),
        (30, (403, 40301)),
        (28, (500, 50002)),
        (15, (500, 50003)),
    ] {
        let service = Service::with(limits.clone(), |builder| builder).await;
        let user = service.user(1);
        service.topic(&user, "t");
        service.fill(&user, "t", 5);
        let reader = service.reader(&user, "g", "i", json!({})).await;
        reader.subscribe(&["t"]).await;
        reader.records(&service, "").await;
        service
            .broker
            .faults()
            .on(ApiKey::OffsetCommit, always())
            .error(code);
        assert_eq!(reader.commit().await.error(), error, "{code}");
        assert_eq!(reader.commit_of("t", 2).await.error(), error, "{code}");
        assert_eq!(service.committed(&user, "g", "t"), None, "{code}");
    }
}

/// [CO-06] its client fetches again, then commits.
#[tokio::test]
async fn a_member_that_was_put_out_fetches_again_and_commits() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 5);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.subscribe(&["t"]).await;
    assert_eq!(reader.records(&service, "").await.len(), 5);
    service
        .broker
        .faults()
        .on(ApiKey::OffsetCommit, first(1))
        .error(22);
    assert_eq!(reader.commit().await.error(), (409, 40903));
    assert_eq!(reader.commit().await.error(), (409, 40903), "until it fetches");
    assert_eq!(
        reader.records(&service, "").await.len(),
        5,
        "from the group's last commit"
    );
    reader.commit().await.expect(200);
    assert_eq!(service.committed(&user, "g", "t"), Some(5));
}

/// [CO-06] [SU-04] a commit goes out as the member's of its generation, so that Kafka can refuse it.
#[tokio::test]
async fn a_commit_names_the_member_and_its_generation() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 5);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.subscribe(&["t"]).await;
    assert_eq!(reader.assigned().await, json!([]));
    reader.records(&service, "").await;
    assert_eq!(reader.assigned().await, json!([{"topic": "t", "partition": 0}]));
    reader.commit().await.expect(200);
    let group = on_kafka(&user, "g");
    let members = service.broker.group_members(&group);
    let (_, generation) = service.broker.group_state(&group).expect("a group");
    let commits = service.asked(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &commits[0].request else {
        panic!("{commits:?}")
    };
    assert_eq!(
        (&*commit.member_id, commit.generation_id_or_member_epoch),
        (&*members[0].member_id, generation)
    );
}

/// [D-33]
#[tokio::test]
async fn metadata_that_is_too_long_for_kafka_is_40002() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    let commit = |length| {
        let at = json!({"topic": "t", "partition": 0, "offset": 1, "metadata": "m".repeat(length)});
        reader.post("offsets", json!({"offsets": [at]}))
    };
    commit(4096).await.expect(200);
    let refused = commit(4097).await;
    assert_eq!(refused.error(), (400, 40002));
    assert!(!refused.text().contains("mm"));
}

/// [D-34] [ER-03]
#[tokio::test]
async fn an_assigned_instance_commits_neither_into_a_live_group_nor_for_a_topic_that_is_gone() {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in ["t", "u"] {
        service.topic(&user, topic);
        service.fill(&user, topic, 5);
    }
    let member = service.reader(&user, "g", "member", json!({})).await;
    member.subscribe(&["t"]).await;
    member.records(&service, "").await;
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["u"]).await;
    assert_eq!(reader.commit_of("u", 1).await.error(), (409, 40903));
    member.delete().await.expect(204);
    reader.commit_of("u", 1).await.expect(200);
    assert!(service.broker.delete_topic(&on_kafka(&user, "u")));
    assert_eq!(reader.commit_of("u", 2).await.error(), (404, 40401));
}

/// [SK-01] each seek answers 204, and the next fetch starts there.
#[tokio::test]
async fn the_next_fetch_starts_where_a_seek_went() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 9);
    service.broker.delete_records_before(&on_kafka(&user, "t"), 0);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    for (route, body, first) in [
        (
            "positions",
            json!({"offsets": [{"topic": "t", "partition": 0, "offset": 4}]}),
            4,
        ),
        ("positions/beginning", partitions(&["t"]), 0),
        (
            "positions",
            json!({"offsets": [{"topic": "t", "partition": 0, "offset": 8}]}),
            8,
        ),
        ("positions/end", partitions(&["t"]), 12),
    ] {
        let reply = reader.post(route, body).await.expect(204);
        assert!(reply.body.is_empty());
        // What comes behind the seek's answer is behind the end that it went to [D-39].
        service.write(&user, "t", &[b"w"]);
        reader.commit().await.expect(200);
        assert_eq!(service.committed(&user, "g", "t"), Some(first), "{route}");
        assert_eq!(reader.offsets(&service, "").await[0].1, first, "{route}");
    }
}

/// [SK-02] [D-39] an empty list is every assigned partition.
#[tokio::test]
async fn a_seek_without_partitions_seeks_all_of_them() {
    let service = Service::start().await;
    let user = service.user(1);
    let topics = ["a", "b", "c"];
    for topic in topics {
        service.topic(&user, topic);
        service.fill(&user, topic, 2);
    }
    let reader = service.reader(&user, "g", "i", json!({})).await;
    let none = partitions(&[]);
    for route in ["positions/beginning", "positions/end"] {
        assert_eq!(reader.post(route, none.clone()).await.error(), (409, 40903));
    }
    reader.assign(&["a", "b"]).await;
    reader.post("positions/end", none.clone()).await.expect(204);
    for topic in topics {
        service.write(&user, topic, &[b"w"]);
    }
    let mut read = Vec::new();
    while read.len() < 2 {
        read.extend(reader.offsets(&service, "").await);
    }
    read.sort();
    assert_eq!(read, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    reader.post("positions/beginning", none).await.expect(204);
    let mut read = Vec::new();
    while read.len() < 6 {
        read.extend(reader.offsets(&service, "").await);
    }
    read.sort();
    let expected: Vec<_> = ["a", "b"]
        .iter()
        .flat_map(|topic| (0..3).map(|offset| ((*topic).to_owned(), offset)))
        .collect();
    assert_eq!(read, expected);
}

/// [SK-01] [ER-02] [ER-06] a seek that Kafka refuses says why, and moves nothing.
#[tokio::test]
async fn a_seek_to_an_end_that_kafka_does_not_tell_moves_nothing() {
    let mut limits = Limits::default();
    limits.call_wait = Duration::from_millis(300);
    for (code, error) in [(29, (403, 40301)), (-1, (500, 50002)), (6, (500, 50003))] {
        let service = Service::with(limits.clone(), |builder| builder).await;
        let user = service.user(1);
        service.topic(&user, "t");
        service.fill(&user, "t", 3);
        let reader = service.reader(&user, "g", "i", json!({})).await;
        reader.assign(&["t"]).await;
        reader.seek("t", 1).await.expect(204);
        service
            .broker
            .faults()
            .on(ApiKey::ListOffsets, always())
            .error(code);
        let refused = reader.post("positions/end", partitions(&["t"])).await;
        assert_eq!(refused.error(), error, "{code}");
        service.broker.faults().clear();
        assert_eq!(reader.offsets(&service, "").await[0].1, 1, "{code}");
    }
}
