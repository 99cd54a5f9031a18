//! How two benches of one run compare, from what criterion has written about them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use serde::Deserialize;

/// The longest name of a folder that criterion makes of a group's or a bench's name, in bytes.
const NAME_LENGTH: usize = 64;
/// The parts of a second in which the system tells when a process started.
const TICKS: f64 = 100.0;

/// Prints `GROUP: OURS / THEIRS = 2.31`: how many times as fast `ours` was as `theirs`, two benches of `group` that this
/// process has run. It is the median time of `theirs` by that of `ours`, so above 1 ours is faster.
///
/// Call it behind the group's `finish`. A bench of a function and a parameter is `FUNCTION/PARAMETER`. Where criterion
/// measured one of the two in this process or none, as with `--test` or a filter, nothing is printed: what an earlier run
/// left is not taken.
pub fn print(group: &str, ours: &str, theirs: &str) {
    if let Some(line) = line(directory(), started(), group, ours, theirs) {
        tell(&line);
    }
}

/// The line, from the folder where criterion writes and the time from which on a measure counts.
fn line(directory: &Path, since: SystemTime, group: &str, ours: &str, theirs: &str) -> Option<String> {
    let of = |id| median(&directory.join(file_name(group)), id, since);
    let ratio = of(theirs)? / of(ours)?;
    Some(format!("{group}: {ours} / {theirs} = {ratio:.2}"))
}

/// A bench's median time in nanoseconds, if it was measured since then.
fn median(group: &Path, id: &str, since: SystemTime) -> Option<f64> {
    #[derive(Deserialize)]
    struct Estimates {
        median: Estimate,
    }
    #[derive(Deserialize)]
    struct Estimate {
        point_estimate: f64,
    }
    folders(id).find_map(|folder| {
        let file = group.join(folder).join("new/estimates.json");
        let written = fs::metadata(&file).and_then(|file| file.modified()).ok()?;
        let estimates = fs::read(&file).ok().filter(|_| written >= since)?;
        let estimates: Estimates = serde_json::from_slice(&estimates).ok()?;
        Some(estimates.median.point_estimate)
    })
}

/// The folders that a bench of this name may have: a slash is one of its function, or stands before its parameter.
fn folders(id: &str) -> impl Iterator<Item = PathBuf> {
    let parted = id.match_indices('/').map(|(at, _)| {
        let (function, parameter) = (&id[..at], &id[at + 1..]);
        Path::new(&file_name(function)).join(file_name(parameter))
    });
    parted.chain([file_name(id).into()])
}

/// A name as criterion writes it in a path.
fn file_name(name: &str) -> String {
    let mut name = name.replace(['?', '"', '/', '\\', '*', '<', '>', ':', '|', '^'], "_");
    name.truncate(name.floor_char_boundary(NAME_LENGTH));
    name
}

/// Where criterion writes, found in the way in which it finds it.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        if let Some(home) = env::var_os("CRITERION_HOME") {
            return home.into();
        }
        let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.or_else(target_directory);
        target.unwrap_or_else(|| "target".into()).join("criterion")
    })
}

/// What cargo says, where it runs this process.
fn target_directory() -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let output = Command::new(env::var_os("CARGO")?)
        .args(["metadata", "--format-version", "1"])
        .output()
        .ok()?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).ok()?;
    Some(metadata.target_directory)
}

/// When this process started or up to three hundredths of a second before; without a system that tells, the beginning of
/// time. No file that this process writes is older.
fn started() -> SystemTime {
    let age = || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field is a name in brackets, which may hold anything; the 22nd is the start after the boot.
        let (_, fields) = stat.rsplit_once(')')?;
        let start: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        // Both are rounded down, so that their difference may be a tick too small, and below zero in the first one. The
        // time of a file may be a tick old too.
        Duration::try_from_secs_f64((uptime - start / TICKS).max(0.0) + 2.0 / TICKS).ok()
    };
    age()
        .and_then(|age| SystemTime::now().checked_sub(age))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[expect(clippy::print_stdout, reason = "a bench's output")]
fn tell(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, folder: &str, median: f64) {
        let folder = directory.join(folder).join("new");
        fs::create_dir_all(&folder).unwrap();
        let estimates = format!(
            r#"{{"mean":{{"point_estimate":1.0}},"median":{{"confidence_interval":{{}},"point_estimate":{median}}}}}"#
        );
        fs::write(folder.join("estimates.json"), estimates).unwrap();
    }

    #[test]
    fn a_ratio_is_how_many_times_as_fast_ours_is() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        write(at, "drain_1 KiB/octopus", 100.0);
        write(at, "drain_1 KiB/librdkafka", 231.4);
        assert_eq!(
            line(at, SystemTime::UNIX_EPOCH, "drain/1 KiB", "octopus", "librdkafka"),
            Some("drain/1 KiB: octopus / librdkafka = 2.31".to_owned())
        );
    }

    #[test]
    fn a_bench_of_a_function_and_a_parameter_is_found_whichever_slash_parts_them() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        write(at, "check/octopus/1 KiB", 1.0);
        write(at, "check/serde_json_whole/100 B_lz4", 3.0);
        assert_eq!(
            line(
                at,
                SystemTime::UNIX_EPOCH,
                "check",
                "octopus/1 KiB",
                "serde_json/whole/100 B/lz4"
            ),
            Some("check: octopus/1 KiB / serde_json/whole/100 B/lz4 = 3.00".to_owned())
        );
    }

    #[test]
    fn what_was_not_measured_or_is_from_an_earlier_run_gives_no_ratio() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        write(at, "group/ours", 1.0);
        assert_eq!(line(at, SystemTime::UNIX_EPOCH, "group", "ours", "theirs"), None);
        write(at, "group/theirs", 1.0);
        assert!(line(at, SystemTime::UNIX_EPOCH, "group", "ours", "theirs").is_some());
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(line(at, later, "group", "ours", "theirs"), None);
    }

    #[test]
    fn this_process_started_before_now_and_not_long_ago() {
        let started = started();
        let age = SystemTime::now().duration_since(started).unwrap();
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }

    #[test]
    fn a_file_that_this_process_writes_is_not_from_before_its_start() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let written = file.as_file().metadata().unwrap().modified().unwrap();
        assert!(written >= started(), "{written:?}");
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name = "é".repeat(40);
        assert_eq!(file_name(&name), "é".repeat(32));
        assert_eq!(file_name(&format!("a{name}")), format!("a{}", "é".repeat(31)));
    }
}
