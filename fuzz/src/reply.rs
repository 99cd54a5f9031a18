//! Whole replies: what was produced must be read back from them, within their limits.

use std::num::NonZeroU64;

use arbitrary::{Arbitrary, Unstructured};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use octopus_codec::{Body, is_json, is_utf8, pack};
use octopus_core::{Format, TopicPartition};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::log::{Log, Sent};

#[derive(Debug, Arbitrary)]
struct Input {
    is_json: bool,
    max_bytes: Option<NonZeroU64>,
    partitions: Vec<Vec<Sent>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    topic: String,
    key: Box<RawValue>,
    value: Box<RawValue>,
    partition: i32,
    offset: usize,
    headers: Vec<Header>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    value: Option<String>,
}

/// The input makes the records of some partitions, a format and `max_bytes`.
pub fn check(data: &[u8]) {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else {
        return;
    };
    let format = if input.is_json {
        Format::Json
    } else {
        Format::Binary
    };
    let parts = input
        .partitions
        .iter()
        .enumerate()
        .map(|(i, records)| (partition(i), Log::new(records.clone())))
        .collect();
    let packed = pack(parts, format, input.max_bytes);

    let Some(body) = packed.body else {
        assert!(packed.next.is_empty() && packed.cut.is_none());
        let first = input.partitions.iter().position(|records| !records.is_empty());
        assert_eq!(packed.not_utf8, first.map(partition));
        return;
    };
    let reply = match body {
        Body::Whole(slices) => slices.concat(),
        Body::Streamed(stream) => stream.collect::<Vec<_>>().concat(),
    };
    let objects: Vec<Object> = serde_json::from_slice(&reply).expect("JSON");
    let mut objects = objects.iter();
    let (mut count, mut payload) = (0, 0);
    for (at, next) in &packed.next {
        let i = (0..input.partitions.len())
            .find(|&i| partition(i) == *at)
            .expect("a partition that was given");
        let records = &input.partitions[i];
        for (offset, sent) in (0..next.offset).zip(records) {
            let object = objects.next().expect("an object for each record up to `next`");
            assert_eq!((object.topic.as_str(), object.partition), (at.topic.as_str(), 0));
            assert_eq!(i64::try_from(object.offset), Ok(offset));
            same(&object.key, sent.key.as_deref(), format);
            same(&object.value, sent.value.as_deref(), format);
            same_headers(&object.headers, sent);
            count += 1;
            payload += [&sent.key, &sent.value]
                .into_iter()
                .flatten()
                .map(Vec::len)
                .sum::<usize>();
        }
    }
    assert!(objects.next().is_none());
    assert!(count == 1 || input.max_bytes.is_none_or(|most| (payload as u64) < most.get()));
    if packed.cut.is_none() {
        for (i, records) in input.partitions.iter().enumerate() {
            let taken = packed.next.iter().find(|(at, _)| *at == partition(i));
            let taken = taken.map_or(0, |(_, next)| usize::try_from(next.offset).expect("an offset"));
            assert!(
                records
                    .get(taken)
                    .is_none_or(|sent| input.is_json && !is_text(sent))
            );
        }
    }
}

fn partition(i: usize) -> TopicPartition {
    TopicPartition::only(format!("topic-{i}").as_str().into())
}

fn is_text(sent: &Sent) -> bool {
    [&sent.key, &sent.value]
        .into_iter()
        .flatten()
        .all(|bytes| is_utf8(bytes))
}

fn same(written: &RawValue, produced: Option<&[u8]>, format: Format) {
    let written = written.get();
    let Some(produced) = produced else {
        assert_eq!(written, "null");
        return;
    };
    let string = || serde_json::from_str::<String>(written).expect("a string");
    match format {
        Format::Binary => assert_eq!(STANDARD.decode(string()).expect("base64"), produced),
        // The parser drops the blanks around a value.
        Format::Json if is_json(produced) => assert_eq!(written.as_bytes(), produced.trim_ascii()),
        Format::Json => assert_eq!(string().as_bytes(), produced),
    }
}

fn same_headers(written: &[Header], sent: &Sent) {
    assert_eq!(written.len(), sent.headers.len());
    for (header, (name, value)) in written.iter().zip(&sent.headers) {
        assert_eq!(header.name, String::from_utf8_lossy(name));
        let decoded = header
            .value
            .as_ref()
            .map(|text| STANDARD.decode(text).expect("base64"));
        assert_eq!(&decoded, value);
    }
}
