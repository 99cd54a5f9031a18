//! A real Apache Kafka with SASL_PLAINTEXT, SASL_SSL and mutual TLS. Runs where `OCTOPUS_TEST_KAFKA` is set; its
//! users, and whom it trusts, are the same for all tests of a process.

use std::{
    env,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use octopus_core::{
    AutoOffsetReset, Commit, Effect, FetchPlan, Join, Name, Namespace, Open, Outcome, Records as _, Settings,
    Subject,
};
use octopus_kafka::{
    Cluster, Config, Consumer, Kind, Security,
    records::{BatchWriter, Compression},
    security::{Login, Renewed, Sasl, Secret, Tls, Token},
    testing::{Node, Secured},
};
use tokio::sync::{Barrier, OnceCell};

use super::{certificate::Authority, front::Front};

const SOON: Duration = Duration::from_secs(30);
const PASSWORD: &str = "the-password-of-octopus";
/// How long a session lasts at the node.
const SESSION: Duration = Duration::from_secs(3);

/// The node, and who signed its certificate and its clients'.
struct World {
    node: Node,
    authority: Authority,
    /// Stands before the listener with a sign-in and without TLS, and is what that one advertises.
    front: Front,
}

/// The one node of all tests; `None` where none is asked for.
async fn world() -> Option<&'static World> {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    if !is_asked_for() {
        return None;
    }
    Some(WORLD.get_or_init(start).await)
}

fn is_asked_for() -> bool {
    env::var_os("OCTOPUS_TEST_KAFKA").is_some()
}

async fn start() -> World {
    let authority = Authority::new("the authority of a node");
    let signed = authority.sign(&["localhost"]);
    let mut front = Front::new();
    let secured = Secured {
        identity: format!("{}{}", signed.key, signed.certificate),
        clients: authority.pem(),
        password: PASSWORD.to_owned(),
        session: SESSION,
        advertised: Some(front.port),
    };
    let node = tokio::task::spawn_blocking(move || Node::start_secured(&secured))
        .await
        .expect("no panic")
        .expect("Apache Kafka by Maven");
    front.serve(node.sasl_address().to_owned(), None);
    World {
        node,
        authority,
        front,
    }
}

fn login(password: &str) -> Login {
    Login {
        username: "octopus".to_owned(),
        password: password.into(),
    }
}

fn cluster(address: &str, tls: Option<Tls>, sasl: Option<Sasl>) -> Cluster {
    let mut config = Config::new(vec![address.to_owned()]);
    config.security = Security::new(tls, sasl);
    Cluster::new(config)
}

/// A topic that no other test has.
async fn topic(cluster: &Cluster) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let topic = format!("secure-{}", now.expect("a clock").as_nanos());
    cluster.create_topic(&topic, SOON).await.expect("a topic");
    topic
}

async fn write(cluster: &Cluster, topic: &str) -> i64 {
    cluster.produce(topic, one_record(), SOON).await.expect("a write")
}

fn one_record() -> bytes::Bytes {
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(0, None, Some(b"value"), &[]);
    batch.finish()
}

/// A namespace that no other test has, by a number.
fn namespace(number: u128) -> Namespace {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("a clock").as_nanos();
    Namespace::of(Subject::from_uuid((now << 4) | number))
}

