//! A create's body.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Command, Error, Format, Name, Settings, limits::MAX_WAIT};

use super::{
    Parsed,
    number::{decimal, whole},
    value::{Object, Value},
};

const ID: &str = "id";
const NAME: &str = "name";
const FORMAT: &str = "format";
const AUTO_OFFSET_RESET: &str = "auto.offset.reset";
const AUTO_COMMIT_ENABLE: &str = "auto.commit.enable";
const FETCH_MIN_BYTES: &str = "fetch.min.bytes";
const REQUEST_TIMEOUT_MS: &str = "consumer.request.timeout.ms";

/// Reads a create. A field that is null counts as absent [D-07]; without a body every default is taken [CR-01].
pub(super) fn create(group: &str, body: Option<Object<'_>>) -> Result<Parsed, Error> {
    let mut settings = Settings::default();
    let mut instance = None;
    if let Some(body) = &body {
        body.only(&[
            ID,
            NAME,
            FORMAT,
            AUTO_OFFSET_RESET,
            AUTO_COMMIT_ENABLE,
            FETCH_MIN_BYTES,
            REQUEST_TIMEOUT_MS,
        ])?;
    }
    let group = Name::parse(group).ok_or(Error::NameInvalid("group"))?;
    if let Some(body) = &body {
        instance = match name(body, ID)? {
            Some(id) => Some(id),
            None => name(body, NAME)?,
        };
        if let Some(format) = format(body)? {
            settings.format = format;
        }
        if let Some(reset) = auto_offset_reset(body)? {
            settings.auto_offset_reset = reset;
        }
        if let Some(auto_commit) = auto_commit(body)? {
            settings.auto_commit = auto_commit;
        }
        if let Some(bytes) = at_least_zero(body, FETCH_MIN_BYTES)? {
            settings.min_bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        }
        if let Some(ms) = at_least_zero(body, REQUEST_TIMEOUT_MS)? {
            settings.request_timeout = Duration::from_millis(ms).min(MAX_WAIT);
        }
    }
    Ok(Parsed {
        group,
        instance,
        command: Command::Create(settings),
    })
}

/// The instance's name, which the deprecated `id` may give [CR-03].
fn name(body: &Object<'_>, field: &'static str) -> Result<Option<Name>, Error> {
    match body.value(field)? {
        Value::Null => Ok(None),
        Value::Text(text) => Name::parse(&text).map(Some).ok_or(Error::NameInvalid("name")),
        Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Object(_) => {
            Err(Error::NameInvalid("name"))
        }
    }
}

/// [CR-04] [D-43]
fn format(body: &Object<'_>) -> Result<Option<Format>, Error> {
    match body.value(FORMAT)? {
        Value::Null => Ok(None),
        Value::Text(text) if text.eq_ignore_ascii_case("binary") => Ok(Some(Format::Binary)),
        Value::Text(text) if text.eq_ignore_ascii_case("json") => Ok(Some(Format::Json)),
        Value::Text(_) | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Object(_) => {
            Err(Error::FormatUnknown)
        }
    }
}

/// [CR-05] [D-43]
fn auto_offset_reset(body: &Object<'_>) -> Result<Option<AutoOffsetReset>, Error> {
    match body.value(AUTO_OFFSET_RESET)? {
        Value::Null => Ok(None),
        Value::Text(text) if text.eq_ignore_ascii_case("earliest") => Ok(Some(AutoOffsetReset::Earliest)),
        Value::Text(text) if text.eq_ignore_ascii_case("latest") => Ok(Some(AutoOffsetReset::Latest)),
        Value::Text(text) if text.eq_ignore_ascii_case("none") => Ok(Some(AutoOffsetReset::None)),
        Value::Text(_) | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Object(_) => Err(
            Error::SettingInvalid(AUTO_OFFSET_RESET, "earliest, latest or none"),
        ),
    }
}

/// [CR-05] [D-43]
fn auto_commit(body: &Object<'_>) -> Result<Option<bool>, Error> {
    match body.value(AUTO_COMMIT_ENABLE)? {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(value)),
        Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Value::Text(_) | Value::Number(_) | Value::List(_) | Value::Object(_) => {
            Err(Error::SettingInvalid(AUTO_COMMIT_ENABLE, "true or false"))
        }
    }
}

/// A whole number of at least 0, as a number or as a string; one past 64 bits is the largest of them [CR-06] [D-06].
fn at_least_zero(body: &Object<'_>, field: &'static str) -> Result<Option<u64>, Error> {
    let value = match body.value(field)? {
        Value::Null => return Ok(None),
        Value::Number(number) => whole(number),
        Value::Text(text) => decimal(&text),
        Value::Bool(_) | Value::List(_) | Value::Object(_) => None,
    };
    match value.filter(|value| *value >= 0) {
        Some(value) => Ok(Some(u64::try_from(value).unwrap_or(u64::MAX))),
        None => Err(Error::SettingInvalid(field, "a whole number of at least 0")),
    }
}
