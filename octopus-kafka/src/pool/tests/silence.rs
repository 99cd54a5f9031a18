//! Brokers that say nothing, and groups whose members wait for each other.

use super::*;

/// [KF-04] [KF-06] [LC-03] a broker that owes a heartbeat's answer for three seconds is asked on new connections, by every
/// class: those that were not heard since may lead nowhere. The silent one is not closed yet, for it may only be slow.
#[tokio::test(start_paused = true)]
async fn a_broker_that_is_silent_is_asked_on_new_connections() {
    let (world, pool) = World::new();
    let idle = (
        lease(&pool, Class::Control).await,
        lease(&pool, Class::Commit).await,
    );
    advance(Duration::from_secs(1)).await;
    let beat = lease(&pool, Class::Beat).await;
    let asked = tokio::spawn(async move { (send(&beat).await, beat) });
    settle().await;
    advance(Duration::from_millis(2900)).await;
    assert!(is_same(&lease(&pool, Class::Control).await, &idle.0));
    assert!(pool.is_live("a:1"));
    advance(Duration::from_millis(200)).await;
    assert!(!pool.is_live("a:1"), "nothing that was heard since");
    let fresh = lease(&pool, Class::Control).await;
    assert!(!is_same(&fresh, &idle.0));
    assert!(!is_same(&lease(&pool, Class::Commit).await, &idle.1));
    let second = lease(&pool, Class::Beat).await;
    assert!(
        is_same(&lease(&pool, Class::Control).await, &fresh),
        "one is enough"
    );
    world.answer();
    let (answer, beat) = asked.await.unwrap();
    assert_eq!(answer, Ok(()));
    assert!(!is_same(&beat, &second));
    assert!(beat.fault().is_none());
}

/// [KF-06] long polls, joins and commits may take long: their silence says nothing.
#[tokio::test(start_paused = true)]
async fn the_silence_of_slow_requests_says_nothing() {
    let (world, pool) = World::new();
    let control = lease(&pool, Class::Control).await;
    for class in [Class::Fetch, Class::Join, Class::Commit, Class::Produce] {
        let slow = lease(&pool, class).await;
        tokio::spawn(async move { send(&slow).await });
    }
    settle().await;
    assert_eq!(world.waiting(), 4);
    advance(Duration::from_secs(9)).await;
    assert!(is_same(&lease(&pool, Class::Control).await, &control));
}

/// [KF-06] answers that come one by one are no silence, however many are still awaited.
#[tokio::test(start_paused = true)]
async fn a_broker_that_answers_slowly_is_not_silent() {
    let (world, pool) = World::new();
    let pool = Arc::new(pool);
    let first = lease(&pool, Class::Control).await;
    for _ in 0..5 {
        let one = lease(&pool, Class::Control).await;
        tokio::spawn(async move { send(&one).await });
    }
    for _ in 0..5 {
        settle().await;
        advance(Duration::from_millis(2500)).await;
        assert!(is_same(&lease(&pool, Class::Control).await, &first));
        world.answer();
        settle().await;
    }
}

/// [KF-37] [KF-38] [ER-04] a shared connection that is throttled rests, and no other one is opened in its stead.
#[tokio::test(start_paused = true)]
async fn a_throttled_shared_connection_rests() {
    for class in [Class::Control, Class::Commit, Class::Beat, Class::Produce] {
        let (world, pool) = World::new();
        let one = lease(&pool, class).await;
        one.throttle(Instant::now() + Duration::from_secs(10));
        let early = pool.lease("a:1", class, within(5)).await;
        assert_eq!(early.unwrap_err().kind, Kind::Timeout);
        assert!(is_same(
            &pool.lease("a:1", class, within(20)).await.unwrap(),
            &one
        ));
        assert_eq!(world.dials(), 1, "{class:?}");
    }
}

/// [KF-50] past the bound on joins groups wait as a whole: a group one of whose members joins is let in with all of them,
/// for the broker answers none before it has heard them all.
#[tokio::test(start_paused = true)]
async fn a_group_joins_with_all_its_members_or_waits_with_all() {
    let (_world, pool) = World::new();
    let pool = Arc::new(pool);
    let enter = |group: String, seconds| {
        let pool = Arc::clone(&pool);
        tokio::spawn(async move { pool.lease_for("a:1", Class::Join, &group, within(seconds)).await })
    };
    let mut held = Vec::new();
    for group in 0..Class::Join.most() {
        held.push(enter(format!("group{group}"), 60).await.unwrap().unwrap());
    }
    let member = enter("group0".to_owned(), 5).await.unwrap();
    assert!(member.is_ok(), "with its group");
    let late = enter("late".to_owned(), 5).await.unwrap();
    assert_eq!(late.unwrap_err().kind, Kind::Timeout);
    let both = [enter("late".to_owned(), 60), enter("late".to_owned(), 60)];
    settle().await;
    assert!(both.iter().all(|waiting| !waiting.is_finished()));
    held.pop();
    for waiting in both {
        waiting.await.unwrap().unwrap();
    }
}
