//! The service's end.

use octopus_core::{Command, Event, Outcome};

use crate::world::{
    World, assigned, auto_commit, commit, create, created, fetch, fetched, joined, ms, secs, settings,
    subscribe,
};

/// [AK-03]
#[test]
fn a_shutdown_commits_and_closes_every_instance() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    world.set_up_create(1, "b", settings());
    world
        .event(Event::Shutdown)
        .gives(["0: commit t@5 in 5000", "1: close in 5000"])
        .at(secs(2))
        .done(0, Outcome::Done)
        .done(1, Outcome::Done)
        .gives(["2: close in 3000"]);
    assert!(!world.is_drained());
    world.done(2, Outcome::Done).gives([]);
    assert!(world.is_drained());
}

/// [KF-49] [AK-04] fetches end at once and empty; what they polled is not committed.
#[test]
fn a_shutdown_ends_fetches() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    world.set_up_create(1, "b", settings());
    world
        .request(1, fetch(30_000))
        .request_of(1, "b", 2, fetch(30_000))
        .event(Event::Shutdown)
        .done(0, fetched(&[("t", 9)]))
        .gives([
            "0: fetch t@5 in 500",
            "cancel 0",
            "1 <- []",
            "2 <- []",
            "1: commit t@5 in 5000",
            "2: close in 5000",
        ]);
}

/// [AK-03] [AK-04] a reply that is being sent goes on; its instance closes behind it, in what is left.
#[test]
fn a_shutdown_lets_replies_end() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    world
        .request(1, fetch(30_000))
        .done(0, fetched(&[("t", 9)]))
        .event(Event::Shutdown)
        .request(2, Command::Subscription)
        .at(secs(6))
        .gives(["0: fetch t@5 in 500", "1 <- records 0", "2 <- 40403"])
        .delivered(1)
        .gives(["1: commit t@9 in 2000"])
        .done(1, Outcome::Done)
        .gives(["2: close in 2000"])
        .done(2, Outcome::Done);
    assert!(!world.is_drained(), "the refusal is still on its way");
    world.delivered(2);
    assert!(world.is_drained());
}

/// [KF-49] [AK-05] an instance still busy after eight seconds is neither committed nor closed.
#[test]
fn what_is_left_after_eight_seconds_is_given_up() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    for name in ["b", "c"] {
        world.set_up_create(1, name, settings());
    }
    world.set_up_assign(1, "b", &[("t", 5)]);
    world
        .request(1, fetch(30_000))
        .done(0, fetched(&[("t", 9)]))
        .request_of(1, "b", 2, commit(&[("t", 6)]))
        .request_of(1, "c", 3, Command::Delete)
        .event(Event::Shutdown)
        .at(ms(6_999))
        .gives([
            "0: fetch t@5 in 500",
            "1 <- records 0",
            "1: commit t@7/m in 10000",
            "2: close in 5000",
        ])
        .at(ms(7_999))
        .gives(["cancel 2", "3 <- 204"]);
    assert!(!world.is_drained());
    world.at(secs(8)).gives(["cancel 1", "abort 1", "2 <- 50003"]);
    assert!(world.is_drained());
    assert_eq!(world.next_deadline(), None);
    world
        .delivered(1)
        .done(1, Outcome::Done)
        .request(4, Command::Subscription)
        .request(5, create())
        .gives(["4 <- 40403", "5 <- 503"]);
}

/// [CR-11] a create that waits for Kafka is refused too, and undone.
#[test]
fn a_shutdown_refuses_creates_under_way() {
    crate::world::world()
        .request(1, create())
        .event(Event::Shutdown)
        .gives(["0: open in 9000", "cancel 0", "1 <- 503", "1: close in 5000"]);
}

/// What waits for an instance that closes is told that it is gone.
#[test]
fn a_shutdown_turns_the_lines_away() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 6)]))
        .request(2, Command::Assignments)
        .request(3, subscribe(&["t"]))
        .event(Event::Shutdown)
        .done(1, crate::world::topics(&["t"]))
        .done(0, Outcome::Done)
        .gives([
            "0: commit t@7/m in 10000",
            "1: topics t in 10000",
            "2 <- 40403",
            "3 <- 40403",
            "1 <- []",
            "2: close in 5000",
        ]);
}

#[test]
fn a_service_without_instances_is_drained_at_once() {
    let mut world = World::limited(|_| ());
    assert!(!world.is_drained());
    world.event(Event::Shutdown).event(Event::Shutdown).gives([]);
    assert!(world.is_drained());
}

/// A spurious call does nothing, and no deadline lies in the past.
#[test]
fn a_quiet_engine_only_looks_for_idle_instances() {
    let mut world = created(settings());
    assert_eq!(world.next_deadline(), Some(secs(30)));
    world.at(secs(29)).gives([]);
    assert_eq!(world.next_deadline(), Some(secs(30)));
    world.at(secs(31)).gives([]);
    assert_eq!(world.next_deadline(), Some(secs(60)));
}
