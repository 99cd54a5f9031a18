//! The assignors of the coordinator: which member is to have which partition.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::Partitions;

/// A way to assign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignor {
    /// All partitions evenly, each where it was if that is even too.
    Uniform,
    /// Each topic's partitions in a row, in the order of the members.
    Range,
}

/// The topics that each member reads.
pub(super) type Readers = BTreeMap<String, BTreeSet<Uuid>>;

impl Assignor {
    pub(crate) fn find(name: &str) -> Option<Self> {
        [Self::Uniform, Self::Range]
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// Assigns the partitions of topics, by how many each has.
    pub(super) fn assign(
        self,
        readers: &Readers,
        topics: &BTreeMap<Uuid, i32>,
        before: &BTreeMap<String, Partitions>,
    ) -> BTreeMap<String, Partitions> {
        match self {
            Self::Uniform => uniform(readers, topics, before),
            Self::Range => range(readers, topics),
        }
    }
}

fn range(readers: &Readers, topics: &BTreeMap<Uuid, i32>) -> BTreeMap<String, Partitions> {
    let mut assigned: BTreeMap<String, Partitions> = empty(readers);
    for (topic, count) in topics {
        let members: Vec<&String> = readers
            .iter()
            .filter(|(_, topics)| topics.contains(topic))
            .map(|(member, _)| member)
            .collect();
        let Ok(many) = i32::try_from(members.len()) else {
            continue;
        };
        let (mut next, mut left) = (0, many);
        for member in members {
            // The first ones have one more where it does not come out even.
            let share = (count - next + left - 1) / left;
            if share > 0 {
                let partitions = assigned.entry(member.clone()).or_default();
                partitions.insert(*topic, (next..next + share).collect());
            }
            next += share;
            left -= 1;
        }
    }
    assigned
}

fn uniform(
    readers: &Readers,
    topics: &BTreeMap<Uuid, i32>,
    before: &BTreeMap<String, Partitions>,
) -> BTreeMap<String, Partitions> {
    let mut owners: BTreeMap<(Uuid, i32), &String> = BTreeMap::new();
    let mut loads: BTreeMap<&String, usize> = readers.keys().map(|member| (member, 0)).collect();
    for (member, partitions) in before {
        let Some((member, read)) = readers.get_key_value(member) else {
            continue;
        };
        for (topic, partitions) in partitions.iter().filter(|(topic, _)| read.contains(topic)) {
            let count = topics.get(topic).copied().unwrap_or(0);
            for partition in partitions.iter().filter(|partition| **partition < count) {
                if owners.insert((*topic, *partition), member).is_none() {
                    *loads.entry(member).or_default() += 1;
                }
            }
        }
    }
    let least = |topic: &Uuid, loads: &BTreeMap<&String, usize>| {
        let fit = readers.iter().filter(|(_, topics)| topics.contains(topic));
        let loaded = fit.map(|(member, _)| (loads.get(member).copied().unwrap_or(0), member));
        loaded.min().map(|(load, member)| (member, load))
    };
    for (topic, count) in topics {
        for partition in 0..*count {
            if !owners.contains_key(&(*topic, partition))
                && let Some((member, _)) = least(topic, &loads)
            {
                owners.insert((*topic, partition), member);
                *loads.entry(member).or_default() += 1;
            }
        }
    }
    // Each move brings the two loads nearer to each other, so it ends.
    let mut moved = true;
    while moved {
        moved = false;
        for ((topic, _), owner) in &mut owners {
            let load = loads.get(*owner).copied().unwrap_or(0);
            if let Some((member, least)) = least(topic, &loads)
                && least + 1 < load
            {
                *loads.entry(*owner).or_default() -= 1;
                *loads.entry(member).or_default() += 1;
                *owner = member;
                moved = true;
            }
        }
    }
    let mut assigned = empty(readers);
    for ((topic, partition), member) in owners {
        let partitions: &mut Partitions = assigned.entry(member.clone()).or_default();
        partitions.entry(topic).or_default().insert(partition);
    }
    assigned
}

fn empty(readers: &Readers) -> BTreeMap<String, Partitions> {
    let members = readers.keys();
    members
        .map(|member| (member.clone(), Partitions::new()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topic(n: usize) -> Uuid {
        Uuid::from_u128(n as u128 + 1)
    }

    fn readers(reads: &[&[usize]]) -> Readers {
        let topics = |topics: &&[usize]| topics.iter().map(|n| topic(*n)).collect();
        (0..)
            .map(|n| format!("m{n}"))
            .zip(reads.iter().map(topics))
            .collect()
    }

    fn shares(assigned: &BTreeMap<String, Partitions>) -> Vec<Vec<(u128, Vec<i32>)>> {
        let share = |partitions: &Partitions| {
            let each = partitions.iter();
            each.map(|(topic, partitions)| (topic.as_u128(), partitions.iter().copied().collect()))
                .collect()
        };
        assigned.values().map(share).collect()
    }

    #[test]
    fn range_gives_rows_and_the_first_members_one_more() {
        let topics = [(topic(0), 5), (topic(1), 1)].into();
        let assigned = Assignor::Range.assign(&readers(&[&[0, 1], &[0], &[0, 1]]), &topics, &BTreeMap::new());
        assert_eq!(
            shares(&assigned),
            [
                vec![(1, vec![0, 1]), (2, vec![0])],
                vec![(1, vec![2, 3])],
                vec![(1, vec![4])]
            ]
        );
    }

    #[test]
    fn uniform_moves_no_more_than_it_must() {
        let topics = [(topic(0), 6)].into();
        let two = Assignor::Uniform.assign(&readers(&[&[0], &[0]]), &topics, &BTreeMap::new());
        let three = Assignor::Uniform.assign(&readers(&[&[0], &[0], &[0]]), &topics, &two);
        for member in ["m0", "m1"] {
            let (before, after) = (&two[member][&topic(0)], &three[member][&topic(0)]);
            assert_eq!((before.len(), after.len()), (3, 2));
            assert!(after.is_subset(before));
        }
        let back = Assignor::Uniform.assign(&readers(&[&[0], &[0]]), &topics, &three);
        assert!(three["m0"][&topic(0)].is_subset(&back["m0"][&topic(0)]));
    }

    proptest! {
        #[test]
        fn every_partition_that_is_read_has_one_reader_and_no_move_would_make_it_more_even(
            reads in prop::collection::vec(prop::collection::btree_set(0usize..4, 0..4), 0..6),
            again in prop::collection::vec(prop::collection::btree_set(0usize..4, 0..4), 0..6),
            counts in prop::collection::vec(0i32..8, 4),
            uniform in any::<bool>(),
        ) {
            let assignor = if uniform { Assignor::Uniform } else { Assignor::Range };
            let topics: BTreeMap<Uuid, i32> = counts.iter().enumerate().map(|(n, c)| (topic(n), *c)).collect();
            let mut before = BTreeMap::new();
            for reads in [reads, again] {
                let reads: Vec<Vec<usize>> = reads.into_iter().map(|r| r.into_iter().collect()).collect();
                let readers = readers(&reads.iter().map(Vec::as_slice).collect::<Vec<_>>());
                let assigned = assignor.assign(&readers, &topics, &before);
                for (id, count) in &topics {
                    let is_read = readers.values().any(|topics| topics.contains(id));
                    for partition in 0..*count {
                        let owners = assigned.iter().filter(|(_, p)| p.get(id).is_some_and(|p| p.contains(&partition)));
                        let owners: Vec<&String> = owners.map(|(member, _)| member).collect();
                        prop_assert_eq!(owners.len(), usize::from(is_read));
                        prop_assert!(owners.iter().all(|owner| readers[*owner].contains(id)));
                    }
                }
                let load = |member: &String| assigned[member].values().map(BTreeSet::len).sum::<usize>();
                if uniform {
                    for (owner, partitions) in &assigned {
                        for id in partitions.iter().filter(|(_, p)| !p.is_empty()).map(|(id, _)| id) {
                            for other in readers.iter().filter(|(_, t)| t.contains(id)).map(|(m, _)| m) {
                                prop_assert!(load(other) + 1 >= load(owner), "{:?}", assigned);
                            }
                        }
                    }
                }
                before = assigned;
            }
        }
    }
}
