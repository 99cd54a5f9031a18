//! A consumer group by itself, and with members that do as they are told.

use proptest::prelude::*;

use super::*;

const SESSION: Duration = Duration::from_secs(45);
const REBALANCE: Duration = Duration::from_secs(60);

/// A group, its topics and a clock that is moved by hand.
struct World {
    group: Consumers,
    topics: BTreeMap<String, (Uuid, i32)>,
    now: Instant,
}

impl World {
    /// Topics by their numbers of partitions: `t0`, `t1` and so on.
    fn new(counts: &[i32]) -> Self {
        let topic = |(n, count): (usize, &i32)| (format!("t{n}"), (Uuid::from_u128(n as u128 + 1), *count));
        Self {
            group: Consumers::default(),
            topics: counts.iter().enumerate().map(topic).collect(),
            now: tokio::time::Instant::now().into_std(),
        }
    }

    fn beat(&mut self, beat: &Beat) -> Result<Answer, Code> {
        self.group.beat(beat, &self.topics, SESSION, self.now)
    }

    fn join(&mut self, id: &str, topics: &[&str]) -> Result<Answer, Code> {
        self.beat(&joining(id, topics))
    }

    /// A heartbeat that says what it owns, or says nothing.
    fn go_on(&mut self, id: &str, epoch: i32, owned: Option<&[(u128, &[i32])]>) -> Result<Answer, Code> {
        self.beat(&Beat {
            member_id: id.to_owned(),
            epoch,
            owned: owned.map(partitions),
            ..Beat::default()
        })
    }
}

fn joining(id: &str, topics: &[&str]) -> Beat {
    Beat {
        member_id: id.to_owned(),
        topics: Some(topics.iter().map(|topic| (*topic).to_owned()).collect()),
        rebalance_timeout: Some(REBALANCE),
        owned: Some(Partitions::new()),
        ..Beat::default()
    }
}

fn of_instance(beat: Beat, instance: &str) -> Beat {
    Beat {
        instance: Some(instance.to_owned()),
        ..beat
    }
}

fn partitions(each: &[(u128, &[i32])]) -> Partitions {
    let topic = |(topic, partitions): &(u128, &[i32])| {
        (Uuid::from_u128(*topic), partitions.iter().copied().collect())
    };
    each.iter().map(topic).collect()
}

fn given(epoch: i32, each: &[(u128, &[i32])]) -> Result<Answer, Code> {
    Ok(Answer {
        epoch,
        assigned: Some(partitions(each)),
    })
}

const fn unchanged(epoch: i32) -> Result<Answer, Code> {
    Ok(Answer {
        epoch,
        assigned: None,
    })
}

#[test]
fn a_member_alone_has_all_and_is_told_once() {
    let mut world = World::new(&[3, 1]);
    assert_eq!(world.group.stage(), Stage::Empty);
    assert_eq!(
        world.join("a", &["t0", "t1"]),
        given(1, &[(1, &[0, 1, 2]), (2, &[0])])
    );
    assert_eq!(world.go_on("a", 1, None), unchanged(1));
    assert_eq!(
        world.go_on("a", 1, Some(&[(1, &[0, 1, 2]), (2, &[0])])),
        unchanged(1)
    );
    assert_eq!(world.group.stage(), Stage::Stable);
}

#[test]
fn a_partition_has_a_new_reader_only_when_the_old_one_has_given_it_up() {
    let mut world = World::new(&[4]);
    world.join("a", &["t0"]).unwrap();
    assert_eq!(world.join("b", &["t0"]), given(2, &[]));
    assert_eq!(world.group.stage(), Stage::Reconciling);
    assert_eq!(world.go_on("b", 2, None), unchanged(2), "nothing is free");
    let target: Vec<i32> = world.group.target_of("a")[&Uuid::from_u128(1)]
        .iter()
        .copied()
        .collect();
    let freed: Vec<i32> = world.group.target_of("b")[&Uuid::from_u128(1)]
        .iter()
        .copied()
        .collect();
    assert_eq!((target.len(), freed.len()), (2, 2));
    assert_eq!(
        world.go_on("a", 1, None),
        given(1, &[(1, &target)]),
        "it stays in its epoch"
    );
    assert_eq!(
        world.go_on("a", 1, Some(&[(1, &[0, 1, 2, 3])])),
        unchanged(1),
        "it has not given it up"
    );
    assert_eq!(world.go_on("b", 2, None), unchanged(2));
    assert_eq!(world.go_on("a", 1, Some(&[(1, &target)])), unchanged(2));
    assert_eq!(world.go_on("b", 2, None), given(2, &[(1, &freed)]));
    assert_eq!(world.group.stage(), Stage::Stable);
}

