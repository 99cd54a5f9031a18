use octopus_core::TopicPartition;

use super::*;

const ID: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

struct World {
    starts: Starts,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self {
            starts: Starts::default(),
            now: Instant::now(),
        }
    }

    fn place(&mut self, position: Option<i64>, id: Uuid) -> Place {
        self.starts
            .place("t", position.map(Position::at), id, -1, self.now)
    }

    fn asked(&mut self, position: Option<i64>, id: Uuid) -> Ask {
        let place = self.place(position, id);
        let Place::Ask(ask) = place else {
            panic!("{place:?}");
        };
        ask
    }

    fn found(&mut self, ask: &Ask, found: Found) {
        self.starts.found("t", ask.number, found, self.now);
    }

    fn started(&self, position: Option<i64>) -> Option<i64> {
        let started = self.starts.started("t", position.map(Position::at));
        started.map(|position| position.offset)
    }
}

fn at(offset: i64) -> Place {
    Place::At(Position::at(offset))
}

fn no_offset() -> Error {
    Error::NoOffset(TopicPartition::only("t".into()))
}

#[test]
fn a_start_is_looked_for_once_and_kept_until_it_is_used() {
    let mut world = World::new();
    let ask = world.asked(None, ID);
    assert_eq!(ask.sought, Sought::Start);
    assert_eq!(world.place(None, ID), Place::Wait);
    assert!(world.starts.is_pending("t"));
    world.found(&ask, Found::At(Position::at(5), ID));
    assert_eq!(world.started(None), Some(5));
    assert_eq!(world.place(None, ID), at(5));
    world.now += Duration::from_secs(3600);
    assert_eq!(
        world.place(None, ID),
        at(5),
        "`latest` is fixed when it was first looked for"
    );
    assert_eq!(world.place(Some(5), ID), at(5));
    assert_eq!(world.started(Some(5)), None);
    world.asked(None, ID);
}

/// [D-22]
#[test]
fn a_commit_of_a_topic_of_old_is_none_of_the_one_made_anew() {
    let mut world = World::new();
    assert!(!world.starts.is_known("t"));
    world.starts.sending("t", 2);
    assert_eq!(world.place(Some(3), ID), at(3));
    assert!(world.starts.is_known("t") && !world.starts.is_void("t", ID));
    assert_eq!(world.asked(Some(3), OTHER).sought, Sought::Anew(None));

    let mut world = World::new();
    assert_eq!(world.place(Some(3), ID), at(3));
    world.starts.sending("t", 3);
    assert!(world.starts.is_void("t", OTHER));
    let ask = world.asked(Some(3), OTHER);
    assert_eq!(ask.sought, Sought::Anew(Some(3)));
    world.found(&ask, Found::At(Position::at(0), OTHER));
    assert_eq!(world.place(Some(3), OTHER), Place::Moved);
    assert!(!world.starts.is_void("t", OTHER));
    assert_eq!(world.place(Some(0), OTHER), at(0));
    // What was sent for the first is nothing to the third.
    assert_eq!(
        world.asked(Some(0), Uuid::from_u128(3)).sought,
        Sought::Anew(None)
    );
}

#[test]
fn an_answer_that_was_overtaken_is_ignored() {
    let mut world = World::new();
    let old = world.asked(None, ID);
    world.starts.clear();
    let new = world.asked(None, ID);
    world.found(&old, Found::At(Position::at(5), ID));
    assert_eq!(world.place(None, ID), Place::Wait);
    world.found(&new, Found::At(Position::at(6), ID));
    assert_eq!(world.place(None, ID), at(6));
}

/// [D-22]
#[test]
fn a_topic_made_anew_starts_as_one_that_was_never_read() {
    let mut world = World::new();
    assert_eq!(world.place(Some(7), ID), at(7));
    assert_eq!(world.place(Some(8), ID), at(8));
    let ask = world.asked(Some(8), OTHER);
    assert_eq!(
        ask.sought,
        Sought::Anew(None),
        "a commit that another sent counts"
    );
    world.found(&ask, Found::At(Position::at(0), OTHER));
    assert_eq!(world.started(Some(8)), Some(0));
    assert_eq!(world.place(Some(8), OTHER), Place::Moved);
    assert_eq!(world.place(Some(0), OTHER), at(0));
    assert_eq!(world.started(Some(0)), None);
}

