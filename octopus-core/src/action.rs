//! What goes out: what the driver does next.

use std::{num::NonZeroU64, time::Duration};

use crate::{
    AutoOffsetReset, Error, Fetched, Format, InstanceKey, Name, Namespace, Position, Settings, Subject,
    TopicName, TopicPartition,
};

/// A request, numbered by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A call, numbered by the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One life of an instance, numbered by the engine. An instance that is created again under the same name
/// has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub u64);

/// Something that the driver does.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Action {
    /// Start work and report its end with [`Event::Done`](crate::Event::Done).
    Call {
        /// The call's number.
        call: CallId,
        /// The instance that it is for.
        instance: InstanceId,
        /// The work.
        effect: Effect,
        /// The time that it may take: after that it has failed, or for a fetch and a join, found nothing.
        within: Duration,
    },
    /// Let a turn's call end at once, with what it has found so far: others wait for its turn [LI-04]. Unlike a
    /// cancelled one it loses nothing, and its end is reported. What it has asked of Kafka may go on for the next turn.
    Hurry(CallId),
    /// Stop a call and forget what it packed. Its end need not be reported.
    Cancel(CallId),
    /// Answer a request. The reply's fate comes back as [`Event::Delivered`](crate::Event::Delivered) or
    /// [`Event::Dropped`](crate::Event::Dropped).
    Reply {
        /// The request.
        request: RequestId,
        /// Its answer.
        reply: Result<Reply, Error>,
    },
    /// The reply took too long to send: close its connection at once [RP-03]. Its fate need not be reported.
    Abort(RequestId),
}

/// Work that only the world outside can do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Make the instance's consumer once the cluster was reached. → `Done`
    Open(Open),
    /// Leave the group, if it is a member, and let go of the consumer. → `Done`
    Close,
    /// Which of these topics the instance's namespace holds. → `Topics`
    Topics(Vec<TopicName>),
    /// Join the group, or join it again. It goes on when its time ends. → `Joined` or `Joining`
    Join(Join),
    /// Leave the group, if it is a member; the consumer stays. → `Done`
    Leave,
    /// One turn of a fetch. → `Fetched`
    Fetch(FetchPlan),
    /// Commit positions for the group. → `Done`
    Commit(Vec<Commit>),
    /// What the group has committed. → `Committed`
    Committed(Vec<TopicPartition>),
    /// Where reading starts in partitions without a position: at the group's commit, or where
    /// `auto.offset.reset` says. → `Positions`
    Start(Vec<TopicPartition>),
    /// The first or the last position of partitions. → `Positions`
    Bounds(Vec<TopicPartition>, Bound),
}

/// What a consumer is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// The namespace of its topics and its group.
    pub namespace: Namespace,
    /// The instance's owner, group and name.
    pub key: InstanceKey,
    /// How it reads.
    pub settings: Settings,
}

impl Open {
    /// A consumer of a group outside every namespace, for a program that has a cluster of its own.
    #[must_use]
    pub fn outside(group: Name, settings: Settings) -> Self {
        let key = InstanceKey {
            subject: Subject::from_uuid(0),
            name: group.clone(),
            group,
        };
        Self {
            namespace: Namespace::none(),
            key,
            settings,
        }
    }
}

/// A join of the group.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// The topics subscribed to.
    pub topics: Vec<TopicName>,
    /// What is committed before, as auto-commit does; a failure is logged and the join goes on [AK-02] [AK-05].
    /// Nothing is committed again for a join that is already under way.
    pub commit: Vec<Commit>,
}

/// One turn of a fetch.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchPlan {
    /// The partitions in the order in which the reply takes them, each with its position, or `None` where
    /// reading has not started yet.
    pub positions: Vec<(TopicPartition, Option<Position>)>,
    /// The bytes that a broker waits for before it answers [CR-07].
    pub min_bytes: i32,
    /// The bytes of keys and values that the reply stays below [FE-10].
    pub max_bytes: Option<NonZeroU64>,
    /// How keys and values are written.
    pub format: Format,
}

impl FetchPlan {
    /// A plan for these partitions, whose reading has not started: it waits for a byte, and has no limit but those of
    /// every reply.
    pub fn of(partitions: impl IntoIterator<Item = TopicPartition>) -> Self {
        Self {
            positions: partitions
                .into_iter()
                .map(|partition| (partition, None))
                .collect(),
            min_bytes: 1,
            max_bytes: None,
            format: Format::Binary,
        }
    }

    /// Has a partition of the plan go on from here.
    pub fn advance(&mut self, partition: &TopicPartition, position: Position) {
        if let Some((_, at)) = self
            .positions
            .iter_mut()
            .find(|(planned, _)| planned == partition)
        {
            *at = Some(position);
        }
    }

    /// The plan of the next turn, once the reply to what was fetched with this one is delivered and nothing else has
    /// happened.
    #[must_use]
    pub fn after(&self, fetched: &Fetched) -> Self {
        let mut next = self.clone();
        let Fetched {
            started,
            skipped,
            next: read,
            cut,
            ..
        } = fetched;
        for (at, position) in started.iter().chain(skipped).chain(read) {
            next.advance(at, *position);
        }
        let cut = |(planned, _): &(_, _)| cut.as_ref() == Some(planned);
        if let Some(place) = next.positions.iter().position(cut) {
            next.positions[place..].rotate_left(1);
        }
        next
    }
}

/// An end of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The first record.
    Beginning,
    /// Behind the last record.
    End,
}

impl From<Bound> for AutoOffsetReset {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Beginning => Self::Earliest,
            Bound::End => Self::Latest,
        }
    }
}

/// A position that a group commits or has committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The partition.
    pub partition: TopicPartition,
    /// The next record to read.
    pub position: Position,
    /// What is stored beside it; empty for none.
    pub metadata: Box<str>,
}

/// A successful answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// 200 with the instance's id and URL, which the server knows.
    Created,
    /// 204.
    NoContent,
    /// 200 with the topics subscribed to.
    Topics(Vec<TopicName>),
    /// 200 with the partitions assigned.
    Partitions(Vec<TopicPartition>),
    /// 200 with what the group has committed.
    Offsets(Vec<Commit>),
    /// 200 with an empty list.
    Empty,
    /// 200 with the body that this call packed.
    Records(CallId),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [FE-11] [FE-12]
    #[test]
    fn the_next_plan_goes_on_behind_what_was_read_and_the_first_one_of_a_cut_reply_comes_last() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|topic| TopicPartition::only(topic.into()));
        let at = |offset| Some(Position::at(offset));
        let plan = FetchPlan {
            positions: vec![
                (a.clone(), at(1)),
                (b.clone(), at(2)),
                (c.clone(), None),
                (d.clone(), at(4)),
            ],
            ..FetchPlan::of([])
        };
        let mut fetched = Fetched {
            started: vec![(c.clone(), Position::at(30))],
            skipped: vec![(d.clone(), Position::at(40))],
            next: vec![(b.clone(), Position::at(20))],
            ..Fetched::default()
        };
        let read = [(a, at(1)), (b.clone(), at(20)), (c, at(30)), (d, at(40))];
        assert_eq!(plan.after(&fetched).positions, read);
        fetched.cut = Some(b);
        let [a, b, c, d] = read;
        assert_eq!(plan.after(&fetched).positions, [a, c, d, b]);
    }
}
