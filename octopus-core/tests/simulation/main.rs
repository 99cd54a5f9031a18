//! Random schedules of requests, answers, losses and jumps of the clock, judged by a reference model.
//!
//! `OCTOPUS_SCHEDULES` is how many are played, `OCTOPUS_SEED` the first of the seeds that they are made from, one for
//! each thread. A schedule that fails is shrunk, and its seed is kept beside this file.

mod kafka;
mod kept;
mod model;
mod service;
mod step;

use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    hash::{BuildHasher, Hasher},
    io::Write,
    panic,
    str::FromStr,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, TestCaseError, TestError, TestRunner};

use service::{Seen, Service};
use step::Schedule;

/// What is played if nothing else is said.
const SCHEDULES: u32 = 20_000;

/// How often a schedule that fails is made smaller.
const SHRINKS: u32 = 100_000;

/// So many schedules get to every kind of call and answer.
const ENOUGH: u32 = 2_000;

/// The model says what must come, and so of every request the answer, of every call the content, and of each the time:
/// the order of refusals and the refusals themselves [D-01] [D-44] [D-29] [CR-09] [CR-10] [CR-11] [AC-03] [AS-02]
/// [NS-04] [SU-03] [CO-04] [CO-05] [SK-01] [SK-02] [AU-03] [D-08] [D-13] [D-14] [D-17], one request at a time [LK-01]
/// [LK-02] [D-31], what is read and from where [SU-01] [SU-04] [AS-01] [D-12] [D-15] [D-22] [D-23] [D-37], turns and the
/// line for them [LI-01] [LI-02] [LI-03] [LI-04] [LI-05], waits that end [FE-08] [FE-09] [D-18] [D-19] [D-20], nothing
/// lost and nothing twice [FE-11] [FE-12] [RP-03] [RP-04] [RP-05], commits of what was delivered and no more [CO-01]
/// [CO-02] [AK-01] [AK-02] [AK-04] [AK-06] [D-38] [D-39] [D-46], idle instances [LC-01] [LC-02] [D-30], and the shutdown
/// over in its time [AK-03] [AK-05].
#[test]
fn every_schedule_keeps_the_rules() {
    let count = setting("OCTOPUS_SCHEDULES").unwrap_or(SCHEDULES);
    let random = std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish();
    let first = setting("OCTOPUS_SEED").unwrap_or(random >> 32);
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = u32::try_from(threads).unwrap_or(1).clamp(1, count.max(1));
    let seeds = first..first + u64::from(threads);
    say(format_args!("{count} schedules from the seeds {seeds:?}"));
    let failed = AtomicBool::new(false);
    let plays: Vec<_> = thread::scope(|scope| {
        let plays = seeds.zip(0..threads).map(|(seed, place)| {
            let share = count / threads + u32::from(place < count % threads);
            let failed = &failed;
            scope.spawn(move || play(seed, share, failed))
        });
        let plays: Vec<_> = plays.collect();
        plays
            .into_iter()
            .map(|play| play.join().expect("a thread that ends"))
            .collect()
    });
    let mut seen = Seen::default();
    plays.iter().for_each(|(_, play)| seen.add(play));
    let failures: Vec<_> = plays.into_iter().filter_map(|(failure, _)| failure).collect();
    say(format_args!("{seen}{} failed", failures.len()));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(
        count < ENOUGH || seen.is_whole(),
        "some answer was never given: {seen}"
    );
}

/// As [`every_schedule_keeps_the_rules`], for those that once failed.
#[test]
fn schedules_that_failed_once_keep_the_rules() {
    for (what, schedule) in kept::schedules() {
        if let Err(failure) = judge(&schedule) {
            panic!("{what}: {failure}");
        }
    }
}

/// Plays so many schedules, unless another thread has failed.
fn play(seed: u64, count: u32, failed: &AtomicBool) -> (Option<String>, Seen) {
    let config = Config {
        cases: count,
        max_shrink_iters: SHRINKS,
        rng_seed: RngSeed::Fixed(seed),
        source_file: Some(file!()),
        test_name: Some("every_schedule_keeps_the_rules"),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::default()
    };
    let mine = Cell::new(false);
    let seen = RefCell::new(Seen::default());
    let outcome = TestRunner::new(config).run(&step::schedule(), |schedule| {
        if failed.load(Ordering::Relaxed) && !mine.get() {
            return Ok(());
        }
        let played = judge(&schedule).map(|played| seen.borrow_mut().add(&played));
        played.map_err(|failure| {
            failed.store(true, Ordering::Relaxed);
            mine.set(true);
            TestCaseError::fail(failure)
        })
    });
    let failure = match outcome {
        Ok(()) => None,
        Err(TestError::Fail(reason, schedule)) => Some(format!("seed {seed}: {reason}\n{schedule}")),
        Err(TestError::Abort(reason)) => Some(format!("seed {seed}: {reason}")),
    };
    (failure, seen.into_inner())
}

/// Plays a schedule. A panic is what failed: a schedule that is made smaller panics many times, and says so once.
fn judge(schedule: &Schedule) -> Result<Seen, String> {
    static HOOK: Once = Once::new();
    thread_local! {
        static PLAYS: Cell<bool> = const { Cell::new(false) };
        static PANIC: Cell<String> = const { Cell::new(String::new()) };
    }
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if PLAYS.get() {
                PANIC.set(panic.to_string());
            } else {
                usual(panic);
            }
        }));
    });
    PLAYS.set(true);
    let played = panic::catch_unwind(|| {
        let mut service = Service::new(schedule);
        schedule.steps.iter().for_each(|step| service.take(step));
        service.come_to_rest()
    });
    PLAYS.set(false);
    played.map_err(|_| PANIC.take())
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says it past the capture of the test's output.
fn say(line: impl Display) {
    writeln!(std::io::stderr(), "{line}").expect("an open standard error");
}
