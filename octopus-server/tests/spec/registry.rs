//! Namespaces whose topics a registry names.

use std::{sync::Arc, time::Duration};

use octopus_kafka::broker::{ApiKey, first, nth};
use octopus_server::topics::{REGISTRY, RegistryTopics};
use serde_json::{Value, json};

use crate::{
    client::Client,
    namespaces::{listed, namespace, success, topic},
    raw::is_error,
    service::{Another, Service, on_kafka},
};

/// Another server on the service's broker, with a registry.
async fn server(service: &Service) -> Another {
    let registry =
        |builder: octopus_server::Builder, cluster| builder.topics(Arc::new(RegistryTopics::new(cluster)));
    service.another(registry).await
}

async fn namespaces(user: &Client) -> Value {
    let body = success(user.get("/api/v3/namespace").await, "Found");
    body["namespaces"].clone()
}

async fn subscribe(user: &Client, topics: &[&str]) -> u16 {
    let path = "/api/v2/consumers/g/instances/i";
    user.delete(path).await;
    let create = r#"{"name": "i"}"#;
    user.post("/api/v2/consumers/g", create).await.expect(200);
    let body = json!({"topics": topics}).to_string();
    user.post(&format!("{path}/subscription"), &body).await.status
}

/// [NS-04] a namespace is made, holds what was made in it by these routes and nothing else, and goes.
#[tokio::test]
async fn a_namespace_holds_what_its_record_names() {
    let service = Service::start().await;
    let server = server(&service).await;
    let user = server.user(1);
    assert_eq!(namespaces(&user).await, json!({}));
    success(user.post("/api/v3/user", "").await, &user.subject);
    assert_eq!(namespaces(&user).await, json!({namespace(&user): []}));
    // On Kafka by itself, it is none of the namespace's.
    service.topic(&user, "elsewhere");
    assert_eq!(subscribe(&user, &["elsewhere"]).await, 404);
    let nothing = success(user.delete(&topic(&user, "elsewhere")).await, "not found");
    assert_eq!(nothing, json!({"topics": []}));
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "elsewhere")), Some(0));
    let path = format!("{}/recreate", topic(&user, "elsewhere"));
    assert_eq!(user.send("PUT", &path, &[], "").await.error(), (404, 40401));

    let made = success(user.post(&topic(&user, "abc"), "").await, "created");
    assert_eq!(made, json!({"topics": ["abc"]}));
    success(user.post(&topic(&user, "abc"), "").await, "already exists");
    // What is there already is taken in.
    let taken = success(user.post(&topic(&user, "elsewhere"), "").await, "created");
    assert_eq!(taken, json!({"topics": ["abc", "elsewhere"]}));
    assert_eq!(subscribe(&user, &["abc", "elsewhere"]).await, 204);

    service.write(&user, "abc", &[b"1"]);
    let path = format!("{}/recreate", topic(&user, "abc"));
    success(user.send("PUT", &path, &[], "").await, "recreated");
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "abc")), Some(0));

    let gone = success(user.delete(&topic(&user, "abc")).await, "deleted");
    assert_eq!(gone, json!({"topics": ["elsewhere"]}));
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "abc")), None);
    for _ in 0..2 {
        success(user.delete("/api/v3/user").await, "deleted");
        assert_eq!(namespaces(&user).await, json!({}));
    }
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "elsewhere")), None);
    // The first topic makes the namespace too.
    success(user.post(&topic(&user, "abc"), "").await, "created");
    assert_eq!(namespaces(&user).await, json!({namespace(&user): ["abc"]}));
}

/// [NS-05] a topic that is registered and not on Kafka is held, and made only where it is asked for.
#[tokio::test]
async fn a_registered_topic_that_kafka_lost_is_held_and_made_again_on_demand() {
    let service = Service::start().await;
    let server = server(&service).await;
    let user = server.user(1);
    success(user.post(&topic(&user, "abc"), "").await, "created");
    let name = on_kafka(&user, "abc");
    assert!(service.broker.delete_topic(&name));
    assert_eq!(listed(&user).await, json!(["abc"]));
    assert_eq!(subscribe(&user, &["abc"]).await, 204);
    assert_eq!(service.broker.end_offset(&name), None);
    success(user.post(&topic(&user, "abc"), "").await, "created");
    assert_eq!(service.broker.end_offset(&name), Some(0));
    assert!(service.broker.delete_topic(&name));
    let path = format!("{}/recreate", topic(&user, "abc"));
    success(user.send("PUT", &path, &[], "").await, "recreated");
    assert_eq!(service.broker.end_offset(&name), Some(0));
    assert!(service.broker.delete_topic(&name));
    success(user.delete(&topic(&user, "abc")).await, "deleted");
    assert_eq!(listed(&user).await, json!([]));
}

