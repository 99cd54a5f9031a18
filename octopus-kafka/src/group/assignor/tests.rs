use proptest::prelude::*;

use super::*;

fn member(member_id: &str, group_instance_id: Option<&str>, topics: &str) -> Subscriber {
    Subscriber {
        member_id: member_id.to_owned(),
        group_instance_id: group_instance_id.map(str::to_owned),
        topics: topics.split_whitespace().map(str::to_owned).collect(),
    }
}

fn counts(text: &str) -> BTreeMap<String, i32> {
    text.split_whitespace()
        .map(|item| (item[..1].to_owned(), item[1..].parse().unwrap()))
        .collect()
}

/// Such as `a0 a2 b1`: topic and partition.
fn shown(partitions: &Partitions) -> String {
    let all = partitions.iter().flat_map(|(topic, partitions)| {
        partitions
            .iter()
            .map(move |partition| format!("{topic}{partition}"))
    });
    all.collect::<Vec<_>>().join(" ")
}

/// [D-24] What kafka-python 2.0.6 gives, and 3.0.12 where there are static members.
#[test]
fn the_assignments_are_those_of_kafka_python() {
    type Case<'a> = (
        &'a str,
        &'a [(&'a str, Option<&'a str>, &'a str)],
        &'a [&'a str],
        &'a [&'a str],
    );
    let cases: &[Case<'_>] = &[
        (
            "a3 b3",
            &[("c0", None, "a b"), ("c1", None, "a b")],
            &["a0 a2 b1", "a1 b0 b2"],
            &["a0 a1 b0 b1", "a2 b2"],
        ),
        (
            "a1 b2 c3",
            &[("c0", None, "a"), ("c1", None, "a b"), ("c2", None, "a b c")],
            &["a0", "b0", "b1 c0 c1 c2"],
            &["a0", "b0", "b1 c0 c1 c2"],
        ),
        (
            "a1 b1 c1",
            &[("z", None, "a b c"), ("y", None, "a b c")],
            &["b0", "a0 c0"],
            &["", "a0 b0 c0"],
        ),
        (
            "a1",
            &[("m1", None, "a x"), ("m2", None, "x")],
            &["a0", ""],
            &["a0", ""],
        ),
        (
            "a5 b2",
            &[("m3", None, "a"), ("m1", None, "a b"), ("m2", None, "b")],
            &["a1 a3", "a0 a2 a4 b1", "b0"],
            &["a3 a4", "a0 a1 a2 b0", "b1"],
        ),
        (
            "a1 b1",
            &[("m1", None, ""), ("m2", None, "b a")],
            &["", "a0 b0"],
            &["", "a0 b0"],
        ),
        (
            "a1 b1 c1 d1",
            &[
                ("m1", Some("s2"), "a b c d"),
                ("m2", Some("s1"), "a b c d"),
                ("m0", None, "a b c d"),
            ],
            &["b0", "a0 d0", "c0"],
            &["", "a0 b0 c0 d0", ""],
        ),
        (
            "a7",
            &[("m1", Some("x"), "a"), ("m0", None, "a"), ("m2", None, "a")],
            &["a0 a3 a6", "a1 a4", "a2 a5"],
            &["a0 a1 a2", "a3 a4", "a5 a6"],
        ),
    ];
    for (listed, members, roundrobin, range) in cases {
        let members: Vec<_> = members
            .iter()
            .map(|&(id, group_instance_id, topics)| member(id, group_instance_id, topics))
            .collect();
        for (assignor, expected) in [(Assignor::RoundRobin, roundrobin), (Assignor::Range, range)] {
            let given = assignor.assign(&members, &counts(listed));
            let given: Vec<_> = given.iter().map(shown).collect();
            assert_eq!(given, **expected, "{assignor:?} of {listed}");
        }
    }
}

/// [D-24]
#[test]
fn roundrobin_is_offered_before_range() {
    assert_eq!(Assignor::OFFERED.map(Assignor::name), ["roundrobin", "range"]);
    assert_eq!(Assignor::named("range"), Some(Assignor::Range));
    assert_eq!(Assignor::named("sticky"), None);
}