/// [D-20] [D-22]
#[test]
fn a_seek_ends_the_failure_of_a_topic_made_anew_but_what_was_read_of_the_one_of_old_does_not() {
    let mut world = World::new();
    let old = |offset| Position {
        offset,
        leader_epoch: Some(1),
    };
    let place = |world: &mut World, position| world.starts.place("t", Some(position), OTHER, -1, world.now);
    assert_eq!(world.place(Some(7), ID), at(7));
    let ask = world.asked(Some(7), OTHER);
    world.found(&ask, Found::Failed(no_offset()));
    assert_eq!(world.place(Some(7), OTHER), Place::Failed(no_offset()));
    let Place::Ask(ask) = place(&mut world, old(9)) else {
        panic!("a position in the topic of old");
    };
    world.found(&ask, Found::Failed(no_offset()));
    assert_eq!(place(&mut world, old(9)), Place::Failed(no_offset()));
    assert_eq!(world.place(Some(3), OTHER), at(3));
    assert_eq!(world.place(Some(4), OTHER), at(4));
}

#[test]
fn a_start_that_was_found_in_the_topic_before_is_void() {
    let mut world = World::new();
    let ask = world.asked(None, ID);
    world.found(&ask, Found::At(Position::at(5), ID));
    world.asked(None, OTHER);
}

#[test]
fn a_broker_without_topic_ids_never_makes_a_topic_anew() {
    let mut world = World::new();
    assert_eq!(world.place(Some(7), ID), at(7));
    assert_eq!(world.place(Some(8), Uuid::nil()), at(8));
}

#[test]
fn a_position_out_of_range_is_replaced_once() {
    let mut world = World::new();
    assert_eq!(world.place(Some(100), ID), at(100));
    let ask = world.starts.out_of_range("t", Position::at(100));
    assert_eq!(ask.sought, Sought::OutOfRange(ID));
    assert_eq!(world.place(Some(100), ID), Place::Wait);
    world.found(&ask, Found::At(Position::at(10), ID));
    assert_eq!(world.place(Some(100), ID), Place::Moved);
    assert_eq!(world.started(Some(100)), Some(10));
    assert_eq!(world.place(Some(10), ID), at(10));
    assert_eq!(world.started(Some(10)), None);
    assert_eq!(world.place(Some(100), ID), at(100), "a seek is tried again");
}

/// [FE-11] reading from a start may come to the very position that it replaced, and goes on from there; and where it is
/// not known to have been taken, it still stands.
#[test]
fn what_was_read_up_to_the_position_that_was_replaced_is_not_read_again() {
    let mut world = World::new();
    assert_eq!(world.place(Some(8), ID), at(8));
    let ask = world.asked(Some(8), OTHER);
    world.found(&ask, Found::At(Position::at(0), OTHER));
    for _ in 0..2 {
        assert_eq!(world.place(Some(8), OTHER), Place::Moved, "nothing is read yet");
        assert_eq!(world.started(Some(8)), Some(0));
    }
    assert_eq!(world.place(Some(0), OTHER), at(0));
    assert_eq!(world.place(Some(8), OTHER), at(8));
    assert_eq!(world.started(Some(8)), None);
}

/// [D-22] a start that is forgotten before it was taken leaves the position as void as it was.
#[test]
fn a_position_of_a_topic_that_is_gone_stays_void_where_its_start_is_forgotten() {
    let mut world = World::new();
    assert_eq!(world.place(Some(8), ID), at(8));
    let ask = world.asked(Some(8), OTHER);
    world.found(&ask, Found::At(Position::at(0), OTHER));
    world.starts.clear();
    let again = world.asked(Some(8), OTHER);
    world.found(&again, Found::At(Position::at(0), OTHER));
    assert_eq!(world.place(Some(8), OTHER), Place::Moved);
    assert_eq!(world.place(Some(0), OTHER), at(0));
    world.starts.clear();
    assert_eq!(
        world.place(Some(0), OTHER),
        at(0),
        "what was taken is of the new one"
    );
}

#[test]
fn a_start_that_is_the_position_itself_replaces_nothing() {
    let mut world = World::new();
    assert_eq!(world.place(Some(0), ID), at(0));
    let ask = world.asked(Some(0), OTHER);
    world.found(&ask, Found::At(Position::at(0), OTHER));
    assert_eq!(world.started(Some(0)), None);
    assert_eq!(world.place(Some(0), OTHER), at(0));
}

