//! Records to write: what a request's body holds becomes what Kafka is given, and what came of it the reply.
//!
//! The bodies and replies are those of Confluent's REST Proxy v3. Reading a body knows no Kafka and no clock, so that
//! any input can be tried on it.

mod admission;
mod compact;
mod fields;
mod record;
mod reply;
mod timestamp;
mod writer;

use std::collections::HashSet;

use octopus_core::{
    Error,
    limits::{PRODUCE_BODY_BYTES, PRODUCE_RECORDS},
};
use serde_json::value::RawValue;

pub(crate) use self::writer::Writer;
pub use self::{
    admission::{Admission, Hold},
    record::{Form, Outgoing, Part},
    reply::{Done, Place, batch as batch_reply, records as records_reply},
};

/// What a request calls the whole of its body.
const BODY: &str = "The request body";
/// A batch's list.
const ENTRIES: &str = "entries";
/// An entry's name in the reply.
const ID: &str = "id";
/// The longest of them, in bytes.
const ID_LENGTH: usize = 80;

/// A record of a body, or why it is none that can be written.
pub type Given = Result<Outgoing, Error>;

/// Reads one record, or several one behind the other with nothing or blanks between them.
///
/// # Errors
///
/// What is wrong with the whole: [`Error::BodyNotJson`] where any of it is not JSON, so that nothing of a body that was
/// cut is written; [`Error::FieldInvalid`] for no record, and [`Error::ListTooLong`] for more than 500. What is wrong with
/// one of the records is told of that one.
pub fn records(body: &[u8]) -> Result<Vec<Given>, Error> {
    let values = values(body)?;
    match values[..] {
        [] => Err(Error::FieldInvalid(BODY)),
        [only] if only.get() == "null" => Err(Error::FieldInvalid(BODY)),
        _ => Ok(values
            .into_iter()
            .map(|value| {
                fields::object(value, BODY, record::FIELDS)
                    .and_then(record::of)
                    .map_err(invalid)
            })
            .collect()),
    }
}

/// Reads a batch: its entries by their ids.
///
/// # Errors
///
/// What is wrong with the whole: [`Error::BodyNotJson`]; [`Error::FieldInvalid`] where there is no entry, or an entry is no
/// object or has no id of its own; [`Error::FieldUnknown`]; and [`Error::ListTooLong`] for more than 500. What is wrong
/// with the rest of an entry is told of that one.
pub fn batch(body: &[u8]) -> Result<(Vec<String>, Vec<Given>), Error> {
    let values = values(body)?;
    let [body] = values[..] else {
        return Err(Error::FieldInvalid(BODY));
    };
    let [entries] = fields::object(body, BODY, [ENTRIES])?.known()?;
    let entries = fields::list(
        entries.ok_or(Error::FieldInvalid(ENTRIES))?,
        ENTRIES,
        PRODUCE_RECORDS,
    )?;
    if entries.is_empty() {
        return Err(Error::FieldInvalid(ENTRIES));
    }
    let (mut ids, mut records) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for entry in entries {
        let (id, rest) = fields::object(entry, ENTRIES, record::ENTRY_FIELDS)?.split_first();
        let id = fields::text(id.ok_or(Error::FieldInvalid(ID))?, ID)?.into_owned();
        let is_good = (1..=ID_LENGTH).contains(&id.len())
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        if !is_good || !seen.insert(id.clone()) {
            return Err(Error::FieldInvalid(ID));
        }
        ids.push(id);
        records.push(record::of(rest).map_err(invalid));
    }
    Ok((ids, records))
}

/// The code of a record's own fault is that of the reference, by which the Python SDK's users know it.
fn invalid(why: Error) -> Error {
    Error::RecordInvalid(why.into())
}

/// The JSON values of a body. A byte order mark before them is left out.
fn values(body: &[u8]) -> Result<Vec<&RawValue>, Error> {
    debug_assert!(body.len() <= PRODUCE_BODY_BYTES, "it is read up to there");
    let text = str::from_utf8(body).map_err(|_| Error::BodyNotJson)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter() {
        let value: &RawValue = value.map_err(|_| Error::BodyNotJson)?;
        if values.len() == PRODUCE_RECORDS {
            return Err(Error::ListTooLong(BODY, PRODUCE_RECORDS));
        }
        values.push(value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
