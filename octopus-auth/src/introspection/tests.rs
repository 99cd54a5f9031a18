use std::{
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::sync::oneshot;

use super::*;

const SCOPE: &str = "a_scope";
const ANN: &str = "01234567-89ab-cdef-0011-aaaaaaaaaaaa";
const BEN: &str = "01234567-89ab-cdef-0011-bbbbbbbbbbbb";
const FIRST: &str = "first_token_first_token_first_token";
const SECOND: &str = "second_token_second_token_second_token";

/// An authority whose replies are given by hand.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<Vec<Asked>>>);

struct Asked {
    form: String,
    address: Option<IpAddr>,
    is_known: bool,
    reply: Option<oneshot::Sender<Result<Reply, NoReply>>>,
}

impl Authority for Script {
    fn ask<'a>(&'a self, form: &'a Form) -> Asking<'a> {
        let (sender, reply) = oneshot::channel();
        self.0.lock().unwrap().push(Asked {
            form: form.expose().to_owned(),
            address: form.address(),
            is_known: form.is_known(),
            reply: Some(sender),
        });
        Box::pin(async { reply.await.unwrap() })
    }
}

impl Script {
    fn asked(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Replies to what was asked, counted from 0. Gives whether anybody waits for it.
    fn reply(&self, number: usize, reply: Result<Reply, NoReply>) -> bool {
        let sender = self.0.lock().unwrap()[number].reply.take().unwrap();
        sender.send(reply).is_ok()
    }
}

fn active(subject: &str) -> Result<Reply, NoReply> {
    let body = format!(r#"{{"active": true, "scope": "{SCOPE}", "sub": "{subject}"}}"#);
    Ok(Reply {
        status: 200,
        body: body.into(),
    })
}

fn inactive() -> Result<Reply, NoReply> {
    Ok(Reply {
        status: 200,
        body: Bytes::from_static(br#"{"active": false}"#),
    })
}

fn away() -> Result<Reply, NoReply> {
    Err(NoReply::new("nobody is there"))
}

/// A check with its authority and its clock in seconds.
struct World {
    check: Arc<Introspection>,
    script: Script,
    seconds: Arc<AtomicU64>,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "an epoch for a clock of the test's own")]
    fn new() -> Self {
        let (script, seconds) = (Script::default(), Arc::new(AtomicU64::new(0)));
        let (epoch, clock) = (Instant::now(), Arc::clone(&seconds));
        let clock = move || {
            let past = Duration::from_secs(clock.load(Ordering::Relaxed));
            Now {
                monotonic: epoch + past,
                wall: SystemTime::UNIX_EPOCH + past,
            }
        };
        Self {
            check: Arc::new(Introspection::new(script.clone(), SCOPE, &[7; 32], clock)),
            script,
            seconds,
        }
    }

    /// A caller, up to where it first waits.
    fn begin(&self, subject: &str, token: &str) -> Waiter {
        let check = Arc::clone(&self.check);
        let credentials = Credentials::new(subject, format!("Bearer {token}"));
        let mut waiter = Waiter {
            future: Box::pin(async move { check.check(&credentials).await.map(|caller| caller.subject) }),
            answer: None,
        };
        waiter.poll();
        waiter
    }

    fn at(&self, seconds: u64) -> &Self {
        self.seconds.store(seconds, Ordering::Relaxed);
        self
    }

    /// The answer to a caller about whom the authority is not asked.
    #[track_caller]
    fn known(&self, subject: &str, token: &str) -> Result<(), TokenFault> {
        let asked = self.script.asked();
        let answer = self.begin(subject, token).answer();
        assert_eq!(self.script.asked(), asked, "the authority was asked");
        answer
    }

    /// The answer to a caller about whom the authority is asked, and replies so.
    #[track_caller]
    fn asked(&self, subject: &str, token: &str, reply: Result<Reply, NoReply>) -> Result<(), TokenFault> {
        let asked = self.script.asked();
        let mut waiter = self.begin(subject, token);
        assert_eq!(self.script.asked(), asked + 1, "the authority is asked once");
        assert_eq!(waiter.poll(), None);
        assert!(self.script.reply(asked, reply));
        waiter.answer()
    }
}

struct Waiter {
    future: BoxFuture<'static, Result<Subject, TokenFault>>,
    answer: Option<Result<Subject, TokenFault>>,
}

impl Waiter {
    fn poll(&mut self) -> Option<Result<Subject, TokenFault>> {
        if self.answer.is_none()
            && let Poll::Ready(answer) = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            self.answer = Some(answer);
        }
        self.answer
    }

    #[track_caller]
    fn answer(mut self) -> Result<(), TokenFault> {
        self.poll().expect("an answer").map(|_| ())
    }
}

/// [AU-02] [D-35] remembered for a minute from when it was asked for, and asked for anew after it.
#[test]
fn an_answer_is_asked_for_once_a_minute() {
    let world = World::new();
    let mut slow = world.begin(ANN, FIRST);
    assert_eq!(
        world.script.0.lock().unwrap()[0].form,
        format!("token={FIRST}&include=identity_set")
    );
    world.at(4).script.reply(0, active(ANN));
    assert_eq!(slow.poll(), Some(Ok(crate::subject(ANN).unwrap())));
    assert_eq!(world.at(59).known(ANN, FIRST), Ok(()));
    assert_eq!(world.at(59).known(&ANN.to_uppercase(), FIRST), Ok(()));
    assert_eq!(
        world.at(60).asked(ANN, FIRST, inactive()),
        Err(TokenFault::Refused)
    );
    assert_eq!(world.at(64).known(ANN, FIRST), Err(TokenFault::Refused));
    assert_eq!(world.at(65).asked(ANN, FIRST, active(ANN)), Ok(()));
}

/// [AU-02]
#[test]
fn a_token_is_its_subjects_alone() {
    let world = World::new();
    assert_eq!(world.asked(BEN, FIRST, active(ANN)), Err(TokenFault::Refused));
    assert_eq!(world.known(ANN, FIRST), Ok(()));
    assert_eq!(world.at(4).known(BEN, FIRST), Err(TokenFault::Refused));
    assert_eq!(world.at(4).asked(BEN, SECOND, active(BEN)), Ok(()));
    assert_eq!(
        world.at(5).asked(BEN, FIRST, active(ANN)),
        Err(TokenFault::Refused)
    );
}

/// [AU-02]
#[test]
fn a_token_is_never_let_in_past_its_end() {
    let world = World::new();
    let ends = |at: u64| {
        let body = format!(r#"{{"active": true, "scope": "{SCOPE}", "sub": "{ANN}", "exp": {at}}}"#);
        Ok(Reply {
            status: 200,
            body: body.into(),
        })
    };
    assert_eq!(world.at(0).asked(ANN, FIRST, ends(10)), Ok(()));
    assert_eq!(world.at(9).known(ANN, FIRST), Ok(()));
    assert_eq!(world.at(10).asked(ANN, FIRST, ends(10)), Err(TokenFault::Refused));
    assert_eq!(world.at(14).known(ANN, FIRST), Err(TokenFault::Refused));

    // It ends while the reply is on its way to one of two.
    let (mut one, mut other) = (world.begin(ANN, SECOND), world.begin(ANN, SECOND));
    world.script.reply(2, ends(20));
    world.at(19);
    assert!(one.poll().unwrap().is_ok());
    world.at(20);
    assert_eq!(other.poll(), Some(Err(TokenFault::Refused)));
}

/// [D-42] [AU-02]
#[test]
fn the_authority_is_not_asked_about_what_is_no_token_or_no_subject() {
    let world = World::new();
    for (subject, token) in [
        (ANN, &"x".repeat(32)),
        (ANN, &"x".repeat(255)),
        (ANN, &format!("{FIRST}-")),
        (ANN, &String::new()),
        ("ann", &FIRST.to_owned()),
        ("", &FIRST.to_owned()),
    ] {
        assert_eq!(
            world.known(subject, token),
            Err(TokenFault::Refused),
            "{subject} {token}"
        );
    }
    assert_eq!(world.asked(ANN, &"x".repeat(254), active(ANN)), Ok(()));
}

/// [D-35] who is remembered goes on, nobody else is let in, and the next one asks anew.
#[test]
fn an_outage_lets_in_who_is_remembered_and_nobody_else() {
    let world = World::new();
    assert_eq!(world.asked(ANN, FIRST, active(ANN)), Ok(()));
    let refused_by_its_client = Reply {
        status: 401,
        body: Bytes::new(),
    };
    for fault in [away(), Ok(refused_by_its_client)] {
        assert_eq!(
            world.at(59).asked(BEN, SECOND, fault),
            Err(TokenFault::Unreachable)
        );
        assert_eq!(world.known(ANN, FIRST), Ok(()));
    }
    assert_eq!(
        world.at(60).asked(ANN, FIRST, away()),
        Err(TokenFault::Unreachable)
    );
    assert_eq!(world.asked(ANN, FIRST, active(ANN)), Ok(()));
    assert_eq!(world.asked(BEN, SECOND, active(BEN)), Ok(()));
}

/// [AU-02] callers with one token share its look-up, each as the subject that it says to be.
#[test]
fn one_token_is_one_look_up() {
    let world = World::new();
    let mut anns: Vec<_> = (0..20).map(|_| world.begin(ANN, FIRST)).collect();
    let mut ben = world.begin(BEN, FIRST);
    let mut second = world.begin(BEN, SECOND);
    assert_eq!(world.script.asked(), 2);
    world.script.reply(0, active(ANN));
    for ann in &mut anns {
        assert!(ann.poll().unwrap().is_ok());
    }
    assert_eq!(ben.poll(), Some(Err(TokenFault::Refused)));
    assert_eq!(second.poll(), None);
    world.script.reply(1, active(BEN));
    assert!(second.poll().unwrap().is_ok());
    assert!(world.check.0.lock().asking.is_empty());
}

/// [D-35] its fault is all of theirs, and not of those who come after it.
#[test]
fn a_look_up_that_fails_fails_for_all_who_wait() {
    let world = World::new();
    let waiters: Vec<_> = (0..3).map(|_| world.begin(ANN, FIRST)).collect();
    world.script.reply(0, away());
    for waiter in waiters {
        assert_eq!(waiter.answer(), Err(TokenFault::Unreachable));
    }
    assert_eq!(world.asked(ANN, FIRST, active(ANN)), Ok(()));
}

/// The first to come is also the first to leave: the look-up is still the others'.
#[tokio::test]
async fn a_waiter_that_leaves_does_not_end_the_others_look_up() {
    let world = World::new();
    let first = world.begin(ANN, FIRST);
    let others: Vec<_> = (0..20)
        .map(|_| tokio::spawn(world.begin(ANN, FIRST).future))
        .collect();
    tokio::task::yield_now().await;
    drop(first);
    others[0].abort();
    tokio::task::yield_now().await;
    assert!(world.script.reply(0, active(ANN)), "somebody waits for the reply");
    for (i, other) in others.into_iter().enumerate() {
        assert_eq!(other.await.is_ok_and(|answer| answer.is_ok()), i > 0, "{i}");
    }
    assert_eq!(world.script.asked(), 1);
}

#[test]
fn a_look_up_that_nobody_waits_for_is_given_up() {
    let world = World::new();
    let (one, other) = (world.begin(ANN, FIRST), world.begin(ANN, FIRST));
    drop(one);
    drop(other);
    assert!(!world.script.reply(0, active(ANN)), "nobody waits for the reply");
    assert!(world.check.0.lock().asking.is_empty());
    assert_eq!(world.asked(ANN, FIRST, active(ANN)), Ok(()));
}

/// A look-up that begins while another of its token is being given up is not taken for that one.
#[test]
fn a_look_up_that_is_given_up_takes_no_other_with_it() {
    /// Runs what it holds when it falls.
    struct Falls(Option<Box<dyn FnOnce() + Send>>);

    impl Drop for Falls {
        fn drop(&mut self) {
            if let Some(run) = self.0.take() {
                run();
            }
        }
    }

    /// Its first reply, when it is given up, begins another look-up.
    struct Again {
        script: Script,
        again: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    }

    impl Authority for Arc<Again> {
        fn ask<'a>(&'a self, form: &'a Form) -> Asking<'a> {
            let falls = Falls(self.again.lock().unwrap().take());
            let reply = self.script.ask(form);
            Box::pin(async {
                let _falls = falls;
                reply.await
            })
        }
    }

    let script = Script::default();
    let authority = Arc::new(Again {
        script: script.clone(),
        again: Mutex::default(),
    });
    let mut world = World::new();
    let clock = world.check.0.clone();
    let clock = move || (clock.clock)();
    world.check = Arc::new(Introspection::new(Arc::clone(&authority), SCOPE, &[7; 32], clock));
    world.script = script;
    let begun = Arc::new(Mutex::new(None));
    let world = Arc::new(world);
    let (later, to) = (Arc::clone(&world), Arc::clone(&begun));
    let again = move || *to.lock().unwrap() = Some(later.begin(ANN, FIRST));
    *authority.again.lock().unwrap() = Some(Box::new(again));
    drop(world.begin(ANN, FIRST));
    assert_eq!(world.script.asked(), 2);
    let third = world.begin(ANN, FIRST);
    assert_eq!(world.script.asked(), 2, "it shares the second one");
    assert!(world.script.reply(1, active(ANN)));
    assert_eq!(third.answer(), Ok(()));
    assert_eq!(begun.lock().unwrap().take().unwrap().answer(), Ok(()));
    assert!(world.check.0.lock().asking.is_empty());
}

/// [AU-02] what is kept tells nobody a token, and not without the key.
#[test]
fn tokens_are_known_by_a_keyed_hash() {
    let clock = || unreachable!("no time is asked for");
    let with = |key| Introspection::new(Script::default(), SCOPE, &key, clock);
    let (one, same, other) = (with([1; 32]), with([1; 32]), with([2; 32]));
    assert_eq!(one.0.hash(FIRST), same.0.hash(FIRST));
    assert_ne!(one.0.hash(FIRST), one.0.hash(SECOND));
    assert_ne!(one.0.hash(FIRST), other.0.hash(FIRST));
    let world = World::new();
    assert_eq!(world.asked(ANN, FIRST, active(ANN)), Ok(()));
    assert_eq!(
        format!("{:?}", world.check),
        r#"Introspection { scope: "a_scope", .. }"#
    );
    let kept = format!("{:?}", world.check.0.lock().cache);
    assert!(!kept.contains("first_token") && kept.contains("Holds"), "{kept}");
    let reply = format!("{:?}", active("s3cret").unwrap());
    assert_eq!(reply, "Reply { status: 200, .. }");
}

/// That a token held is known until it is told not to, also when its answer is remembered no more; nobody else's is.
#[test]
fn a_look_up_tells_whether_its_token_held_before() {
    let world = World::new();
    let is_known = || world.script.0.lock().unwrap().last().unwrap().is_known;
    for (seconds, token, reply, held_before) in [
        (0, FIRST, active(ANN), false),
        (1, SECOND, inactive(), false),
        (100, FIRST, away(), true),
        (7000, FIRST, active(ANN), true),
        (7001, SECOND, inactive(), false),
        (9000, FIRST, inactive(), true),
        (9100, FIRST, active(ANN), false),
    ] {
        let _ = world.at(seconds).asked(ANN, token, reply);
        assert_eq!(is_known(), held_before, "at {seconds}");
    }
}

#[test]
fn a_look_up_tells_where_its_token_came_from() {
    let world = World::new();
    let address = IpAddr::from([10, 0, 0, 1]);
    let credentials = Credentials::new(ANN, format!("Bearer {FIRST}")).from_address(address);
    let check = world.check.check(&credentials);
    assert!(check.now_or_never().is_none());
    assert_eq!(world.script.0.lock().unwrap()[0].address, Some(address));
    let _waiter = world.begin(ANN, SECOND);
    assert_eq!(world.script.0.lock().unwrap()[1].address, None);
}

/// [D-35] without a place nobody is let in, and no word of it is that the authority is away.
#[test]
fn a_look_up_without_a_place_is_no_outage() {
    let world = World::new();
    let no_place = world.asked(ANN, FIRST, Err(NoReply::no_place()));
    assert_eq!(no_place, Err(TokenFault::Unreachable));
    assert!(!world.check.0.lock().outage.handle_answer());
    assert_eq!(world.asked(ANN, FIRST, away()), Err(TokenFault::Unreachable));
    assert!(world.check.0.lock().outage.handle_answer());
}
