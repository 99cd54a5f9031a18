//! How fast a backlog is drained, from socket to socket: the service reads from Kafka, and a client that only counts bytes
//! reads from the service. Kafka, the service and the client are a process each. Beside it, with `--features rdkafka`,
//! librdkafka reads the same topic of the same Kafka in the same run.
//!
//! A drain is timed from the request of its first fetch to the last byte of its last reply. librdkafka's time starts at
//! its first record, when it has found the topic and fetched ahead. Before anything is timed, each topic is read once and
//! each record looked at; after it, the bytes of every drain are compared with those.
//!
//! `memory` is what the service holds at most while one instance drains 1 GiB.

#[cfg(feature = "rdkafka")]
mod librdkafka;

use std::{cell::OnceCell, process, sync::Barrier, thread, time::Duration};

use anyhow::Result;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, measurement::WallTime};
use octopus_benches::{
    Asked,
    client::{Instance, Whole},
    event_of, ratio,
    stand::{self, Kafka, Part},
    system::{self, Watch, now},
};
use octopus_core::Format;
use octopus_kafka::records::Compression;
use tikv_jemallocator::Jemalloc;

/// The allocator of `octopus-server`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The values of a topic: their name, their length and how many of them a drain reads.
const VALUES: [(&str, usize, usize); 3] = [
    ("100 B", 100, 400_000),
    ("1 KiB", 1024, 65_536),
    ("64 KiB", 65_536, 1536),
];
/// Few, where a run only shows that it works.
const FEW: usize = 300;
/// Different values; they come again in a topic.
const KINDS: u64 = 4096;
/// The instances that drain at once.
const CROWD: usize = 8;
/// What is drained to see how much memory it takes.
const MUCH: usize = 1 << 30;

fn main() -> Result<()> {
    if stand::play()? {
        return Ok(());
    }
    let asked = Asked::of_this_process();
    let mut kafka = Kafka::start()?;
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5))
        .sample_size(10)
        .configure_from_args();
    for (name, bytes, records) in VALUES {
        let records = if asked.is_whole { records } else { FEW };
        for (packed, compression) in [
            ("none", Compression::None),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ] {
            let log = Log::new(format!("{name} {packed}"), records, bytes, compression);
            alone(&mut criterion, &mut kafka, log)?;
        }
    }
    let (name, bytes, records) = VALUES[1];
    let records = if asked.is_whole { records } else { FEW };
    let log = Log::new(name.to_owned(), records, bytes, Compression::None);
    crowd(&mut criterion, &mut kafka, log)?;
    if asked.wants("memory") {
        let log = Log::new(name.to_owned(), records, bytes, Compression::None);
        memory(&mut kafka, log, if asked.is_whole { MUCH } else { 0 })?;
    }
    criterion.final_summary();
    Ok(())
}

/// A topic, which is made when it is first asked for: a filter may leave it out.
struct Log {
    name: String,
    records: usize,
    bytes: usize,
    compression: Compression,
    topic: Option<String>,
}

impl Log {
    const fn new(name: String, records: usize, bytes: usize, compression: Compression) -> Self {
        Self {
            name,
            records,
            bytes,
            compression,
            topic: None,
        }
    }

    /// Its name for callers.
    fn topic(&mut self, kafka: &mut Kafka) -> Result<String> {
        if let Some(topic) = &self.topic {
            return Ok(topic.clone());
        }
        let kinds: Vec<_> = (0..KINDS.min(self.records as u64))
            .map(|seed| event_of(seed, self.bytes))
            .collect();
        let values = kinds.iter().cycle().take(self.records).cloned();
        let topic = self.name.replace(' ', "-");
        let topic = kafka.fill(&topic, self.compression, values)?;
        Ok(self.topic.insert(topic).clone())
    }

    const fn throughput(&self, times: u64) -> Throughput {
        Throughput::ElementsAndBytes {
            elements: self.records as u64 * times,
            bytes: (self.records * self.bytes) as u64 * times,
        }
    }
}

/// One reader of a topic, in each way.
fn alone(criterion: &mut Criterion, kafka: &mut Kafka, mut log: Log) -> Result<()> {
    let name = format!("drain/{}", log.name);
    let mut group = criterion.benchmark_group(&name);
    group
        .sampling_mode(SamplingMode::Flat)
        .throughput(log.throughput(1));
    let service = OnceCell::new();
    for (format, label) in [(Format::Binary, "binary"), (Format::Json, "json")] {
        octopus(&mut group, label, kafka, &service, &mut log, format)?;
    }
    #[cfg(feature = "rdkafka")]
    librdkafka::bench(&mut group, kafka, &mut log)?;
    group.finish();
    ratio::print(&name, "binary", "librdkafka");
    ratio::print(&name, "json", "librdkafka");
    ratio::print(&name, "json", "binary");
    kafka.clear()
}

