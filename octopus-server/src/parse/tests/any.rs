//! Bodies that nobody would write.

use proptest::prelude::*;

use super::*;

proptest! {
    /// [CT-03] No bytes are too strange, and what is accepted is JSON.
    #[test]
    fn no_body_is_too_strange(body in any::<Vec<u8>>(), operation in operation()) {
        holds(operation, &body)?;
    }

    /// [CT-04] [CT-06] A body that was good before some of its bytes changed is refused, or good again.
    #[test]
    fn a_changed_body_is_refused_or_good(
        body in prop::sample::select(BODIES.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 0..4),
        operation in operation(),
    ) {
        let mut body = body.as_bytes().to_vec();
        for (place, change) in changes {
            let place = place.index(body.len());
            match change {
                Some(byte) => body[place] = byte,
                None => { body.remove(place); }
            }
            if body.is_empty() {
                break;
            }
        }
        holds(operation, &body)?;
    }
}

const BODIES: [&str; 6] = [
    r#"{"topics": ["a", "b", "a"]}"#,
    r#"{"partitions": [{"topic": "a", "partition": 0}, {"topic": "b", "partition": "0"}]}"#,
    r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 9223372036854775806, "metadata": "m"}]}"#,
    r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 1e3}, {"topic": "a", "partition": 0, "offset": "2"}]}"#,
    r#"{"name": "n", "format": "json", "auto.offset.reset": "none", "auto.commit.enable": "true"}"#,
    r#"{"id": "n", "fetch.min.bytes": "100", "consumer.request.timeout.ms": 30000.0}"#,
];

/// A byte to put in, or none to take one out.
fn change() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![
        Just(None),
        prop::sample::select(&b"{}[]\",:\\ -+.eE0159nulltruefalse\xff\0"[..]).prop_map(Some),
        any::<u8>().prop_map(Some),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop::sample::select(vec![
        Operation::Create,
        Operation::Subscribe,
        Operation::Assign,
        Operation::Commit,
        Operation::Committed,
        Operation::Seek,
        Operation::SeekToBeginning,
        Operation::SeekToEnd,
    ])
}

/// What is accepted keeps to the rules.
fn holds(operation: Operation, body: &[u8]) -> Result<(), TestCaseError> {
    let Ok(parsed) = parse(&route(operation), None, body, None, MAX_TOPICS) else {
        return Ok(());
    };
    let text = str::from_utf8(body).unwrap().trim_start_matches('\u{feff}');
    prop_assert!(text.trim_ascii().is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
    match parsed.command {
        Command::Create(settings) => {
            prop_assert!(settings.min_bytes >= 0);
            prop_assert!(settings.request_timeout <= Duration::from_secs(30));
        }
        Command::Subscribe(topics) => {
            prop_assert!((1..=MAX_TOPICS).contains(&topics.len()));
            once(topics.iter().map(|topic| topic.as_str().to_owned()))?;
        }
        Command::Assign(list) | Command::SeekToBeginning(list) | Command::SeekToEnd(list) => {
            once(list.iter().map(|at| format!("{at:?}")))?;
        }
        Command::Committed(list) => once(list.iter().flatten().map(|at| format!("{at:?}")))?,
        Command::Commit(list) => {
            for processed in list.iter().flatten() {
                prop_assert!((Offset(0)..=Offset::MAX).contains(&processed.offset));
            }
            once(
                list.iter()
                    .flatten()
                    .map(|processed| format!("{:?}", processed.partition)),
            )?;
        }
        Command::Seek(list) => {
            prop_assert!(
                list.iter()
                    .all(|(_, position)| (0..=Offset::MAX.0).contains(&position.offset))
            );
            once(list.iter().map(|(at, _)| format!("{at:?}")))?;
        }
        other @ (Command::Delete
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Fetch(_)) => prop_assert!(false, "{:?}", other),
    }
    Ok(())
}

fn once(names: impl Iterator<Item = String>) -> Result<(), TestCaseError> {
    let mut names = names.collect::<Vec<_>>();
    prop_assert!(names.len() <= MAX_TOPICS);
    names.sort();
    prop_assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    Ok(())
}
