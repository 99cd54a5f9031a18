//! `--dev`, as a newcomer runs it.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::time::{sleep, timeout};

struct Dev(Child);

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The printed walk is pasted into a shell, and each answer is the specification's.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_walk_works_as_it_stands() {
    let mut dev = Dev(Command::new(env!("CARGO_BIN_EXE_octopus-server"))
        .args(["--dev", "--listen", "127.0.0.1:0"])
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
    })
    .await
    .unwrap();

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
    let answers = tokio::task::block_in_place(pasted);
    let lines: Vec<_> = answers.lines().filter(|line| !line.is_empty()).collect();
    let statuses: Vec<_> = lines.iter().filter(|line| line.len() == 3).copied().collect();
    assert_eq!(
        statuses,
        ["200", "204", "200", "200", "200", "204", "200", "204"],
        "{answers}"
    );
    assert!(
        lines[0].contains(r#""instance_id":"my-instance""#)
            || lines[0].contains(r#""instance_id": "my-instance""#),
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
