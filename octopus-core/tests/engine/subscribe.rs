//! Subscribe, unsubscribe and assign.

use octopus_core::{Command, Error, Event, Offset, Outcome, Position, Processed, TopicPartition};

use crate::world::{
    assign, assigned, auto_commit, commit, committed, created, fetch, fetched, found_nothing, joined, joins,
    ms, partitions, second, secs, settings, subscribe, topics,
};

/// [SU-01] [D-15]
#[test]
fn a_subscribe_replaces_the_earlier_one() {
    let mut world = created(settings());
    world
        .request(1, subscribe(&["b", "a"]))
        .done(0, topics(&["a", "b"]))
        .request(2, Command::Subscription)
        .gives(["0: topics b a in 10000", "1 <- 204", "2 <- topics b a"])
        .request(3, subscribe(&["c", "a"]))
        .done(1, topics(&["a", "c"]))
        .request(4, Command::Subscription)
        .gives(["1: topics c a in 10000", "3 <- 204", "4 <- topics c a"]);
}

/// [SU-01]
#[test]
fn an_unsubscribe_drops_the_subscription_and_the_assignment() {
    let mut world = joined(settings(), &[("t", 5)]);
    world
        .request(1, Command::Unsubscribe)
        .done(0, Outcome::Done)
        .request(2, Command::Subscription)
        .request(3, Command::Assignments)
        .gives(["0: leave in 5000", "1 <- 204", "2 <- topics ", "3 <- partitions "]);
}

/// [NS-04] the first that is missing in the order asked, and nothing changes.
#[test]
fn a_topic_that_the_namespace_does_not_hold_is_refused() {
    let mut world = created(settings());
    world
        .request(1, subscribe(&["a", "c", "b"]))
        .done(0, topics(&["a"]))
        .request(2, assign(&["b"]))
        .done(1, topics(&[]))
        .request(3, Command::Subscription)
        .request(4, Command::Assignments)
        .gives([
            "0: topics a c b in 10000",
            "1 <- 40401",
            "1: topics b in 10000",
            "2 <- 40401",
            "3 <- topics ",
            "4 <- partitions ",
        ]);
}

#[test]
fn topics_that_cannot_be_asked_about_refuse_the_subscribe() {
    let mut world = created(settings());
    world
        .request(1, subscribe(&["a"]))
        .fails(0, Error::KafkaUnreachable)
        .gives(["0: topics a in 10000", "1 <- 50302"]);
}

/// [D-01] a topic is refused before the instance is waited for.
#[test]
fn topics_are_asked_about_before_the_line() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 1)]))
        .request(2, assign(&["x"]))
        .request(3, committed(&["x"]))
        .done(1, topics(&[]))
        .done(2, topics(&[]))
        .gives([
            "0: commit t@2/m in 10000",
            "1: topics x in 10000",
            "2: topics x in 10000",
            "2 <- 40401",
            "3 <- 40401",
        ]);
}

/// [SU-03]
#[test]
fn an_instance_subscribes_or_is_assigned() {
    let mut world = created(settings());
    world.set_up(1, "a", assign(&["t"]));
    world
        .request(1, subscribe(&["t"]))
        .done(0, topics(&["t"]))
        .gives(["0: topics t in 10000", "1 <- 40903"])
        .request(2, Command::Unsubscribe)
        .gives(["2 <- 204"])
        .request(3, subscribe(&["t"]))
        .done(1, topics(&["t"]))
        .gives(["1: topics t in 10000", "3 <- 204"])
        .request(4, assign(&["t"]))
        .done(2, topics(&["t"]))
        .request(5, assign(&[]))
        .gives(["2: topics t in 10000", "4 <- 40903", "5 <- 40903"])
        .request(6, Command::Unsubscribe)
        .request(7, assign(&["t"]))
        .done(3, topics(&["t"]))
        .gives(["6 <- 204", "3: topics t in 10000", "7 <- 204"]);
}

/// [SU-04]
#[test]
fn a_subscribed_instance_has_no_partitions_before_a_fetch() {
    let mut world = created(settings());
    world.set_up(1, "a", subscribe(&["b", "a"]));
    world
        .request(1, Command::Assignments)
        .gives(["1 <- partitions "])
        .request(2, fetch(5000))
        .done(0, joins(&["b", "a"]))
        .done(1, fetched(&[("a", 1)]))
        .delivered(2)
        .request(3, Command::Assignments)
        .gives([
            "0: join b a in 500",
            "1: fetch a@? b@? in 500",
            "2 <- records 1",
            "3 <- partitions a b",
        ]);
}

/// What a foreign leader assigns beyond the subscription is not read.
#[test]
fn what_was_not_subscribed_to_is_not_read() {
    let mut world = created(settings());
    world.set_up(1, "a", subscribe(&["a"]));
    let mut given = partitions(&["a", "x"]);
    given.push(second("a"));
    world
        .request(1, fetch(5000))
        .done(0, Outcome::Joined(given))
        .gives(["0: join a in 500", "1: fetch a@? in 500"]);
}

