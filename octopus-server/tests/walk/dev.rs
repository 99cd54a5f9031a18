//! `--dev`, as a newcomer runs it.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rstest::rstest;
use tokio::time::{sleep, timeout};

struct Dev(Child);

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it with these flags, and reads the walk that it prints.
async fn start(flags: &[&str]) -> (Dev, String) {
    let mut dev = Dev(Command::new(env!("CARGO_BIN_EXE_octopus-server"))
        .args(["--dev", "--listen", "127.0.0.1:0"])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap());
    let mut printed = BufReader::new(dev.0.stdout.take().unwrap());
    let walk = tokio::task::spawn_blocking(move || {
        let mut walk = String::new();
        while !walk.contains("-X DELETE") || !walk.ends_with("\"\n") {
            assert_ne!(
                printed.read_line(&mut walk).unwrap(),
                0,
                "the walk ends early: {walk}"
            );
        }
        walk
    });
    (dev, walk.await.unwrap())
}

/// Pastes the walk into a shell, and returns what is answered, with a line for each status.
fn paste(walk: &str) -> String {
    let script: String = walk
        .split_once("Paste this into a shell:\n")
        .unwrap()
        .1
        .replace(r"curl -w '\n'", r"curl -sS -w '\n%{http_code}\n'");
    let pasted = || {
        let mut shell = Command::new("sh")
            .arg("-c")
            .arg(&script)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = String::new();
        shell.stdout.take().unwrap().read_to_string(&mut answers).unwrap();
        assert!(shell.wait().unwrap().success());
        answers
    };
    tokio::task::block_in_place(pasted)
}

/// The offset and the step of the first record of each fetch of a walk, and what it has committed.
fn seen(answers: &str) -> (Vec<(i64, i64)>, i64) {
    let (mut firsts, mut committed) = (Vec::new(), -1);
    for line in answers.lines() {
        let Ok(json) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        if let Some(first) = json.get(0).filter(|first| first["topic"] == "my-topic") {
            firsts.push((
                first["offset"].as_i64().unwrap(),
                first["value"]["step"].as_i64().unwrap(),
            ));
        }
        if let Some(offset) = json["offsets"][0]["offset"].as_i64() {
            committed = offset;
        }
    }
    (firsts, committed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_a_folder_goes_on_where_it_was_killed() {
    let data = tempfile::tempdir().unwrap();
    let flags = ["--dev-data", data.path().to_str().unwrap()];
    let mut begins = 0;
    for run in 0..3 {
        // Dropped, it is killed with SIGKILL.
        let (_dev, walk) = start(&flags).await;
        let answers = paste(&walk);
        let (firsts, committed) = seen(&answers);
        assert_eq!(firsts, [(begins, begins), (0, 0)], "{run}: {answers}");
        assert!(committed > begins, "{answers}");
        begins = committed;
    }
}

/// The printed walk is pasted into a shell, and each answer is the specification's.
#[rstest]
#[case::cluster("cluster")]
#[case::registry("registry")]
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_walk_works_as_it_stands(#[case] namespaces: &str) {
    let (mut dev, walk) = start(&["--namespaces", namespaces]).await;
    let answers = paste(&walk);
    let lines: Vec<_> = answers.lines().filter(|line| !line.is_empty()).collect();
    let statuses: Vec<_> = lines.iter().filter(|line| line.len() == 3).copied().collect();
    assert_eq!(
        statuses,
        [
            "200", "200", "200", "204", "200", "200", "200", "204", "200", "204"
        ],
        "{answers}"
    );
    assert!(
        lines[0].contains(r#""status":"success""#) && lines[0].contains(r#""topics":["my-topic"]"#),
        "{answers}"
    );
    assert!(
        lines[2].contains(r#""error_code":200"#) && lines[2].contains(r#""topic_name":"second""#),
        "{answers}"
    );
    assert!(
        lines[4].contains(r#""instance_id":"my-instance""#)
            || lines[4].contains(r#""instance_id": "my-instance""#),
        "{answers}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("\"loss\"") && line.contains("\"trace\"")),
        "{answers}"
    );

    // Ctrl-C.
    let pid = dev.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", "INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let end = async {
        loop {
            if let Some(status) = dev.0.try_wait().unwrap() {
                return status;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert_eq!(
        timeout(Duration::from_secs(10), end).await.unwrap().code(),
        Some(0)
    );
}