/// Our part of it.
fn octopus(
    group: &mut BenchmarkGroup<'_, WallTime>,
    label: &str,
    kafka: &mut Kafka,
    service: &OnceCell<Part>,
    log: &mut Log,
    format: Format,
) -> Result<()> {
    let mut reader: Option<(Instance, Whole, Watch)> = None;
    let mut drained = 0;
    group.bench_function(label, |bencher| {
        let (instance, whole, _) = reader.get_or_insert_with(|| {
            let topic = log.topic(kafka).expect("a topic");
            let service = service.get_or_init(|| Part::service(kafka, 1).expect("a service"));
            let (instance, whole) = checked(service, label, &topic, log, format).expect("a reader");
            let watch = watch(kafka, [("the service", service.id())]);
            (instance, whole, watch.expect("their CPU"))
        });
        bencher.iter_custom(|times| {
            drained += times;
            let drains = (0..times).map(|_| timed(instance, *whole).expect("a drain"));
            drains.sum()
        });
    });
    if let Some((instance, _, watch)) = reader {
        tell_used(&watch, drained * log.records as u64)?;
        if stand::is_watched() {
            let records = (drained + 1) * log.records as u64;
            tell(&format!("  the service gave out {records} records in all"));
        }
        instance.delete()?;
    }
    Ok(())
}

/// An instance that has read the topic once, with an eye on each record.
fn checked(service: &Part, group: &str, topic: &str, log: &Log, format: Format) -> Result<(Instance, Whole)> {
    let mut instance = Instance::assigned(service.address(), group, topic, format)?;
    let whole = instance.check(log.records, log.bytes)?;
    Ok((instance, whole))
}

fn timed(instance: &mut Instance, whole: Whole) -> Result<Duration> {
    instance.rewind()?;
    let start = now();
    instance.drain(whole)?;
    Ok(start.elapsed())
}

/// Eight instances that drain a topic at once, and one that drains it eight times.
fn crowd(criterion: &mut Criterion, kafka: &mut Kafka, mut log: Log) -> Result<()> {
    let name = format!("drain/{CROWD} instances, {}", log.name);
    let mut group = criterion.benchmark_group(&name);
    group
        .sampling_mode(SamplingMode::Flat)
        .throughput(log.throughput(CROWD as u64));
    let service = OnceCell::new();
    let mut readers: Vec<(Instance, Whole)> = Vec::new();
    for label in ["at once", "one alone"] {
        group.bench_function(label, |bencher| {
            for number in readers.len()..CROWD {
                let topic = log.topic(kafka).expect("a topic");
                let service = service.get_or_init(|| Part::service(kafka, CROWD).expect("a service"));
                let reader = checked(service, &format!("group-{number}"), &topic, &log, Format::Json);
                readers.push(reader.expect("a reader"));
            }
            bencher.iter_custom(|times| {
                if label == "at once" {
                    (0..times).map(|_| at_once(&mut readers)).sum()
                } else {
                    let (instance, whole) = &mut readers[0];
                    let drains = (0..times * CROWD as u64).map(|_| timed(instance, *whole).expect("a drain"));
                    drains.sum()
                }
            });
        });
    }
    group.finish();
    ratio::print(&name, "at once", "one alone");
    kafka.clear()
}

/// The time until the last has drained the topic.
fn at_once(readers: &mut [(Instance, Whole)]) -> Duration {
    for (instance, _) in &mut *readers {
        instance.rewind().expect("its first record");
    }
    let ready = Barrier::new(readers.len() + 1);
    thread::scope(|scope| {
        for (instance, whole) in readers {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                instance.drain(*whole).expect("a drain");
            });
        }
        ready.wait();
        now()
    })
    .elapsed()
}

/// The memory that a service holds at most while an instance of each format drains so many bytes.
fn memory(kafka: &mut Kafka, mut log: Log, bytes: usize) -> Result<()> {
    let topic = log.topic(kafka)?;
    for (format, label) in [(Format::Binary, "binary"), (Format::Json, "json")] {
        let service = Part::service(kafka, 1)?;
        let empty = system::resident(service.id())?;
        let (mut instance, whole) = checked(&service, label, &topic, &log, format)?;
        system::forget_peak(service.id());
        let times = bytes.div_ceil(log.records * log.bytes).max(1);
        for _ in 0..times {
            timed(&mut instance, whole)?;
        }
        tell(&format!(
            "memory/{label}: {:.1} MiB at most while one instance drained {} MiB, {:.1} MiB before",
            mebibytes(system::peak(service.id())?),
            (times * log.records * log.bytes) >> 20,
            mebibytes(empty),
        ));
    }
    kafka.clear()
}

/// The CPU of this process, of Kafka where it is one of ours, and of these.
fn watch(kafka: &Kafka, others: impl IntoIterator<Item = (&'static str, u32)>) -> Result<Watch> {
    let own = [("this process", process::id())];
    let kafka = kafka.id().map(|id| ("the broker", id));
    Watch::start(others.into_iter().chain(kafka).chain(own))
}

fn tell_used(watch: &Watch, records: u64) -> Result<()> {
    if records > 0 {
        tell(&format!("  CPU a record: {}", watch.each(records)?));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

#[expect(clippy::print_stdout, reason = "a bench's output")]
fn tell(line: &str) {
    println!("{line}");
}
