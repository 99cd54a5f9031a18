//! What the member's owner holds, and what of it may have been another member's since: told by what goes over the wire.

use std::collections::BTreeSet;

use kafka_protocol::error::ResponseError;

use super::{
    super::{
        member::{Answer, Request, Trouble},
        protocol::Member,
        subscription,
    },
    coordinator::id,
};

/// What the owner took last.
#[derive(Debug, Default)]
pub(super) struct Holding {
    held: BTreeSet<String>,
    /// What the member said then that its owner has.
    claim: Option<i32>,
    /// Of `held`, what may have been another member's since.
    gone: BTreeSet<String>,
    /// The owner was told so.
    is_told: bool,
    /// The generation of the classic protocol whose assignment came last.
    synced: Option<i32>,
}

impl Holding {
    /// The owner takes what a join brought. What it had, and goes on with, was nobody else's meanwhile, or it was told.
    pub(super) fn take(&mut self, topics: BTreeSet<String>, claim: Option<i32>) {
        let goes_on = topics.intersection(&self.held);
        let others: Vec<_> = goes_on.filter(|topic| self.gone.contains(*topic)).collect();
        assert!(
            self.is_told || others.is_empty(),
            "{others:?} may have been another member's"
        );
        self.held = topics;
        self.claim = claim;
        self.gone.clear();
        self.is_told = false;
    }

    /// A request is sent. With a heartbeat that does not name it as owned, a partition is free for others.
    pub(super) fn sent(&mut self, request: &Request) {
        if let Request::Beat(beat) = request {
            if beat.epoch < 0 {
                self.lose();
            } else if let Some(owned) = &beat.owned {
                let is_owned = |topic: &str| owned.get(&id(topic)).is_some_and(|owned| owned.contains(&0));
                let free = self.held.iter().filter(|topic| !is_owned(topic)).cloned();
                self.gone.extend(free);
            }
        }
    }

    /// An answer came.
    pub(super) fn answered(&mut self, request: &Request, answer: &Answer) {
        match (request, answer) {
            (Request::Sync { generation, .. }, Answer::Sync(Ok(bytes))) => {
                if let Some(given) = subscription::assigned(bytes) {
                    let follows = self.synced.is_some_and(|synced| {
                        synced == *generation || synced.checked_add(1) == Some(*generation)
                    });
                    let stays = |topic: &String| {
                        follows && given.get(topic).is_some_and(|partitions| partitions.contains(&0))
                    };
                    let others = self.held.iter().filter(|topic| !stays(topic)).cloned();
                    self.gone.extend(others);
                    self.synced = Some(*generation);
                }
            }
            (
                Request::Beat(_),
                Answer::Beat(Err(Trouble::Code(
                    ResponseError::UnknownMemberId | ResponseError::FencedMemberEpoch,
                ))),
            ) => self.lose(),
            _ => {}
        }
    }

    /// All of it may be another member's.
    pub(super) fn lose(&mut self) {
        self.gone.clone_from(&self.held);
    }

    /// Its owner wants none of it any more.
    pub(super) fn let_go(&mut self) {
        self.held.clear();
        self.gone.clear();
        self.claim = None;
    }

    pub(super) const fn told_lost(&mut self) {
        self.is_told = true;
    }

    /// Nothing is committed for what may have been another member's.
    pub(super) fn look(&self, member: &Member) {
        if self.claim.is_none() {
            return;
        }
        for topic in &self.gone {
            let may = member.may_commit(self.claim, std::iter::once(topic.as_str()));
            assert!(!may, "{topic} may have been another member's: {member:?}");
        }
    }
}
