//! What ten thousand members of consumer groups take: memory, connections, heartbeats while both cores fetch, and how
//! they come back after their coordinator was lost. The broker runs in a process of its own.
//!
//! `cargo bench -p octopus-benches --bench many` prints a table for each crowd; `-- 2500x4 10000x1x0` names crowds as
//! groups by members, and the milliseconds that a new group waits for more members, 3,000 by default. Without `--bench`
//! or with `--test` it is a small crowd that only shows that it works.
//!
//! Memory is given twice: what the system gave the process, which keeps what a storm of joins left in the allocator's
//! heaps, and what is allocated.

mod broker;
mod crowd;
mod memory;

use std::{env, time::Duration};

use anyhow::Result;
use octopus_benches::Asked;

use self::{
    broker::{Child, Lateness},
    crowd::{Crowd, Shape},
    memory::Memory,
};

/// The crowds of the README's figures, and the small one that shows that the bench works.
const CROWDS: [&str; 2] = ["2500x4", "10000x1"];
const SMALL: &str = "20x2";
/// How long heartbeats are watched.
const WATCHED: Duration = Duration::from_secs(20);
/// How long it takes until all is quiet after joins: until the connections that they took are closed.
const QUIET: Duration = Duration::from_secs(60);
/// How long the coordinator is away: shorter than a session.
const AWAY: Duration = Duration::from_secs(4);

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == broker::ROLE) {
        return broker::run(&arguments[1..]);
    }
    let asked = Asked::of_this_process();
    let crowds = match (asked.is_whole, asked.names.is_empty()) {
        (false, _) => vec![SMALL],
        (true, true) => CROWDS.to_vec(),
        (true, false) => asked.names.iter().map(String::as_str).collect(),
    };
    for crowd in crowds {
        measure(Shape::parse(crowd)?, asked.is_whole)?;
    }
    Ok(())
}

fn measure(shape: Shape, is_whole: bool) -> Result<()> {
    let watched = if is_whole { WATCHED } else { Duration::from_secs(4) };
    tell(&format!("\n{} groups of {} members", shape.groups, shape.members));
    let mut broker = Child::start(shape)?;
    let empty = Memory::of_this_process()?;
    let crowd = Crowd::new(shape, broker.address())?;
    let opened = Memory::of_this_process()?;

    let joined = crowd.until_all_are_members(&mut broker)?;
    row("all joined after", &seconds(joined));
    row(
        "new connections, the most in a second",
        &broker.most_hellos()?.to_string(),
    );
    crowd.rest(if is_whole { QUIET } else { Duration::from_secs(1) });

    let quiet = Memory::of_this_process()?;
    row(
        "memory of consumers that are no members yet",
        &opened.above(&empty),
    );
    row("memory above the empty process, at rest", &quiet.above(&empty));
    row("connections at rest", &crowd.connections()?.to_string());
    broker.mark()?;
    crowd.rest(watched);
    lateness("heartbeats at rest", &broker.lateness()?);

    let fetching = crowd.fetch();
    crowd.rest(Duration::from_secs(1));
    broker.mark()?;
    let before = fetching.records();
    crowd.rest(watched);
    let read = fetching.records() - before;
    lateness("heartbeats while both cores fetch", &broker.lateness()?);
    row(
        "records read meanwhile, a second",
        &(read / watched.as_secs()).to_string(),
    );
    row("connections while fetching", &crowd.connections()?.to_string());
    drop(fetching);

    let lost = crowd.lost();
    broker.mark()?;
    broker.refuse(AWAY)?;
    let heard = broker.until_all_are_heard(shape.count())?;
    row(
        &format!(
            "the coordinator closes every connection for {}: all heard after",
            seconds(AWAY)
        ),
        &seconds(heard),
    );
    row(
        "new connections, the most in a second",
        &broker.most_hellos()?.to_string(),
    );
    row("members that were put out", &(crowd.lost() - lost).to_string());

    broker.kill()?;
    crowd.rest(Duration::from_secs(1));
    broker.start_again()?;
    crowd.forget();
    let joined = crowd.until_all_are_members(&mut broker)?;
    row(
        "the broker is killed and forgets its members: all joined after",
        &seconds(joined),
    );
    row(
        "new connections, the most in a second",
        &broker.most_hellos()?.to_string(),
    );
    crowd.rest(if is_whole { QUIET } else { Duration::from_secs(1) });
    let again = Memory::of_this_process()?;
    row(
        "memory above the empty process after all that",
        &again.above(&empty),
    );
    broker.mark()?;
    crowd.rest(watched);
    lateness("heartbeats after all that", &broker.lateness()?);
    Ok(())
}

fn lateness(what: &str, lateness: &Lateness) {
    let Lateness { count, p50, p99, max } = lateness;
    row(
        &format!("{what}: later than due"),
        &format!("p50 {p50} ms, p99 {p99} ms, max {max} ms of {count}"),
    );
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn row(what: &str, value: &str) {
    tell(&format!("  {what:<70} {value}"));
}

#[expect(clippy::print_stdout, reason = "a bench's output")]
fn tell(line: &str) {
    println!("{line}");
}
