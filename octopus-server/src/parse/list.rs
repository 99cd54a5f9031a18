//! Lists of topics, partitions and offsets.

use std::collections::{BTreeMap, BTreeSet};

use octopus_core::{Error, Offset, Position, Processed, TopicName, TopicPartition};
use serde_json::value::RawValue;

use super::{
    number::{decimal, whole},
    value::{Object, Value},
};

const TOPICS: &str = "topics";
const TOPIC_PATTERN: &str = "topic_pattern";
const PARTITIONS: &str = "partitions";
const OFFSETS: &str = "offsets";
const TOPIC: &str = "topic";
const PARTITION: &str = "partition";
const OFFSET: &str = "offset";
const METADATA: &str = "metadata";

/// The topics of a subscribe, each once [D-08]. A `topic_pattern` is refused before anything else [D-43] [SU-02].
pub(super) fn subscribe(body: Option<Object<'_>>, max_topics: usize) -> Result<Vec<TopicName>, Error> {
    let Some(body) = body else {
        return Err(Error::FieldInvalid(TOPICS));
    };
    if !matches!(body.value(TOPIC_PATTERN)?, Value::Null) {
        return Err(Error::TopicPattern);
    }
    body.only(&[TOPICS, TOPIC_PATTERN])?;
    let items = items(&body, TOPICS, max_topics)?;
    if items.is_empty() {
        return Err(Error::TopicsEmpty);
    }
    let mut topics = Vec::new();
    let mut seen = BTreeSet::new();
    for item in items {
        let topic = topic(Value::read(item)?, TOPICS)?;
        if seen.insert(topic.clone()) {
            topics.push(topic);
        }
    }
    Ok(topics)
}

/// The list `partitions` of a body, each partition once [D-08].
pub(super) fn partitions(body: Option<Object<'_>>, max_topics: usize) -> Result<Vec<TopicPartition>, Error> {
    let Some(body) = body else {
        return Err(Error::FieldInvalid(PARTITIONS));
    };
    body.only(&[PARTITIONS])?;
    let mut partitions = Vec::new();
    let mut seen = BTreeSet::new();
    for item in items(&body, PARTITIONS, max_topics)? {
        let item = object(item, PARTITIONS)?;
        item.only(&[TOPIC, PARTITION])?;
        let partition = partition(&item)?;
        if seen.insert(partition.clone()) {
            partitions.push(partition);
        }
    }
    Ok(partitions)
}

/// The offsets of a commit [CO-01], the last one of each partition [D-08].
pub(super) fn processed(body: &Object<'_>, max_topics: usize) -> Result<Vec<Processed>, Error> {
    let mut found = Latest::default();
    body.only(&[OFFSETS])?;
    for item in items(body, OFFSETS, max_topics)? {
        let item = offset_item(item)?;
        let partition = partition(&item)?;
        let offset = offset(&item)?;
        let metadata = match item.value(METADATA)? {
            Value::Null => Box::default(),
            Value::Text(text) => text.into(),
            Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Object(_) => {
                return Err(Error::FieldInvalid(METADATA));
            }
        };
        found.put(partition, (offset, metadata));
    }
    Ok(found.into_vec(|partition, (offset, metadata)| Processed {
        partition,
        offset,
        metadata,
    }))
}

/// The positions of a seek [SK-01], the last one of each partition [D-08]; `metadata` is ignored [D-05].
pub(super) fn positions(
    body: Option<Object<'_>>,
    max_topics: usize,
) -> Result<Vec<(TopicPartition, Position)>, Error> {
    let Some(body) = body else {
        return Err(Error::FieldInvalid(OFFSETS));
    };
    body.only(&[OFFSETS])?;
    let mut found = Latest::default();
    for item in items(&body, OFFSETS, max_topics)? {
        let item = offset_item(item)?;
        found.put(partition(&item)?, Position::at(offset(&item)?.0));
    }
    Ok(found.into_vec(|partition, position| (partition, position)))
}

/// A value for each partition, in the order in which the partitions came first.
struct Latest<T> {
    values: Vec<(TopicPartition, T)>,
    places: BTreeMap<TopicPartition, usize>,
}

impl<T> Latest<T> {
    fn put(&mut self, partition: TopicPartition, value: T) {
        match self.places.get(&partition) {
            Some(&place) => self.values[place].1 = value,
            None => {
                self.places.insert(partition.clone(), self.values.len());
                self.values.push((partition, value));
            }
        }
    }

    fn into_vec<U>(self, make: impl Fn(TopicPartition, T) -> U) -> Vec<U> {
        self.values
            .into_iter()
            .map(|(partition, value)| make(partition, value))
            .collect()
    }
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}

/// The items of a list, which must be there and not too long [CT-04] [CT-06].
fn items<'a>(body: &Object<'a>, field: &'static str, most: usize) -> Result<Vec<&'a RawValue>, Error> {
    let Value::List(items) = body.value(field)? else {
        return Err(Error::FieldInvalid(field));
    };
    if items.len() > most {
        return Err(Error::ListTooLong(field, most));
    }
    Ok(items)
}

fn object<'a>(item: &'a RawValue, list: &'static str) -> Result<Object<'a>, Error> {
    match Value::read(item)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => {
            Err(Error::FieldInvalid(list))
        }
    }
}

fn offset_item(item: &RawValue) -> Result<Object<'_>, Error> {
    let item = object(item, OFFSETS)?;
    item.only(&[TOPIC, PARTITION, OFFSET, METADATA])?;
    Ok(item)
}

fn partition(item: &Object<'_>) -> Result<TopicPartition, Error> {
    let topic = topic(item.value(TOPIC)?, TOPIC)?;
    let partition = integer(item, PARTITION)?;
    let partition = i32::try_from(partition).map_err(|_| Error::FieldInvalid(PARTITION))?;
    Ok(TopicPartition { topic, partition })
}

fn topic(value: Value<'_>, field: &'static str) -> Result<TopicName, Error> {
    match value {
        Value::Text(text) if !text.trim().is_empty() => Ok(text.as_str().into()),
        Value::Text(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::List(_)
        | Value::Object(_) => Err(Error::FieldInvalid(field)),
    }
}

/// An offset that has a next one [D-06].
fn offset(item: &Object<'_>) -> Result<Offset, Error> {
    let offset = i64::try_from(integer(item, OFFSET)?).map(Offset);
    offset
        .ok()
        .filter(|offset| (Offset(0)..=Offset::MAX).contains(offset))
        .ok_or(Error::FieldInvalid(OFFSET))
}

/// A whole number, as a number or as a string [D-06].
fn integer(item: &Object<'_>, field: &'static str) -> Result<i128, Error> {
    let value = match item.value(field)? {
        Value::Number(number) => whole(number),
        Value::Text(text) => decimal(&text),
        Value::Null | Value::Bool(_) | Value::List(_) | Value::Object(_) => None,
    };
    value.ok_or(Error::FieldInvalid(field))
}
