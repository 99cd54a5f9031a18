//! How long a fetch with records ready takes, from its request to the end of its reply, where nobody else polls and
//! behind quiet long polls: the whole service over sockets, on the embedded broker.
//!
//! Behind eleven of them the specification allows 1.5 s [LI-04]; beside each estimate stand the median and the
//! slowest of all samples.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use octopus_auth::Tokens;
use octopus_kafka::{
    Cluster,
    broker::{self, Broker},
    records::{BatchWriter, Compression},
};
use octopus_server::Server;
use tokio::{net::TcpListener, runtime::Runtime};

/// Users, each with two instances and two fetches in progress.
const USERS: usize = 6;

fn turn(criterion: &mut Criterion) {
    // Both live as long as the readers that poll for ever.
    let runtime = Box::leak(Box::new(Runtime::new().expect("a runtime")));
    let service = Box::leak(Box::new(runtime.block_on(Service::start())));
    let mut ready = service.reader(0);
    service.append(0);
    let mut group = criterion.benchmark_group("turn");
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(50)
        .measurement_time(Duration::from_secs(15));
    let mut quiet = 0;
    for (name, most) in [("nobody polls", 0), ("3 quiet polls", 3), ("11 quiet polls", 11)] {
        while quiet < most {
            quiet += 1;
            poll_for_ever(service.reader(quiet));
        }
        let mut taken = Vec::new();
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|fetches| {
                let fetches = (0..fetches).map(|_| ready.fetch_first(taken.len()));
                let all: Vec<_> = fetches.collect();
                taken.extend_from_slice(&all);
                all.iter().sum()
            });
        });
        taken.sort();
        if let (Some(median), Some(slowest)) = (taken.get(taken.len() / 2), taken.last()) {
            tell(&format!(
                "{name}: median {median:.1?}, slowest {slowest:.1?} of {}",
                taken.len()
            ));
        }
    }
    group.finish();
}

#[expect(clippy::print_stdout, reason = "a bench's output")]
fn tell(line: &str) {
    println!("{line}");
}

/// A quiet reader that polls for 30 s again and again, until the process ends.
fn poll_for_ever(mut reader: Reader) {
    thread::spawn(move || {
        loop {
            assert_eq!(reader.ask("GET", "/records?timeout=30000", ""), "[]");
        }
    });
}

/// The service, and the broker below it.
struct Service {
    address: SocketAddr,
    broker: Broker,
}

impl Service {
    async fn start() -> Self {
        let mut config = broker::Config::default();
        config.initial_rebalance_delay = Duration::ZERO;
        let broker = Broker::start(config).await.expect("a broker");
        let cluster = Cluster::new(octopus_kafka::Config::new(vec![broker.addr().to_string()]));
        let lines: String = (0..USERS)
            .map(|user| format!("{} {}\n", token(user), subject(user)))
            .collect();
        let tokens = Tokens::parse(&lines, SystemTime::now).expect("tokens");
        let server = Server::builder(Arc::new(tokens)).cluster(cluster).start();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(server.serve(listener, std::future::pending()));
        Self { address, broker }
    }

    /// The reader of this number, with an instance and a topic of its own.
    fn reader(&self, number: usize) -> Reader {
        let user = number / 2;
        let topic = format!("ns-{}.events-{number}", &subject(user)[24..]);
        assert!(self.broker.create_topic(&topic));
        let head = format!(
            "Host: localhost\r\nsubject: {}\r\nauthorization: Bearer {}\r\n",
            subject(user),
            token(user)
        );
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let mut reader = Reader {
            stream,
            head,
            path: "/api/v2/consumers/group".to_owned(),
            topic: format!("events-{number}"),
        };
        let name = format!("instance-{number}");
        reader.ask("POST", "", &format!(r#"{{"name":"{name}"}}"#));
        reader.path += &format!("/instances/{name}");
        let partitions = format!(
            r#"{{"partitions":[{{"topic":"{}","partition":0}}]}}"#,
            reader.topic
        );
        reader.ask("POST", "/assignments", &partitions);
        reader.seek();
        reader
    }

    /// Writes a record for a reader.
    fn append(&self, number: usize) {
        let topic = format!("ns-{}.events-{number}", &subject(number / 2)[24..]);
        let mut batch = BatchWriter::new(Compression::None);
        batch.push(0, None, Some(b"ready"), &[]);
        self.broker.append(&topic, batch.finish()).expect("a topic");
    }
}

/// An instance, and the connection on which it is asked.
struct Reader {
    stream: TcpStream,
    head: String,
    path: String,
    topic: String,
}

impl Reader {
    /// Goes back to the first record and fetches it. Gives how long the fetch took.
    #[expect(clippy::disallowed_methods, reason = "the bench's own measure")]
    fn fetch_first(&mut self, number: usize) -> Duration {
        self.seek();
        // The others' turns are anywhere when it comes: 37 ms and 40 ms meet in every phase.
        thread::sleep(Duration::from_millis(number as u64 * 37 % 40));
        let start = Instant::now();
        let records = self.ask("GET", "/records?timeout=5000", "");
        let taken = start.elapsed();
        assert_ne!(records, "[]");
        taken
    }

    fn seek(&mut self) {
        let offsets = format!(
            r#"{{"offsets":[{{"topic":"{}","partition":0,"offset":0}}]}}"#,
            self.topic
        );
        self.ask("POST", "/positions", &offsets);
    }

    /// The body of a reply, which is a success and has a length unless it is empty.
    fn ask(&mut self, method: &str, route: &str, body: &str) -> String {
        let request = format!(
            "{method} {}{route} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.path,
            self.head,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).expect("a request sent");
        let mut reply = String::new();
        loop {
            let mut bytes = [0; 4096];
            let read = self.stream.read(&mut bytes).expect("a reply");
            assert_ne!(read, 0, "the connection stays open");
            reply += std::str::from_utf8(&bytes[..read]).expect("UTF-8");
            if let Some((head, body)) = reply.split_once("\r\n\r\n") {
                assert!(head.starts_with("HTTP/1.1 20"), "{reply}");
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                if length.map_or(0, |length| length.parse().expect("a length")) == body.len() {
                    return body.to_owned();
                }
            }
        }
    }
}

fn subject(user: usize) -> String {
    format!("6a0f4d3e-0000-4000-8000-{user:012x}")
}

fn token(user: usize) -> String {
    format!("token_of_user_{user}_with_enough_characters")
}

criterion_group!(benches, turn);
criterion_main!(benches);
