//! *Instance lifecycle*: idle instances, deletes, groups, and the stop of the service.

use std::time::Duration;

use octopus_core::Limits;
use octopus_kafka::broker::{ApiKey, GroupState, Request, always};
use serde_json::json;

use crate::{
    client::Client,
    reader::place,
    service::{Service, on_kafka},
};

const MILLI: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_secs(30);

impl Service {
    /// Moves the clock, and returns when the service has done what that set off.
    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.user(9).get("/").await.expect(404);
    }

    /// Whether an instance is there, without asking it for anything: its name is taken.
    async fn lives(&self, user: &Client, name: &str) -> bool {
        let create = json!({"name": name}).to_string();
        let reply = user.post("/api/v2/consumers/g", &create).await;
        let is_taken = reply.status != 200;
        if is_taken {
            assert_eq!(reply.error(), (409, 40902));
        }
        is_taken
    }

    /// How many members a group has once it stands still.
    async fn settled(&self, user: &Client, group: &str, members: usize) {
        let group = on_kafka(user, group);
        let is_settled = || {
            let is_stable = self
                .broker
                .group_state(&group)
                .is_some_and(|(state, _)| state == GroupState::Stable);
            is_stable && self.broker.group_members(&group).len() == members
        };
        let settled = self.until(is_settled);
        self.soon(settled).await;
    }
}

/// [LC-01] five minutes to the moment, seen at the next look and not before; a request starts the time anew.
#[tokio::test]
async fn an_idle_instance_is_closed_at_a_look_after_five_minutes() {
    let service = Service::start().await;
    let user = service.user(1);
    let idle = service.reader(&user, "g", "idle", json!({})).await;
    let used = service.reader(&user, "g", "used", json!({})).await;
    for _ in 0..9 {
        service.pass(LOOK).await;
    }
    assert_eq!(used.assigned().await, json!([]));
    service.pass(LOOK - MILLI).await;
    assert!(service.lives(&user, "idle").await);
    service.pass(MILLI).await;
    assert_eq!(idle.delete().await.error(), (404, 40403));
    assert_eq!(idle.turn(&service).await.error(), (404, 40403));

    // A millisecond behind a look, it lives on until the one after its five minutes.
    service.pass(MILLI).await;
    service.reader(&user, "g", "late", json!({})).await;
    service.pass(LOOK - MILLI).await;
    for _ in 0..9 {
        service.pass(LOOK).await;
    }
    assert!(!service.lives(&user, "used").await);
    assert!(service.lives(&user, "late").await);
    service.pass(LOOK - MILLI).await;
    assert!(service.lives(&user, "late").await);
    service.pass(MILLI).await;
    assert!(!service.lives(&user, "late").await);
}

/// [D-30] a fetch that waits is not idleness; the time starts at its end.
#[tokio::test]
async fn an_instance_with_a_request_in_hand_is_not_idle() {
    let mut limits = Limits::default();
    limits.idle_timeout = Duration::from_secs(20);
    limits.reap_interval = Duration::from_secs(1);
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    let came = service.arrivals();
    let fetch = reader.fetch("?timeout=30000");
    service.arrived(came + 1).await;
    for _ in 0..29 {
        service.pass(Duration::from_secs(1)).await;
    }
    assert!(!fetch.is_finished());
    service.pass(Duration::from_secs(1)).await;
    fetch.await.unwrap().expect(200);
    for _ in 0..19 {
        service.pass(Duration::from_secs(1)).await;
    }
    assert!(service.lives(&user, "i").await);
    service.pass(Duration::from_secs(1)).await;
    assert!(!service.lives(&user, "i").await);
}

/// [LC-02] [LC-04] the name is free again, and the group goes on behind its commit.
#[tokio::test]
async fn a_deleted_instance_can_be_created_again() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 10);
    for (round, first) in [(0, 0), (1, 3), (2, 6)] {
        let reader = service.reader(&user, "g", "i", json!({})).await;
        reader.subscribe(&["t"]).await;
        let read = reader.offsets(&service, "max_bytes=4").await;
        assert_eq!((read.len(), read[0].1), (3, first), "{round}");
        reader.commit().await.expect(200);
        // What is returned behind the commit comes again.
        reader.offsets(&service, "max_bytes=2").await;
        let reply = reader.delete().await.expect(204);
        assert!(reply.body.is_empty());
        assert_eq!(reader.delete().await.error(), (404, 40403));
        assert_eq!(reader.commit().await.error(), (404, 40403));
    }
}

