//! A process that never outlives its owner, and that can be killed, stopped and started again.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

/// A shell that keeps one process. It obeys line by line; its input ends when its owner falls or dies, however that
/// happens, and then it ends the process and removes the folder.
#[derive(Debug)]
pub(super) struct Keeper {
    shell: Child,
    talk: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

/// What a keeper does with its process.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// Let it run on after [`Stop`](Self::Stop).
    Cont,
    /// End it without a word, and wait for that.
    Kill,
    /// Start it.
    Start,
    /// Halt it where it is.
    Stop,
    /// Ask it to end, and wait for that; kill it where that takes over 20 s.
    Term,
}

impl Keeper {
    /// Starts `command`, with its output at the end of `log` and its life in `folder`.
    pub(super) fn start(folder: &Path, log: &Path, command: &[String]) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "kafka"])
            .args([folder, log])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let talk = shell
            .stdin
            .take()
            .zip(shell.stdout.take())
            .map(|(stdin, stdout)| (stdin, BufReader::new(stdout)));
        let keeper = Self {
            shell,
            talk: Mutex::new(talk),
        };
        keeper.order(Order::Start)?;
        Ok(keeper)
    }

    /// Gives an order and waits until it is done.
    pub(super) fn order(&self, order: Order) -> io::Result<()> {
        let word = match order {
            Order::Cont => "CONT",
            Order::Kill => "KILL",
            Order::Start => "START",
            Order::Stop => "STOP",
            Order::Term => "TERM",
        };
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let (stdin, stdout) = talk.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(stdin, "{word}")?;
        let mut done = String::new();
        stdout.read_line(&mut done)?;
        match done.trim_end() {
            "done" => Ok(()),
            _ => Err(io::Error::other(format!("{word}: no such process"))),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let talk = self.talk.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(talk.take());
        let _ = self.shell.wait();
    }
}

const SCRIPT: &str = r#"
folder=$1 log=$2; shift 2
ended() { wait $node; node=; }
while read -r order; do
  if [ $order = START ]; then
    [ -z "$node" ] && { "$@" </dev/null >>"$log" 2>&1 & } && node=$!
  elif [ -z "$node" ]; then
    false
  elif [ $order = KILL ]; then
    kill -KILL $node; ended; true
  elif [ $order = TERM ]; then
    kill -TERM $node
    { sleep 20; kill -KILL $node; } >/dev/null & late=$!
    ended; kill $late; true
  else
    kill -s $order $node
  fi && echo done || echo failed
done
[ -n "$node" ] && kill -KILL $node && wait $node
rm -rf "$folder"
"#;

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf, thread, time::Duration};

    use super::*;

    /// Waits until `is_so`; only a fault takes the whole time.
    fn until(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..600 {
            if is_so() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("never {what}");
    }

    /// The state of a process, such as `S` or `T`; `None` where there is none.
    fn state(pid: &str) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.chars().next()
    }

    fn kept(name: &str) -> (Keeper, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap().keep().join(name);
        fs::create_dir(&folder).unwrap();
        let log = folder.join("log");
        let command = ["sh", "-c", "echo $$; exec sleep 300"].map(str::to_owned);
        let keeper = Keeper::start(&folder, &log, &command).unwrap();
        (keeper, folder, log)
    }

    fn pids(log: &Path) -> Vec<String> {
        let log = fs::read_to_string(log).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_kept_process_is_stopped_goes_on_is_killed_and_starts_again() {
        let (keeper, _folder, log) = kept("obeys");
        until("started", || pids(&log).len() == 1);
        let first = pids(&log)[0].clone();
        keeper.order(Order::Stop).unwrap();
        until("stopped", || state(&first) == Some('T'));
        keeper.order(Order::Cont).unwrap();
        until("going on", || state(&first) == Some('S'));
        keeper.order(Order::Kill).unwrap();
        assert_eq!(state(&first), None, "it is gone when the order is done");
        keeper.order(Order::Stop).unwrap_err();
        keeper.order(Order::Start).unwrap();
        until("started again", || pids(&log).len() == 2);
        keeper.order(Order::Start).unwrap_err();
        let second = pids(&log)[1].clone();
        keeper.order(Order::Term).unwrap();
        assert_eq!(state(&second), None);
    }

    #[test]
    fn a_stopped_process_and_its_folder_end_with_their_keeper() {
        let (keeper, folder, log) = kept("falls");
        until("started", || pids(&log).len() == 1);
        let pid = pids(&log)[0].clone();
        keeper.order(Order::Stop).unwrap();
        drop(keeper);
        assert_eq!(state(&pid), None);
        assert!(!folder.exists());
    }
}
