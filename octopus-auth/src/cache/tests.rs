use std::time::SystemTime;

use proptest::prelude::*;

use super::*;
use crate::introspection::answer::Grant;

/// Time by both clocks, in seconds from a start of each.
#[derive(Clone, Copy)]
struct Start(Now);

impl Start {
    #[expect(clippy::disallowed_methods, reason = "an epoch for a clock of the test's own")]
    fn new() -> Self {
        Self(Now {
            monotonic: Instant::now(),
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        })
    }

    fn at(self, seconds: u64) -> Now {
        self.skewed(seconds, seconds)
    }

    fn skewed(self, monotonic: u64, wall: u64) -> Now {
        Now {
            monotonic: self.0.monotonic + Duration::from_secs(monotonic),
            wall: self.0.wall + Duration::from_secs(wall),
        }
    }
}

const ANN: Subject = Subject::from_uuid(1);
const BEN: Subject = Subject::from_uuid(2);
const PLACES: Places = Places {
    holding: 4,
    refused: 3,
};

fn token(number: u8) -> TokenHash {
    [number; 32]
}

fn holds(subjects: &[Subject], end: Option<SystemTime>) -> Arc<Answer> {
    Arc::new(Answer::Holds(Grant {
        subjects: subjects.into(),
        end,
    }))
}

fn refused() -> Arc<Answer> {
    Arc::new(Answer::Refused)
}

/// [AU-02] [D-35] counted from when the authority was asked.
#[test]
fn an_answer_is_remembered_for_60_seconds() {
    let start = Start::new();
    let mut cache = Cache::new(PLACES);
    assert_eq!(cache.find(&token(1), ANN, start.at(0)), None);
    cache.keep(token(1), holds(&[ANN], None), start.at(0).monotonic);
    assert_eq!(cache.find(&token(1), ANN, start.at(59)), Some(Verdict::Admitted));
    assert_eq!(cache.find(&token(2), ANN, start.at(59)), None);
    assert_eq!(cache.find(&token(1), ANN, start.at(60)), None);
}

/// [AU-02]
#[test]
fn a_refusal_is_remembered_for_5_seconds() {
    let start = Start::new();
    let mut cache = Cache::new(PLACES);
    cache.keep(token(1), refused(), start.at(0).monotonic);
    assert_eq!(cache.find(&token(1), ANN, start.at(4)), Some(Verdict::Refused));
    assert_eq!(cache.find(&token(1), ANN, start.at(5)), None);
}

/// [AU-02] its own subject is let in meanwhile.
#[test]
fn another_subject_is_refused_for_5_seconds_by_the_answer_that_lets_the_right_one_in() {
    let start = Start::new();
    let mut cache = Cache::new(PLACES);
    cache.keep(token(1), holds(&[ANN], None), start.at(0).monotonic);
    assert_eq!(cache.find(&token(1), BEN, start.at(4)), Some(Verdict::Refused));
    assert_eq!(cache.find(&token(1), BEN, start.at(5)), None);
    assert_eq!(cache.find(&token(1), ANN, start.at(5)), Some(Verdict::Admitted));
}

/// [AU-02] a token's end is the wall clock's, also where that was set while the other went on.
#[test]
fn nothing_is_remembered_past_the_tokens_end() {
    let start = Start::new();
    let mut cache = Cache::new(PLACES);
    cache.keep(
        token(1),
        holds(&[ANN], Some(start.at(10).wall)),
        start.at(0).monotonic,
    );
    assert_eq!(cache.find(&token(1), ANN, start.at(9)), Some(Verdict::Admitted));
    assert_eq!(cache.find(&token(1), ANN, start.at(10)), None);
    assert_eq!(cache.find(&token(1), ANN, start.skewed(1, 3600)), None);
    assert_eq!(cache.find(&token(1), BEN, start.skewed(1, 3600)), None);
    assert_eq!(
        cache.find(&token(1), ANN, start.skewed(59, 0)),
        Some(Verdict::Admitted)
    );
    assert_eq!(cache.find(&token(1), ANN, start.skewed(60, 0)), None);
}

/// [AU-02]
#[test]
fn the_newest_answer_counts() {
    let start = Start::new();
    let mut cache = Cache::new(PLACES);
    cache.keep(token(1), holds(&[ANN], None), start.at(0).monotonic);
    cache.keep(token(1), refused(), start.at(1).monotonic);
    assert_eq!(cache.find(&token(1), ANN, start.at(2)), Some(Verdict::Refused));
    assert_eq!(
        cache.find(&token(1), ANN, start.at(6)),
        None,
        "the old one is gone"
    );
    cache.keep(token(1), holds(&[ANN, BEN], None), start.at(6).monotonic);
    assert_eq!(cache.find(&token(1), BEN, start.at(7)), Some(Verdict::Admitted));
}

/// [D-35] whoever makes tokens up takes no place from a caller whose token holds.
#[test]
fn refusals_push_out_refusals_only() {
    let start = Start::new();
    let mut cache = Cache::new(PLACES);
    cache.keep(token(0), holds(&[ANN], None), start.at(0).monotonic);
    for number in 1..=100 {
        cache.keep(token(number), refused(), start.at(0).monotonic);
    }
    assert_eq!(cache.find(&token(0), ANN, start.at(1)), Some(Verdict::Admitted));
    let known: Vec<_> = (1..=100)
        .filter(|n| cache.find(&token(*n), ANN, start.at(1)).is_some())
        .collect();
    assert_eq!(known, [98, 99, 100]);
}

