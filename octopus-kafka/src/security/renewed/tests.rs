use std::sync::atomic::{AtomicU32, Ordering};

use tokio::{
    sync::Notify,
    time::{advance, sleep},
};

use super::*;

/// Issues its own count, each for 100 s, as it is told to.
#[derive(Default)]
struct Counted {
    asked: AtomicU32,
    fails: AtomicU32,
    slow: AtomicU32,
    hangs: Notify,
}

impl Source<u32> for Arc<Counted> {
    fn issue(&self) -> Issuing<'_, u32> {
        Box::pin(async {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            match self.slow.load(Ordering::Relaxed) {
                0 => {}
                u32::MAX => self.hangs.notified().await,
                ms => sleep(Duration::from_millis(ms.into())).await,
            }
            if self.fails.load(Ordering::Relaxed) > 0 {
                return Err(NotIssued::new("it fails"));
            }
            Ok(Issued {
                credential: number,
                lifetime: Some(Duration::from_secs(100)),
            })
        })
    }
}

fn counted() -> (Arc<Counted>, Renewed<u32>) {
    let source = Arc::new(Counted::default());
    (Arc::clone(&source), Renewed::new(source))
}

async fn got(renewed: &Renewed<u32>) -> u32 {
    *renewed.get().await.unwrap()
}

async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// [KF-40]
#[tokio::test(start_paused = true)]
async fn one_is_had_for_all() {
    let (source, renewed) = counted();
    source.slow.store(500, Ordering::Relaxed);
    let other = renewed.clone();
    let (one, two, three) = tokio::join!(got(&renewed), got(&other), got(&renewed));
    assert_eq!((one, two, three), (0, 0, 0));
    advance(Duration::from_secs(79)).await;
    assert_eq!(got(&renewed).await, 0);
    assert_eq!(source.asked.load(Ordering::Relaxed), 1);
}

/// [KF-40]
#[tokio::test(start_paused = true)]
async fn a_new_one_is_had_while_the_old_one_holds() {
    let (source, renewed) = counted();
    assert_eq!(got(&renewed).await, 0);
    advance(Duration::from_secs(81)).await;
    source.slow.store(500, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(got(&renewed).await, 0, "nobody waits");
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(got(&renewed).await, 1);
    assert_eq!(source.asked.load(Ordering::Relaxed), 2);
}

/// [KF-40] the old one is used while it holds, however its source fails; then there is none.
#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_let_alone_for_a_while_and_asked_again() {
    let (source, renewed) = counted();
    assert_eq!(got(&renewed).await, 0);
    source.fails.store(1, Ordering::Relaxed);
    advance(Duration::from_secs(90)).await;
    for _ in 0..5 {
        assert_eq!(got(&renewed).await, 0);
        settle().await;
    }
    assert_eq!(source.asked.load(Ordering::Relaxed), 2);
    advance(Duration::from_secs(10)).await;
    assert_eq!(renewed.get().await, Err(NotIssued::new("it fails")));
    assert_eq!(renewed.get().await, Err(NotIssued::new("it fails")));
    assert_eq!(source.asked.load(Ordering::Relaxed), 3);
    source.fails.store(0, Ordering::Relaxed);
    advance(PAUSE).await;
    assert_eq!(got(&renewed).await, 3);
}

/// [KF-40]
#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_waited_for_so_long_and_no_longer() {
    let (source, renewed) = counted();
    source.slow.store(u32::MAX, Ordering::Relaxed);
    let began = Instant::now();
    assert_eq!(renewed.get().await, Err(NotIssued::new("no answer in time")));
    assert_eq!(began.elapsed(), PATIENCE);
}

/// A caller that leaves does not break off what the next one needs too.
#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_comes_though_its_caller_left() {
    let (source, renewed) = counted();
    source.slow.store(500, Ordering::Relaxed);
    tokio::select! {
        _ = renewed.get() => panic!("it takes 500 ms"),
        () = settle() => {}
    }
    assert_eq!(got(&renewed).await, 0);
    assert_eq!(source.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_refused_is_not_used_again_and_a_newer_one_is_kept() {
    let (source, renewed) = counted();
    let first = renewed.get().await.unwrap();
    renewed.refuse(&first);
    assert_eq!(got(&renewed).await, 1);
    renewed.refuse(&first);
    assert_eq!(got(&renewed).await, 1);
    assert_eq!(source.asked.load(Ordering::Relaxed), 2);
    assert_eq!(format!("{renewed:?}"), "Renewed");
}

/// [ER-05] one that has ended when it comes is none, and is not asked for in a busy loop.
#[tokio::test(start_paused = true)]
async fn one_that_ends_at_once_is_none() {
    struct Ended;
    impl Source<()> for Ended {
        fn issue(&self) -> Issuing<'_, ()> {
            let issued = Issued {
                credential: (),
                lifetime: Some(Duration::from_millis(999)),
            };
            Box::pin(std::future::ready(Ok(issued)))
        }
    }
    let got = Renewed::new(Ended).get().await;
    assert_eq!(got, Err(NotIssued::new("it ends at once")));
}
