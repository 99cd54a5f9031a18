mod silence;

use std::{
    collections::VecDeque,
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use kafka_protocol::{
    messages::{ApiKey, ApiVersionsResponse, api_versions_response::ApiVersion},
    protocol::Encodable as _,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    sync::Notify,
    task::yield_now,
    time::{advance, sleep},
};

use super::*;
use crate::transport::Stream;

const METADATA: i16 = ApiKey::Metadata as i16;

/// Brokers at any address, which answer when they are told to.
#[derive(Default)]
struct World {
    dials: Mutex<Vec<(Arc<str>, Instant)>>,
    refuses: AtomicBool,
    swallows: AtomicBool,
    /// The connections that are open, and the requests that wait for [`World::answer`].
    open: AtomicUsize,
    waiting: Mutex<VecDeque<Arc<Notify>>>,
}

impl World {
    fn new() -> (Arc<Self>, Pool) {
        let world = Arc::new(Self::default());
        let dialed = Arc::clone(&world);
        let dialer: Dialer = Arc::new(move |address| {
            let world = Arc::clone(&dialed);
            Box::pin(async move { world.dial(address).await })
        });
        let pool = Pool::new(dialer, None, 1 << 20, 1 << 20, Budget::new(1 << 20), 1);
        (world, pool)
    }

    async fn dial(self: Arc<Self>, address: Arc<str>) -> io::Result<Box<dyn Stream>> {
        lock(&self.dials).push((address, Instant::now()));
        if self.swallows.load(Ordering::Relaxed) {
            sleep(Duration::from_secs(5)).await;
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.refuses.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = duplex(1 << 16);
        tokio::spawn(self.serve(theirs));
        Ok(Box::new(ours))
    }

    async fn serve(self: Arc<Self>, mut stream: DuplexStream) {
        self.open.fetch_add(1, Ordering::Relaxed);
        while let Ok(length) = stream.read_i32().await {
            let mut frame = vec![0; usize::try_from(length).unwrap()];
            stream.read_exact(&mut frame).await.unwrap();
            let mut body = BytesMut::new();
            if frame[..2] == 18i16.to_be_bytes() {
                let metadata = ApiVersion::default().with_api_key(METADATA).with_max_version(9);
                let hello = ApiVersionsResponse::default().with_api_keys(vec![metadata]);
                hello.encode(&mut body, 3).unwrap();
            } else {
                let told = Arc::new(Notify::new());
                lock(&self.waiting).push_back(Arc::clone(&told));
                told.notified().await;
            }
            let mut answer = i32::try_from(4 + body.len()).unwrap().to_be_bytes().to_vec();
            answer.extend(&frame[4..8]);
            answer.extend(&body);
            if stream.write_all(&answer).await.is_err() {
                break;
            }
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    fn dials(&self) -> usize {
        lock(&self.dials).len()
    }

    fn waiting(&self) -> usize {
        lock(&self.waiting).len()
    }

    /// Answers the request that waits longest.
    fn answer(&self) {
        lock(&self.waiting).pop_front().unwrap().notify_one();
    }
}

fn within(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

async fn settle() {
    for _ in 0..64 {
        yield_now().await;
    }
}

async fn lease(pool: &Pool, class: Class) -> Lease {
    pool.lease("a:1", class, within(10)).await.unwrap()
}

async fn send(lease: &Lease) -> Result<(), Kind> {
    let body = |_, _: &mut BytesMut| Ok(());
    lease
        .send(METADATA, &(0..=9), "", body, within(60))
        .await
        .map(drop)
}

fn is_same(one: &Lease, other: &Lease) -> bool {
    Arc::ptr_eq(&one.held, &other.held)
}

#[tokio::test(start_paused = true)]
async fn exclusive_leases_never_share_a_connection() {
    for class in [Class::Fetch, Class::Join] {
        let (world, pool) = World::new();
        let (first, second) = tokio::join!(lease(&pool, class), lease(&pool, class));
        assert!(!is_same(&first, &second));
        let third = lease(&pool, class).await;
        assert!(!is_same(&third, &first) && !is_same(&third, &second));
        drop(second);
        let _again = lease(&pool, class).await;
        assert_eq!(world.dials(), 3, "what was given back is taken again");
    }
}

/// [KF-30]
#[tokio::test(start_paused = true)]
async fn a_connection_whose_caller_left_is_not_leased_before_its_answer_came() {
    let (world, pool) = World::new();
    let left = lease(&pool, Class::Fetch).await;
    let held = Arc::clone(&left.held);
    tokio::select! {
        _ = send(&left) => panic!("nothing was answered"),
        () = settle() => {}
    }
    drop(left);
    assert_eq!(world.waiting(), 1);
    let other = lease(&pool, Class::Fetch).await;
    assert!(!Arc::ptr_eq(&other.held, &held));
    world.answer();
    settle().await;
    let again = lease(&pool, Class::Fetch).await;
    assert!(Arc::ptr_eq(&again.held, &held), "and then it is");
    assert_eq!(world.dials(), 2);
}

#[tokio::test(start_paused = true)]
async fn exclusive_leases_are_bounded_and_those_past_the_bound_wait() {
    let (world, pool) = World::new();
    let mut leases = Vec::new();
    for _ in 0..Class::Join.most() {
        leases.push(lease(&pool, Class::Join).await);
    }
    let late = pool.lease("a:1", Class::Join, within(1)).await;
    assert_eq!(late.unwrap_err().kind, Kind::Timeout);
    let (_, given) = tokio::join!(lease(&pool, Class::Join), async {
        settle().await;
        leases.pop().is_some()
    });
    assert!(given);
    assert_eq!(world.dials(), Class::Join.most());
}

/// [KF-46] [KF-50] what is a part of one join does not wait behind the joins of all others.
#[tokio::test(start_paused = true)]
async fn a_party_that_holds_its_place_stands_in_line_once() {
    let (_world, pool) = World::new();
    let lease_of = async |name: &str| pool.lease_for("a:1", Class::Join, name, within(30)).await;
    let mut others = Vec::new();
    for i in 1..Class::Join.most() {
        others.push(lease_of(&format!("other{i}")).await.unwrap());
    }
    let first = lease_of("g").await.unwrap();
    let place = first.party().unwrap();
    drop(first);
    let began = Instant::now();
    let (late, again) = tokio::join!(lease_of("late"), async {
        settle().await;
        let again = (lease_of("g").await.unwrap(), lease_of("g").await.unwrap());
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        again
    });
    assert_eq!(late.unwrap_err().kind, Kind::Timeout, "there is no place for it");
    assert!(!is_same(&again.0, &again.1));
    drop((again, place));
    assert!(lease_of("late").await.is_ok(), "it was given back by all of them");
}

/// One that waits first and leaves takes nobody's place with it.
#[tokio::test(start_paused = true)]
async fn a_party_waits_on_when_its_first_leaves() {
    let (_world, pool) = World::new();
    let mut others = Vec::new();
    for i in 0..Class::Join.most() {
        let name = format!("other{i}");
        others.push(
            pool.lease_for("a:1", Class::Join, &name, within(30))
                .await
                .unwrap(),
        );
    }
    let hasty = pool.lease_for("a:1", Class::Join, "g", within(1));
    let patient = pool.lease_for("a:1", Class::Join, "g", within(60));
    let (hasty, patient, ()) = tokio::join!(hasty, patient, async {
        sleep(Duration::from_secs(2)).await;
        others.pop();
    });
    assert_eq!(hasty.unwrap_err().kind, Kind::Timeout);
    assert!(patient.is_ok());
}

/// [KF-37]
#[tokio::test(start_paused = true)]
async fn throttled_connections_are_let_alone_and_do_not_pile_up() {
    let (world, pool) = World::new();
    let first = lease(&pool, Class::Join).await;
    first.throttle(within(3600));
    drop(first);
    for dials in 2..=Class::Join.most() {
        let lease = lease(&pool, Class::Join).await;
        lease.throttle(within(3600));
        drop(lease);
        assert_eq!(world.dials(), dials);
    }
    let one_more = pool.lease("a:1", Class::Join, within(10)).await;
    assert_eq!(one_more.unwrap_err().kind, Kind::Timeout);
    assert!(pool.is_live("a:1"), "it is there, though it is throttled");
    // One is waited for where there is time.
    let patient = pool.lease("a:1", Class::Join, within(7200)).await;
    assert!(patient.is_ok());
    settle().await;
    assert_eq!(world.open.load(Ordering::Relaxed), Class::Join.most());
    assert_eq!(world.dials(), Class::Join.most(), "none was opened in its stead");
}

/// One that is shared is no exception: a broker that throttles it would read from another one not for long either.
#[tokio::test(start_paused = true)]
async fn a_shared_connection_that_is_throttled_is_let_alone_and_waited_for() {
    let (world, pool) = World::new();
    for class in [Class::Control, Class::Beat, Class::Commit] {
        let before = world.dials();
        lease(&pool, class).await.throttle(within(60));
        let hurried = pool.lease("a:1", class, within(10)).await;
        assert_eq!(hurried.unwrap_err().kind, Kind::Timeout);
        assert!(pool.lease("a:1", class, within(120)).await.is_ok());
        assert_eq!(world.dials() - before, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_connection_is_leased_again_in_time() {
    let (world, pool) = World::new();
    let first = lease(&pool, Class::Fetch).await;
    first.throttle(within(2));
    drop(first);
    drop(lease(&pool, Class::Fetch).await);
    assert_eq!(world.dials(), 2);
    advance(Duration::from_secs(2)).await;
    let (_first, _second) = (lease(&pool, Class::Fetch).await, lease(&pool, Class::Fetch).await);
    assert_eq!(world.dials(), 2);
}

#[tokio::test(start_paused = true)]
async fn classes_do_not_share_connections() {
    let (world, pool) = World::new();
    let classes = [
        Class::Beat,
        Class::Commit,
        Class::Control,
        Class::Fetch,
        Class::Join,
        Class::Produce,
    ];
    for (i, class) in classes.into_iter().enumerate() {
        lease(&pool, class).await;
        lease(&pool, class).await;
        assert_eq!(world.dials(), i + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn control_requests_share_one_connection_and_wait_past_32() {
    let (world, pool) = World::new();
    let mut leases = Vec::new();
    for _ in 0..32 {
        leases.push(lease(&pool, Class::Control).await);
    }
    let late = pool.lease("a:1", Class::Control, within(1)).await;
    assert_eq!(late.unwrap_err().kind, Kind::Timeout);
    let (_, given) = tokio::join!(lease(&pool, Class::Control), async {
        settle().await;
        leases.pop().is_some()
    });
    assert!(given);
    assert_eq!(world.dials(), 1);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_a_place_leave_a_connection_that_breaks() {
    let (world, pool) = World::new();
    let mut leases = Vec::new();
    for _ in 0..32 {
        leases.push(lease(&pool, Class::Control).await);
    }
    let (next, broken) = tokio::join!(lease(&pool, Class::Control), async {
        settle().await;
        leases[0].poison("it broke");
        leases.pop()
    });
    assert!(!is_same(&next, &broken.unwrap()));
    assert_eq!(world.dials(), 2);
}

/// A commit waits for replication: the next one takes a further connection, up to eight.
#[tokio::test(start_paused = true)]
async fn commits_spread_over_eight_connections() {
    let (world, pool) = World::new();
    let mut sent = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let lease = lease(&pool, Class::Commit).await;
        sent.spawn(async move { send(&lease).await });
        settle().await;
        advance(Duration::from_millis(60)).await;
    }
    assert_eq!(world.dials(), 8);
    for _ in 0..20 {
        settle().await;
        world.answer();
    }
    while let Some(answer) = sent.join_next().await {
        answer.unwrap().unwrap();
    }
}

/// [KF-46]
#[tokio::test(start_paused = true)]
async fn connections_are_opened_at_a_pace() {
    let (world, pool) = World::new();
    let mut leases = Vec::new();
    for _ in 0..21 {
        leases.push(lease(&pool, Class::Fetch).await);
    }
    let dials = lock(&world.dials);
    let took = dials[20].1.duration_since(dials[0].1);
    assert!(
        (1000..=1100).contains(&took.as_millis()),
        "twenty a second: {took:?}"
    );
}

/// [KF-37] A heartbeat must not be late because many consumers open connections for their fetches.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_does_not_stand_behind_a_crowd_of_fetches() {
    let (_world, pool) = World::new();
    let pool = Arc::new(pool);
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let pool = Arc::clone(&pool);
        crowd.spawn(async move { lease(&pool, Class::Fetch).await });
    }
    settle().await;
    let began = Instant::now();
    lease(&pool, Class::Beat).await;
    assert!(
        began.elapsed() < Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(crowd.join_all().await.len(), 100);
    assert!(
        began.elapsed() > Duration::from_secs(4),
        "the crowd takes its time"
    );
}

/// [KF-02] [KF-46] [ER-07] nobody asks an address again that just failed, and all learn that it did.
#[tokio::test(start_paused = true)]
async fn a_failure_is_shared_by_all_who_ask_for_the_address() {
    let (world, pool) = World::new();
    world.refuses.store(true, Ordering::Relaxed);
    for class in [Class::Control, Class::Fetch, Class::Beat] {
        let refused = pool.lease("a:1", class, within(10)).await.unwrap_err();
        let Kind::Unreachable(why) = &refused.kind else {
            panic!("{refused:?}")
        };
        assert!(why.starts_with("a:1: ") && why.contains("refused"), "{why}");
        assert!(refused.next > Instant::now());
    }
    assert_eq!(world.dials(), 1);
    assert_eq!(pool.standing("a:1"), Standing::Doubtful);
    pool.lease("b:1", Class::Control, within(10)).await.unwrap_err();
    assert_eq!(world.dials(), 2, "another address is another matter");
}

/// [KF-02]
#[tokio::test(start_paused = true)]
async fn tries_come_ever_more_slowly_and_one_success_forgets_the_failures() {
    let (world, pool) = World::new();
    world.refuses.store(true, Ordering::Relaxed);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        let refused = pool.lease("a:1", Class::Beat, within(10)).await.unwrap_err();
        sleep_until(refused.next).await;
    }
    // 6 tries in the first 1.6 s or so, and then one each 0.8 to 1.2 s: within what is left of a session of 10 s whose
    // last heartbeat was answered 3 s before.
    let dials = lock(&world.dials)
        .iter()
        .map(|(_, at)| at.duration_since(began).as_millis())
        .collect::<Vec<_>>();
    assert!((104..=155).contains(&dials.len()), "{dials:?}");
    let longest = dials.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!((1000..=1200).contains(&longest.unwrap_or(0)), "{longest:?}");
    world.refuses.store(false, Ordering::Relaxed);
    let reached = lease(&pool, Class::Beat).await;
    reached.poison("it broke");
    world.refuses.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(1)).await;
    let refused = pool.lease("a:1", Class::Beat, within(10)).await.unwrap_err();
    assert!(refused.next - Instant::now() < Duration::from_millis(100));
}

/// [ER-07] a caller is told in its time, and does not spoil the opening for others.
#[tokio::test(start_paused = true)]
async fn a_caller_in_a_hurry_leaves_the_opening_to_others() {
    let (world, pool) = World::new();
    let hurried = pool.lease("a:1", Class::Control, Instant::now()).await;
    assert!(matches!(hurried.unwrap_err().kind, Kind::Unreachable(_)));
    let left = async {
        tokio::select! {
            biased;
            _ = pool.lease("a:1", Class::Control, within(10)) => panic!("it is not open yet"),
            () = std::future::ready(()) => {}
        }
    };
    left.await;
    settle().await;
    assert!(pool.is_live("a:1"));
    lease(&pool, Class::Control).await;
    assert_eq!(world.dials(), 1);
}

/// [KF-03] [ER-07] an address that swallows packets is waited for by nobody longer than they have.
#[tokio::test(start_paused = true)]
async fn an_address_that_swallows_packets_costs_a_caller_its_own_time_only() {
    let (world, pool) = World::new();
    world.swallows.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let (one, other) = tokio::join!(
        pool.lease("a:1", Class::Control, within(2)),
        pool.lease("a:1", Class::Fetch, within(3)),
    );
    assert!(matches!(one.unwrap_err().kind, Kind::Unreachable(_)));
    assert!(matches!(other.unwrap_err().kind, Kind::Unreachable(_)));
    assert_eq!((began.elapsed().as_secs(), world.dials()), (3, 1));
}

/// A crowd that joined leaves no crowd of connections behind.
#[tokio::test(start_paused = true)]
async fn connections_of_joins_are_closed_soon() {
    let (world, pool) = World::new();
    drop((lease(&pool, Class::Join).await, lease(&pool, Class::Join).await));
    drop(lease(&pool, Class::Control).await);
    settle().await;
    assert_eq!(world.open.load(Ordering::Relaxed), 3);
    advance(SWEEP).await;
    lease(&pool, Class::Control).await;
    settle().await;
    assert_eq!(world.open.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_and_busy_ones_are_not() {
    let (world, pool) = World::new();
    let busy = lease(&pool, Class::Fetch).await;
    drop(lease(&pool, Class::Fetch).await);
    drop(lease(&pool, Class::Beat).await);
    settle().await;
    assert_eq!(world.open.load(Ordering::Relaxed), 3);
    advance(IDLE).await;
    pool.sweep();
    settle().await;
    assert_eq!(world.open.load(Ordering::Relaxed), 1);
    assert_eq!(busy.fault(), None);
    drop(busy);
    advance(IDLE).await;
    pool.sweep();
    settle().await;
    assert_eq!(world.open.load(Ordering::Relaxed), 0);
    advance(SWEEP).await;
    pool.sweep();
    assert!(lock(&pool.brokers).is_empty(), "the address is forgotten");
}
