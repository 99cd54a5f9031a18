//! The walk on a real Kafka with TLS and a sign-in.

use std::{env, time::Duration};

use octopus_kafka::{
    Cluster, Config, Security,
    records::{BatchWriter, Compression},
    security::{Login, Sasl, Tls, Trust},
    testing::{Node, Secured},
};
use serde_json::json;

use crate::{
    OwnFile, self_signed,
    support::{client::JSON, kafka::on_kafka, server::Server},
};

const PASSWORD: &str = "the-password-of-octopus";
const SOON: Duration = Duration::from_secs(30);

/// A caller reads and commits over SASL_SSL; a wrong password is 50002 [ER-05], a wrong CA
/// 50302 [ER-07]; no log has the password.
#[tokio::test]
async fn records_are_read_over_tls_with_a_sign_in() {
    if env::var("OCTOPUS_TEST_KAFKA").as_deref() != Ok("maven") {
        return;
    }
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
    let ca = OwnFile::new(&certificate);
    let (right, wrong) = (
        OwnFile::new(PASSWORD),
        OwnFile::new("not-the-password-of-octopus"),
    );
    let strange = OwnFile::new(&self_signed().0);
    let flags = |mechanism: &'static str, password: &OwnFile, ca: &OwnFile| {
        [
            "--kafka-security-protocol=SASL_SSL".to_owned(),
            format!("--kafka-sasl-mechanism={mechanism}"),
            "--kafka-sasl-username=octopus".to_owned(),
            format!("--kafka-sasl-password-file={}", password.path()),
            format!("--kafka-ca-file={}", ca.path()),
        ]
    };
    let start = async |flags: [String; 5]| {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        Server::start(node.sasl_tls_address(), &flags).await
    };

    let mut config = Config::new(vec![node.sasl_tls_address().to_owned()]);
    let tls = Tls::new(Trust::Pem(certificate.as_bytes()), None).unwrap();
    let login = Login {
        username: "octopus".to_owned(),
        password: PASSWORD.into(),
    };
    config.security = Security::new(Some(tls), Some(Sasl::ScramSha512(login)));
    let cluster = Cluster::new(config);

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
