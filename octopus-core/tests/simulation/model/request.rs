//! What a request names.

use octopus_core::{Command, TopicName, TopicPartition};

/// What a list names counts once: an offset the last time [D-08].
pub(super) fn each_once(command: &Command) -> Command {
    fn once<T: Clone, K: PartialEq>(items: &[T], key: impl Fn(&T) -> &K) -> Vec<T> {
        let mut kept: Vec<T> = Vec::new();
        for item in items {
            match kept.iter_mut().find(|other| key(other) == key(item)) {
                Some(other) => *other = item.clone(),
                None => kept.push(item.clone()),
            }
        }
        kept
    }
    match command {
        Command::Subscribe(topics) => Command::Subscribe(once(topics, |topic| topic)),
        Command::Assign(list) => Command::Assign(once(list, |at| at)),
        Command::Commit(Some(list)) => Command::Commit(Some(once(list, |record| &record.partition))),
        Command::Committed(Some(list)) => Command::Committed(Some(once(list, |at| at))),
        Command::Seek(list) => Command::Seek(once(list, |(at, _)| at)),
        Command::SeekToBeginning(list) => Command::SeekToBeginning(once(list, |at| at)),
        Command::SeekToEnd(list) => Command::SeekToEnd(once(list, |at| at)),
        Command::Create(_)
        | Command::Delete
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Commit(None)
        | Command::Committed(None)
        | Command::Fetch(_) => command.clone(),
    }
}

/// The partitions that a request names.
pub(super) fn partitions(command: &Command) -> Vec<TopicPartition> {
    match command {
        Command::Assign(list)
        | Command::Committed(Some(list))
        | Command::SeekToBeginning(list)
        | Command::SeekToEnd(list) => list.clone(),
        Command::Commit(Some(list)) => list.iter().map(|record| record.partition.clone()).collect(),
        Command::Seek(list) => list.iter().map(|(at, _)| at.clone()).collect(),
        Command::Create(_)
        | Command::Delete
        | Command::Subscribe(_)
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Commit(None)
        | Command::Committed(None)
        | Command::Fetch(_) => Vec::new(),
    }
}

/// The topics that the namespace must hold: at subscribe, assign and GET offsets only [D-01].
pub(super) fn topics(command: &Command) -> Vec<TopicName> {
    match command {
        Command::Subscribe(topics) => topics.clone(),
        Command::Assign(list) | Command::Committed(Some(list)) => {
            list.iter().map(|at| at.topic.clone()).collect()
        }
        Command::Create(_)
        | Command::Delete
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Commit(_)
        | Command::Committed(None)
        | Command::Seek(_)
        | Command::SeekToBeginning(_)
        | Command::SeekToEnd(_)
        | Command::Fetch(_) => Vec::new(),
    }
}
