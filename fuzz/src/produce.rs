//! A body with records to write: what is read of it keeps to the rules, and written anew it is read alike.

use std::collections::HashSet;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use octopus_codec::is_json;
use octopus_core::limits::{PRODUCE_HEADERS, PRODUCE_RECORDS};
use octopus_server::produce::{Form, Given, Outgoing, Part, batch, records};
use serde_json::{Value, json};

/// The input is a body, of one of the two routes.
pub fn check(data: &[u8]) {
    if let Ok(given) = records(data) {
        all(&given);
    }
    if let Ok((ids, given)) = batch(data) {
        assert_eq!(ids.len(), given.len());
        assert!(ids.iter().all(|id| (1..=80).contains(&id.len()) && id.is_ascii()));
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        all(&given);
    }
}

fn all(given: &[Given]) {
    assert!((1..=PRODUCE_RECORDS).contains(&given.len()));
    for outgoing in given.iter().flatten() {
        one(outgoing);
        let body = anew(outgoing).to_string();
        let mut read = records(body.as_bytes()).expect("a record");
        let read = read.remove(0).expect("the same record");
        assert_eq!(read.record, outgoing.record);
    }
}

fn one(outgoing: &Outgoing) {
    let Outgoing {
        record, key, value, ..
    } = outgoing;
    assert!(key.is_some() || value.is_some());
    assert!(record.headers.len() <= PRODUCE_HEADERS);
    assert!(record.timestamp.is_none_or(|time| time >= 0));
    for (part, bytes) in [(key, &record.key), (value, &record.value)] {
        let Some(Part { form, size }) = part else {
            assert_eq!(*bytes, None);
            continue;
        };
        let Some(bytes) = bytes else {
            assert_eq!(*size, 0);
            continue;
        };
        assert_eq!(*size, bytes.len());
        match form {
            Form::Binary => {}
            Form::Json => {
                assert!(is_json(bytes));
                assert!(!bytes.first().is_some_and(u8::is_ascii_whitespace));
            }
            Form::String => assert!(str::from_utf8(bytes).is_ok()),
        }
    }
}

/// The record's body, with its parts in base64.
fn anew(outgoing: &Outgoing) -> Value {
    let text = |bytes: &Option<Bytes>| bytes.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes));
    let record = &outgoing.record;
    let headers = record.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| json!({"name": name, "value": text(value)}))
        .collect();
    let time = record.timestamp.map(|time| {
        let (seconds, millis) = (time / 1000, time % 1000);
        let day = seconds / 86_400;
        // A day of any year by its count alone.
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let (year, month, day) = date(day);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    });
    json!({
        "key": {"type": "BINARY", "data": text(&record.key)},
        "value": {"type": "BINARY", "data": text(&record.value)},
        "headers": headers,
        "timestamp": time,
    })
}

/// The year, the month and the day so many days behind the first of 1970.
fn date(mut days: i64) -> (i64, i64, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    for length in lengths {
        month += 1;
        if days < length {
            break;
        }
        days -= length;
    }
    (year, month, days + 1)
}