fn groups() -> impl Strategy<Value = (Vec<Subscriber>, BTreeMap<String, i32>)> {
    let topics = || proptest::collection::btree_set("[a-f]", 0..6);
    let members =
        proptest::collection::btree_map("[m-p][0-9]", (proptest::option::of("[s-u]"), topics()), 1..6);
    let counts = proptest::collection::btree_map("[a-f]", 0i32..5, 0..6);
    (members, counts).prop_map(|(members, counts)| {
        let mut taken = BTreeSet::new();
        let members = members
            .into_iter()
            .rev()
            .map(|(member_id, (instance, topics))| Subscriber {
                member_id,
                group_instance_id: instance.filter(|instance| taken.insert(instance.clone())),
                topics,
            });
        (members.collect(), counts)
    })
}

/// Written from the words of Kafka's documentation, slow and plain.
fn slow_roundrobin(
    members: &[Subscriber],
    counts: &BTreeMap<String, i32>,
) -> BTreeMap<(String, i32), String> {
    let mut line: Vec<&Subscriber> = members.iter().filter(|m| m.group_instance_id.is_some()).collect();
    line.sort_by_key(|m| m.group_instance_id.clone());
    let mut others: Vec<&Subscriber> = members.iter().filter(|m| m.group_instance_id.is_none()).collect();
    others.sort_by_key(|m| m.member_id.clone());
    line.extend(others);
    let mut owners = BTreeMap::new();
    for (topic, &count) in counts {
        for partition in 0..count {
            let Some(at) = line.iter().position(|m| m.topics.contains(topic)) else {
                continue;
            };
            owners.insert((topic.clone(), partition), line[at].member_id.clone());
            line.rotate_left(at + 1);
        }
    }
    owners
}

fn owners(members: &[Subscriber], given: &[Partitions]) -> BTreeMap<(String, i32), String> {
    let mut owners = BTreeMap::new();
    for (member, partitions) in members.iter().zip(given) {
        for (topic, partitions) in partitions {
            for &partition in partitions {
                let before = owners.insert((topic.clone(), partition), member.member_id.clone());
                assert_eq!(before, None, "given twice");
            }
        }
    }
    owners
}

proptest! {
    /// [D-24]
    #[test]
    fn roundrobin_is_that_of_a_slow_reference((members, counts) in groups()) {
        let given = Assignor::RoundRobin.assign(&members, &counts);
        prop_assert_eq!(owners(&members, &given), slow_roundrobin(&members, &counts));
    }

    #[test]
    fn every_wanted_partition_goes_to_one_member_that_wants_it((members, counts) in groups()) {
        for assignor in Assignor::OFFERED {
            let given = assignor.assign(&members, &counts);
            let owners = owners(&members, &given);
            for ((topic, _), owner) in &owners {
                let owner = members.iter().find(|member| member.member_id == *owner).unwrap();
                prop_assert!(owner.topics.contains(topic));
            }
            let wanted: i32 = counts
                .iter()
                .filter(|(topic, _)| members.iter().any(|member| member.topics.contains(*topic)))
                .map(|(_, count)| count)
                .sum();
            prop_assert_eq!(owners.len(), usize::try_from(wanted).unwrap());
        }
    }

    #[test]
    fn equal_members_get_equal_shares(members in 1usize..6, counts in proptest::collection::btree_map("[a-f]", 0i32..5, 0..6)) {
        let members: Vec<_> = (0..members).map(|n| member(&n.to_string(), None, "a b c d e f")).collect();
        let given = Assignor::RoundRobin.assign(&members, &counts);
        let sizes: Vec<usize> = given.iter().map(|given| given.values().map(Vec::len).sum()).collect();
        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        for (topic, count) in &counts {
            let given = Assignor::Range.assign(&members, &counts);
            let sizes: Vec<usize> = given.iter().map(|given| given.get(topic).map_or(0, Vec::len)).collect();
            prop_assert!(sizes.is_sorted_by(|a, b| a >= b));
            prop_assert!(sizes[0] - sizes.last().unwrap() <= 1, "{count}");
        }
    }
}
