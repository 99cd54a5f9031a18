//! What a fetch waits for, and what it answers.

use std::{num::NonZeroU64, time::Duration};

use octopus_core::{Command, Error, Fetch, Fetched, Format, Outcome, Settings};

use crate::world::{
    assigned, created, fetch, fetch_as, fetched, found_nothing, joined, joins, json, ms, only, positions,
    secs, seek, settings, subscribe,
};

fn waits(timeout: Duration) -> Settings {
    let mut settings = settings();
    settings.request_timeout = timeout;
    settings
}

fn failed(partitions: &[&str]) -> Outcome {
    let failed = partitions
        .iter()
        .map(|topic| (only(topic), Error::NoOffset(only(topic))));
    Outcome::Fetched(Fetched {
        failed: failed.collect(),
        ..Fetched::default()
    })
}

fn not_utf8(topic: &str) -> Outcome {
    Outcome::Fetched(Fetched {
        not_utf8: Some(only(topic)),
        ..Fetched::default()
    })
}

/// [FE-08] the fetch's own wait, else the instance's, and 30 s at most.
#[test]
fn a_fetch_waits_for_its_timeout_or_its_instances() {
    let day = Duration::from_secs(86_400);
    for (own, instance, wait) in [
        (Some(ms(100)), ms(200), 100),
        (Some(ms(400)), ms(200), 400),
        (None, ms(200), 200),
        (Some(day), ms(200), 30_000),
        (None, day, 30_000),
    ] {
        // Nothing is assigned, so the answer comes when the wait is over.
        let mut world = created(waits(instance));
        world
            .request(1, fetch_as(Some(Format::Binary), own))
            .at(ms(wait - 1))
            .gives([])
            .at(ms(wait))
            .gives(["1 <- []"]);
    }
}

/// [CR-08] [FE-08]
#[test]
fn a_fetch_waits_five_seconds_if_nobody_says_how_long() {
    let mut world = created(settings());
    world
        .request(1, fetch_as(Some(Format::Binary), None))
        .at(ms(4_999))
        .gives([])
        .at(secs(5))
        .gives(["1 <- []"]);
}

/// [D-18] [FE-14]
#[test]
fn a_fetch_of_nothing_is_empty_after_its_wait() {
    let mut world = created(settings());
    world
        .request(1, fetch(1000))
        .gives([])
        .at(secs(1))
        .gives(["1 <- []"])
        .delivered(1)
        .gives([]);
}

/// [D-19]
#[test]
fn a_wait_of_zero_is_one_turn_that_does_not_wait() {
    let mut world = assigned(waits(Duration::ZERO), &[("t", 5)]);
    world
        .request(1, fetch_as(Some(Format::Binary), None))
        .gives(["0: fetch t@5 in 0"])
        .at(Duration::ZERO)
        .gives([])
        .done(0, found_nothing())
        .gives(["1 <- []"]);
    created(waits(Duration::ZERO))
        .request(1, fetch_as(Some(Format::Binary), None))
        .gives(["1 <- []"]);
}

/// [FE-09] as soon as a turn finds records; [] when the wait is over, and no later.
#[test]
fn a_fetch_returns_when_a_turn_finds_records() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(1200))
        .at(ms(500))
        .done(0, found_nothing())
        .at(ms(1000))
        .done(1, found_nothing())
        .gives([
            "0: fetch t@5 in 500",
            "1: fetch t@5 in 500",
            "2: fetch t@5 in 200",
        ])
        .at(ms(1100))
        .done(2, fetched(&[("t", 8)]))
        .gives(["1 <- records 2"])
        .delivered(1)
        .request(2, fetch(300))
        .at(ms(1400))
        .gives(["3: fetch t@8 in 300"])
        .done(3, found_nothing())
        .gives(["2 <- []"]);
}

/// [FE-09] a turn that takes a little longer, because a reply is packed, is waited for.
#[test]
fn records_that_come_with_the_end_of_the_wait_are_returned() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(300))
        .at(ms(310))
        .gives(["0: fetch t@5 in 300"])
        .done(0, fetched(&[("t", 6)]))
        .gives(["1 <- records 0"]);
}

/// A driver that never answers a turn does not hold the fetch for ever.
#[test]
fn a_turn_that_never_ends_is_given_up() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(300))
        .at(ms(2300))
        .gives(["0: fetch t@5 in 300", "cancel 0", "1 <- []"])
        .done(0, fetched(&[("t", 6)]))
        .gives([]);
}

/// [CR-07] [FE-10]
#[test]
fn the_plan_carries_what_the_reply_is_made_by() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(
            1,
            Command::Fetch(Fetch {
                format: Some(Format::Binary),
                timeout: None,
                max_bytes: NonZeroU64::new(100),
            }),
        )
        .gives(["0: fetch t@5 below 100 in 500"]);
}

