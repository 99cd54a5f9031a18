//! A request's line and body: what is accepted keeps to its rules.

use std::{collections::BTreeSet, time::Duration};

use http::Method;
use octopus_core::{Command, Format, Name, Offset, TopicName, TopicPartition};
use octopus_server::{
    parse::{Parsed, parse},
    route::{Operation, Route},
};
use serde::de::IgnoredAny;

const MAX_TOPICS: usize = 5;
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The input is `METHOD PATH`, a line's end, and the body; the path may have a query.
pub fn check(data: &[u8]) {
    let (line, body) = data.split_at(data.iter().position(|&b| b == b'\n').unwrap_or(data.len()));
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    let Ok(line) = std::str::from_utf8(line) else {
        return;
    };
    let (method, target) = line.split_once(' ').unwrap_or((line, ""));
    let Ok(method) = method.parse::<Method>() else {
        return;
    };
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let Ok(route) = Route::find(&method, path) else {
        return;
    };
    assert!(!route.group.is_empty() && route.instance.as_deref() != Some(""));
    let format = Some(Format::Json);
    let Ok(parsed) = parse(&route, query, body, format, MAX_TOPICS) else {
        return;
    };
    names(&route, &parsed);
    if route.operation.takes_body() {
        is_json(body);
    }
    command(route.operation, &parsed.command);
}

fn names(route: &Route, parsed: &Parsed) {
    assert_eq!(Name::parse(&route.group).as_ref(), Some(&parsed.group));
    match &route.instance {
        Some(instance) => assert_eq!(Name::parse(instance), parsed.instance),
        None => assert!(route.operation.is_create()),
    }
}

/// What was accepted is JSON, or nothing.
fn is_json(body: &[u8]) {
    let text = std::str::from_utf8(body).expect("UTF-8");
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_ascii().is_empty() {
        let mut reader = serde_json::Deserializer::from_str(text);
        reader.disable_recursion_limit();
        serde::Deserialize::deserialize(&mut reader)
            .map(|_: IgnoredAny| ())
            .expect("JSON");
        reader.end().expect("one value");
    }
}

fn command(operation: Operation, command: &Command) {
    let of = match command {
        Command::Create(settings) => {
            assert!(settings.min_bytes >= 0 && settings.request_timeout <= LONGEST_WAIT);
            Operation::Create
        }
        Command::Delete => Operation::Delete,
        Command::Subscribe(topics) => {
            assert!(!topics.is_empty());
            assert!(topics.iter().all(named));
            once(topics);
            Operation::Subscribe
        }
        Command::Subscription => Operation::Subscription,
        Command::Unsubscribe => Operation::Unsubscribe,
        Command::Assign(list) => {
            partitions(list);
            Operation::Assign
        }
        Command::Assignments => Operation::Assignments,
        Command::Commit(list) => {
            let list = list.as_deref().unwrap_or_default();
            assert!(
                list.iter()
                    .all(|item| (Offset(0)..=Offset::MAX).contains(&item.offset))
            );
            partitions(list.iter().map(|item| &item.partition));
            Operation::Commit
        }
        Command::Committed(list) => {
            partitions(list.iter().flatten());
            Operation::Committed
        }
        Command::Seek(list) => {
            assert!(
                list.iter()
                    .all(|(_, position)| (0..i64::MAX).contains(&position.offset))
            );
            partitions(list.iter().map(|(at, _)| at));
            Operation::Seek
        }
        Command::SeekToBeginning(list) => {
            partitions(list);
            Operation::SeekToBeginning
        }
        Command::SeekToEnd(list) => {
            partitions(list);
            Operation::SeekToEnd
        }
        Command::Fetch(fetch) => {
            assert_eq!(fetch.format, Some(Format::Json));
            assert!(
                fetch
                    .timeout
                    .is_none_or(|wait| !wait.is_zero() && wait <= LONGEST_WAIT)
            );
            Operation::Fetch
        }
    };
    assert_eq!(of, operation);
}

fn partitions<'a>(list: impl IntoIterator<Item = &'a TopicPartition>) {
    let list = list.into_iter().collect::<Vec<_>>();
    assert!(list.iter().all(|at| named(&at.topic)));
    once(list);
}

fn named(topic: &TopicName) -> bool {
    !topic.as_str().trim().is_empty()
}

/// Nothing is named twice, and not too much.
fn once<T: Ord>(list: impl IntoIterator<Item = T>) {
    let list = list.into_iter().collect::<Vec<_>>();
    assert!(list.len() <= MAX_TOPICS);
    let count = list.len();
    assert_eq!(list.into_iter().collect::<BTreeSet<_>>().len(), count);
}