/// [A14] [LC-03] [LC-01] it is a member until it is closed, and leaves then.
#[tokio::test]
async fn an_idle_instance_stays_in_its_group() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 1);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.subscribe(&["t"]).await;
    reader.records(&service, "").await;
    let group = on_kafka(&user, "g");
    let members = service.broker.group_members(&group);
    assert_eq!(members.len(), 1);
    for _ in 0..9 {
        service.pass(LOOK).await;
    }
    let beats = service.asked(ApiKey::Heartbeat).len();
    service.was_asked(ApiKey::Heartbeat, beats + 2).await;
    assert_eq!(service.broker.group_members(&group), members);
    assert!(service.asked(ApiKey::LeaveGroup).is_empty());
    service.pass(LOOK).await;
    service
        .until(|| service.broker.group_members(&group).is_empty())
        .await;
    assert_eq!(service.asked(ApiKey::LeaveGroup).len(), 1);
}

/// [D-23] [AK-02] ten seconds after it heard of a rebalance, and with no commit; what stays with it goes on.
#[tokio::test]
async fn an_idle_member_joins_again_after_ten_seconds() {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in ["t", "u"] {
        service.topic(&user, topic);
        service.fill(&user, topic, 2);
    }
    let auto = json!({"auto.commit.enable": true});
    let idle = service.reader(&user, "g", "idle", auto.clone()).await;
    idle.subscribe(&["t", "u"]).await;
    let mut read = Vec::new();
    while read.len() < 4 {
        read.extend(idle.offsets(&service, "").await);
    }
    let new = service.reader(&user, "g", "new", auto).await;
    new.subscribe(&["t", "u"]).await;
    let group = on_kafka(&user, "g");
    let fetch = new.fetch("?timeout=1");
    let is_rebalancing = || {
        let state = service.broker.group_state(&group);
        state.is_some_and(|(state, _)| state == GroupState::PreparingRebalance)
    };
    service.until(is_rebalancing).await;
    // By the second heartbeat from here on, the service has heard of it in the answer to the first.
    let heard = || {
        let beats = service.asked(ApiKey::Heartbeat);
        beats
            .iter()
            .filter(|beat| beat.client_id.ends_with("-idle"))
            .count()
    };
    let before = heard();
    service.until(|| heard() >= before + 2).await;
    let joins = || {
        let joins = service.asked(ApiKey::JoinGroup);
        joins
            .iter()
            .filter(|join| join.client_id.ends_with("-idle"))
            .count()
    };
    let joined = joins();
    service.pass(MILLI).await;
    assert_eq!(fetch.await.unwrap().expect(200).text(), "[]");
    service.pass(Duration::from_secs(10) - MILLI - MILLI).await;
    let before = heard();
    service.until(|| heard() >= before + 2).await;
    assert_eq!(joins(), joined, "its client may still be at work");
    service.pass(MILLI).await;
    service.until(|| joins() > joined).await;
    service.settled(&user, "g", 2).await;
    let one_topic = async {
        while idle.assigned().await.as_array().unwrap().len() != 1 {
            tokio::task::yield_now().await;
        }
    };
    service.soon(one_topic).await;
    assert!(service.asked(ApiKey::OffsetCommit).is_empty());

    // Its own goes on behind what it was given; the other starts again where the group had committed: nowhere.
    let kept = idle.assigned().await[0]["topic"].as_str().unwrap().to_owned();
    service.fill(&user, &kept, 1);
    assert_eq!(idle.offsets(&service, "").await, [(kept.clone(), 2)]);
    let read = new.offsets(&service, "").await;
    assert!(read.iter().all(|(topic, _)| *topic != kept), "{read:?}");
    assert_eq!(read[0].1, 0);
}