/// [AS-01] [D-15]
#[test]
fn an_assign_replaces_the_earlier_one() {
    let mut world = created(settings());
    world
        .request(1, assign(&["b", "a"]))
        .done(0, topics(&["a", "b"]))
        .request(2, Command::Assignments)
        .gives(["0: topics b a in 10000", "1 <- 204", "2 <- partitions a b"])
        .request(3, assign(&["c"]))
        .done(1, topics(&["c"]))
        .request(4, Command::Assignments)
        .gives(["1: topics c in 10000", "3 <- 204", "4 <- partitions c"]);
}

/// [D-12]
#[test]
fn partitions_that_an_assign_keeps_keep_their_positions() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 7)]);
    world.set_up(1, "a", assign(&["b", "c"]));
    world.request(1, fetch(500)).gives(["0: fetch b@7 c@? in 500"]);
}

/// [D-12] partitions of topics no longer named go at once; the rest keeps its positions over the join.
#[test]
fn partitions_that_a_subscribe_keeps_keep_their_positions() {
    let mut world = joined(settings(), &[("a", 5), ("b", 7)]);
    world.set_up(1, "a", subscribe(&["b", "c"]));
    world
        .request(1, Command::Assignments)
        .request(2, fetch(500))
        .done(0, joins(&["b", "c"]))
        .gives([
            "1 <- partitions b",
            "0: join b c in 500",
            "1: fetch b@7 c@? in 500",
        ]);
}

/// [D-13]
#[test]
fn an_empty_assign_clears() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, assign(&[]))
        .request(2, Command::Assignments)
        .gives(["1 <- 204", "2 <- partitions "]);
    world.set_up(1, "a", subscribe(&["t"]));
    world.request(3, Command::Subscription).gives(["3 <- topics t"]);
}

/// [D-08]
#[test]
fn what_is_named_twice_counts_once() {
    let mut world = created(settings());
    world
        .request(1, assign(&["b", "a", "b"]))
        .gives(["0: topics b a in 10000"]);
}

/// [AS-02] at once: before the topics and before the line.
#[test]
fn a_partition_other_than_zero_is_refused() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 1)]))
        .gives(["0: commit t@2/m in 10000"])
        .request(2, Command::Assign(vec![second("t")]))
        .request(3, Command::Committed(Some(vec![second("t")])))
        .request(4, Command::SeekToBeginning(vec![second("t")]))
        .request(5, Command::SeekToEnd(vec![second("t")]))
        .request(6, Command::Seek(vec![(second("t"), Position::at(1))]))
        .request(7, Command::Commit(Some(vec![processed(second("t"))])))
        .gives([
            "2 <- 40402",
            "3 <- 40402",
            "4 <- 40402",
            "5 <- 40402",
            "6 <- 40402",
            "7 <- 40402",
        ]);
}

/// [D-46] the commit and the leave share five seconds.
#[test]
fn an_unsubscribe_takes_five_seconds_in_all() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    world
        .request(1, Command::Unsubscribe)
        .at(secs(3))
        .done(0, Outcome::Done)
        .fails(1, Error::KafkaRetriable)
        .gives(["0: commit t@5 in 5000", "1: leave in 2000", "1 <- 204"]);
}

/// [AK-02] [AK-05]
#[test]
fn what_an_assign_replaces_is_committed_first() {
    let mut world = assigned(auto_commit(), &[("a", 5), ("b", 7)]);
    world
        .request(1, assign(&["c"]))
        .done(0, topics(&["c"]))
        .request(2, Command::Assignments)
        .gives(["0: topics c in 10000", "1: commit a@5 b@7 in 5000"])
        .fails(1, Error::CommitFailed)
        .gives(["1 <- 204", "2 <- partitions c"]);
}

/// [AK-06]
#[test]
fn nothing_is_committed_unasked_without_auto_commit() {
    let mut world = assigned(settings(), &[("a", 5)]);
    world.at(secs(60));
    world.set_up(1, "a", assign(&["a", "b"]));
    world
        .request(1, fetch(500))
        .done(0, found_nothing())
        .at(secs(60) + ms(500))
        .gives(["0: fetch a@5 b@? in 500", "1 <- []"])
        .request(2, Command::Unsubscribe)
        .request(3, Command::Delete)
        .gives(["2 <- 204", "1: close in 5000"]);
}

fn processed(partition: TopicPartition) -> Processed {
    Processed {
        partition,
        offset: Offset(1),
        metadata: "".into(),
    }
}

/// [SU-04] [D-23] a rebalance that was signalled while the group was left joins no later subscription before its fetch.
#[test]
fn a_signal_during_an_unsubscribe_concerns_no_later_subscription() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .request(1, Command::Unsubscribe)
        .event(Event::Rebalance(instance))
        .done(0, Outcome::Done)
        .gives(["0: leave in 5000", "1 <- 204"])
        .request(2, subscribe(&["t"]))
        .done(1, topics(&["t"]))
        .gives(["1: topics t in 10000", "2 <- 204"])
        .delivered(1)
        .delivered(2)
        .at(secs(60))
        .gives([]);
}

/// [SU-02]
#[test]
fn a_subscribe_names_a_topic() {
    created(settings())
        .request(1, subscribe(&[]))
        .gives(["1 <- 42204"])
        .request(2, Command::Subscription)
        .gives(["2 <- topics "]);
}
