//! Whose commits are whose: a generation's, and of what the member still has.

use std::time::Instant;

use kafka_protocol::error::ResponseError;

use super::{Identity, Member, State};

impl Member {
    /// Who commits at present.
    pub(crate) fn identity(&self) -> Identity {
        match self.state {
            State::Out | State::Leaving => Identity::Alone,
            State::Committing | State::Stable(_) => Identity::Member {
                member_id: self.id.clone(),
                generation: self.generation,
            },
            State::Joining | State::Leading | State::Syncing | State::Backoff(_) => Identity::Joining,
            State::Expelled => Identity::Lost,
        }
    }

    /// The generation whose assignment its owner holds, if it is sure that no other member had any of it since.
    pub(crate) fn owned(&self) -> Option<i32> {
        self.held.or(self.before)
    }

    /// Whether who owned that generation's assignment may commit for these topics in the present one: in the same one, or
    /// in the next one for what it was given again. All else may be another member's, who may have read on.
    pub(crate) fn may_commit<'a>(
        &self,
        owned: Option<i32>,
        mut topics: impl Iterator<Item = &'a str>,
    ) -> bool {
        owned == Some(self.generation)
            || (owned.is_none_or(|owned| owned.checked_add(1) == Some(self.generation))
                && topics.all(|topic| self.assigned.contains(topic)))
    }

    /// A commit of this generation was refused.
    pub(crate) fn refused(&mut self, code: ResponseError, generation: i32, now: Instant) {
        if generation == self.generation && matches!(self.state, State::Stable(_)) {
            self.contradicted(code, now);
        }
    }
}