/// [D-22] its reader starts as for a partition never read.
#[tokio::test]
async fn a_topic_that_is_made_again_is_read_from_its_start() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 5);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    assert_eq!(reader.records(&service, "").await.len(), 5);
    assert!(service.broker.delete_topic(&on_kafka(&user, "t")));
    service.topic(&user, "t");
    service.write(
        &user,
        "t",
        &[b"new", b"new", b"new", b"new", b"new", b"new", b"new"],
    );
    let read = reader.records(&service, "").await;
    assert_eq!((place(&read[0]).1, &read[0]["value"]), (0, &json!("bmV3")));
}

/// [CR-11] [AK-05] while an instance is busy, the service goes on for 8 s; a create is refused, other requests are
/// answered; then it ends, and what was busy is neither committed nor closed.
#[tokio::test]
async fn a_stop_waits_eight_seconds_for_what_is_busy() {
    let mut service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 9);
    let auto = json!({"auto.commit.enable": true});
    let reader = service.reader(&user, "g", "i", auto).await;
    reader.subscribe(&["t"]).await;
    assert_eq!(reader.records(&service, "").await.len(), 9);
    let faults = service.broker.faults();
    faults.on(ApiKey::ListOffsets, always()).never();
    let asked = service.asked(ApiKey::ListOffsets).len();
    let seek = tokio::spawn({
        let reader = reader.clone();
        async move {
            let path = format!("{}/positions/end", reader.path);
            let mut connection = reader.user.connect().await;
            let body = r#"{"partitions": []}"#;
            connection.send(&reader.user.head("POST", &path, &[], body)).await;
            connection.try_receive().await
        }
    });
    service.was_asked(ApiKey::ListOffsets, asked + 1).await;
    service.stop();
    service.hears_of_its_stop(&user).await;
    let create = r#"{"name": "new"}"#;
    service.pass(Duration::from_secs(8) - MILLI).await;
    let reply = user.post("/api/v2/consumers/g", create).await;
    assert_eq!(reply.error(), (503, 503));
    assert!(!seek.is_finished());
    service.clock.advance(MILLI);
    service.ended().await;
    let answer = seek.await.unwrap().expect("an answer");
    assert_eq!(answer.error(), (500, 50003));
    assert_eq!(service.committed(&user, "g", "t"), None);
    let commits = service.asked(ApiKey::OffsetCommit);
    assert!(commits.is_empty(), "{commits:?}");
}

impl Service {
    /// Creates until that is refused.
    async fn hears_of_its_stop(&self, user: &Client) {
        let refused = async {
            loop {
                let reply = user.post("/api/v2/consumers/h", r#"{"name": "new"}"#).await;
                if reply.status != 200 {
                    break reply;
                }
                user.delete("/api/v2/consumers/h/instances/new").await.expect(204);
            }
        };
        assert_eq!(self.soon(refused).await.error(), (503, 503));
    }
}

/// [AK-03] [LC-03] members leave their groups at a stop, each behind its commit.
#[tokio::test]
async fn a_stop_leaves_the_groups() {
    let mut service = Service::start().await;
    let mut groups = Vec::new();
    for number in 0..3 {
        let user = service.user(number);
        service.topic(&user, "t");
        service.fill(&user, "t", 4);
        let auto = json!({"auto.commit.enable": true});
        let reader = service.reader(&user, "g", "i", auto).await;
        reader.subscribe(&["t"]).await;
        reader.records(&service, "").await;
        groups.push(user);
    }
    service.stop();
    service.ended().await;
    for user in &groups {
        assert!(service.broker.group_members(&on_kafka(user, "g")).is_empty());
        assert_eq!(service.committed(user, "g", "t"), Some(4));
    }
    let mut left = Vec::new();
    for received in service.asked(ApiKey::LeaveGroup) {
        if let Request::LeaveGroup(leave) = received.request {
            left.push(leave.group_id.to_string());
        }
    }
    left.sort();
    let mut groups: Vec<_> = groups.iter().map(|user| on_kafka(user, "g")).collect();
    groups.sort();
    assert_eq!(left, groups);
}
