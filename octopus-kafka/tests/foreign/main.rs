//! The embedded broker and clients that are not ours: librdkafka and kafka-python, where `OCTOPUS_TEST_PYTHON` names a
//! Python that has `confluent-kafka` and `kafka-python`.

use std::{collections::BTreeMap, process::Command, time::Duration};

use octopus_kafka::broker::{ApiKey, Broker, Config, ConnectionId, Users, nth};

/// Runs a script of `tests/foreign/` with arguments and gives the lines that it printed; `None` without a Python.
async fn python(script: &str, args: &[&str]) -> Option<Vec<String>> {
    let python = std::env::var_os("OCTOPUS_TEST_PYTHON")?;
    let mut command = Command::new(python);
    command
        .arg(format!("{}/tests/foreign/{script}", env!("CARGO_MANIFEST_DIR")))
        .args(args);
    let output = tokio::task::spawn_blocking(move || command.output().expect("a Python that runs"));
    let output = output.await.expect("no panic");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).expect("text");
    Some(lines.lines().map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_sign_in_by_every_mechanism_and_not_with_a_wrong_password() {
    let mut config = Config::default();
    config.users = Users::from_iter([("ann", "s=cr,t é")]);
    let broker = Broker::start(config).await.unwrap();
    broker.create_topic("t");
    let address = broker.addr().to_string();
    for client in ["librdkafka", "kafka-python"] {
        for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
            for (password, said) in [("s=cr,t é", "['t']"), ("wrong", "refused")] {
                let args = [client, &address, mechanism, "ann", password];
                let Some(lines) = python("sign_in.py", &args).await else {
                    return;
                };
                assert_eq!(lines, [said], "{args:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn librdkafka_signs_in_again_before_its_session_ends() {
    let mut config = Config::default();
    config.users = Users::from_iter([("ann", "secret")]);
    config.max_session = Some(Duration::from_secs(4));
    let broker = Broker::start(config).await.unwrap();
    broker.create_topic("t");
    let address = broker.addr().to_string();
    let Some(lines) = python("write_on.py", &[&address, "ann", "secret", "t"]).await else {
        return;
    };
    assert_eq!(lines, ["written 60"]);
    assert_eq!(broker.end_offset("t"), Some(60));
    let mut sign_ins: BTreeMap<ConnectionId, (usize, usize)> = BTreeMap::new();
    for request in broker.requests() {
        let (sign_ins, writes) = sign_ins.entry(request.connection).or_default();
        *sign_ins += usize::from(request.api == ApiKey::SaslHandshake);
        *writes += usize::from(request.api == ApiKey::Produce);
    }
    // On a machine that is busy it may be late once, and begin anew with another connection.
    let longest = sign_ins.values().max_by_key(|(_, writes)| *writes).unwrap();
    assert!(longest.0 >= 3 && longest.1 > 15, "{sign_ins:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_librdkafka_share_a_group_that_the_broker_assigns_in() {
    let mut config = Config::default();
    config.consumer_heartbeat_interval = Duration::from_millis(200);
    for assignor in ["uniform", "range"] {
        let broker = Broker::start(config.clone()).await.unwrap();
        broker.create_topic_with("t", 4);
        let address = broker.addr().to_string();
        let Some(lines) = python("consumers.py", &[&address, "t", assignor]).await else {
            return;
        };
        let alone = "alone [0, 1, 2, 3]";
        assert_eq!(
            lines,
            [
                alone,
                "shared 2 2 together [0, 1, 2, 3]",
                "read 100 committed 100",
                alone
            ]
        );
        let committed = broker.committed("g", "t");
        assert!(committed.is_some_and(|offset| offset > 0), "{committed:?}");
    }
}

/// Batches that were lost, refused, appended without an answer, or sent to a broker that has started anew: librdkafka has
/// five of them on their way at a time.
#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_producer_of_librdkafka_writes_each_record_once() {
    const COUNT: usize = 4000;
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.data = Some(folder.path().to_owned());
    config.initial_rebalance_delay = Duration::ZERO;
    let broker = Broker::start(config.clone()).await.unwrap();
    broker.create_topic("t");
    let faults = broker.faults();
    faults.on(ApiKey::Produce, nth(3)).cut_after(0);
    faults.on(ApiKey::Produce, nth(9)).error(19);
    faults.on(ApiKey::Produce, nth(15)).error(6);
    faults.on(ApiKey::Produce, nth(21)).cut_after(20);
    faults.on(ApiKey::Produce, nth(27)).close();
    let (address, count) = (broker.addr().to_string(), COUNT.to_string());
    let args = [address.as_str(), "t", count.as_str()];
    let anew = async {
        let half = i64::try_from(COUNT / 2).unwrap();
        while std::env::var_os("OCTOPUS_TEST_PYTHON").is_some() && broker.end_offset("t") < Some(half) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        config.listen = broker.addr();
        broker.shutdown().await;
        Broker::start(config).await.unwrap()
    };
    let (Some(lines), broker) = tokio::join!(python("idempotent.py", &args), anew) else {
        return;
    };
    assert_eq!(lines, ["written 4000", "in order"]);
    assert_eq!(broker.end_offset("t"), Some(i64::try_from(COUNT).unwrap()));
}