/// A restart forgets nothing, and each server sees at once what another one did.
#[tokio::test]
async fn servers_agree_and_a_restart_forgets_nothing() {
    let service = Service::start().await;
    let [mut one, other] = [server(&service).await, server(&service).await];
    let there = other.user(1);
    for round in 0..5 {
        let here = one.user(1);
        let (mine, theirs) = (format!("mine-{round}"), format!("theirs-{round}"));
        success(here.post(&topic(&here, &mine), "").await, "created");
        success(there.post(&topic(&there, &mine), "").await, "already exists");
        success(there.post(&topic(&there, &theirs), "").await, "created");
        let both = json!([mine, theirs]);
        assert_eq!(listed(&here).await, both);
        assert_eq!(subscribe(&here, &[&mine, &theirs]).await, 204);
        one = server(&service).await;
        let here = one.user(1);
        assert_eq!(listed(&here).await, both);
        success(here.delete(&topic(&here, &theirs)).await, "deleted");
        assert_eq!(listed(&there).await, json!([mine]));
        assert_eq!(subscribe(&there, &[&theirs]).await, 404);
        success(there.delete(&topic(&there, &mine)).await, "deleted");
        assert_eq!(listed(&here).await, json!([]));
    }
}

/// [NS-06] three servers that make topics of one namespace at the same time lose none, and never go past the limit.
#[tokio::test]
async fn a_namespace_holds_fifty_topics_over_all_servers() {
    let service = Service::start().await;
    let servers = [
        server(&service).await,
        server(&service).await,
        server(&service).await,
    ];
    let mut asked = Vec::new();
    for number in 0..20 {
        for (at, server) in servers.iter().enumerate() {
            let user = server.user(1);
            asked.push(tokio::spawn(async move {
                let name = format!("topic-{at}-{number}");
                let reply = user.post(&topic(&user, &name), "").await;
                (name, reply)
            }));
        }
    }
    let (mut made, mut refused) = (Vec::new(), 0);
    for reply in asked {
        let (name, reply) = reply.await.unwrap();
        if reply.status == 200 {
            made.push(name);
        } else {
            is_error(&name, &reply, 429, 42901, "holds 50 topics");
            refused += 1;
        }
    }
    made.sort();
    assert_eq!((made.len(), refused), (50, 10));
    for server in &servers {
        assert_eq!(listed(&server.user(1)).await, json!(made));
    }
    for name in &made {
        let on_kafka = on_kafka(&servers[0].user(1), name);
        assert_eq!(service.broker.end_offset(&on_kafka), Some(0), "{name}");
    }
}

/// Records are written to what the registry names, and to nothing else, whichever server made or deleted it.
#[tokio::test]
async fn records_are_written_to_registered_topics_alone() {
    let service = Service::start().await;
    let [one, other] = [server(&service).await, server(&service).await];
    let (here, there) = (one.user(1), other.user(1));
    let record = r#"{"value": {"type": "JSON", "data": 1}}"#;
    let write = async |user: &Client, name: &str| {
        let path = format!("/api/v3/{}/topics/{name}/records", namespace(user));
        let reply = user.send("POST", &path, &[("Content-Type", "application/json")], record);
        let reply = reply.await;
        (reply.status, reply.json()["error_code"].as_u64().unwrap())
    };
    service.topic(&here, "elsewhere");
    assert_eq!(write(&here, "elsewhere").await, (404, 40401));
    assert_eq!(write(&here, "abc").await, (404, 40401));
    success(there.post(&topic(&there, "abc"), "").await, "created");
    for user in [&here, &there, &here] {
        assert_eq!(write(user, "abc").await, (200, 200));
    }
    success(there.delete(&topic(&there, "abc")).await, "deleted");
    // This one knew the topic, and Kafka says that it is gone.
    for user in [&here, &there] {
        assert_eq!(write(user, "abc").await, (404, 40401));
    }
    success(there.post(&topic(&there, "abc"), "").await, "created");
    assert_eq!(write(&here, "abc").await, (200, 200));
    assert_eq!(service.broker.end_offset(&on_kafka(&here, "abc")), Some(1));
    assert_eq!(service.broker.end_offset(&on_kafka(&here, "elsewhere")), Some(0));
}

