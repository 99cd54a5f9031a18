//! Create: names, limits, and when there can be no instance at all.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use octopus_auth::{Caller, Checked, Credentials, TokenCheck};
use octopus_core::Limits;
use octopus_kafka::{
    Cluster, Config,
    broker::{ApiKey, always},
    testing::ClosedPort,
};
use octopus_server::Server;
use serde_json::{Value, json};

use crate::{
    client::{BINARY, Client, Response},
    raw::{GROUP, INSTANCE, Raw, is_error},
    service::Service,
    settings::last_min_bytes,
};

/// [CR-01] [CR-04] [CR-05] [CR-08] without a body: a name of the service's, binary, from the end, no commit of its own,
/// 5 s of waiting, and a broker that waits for one byte.
#[tokio::test]
async fn a_create_without_a_body_takes_every_default() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.write(&user, "t", &[b"old"]);
    let created = user.post(GROUP, "").await.expect(200).json();
    let name = created["instance_id"].as_str().unwrap();
    let instance = format!("{GROUP}/instances/{name}");
    assert_eq!(
        created["base_uri"],
        format!("http://{}{instance}", service.address)
    );
    assert_eq!(created.as_object().unwrap().len(), 2);
    assign(&user, &instance).await;

    let asked = service.asked(ApiKey::Fetch).len();
    let fetch = waiting(&service, &user, &instance).await;
    service.was_asked(ApiKey::Fetch, asked + 1).await;
    service.clock.advance(Duration::from_millis(4_999));
    still(&fetch).await;
    service.clock.advance(Duration::from_millis(1));
    assert_eq!(
        fetch.await.unwrap().expect(200).text(),
        "[]",
        "from the end, for 5 s"
    );
    assert_eq!(last_min_bytes(&service), 1);

    service.write(&user, "t", &[b"new"]);
    let records = service.soon(user.fetch(&instance, "", BINARY)).await.expect(200);
    assert_eq!(records.json()[0]["value"], "bmV3");
    user.delete(&instance).await.expect(204);
    assert_eq!(service.committed(&user, "g", "t"), None);
}

/// [CR-02] [D-07] [D-43] the names there may be, as the instance's and as the group's, and what is said of others.
#[tokio::test]
async fn names_keep_to_their_rule() {
    let service = Service::start().await;
    let user = service.user(1);
    let (longest, too_long) = ("x".repeat(128), "x".repeat(129));
    for name in [
        "a", "Z", "7", "0-", "my-group", "A.b_c-9", "a..b", "a.", "a-", &longest,
    ] {
        for field in ["name", "id"] {
            let created = create(&user, &json!({field: name})).await.expect(200).json();
            assert_eq!(created["instance_id"], name);
            user.delete(&format!("{GROUP}/instances/{name}"))
                .await
                .expect(204);
        }
        let group = format!("/api/v2/consumers/{name}");
        let created = user.post(&group, r#"{"name": "i"}"#).await.expect(200).json();
        let base_uri = created["base_uri"].as_str().unwrap();
        assert!(base_uri.ends_with(&format!("/{name}/instances/i")), "{base_uri}");
        user.delete(&format!("{group}/instances/i")).await.expect(204);
    }
    for name in [
        "",
        " ",
        ".",
        "..",
        ".a",
        "-a",
        "_a",
        "a b",
        " a",
        "a ",
        "a/b",
        "a\\b",
        "a:b",
        "a%20",
        "a+b",
        "ä",
        "٣",
        "a\0",
        "a\n",
        "a\r\nb",
        "i\u{200b}",
        &too_long,
    ] {
        for field in ["name", "id"] {
            let reply = create(&user, &json!({field: name})).await;
            is_error(
                &format!("{field} {name:?}"),
                &reply,
                422,
                42204,
                "The name must be 1 to 128",
            );
        }
        if !name.is_empty() {
            let segment: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let target = format!("/api/v2/consumers/{segment}");
            let reply = Raw::of(&user, "POST", &target)
                .body(r#"{"name": "i"}"#)
                .send()
                .await;
            is_error(
                &format!("group {name:?}"),
                &reply,
                422,
                42204,
                "The group must be 1 to 128",
            );
        }
    }
    for field in ["name", "id"] {
        for name in [json!(1), json!(true), json!(["i"]), json!({"i": 1}), json!(1.5)] {
            let reply = create(&user, &json!({field: name})).await;
            is_error(
                &format!("{field} {name}"),
                &reply,
                422,
                42204,
                "The name must be 1 to 128",
            );
        }
    }
}

/// [CR-03] [D-07] who names an instance: the body by `name` or `id`, or the service.
#[tokio::test]
async fn an_instance_without_a_name_is_given_twelve_digits() {
    let service = Service::start().await;
    let user = service.user(1);
    let mut given = Vec::new();
    for body in [
        json!({}),
        json!({"name": null}),
        json!({"id": null, "name": null}),
    ] {
        let created = create(&user, &body).await.expect(200).json();
        let name = created["instance_id"].as_str().unwrap().to_owned();
        assert_eq!(name.len(), 12, "{name}");
        assert!(
            name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
            "{name}"
        );
        user.get(&format!("{GROUP}/instances/{name}/subscription"))
            .await
            .expect(200);
        given.push(name);
    }
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), 3, "each its own");
    for name in given {
        user.delete(&format!("{GROUP}/instances/{name}"))
            .await
            .expect(204);
    }
    for (body, name) in [
        (json!({"id": "by-id"}), "by-id"),
        (json!({"id": "by-id-2", "name": "by-name"}), "by-id-2"),
        (json!({"id": null, "name": "by-name"}), "by-name"),
    ] {
        assert_eq!(create(&user, &body).await.expect(200).json()["instance_id"], name);
    }
}

