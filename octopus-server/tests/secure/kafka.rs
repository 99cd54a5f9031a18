//! The walk on a real Kafka with TLS and a sign-in.

use std::{env, time::Duration};

use octopus_kafka::{
    Cluster, Config, Security,
    records::{BatchWriter, Compression},
    security::{Login, Sasl, Tls, Trust},
    testing::{Node, Secured},
};
use serde_json::json;
use tokio::{sync::OnceCell, time::timeout};

use crate::{
    OwnFile, self_signed,
    support::{client::JSON, kafka::on_kafka, server::Server},
};

const PASSWORD: &str = "the-password-of-octopus";
const SOON: Duration = Duration::from_secs(30);

/// The node of all tests, and its certificate.
struct World {
    node: Node,
    certificate: String,
}

/// `None` where no real Kafka is asked for.
async fn world() -> Option<&'static World> {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    env::var_os("OCTOPUS_TEST_KAFKA")?;
    Some(WORLD.get_or_init(begin).await)
}

async fn begin() -> World {
    let (certificate, key) = self_signed();
    let secured = Secured {
        identity: format!("{key}{certificate}"),
        clients: certificate.clone(),
        password: PASSWORD.to_owned(),
        session: Duration::from_secs(60),
        advertised: None,
    };
    let node = tokio::task::spawn_blocking(move || Node::start_secured(&secured))
        .await
        .unwrap()
        .unwrap();
    World { node, certificate }
}

impl World {
    /// The cluster as this user sees it.
    fn cluster(&self, username: &str, password: &str) -> Cluster {
        let mut config = Config::new(vec![self.node.sasl_tls_address().to_owned()]);
        let tls = Tls::new(Trust::Pem(self.certificate.as_bytes()), None).unwrap();
        let login = Login {
            username: username.to_owned(),
            password: password.into(),
        };
        config.security = Security::new(Some(tls), Some(Sasl::ScramSha512(login)));
        Cluster::new(config)
    }
}

fn flags(mechanism: &str, password: &OwnFile, ca: &OwnFile) -> [String; 5] {
    flags_of("octopus", mechanism, password, ca)
}

fn flags_of(username: &str, mechanism: &str, password: &OwnFile, ca: &OwnFile) -> [String; 5] {
    [
        "--kafka-security-protocol=SASL_SSL".to_owned(),
        format!("--kafka-sasl-mechanism={mechanism}"),
        format!("--kafka-sasl-username={username}"),
        format!("--kafka-sasl-password-file={}", password.path()),
        format!("--kafka-ca-file={}", ca.path()),
    ]
}

/// A caller's own Kafka client is let in by a key of the service's, into the caller's namespace and no other; a new key ends
/// the one before, a deleted one its user; no log has a secret.
#[tokio::test]
async fn a_key_lets_a_callers_own_client_into_its_namespace() {
    let Some(world) = world().await else { return };
    let (ca, password) = (OwnFile::new(&world.certificate), OwnFile::new(PASSWORD));
    let flags = flags("SCRAM-SHA-512", &password, &ca);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let server = Server::start(world.node.sasl_tls_address(), &flags).await;
    let (user, other) = (server.user(0), server.user(1));
    for user in [&user, &other] {
        let path = format!("/api/v3/ns-{}/events", &user.subject[24..]);
        user.post(&path, "").await.expect(200);
    }
    let record = || {
        let mut batch = BatchWriter::new(Compression::None);
        batch.push(0, None, Some(b"1"), &[]);
        batch.finish()
    };
    let mut secrets = Vec::new();
    for _ in 0..2 {
        let reply = user.post("/api/v3/key", "").await.expect(200);
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let key = reply.json();
        let secret = key["secret_key"].as_str().unwrap().to_owned();
        assert_eq!(
            key,
            json!({
                "status": "success",
                "message": "Key created; it can't be read again, and any earlier one has ended",
                "access_key": user.subject,
                "secret_key": secret,
                "create_date": key["create_date"],
                "endpoint": world.node.sasl_tls_address(),
                "fresh": true,
            })
        );
        let date = key["create_date"].as_str().unwrap();
        assert!(
            date.ends_with('Z') && date.len() == "2030-01-31T12:00:00Z".len(),
            "{date}"
        );
        let cluster = let_in(|| world.cluster(&user.subject, &secret)).await;
        let own = on_kafka(&user, "events");
        cluster.produce(&own, record(), SOON).await.unwrap();
        let foreign = on_kafka(&other, "events");
        let refused = cluster.produce(&foreign, record(), SOON).await.unwrap_err();
        assert_eq!(
            octopus_core::Error::from(refused),
            octopus_core::Error::KafkaUnauthorized
        );
        secrets.push(secret);
    }
    assert_ne!(secrets[0], secrets[1]);
    kept_out(|| world.cluster(&user.subject, &secrets[0])).await;
    for words in ["Key deleted", "There is no key to delete"] {
        let gone = user.delete("/api/v3/key").await.expect(200).json();
        assert_eq!(gone, json!({"status": "success", "message": words}));
    }
    kept_out(|| world.cluster(&user.subject, &secrets[1])).await;

    let key = user.post("/api/v3/key", "").await.expect(200).json();
    secrets.push(key["secret_key"].as_str().unwrap().to_owned());
    let_in(|| world.cluster(&user.subject, &secrets[2])).await;

    // A service that may change neither users nor topics, for it signs in with that key.
    let password = OwnFile::new(&secrets[2]);
    let flags = flags_of(&user.subject, "SCRAM-SHA-512", &password, &ca);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let small = Server::start(world.node.sasl_tls_address(), &flags).await;
    let stranger = small.user(0);
    assert_eq!(stranger.post("/api/v3/key", "").await.error(), (403, 40301));
    assert_eq!(stranger.delete("/api/v3/key").await.error(), (403, 40301));
    let path = format!("/api/v3/ns-{}/events", &stranger.subject[24..]);
    assert_eq!(stranger.post(&path, "").await.error(), (403, 40301));
    assert_eq!(
        stranger
            .send("PUT", &format!("{path}/recreate"), &[], "")
            .await
            .error(),
        (403, 40301)
    );
    // It never made a key, and there is no topic to delete.
    stranger.delete("/api/v3/user").await.expect(200);
    assert!(
        small.log().contains("the service may not change users"),
        "{}",
        small.log()
    );

    user.delete("/api/v3/user").await.expect(200);
    kept_out(|| world.cluster(&user.subject, &secrets[2])).await;
    for secret in secrets {
        assert!(!server.log().contains(&secret), "{}", server.log());
    }
}