/// [AC-03] before the line: also while the instance is held.
#[test]
fn a_fetch_of_another_format_is_refused() {
    let mut world = assigned(json(), &[("t", 5)]);
    world
        .request(1, fetch_as(Some(Format::Json), None))
        .request(2, fetch(5000))
        .request(3, fetch_as(None, None))
        .gives(["0: fetch t@5 in 500", "2 <- 40601", "3 <- 40601"]);
}

/// [FE-11] [RP-04] [AK-04] what was not delivered comes again, from the same place.
#[test]
fn a_reply_that_was_not_delivered_is_fetched_again() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 7)]);
    world
        .request(1, fetch(5000))
        .done(0, fetched(&[("a", 8), ("b", 9)]))
        .dropped(1)
        .request(2, fetch(5000))
        .gives([
            "0: fetch a@5 b@7 in 500",
            "1 <- records 0",
            "1: fetch a@5 b@7 in 500",
        ]);
}

/// [RP-05] [FE-11] what a reply left out comes first in the next one.
#[test]
fn a_reply_that_was_handed_over_moves_the_positions() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 7)]);
    world
        .request(1, fetch(5000))
        .done(0, fetched(&[("a", 8)]))
        .delivered(1)
        .request(2, fetch(5000))
        .gives([
            "0: fetch a@5 b@7 in 500",
            "1 <- records 0",
            "1: fetch a@8 b@7 in 500",
        ]);
}

/// [RP-03]
#[test]
fn a_reply_that_takes_thirty_seconds_is_not_fetched_again() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(5000))
        .at(secs(1))
        .done(0, fetched(&[("t", 8)]))
        .at(ms(30_999))
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .at(secs(31))
        .gives(["abort 1"])
        .dropped(1)
        .request(2, fetch(5000))
        .gives(["1: fetch t@8 in 500"]);
}

/// [RP-04] a client that leaves while its fetch polls loses nothing and holds nothing.
#[test]
fn a_client_that_leaves_while_its_fetch_polls_loses_nothing() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(5000))
        .dropped(1)
        .done(0, fetched(&[("t", 8)]))
        .request(2, fetch(5000))
        .gives(["0: fetch t@5 in 500", "cancel 0", "1: fetch t@5 in 500"]);
}

/// [FE-12] the partition that came first in a cut reply comes last in the next.
#[test]
fn partitions_take_turns_when_replies_are_cut() {
    let cut = |topic: &str, next| {
        Outcome::Fetched(Fetched {
            next: positions(&[(topic, next)]),
            cut: Some(only(topic)),
            ..Fetched::default()
        })
    };
    let mut world = assigned(settings(), &[("a", 0), ("b", 0), ("c", 0)]);
    world
        .request(1, fetch(500))
        .done(0, cut("a", 9))
        .delivered(1)
        .request(2, fetch(500))
        .done(1, cut("b", 9))
        .dropped(2)
        .request(3, fetch(500))
        .gives([
            "0: fetch a@0 b@0 c@0 in 500",
            "1 <- records 0",
            "1: fetch b@0 c@0 a@9 in 500",
            "2 <- records 1",
            "2: fetch b@0 c@0 a@9 in 500",
        ]);
}

/// What reading starts at, and stretches without records, move at once: there is nothing to deliver.
#[test]
fn stretches_without_records_are_passed_at_once() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 7)]);
    let found = Outcome::Fetched(Fetched {
        started: positions(&[("a", 20)]),
        skipped: positions(&[("b", 9), ("x", 1)]),
        ..Fetched::default()
    });
    world
        .request(1, fetch(1000))
        .at(ms(200))
        .done(0, found)
        .gives(["0: fetch a@5 b@7 in 500", "1: fetch a@20 b@9 in 300"])
        .at(ms(400))
        .done(1, found_nothing())
        .gives([])
        .at(ms(500))
        .gives(["2: fetch a@20 b@9 in 500"]);
}

/// [FE-06] [D-37] whatever the other partitions hold, without a poll, until the partition is sought.
#[test]
fn a_record_that_is_not_utf8_blocks_until_a_seek() {
    let fetch = || fetch_as(Some(Format::Json), None);
    let mut world = assigned(json(), &[("a", 5), ("b", 7)]);
    world
        .request(1, fetch())
        .done(0, not_utf8("a"))
        .gives(["0: fetch a@5 b@7 in 500", "1 <- 40801"])
        .delivered(1)
        .request(2, fetch())
        .request(3, seek(&[("b", 9)]))
        .request(4, fetch())
        .gives(["2 <- 40801", "3 <- 204", "4 <- 40801"])
        .request(5, seek(&[("a", 6)]))
        .request(6, fetch())
        .gives(["5 <- 204", "1: fetch a@6 b@9 in 500"]);
}