#[test]
fn a_start_that_is_itself_out_of_range_is_looked_for_again_in_place_of_the_same() {
    let mut world = World::new();
    let ask = world.asked(None, ID);
    world.found(&ask, Found::At(Position::at(5), ID));
    let ask = world.starts.out_of_range("t", Position::at(5));
    assert_eq!(world.place(None, ID), Place::Wait);
    world.found(&ask, Found::At(Position::at(9), ID));
    assert_eq!(world.started(None), Some(9));
}

/// [D-20]
#[test]
fn a_topic_without_an_offset_fails_until_a_seek_or_a_commit() {
    let mut world = World::new();
    let ask = world.asked(None, ID);
    world.found(&ask, Found::Failed(no_offset()));
    assert_eq!(world.place(None, ID), Place::Failed(no_offset()));
    assert_eq!(world.place(Some(3), ID), at(3), "sought");

    let ask = world.asked(None, ID);
    world.found(&ask, Found::Failed(no_offset()));
    world.now += FAILED_FOR;
    world.asked(None, ID);
}

/// [NS-05]
#[test]
fn a_topic_that_is_missing_has_no_place() {
    let mut world = World::new();
    let ask = world.asked(None, ID);
    world.found(&ask, Found::Missing);
    assert!(!world.starts.is_pending("t"));
    assert_eq!(world.started(None), None);
    world.asked(None, ID);
}

#[test]
fn what_is_no_longer_read_is_forgotten() {
    let mut world = World::new();
    assert_eq!(world.place(Some(7), ID), at(7));
    world.starts.keep(&BTreeSet::from(["u".to_owned()]));
    assert_eq!(
        world.place(Some(7), OTHER),
        at(7),
        "another assignment, another topic"
    );
}

fn under(offset: i64, leader_epoch: i32) -> Position {
    Position {
        offset,
        leader_epoch: Some(leader_epoch),
    }
}

/// [KF-21] a position that was read under one leader is checked once with the next, and the end that the next one's
/// log has of it takes its place.
#[test]
fn a_position_of_an_earlier_leader_is_checked_once() {
    for (found, place) in [(under(50, 3), under(50, 3)), (under(40, 3), under(40, 3))] {
        let (mut starts, now) = (Starts::default(), Instant::now());
        let held = Some(under(50, 3));
        assert_eq!(starts.place("t", held, ID, 3, now), Place::At(under(50, 3)));
        starts.read("t", 3);
        let Place::Ask(ask) = starts.place("t", held, ID, 4, now) else {
            panic!("unchecked")
        };
        assert_eq!(ask.sought, Sought::Check(under(50, 3)));
        assert_eq!(starts.place("t", held, ID, 4, now), Place::Wait);
        starts.found("t", ask.number, Found::Checked(found, 4), now);
        let is_same = place.offset == 50;
        let then = if is_same { Place::At(place) } else { Place::Moved };
        assert_eq!(starts.place("t", held, ID, 4, now), then);
        assert_eq!(starts.started("t", held), Some(place).filter(|_| !is_same));
        // The next leader is asked again; who was read under it is not.
        assert_eq!(starts.place("t", Some(place), ID, 4, now), Place::At(place));
        starts.read("t", 5);
        assert_eq!(starts.place("t", Some(place), ID, 5, now), Place::At(place));
        assert!(matches!(
            starts.place("t", Some(place), ID, 6, now),
            Place::Ask(_)
        ));
    }
}

/// [KF-21] where reading starts at a commit of an earlier leader's time, that is checked too; a place that a client
/// sought is taken as it is.
#[test]
fn a_commit_of_an_earlier_leader_is_checked_and_a_seek_is_not() {
    let mut world = World::new();
    let (starts, now) = (&mut world.starts, world.now);
    let Place::Ask(ask) = starts.place("t", None, ID, 4, now) else {
        panic!("it starts")
    };
    starts.found("t", ask.number, Found::At(under(50, 3), ID), now);
    let Place::Ask(ask) = starts.place("t", None, ID, 4, now) else {
        panic!("unchecked")
    };
    assert_eq!(ask.sought, Sought::Check(under(50, 3)));
    starts.found("t", ask.number, Found::Checked(under(50, 3), 4), now);
    assert_eq!(starts.place("t", None, ID, 4, now), Place::At(under(50, 3)));
    assert_eq!(starts.started("t", None), Some(under(50, 3)));
    assert_eq!(starts.place("t", Some(Position::at(7)), ID, 9, now), at(7));
    assert_eq!(
        starts.place("t", Some(under(50, 3)), ID, -1, now),
        Place::At(under(50, 3))
    );
}
