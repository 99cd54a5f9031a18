//! What became of records, as JSON.

use bytes::Bytes;
use http::{Response, StatusCode};
use octopus_core::Error;
use octopus_kafka::producer::Written;
use serde::Serialize;

use super::{Part, timestamp};
use crate::reply::plain;

/// What Confluent's REST Proxy puts behind each of several replies.
const SEPARATOR: &[u8] = b"\r\n";
/// Where a record stands that is written, though Kafka does not say where.
const NO_OFFSET: i64 = -1;

/// Where the records of a request went.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The id that the Kafka cluster gives itself; empty where it gives none.
    pub cluster_id: &'a str,
    /// The topic, without the namespace.
    pub topic_name: &'a str,
}

/// A record that was written, with its key and its value.
pub type Done = (Written, Option<Part>, Option<Part>);

/// The reply to records: 200, and one object a record in their order, each with its own `error_code`, which is 200 for one
/// that was written. There is more than one record where one of them was refused.
#[must_use]
pub fn records(done: &[Result<Done, Error>], place: Place<'_>) -> Response<Bytes> {
    let mut body = Vec::new();
    for done in done {
        match done {
            Ok(done) => write(
                &mut body,
                &Success {
                    error_code: Some(StatusCode::OK.as_u16()),
                    ..Success::of(done, place)
                },
            ),
            Err(error) => write(&mut body, &Failure::of(error)),
        }
        body.extend_from_slice(SEPARATOR);
    }
    if let [_] = done {
        body.truncate(body.len() - SEPARATOR.len());
    }
    plain(StatusCode::OK, body)
}

/// The reply to a batch: 207, with the entries that were written and those that were not, each in their order.
#[must_use]
pub fn batch(ids: &[String], done: &[Result<Done, Error>], place: Place<'_>) -> Response<Bytes> {
    let (mut successes, mut failures) = (Vec::new(), Vec::new());
    for (id, done) in ids.iter().zip(done) {
        let id = Some(&**id);
        match done {
            Ok(done) => successes.push(Success {
                id,
                ..Success::of(done, place)
            }),
            Err(error) => failures.push(Failure {
                id,
                ..Failure::of(error)
            }),
        }
    }
    let mut body = Vec::new();
    write(&mut body, &Batch { successes, failures });
    plain(StatusCode::MULTI_STATUS, body)
}

#[derive(Serialize)]
struct Batch<'a> {
    successes: Vec<Success<'a>>,
    failures: Vec<Failure<'a>>,
}

#[derive(Serialize)]
struct Success<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    cluster_id: &'a str,
    topic_name: &'a str,
    partition_id: i32,
    offset: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Part>,
}

impl<'a> Success<'a> {
    fn of((written, key, value): &Done, place: Place<'a>) -> Self {
        Self {
            error_code: None,
            id: None,
            cluster_id: place.cluster_id,
            topic_name: place.topic_name,
            partition_id: written.partition,
            offset: written.offset.unwrap_or(NO_OFFSET),
            timestamp: timestamp::format(written.timestamp),
            key: *key,
            value: *value,
        }
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    error_code: u32,
    message: String,
}

impl Failure<'_> {
    fn of(error: &Error) -> Self {
        Self {
            id: None,
            error_code: error.code().error_code(),
            message: error.to_string(),
        }
    }
}

fn write(body: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(body, value).expect("structs of text and numbers");
}
