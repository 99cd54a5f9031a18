//! One record of a body.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use octopus_core::{Error, limits::PRODUCE_HEADERS};
use octopus_kafka::producer::NewRecord;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{compact::compact, fields, fields::Object, timestamp};
use crate::parse::number;

/// The fields of a record.
pub(super) const FIELDS: [&str; 5] = [PARTITION_ID, HEADERS, KEY, VALUE, TIMESTAMP];
/// The fields of a batch's entry: its id, and those of a record.
pub(super) const ENTRY_FIELDS: [&str; 6] = ["id", PARTITION_ID, HEADERS, KEY, VALUE, TIMESTAMP];

const PARTITION_ID: &str = "partition_id";
const HEADERS: &str = "headers";
const KEY: &str = "key";
const VALUE: &str = "value";
const TIMESTAMP: &str = "timestamp";
const TYPE: &str = "type";
const DATA: &str = "data";

/// A record to write, and what its reply says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The partition that was asked for; every topic has one, 0.
    pub partition: i32,
    /// What Kafka is given.
    pub record: NewRecord,
    /// Its key as it was given, if it was.
    pub key: Option<Part>,
    /// Its value, likewise.
    pub value: Option<Part>,
}

/// A key or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Part {
    /// How the body writes it.
    #[serde(rename = "type")]
    pub form: Form,
    /// Its bytes on Kafka; 0 for null.
    pub size: usize,
}

/// How a body writes a key or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Form {
    /// Base64 of its bytes.
    Binary,
    /// A JSON value, which is written as it came but for the blanks between its tokens.
    Json,
    /// A text, which is written as UTF-8.
    String,
}

/// Reads a record's fields. A value that is absent or null is null, such as one that deletes a key of a compacted topic.
pub(super) fn of(fields: Object<'_, 5>) -> Result<Outgoing, Error> {
    let [partition, headers, key, value, timestamp] = fields.known()?;
    if key.is_none() && value.is_none() {
        return Err(Error::FieldInvalid("A key or a value"));
    }
    let headers = headers.map(self::headers).transpose()?.unwrap_or_default();
    let (key, key_part) = part(key, KEY)?;
    let (value, value_part) = part(value, VALUE)?;
    let record = NewRecord {
        key,
        value,
        headers,
        timestamp: timestamp.map(self::timestamp).transpose()?,
    };
    Ok(Outgoing {
        partition: partition.map(self::partition).transpose()?.unwrap_or(0),
        record,
        key: key_part,
        value: value_part,
    })
}

/// A whole number in any of its forms [D-06].
fn partition(raw: &RawValue) -> Result<i32, Error> {
    let number = if raw.get().starts_with('"') {
        number::decimal(&fields::text(raw, PARTITION_ID)?)
    } else if raw
        .get()
        .starts_with(|first: char| first == '-' || first.is_ascii_digit())
    {
        number::whole(raw.get())
    } else {
        None
    };
    number
        .and_then(|number| i32::try_from(number).ok())
        .ok_or(Error::FieldInvalid(PARTITION_ID))
}

/// The bytes of a key or a value.
fn part(raw: Option<&RawValue>, what: &'static str) -> Result<(Option<Bytes>, Option<Part>), Error> {
    let Some(raw) = raw else {
        return Ok((None, None));
    };
    let [form, data] = fields::object(raw, what, [TYPE, DATA])?.known()?;
    let form = Form::read(form.ok_or(Error::FieldInvalid(TYPE))?)?;
    let bytes = data.map(|data| form.bytes(data)).transpose()?;
    let size = bytes.as_ref().map_or(0, Bytes::len);
    Ok((bytes, Some(Part { form, size })))
}

impl Form {
    fn read(raw: &RawValue) -> Result<Self, Error> {
        let text = fields::text(raw, TYPE)?;
        let forms = [
            ("BINARY", Self::Binary),
            ("JSON", Self::Json),
            ("STRING", Self::String),
        ];
        forms
            .into_iter()
            .find(|(name, _)| text.eq_ignore_ascii_case(name))
            .map(|(_, form)| form)
            .ok_or(Error::FieldInvalid(TYPE))
    }

    fn bytes(self, data: &RawValue) -> Result<Bytes, Error> {
        match self {
            Self::Binary => binary(data, DATA),
            Self::Json => Ok(compact(data.get()).into()),
            Self::String => Ok(fields::text(data, DATA)?.into_owned().into()),
        }
    }
}

fn headers(raw: &RawValue) -> Result<Vec<(String, Option<Bytes>)>, Error> {
    let items = fields::list(raw, HEADERS, PRODUCE_HEADERS)?;
    let header = |raw| {
        let [name, value] = fields::object(raw, HEADERS, ["name", VALUE])?.known()?;
        let name = fields::text(name.ok_or(Error::FieldInvalid(HEADERS))?, HEADERS)?;
        let value = value.map(|value| binary(value, HEADERS)).transpose()?;
        Ok((name.into_owned(), value))
    };
    items.into_iter().map(header).collect()
}

fn timestamp(raw: &RawValue) -> Result<i64, Error> {
    let text = fields::text(raw, TIMESTAMP)?;
    timestamp::parse(&text).ok_or(Error::FieldInvalid(TIMESTAMP))
}

/// Base64 of the standard alphabet, with padding and nothing else.
fn binary(raw: &RawValue, what: &'static str) -> Result<Bytes, Error> {
    let text = fields::text(raw, what)?;
    let bytes = BASE64_STANDARD.decode(&*text);
    bytes.map(Into::into).map_err(|_| Error::FieldInvalid(what))
}
