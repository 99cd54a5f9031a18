//! Who reads what: the assignors `roundrobin` and `range`, exactly as Kafka's other clients run them, since the
//! leader of a group decides for members of every make [D-24].

use std::collections::{BTreeMap, BTreeSet};

/// The way in which a leader spreads partitions over members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignor {
    /// Partitions are dealt out like cards.
    RoundRobin,
    /// Each topic's partitions are cut into one run a member.
    Range,
}

/// A member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriber {
    /// Its member id.
    pub(crate) member_id: String,
    /// Its static name, if it has one.
    pub(crate) group_instance_id: Option<String>,
    /// The topics that it wants, by their names on Kafka.
    pub(crate) topics: BTreeSet<String>,
}

/// The partitions of each topic.
pub(crate) type Partitions = BTreeMap<String, Vec<i32>>;

impl Assignor {
    /// What is offered to a group, the one preferred first: with one partition a topic, `range` would give every
    /// topic to one member [D-24].
    pub(crate) const OFFERED: [Self; 2] = [Self::RoundRobin, Self::Range];

    /// The name that clients know it by.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "roundrobin",
            Self::Range => "range",
        }
    }

    /// The assignor of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::OFFERED.into_iter().find(|assignor| assignor.name() == name)
    }

    /// What each member reads: one item for each of `members`, in their order. `counts` holds the partitions of each
    /// topic that the cluster lists; nothing of another topic is given to anyone.
    pub(crate) fn assign(self, members: &[Subscriber], counts: &BTreeMap<String, i32>) -> Vec<Partitions> {
        let mut given = vec![Partitions::new(); members.len()];
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&at| rank(&members[at]));
        let topics: BTreeSet<&String> = members.iter().flat_map(|member| &member.topics).collect();
        let listed = topics
            .into_iter()
            .filter_map(|topic| counts.get(topic).map(|&count| (topic, count)));
        match self {
            Self::RoundRobin => {
                let mut next = 0;
                for (topic, count) in listed {
                    for partition in 0..count {
                        while !members[order[next]].topics.contains(topic) {
                            next = (next + 1) % order.len();
                        }
                        let to = &mut given[order[next]];
                        to.entry(topic.clone()).or_default().push(partition);
                        next = (next + 1) % order.len();
                    }
                }
            }
            Self::Range => {
                for (topic, count) in listed {
                    let wanting: Vec<usize> = order
                        .iter()
                        .copied()
                        .filter(|&at| members[at].topics.contains(topic))
                        .collect();
                    let share = i32::try_from(wanting.len()).unwrap_or(i32::MAX);
                    let (each, extra) = (count / share, count % share);
                    let mut from = 0;
                    for (at, nth) in wanting.into_iter().zip(0..) {
                        let to = from + each + i32::from(nth < extra);
                        if from < to {
                            given[at].insert(topic.clone(), (from..to).collect());
                        }
                        from = to;
                    }
                }
            }
        }
        given
    }
}

/// Static members come first, by their static names; then the others by their member ids.
fn rank(member: &Subscriber) -> (bool, &str, &str) {
    let id = member.group_instance_id.as_deref();
    (id.is_none(), id.unwrap_or_default(), &member.member_id)
}

#[cfg(test)]
mod tests;
