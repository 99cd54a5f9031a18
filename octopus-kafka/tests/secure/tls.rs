//! TLS: who is believed, and what is said of who is not.

use std::time::Duration;

use octopus_kafka::{
    Cluster, Config, Kind, Security,
    broker::{self, Broker},
    records::{BatchWriter, Compression},
    security::Tls,
};

use super::{
    certificate::{Authority, Signed},
    front::{Front, acceptor},
};

const SOON: Duration = Duration::from_secs(30);

/// A client of one address.
fn cluster(address: String, tls: Option<Tls>) -> Cluster {
    let mut config = Config::new(vec![address]);
    config.security = Security::new(tls, None);
    Cluster::new(config)
}

/// An embedded broker behind TLS, at `localhost`.
async fn behind_tls(shown: &Signed, clients: Option<&str>) -> (Broker, Front) {
    let mut front = Front::new();
    let mut config = broker::Config::default();
    config.advertised = Some(("localhost".to_owned(), front.port));
    let broker = Broker::start(config).await.expect("an embedded broker");
    front.serve(broker.addr().to_string(), Some(acceptor(shown, clients)));
    (broker, front)
}

/// Why the cluster can't be reached.
async fn unreached(cluster: &Cluster) -> String {
    let reached = cluster.reach(Duration::from_secs(2)).await;
    let error = reached.expect_err("it can't be reached");
    let Kind::Unreachable(why) = error.kind() else {
        panic!("{error}")
    };
    let why = why.to_string();
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaUnreachable,
        "{why}"
    );
    assert_eq!(why.lines().count(), 1, "{why}");
    why
}

async fn writes_and_lists(cluster: &Cluster) {
    cluster.create_topic("t", SOON).await.expect("a topic");
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(0, None, Some(&[b'x'; 100_000]), &[]);
    let offset = cluster.produce("t", batch.finish(), SOON).await.expect("a write");
    assert_eq!(offset, 0);
}

#[tokio::test]
async fn everything_goes_over_tls_where_it_is_asked_for() {
    let authority = Authority::new("ours");
    let (_broker, front) = behind_tls(&authority.sign(&["localhost"]), None).await;
    let cluster = cluster(front.address("localhost"), Some(authority.client(None)));
    writes_and_lists(&cluster).await;
    assert!(front.accepted() >= 2);
}

#[tokio::test]
async fn an_address_in_a_certificate_counts_as_a_name() {
    let authority = Authority::new("ours");
    let (_broker, front) = behind_tls(&authority.sign(&["127.0.0.1"]), None).await;
    let cluster = cluster(front.address("127.0.0.1"), Some(authority.client(None)));
    cluster.reach(SOON).await.unwrap();
}

/// The certificate is checked against what the broker advertises, and not only where it was first reached.
#[tokio::test]
async fn a_broker_that_advertises_another_name_than_its_certificates_is_not_believed() {
    let authority = Authority::new("ours");
    let (_broker, front) = behind_tls(&authority.sign(&["127.0.0.1"]), None).await;
    let cluster = cluster(front.address("127.0.0.1"), Some(authority.client(None)));
    cluster.reach(SOON).await.unwrap();
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(0, None, Some(b"x"), &[]);
    cluster
        .create_topic("t", Duration::from_secs(2))
        .await
        .unwrap_err();
}

/// [ER-07] each certificate that is not to be believed.
#[tokio::test]
async fn a_certificate_that_does_not_hold_is_refused_and_the_line_says_why() {
    let [authority, stranger, namesake] = ["ours", "a stranger", "ours"].map(Authority::new);
    for (shown, words) in [
        (
            authority.sign_expired(&["localhost"]),
            "the certificate is refused: certificate expired",
        ),
        (
            authority.sign(&["elsewhere.example.org"]),
            r#"the certificate is refused: certificate not valid for name "localhost""#,
        ),
        (
            stranger.sign(&["localhost"]),
            "the certificate is refused: its issuer is not trusted",
        ),
        (
            namesake.sign(&["localhost"]),
            "the certificate is refused: its issuer is not trusted",
        ),
    ] {
        let (_broker, front) = behind_tls(&shown, None).await;
        let address = front.address("localhost");
        let why = unreached(&cluster(address.clone(), Some(authority.client(None)))).await;
        assert!(why.starts_with(&address) && why.contains(words), "{why}");
    }
}

/// [ER-07] mutual TLS.
#[tokio::test]
async fn a_broker_that_wants_a_certificate_gets_ours_and_no_other_will_do() {
    let (authority, clients) = (Authority::new("brokers"), Authority::new("clients"));
    let (_broker, front) = behind_tls(&authority.sign(&["localhost"]), Some(&clients.pem())).await;
    let address = front.address("localhost");
    let ours = clients.sign(&["octopus"]);
    writes_and_lists(&cluster(address.clone(), Some(authority.client(Some(&ours))))).await;

    let why = unreached(&cluster(address.clone(), Some(authority.client(None)))).await;
    assert!(why.contains("it wants a client certificate"), "{why}");
    let strangers = authority.sign(&["octopus"]);
    let why = unreached(&cluster(address, Some(authority.client(Some(&strangers))))).await;
    assert!(why.contains("it refused the TLS handshake"), "{why}");
}

/// [ER-07]
#[tokio::test]
async fn a_plaintext_port_behind_a_tls_setting_is_called_that() {
    let broker = Broker::start(broker::Config::default()).await.unwrap();
    let address = broker.addr().to_string();
    let why = unreached(&cluster(address, Some(Authority::new("ours").client(None)))).await;
    assert!(why.contains("is it a plaintext port?"), "{why}");
}

/// [ER-05] [ER-07]
#[tokio::test]
async fn a_tls_port_behind_a_plaintext_setting_is_called_that() {
    let authority = Authority::new("ours");
    let (_broker, front) = behind_tls(&authority.sign(&["localhost"]), None).await;
    let why = unreached(&cluster(front.address("localhost"), None)).await;
    assert!(why.contains("a TLS port answered"), "{why}");
}
