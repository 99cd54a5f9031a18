//! What an instance reads: nothing, topics that its group shares out, or partitions of its own choice.

use crate::{Error, TopicName, TopicPartition};

/// What an instance reads [SU-01] [AS-01].
#[derive(Debug, Default)]
pub(crate) enum Subscription {
    /// Nothing.
    #[default]
    None,
    /// What its group assigns of the topics that it subscribes to.
    Topics(Membership),
    /// What the client assigned.
    Assignment,
}

impl Subscription {
    /// Subscribes, in place of an earlier subscription [SU-01] [D-12].
    ///
    /// # Errors
    ///
    /// [`Error::HasAssignments`] [SU-03].
    pub(crate) fn subscribe(&mut self, topics: Vec<TopicName>) -> Result<(), Error> {
        match self {
            Self::None => *self = Self::Topics(Membership::new(topics)),
            Self::Topics(membership) => membership.replace(topics),
            Self::Assignment => return Err(Error::HasAssignments),
        }
        Ok(())
    }

    /// Whether partitions may be assigned.
    ///
    /// # Errors
    ///
    /// [`Error::HasSubscription`] [SU-03].
    pub(crate) const fn check_assign(&self) -> Result<(), Error> {
        match self {
            Self::None | Self::Assignment => Ok(()),
            Self::Topics(_) => Err(Error::HasSubscription),
        }
    }

    /// The topics subscribed to, in the order given [D-15].
    pub(crate) fn topics(&self) -> &[TopicName] {
        self.membership().map_or(&[], |membership| &membership.topics)
    }

    /// Its part in the group, where it subscribes.
    pub(crate) const fn membership(&self) -> Option<&Membership> {
        match self {
            Self::Topics(membership) => Some(membership),
            Self::None | Self::Assignment => None,
        }
    }

    /// As [`membership`](Self::membership), to change it.
    pub(crate) const fn membership_mut(&mut self) -> Option<&mut Membership> {
        match self {
            Self::Topics(membership) => Some(membership),
            Self::None | Self::Assignment => None,
        }
    }
}

/// A subscribed instance's part in its group, as far as the engine knows it.
#[derive(Debug)]
pub(crate) struct Membership {
    topics: Vec<TopicName>,
    wanted: bool,
    signalled: bool,
    sent: bool,
    lost: bool,
}

impl Membership {
    const fn new(topics: Vec<TopicName>) -> Self {
        Self {
            topics,
            wanted: true,
            signalled: false,
            sent: false,
            lost: false,
        }
    }

    fn replace(&mut self, topics: Vec<TopicName>) {
        let same = topics.len() == self.topics.len() && topics.iter().all(|topic| self.reads(topic));
        self.topics = topics;
        self.wanted |= !same;
    }

    /// The topics subscribed to.
    pub(crate) fn topics(&self) -> &[TopicName] {
        &self.topics
    }

    /// Whether the topic is one of them.
    pub(crate) fn reads(&self, topic: &TopicName) -> bool {
        self.topics.contains(topic)
    }

    /// Whether the next turn joins the group first.
    pub(crate) const fn wants_join(&self) -> bool {
        self.wanted
    }

    /// Whether the group may know this instance: a join was sent since the subscribe.
    pub(crate) const fn was_sent(&self) -> bool {
        self.sent
    }

    /// Whether the group put the instance out and it has not joined again.
    pub(crate) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// A join was sent. What the group signals from here on asks for another.
    pub(crate) const fn send(&mut self) {
        self.sent = true;
        self.signalled = false;
    }

    /// The group rebalances.
    pub(crate) const fn signal(&mut self) {
        self.wanted = true;
        self.signalled = true;
    }

    /// The group put the instance out.
    pub(crate) const fn lose(&mut self) {
        self.signal();
        self.lost = true;
    }

    /// The group assigned these. Returns those that may be read, and whether partitions that stay keep their
    /// positions: nobody else owned them in between, unless the instance was put out.
    pub(crate) fn join(&mut self, partitions: Vec<TopicPartition>) -> (Vec<TopicPartition>, bool) {
        let keep = !self.lost;
        self.wanted = self.signalled;
        self.lost = false;
        let mut partitions = partitions;
        partitions.retain(|at| at.partition == 0 && self.reads(&at.topic));
        partitions.sort_unstable();
        (partitions, keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(names: &[&str]) -> Vec<TopicName> {
        names.iter().map(|name| TopicName::from(*name)).collect()
    }

    fn only(name: &str) -> TopicPartition {
        TopicPartition::only(name.into())
    }

    fn subscribed(names: &[&str]) -> Subscription {
        let mut subscription = Subscription::None;
        subscription.subscribe(topics(names)).unwrap();
        subscription
    }

    /// [SU-03]
    #[test]
    fn an_instance_subscribes_or_is_assigned() {
        assert_eq!(
            Subscription::Assignment.subscribe(topics(&["a"])),
            Err(Error::HasAssignments)
        );
        assert_eq!(subscribed(&["a"]).check_assign(), Err(Error::HasSubscription));
        assert_eq!(Subscription::Assignment.check_assign(), Ok(()));
        assert_eq!(Subscription::None.check_assign(), Ok(()));
    }

    /// [D-15]
    #[test]
    fn topics_stay_in_the_order_subscribed() {
        let mut subscription = subscribed(&["b", "a"]);
        assert_eq!(subscription.topics(), topics(&["b", "a"]));
        subscription.subscribe(topics(&["c", "a"])).unwrap();
        assert_eq!(subscription.topics(), topics(&["c", "a"]));
    }

    #[test]
    fn a_changed_subscription_joins_again() {
        let mut subscription = subscribed(&["a", "b"]);
        let membership = subscription.membership_mut().unwrap();
        assert!(membership.wants_join());
        membership.send();
        membership.join(vec![only("a")]);
        assert!(!membership.wants_join());
        membership.replace(topics(&["b", "a"]));
        assert!(!membership.wants_join());
        membership.replace(topics(&["b"]));
        assert!(membership.wants_join());
    }

    #[test]
    fn a_signal_while_it_joins_asks_for_another_join() {
        let mut subscription = subscribed(&["a"]);
        let membership = subscription.membership_mut().unwrap();
        membership.send();
        membership.signal();
        membership.join(vec![]);
        assert!(membership.wants_join());
        membership.send();
        membership.join(vec![]);
        assert!(!membership.wants_join());
    }

    #[test]
    fn what_was_not_subscribed_to_is_not_taken() {
        let mut subscription = subscribed(&["b", "a"]);
        let membership = subscription.membership_mut().unwrap();
        let second = TopicPartition {
            topic: "a".into(),
            partition: 1,
        };
        let (taken, keep) = membership.join(vec![only("b"), only("c"), second, only("a")]);
        assert_eq!(taken, [only("a"), only("b")]);
        assert!(keep);
        membership.lose();
        assert!(membership.is_lost());
        assert!(
            !membership.join(vec![only("a")]).1,
            "another member may have read on"
        );
        assert!(!membership.is_lost());
    }
}