/// A token without a signature, which a node for tests takes; it ends after this time.
fn token(lifetime: Duration) -> Token {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a clock")
        .as_secs();
    let claims = format!(
        r#"{{"sub":"octopus","iat":{now},"exp":{}}}"#,
        now + lifetime.as_secs()
    );
    let [head, claims] = [r#"{"alg":"none"}"#, &claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    Token::new(Secret::from(format!("{head}.{claims}.")))
}

fn mechanisms() -> [Sasl; 4] {
    [
        Sasl::Plain(login(PASSWORD)),
        Sasl::ScramSha256(login(PASSWORD)),
        Sasl::ScramSha512(login(PASSWORD)),
        Sasl::OAuthBearer(Renewed::new(token(Duration::from_secs(3600)))),
    ]
}

#[tokio::test]
async fn each_mechanism_signs_in_without_tls_and_with_it() {
    let Some(world) = world().await else { return };
    let tls = world.authority.client(None);
    for sasl in mechanisms() {
        for (address, tls) in [
            (world.front.address("localhost"), None),
            (world.node.sasl_tls_address().to_owned(), Some(tls.clone())),
        ] {
            let cluster = cluster(&address, tls, Some(sasl.clone()));
            let topic = topic(&cluster).await;
            assert_eq!(write(&cluster, &topic).await, 0, "{sasl:?}");
        }
    }
}

/// A key lets its user read and write one namespace, and no more; a new one ends the one before.
#[tokio::test]
async fn a_key_is_for_one_namespace() {
    let Some(world) = world().await else { return };
    let tls = world.authority.client(None);
    let address = world.node.sasl_tls_address();
    let service = cluster(
        address,
        Some(tls.clone()),
        Some(Sasl::ScramSha512(login(PASSWORD))),
    );
    let (own, other) = (namespace(1), namespace(2));
    let topics = [own.qualify("topic"), other.qualify("topic")];
    for topic in &topics {
        service.create_topic(topic, SOON).await.expect("a topic");
    }
    let user = own.as_str().to_owned();
    let keyed = |password: &str| {
        let login = Login {
            username: user.clone(),
            password: password.into(),
        };
        cluster(address, Some(tls.clone()), Some(Sasl::ScramSha512(login)))
    };
    assert!(!service.revoke_key(&user, &own, SOON).await.expect("a revocation"));
    let mut before = None;
    for password in ["the-first-secret", "the-second-secret"] {
        let secret = password.into();
        let grant = service.grant_key(&user, &secret, &own, SOON);
        grant.await.expect("a key");
        let client = signed_in(|| keyed(password)).await;
        write(&client, &topics[0]).await;
        assert_eq!(
            client.topics_of(&own, SOON).await.expect("topics"),
            ["topic".into()]
        );
        assert_eq!(client.topics_of(&other, SOON).await.expect("topics"), []);
        let refused = client.produce(&topics[1], one_record(), SOON).await.unwrap_err();
        assert_eq!(
            octopus_core::Error::from(refused),
            octopus_core::Error::KafkaUnauthorized
        );
        let made = client
            .create_topic(&own.qualify("another"), SOON)
            .await
            .unwrap_err();
        assert_eq!(
            octopus_core::Error::from(made),
            octopus_core::Error::KafkaUnauthorized
        );
        for (namespace, is_let) in [(&own, true), (&other, false)] {
            let mut open = Open::outside(Name::parse("readers").expect("a name"), Settings::default());
            open.namespace = namespace.clone();
            let consumer = client.consumer(&open, |_| {});
            let topic = octopus_core::TopicPartition::only("topic".into());
            let committed = consumer.run(Effect::Committed(vec![topic]), SOON).await;
            assert_eq!(committed.is_ok(), is_let, "{committed:?}");
        }
        before = Some(password);
    }
    assert!(service.revoke_key(&user, &own, SOON).await.expect("a revocation"));
    assert!(!service.revoke_key(&user, &own, SOON).await.expect("a revocation"));
    signed_out(|| keyed(before.expect("two keys"))).await;
    signed_out(|| keyed("the-first-secret")).await;
}

/// A cluster that the key of a user lets in; its nodes learn of keys one after the other.
async fn signed_in(keyed: impl Fn() -> Cluster) -> Cluster {
    let end = Instant::now() + SOON;
    loop {
        let cluster = keyed();
        match cluster.reach(SOON).await {
            Ok(()) => return cluster,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
}

async fn signed_out(keyed: impl Fn() -> Cluster) {
    let end = Instant::now() + SOON;
    while keyed().reach(SOON).await.is_ok() {
        assert!(Instant::now() < end, "the key is taken back");
    }
}

#[tokio::test]
async fn a_certificate_is_a_sign_in_too() {
    let Some(world) = world().await else { return };
    let tls = world.authority.client(Some(&world.authority.sign(&["octopus"])));
    let cluster = cluster(world.node.mutual_tls_address(), Some(tls), None);
    let topic = topic(&cluster).await;
    assert_eq!(write(&cluster, &topic).await, 0);
}

/// [ER-07] a real broker says it in its own way.
#[tokio::test]
async fn a_certificate_that_is_missing_is_asked_for() {
    let Some(world) = world().await else { return };
    let cluster = cluster(
        world.node.mutual_tls_address(),
        Some(world.authority.client(None)),
        None,
    );
    let why = cluster.reach(Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(why.kind(), Kind::Unreachable(_)), "{why}");
    assert!(why.to_string().contains("certificate"), "{why}");
}

/// [ER-05] what is wrong with the sign-in is said in one line without the password, and at once.
#[tokio::test]
async fn a_sign_in_that_is_refused_is_a_failure_at_once() {
    let Some(world) = world().await else { return };
    let wrong = "not-the-password-at-all";
    let ended = Renewed::new(token(Duration::ZERO));
    for (sasl, words) in [
        (Sasl::Plain(login(wrong)), "PLAIN: refused by the broker"),
        (
            Sasl::ScramSha256(login(wrong)),
            "SCRAM-SHA-256: refused by the broker",
        ),
        (
            Sasl::ScramSha512(login(wrong)),
            "SCRAM-SHA-512: refused by the broker",
        ),
        (Sasl::OAuthBearer(ended), "OAUTHBEARER: refused by the broker"),
    ] {
        let address = world.front.address("localhost");
        let began = Instant::now();
        let refused = cluster(&address, None, Some(sasl)).reach(SOON).await.unwrap_err();
        assert!(began.elapsed() < SOON, "{refused}");
        let Kind::SignIn(why) = refused.kind() else {
            panic!("{refused}")
        };
        assert!(why.starts_with(&address) && why.contains(words), "{why}");
        assert!(!why.contains(wrong) && why.lines().count() == 1, "{why}");
        assert_eq!(
            octopus_core::Error::from(refused),
            octopus_core::Error::KafkaFailed
        );
    }
}

/// [ER-05] a sign-in where none is wanted, and a mechanism that is not offered.
#[tokio::test]
async fn a_sign_in_that_the_port_does_not_take_is_a_failure() {
    let Some(world) = world().await else { return };
    for (address, words) in [
        (world.node.address().to_owned(), "the port wants no sign-in"),
        (
            world.front.address("localhost"),
            "the broker does not offer it, but ",
        ),
    ] {
        let sasl = Sasl::AwsMskIam {
            region: "us-east-1".to_owned(),
            credentials: Renewed::new(octopus_kafka::security::AwsCredentials {
                access_key_id: "AKID".to_owned(),
                secret_access_key: "secret".into(),
                session_token: None,
            }),
        };
        let refused = cluster(&address, None, Some(sasl)).reach(SOON).await.unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
}

/// [K20]
/// KIP-368: the node ends a connection that is used after its session; each of ours is used for several sessions, and no
/// other one is opened in its place. Members of groups stay that, and read what is written.
#[tokio::test]
async fn sessions_are_renewed_on_living_connections_and_nothing_is_lost() {
    if !is_asked_for() {
        return;
    }
    // Of its own, so that nobody else's connections are counted.
    let world = start().await;
    let warm = Barrier::new(4);
    let opened = AtomicUsize::new(0);
    let member = async |sasl: Sasl| {
        let mut member = Member::new(&world, sasl).await;
        // By then heartbeats have their connection too.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) || member.written < 10 {
            member.writes_and_reads().await;
        }
        if warm.wait().await.is_leader() {
            opened.store(world.front.accepted(), Ordering::Relaxed);
        }
        let (began, before) = (Instant::now(), member.read);
        while began.elapsed() < SESSION * 3 {
            member.writes_and_reads().await;
        }
        member.consumer.run(Effect::Close, SOON).await.unwrap();
        (member.read - before, member.written - member.read)
    };
    let [plain, sha256, sha512, oauth] = mechanisms();
    let members = tokio::join!(member(plain), member(sha256), member(sha512), member(oauth));
    for (read, unread) in [members.0, members.1, members.2, members.3] {
        assert!(read > 10 && unread <= 1, "{read} read and {unread} not");
    }
    assert_eq!(world.front.accepted(), opened.into_inner());
}

/// A member of a group that reads what it writes.
struct Member {
    cluster: Cluster,
    topic: String,
    consumer: Consumer,
    plan: FetchPlan,
    written: i64,
    read: i64,
}

impl Member {
    async fn new(world: &World, sasl: Sasl) -> Self {
        let cluster = cluster(&world.front.address("localhost"), None, Some(sasl));
        let topic = topic(&cluster).await;
        let mut settings = Settings::default();
        settings.auto_offset_reset = AutoOffsetReset::Earliest;
        let group = Name::parse(&topic).expect("a name");
        let consumer = cluster.consumer(&Open::outside(group, settings), |_| {});
        let plan = loop {
            let join = Join {
                topics: vec![topic.as_str().into()],
                commit: Vec::new(),
            };
            let joined = consumer.run(Effect::Join(join), SOON).await;
            if let Outcome::Joined(partitions) = joined.expect("a join") {
                break FetchPlan::of(partitions);
            }
        };
        Self {
            cluster,
            topic,
            consumer,
            plan,
            written: 0,
            read: 0,
        }
    }

    async fn writes_and_reads(&mut self) {
        assert_eq!(write(&self.cluster, &self.topic).await, self.written);
        self.written += 1;
        let polled = self.consumer.poll(&self.plan, Duration::from_millis(500)).await;
        let polled = polled.expect("a fetch");
        for (partition, start) in polled.started {
            self.plan.advance(&partition, start);
        }
        let mut commits = Vec::new();
        for (partition, mut records) in polled.parts {
            while let Some(record) = records.next() {
                assert_eq!(record.expect("a record").offset.0, self.read);
                self.read += 1;
            }
            self.plan.advance(&partition, records.position());
            commits.push(Commit {
                partition,
                position: records.position(),
                metadata: "".into(),
            });
        }
        let committed = self.consumer.run(Effect::Commit(commits), SOON).await;
        committed.expect("a commit");
    }
}
