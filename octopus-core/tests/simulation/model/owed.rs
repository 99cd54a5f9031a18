//! What is owed, and whether an action of the engine is it.

use std::time::Duration;

use octopus_core::{Action, Commit, Effect, Error, InstanceId, Reply, RequestId};

use super::{Call, Life, Model};

/// An action that must come.
#[derive(Debug)]
pub(super) enum Owed {
    Call {
        call: Call,
        life: Life,
        effect: Effect,
        within: Duration,
    },
    /// A turn is to end, without losing what it found.
    Hurry(Call),
    Cancel(Call),
    Reply(RequestId, Result<Reply, Error>),
    /// The records that this call packed.
    Records(RequestId, Call),
    Abort(RequestId),
}

impl Model {
    /// The engine did something: it was owed.
    pub(crate) fn sees(&mut self, action: &Action) {
        let place = self.owed.iter().position(|owed| self.is_met(owed, action));
        let Some(place) = place else {
            panic!("not owed: {action:?}\nowed: {:#?}", self.owed);
        };
        let owed = self.owed.remove(place);
        if let (
            Owed::Call { call, life, .. },
            Action::Call {
                call: id, instance, ..
            },
        ) = (owed, action)
        {
            self.lives_of.insert(*instance, life);
            assert_eq!(
                self.calls_of.insert(*id, call),
                None,
                "a call's number is its own"
            );
        }
    }

    /// The engine is done with an input: nothing is owed any more.
    pub(crate) fn rests(&self) {
        assert!(self.owed.is_empty(), "still owed: {:#?}", self.owed);
    }

    fn is_met(&self, owed: &Owed, action: &Action) -> bool {
        match (owed, action) {
            (
                Owed::Call {
                    life, effect, within, ..
                },
                Action::Call {
                    instance,
                    effect: did,
                    within: time,
                    ..
                },
            ) => within == time && self.is_life(*instance, *life, effect) && same_effect(effect, did),
            (Owed::Hurry(call), Action::Hurry(id)) => self.calls_of.get(id) == Some(call),
            (Owed::Cancel(call), Action::Cancel(id)) => self.calls_of.get(id) == Some(call),
            (
                Owed::Reply(request, reply),
                Action::Reply {
                    request: id,
                    reply: did,
                },
            ) => request == id && same_reply(reply, did),
            (
                Owed::Records(request, call),
                Action::Reply {
                    request: id,
                    reply: Ok(Reply::Records(did)),
                },
            ) => request == id && self.calls_of.get(did) == Some(call),
            (Owed::Abort(request), Action::Abort(id)) => request == id,
            _ => false,
        }
    }

    /// Whether the engine's number is this life's. A create's is new.
    fn is_life(&self, number: InstanceId, life: Life, effect: &Effect) -> bool {
        match self.lives_of.get(&number) {
            Some(known) => *known == life,
            None => matches!(effect, Effect::Open(_)),
        }
    }
}

/// A success is the same to the last item; of a refusal the specification fixes the row of the table.
fn same_reply(owed: &Result<Reply, Error>, did: &Result<Reply, Error>) -> bool {
    match (owed, did) {
        (Ok(owed), Ok(did)) => owed == did,
        (Err(owed), Err(did)) => owed.code() == did.code() && owed.retry_after() == did.retry_after(),
        _ => false,
    }
}

/// The order of a commit's and a question's items is free; that of a poll's partitions [FE-12] and a join's topics is
/// not.
fn same_effect(owed: &Effect, did: &Effect) -> bool {
    match (owed, did) {
        (Effect::Topics(owed), Effect::Topics(did)) => sorted(owed) == sorted(did),
        (Effect::Commit(owed), Effect::Commit(did)) => same_commits(owed, did),
        (Effect::Join(owed), Effect::Join(did)) => {
            owed.topics == did.topics && same_commits(&owed.commit, &did.commit)
        }
        (Effect::Committed(owed), Effect::Committed(did)) | (Effect::Start(owed), Effect::Start(did)) => {
            sorted(owed) == sorted(did)
        }
        (Effect::Bounds(owed, at), Effect::Bounds(did, end)) => at == end && sorted(owed) == sorted(did),
        _ => owed == did,
    }
}

fn sorted<T: Ord>(items: &[T]) -> Vec<&T> {
    let mut items: Vec<_> = items.iter().collect();
    items.sort_unstable();
    items
}

fn same_commits(owed: &[Commit], did: &[Commit]) -> bool {
    owed.len() == did.len() && owed.iter().all(|commit| did.contains(commit))
}
