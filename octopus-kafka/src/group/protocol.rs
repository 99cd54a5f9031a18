//! A member of either group protocol, as its group's task and its commits see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use kafka_protocol::error::ResponseError;
use octopus_core::Error;

use super::{
    Stored, consumer_protocol,
    member::{self, Answer, Identity, Output, Timing},
};
use crate::GroupProtocol;

/// A member of a group.
#[derive(Debug)]
pub(super) enum Member {
    /// The members decide who reads what.
    Classic(Box<member::Member>),
    /// The coordinator does.
    Consumer(Box<consumer_protocol::Member>),
}

/// Does the same with a member of either kind.
macro_rules! either {
    ($member:expr, $inner:ident => $done:expr) => {
        match $member {
            Member::Classic($inner) => $done,
            Member::Consumer($inner) => $done,
        }
    };
}

impl Member {
    /// `seed` is asked for a random number, to take names from.
    pub(super) fn new(
        protocol: GroupProtocol,
        timing: Timing,
        now: Instant,
        seed: impl FnOnce() -> u128,
    ) -> Self {
        match protocol {
            GroupProtocol::Classic => Self::Classic(Box::new(member::Member::new(timing, now))),
            GroupProtocol::Consumer => {
                let member = consumer_protocol::Member::new(timing.heartbeat, seed());
                Self::Consumer(Box::new(member))
            }
        }
    }

    /// Joins the group, or joins it again, for these topics. A join for the same topics that is under way, or whose result
    /// was not taken, goes on; then nothing is committed.
    pub(super) fn want(&mut self, topics: BTreeSet<String>, commit: Vec<Stored>, now: Instant) {
        either!(self, member => member.want(topics, commit, now));
    }

    /// Leaves the group, or gives the join up.
    pub(super) fn leave(&mut self, now: Instant) {
        either!(self, member => member.leave(now));
    }

    /// The join's result: the topics whose partition is this member's. It is given once.
    pub(super) fn take(&mut self) -> Option<Result<Vec<String>, Error>> {
        either!(self, member => member.take())
    }

    /// Whether it is no member, and nothing is in flight.
    pub(super) fn is_out(&self) -> bool {
        either!(self, member => member.is_out())
    }

    /// Whether a broker was reached since the join began.
    pub(super) const fn was_reached(&self) -> bool {
        either!(self, member => member.was_reached())
    }

    /// As the leader of the classic protocol: the topics of all members, to see whether the cluster lists others of them.
    pub(super) fn watched(&self) -> Option<BTreeSet<String>> {
        match self {
            Self::Classic(member) => member.watched(),
            Self::Consumer(_) => None,
        }
    }

    /// What the cluster lists of the [`watched`](Self::watched) topics.
    pub(super) fn listed(&mut self, counts: &BTreeMap<String, i32>, now: Instant) {
        match self {
            Self::Classic(member) => member.listed(counts, now),
            Self::Consumer(_) => {}
        }
    }

    /// The answer to the request of this number.
    pub(super) fn answered(&mut self, number: u64, answer: Answer, now: Instant) {
        either!(self, member => member.answered(number, answer, now));
    }

    /// When [`timeout`](Self::timeout) has something to do.
    pub(super) fn wake(&self) -> Option<Instant> {
        either!(self, member => member.wake())
    }

    /// Does what is due.
    pub(super) fn timeout(&mut self, now: Instant) {
        either!(self, member => member.timeout(now));
    }

    /// Whether a signal is yet to be taken by [`poll`](Self::poll).
    pub(super) fn has_signals(&self) -> bool {
        either!(self, member => member.has_signals())
    }

    /// The next thing to do.
    pub(super) fn poll(&mut self) -> Option<Output> {
        either!(self, member => member.poll())
    }

    /// Who commits at present.
    pub(super) fn identity(&self) -> Identity {
        either!(self, member => member.identity())
    }

    /// What its owner holds, to be asked about by [`may_commit`](Self::may_commit) later on.
    pub(super) fn owned(&self) -> Option<i32> {
        either!(self, member => member.owned())
    }

    /// Whether who owned that may commit for these topics at present: none of them may have been another member's since.
    pub(super) fn may_commit<'a>(&self, owned: Option<i32>, topics: impl Iterator<Item = &'a str>) -> bool {
        either!(self, member => member.may_commit(owned, topics))
    }

    /// A commit of this generation, or epoch, was refused.
    pub(super) fn refused(&mut self, code: ResponseError, generation: i32, now: Instant) {
        either!(self, member => member.refused(code, generation, now));
    }
}