/// [D-37] a body that was packed beside it is forgotten.
#[test]
fn a_block_forgets_what_was_packed_beside_it() {
    let found = Outcome::Fetched(Fetched {
        next: positions(&[("b", 9)]),
        not_utf8: Some(only("a")),
        ..Fetched::default()
    });
    assigned(json(), &[("a", 5), ("b", 7)])
        .request(1, fetch_as(Some(Format::Json), None))
        .done(0, found)
        .gives(["0: fetch a@5 b@7 in 500", "cancel 0", "1 <- 40801"]);
}

/// [D-37]
#[test]
fn a_block_ends_with_the_assignment() {
    let fetch = || fetch_as(Some(Format::Json), None);
    let mut world = joined(json(), &[]);
    world.set_up(1, "a", subscribe(&["a", "b"]));
    world
        .request(1, fetch())
        .done(0, joins(&["a", "b"]))
        .done(1, not_utf8("a"))
        .gives(["0: join a b in 500", "1: fetch a@? b@? in 500", "1 <- 40801"]);
    world.set_up(1, "a", subscribe(&["b"]));
    world
        .request(2, fetch())
        .done(0, joins(&["b"]))
        .gives(["0: join b in 500", "1: fetch b@? in 500"]);
}

/// [D-20] [D-26] when nothing else can be read, at once.
#[test]
fn partitions_that_all_fail_are_told_at_once() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 7)]);
    world
        .request(1, fetch(5000))
        .done(0, failed(&["b", "a"]))
        .gives(["0: fetch a@5 b@7 in 500", "1 <- 50002"]);
}

/// [D-20] records of other partitions come first: the error waits for the end of a fetch that finds none.
#[test]
fn a_partition_that_fails_is_told_at_the_end_of_the_wait() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 7)]);
    world
        .request(1, fetch(1000))
        .at(ms(500))
        .done(0, failed(&["b"]))
        .at(ms(1000))
        .done(1, failed(&["b"]))
        .gives(["0: fetch a@5 b@7 in 500", "1: fetch a@5 b@7 in 500", "1 <- 50002"])
        .request(2, fetch(500))
        .done(2, {
            let Outcome::Fetched(mut found) = failed(&["b"]) else {
                unreachable!()
            };
            found.next = positions(&[("a", 6)]);
            Outcome::Fetched(found)
        })
        .gives(["2: fetch a@5 b@7 in 500", "2 <- records 2"]);
}

/// A failure that the last turn did not see again is over.
#[test]
fn a_partition_that_recovers_is_not_told() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 7)]);
    world
        .request(1, fetch(1000))
        .at(ms(500))
        .done(0, failed(&["b"]))
        .at(ms(1000))
        .done(1, found_nothing())
        .gives(["0: fetch a@5 b@7 in 500", "1: fetch a@5 b@7 in 500", "1 <- []"]);
}

/// [ER-07] only if no turn reached Kafka.
#[test]
fn a_fetch_that_never_reaches_kafka_says_so_at_the_end() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(1000))
        .fails(0, Error::KafkaUnreachable)
        .at(ms(999))
        .gives(["0: fetch t@5 in 500", "1: fetch t@5 in 500"])
        .fails(1, Error::KafkaUnreachable)
        .at(secs(1))
        .gives(["1 <- 50302"])
        .request(2, fetch(1000))
        .fails(2, Error::KafkaUnreachable)
        .at(ms(1500))
        .fails(3, Error::KafkaRetriable)
        .at(secs(2))
        .gives(["2: fetch t@5 in 500", "3: fetch t@5 in 500", "2 <- []"]);
}

/// [ER-02]
#[test]
fn an_error_that_stays_is_told_at_once() {
    let mut world = joined(settings(), &[("t", 5)]);
    world
        .request(1, fetch(1000))
        .fails(0, Error::KafkaUnauthorized)
        .gives(["0: fetch t@5 in 500", "1 <- 40301"]);
}

/// An answer of another kind than was asked for is a fault of the driver, not of the caller, and no panic.
#[test]
fn an_answer_of_the_wrong_kind_is_an_internal_error() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(1000))
        .done(0, Outcome::Done)
        .request(2, Command::Commit(None))
        .done(1, found_nothing())
        .gives([
            "0: fetch t@5 in 500",
            "1 <- 500",
            "1: commit t@5 in 10000",
            "2 <- 500",
        ]);
}

/// [RP-05] only what was sent can have been delivered: a fetch that still polls goes on, and is answered once.
#[test]
fn a_delivery_before_a_reply_means_nothing() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(5000))
        .delivered(1)
        .done(0, fetched(&[("t", 7)]))
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .delivered(1)
        .request(2, fetch(5000))
        .gives(["1: fetch t@7 in 500"]);
}