#[test]
fn who_leaves_or_is_silent_or_gives_nothing_up_leaves_its_share_to_the_others() {
    let all = given(3, &[(1, &[0, 1])]);
    let pair = || {
        let mut world = World::new(&[2]);
        world.join("a", &["t0"]).unwrap();
        world.join("b", &["t0"]).unwrap();
        world
    };
    let mut world = pair();
    assert_eq!(world.go_on("a", LEAVE, None), unchanged(LEAVE));
    assert_eq!(world.go_on("b", 2, None), all);
    assert_eq!(world.go_on("a", 1, None), Err(code::UNKNOWN_MEMBER_ID));

    let mut world = pair();
    world.now += SESSION - Duration::from_millis(1);
    world.group.handle_timeout(world.now);
    world.go_on("b", 2, None).unwrap();
    world.now += Duration::from_millis(1);
    assert!(world.group.poll_timeout().unwrap() <= world.now);
    world.group.handle_timeout(world.now);
    assert_eq!(world.go_on("b", 2, None), all);

    let mut world = pair();
    for _ in 0..7 {
        // It is told to give one up, lives on and does not.
        world.go_on("a", 1, None).unwrap();
        world.go_on("b", 2, None).unwrap();
        world.now += REBALANCE / 6;
        world.group.handle_timeout(world.now);
        if world.group.members.len() == 1 {
            break;
        }
    }
    assert_eq!(world.go_on("a", 1, None), Err(code::UNKNOWN_MEMBER_ID));
    assert_eq!(world.go_on("b", 2, None), all);
}

#[test]
fn an_epoch_that_is_not_the_members_is_fenced_but_for_a_retry() {
    let mut world = World::new(&[2]);
    world.join("a", &["t0"]).unwrap();
    assert_eq!(world.go_on("a", 2, None), Err(code::FENCED_MEMBER_EPOCH));
    world.join("b", &["t0"]).unwrap();
    world.go_on("a", 1, None).unwrap();
    let kept: Vec<i32> = world.group.members["a"].assigned[&Uuid::from_u128(1)]
        .iter()
        .copied()
        .collect();
    assert_eq!(world.go_on("a", 1, Some(&[(1, &kept)])), unchanged(2));
    assert_eq!(
        world.go_on("a", 1, Some(&[(1, &kept)])),
        unchanged(2),
        "its answer was lost"
    );
    assert_eq!(
        world.go_on("a", 1, None),
        Err(code::FENCED_MEMBER_EPOCH),
        "it may own anything"
    );
    assert_eq!(
        world.go_on("a", 1, Some(&[(1, &[0, 1])])),
        Err(code::FENCED_MEMBER_EPOCH)
    );
    assert_eq!(
        world.join("a", &["t0"]),
        given(2, &[(1, &kept)]),
        "it begins anew"
    );
    assert_eq!(world.go_on("c", 1, None), Err(code::UNKNOWN_MEMBER_ID));
    assert_eq!(world.group.check("a", 2), Ok(()));
    assert_eq!(world.group.check("a", 1), Err(code::STALE_MEMBER_EPOCH));
    assert_eq!(world.group.check("c", 1), Err(code::UNKNOWN_MEMBER_ID));
}

#[test]
fn a_static_member_comes_back_to_what_it_had() {
    let mut world = World::new(&[2]);
    world.beat(&of_instance(joining("a", &["t0"]), "i")).unwrap();
    let taken = world.beat(&of_instance(joining("b", &["t0"]), "i"));
    assert_eq!(taken, Err(code::UNRELEASED_INSTANCE_ID));
    let away = Beat {
        epoch: AWAY,
        ..of_instance(
            Beat {
                member_id: "a".to_owned(),
                ..Beat::default()
            },
            "i",
        )
    };
    assert_eq!(world.beat(&away), unchanged(AWAY));
    let back = world.beat(&of_instance(joining("b", &["t0"]), "i"));
    assert_eq!(back, given(1, &[(1, &[0, 1])]), "in the same epoch");
    let old = Beat {
        epoch: 1,
        ..of_instance(
            Beat {
                member_id: "a".to_owned(),
                ..Beat::default()
            },
            "i",
        )
    };
    assert_eq!(world.beat(&old), Err(code::FENCED_INSTANCE_ID));
    world
        .beat(&Beat {
            member_id: "b".to_owned(),
            ..away
        })
        .unwrap();
    world.now += SESSION;
    world.group.handle_timeout(world.now);
    assert_eq!(world.group.stage(), Stage::Empty, "it has not come back");
}

