//! What the system says of a process: its CPU and its memory, from `/proc`.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// The part of a second in which the system counts CPU: `USER_HZ`, which is 100 on each of Linux's usual machines.
const TICK: Duration = Duration::from_millis(10);

/// The bench's own clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the benches' own measure")]
pub fn now() -> Instant {
    Instant::now()
}

/// The CPU that a process has used, in user space and in the kernel, by all of its threads. To 20 ms.
///
/// # Errors
///
/// Where the process is gone, or the system tells in another way.
pub fn cpu(process: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is a name in brackets, which may hold anything; the 14th and the 15th are ticks.
    let (_, fields) = stat.rsplit_once(')').context("a name in brackets")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Ok(TICK * ticks.sum::<Result<u32, _>>()?)
}

/// What some processes use of the CPU from a moment on.
#[derive(Debug)]
pub struct Watch {
    /// Each with its name, and what it had used at that moment.
    processes: Vec<(&'static str, u32, Duration)>,
}

impl Watch {
    /// Watches these processes from this moment on, each by a name.
    ///
    /// # Errors
    ///
    /// As [`cpu`].
    pub fn start(processes: impl IntoIterator<Item = (&'static str, u32)>) -> Result<Self> {
        let start = |(name, id)| Ok((name, id, cpu(id)?));
        let processes = processes.into_iter().map(start).collect::<Result<_>>()?;
        Ok(Self { processes })
    }

    /// What each has used of the CPU, for each of so many pieces of work: `the service 0.302 µs, Kafka 0.125 µs`.
    ///
    /// # Errors
    ///
    /// As [`cpu`].
    pub fn each(&self, work: u64) -> Result<String> {
        let used = |(name, id, before): &(_, u32, Duration)| {
            let used = cpu(*id)?.saturating_sub(*before);
            #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
            let each = used.as_secs_f64() * 1e6 / work as f64;
            Ok(format!("{name} {each:.3} µs"))
        };
        let used = self.processes.iter().map(used).collect::<Result<Vec<_>>>()?;
        Ok(used.join(", "))
    }
}

/// The memory that a process has, in KiB: all of it.
///
/// # Errors
///
/// As [`cpu`].
pub fn resident(process: u32) -> Result<u64> {
    status(process, "VmRSS:")
}

/// The most that [`resident`] was since [`forget_peak`], or since the process started.
///
/// # Errors
///
/// As [`cpu`].
pub fn peak(process: u32) -> Result<u64> {
    status(process, "VmHWM:")
}

/// Starts [`peak`] anew, where the system lets us; else the peak stays that of the whole life of the process.
pub fn forget_peak(process: u32) {
    let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
}

fn status(process: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.context("a line of memory")?.trim().trim_end_matches("kB");
    Ok(kibibytes.trim_end().parse()?)
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn the_cpu_and_the_memory_of_this_process_are_told() {
        let start = now();
        while cpu(process::id()).unwrap() < 2 * TICK {
            assert!(start.elapsed() < Duration::from_secs(60), "a loop uses CPU");
        }
        let held = resident(process::id()).unwrap();
        assert!(held > 100, "{held} KiB");
        assert!(peak(process::id()).unwrap() >= held);
        assert!(cpu(u32::MAX).is_err());
    }

    #[test]
    fn a_watch_tells_what_was_used_since_its_start_for_each_piece_of_work() {
        let watch = Watch::start([("this", process::id())]).unwrap();
        let before = cpu(process::id()).unwrap();
        while cpu(process::id()).unwrap() < before + 10 * TICK {}
        // A hundred milliseconds at least, and a thousand pieces.
        let each = watch.each(1000).unwrap();
        let number = each.strip_prefix("this ").unwrap().strip_suffix(" µs").unwrap();
        assert!(number.parse::<f64>().unwrap() >= 100.0, "{each}");
    }
}
