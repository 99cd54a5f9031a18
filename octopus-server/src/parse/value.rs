//! JSON as a request's body holds it, one level at a time: nesting of any depth costs no stack, and a number of
//! any length is only text.

use std::fmt;

use octopus_core::Error;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Reads a body: an object, or `None` for an empty or blank one and for the literal `null` [D-02]. A byte order
/// mark before it is left out.
pub(super) fn body(bytes: &[u8]) -> Result<Option<Object<'_>>, Error> {
    let text = str::from_utf8(bytes).map_err(|_| Error::BodyNotJson)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    match Value::read(parsed(text)?)? {
        Value::Null => Ok(None),
        Value::Object(object) => Ok(Some(object)),
        Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => {
            Err(Error::FieldInvalid("The request body"))
        }
    }
}

/// A value whose parts are still text.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'a str),
    Text(String),
    List(Vec<&'a RawValue>),
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Result<Self, Error> {
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'"') => Self::Text(parsed(text)?),
            Some(b'[') => Self::List(parsed(text)?),
            Some(b'{') => Self::Object(parsed(text)?),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') => Self::Null,
            Some(_) | None => Self::Number(text),
        })
    }
}

/// The fields of an object in the order given, repeated ones kept.
#[derive(Debug)]
pub(super) struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Refuses a field of any other name [D-05].
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Error> {
        match self.0.iter().find(|(name, _)| !known.contains(&&**name)) {
            Some((name, _)) => Err(Error::FieldUnknown(name.as_str().into())),
            None => Ok(()),
        }
    }

    /// A field's value: the last of a repeated one [D-08], null where there is none.
    pub(super) fn value(&self, name: &str) -> Result<Value<'a>, Error> {
        match self.0.iter().rfind(|(given, _)| given == name) {
            Some((_, raw)) => Value::read(raw),
            None => Ok(Value::Null),
        }
    }
}

impl<'a> Deserialize<'a> for Object<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'a> Visitor<'a> for Fields {
    type Value = Object<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Object<'a>, M::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Object(fields))
    }
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|_| Error::BodyNotJson)
}
