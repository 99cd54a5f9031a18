//! Schedules that failed once, kept as what they do: unlike a seed, they stay what they are when others are made in
//! another way.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Command, Limits, Settings, TopicName, TopicPartition};

use crate::step::{Accept, How, Schedule, Step, Who};

const WELL: How = How::Well {
    most: 1,
    cut: false,
    bits: 1,
};

/// What each failed at, and its steps.
pub(crate) fn schedules() -> Vec<(&'static str, Schedule)> {
    let create =
        |user, name, settings: &Settings| Step::Ask(named(user, name), Command::Create(settings.clone()));
    let mut commits = quick();
    commits.auto_commit = true;
    commits.auto_offset_reset = AutoOffsetReset::Earliest;
    let mut waits = quick();
    waits.request_timeout = Duration::from_millis(700);
    let ready = |user, name, settings: &Settings| {
        Step::Ready(named(user, name), settings.clone(), subscribe(), false)
    };
    vec![
        (
            "a commit of a fetch whose caller left, behind which an unsubscribe commits",
            kept(vec![
                create(0, 0, &commits),
                Step::End(0, WELL),
                Step::Ask(named(0, 0), assign("t2")),
                Step::End(0, WELL),
                fetch(0, 0, 0),
                Step::Leave(0),
                Step::Ask(named(0, 0), Command::SeekToBeginning(Vec::new())),
                create(0, 0, &quick()),
                Step::Ask(named(0, 0), Command::Unsubscribe),
            ]),
        ),
        (
            "a shutdown that ends while a client's commit is under way",
            kept(vec![
                create(2, 0, &quick()),
                create(0, 0, &quick()),
                Step::Settle,
                Step::Ask(named(2, 0), assign("t0")),
                Step::End(0, WELL),
                Step::Ask(named(2, 0), Command::Commit(None)),
                Step::Shutdown,
                Step::Wait(Duration::from_secs(8)),
            ]),
        ),
        (
            "an instance that was put out while it polled",
            kept(vec![
                create(2, 0, &quick()),
                Step::End(0, WELL),
                Step::Ask(named(2, 0), subscribe()),
                Step::End(0, WELL),
                fetch(2, 0, 1),
                Step::End(0, WELL),
                Step::Signal(0, true),
                create(0, 0, &quick()),
                create(0, 0, &quick()),
            ]),
        ),
        (
            "fetches that wait for a turn while their driver sleeps",
            kept(vec![
                ready(3, 0, &quick()),
                ready(1, 1, &quick()),
                ready(1, 0, &waits),
                ready(0, 3, &quick()),
                fetch(3, 0, 501),
                fetch(1, 0, 0),
                fetch(1, 1, 0),
                fetch(0, 3, 2_001),
                Step::Jump(Duration::from_millis(4_002)),
            ]),
        ),
        (
            "a turn that is short anyway, and one who comes to wait for it late",
            kept(vec![
                ready(0, 0, &quick()),
                ready(0, 1, &quick()),
                ready(1, 0, &quick()),
                ready(1, 1, &quick()),
                fetch(0, 0, 20),
                fetch(0, 1, 20),
                fetch(1, 0, 20),
                Step::Wait(Duration::from_millis(60)),
                fetch(1, 1, 5_000),
                Step::Wait(Duration::from_millis(60)),
            ]),
        ),
    ]
}

fn kept(steps: Vec<Step>) -> Schedule {
    Schedule {
        limits: Limits::default(),
        kafka: true,
        steps,
    }
}

/// Settings of an instance whose fetches do not wait.
fn quick() -> Settings {
    let mut settings = Settings::default();
    settings.request_timeout = Duration::ZERO;
    settings
}

fn named(user: u64, name: u64) -> Who {
    Who::Named(user, 0, name)
}

fn subscribe() -> Command {
    Command::Subscribe(vec![TopicName::from("t0")])
}

fn assign(topic: &str) -> Command {
    Command::Assign(vec![TopicPartition::only(topic.into())])
}

fn fetch(user: u64, name: u64, timeout: u64) -> Step {
    let timeout = Some(Duration::from_millis(timeout)).filter(|timeout| !timeout.is_zero());
    Step::Fetch(named(user, name), Accept::Its, timeout, None)
}