#[test]
fn topics_that_come_grow_or_go_make_a_new_epoch() {
    let mut world = World::new(&[1]);
    world.join("a", &["t0", "t1"]).unwrap();
    world.topics.insert("t1".to_owned(), (Uuid::from_u128(2), 1));
    assert_eq!(world.go_on("a", 1, None), given(2, &[(1, &[0]), (2, &[0])]));
    world.topics.insert("t1".to_owned(), (Uuid::from_u128(2), 2));
    assert_eq!(world.go_on("a", 2, None), given(3, &[(1, &[0]), (2, &[0, 1])]));
    world.topics.insert("other".to_owned(), (Uuid::from_u128(3), 2));
    assert_eq!(world.go_on("a", 3, None), unchanged(3));
    world.topics.remove("t0");
    assert_eq!(world.go_on("a", 3, None), given(3, &[(2, &[0, 1])]));
    assert_eq!(world.go_on("a", 3, Some(&[(2, &[0, 1])])), unchanged(4));
}

#[test]
fn a_subscription_changes_by_names_and_by_a_regular_expression() {
    let mut world = World::new(&[1, 1, 1]);
    world.join("a", &["t0"]).unwrap();
    let with = |pattern: &str, epoch| Beat {
        member_id: "a".to_owned(),
        epoch,
        regex: Some(regex(pattern).unwrap()),
        ..Beat::default()
    };
    assert_eq!(
        world.beat(&with("t[12]|x", 1)),
        given(2, &[(1, &[0]), (2, &[0]), (3, &[0])])
    );
    assert_eq!(
        world.beat(&with("", 2)),
        given(2, &[(1, &[0])]),
        "it is taken back"
    );
    assert_eq!(world.go_on("a", 2, Some(&[(1, &[0])])), unchanged(3));
    assert_eq!(regex("t(").unwrap_err(), code::INVALID_REGULAR_EXPRESSION);
    assert_eq!(
        regex("a{1000}{1000}").unwrap_err(),
        code::INVALID_REGULAR_EXPRESSION
    );
    assert!(
        !regex("t").unwrap().unwrap().is_match("t0"),
        "it is for whole names"
    );
}

#[test]
fn most_members_choose_the_assignor() {
    let mut world = World::new(&[3]);
    world.join("a", &["t0"]).unwrap();
    assert_eq!(world.group.assignor(), Assignor::Uniform);
    let beat = Beat {
        assignor: Assignor::find("range"),
        ..joining("b", &["t0"])
    };
    world.beat(&beat).unwrap();
    assert_eq!(world.group.assignor(), Assignor::Range);
    assert_eq!(world.group.target_of("a"), partitions(&[(1, &[0, 1])]));
}

/// A member that does as it is told: what it reads, and in which epoch.
#[derive(Debug, Default)]
struct Client {
    epoch: i32,
    owned: Partitions,
}

proptest! {
    /// Whatever comes in between, no partition has two readers, and in the end each has one.
    #[test]
    fn no_partition_has_two_readers_and_all_come_to_the_target(
        steps in prop::collection::vec((0usize..5, 0u8..10), 1..80),
    ) {
        let mut world = World::new(&[5, 2]);
        let mut clients: BTreeMap<String, Client> = BTreeMap::new();
        let ends = (0..40).flat_map(|_| (0..5).map(|who| (who, 9)));
        for (who, what) in steps.into_iter().chain(ends) {
            let id = format!("m{who}");
            match (clients.get_mut(&id), what) {
                (None, 0..=4) => {
                    let answer = world.join(&id, if who == 0 { &["t0"] } else { &["t0", "t1"] }).unwrap();
                    let owned = answer.assigned.unwrap();
                    clients.insert(id, Client { epoch: answer.epoch, owned });
                }
                (Some(client), 0) => {
                    // It forgets all, and begins anew.
                    client.owned.clear();
                    let answer = world.join(&id, if who == 0 { &["t0"] } else { &["t0", "t1"] }).unwrap();
                    *client = Client { epoch: answer.epoch, owned: answer.assigned.unwrap() };
                }
                (Some(_), 1) => {
                    world.go_on(&id, LEAVE, None).unwrap();
                    clients.remove(&id);
                }
                (Some(client), _) => {
                    let owned = (what % 2 == 1).then(|| client.owned.clone());
                    let beat = Beat { member_id: id, epoch: client.epoch, owned, ..Beat::default() };
                    let answer = world.beat(&beat).unwrap();
                    client.epoch = answer.epoch;
                    if let Some(assigned) = answer.assigned {
                        client.owned = assigned;
                    }
                }
                (None, _) => {}
            }
            let mut read = BTreeSet::new();
            for client in clients.values() {
                for (topic, partitions) in &client.owned {
                    for partition in partitions {
                        prop_assert!(read.insert((*topic, *partition)), "{topic} {partition}");
                    }
                }
            }
        }
        let all: usize = clients.values().flat_map(|client| client.owned.values()).map(BTreeSet::len).sum();
        let expected = match clients.keys().next() {
            None => 0,
            Some(_) if clients.len() == 1 && clients.contains_key("m0") => 5,
            Some(_) => 7,
        };
        prop_assert_eq!(all, expected);
        if !clients.is_empty() {
            prop_assert_eq!(world.group.stage(), Stage::Stable);
        }
    }
}