/// A topic that Kafka refuses is not held either, and takes no place.
#[tokio::test]
async fn a_topic_that_kafka_refuses_is_not_registered() {
    let service = Service::start().await;
    let server = server(&service).await;
    let user = server.user(1);
    success(user.post("/api/v3/user", "").await, &user.subject);
    service
        .broker
        .faults()
        .on(ApiKey::CreateTopics, first(1))
        .error(44);
    let refused = user.post(&topic(&user, "abc"), "").await;
    is_error("create", &refused, 400, 40002, "refused the topic name");
    assert_eq!(listed(&user).await, json!([]));
    // One that could not be deleted is still held.
    success(user.post(&topic(&user, "abc"), "").await, "created");
    service
        .broker
        .faults()
        .on(ApiKey::DeleteTopics, first(1))
        .error(29);
    let refused = user.delete(&topic(&user, "abc")).await;
    is_error("delete", &refused, 403, 40301, "not authorized");
    assert_eq!(listed(&user).await, json!(["abc"]));
}

/// Records of others in the registry, and a registry that is another one, are got over.
#[tokio::test]
async fn what_is_none_of_ours_in_the_registry_changes_nothing() {
    let service = Service::start().await;
    let server = server(&service).await;
    let user = server.user(1);
    success(user.post(&topic(&user, "abc"), "").await, "created");
    let own = namespace(&user);
    for (key, value) in [
        (None, Some(&b"{}"[..])),
        (Some(&b"\xff"[..]), None),
        (Some(own.as_bytes()), None),
        (Some(own.as_bytes()), Some(br#"{"topics": ["def"]}"#)),
        (Some(own.as_bytes()), Some(b"no JSON")),
        (Some(format!("{own}/x").as_bytes()), Some(b"no JSON")),
        (Some(format!("{own}/x").as_bytes()), None),
    ] {
        let mut batch = octopus_kafka::records::BatchWriter::new(octopus_kafka::records::Compression::None);
        batch.push(0, key, value, &[]);
        service.broker.append(REGISTRY, batch.finish()).unwrap();
        assert_eq!(listed(&user).await, json!(["abc"]));
    }
    success(user.post(&topic(&user, "def"), "").await, "created");
    assert_eq!(listed(&user).await, json!(["abc", "def"]));
    assert!(service.broker.delete_topic(REGISTRY));
    let reply = user.get("/api/v3/namespace").await;
    assert_eq!(reply.error(), (500, 50003));
    assert_eq!(namespaces(&user).await, json!({}));
    success(user.post(&topic(&user, "ghi"), "").await, "created");
    assert_eq!(listed(&user).await, json!(["ghi"]));
}

/// [NS-04] one server makes a topic while another one deletes it: of the two answers it follows what there is then, on Kafka
/// and in the namespace, and no record outlives a deletion.
#[tokio::test]
async fn a_topic_that_is_made_and_deleted_at_once_is_there_or_not() {
    let service = Service::start().await;
    let [one, other] = [server(&service).await, server(&service).await];
    let (here, there) = (one.user(1), other.user(1));
    let slow = Duration::from_millis(150);
    for round in 0..24 {
        let name = format!("topic-{round}");
        let on_kafka = on_kafka(&here, &name);
        success(here.post(&topic(&here, &name), "").await, "created");
        service.write(&here, &name, &[b"old"]);
        // Each of the deletion's steps is the slow one in turn.
        let faults = service.broker.faults();
        match round % 6 {
            0 => faults.on(ApiKey::DeleteTopics, first(1)).delay(slow),
            1 => faults.on(ApiKey::Produce, first(1)).topic(REGISTRY).delay(slow),
            2 => faults.on(ApiKey::Produce, nth(2)).topic(REGISTRY).delay(slow),
            3 => faults.on(ApiKey::CreateTopics, first(1)).delay(slow),
            _ => {}
        }
        let path = topic(&here, &name);
        let late = Duration::from_millis(20 * (round / 6));
        let (gone, made) = tokio::join!(here.delete(&path), async {
            tokio::time::sleep(late).await;
            there.post(&path, "").await
        });
        faults.clear();
        success(gone, "deleted");
        let made = made.expect(200).json()["message"].to_string();
        let listed = [listed(&here).await, listed(&there).await];
        if made.contains("already exists") {
            // It came before the deletion.
            assert_eq!(listed, [json!([]), json!([])], "{round}");
            assert_eq!(service.broker.end_offset(&on_kafka), None, "{round}");
        } else {
            assert_eq!(listed, [json!([name]), json!([name])], "{round}");
            assert_eq!(service.broker.end_offset(&on_kafka), Some(0), "{round}");
            success(there.delete(&path).await, "deleted");
        }
    }
}

/// [NS-04] a topic that is being made is deleted once it is made, and a topic that is made anew stays.
#[tokio::test]
async fn a_change_waits_for_that_of_another_server() {
    let service = Service::start().await;
    let [one, other] = [server(&service).await, server(&service).await];
    let (here, there) = (one.user(1), other.user(1));
    let path = topic(&here, "abc");
    success(here.post("/api/v3/user", "").await, &here.subject);
    let slow = Duration::from_millis(300);
    let faults = service.broker.faults();
    faults.on(ApiKey::CreateTopics, first(1)).delay(slow);
    let (made, gone) = tokio::join!(here.post(&path, ""), async {
        while listed(&there).await != json!(["abc"]) {}
        there.delete(&path).await
    });
    success(made, "created");
    success(gone, "deleted");
    assert_eq!(listed(&here).await, json!([]));
    assert_eq!(service.broker.end_offset(&on_kafka(&here, "abc")), None);

    success(here.post(&path, "").await, "created");
    service.write(&here, "abc", &[b"old"]);
    faults.on(ApiKey::DeleteTopics, first(1)).delay(slow);
    let before = service.asked(ApiKey::DeleteTopics).len();
    let again = format!("{path}/recreate");
    let (anew, made) = tokio::join!(here.send("PUT", &again, &[], ""), async {
        while service.asked(ApiKey::DeleteTopics).len() == before {
            tokio::task::yield_now().await;
        }
        assert_eq!(listed(&there).await, json!(["abc"]));
        there.post(&path, "").await
    });
    success(anew, "recreated");
    success(made, "already exists");
    assert_eq!(service.broker.end_offset(&on_kafka(&here, "abc")), Some(0));
    assert_eq!(listed(&there).await, json!(["abc"]));
}

/// What a server had begun that is not there any more is ended by the next one: no record outlives its topic.
#[tokio::test]
async fn what_a_dead_server_had_begun_is_taken_over() {
    let service = Service::start().await;
    let soon = |builder: octopus_server::Builder, cluster| {
        let mut limits = octopus_core::Limits::default();
        limits.call_wait = Duration::from_secs(2);
        builder
            .limits(limits)
            .topics(Arc::new(RegistryTopics::new(cluster)))
    };
    let server = service.another(soon).await;
    let user = server.user(1);
    assert_eq!(namespaces(&user).await, json!({}));
    let stages =
        json!({"made": {"coming": "dead-0"}, "gone": {"leaving": "dead-0"}, "anew": {"renewing": "dead-0"}});
    for name in ["made", "gone", "anew"] {
        service.topic(&user, name);
        service.write(&user, name, &[b"old"]);
    }
    let value = json!({"version": 1, "topics": stages}).to_string();
    let mut batch = octopus_kafka::records::BatchWriter::new(octopus_kafka::records::Compression::None);
    let key = format!("{}/dead-0", namespace(&user));
    batch.push(0, Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    service.broker.append(REGISTRY, batch.finish()).unwrap();
    assert_eq!(listed(&user).await, json!(["anew", "made"]));
    for (name, left) in [("gone", 0), ("anew", 0), ("made", 1)] {
        success(user.post(&topic(&user, name), "").await, "created");
        assert_eq!(
            service.broker.end_offset(&on_kafka(&user, name)),
            Some(left),
            "{name}"
        );
    }
    assert_eq!(listed(&user).await, json!(["anew", "gone", "made"]));
    success(user.delete("/api/v3/user").await, "deleted");
    assert_eq!(namespaces(&user).await, json!({}));
}

/// [ER-05] who had a topic made anew hears that it is gone where Kafka does not make it, and can make it.
#[tokio::test]
async fn a_topic_that_kafka_does_not_make_anew_is_said_to_be_deleted() {
    let service = Service::start().await;
    let server = server(&service).await;
    let (cluster, registry) = (service.user(2), server.user(1));
    for user in [cluster, registry] {
        let path = topic(&user, "abc");
        let again = format!("{path}/recreate");
        success(user.post(&path, "").await, "created");
        service.write(&user, "abc", &[b"old"]);
        let faults = service.broker.faults();
        // Tried again where it may pass.
        for code in [7, 89] {
            faults.on(ApiKey::CreateTopics, first(1)).error(code);
            success(user.send("PUT", &again, &[], "").await, "recreated");
            assert_eq!(service.broker.end_offset(&on_kafka(&user, "abc")), Some(0));
            faults.clear();
        }
        faults.on(ApiKey::CreateTopics, first(1)).error(44);
        let failed = user.send("PUT", &again, &[], "").await;
        is_error(
            "recreate",
            &failed,
            500,
            50002,
            "Topic abc was deleted with its records",
        );
        faults.clear();
        assert_eq!(service.broker.end_offset(&on_kafka(&user, "abc")), None);
        assert_eq!(listed(&user).await, json!([]));
        success(user.post(&path, "").await, "created");
        // Before the deletion nothing is lost.
        faults.on(ApiKey::DeleteTopics, first(1)).error(29);
        let refused = user.send("PUT", &again, &[], "").await;
        is_error("recreate", &refused, 403, 40301, "not authorized");
        faults.clear();
        success(user.post(&path, "").await, "already exists");
    }
}

/// A read of the registry serves all who wait for it, and a topic that is known is written to meanwhile.
#[tokio::test]
async fn those_who_wait_for_the_registry_share_a_read() {
    let service = Service::start().await;
    let server = server(&service).await;
    let user = server.user(1);
    success(user.post(&topic(&user, "abc"), "").await, "created");
    let path = format!("/api/v3/{}/topics/abc/records", namespace(&user));
    let record = r#"{"value": {"type": "JSON", "data": 1}}"#;
    let headers = [("Content-Type", "application/json")];
    // The producer is there then.
    user.send("POST", &path, &headers, record).await.expect(200);
    let (before, faults) = (service.asked(ApiKey::ListOffsets).len(), service.broker.faults());
    faults
        .on(ApiKey::ListOffsets, first(1))
        .delay(Duration::from_millis(1500));
    let lists: Vec<_> = (0..30)
        .map(|number| {
            let user = server.user(1 + number % 3);
            tokio::spawn(async move { namespaces(&user).await })
        })
        .collect();
    while service.asked(ApiKey::ListOffsets).len() == before {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        user.send("POST", &path, &headers, record).await.expect(200);
    }
    assert!(lists.iter().all(|list| !list.is_finished()));
    for list in lists {
        list.await.unwrap();
    }
    let asked = service.asked(ApiKey::ListOffsets).len() - before;
    assert!(asked <= 6, "{asked} reads");
}

/// [ER-05] a registry of several partitions keeps no order: it is refused, and left as it is.
#[tokio::test]
async fn a_registry_that_is_none_is_refused() {
    let service = Service::start().await;
    assert!(service.broker.create_topic_with(REGISTRY, 3));
    let server = server(&service).await;
    let user = server.user(1);
    for _ in 0..2 {
        assert_eq!(user.get("/api/v3/namespace").await.error(), (500, 50002));
        assert_eq!(user.post(&topic(&user, "abc"), "").await.error(), (500, 50002));
    }
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "abc")), None);
    // It is used once it is one.
    assert!(service.broker.delete_topic(REGISTRY));
    success(user.post(&topic(&user, "abc"), "").await, "created");
}