/// The cluster, once it lets a user in; nodes learn of keys a moment later.
async fn let_in(cluster: impl Fn() -> Cluster) -> Cluster {
    let tried = async {
        loop {
            let cluster = cluster();
            if cluster.reach(SOON).await.is_ok() {
                return cluster;
            }
        }
    };
    timeout(SOON, tried).await.expect("the key lets its user in")
}

async fn kept_out(cluster: impl Fn() -> Cluster) {
    let tried = async { while cluster().reach(SOON).await.is_ok() {} };
    timeout(SOON, tried).await.expect("the key has ended");
}

/// A caller reads and commits over SASL_SSL; a wrong password is 50002 [ER-05], a wrong CA
/// 50302 [ER-07]; no log has the password.
#[tokio::test]
async fn records_are_read_over_tls_with_a_sign_in() {
    let Some(world) = world().await else { return };
    let World { node, certificate } = world;
    let ca = OwnFile::new(certificate);
    let (right, wrong) = (
        OwnFile::new(PASSWORD),
        OwnFile::new("not-the-password-of-octopus"),
    );
    let strange = OwnFile::new(&self_signed().0);
    let start = async |flags: [String; 5]| {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        Server::start(node.sasl_tls_address(), &flags).await
    };

    let cluster = world.cluster("octopus", PASSWORD);

    let server = start(flags("SCRAM-SHA-256", &right, &ca)).await;
    let user = server.user(0);
    let topic = on_kafka(&user, "events");
    cluster.create_topic(&topic, SOON).await.unwrap();
    let create = json!({"name": "i", "format": "json", "auto.offset.reset": "earliest"}).to_string();
    user.post("/api/v2/consumers/g", &create).await.expect(200);
    let instance = "/api/v2/consumers/g/instances/i";
    let subscription = json!({"topics": ["events"]}).to_string();
    user.post(&format!("{instance}/subscription"), &subscription)
        .await
        .expect(204);
    for number in 0..3 {
        let mut batch = BatchWriter::new(Compression::None);
        batch.push(0, None, Some(format!("{{\"n\":{number}}}").as_bytes()), &[]);
        cluster.produce(&topic, batch.finish(), SOON).await.unwrap();
        let records = user.fetch_some(instance, "?timeout=5000", JSON).await;
        assert_eq!(records[0]["value"], json!({"n": number}));
        user.post(&format!("{instance}/offsets"), "").await.expect(200);
    }
    user.delete(instance).await.expect(204);

    let refused = start(flags("SCRAM-SHA-512", &wrong, &ca)).await;
    let reply = refused.user(0).post("/api/v2/consumers/g", "{}").await;
    assert_eq!(reply.error(), (500, 50002));
    let unknown = start(flags("PLAIN", &right, &strange)).await;
    let reply = unknown.user(0).post("/api/v2/consumers/g", "{}").await;
    assert_eq!(reply.error(), (503, 50302));
    for (server, words) in [
        (&refused, "SCRAM-SHA-512: refused by the broker"),
        (&unknown, "the certificate is refused: its issuer is not trusted"),
    ] {
        let log = server.log();
        assert_eq!(
            log.matches(words).count(),
            log.lines().filter(|line| line.contains(words)).count()
        );
        assert!(
            log.lines()
                .any(|line| line.contains("WARN") && line.contains(words)),
            "{log}"
        );
    }
    for server in [&server, &refused, &unknown] {
        assert!(!server.log().contains("password-of-octopus"), "{}", server.log());
    }
}
