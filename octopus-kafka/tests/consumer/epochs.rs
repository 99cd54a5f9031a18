//! Members whose coordinator assigns: what they say of their epochs, and what becomes of them when that goes wrong.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Effect, Error, Outcome};
use octopus_kafka::{
    GroupProtocol::Consumer,
    Signal,
    broker::{self, ApiKey, Broker, Request, always, first, nth},
};
use tokio::time::{Instant, timeout};

use super::support::{PATIENCE, Session, TURN, World, at, eventually, join};

async fn world() -> World {
    let world = World::embedded().await.speaking(Consumer);
    world.topic("a", &["a0"]).await;
    world
}

/// Where a member that is silent for 2 s is put out, and one that holds on to something for longer than 2 s.
async fn strict_world() -> World {
    let mut config = broker::Config::default();
    config.consumer_heartbeat_interval = Duration::from_millis(200);
    config.consumer_session_timeout = Duration::from_secs(2);
    let mut world = World::of(Broker::start(config).await.unwrap());
    world.config.rebalance_timeout = Duration::from_secs(2);
    let world = world.speaking(Consumer);
    world.topic("a", &["a0"]).await;
    world.topic("b", &["b0"]).await;
    world
}

impl World {
    fn heartbeats(&self) -> Vec<(i32, Option<usize>)> {
        let beats = self.received(ApiKey::ConsumerGroupHeartbeat).into_iter();
        beats
            .map(|beat| match beat.request {
                Request::ConsumerGroupHeartbeat(beat) => {
                    (beat.member_epoch, beat.topic_partitions.map(|owned| owned.len()))
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn epoch(&self) -> i32 {
        self.broker().consumer_members(&self.name("group"))[0].epoch
    }

    fn committed(&self, topic: &str) -> Option<i64> {
        self.broker().committed(&self.name("group"), &self.name(topic))
    }
}

/// [KF-31] commits and look-ups are the member's, of its epoch; a consumer that is no member commits as nobody.
#[tokio::test(flavor = "multi_thread")]
async fn commits_and_look_ups_say_whose_and_of_which_epoch_they_are() {
    let world = world().await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.commit("a", 0, "").await.unwrap();
    one.join(&["a"]).await;
    one.commit("a", 1, "").await.unwrap();
    assert_eq!(one.committed(&["a"]).await[0].1, 1);
    let member = world.broker().consumer_members(&world.name("group")).remove(0);
    let (id, epoch) = (member.member_id, member.epoch);
    let commits = world.received(ApiKey::OffsetCommit);
    let commits: Vec<_> = commits
        .iter()
        .map(|received| match &received.request {
            Request::OffsetCommit(commit) => (
                received.version,
                commit.member_id.to_string(),
                commit.generation_id_or_member_epoch,
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(commits, [(9, String::new(), -1), (9, id.clone(), epoch)]);
    let look_up = world.received(ApiKey::OffsetFetch).pop().unwrap();
    let Request::OffsetFetch(asked) = &look_up.request else {
        panic!("{look_up:?}")
    };
    let group = &asked.groups[0];
    assert_eq!(
        (look_up.version, group.member_id.as_deref(), group.member_epoch),
        (9, Some(&*id), epoch)
    );
}

/// [CO-06] a commit that a heartbeat overtook, or the answer of one that was lost, is made again in the newer epoch.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_a_stale_epoch_is_made_again() {
    let world = world().await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    let faults = world.broker().faults();
    faults.on(ApiKey::OffsetCommit, nth(1)).error(113);
    one.commit("a", 1, "").await.unwrap();
    assert_eq!(world.committed("a"), Some(1));
    assert_eq!(world.received(ApiKey::OffsetCommit).len(), 2);
    let whole = |beats: &[(i32, Option<usize>)]| beats.iter().any(|beat| *beat == (world.epoch(), Some(1)));
    assert!(whole(&world.heartbeats()[2..]), "a heartbeat asked for the epoch");

    faults.on(ApiKey::OffsetCommit, always()).error(113);
    let commit = one.consumer.run(
        Effect::Commit(vec![octopus_core::Commit {
            partition: at("a"),
            position: octopus_core::Position::at(2),
            metadata: "".into(),
        }]),
        Duration::from_secs(1),
    );
    assert_eq!(commit.await, Err(Error::CommitFailed), "one that stays stale");
    assert!(!one.has_signal());
    faults.clear();
    one.commit("a", 2, "").await.unwrap();
}

/// [CO-04] so is a look-up of commits; one of a member that the group put out is made as nobody's.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_of_a_stale_epoch_is_made_again() {
    let world = world().await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    one.commit("a", 1, "kept").await.unwrap();
    let kept = [("a".to_owned(), 1, "kept".to_owned())];
    let faults = world.broker().faults();
    faults.on(ApiKey::OffsetFetch, nth(1)).error(113);
    assert_eq!(one.committed(&["a"]).await, kept);
    assert!(!one.has_signal());
    for code in [25, 110] {
        faults.on(ApiKey::OffsetFetch, nth(1)).error(code);
        assert_eq!(one.committed(&["a"]).await, kept);
        assert_eq!(one.signal().await, Signal::Lost);
        let look_up = world.received(ApiKey::OffsetFetch).pop().unwrap();
        let Request::OffsetFetch(asked) = &look_up.request else {
            panic!("{look_up:?}")
        };
        assert_eq!(
            (asked.groups[0].member_id.as_deref(), asked.groups[0].member_epoch),
            (None, -1)
        );
        faults.clear();
        one.join(&["a"]).await;
    }
}

/// [CO-06] [KF-31] what a commit finds out: the membership is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_a_member_that_is_none_is_refused_and_the_member_lost() {
    for code in [25, 110] {
        let world = world().await;
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.join(&["a"]).await;
        world
            .broker()
            .faults()
            .on(ApiKey::OffsetCommit, nth(1))
            .error(code);
        assert_eq!(one.commit("a", 1, "").await, Err(Error::CommitFailed));
        assert_eq!(one.signal().await, Signal::Lost);
        assert_eq!(one.join(&["a"]).await, ["a"]);
        one.commit("a", 1, "").await.unwrap();
    }
}

/// [KF-05] the coordinator took the heartbeat, raised the epoch and assigned; nobody heard. The next one tells all and
/// hears all.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_whose_answer_is_lost_loses_nothing() {
    let world = world().await;
    world.topic("b", &["b0"]).await;
    let faults = world.broker().faults();
    let lose_the = |when| faults.on(ApiKey::ConsumerGroupHeartbeat, when).cut_after(3);
    lose_the(nth(1));
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    assert_eq!(one.join(&["a"]).await, ["a"]);
    // The answer that has a go away, and then the one that has b come.
    faults.clear();
    lose_the(first(2));
    assert_eq!(one.join(&["b"]).await, ["b"]);
    assert!(!one.has_signal(), "the member is kept");
    assert_eq!(one.read(1).await, ["b0"]);
    one.commit("b", 1, "").await.unwrap();
    assert_eq!(world.members(), 1);
}

/// [KF-30] a join goes on when who asked for it is gone, and is sent once.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_is_dropped_goes_on() {
    let world = world().await;
    let slow = world.broker().faults().on(ApiKey::ConsumerGroupHeartbeat, nth(1));
    slow.delay(Duration::from_millis(800));
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    for wait in [0, 1, 5, 20] {
        let run = one.consumer.run(Effect::Join(join(&["a"])), TURN);
        _ = timeout(Duration::from_millis(wait), run).await;
    }
    assert_eq!(
        one.try_join(&["a"], Duration::from_millis(50)).await,
        Outcome::Joining
    );
    assert_eq!(one.join(&["a"]).await, ["a"]);
    let joins = world.heartbeats().into_iter().filter(|beat| beat.0 == 0).count();
    assert_eq!(joins, 1);
}

/// [KF-28] [KF-49]
#[tokio::test(flavor = "multi_thread")]
async fn a_close_in_the_middle_of_a_join_leaves_no_member_behind() {
    let world = world().await;
    let slow = world.broker().faults().on(ApiKey::ConsumerGroupHeartbeat, nth(1));
    slow.delay(Duration::from_millis(500));
    let one = world.session("one", AutoOffsetReset::Earliest);
    let joining = one.try_join(&["a"], Duration::from_millis(100)).await;
    assert_eq!(joining, Outcome::Joining);
    assert_eq!(one.run(Effect::Close).await, Ok(Outcome::Done));
    assert_eq!(world.members(), 0);
    let epochs: Vec<i32> = world.heartbeats().into_iter().map(|beat| beat.0).collect();
    assert_eq!(epochs, [0, -1]);
}

/// [ER-01] a cluster that does not speak it, or only the trial of Kafka 3.7.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_on_a_cluster_without_the_protocol_says_so() {
    for versions in [0..=0, 7..=9] {
        let world = world().await;
        world
            .broker()
            .set_versions(ApiKey::ConsumerGroupHeartbeat, versions);
        let one = world.session("one", AutoOffsetReset::Earliest);
        let outcome = one.run(Effect::Join(join(&["a"]))).await;
        assert_eq!(outcome, Err(Error::KafkaInvalid));
    }
}

/// [KF-27] [D-23] who does not give up what is to go holds it until the rebalance timeout, and is put out then.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_gives_nothing_up_is_put_out_at_the_rebalance_timeout() {
    let world = strict_world().await;
    let both = ["a", "b"];
    let mut stuck = world.session("stuck", AutoOffsetReset::Earliest);
    assert_eq!(stuck.join(&both).await, both);
    let mut waiting = world.session("waiting", AutoOffsetReset::Earliest);
    let asked = Instant::now();
    assert!(waiting.join(&both).await.is_empty());
    assert!(asked.elapsed() < PATIENCE, "a join waits for nobody");
    assert_eq!(stuck.signal().await, Signal::Rebalance);
    let mut values = stuck.read(2).await;
    values.sort();
    assert_eq!(values, ["a0", "b0"], "it reads on meanwhile");
    stuck.commit("a", 1, "").await.unwrap();
    assert_eq!(stuck.signal().await, Signal::Lost);
    assert_eq!(stuck.commit("b", 1, "").await, Err(Error::CommitFailed));
    waiting.come_to(&both, &both).await;
    assert_eq!(
        waiting.read(1).await,
        ["b0"],
        "what was committed stays committed"
    );
}

