//! The client in worlds that go wrong: real consumers over a network, brokers and groups that are played from one seed,
//! with a clock of their own, judged after every event.
//!
//! `OCTOPUS_WORLDS` is how many are played, `OCTOPUS_SEED` the first of their seeds; if nothing is said, 2,000, or as many
//! as a busy machine has time for. The same seed is the same world, so one that fails can be played again; its seed is then
//! kept in `kept.rs`.

mod chance;
mod consumer;
mod foreign;
mod kept;
mod network;
mod play;
mod sim;
mod truth;
mod wire;

use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    io::Write as _,
    panic,
    str::FromStr,
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use octopus_kafka::GroupProtocol;
use play::{Played, play};
use rstest::rstest;

/// What is played if nothing else is said: as many, but no new one after this time unless there were only a few.
const WORLDS: u64 = 2_000;
const LONG: Duration = Duration::from_secs(100);
const FEW: u64 = 50;
/// The worlds that are played twice.
const TWICE: u64 = 6;
/// The failures that are shown.
const SHOWN: usize = 3;

/// What a client reads of a partition is what its log held, in order, without gap or repeat, and goes on in the log that it
/// was read in [FE-11] [D-22]; it comes again as it was where a reply was not delivered [RP-04]. No commit is above what was
/// delivered [AK-04], of another generation or another member's partitions [D-23], or beside another one [D-38]. What is
/// held of connections and memory stays within its bound and is given back. After all faults every record is read within
/// 30 s. Nothing quick waits behind what waits, no throttled connection is asked [ER-04], a member that lives is never put
/// out [LC-03], and no topic is made [NS-05].
#[rstest]
#[case::classic(GroupProtocol::Classic)]
#[case::consumer(GroupProtocol::Consumer)]
#[test]
fn every_world_comes_right(#[case] protocol: GroupProtocol) {
    let asked = setting("OCTOPUS_WORLDS");
    let (count, began) = (asked.unwrap_or(WORLDS), Instant::now());
    let first = setting("OCTOPUS_SEED").unwrap_or(1);
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, played) = (AtomicU64::new(first), AtomicU64::new(0));
    let failures: Vec<String> = thread::scope(|scope| {
        let plays: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    while failures.len() < SHOWN {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let enough = asked.is_none() && seed >= first + FEW && began.elapsed() > LONG;
                        if seed >= first + count || enough {
                            break;
                        }
                        failures.extend(judge(seed, protocol, reads_ahead(seed)).failure);
                        played.fetch_add(1, Ordering::Relaxed);
                    }
                    failures
                })
            })
            .collect();
        plays
            .into_iter()
            .flat_map(|play| play.join().expect("a thread that ends"))
            .collect()
    });
    say(format_args!(
        "{} worlds of {protocol:?} from seed {first}, {} failed",
        played.into_inner(),
        failures.len()
    ));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// As [`every_world_comes_right`], for those that once failed.
#[test]
fn worlds_that_failed_once_come_right() {
    let classic = kept::SEEDS.iter().map(|kept| (GroupProtocol::Classic, kept));
    let consumer = kept::CONSUMER.iter().map(|kept| (GroupProtocol::Consumer, kept));
    let worlds = classic.chain(consumer).map(|world| (world, false));
    for ((protocol, (what, seed)), reads_ahead) in worlds {
        if let Some(failure) = judge(*seed, protocol, reads_ahead).failure {
            panic!("{what}: {failure}");
        }
    }
}

/// A failure that can't be played again can't be understood.
#[rstest]
#[case::classic(GroupProtocol::Classic)]
#[case::consumer(GroupProtocol::Consumer)]
#[test]
fn the_same_seed_is_the_same_world(#[case] protocol: GroupProtocol) {
    for seed in 1..=TWICE {
        let [one, two] = [0; 2].map(|_| judge(seed, protocol, reads_ahead(seed)).hash);
        assert_eq!(one, two, "seed {seed}");
    }
    assert_ne!(judge(1, protocol, true).hash, judge(2, protocol, true).hash);
}

/// Whether the consumers of a world read ahead: those of every other one do.
const fn reads_ahead(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Plays a world. A panic of a task of the client is a failure.
fn judge(seed: u64, protocol: GroupProtocol, reads_ahead: bool) -> Played {
    static HOOK: Once = Once::new();
    thread_local! {
        static PLAYS: Cell<bool> = const { Cell::new(false) };
        static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    }
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if PLAYS.get() {
                PANIC.with_borrow_mut(|first| _ = first.get_or_insert_with(|| panic.to_string()));
            } else {
                usual(panic);
            }
        }));
    });
    PLAYS.set(true);
    let played = panic::catch_unwind(|| play(seed, protocol, reads_ahead));
    PLAYS.set(false);
    let panicked = PANIC.take().map(|why| format!("seed {seed}: {why}"));
    match (played, panicked) {
        (Ok(played), None) => played,
        (Ok(Played { hash, failure }), Some(why)) => Played {
            hash,
            failure: Some(format!("{why}\n{}", failure.unwrap_or_default())),
        },
        (Err(_), failure) => Played { hash: 0, failure },
    }
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says it past the capture of the test's output.
fn say(line: impl Display) {
    writeln!(std::io::stderr(), "{line}").expect("an open standard error");
}
