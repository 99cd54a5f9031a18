//! `--dev`: everything on one machine. An embedded broker, one subject with a token, and a topic that a simulated
//! training run writes to.

use std::{
    fmt::Write as _,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use octopus_core::{Namespace, Position, Records as _, Subject};
use octopus_kafka::{
    broker::{self, Broker},
    records::{BatchWriter, Compression, Reader},
};
use serde::Deserialize;
use tokio::task::JoinHandle;

/// The subject of the development server; only this process knows it.
pub const SUBJECT: Subject = Subject::from_uuid(0x0c70_9005_0000_4000_8000_0000_0000_0dee);
/// The topic of the simulated training run.
pub const TOPIC: &str = "my-topic";
/// How many records are looked at for the last step.
const LOOK_BACK: i64 = 1000;
/// A step that no run reaches: one written by others is not gone on from.
const LAST_STEP: u32 = u32::MAX / 2;
/// The time between two of its records.
const STEP: Duration = Duration::from_secs(1);

/// What runs beside the server in development. Ends with [`shut_down`](Self::shut_down).
#[derive(Debug)]
pub struct Dev {
    broker: Arc<Broker>,
    data: Option<PathBuf>,
    token: String,
    run: JoinHandle<()>,
}

impl Dev {
    /// Starts the broker and the simulated run; both go on where a folder of data ends.
    ///
    /// # Errors
    ///
    /// Where the address is taken, the folder can't be used, or the machine has no randomness for a token.
    pub async fn start(kafka_listen: SocketAddr, data: Option<PathBuf>) -> io::Result<Self> {
        let mut config = broker::Config::default();
        config.listen = kafka_listen;
        config.data.clone_from(&data);
        config.auto_create = true;
        config.initial_rebalance_delay = Duration::ZERO;
        config.requests_kept = 0;
        let broker = Arc::new(Broker::start(config).await?);
        let topic = Namespace::of(SUBJECT).qualify(TOPIC);
        broker.create_topic(&topic);
        let first = next_step(&broker, &topic);
        let run = tokio::spawn(train(Arc::clone(&broker), topic, first));
        Ok(Self {
            broker,
            data,
            token: crate::random::hex::<24>().map_err(io::Error::other)?,
            run,
        })
    }

    /// The line of a tokens file that lets [`SUBJECT`] in.
    #[must_use]
    pub fn tokens(&self) -> String {
        format!("{} {SUBJECT}\n", self.token)
    }

    /// The broker's address.
    #[must_use]
    pub fn kafka(&self) -> SocketAddr {
        self.broker.addr()
    }

    /// What to paste into a shell to try the service at `origin`, its scheme and address: the whole walk through the API.
    #[must_use]
    pub fn walk(&self, origin: &str) -> String {
        walk(origin, self.broker.addr(), self.data.as_deref(), &self.token)
    }

    /// Ends the simulated run and the broker.
    pub async fn shut_down(self) {
        self.run.abort();
        let _ = self.run.await;
        // The run held the only other handle.
        if let Some(broker) = Arc::into_inner(self.broker) {
            broker.shutdown().await;
        }
    }
}

fn walk(origin: &str, kafka: SocketAddr, data: Option<&Path>, token: &str) -> String {
    let kept = data.map_or_else(
        || "forgets all when it ends".to_owned(),
        |data| format!("keeps all in {}", data.display()),
    );
    let consumers = format!("{origin}/api/v2/consumers");
    let instance = format!("{consumers}/my-group/instances/my-instance");
    let v2 = "Content-Type: application/vnd.kafka.v2+json";
    let namespace = Namespace::of(SUBJECT);
    let topic = namespace.qualify(TOPIC);
    let partition = format!(r#"{{"topic": "{TOPIC}", "partition": 0}}"#);
    let mut text = format!(
        "Octopus for development, with a Kafka broker of its own that {kept}.\n\
         HTTP   {origin}\n\
         Kafka  {kafka}\n\
         read   kcat -C -b {kafka} -t {topic}\n\
         write  echo '{{\"a\": 1}}' | kcat -P -b {kafka} -t {namespace}.second\n\n\
         Paste this into a shell:\n"
    );
    let mut curl = |what: &str, method: &str, url: &str, header: &str, body: &str| {
        let _ = write!(
            text,
            "\n# {what}\ncurl -w '\\n' -X {method} \"{url}\" \\\n  -H \"subject: {SUBJECT}\" \\\n"
        );
        let _ = write!(text, "  -H \"authorization: Bearer {token}\"");
        for (flag, quote, value) in [("-H", '"', header), ("-d", '\'', body)] {
            if !value.is_empty() {
                let _ = write!(text, " \\\n  {flag} {quote}{value}{quote}");
            }
        }
        text.push('\n');
    };
    curl(
        "Make a topic, unless it is there",
        "POST",
        &format!("{origin}/api/v3/{namespace}/{TOPIC}"),
        "",
        "",
    );
    curl(
        "Write a record, to a topic that it makes",
        "POST",
        &format!("{origin}/api/v3/{namespace}/topics/second/records"),
        "Content-Type: application/json",
        r#"{"value": {"type": "JSON", "data": {"a": 1}}}"#,
    );
    curl(
        "Create consumer instance",
        "POST",
        &format!("{consumers}/my-group"),
        v2,
        r#"{"name": "my-instance", "format": "json", "auto.offset.reset": "earliest"}"#,
    );
    curl(
        "Subscribe to a list of topics",
        "POST",
        &format!("{instance}/subscription"),
        v2,
        &format!(r#"{{"topics": ["{TOPIC}"]}}"#),
    );
    curl(
        "Fetch records of a json instance",
        "GET",
        &format!("{instance}/records?timeout=5000"),
        "Accept: application/vnd.kafka.json.v2+json",
        "",
    );
    curl("Commit offsets", "POST", &format!("{instance}/offsets"), "", "");
    curl(
        "What the group has committed",
        "GET",
        &format!("{instance}/offsets"),
        v2,
        &format!(r#"{{"partitions": [{partition}]}}"#),
    );
    curl(
        "Go back to the beginning",
        "POST",
        &format!("{instance}/positions/beginning"),
        v2,
        &format!(r#"{{"partitions": [{partition}]}}"#),
    );
    curl(
        "Fetch again, from there",
        "GET",
        &format!("{instance}/records?timeout=5000&max_bytes=100"),
        "Accept: application/vnd.kafka.json.v2+json",
        "",
    );
    curl("Delete consumer instance", "DELETE", &instance, "", "");
    text
}

/// The step that follows the last one in the topic, which others may have written to as well.
fn next_step(broker: &Broker, topic: &str) -> u32 {
    /// A record of the run.
    #[derive(Deserialize)]
    struct Training {
        step: u32,
        #[serde(rename = "loss")]
        _loss: f64,
    }
    let end = broker.end_offset(topic).unwrap_or(0);
    let step_at = |offset: i64| {
        let mut reader = Reader::new(broker.read(topic, offset)?, Position::at(offset));
        let record = reader.next()?.ok().filter(|record| record.offset.0 == offset)?;
        let training: Training = serde_json::from_slice(record.value?).ok()?;
        Some(training.step).filter(|step| *step < LAST_STEP)
    };
    let last = (end.saturating_sub(LOOK_BACK).max(0)..end)
        .rev()
        .find_map(step_at);
    last.map_or(0, |last| last + 1)
}

/// A training run whose loss goes down: a record a second.
async fn train(broker: Arc<Broker>, topic: String, first: u32) {
    let mut ticks = tokio::time::interval(STEP);
    for step in first.. {
        ticks.tick().await;
        // A topic that was deleted by hand stays deleted; the run goes on without it.
        let _ = broker.append(&topic, training_record(step, now_ms()));
    }
}

fn training_record(step: u32, timestamp: i64) -> bytes::Bytes {
    let loss = 0.05 + 2.25 * (-f64::from(step) / 40.0).exp() + f64::from(step % 10 * 7 % 10) / 500.0;
    let value = format!(r#"{{"step": {step}, "loss": {loss:.2}}}"#);
    let mut batch = BatchWriter::new(Compression::None);
    let trace = &step.to_be_bytes()[2..];
    batch.push(
        timestamp,
        None,
        Some(value.as_bytes()),
        &[(b"trace", Some(trace))],
    );
    batch.finish()
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_names_the_real_address_token_and_topic() {
        let text = walk(
            "https://127.0.0.1:8000",
            ([127, 0, 0, 1], 9092).into(),
            Some(Path::new("/some/folder")),
            "secret-of-a-test",
        );
        assert_eq!(text.matches("curl -w '\\n' -X").count(), 10);
        assert_eq!(text.matches("authorization: Bearer secret-of-a-test").count(), 10);
        assert!(text.contains("https://127.0.0.1:8000/api/v3/ns-000000000dee/my-topic\""));
        assert!(text.contains("https://127.0.0.1:8000/api/v3/ns-000000000dee/topics/second/records\""));
        assert_eq!(
            text.matches("\"https://127.0.0.1:8000/api/v2/consumers/my-group")
                .count(),
            8
        );
        assert!(text.contains("that keeps all in /some/folder.\n"));
        assert!(text.contains(r#"-d '{"topics": ["my-topic"]}'"#));
        assert!(text.contains("kcat -C -b 127.0.0.1:9092 -t ns-000000000dee.my-topic"));
    }

    #[tokio::test]
    async fn the_run_goes_on_behind_its_last_step_whatever_others_wrote_since() {
        let broker = Broker::start(broker::Config::default()).await.unwrap();
        assert!(broker.create_topic("t"));
        assert_eq!(next_step(&broker, "t"), 0);
        let write = |value: &str| {
            let mut batch = BatchWriter::new(Compression::None);
            batch.push(0, None, Some(value.as_bytes()), &[]);
            broker.append("t", batch.finish()).unwrap();
        };
        broker.append("t", training_record(0, 0));
        broker.append("t", training_record(41, 0));
        assert_eq!(next_step(&broker, "t"), 42);
        write("no training");
        write(r#"{"step": 7}"#);
        write(r#"{"step": 4294967295, "loss": 0.1}"#);
        assert_eq!(next_step(&broker, "t"), 42);
        broker.shutdown().await;
    }

    #[test]
    fn a_step_of_training_is_json_with_a_header() {
        let mut reader = Reader::new(training_record(7, 0), Position::at(0));
        let record = reader.next().unwrap().unwrap();
        assert_eq!(record.value, Some(&br#"{"step": 7, "loss": 1.96}"#[..]));
        let headers: Vec<_> = record
            .headers
            .map(|h| (h.name.to_vec(), h.value.map(<[u8]>::to_vec)))
            .collect();
        assert_eq!(headers, [(b"trace".to_vec(), Some(vec![0, 7]))]);
    }
}