#[test]
fn an_answer_with_more_subjects_than_places_is_not_remembered() {
    let start = Start::new();
    let mut cache = Cache::new(PLACES);
    let many: Vec<_> = (0..5).map(Subject::from_uuid).collect();
    cache.keep(token(1), holds(&many, None), start.at(0).monotonic);
    assert_eq!(cache.find(&token(1), ANN, start.at(0)), None);
    assert_eq!(cache.taken().holding, 0);
}

#[derive(Debug, Clone)]
enum Step {
    Keep(u8, Arc<Answer>),
    Find(u8, Subject),
    /// Both clocks go on; the wall's also jumps.
    Wait(u64, i64),
}

fn subjects() -> impl Strategy<Value = Vec<Subject>> {
    proptest::collection::btree_set(0..4u128, 1..=4)
        .prop_map(|uuids| uuids.into_iter().map(Subject::from_uuid).collect())
}

fn step(epoch: SystemTime) -> impl Strategy<Value = Step> {
    let end = proptest::option::of(0..200u64);
    let grant = (subjects(), end).prop_map(move |(subjects, end)| {
        holds(&subjects, end.map(|seconds| epoch + Duration::from_secs(seconds)))
    });
    prop_oneof![
        2 => (0..5u8, grant).prop_map(|(token, answer)| Step::Keep(token, answer)),
        1 => (0..5u8).prop_map(|token| Step::Keep(token, refused())),
        4 => (0..5u8, 0..4u128).prop_map(|(token, uuid)| Step::Find(token, Subject::from_uuid(uuid))),
        2 => (0..30u64, prop_oneof![9 => Just(0), 1 => -40..40i64])
            .prop_map(|(past, jump)| Step::Wait(past, jump)),
    ]
}

/// What was kept, in order, each token once: no shelves, no counts.
#[derive(Default)]
struct Model(Vec<(u8, Arc<Answer>, u64)>);

impl Model {
    fn keep(&mut self, token: u8, answer: Arc<Answer>, asked: u64) {
        self.0.retain(|kept| kept.0 != token);
        self.0.push((token, answer, asked));
        for (is_refusal, most) in [(false, PLACES.holding), (true, PLACES.refused)] {
            let of_kind = |kept: &(u8, Arc<Answer>, u64)| (*kept.1 == Answer::Refused) == is_refusal;
            let life = if is_refusal { 5 } else { 60 };
            self.0.retain(|kept| !of_kind(kept) || asked < kept.2 + life);
            let size = |kept: &(u8, Arc<Answer>, u64)| match &*kept.1 {
                Answer::Holds(grant) => grant.subjects.len(),
                Answer::Refused => 1,
            };
            while self
                .0
                .iter()
                .filter(|kept| of_kind(kept))
                .map(size)
                .sum::<usize>()
                > most
            {
                let oldest = self.0.iter().position(of_kind).unwrap();
                self.0.remove(oldest);
            }
        }
    }

    fn find(&self, token: u8, subject: Subject, now: u64, wall: SystemTime) -> Option<Verdict> {
        let (_, answer, asked) = self.0.iter().find(|kept| kept.0 == token)?;
        let age = now - asked;
        match &**answer {
            Answer::Refused => (age < 5).then_some(Verdict::Refused),
            Answer::Holds(grant) if age >= 60 || grant.end.is_some_and(|end| wall >= end) => None,
            Answer::Holds(grant) if grant.subjects.contains(&subject) => Some(Verdict::Admitted),
            Answer::Holds(_) => (age < 5).then_some(Verdict::Refused),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// [AU-02] [D-35] what the cache says is what a plain list says, and its bounds hold at every step.
    #[test]
    fn the_cache_is_a_list_with_bounds(steps in proptest::collection::vec(step(Start::new().0.wall), 1..80)) {
        let start = Start::new();
        let (mut cache, mut model) = (Cache::new(PLACES), Model::default());
        let (mut now, mut jumped) = (0, 0i64);
        for step in steps {
            match step {
                Step::Keep(number, answer) => {
                    cache.keep(token(number), Arc::clone(&answer), start.at(now).monotonic);
                    model.keep(number, answer, now);
                }
                Step::Find(number, subject) => {
                    let wall = now.saturating_add_signed(jumped);
                    let time = start.skewed(now, wall);
                    let found = cache.find(&token(number), subject, time);
                    prop_assert_eq!(found, model.find(number, subject, now, time.wall));
                }
                Step::Wait(past, jump) => {
                    now += past;
                    jumped += jump;
                }
            }
            let taken = cache.taken();
            prop_assert!(taken.holding <= PLACES.holding && taken.refused <= PLACES.refused);
            for shelf in [&cache.holding, &cache.refused] {
                let sum: usize = shelf.entries.values().map(|entry| entry.answer.places()).sum();
                prop_assert_eq!(sum, shelf.taken);
                prop_assert_eq!(shelf.entries.len(), shelf.order.len());
            }
        }
    }
}
