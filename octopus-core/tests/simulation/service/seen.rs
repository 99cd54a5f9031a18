//! What the engine was seen to do: a run that never gets to some answer proves nothing about it.

use std::{collections::BTreeMap, fmt, time::Duration};

use octopus_core::{Action, Effect, Reply};

/// How often the engine did what.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen(BTreeMap<(&'static str, u32), u64>);

impl Seen {
    pub(super) fn count(&mut self, action: &Action) {
        *self.0.entry(kind(action)).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(*kind).or_default() += count;
        }
    }

    /// Every kind of call, answer and refusal that the engine has was among them.
    pub(crate) fn is_whole(&self) -> bool {
        const CODES: [u32; 16] = [
            40002, 40301, 40401, 40402, 40403, 40601, 40801, 40902, 40903, 40904, 42901, 500, 50002, 50003,
            503, 50302,
        ];
        const OTHERS: [&str; 23] = [
            "abort",
            "assignments",
            "beginning and end",
            "cancel",
            "close",
            "commit of positions",
            "commit of what was processed",
            "committed",
            "created",
            "empty",
            "fetch",
            "hurry",
            "join",
            "join behind a commit",
            "join without a fetch",
            "leave",
            "no content",
            "offsets",
            "open",
            "records",
            "start",
            "subscription",
            "topics",
        ];
        let codes = CODES.iter().map(|code| ("refused", *code));
        codes
            .chain(OTHERS.map(|kind| (kind, 0)))
            .all(|kind| self.0.contains_key(&kind))
    }
}

fn kind(action: &Action) -> (&'static str, u32) {
    let kind = match action {
        Action::Call { effect, within, .. } => match effect {
            Effect::Open(_) => "open",
            Effect::Close => "close",
            Effect::Topics(_) => "topics",
            Effect::Join(_) if *within > Duration::from_secs(1) => "join without a fetch",
            Effect::Join(join) if join.commit.is_empty() => "join",
            Effect::Join(_) => "join behind a commit",
            Effect::Leave => "leave",
            Effect::Fetch(_) => "fetch",
            Effect::Commit(commits) if commits.iter().any(|commit| !commit.metadata.is_empty()) => {
                "commit of what was processed"
            }
            Effect::Commit(_) => "commit of positions",
            Effect::Committed(_) => "committed",
            Effect::Start(_) => "start",
            Effect::Bounds(..) => "beginning and end",
        },
        Action::Hurry(_) => "hurry",
        Action::Cancel(_) => "cancel",
        Action::Reply { reply, .. } => match reply {
            Ok(Reply::Created) => "created",
            Ok(Reply::NoContent) => "no content",
            Ok(Reply::Topics(_)) => "subscription",
            Ok(Reply::Partitions(_)) => "assignments",
            Ok(Reply::Offsets(_)) => "offsets",
            Ok(Reply::Empty) => "empty",
            Ok(Reply::Records(_)) => "records",
            Err(error) => return ("refused", error.code().error_code()),
        },
        Action::Abort(_) => "abort",
    };
    (kind, 0)
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, code), count) in &self.0 {
            match code {
                0 => write!(f, "{kind} {count}, ")?,
                code => write!(f, "{code} {count}, ")?,
            }
        }
        Ok(())
    }
}
