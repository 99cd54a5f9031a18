//! What is asked of the cluster and changed in it, by librdkafka's admin client.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// How often something is asked again, each time after 250 ms or a refusal.
const TRIES: usize = 240;

/// A Python with an admin client. It ends with its input.
#[derive(Debug)]
pub(crate) struct Admin {
    python: Child,
    talk: Mutex<(Option<ChildStdin>, BufReader<ChildStdout>)>,
}

impl Admin {
    pub(crate) fn start(python: &str, address: &str) -> Self {
        let mut python = script(python, "admin.py").arg(address).spawn().unwrap();
        let talk = (python.stdin.take(), BufReader::new(python.stdout.take().unwrap()));
        Self {
            python,
            talk: Mutex::new(talk),
        }
    }

    /// A command's result. It is tried again while the cluster cannot do it.
    pub(crate) fn ask(&self, command: &Value) -> Value {
        let mut last = Value::Null;
        for _ in 0..TRIES {
            last = self.try_ask(command);
            if last.get("error").is_none() {
                return last;
            }
            thread::sleep(Duration::from_millis(250));
        }
        panic!("{command}: {last}");
    }

    /// As [`ask`](Self::ask), once.
    fn try_ask(&self, command: &Value) -> Value {
        let mut talk = self.talk.lock().unwrap();
        writeln!(talk.0.as_ref().unwrap(), "{command}").unwrap();
        let mut line = String::new();
        talk.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{command}: {e}"))
    }

    /// Waits until a command says true.
    pub(crate) fn until(&self, command: &Value) {
        for _ in 0..TRIES {
            if self.ask(command) == json!(true) {
                return;
            }
            thread::sleep(Duration::from_millis(250));
        }
        panic!("never: {command}");
    }

    /// Waits until every partition has its three replicas in sync, as two looks say.
    pub(crate) fn whole(&self) {
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(400));
            self.until(&json!(["whole"]));
        }
    }

    /// The id of the node that leads a topic.
    pub(crate) fn leader(&self, topic: &str) -> usize {
        node(&self.ask(&json!(["leader", topic])))
    }

    /// The id of the node that coordinates a group.
    pub(crate) fn coordinator(&self, group: &str) -> usize {
        node(&self.ask(&json!(["coordinator", group])))
    }

    /// Makes a topic of one partition on all nodes.
    pub(crate) fn create(&self, topic: &str, config: &Value) {
        self.ask(&json!(["create", topic, config]));
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.talk.get_mut().map(|talk| talk.0.take()));
        let _ = self.python.wait();
    }
}

/// The Python that has confluent-kafka; where there is none, that is printed.
pub(crate) fn python() -> Option<String> {
    let python = env::var("OCTOPUS_TEST_PYTHON").ok();
    if python.is_none() {
        println!("skipped: OCTOPUS_TEST_PYTHON names no Python with confluent-kafka");
    }
    python
}

/// A script of this folder, with its input and output in our hands.
pub(crate) fn script(python: &str, name: &str) -> Command {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster");
    let mut command = Command::new(python);
    command
        .arg(format!("{folder}/{name}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

fn node(id: &Value) -> usize {
    id.as_u64().and_then(|id| usize::try_from(id).ok()).unwrap()
}
