//! The writer, and what it says was acknowledged.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin},
    sync::Arc,
    thread::{self, JoinHandle},
};

use super::{admin::script, ledger::Ledger};

/// A running writer. Each record that it says is acknowledged is in the ledger.
#[derive(Debug)]
pub(crate) struct Writer {
    python: Child,
    stdin: Option<ChildStdin>,
    lines: Option<JoinHandle<String>>,
}

impl Writer {
    /// Starts it on topics, by their names on Kafka.
    pub(crate) fn start(
        python: &str,
        address: &str,
        seed: u64,
        rate: u64,
        topics: &[String],
        ledger: &Arc<Ledger>,
    ) -> Self {
        let mut python = script(python, "write.py")
            .args([address, &seed.to_string(), &rate.to_string()])
            .args(topics)
            .spawn()
            .unwrap();
        let stdin = python.stdin.take();
        let stdout = BufReader::new(python.stdout.take().unwrap());
        let ledger = Arc::clone(ledger);
        let lines = thread::spawn(move || {
            let mut end = String::new();
            for line in stdout.lines() {
                let line = line.unwrap();
                match line.split(' ').collect::<Vec<_>>()[..] {
                    [topic, offset, hash] => {
                        let (_, topic) = topic.split_once('.').unwrap();
                        match offset {
                            "None" => ledger.acknowledged_somewhere(topic, hash),
                            offset => ledger.acknowledged(topic, offset.parse().unwrap(), hash),
                        }
                    }
                    _ => end = line,
                }
            }
            end
        });
        Self {
            python,
            stdin,
            lines: Some(lines),
        }
    }

    /// Lets it end: what it has sent is acknowledged, or given up. Gives its counts.
    pub(crate) fn end(mut self) -> String {
        drop(self.stdin.take());
        let counts = self.lines.take().unwrap().join().unwrap();
        assert!(self.python.wait().unwrap().success(), "the writer failed");
        counts
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}
