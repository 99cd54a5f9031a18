//! Whose commits are whose: of the present epoch, and of what the member still has.

use std::time::Instant;

use kafka_protocol::error::ResponseError;

use super::{Member, Progress, State};
use crate::group::member::Identity;

impl Member {
    /// Who commits at present.
    pub(crate) fn identity(&self) -> Identity {
        match (self.state, self.progress) {
            (State::Out | State::Leaving(_), _) => Identity::Alone,
            (State::Joining, _) | (State::In, Progress::Settling | Progress::Naming { .. }) => {
                Identity::Joining
            }
            (State::In, Progress::Done | Progress::Committing) => Identity::Member {
                member_id: self.id.clone(),
                generation: self.epoch,
            },
            (State::Expelled, _) => Identity::Lost,
        }
    }

    /// The tenure whose assignment its owner holds.
    pub(crate) const fn owned(&self) -> Option<i32> {
        self.held
    }

    /// Whether who owned that tenure's assignment may commit for these topics: if nothing was given up since, or these
    /// were not. All else may be another member's, who may have read on.
    pub(crate) fn may_commit<'a>(
        &self,
        owned: Option<i32>,
        mut topics: impl Iterator<Item = &'a str>,
    ) -> bool {
        let has_had = |topic| {
            let since = self.since.get(topic);
            since.is_some_and(|since| owned.is_none_or(|owned| *since <= owned))
        };
        owned == Some(self.tenure) || topics.all(has_had)
    }

    /// A commit, or a look-up of commits, of this epoch was refused.
    pub(crate) fn refused(&mut self, code: ResponseError, epoch: i32, now: Instant) {
        if epoch != self.epoch || self.state != State::In {
            return;
        }
        if code == ResponseError::StaleMemberEpoch {
            // The coordinator has raised it, and its answer is on the way or was lost.
            if self.flight.is_none() {
                self.doubt();
                self.beat(now);
            }
        } else if code == ResponseError::RebalanceInProgress {
            self.unsettled(now);
        } else {
            self.contradicted(code, now);
        }
    }
}