/// [KF-32] a member that is not heard for a session is put out, and comes back as soon as it is heard.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_not_heard_is_put_out_and_comes_back() {
    let world = strict_world().await;
    let both = ["a", "b"];
    let mut silent = world.session("silent", AutoOffsetReset::Earliest);
    assert_eq!(silent.join(&both).await, both);
    let faults = world.broker().faults();
    let unheard = faults.on(ApiKey::ConsumerGroupHeartbeat, always());
    unheard.client("octopus-group-silent").close();
    eventually("the session is over", || world.members() == 0).await;
    let mut other = world.session("other", AutoOffsetReset::Earliest);
    assert_eq!(other.join(&both).await, both);
    faults.clear();
    assert_eq!(silent.signal().await, Signal::Lost);
    let shares = |session: &Session| session.positions.len();
    silent.join(&both).await;
    assert_eq!(other.signal().await, Signal::Rebalance);
    other.join(&both).await;
    while shares(&silent) == 0 {
        assert_eq!(silent.signal().await, Signal::Rebalance);
        silent.join(&both).await;
    }
    assert_eq!((shares(&silent), shares(&other)), (1, 1));
}

/// [KF-28]
#[tokio::test(flavor = "multi_thread")]
async fn a_rebalance_is_signalled_once_and_the_member_kept() {
    let world = world().await;
    world.topic("b", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.come_to(&["a", "b"], &["a", "b"]).await;
    let mut two = world.session("two", AutoOffsetReset::Earliest);
    two.join(&["a", "b"]).await;
    assert_eq!(one.signal().await, Signal::Rebalance);
    let beats = world.heartbeats().len();
    eventually("more heartbeats", || world.heartbeats().len() >= beats + 6).await;
    assert!(!one.has_signal());
    assert_eq!(world.members(), 2);
}
