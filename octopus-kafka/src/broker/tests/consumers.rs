//! Consumer groups as a client sees them: frames in, frames out.

use kafka_protocol::messages::{
    ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse,
    consumer_group_heartbeat_request::TopicPartitions,
};

use super::*;

fn heartbeat(member: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_member_id(text(member))
        .with_member_epoch(epoch)
}

fn joining(member: &str) -> ConsumerGroupHeartbeatRequest {
    heartbeat(member, 0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(vec![wire_name("t")]))
        .with_topic_partitions(Some(Vec::new()))
}

impl World {
    fn beat(
        &mut self,
        version: i16,
        request: ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse {
        let id = self.connect();
        let request = Request::ConsumerGroupHeartbeat(request);
        let Response::ConsumerGroupHeartbeat(response) = self.ask(id, version, &request) else {
            unreachable!();
        };
        response
    }

    fn commit_as(&mut self, version: i16, member: &str, epoch: i32) -> i16 {
        let id = self.connect();
        let request = commit("g", &["t"], 1)
            .with_member_id(text(member))
            .with_generation_id_or_member_epoch(epoch);
        let Response::OffsetCommit(response) = self.ask(id, version, &Request::OffsetCommit(request)) else {
            unreachable!();
        };
        response.topics[0].partitions[0].error_code
    }

    fn look_up_as(&mut self, member: Option<&str>, epoch: i32) -> (i16, usize) {
        let id = self.connect();
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(member.map(text))
            .with_member_epoch(epoch)
            .with_topics(None);
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        let Response::OffsetFetch(response) = self.ask(id, 9, &Request::OffsetFetch(request)) else {
            unreachable!();
        };
        (response.groups[0].error_code, response.groups[0].topics.len())
    }
}

#[test]
fn a_member_joins_is_assigned_commits_in_its_epoch_and_leaves() {
    let mut world = World::new();
    let topic = world.topic("t");
    let joined = world.beat(1, joining("m"));
    assert_eq!((joined.error_code, joined.member_epoch), (0, 1));
    assert_eq!(
        (joined.member_id, joined.heartbeat_interval_ms),
        (Some(text("m")), 5000)
    );
    let assigned = joined.assignment.unwrap().topic_partitions;
    assert_eq!(
        (assigned[0].topic_id, &assigned[0].partitions[..]),
        (topic, &[0][..])
    );
    let owned = TopicPartitions::default()
        .with_topic_id(topic)
        .with_partitions(vec![0]);
    let next = world.beat(1, heartbeat("m", 1).with_topic_partitions(Some(vec![owned])));
    assert_eq!(
        (next.error_code, next.member_epoch, next.assignment),
        (0, 1, None)
    );

    assert_eq!(world.commit_as(9, "m", 1), 0);
    assert_eq!(world.commit_as(9, "m", 0), code::STALE_MEMBER_EPOCH);
    assert_eq!(world.commit_as(9, "m", 2), code::STALE_MEMBER_EPOCH);
    assert_eq!(world.commit_as(9, "other", 1), code::UNKNOWN_MEMBER_ID);
    assert_eq!(
        world.commit_as(9, "", -1),
        code::UNKNOWN_MEMBER_ID,
        "the group is not empty"
    );
    assert_eq!(world.commit_as(8, "m", 1), code::UNSUPPORTED_VERSION);
    assert_eq!(world.look_up_as(Some("m"), 1), (0, 1));
    assert_eq!(world.look_up_as(None, -1), (0, 1), "an administrator");
    assert_eq!(world.look_up_as(Some("m"), 2), (code::STALE_MEMBER_EPOCH, 0));
    assert_eq!(world.look_up_as(Some("other"), 1), (code::UNKNOWN_MEMBER_ID, 0));

    let left = world.beat(1, heartbeat("m", -1));
    assert_eq!((left.error_code, left.member_epoch), (0, -1));
    assert_eq!(
        world.beat(1, heartbeat("m", 1)).error_code,
        code::UNKNOWN_MEMBER_ID
    );
    assert_eq!(
        world.commit_as(9, "", -1),
        0,
        "an administrator may, where nobody is"
    );
}

#[test]
fn a_member_is_named_by_the_coordinator_in_the_first_version_only() {
    let mut world = World::new();
    world.topic("t");
    let named = world.beat(0, joining(""));
    assert!(named.member_id.is_some_and(|id| id.len() == 36));
    assert_eq!(world.beat(1, joining("")).error_code, code::INVALID_REQUEST);
}

#[test]
fn what_is_no_heartbeat_is_refused() {
    let mut world = World::new();
    world.topic("t");
    let mut refused = |request| world.beat(1, request).error_code;
    assert_eq!(
        refused(joining("m").with_group_id(GroupId(text("")))),
        code::INVALID_GROUP_ID
    );
    for request in [
        joining("m").with_rebalance_timeout_ms(-1),
        joining("m").with_topic_partitions(None),
        joining("m").with_topic_partitions(Some(vec![TopicPartitions::default()])),
        joining("m").with_subscribed_topic_names(None),
        joining("m").with_subscribed_topic_names(Some(Vec::new())),
        joining("m").with_instance_id(Some(text(""))),
        joining("m").with_rack_id(Some(text(""))),
        heartbeat("m", -2),
        heartbeat("m", -3),
        heartbeat("", -1),
    ] {
        assert_eq!(refused(request.clone()), code::INVALID_REQUEST, "{request:?}");
    }
    assert_eq!(
        refused(joining("m").with_server_assignor(Some(text("sticky")))),
        code::UNSUPPORTED_ASSIGNOR
    );
    assert_eq!(
        refused(joining("m").with_subscribed_topic_regex(Some(text("(")))),
        code::INVALID_REGULAR_EXPRESSION
    );
    assert_eq!(
        refused(heartbeat("m", 1)),
        code::UNKNOWN_MEMBER_ID,
        "nobody has joined"
    );
}

#[test]
fn the_two_protocols_do_not_mix_in_a_group_but_may_follow_each_other() {
    let mut world = World::new();
    world.topic("t");
    assert_eq!(world.beat(1, joining("m")).error_code, 0);
    let id = world.connect();
    let classic = &versions::requests(ApiKey::JoinGroup, 1, Uuid::nil())[0];
    let Response::JoinGroup(refused) = world.ask(id, 1, classic) else {
        unreachable!();
    };
    assert_eq!(refused.error_code, code::INCONSISTENT_GROUP_PROTOCOL);
    world.beat(1, heartbeat("m", -1));
    assert_eq!(world.send(id, 1, classic), [], "it waits for more members");
    assert_eq!(world.beat(1, joining("m")).error_code, code::GROUP_ID_NOT_FOUND);
}

#[test]
fn a_silent_member_is_taken_out_by_the_clock() {
    let mut world = World::new();
    world.topic("t");
    world.beat(1, joining("m"));
    world.wait(Duration::from_millis(44_999));
    assert_eq!(world.beat(1, heartbeat("m", 1)).error_code, 0);
    world.wait(Duration::from_secs(45));
    assert_eq!(
        world.beat(1, heartbeat("m", 1)).error_code,
        code::UNKNOWN_MEMBER_ID
    );
}

#[test]
fn a_group_is_described_with_its_members_and_their_partitions() {
    let mut world = World::new();
    let topic = world.topic("t");
    world.beat(1, joining("m").with_server_assignor(Some(text("range"))));
    let id = world.connect();
    let request = ConsumerGroupDescribeRequest::default()
        .with_group_ids(vec![GroupId(text("g")), GroupId(text("missing"))]);
    let Response::ConsumerGroupDescribe(ConsumerGroupDescribeResponse { groups, .. }) =
        world.ask(id, 1, &Request::ConsumerGroupDescribe(request))
    else {
        unreachable!();
    };
    let group = &groups[0];
    assert_eq!(
        (group.error_code, group.group_epoch, group.assignment_epoch),
        (0, 1, 1)
    );
    assert_eq!((&*group.group_state, &*group.assignor_name), ("Stable", "range"));
    let member = &group.members[0];
    assert_eq!(
        (&*member.member_id, &*member.client_id, member.member_epoch),
        ("m", "tester", 1)
    );
    for assignment in [&member.assignment, &member.target_assignment] {
        let of_topic = &assignment.topic_partitions[0];
        assert_eq!((of_topic.topic_id, &*of_topic.topic_name.0), (topic, "t"));
        assert_eq!(of_topic.partitions, [0]);
    }
    assert_eq!(groups[1].error_code, code::GROUP_ID_NOT_FOUND);
}
