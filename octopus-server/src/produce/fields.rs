//! The parts of a record's JSON, as far as they are known: what a body may hold beside them takes no memory.

use std::{borrow::Cow, fmt};

use octopus_core::Error;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// What an object has of the fields that are asked for: the last of a repeated one [D-08], and none that is null.
#[derive(Debug)]
pub(super) struct Object<'a, const N: usize> {
    values: [Option<&'a RawValue>; N],
    /// The first field of another name.
    unknown: Option<Box<str>>,
}

impl<'a, const N: usize> Object<'a, N> {
    /// Refuses a field of any other name [D-05].
    pub(super) fn known(self) -> Result<[Option<&'a RawValue>; N], Error> {
        match self.unknown {
            Some(name) => Err(Error::FieldUnknown(name)),
            None => Ok(self.values),
        }
    }
}

impl<'a> Object<'a, 6> {
    /// The first field, and an object of the others.
    pub(super) fn split_first(self) -> (Option<&'a RawValue>, Object<'a, 5>) {
        let [first, a, b, c, d, e] = self.values;
        let rest = Object {
            values: [a, b, c, d, e],
            unknown: self.unknown,
        };
        (first, rest)
    }
}

/// Reads an object. `what` is what the request calls it.
pub(super) fn object<'a, const N: usize>(
    raw: &'a RawValue,
    what: &'static str,
    names: [&'static str; N],
) -> Result<Object<'a, N>, Error> {
    let mut text = serde_json::Deserializer::from_str(raw.get());
    text.deserialize_map(Fields(names))
        .map_err(|_| Error::FieldInvalid(what))
}

/// Reads a list of at most so many items.
pub(super) fn list<'a>(
    raw: &'a RawValue,
    what: &'static str,
    most: usize,
) -> Result<Vec<&'a RawValue>, Error> {
    let mut text = serde_json::Deserializer::from_str(raw.get());
    let items = text
        .deserialize_seq(Items(most))
        .map_err(|_| Error::FieldInvalid(what))?;
    items.ok_or(Error::ListTooLong(what, most))
}

/// Reads a text.
pub(super) fn text<'a>(raw: &'a RawValue, what: &'static str) -> Result<Cow<'a, str>, Error> {
    let json = raw.get();
    let plain = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let plain = plain.ok_or(Error::FieldInvalid(what))?;
    if plain.contains('\\') {
        let text = serde_json::from_str(json).map_err(|_| Error::FieldInvalid(what))?;
        return Ok(Cow::Owned(text));
    }
    Ok(Cow::Borrowed(plain))
}

struct Fields<const N: usize>([&'static str; N]);

impl<'a, const N: usize> Visitor<'a> for Fields<N> {
    type Value = Object<'a, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Object<'a, N>, M::Error> {
        let mut values = [None; N];
        let mut unknown = None;
        while let Some(name) = map.next_key::<Cow<'a, str>>()? {
            if let Some(place) = self.0.iter().position(|known| *known == name) {
                let value: &RawValue = map.next_value()?;
                values[place] = Some(value).filter(|value| value.get() != "null");
            } else {
                map.next_value::<IgnoredAny>()?;
                unknown.get_or_insert_with(|| name.into());
            }
        }
        Ok(Object { values, unknown })
    }
}

struct Items(usize);

impl<'a> Visitor<'a> for Items {
    /// `None` where there are more.
    type Value = Option<Vec<&'a RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            if items.len() == self.0 {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            items.push(item);
        }
        Ok(Some(items))
    }
}
