//! Create.

use octopus_core::{Command, Config, Error, Event, Outcome};

use crate::world::{
    World, assign, assigned, auto_commit, create, created, fetch, secs, seek, settings, subscribe, topics,
    world,
};

#[test]
fn a_create_is_answered_once_its_consumer_is_made() {
    world()
        .request(1, create())
        .gives(["0: open in 9000"])
        .done(0, Outcome::Done)
        .gives(["1 <- created"])
        .delivered(1)
        .gives([]);
}

/// [CR-09] also while the other is still being made.
#[test]
fn a_name_is_taken_from_its_create_on() {
    world()
        .request(1, create())
        .request(2, create())
        .gives(["0: open in 9000", "2 <- 40902"])
        .done(0, Outcome::Done)
        .request(3, create())
        .gives(["1 <- created", "3 <- 40902"]);
}

/// [AU-03]
#[test]
fn another_users_instance_is_not_found() {
    let mut world = created(settings());
    world
        .request_of(2, "a", 1, Command::Subscription)
        .request_of(2, "a", 2, Command::Delete)
        .request_of(2, "a", 3, fetch(1))
        .gives(["1 <- 40403", "2 <- 40403", "3 <- 40403"])
        .request_of(2, "a", 4, create())
        .gives(["0: open in 9000"]);
}

#[test]
fn an_instance_is_not_found_before_it_is_made() {
    world()
        .request(1, create())
        .request(2, Command::Subscription)
        .gives(["0: open in 9000", "2 <- 40403"]);
}

/// [CR-10]
#[test]
fn a_users_fifth_instance_is_refused() {
    let mut world = world();
    for name in ["a", "b", "c", "d"] {
        world.set_up_create(1, name, settings());
    }
    world
        .request_of(1, "e", 1, create())
        .gives(["1 <- 42901"])
        .request_of(1, "a", 2, Command::Delete)
        .done(0, Outcome::Done)
        .request_of(1, "e", 3, create())
        .gives(["0: close in 5000", "2 <- 204", "1: open in 9000"]);
}

/// [CR-10]
#[test]
fn the_services_thirteenth_instance_is_refused() {
    let mut world = world();
    for user in 1..=3 {
        for name in ["a", "b", "c", "d"] {
            world.set_up_create(user, name, settings());
        }
    }
    world.request_of(4, "a", 1, create()).gives(["1 <- 42901"]);
}

/// [D-29] a repeat past a limit is a repeat.
#[test]
fn a_repeat_comes_before_a_limit() {
    let mut world = world();
    for name in ["a", "b", "c", "d"] {
        world.set_up_create(1, name, settings());
    }
    world.request_of(1, "d", 1, create()).gives(["1 <- 40902"]);
}

/// [CR-11] [D-44] before anything else about the create.
#[test]
fn a_create_during_a_shutdown_is_refused() {
    let mut world = created(settings());
    world
        .event(Event::Shutdown)
        .gives(["0: close in 5000"])
        .request(1, create())
        .gives(["1 <- 503"]);
}

/// [CR-11]
#[test]
fn a_create_without_a_kafka_endpoint_is_refused() {
    let mut config = Config::default();
    config.kafka = false;
    World::new(config).request(1, create()).gives(["1 <- 50002"]);
}

/// [D-41] [D-29] a create that fails leaves nothing behind: neither its name nor its place.
#[test]
fn a_create_that_fails_leaves_nothing_behind() {
    let mut world = World::limited(|limits| limits.max_instances_per_user = 1);
    world
        .request(1, create())
        .fails(0, Error::KafkaUnreachable)
        .gives(["0: open in 9000", "1 <- 50302"])
        .request(2, Command::Subscription)
        .request(3, create())
        .gives(["2 <- 40403", "1: open in 9000"]);
}

/// A driver that never answers does not hold the create for ever; what it may have made is closed.
#[test]
fn a_create_that_is_never_answered_is_given_up() {
    world()
        .request(1, create())
        .at(secs(11))
        .gives(["0: open in 9000", "cancel 0", "1 <- 50003", "1: close in 5000"])
        .done(0, Outcome::Done)
        .request(2, create())
        .gives(["2: open in 9000"]);
}

/// [D-29] undone at once, and without a commit.
#[test]
fn a_create_whose_answer_is_not_delivered_is_undone() {
    world()
        .request(1, Command::Create(auto_commit()))
        .done(0, Outcome::Done)
        .gives(["0: open in 9000", "1 <- created"])
        .dropped(1)
        .gives(["1: close in 5000"])
        .request(2, Command::Subscription)
        .request(3, create())
        .gives(["2 <- 40403", "2: open in 9000"]);
}

/// [D-29]
#[test]
fn a_create_whose_caller_leaves_meanwhile_is_undone() {
    world()
        .request(1, create())
        .dropped(1)
        .gives(["0: open in 9000", "cancel 0", "1: close in 5000"])
        .done(0, Outcome::Done)
        .request(2, create())
        .gives(["2: open in 9000"]);
}

/// [D-29] [RP-03]
#[test]
fn a_create_whose_answer_takes_too_long_is_undone() {
    world()
        .request(1, create())
        .done(0, Outcome::Done)
        .at(secs(30))
        .gives(["0: open in 9000", "1 <- created", "abort 1", "1: close in 5000"]);
}

/// [D-29] what another request does with it meanwhile ends first.
#[test]
fn an_undone_instance_closes_behind_the_request_that_holds_it() {
    let mut world = world();
    world
        .request(1, create())
        .done(0, Outcome::Done)
        .request(2, subscribe(&["t"]))
        .done(1, topics(&["t"]))
        .request(3, fetch(5000))
        .gives([
            "0: open in 9000",
            "1 <- created",
            "1: topics t in 10000",
            "2 <- 204",
            "2: join t in 500",
        ])
        .request(4, Command::Subscription)
        .dropped(1)
        .gives(["4 <- 40403", "cancel 2", "3 <- 40403", "3: close in 5000"]);
}

/// [D-29] whatever was done with it meanwhile.
#[test]
fn an_undone_instance_commits_nothing() {
    let mut world = world();
    world
        .request(1, Command::Create(auto_commit()))
        .done(0, Outcome::Done)
        .request(2, assign(&["t"]))
        .done(1, topics(&["t"]))
        .request(3, seek(&[("t", 5)]))
        .gives([
            "0: open in 9000",
            "1 <- created",
            "1: topics t in 10000",
            "2 <- 204",
            "3 <- 204",
        ])
        .dropped(1)
        .gives(["2: close in 5000"]);
}

/// [LC-04] the group keeps its commits: an instance made again asks Kafka where to start.
#[test]
fn an_instance_made_again_starts_anew() {
    let mut world = assigned(settings(), &[("t", 7)]);
    world
        .request(1, Command::Delete)
        .done(0, Outcome::Done)
        .delivered(1)
        .request(2, create())
        .done(1, Outcome::Done)
        .gives(["0: close in 5000", "1 <- 204", "1: open in 9000", "2 <- created"]);
    world.set_up(1, "a", assign(&["t"]));
    world.request(3, fetch(500)).gives(["0: fetch t@? in 500"]);
}