/// [CR-09] [D-29] [LC-02] a name is taken once a group, also by one who is past the limit, until it is deleted.
#[tokio::test]
async fn a_name_that_the_group_has_is_409() {
    let service = Service::start().await;
    let user = service.user(1);
    for name in ["a", "b", "c", "d"] {
        create(&user, &json!({"name": name})).await.expect(200);
        for field in ["name", "id"] {
            let again = create(&user, &json!({field: name})).await;
            is_error(name, &again, 409, 40902, "already has");
        }
    }
    user.delete(&format!("{GROUP}/instances/a")).await.expect(204);
    user.post("/api/v2/consumers/h", r#"{"name": "b"}"#)
        .await
        .expect(200);
    is_error(
        "full",
        &create(&user, &json!({"name": "a"})).await,
        429,
        42901,
        "4",
    );
    user.delete("/api/v2/consumers/h/instances/b").await.expect(204);
    create(&user, &json!({"name": "a"})).await.expect(200);
}

/// [CR-10] a user's fifth instance, whatever its group, and the service's thirteenth; a delete makes room.
#[tokio::test]
async fn a_user_holds_4_instances_and_the_service_12() {
    let service = Service::start().await;
    let users = [1, 2, 3].map(|number| service.user(number));
    for user in &users {
        for group in ["g", "h"] {
            for name in ["a", "b"] {
                let path = format!("/api/v2/consumers/{group}");
                user.post(&path, &json!({"name": name}).to_string())
                    .await
                    .expect(200);
            }
        }
        if user.subject != users[2].subject {
            let fifth = user.post("/api/v2/consumers/i", "").await;
            is_error(
                "a user's fifth",
                &fifth,
                429,
                42901,
                "The user holds 4 consumer instances",
            );
            assert_eq!(fifth.header("retry-after"), None);
        }
    }
    let other = service.user(4);
    let thirteenth = other.post(GROUP, "").await;
    is_error(
        "the thirteenth",
        &thirteenth,
        429,
        42901,
        "The service holds 12 consumer instances",
    );
    users[0].delete(&format!("{GROUP}/instances/a")).await.expect(204);
    other.post(GROUP, "").await.expect(200);
    assert_eq!(users[0].post(GROUP, "").await.error(), (429, 42901));
    other.post(GROUP, "").await.expect(429);
}

/// [CR-11] while the instances close, a create is told to come again; [D-44] before it is told of anything else.
#[tokio::test]
async fn while_the_service_shuts_down_a_create_is_503() {
    let (mut service, user) = stopping().await;
    for name in ["i", "new"] {
        let reply = create(&user, &json!({"name": name})).await;
        is_error(name, &reply, 503, 503, "retry once it is back");
    }
    let wrong = create(&user, &json!({"name": "-"})).await;
    is_error("a field comes first", &wrong, 422, 42204, "name");
    service.clock.advance(Duration::from_secs(8));
    service.ended().await;
}

/// [CR-11] [D-44] without a Kafka endpoint.
#[tokio::test]
async fn without_a_kafka_endpoint_a_create_is_50002() {
    let mut limits = Limits::default();
    limits.max_instances = 0;
    let nowhere = |_| Server::builder(Arc::new(Anyone)).limits(limits);
    let service = Service::with(Limits::default(), nowhere).await;
    let user = service.user(1);
    is_error(
        "a create",
        &create(&user, &json!({})).await,
        500,
        50002,
        "no Kafka endpoint",
    );
    assert_eq!(user.delete(INSTANCE).await.error(), (404, 40403));
}

/// [D-41] [D-29] [D-44] [ER-07] a cluster that can't be reached: each create hears of it within its time, and leaves
/// nothing behind; one that is past the limit hears of that.
#[tokio::test]
async fn a_create_that_does_not_reach_kafka_leaves_nothing_behind() {
    let closed = ClosedPort::new().unwrap();
    let mut limits = Limits::default();
    assert!(
        limits.open_wait < Duration::from_secs(10),
        "it is refused within 10 s"
    );
    limits.open_wait = Duration::from_millis(100);
    let cluster = || Cluster::new(Config::new(vec![closed.address()]));
    let service = Service::with(limits.clone(), |builder| builder.cluster(cluster())).await;
    let user = service.user(1);
    for _ in 0..6 {
        let reply = create(&user, &json!({"name": "i"})).await;
        is_error("a create", &reply, 503, 50302, "retry");
        assert_eq!(user.delete(INSTANCE).await.error(), (404, 40403));
    }
    limits.max_instances_per_user = 0;
    let service = Service::with(limits, |builder| builder.cluster(cluster())).await;
    let reply = create(&service.user(1), &json!({"name": "i"})).await;
    is_error("past the limit", &reply, 429, 42901, "The user holds 0");
}

/// [D-41] one live connection to any broker is enough: a first address that nobody listens on is passed over.
#[tokio::test]
async fn one_broker_that_can_be_reached_is_enough() {
    let closed = ClosedPort::new().unwrap();
    let service = Service::start().await;
    let both = vec![closed.address(), service.broker.addr().to_string()];
    let cluster = Cluster::new(Config::new(both));
    let second = Service::with(Limits::default(), |builder| builder.cluster(cluster)).await;
    create(&second.user(1), &json!({"name": "i"})).await.expect(200);
}

/// [D-29] a create whose caller left before its answer is undone at once, and holds no name and no place.
#[tokio::test]
async fn a_create_that_was_not_answered_is_undone() {
    let mut limits = Limits::default();
    limits.max_instances = 1;
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    service.broker.faults().on(ApiKey::ApiVersions, always()).never();
    let mut connection = user.connect().await;
    connection
        .send(&user.head("POST", GROUP, &[], r#"{"name": "i"}"#))
        .await;
    service.was_asked(ApiKey::ApiVersions, 1).await;
    assert_eq!(create(&user, &json!({"name": "i"})).await.error(), (409, 40902));
    assert_eq!(create(&user, &json!({"name": "j"})).await.error(), (429, 42901));
    service.broker.faults().clear();
    drop(connection);
    let created = eventually(|| create_with(&user, "i"), |reply| reply.status != 409).await;
    created.expect(200);
}

/// A service that shuts down, as long as its clock stands: the last commit of one of a user's four instances is not
/// answered.
pub(crate) async fn stopping() -> (Service, Client) {
    let mut service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.write(&user, "t", &[b"0"]);
    for name in ["i", "b", "c", "d"] {
        let settings = json!({"name": name, "auto.offset.reset": "earliest", "auto.commit.enable": true});
        create(&user, &settings).await.expect(200);
    }
    assign(&user, INSTANCE).await;
    service.soon(user.fetch(INSTANCE, "", BINARY)).await.expect(200);
    service.broker.faults().on(ApiKey::OffsetCommit, always()).never();
    service.stop();
    (service, user)
}

pub(crate) async fn create(user: &Client, settings: &Value) -> Response {
    user.post(GROUP, &settings.to_string()).await
}

fn create_with<'a>(user: &'a Client, name: &'a str) -> Pin<Box<dyn Future<Output = Response> + 'a>> {
    Box::pin(async move { create(user, &json!({"name": name})).await })
}

/// Asks until the reply is one that is waited for.
async fn eventually<'a>(
    ask: impl Fn() -> Pin<Box<dyn Future<Output = Response> + 'a>>,
    is_it: impl Fn(&Response) -> bool,
) -> Response {
    for _ in 0..10_000 {
        let reply = ask().await;
        if is_it(&reply) {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it does not come");
}

pub(crate) async fn assign(user: &Client, instance: &str) {
    let partitions = r#"{"partitions": [{"topic": "t", "partition": 0}]}"#;
    user.post(&format!("{instance}/assignments"), partitions)
        .await
        .expect(204);
}

/// A fetch beside the test that names no wait, once the service has it.
pub(crate) async fn waiting(
    service: &Service,
    user: &Client,
    instance: &str,
) -> tokio::task::JoinHandle<Response> {
    let came = service.arrivals();
    let (user, instance) = (user.clone(), instance.to_owned());
    let fetch = tokio::spawn(async move { user.fetch(&instance, "", BINARY).await });
    service.arrived(came + 1).await;
    fetch
}

/// Whoever is told of what happened until here has been, and it is not this fetch.
pub(crate) async fn still(fetch: &tokio::task::JoinHandle<Response>) {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!fetch.is_finished());
}

/// Lets everyone in.
pub(crate) struct Anyone;

impl TokenCheck for Anyone {
    fn check<'a>(&'a self, credentials: &'a Credentials) -> Checked<'a> {
        Box::pin(async { credentials.subject().map(Caller::of) })
    }
}
