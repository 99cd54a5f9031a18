//! Users, keys, namespaces and topics, as the Python SDK calls them.

use std::time::Duration;

use octopus_core::{Error, Limits};
use octopus_kafka::broker::{ApiKey, always, first};
use octopus_server::Server;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    client::{Client, Response, V2},
    raw::{Raw, is_error},
    service::{Service, on_kafka},
};

/// The methods and paths of all these routes, for a topic.
fn routes(user: &Client) -> [(&'static str, String); 8] {
    [
        ("POST", "/api/v3/user".to_owned()),
        ("DELETE", "/api/v3/user".to_owned()),
        ("POST", "/api/v3/key".to_owned()),
        ("DELETE", "/api/v3/key".to_owned()),
        ("GET", "/api/v3/namespace".to_owned()),
        ("POST", topic(user, "topic")),
        ("DELETE", topic(user, "topic")),
        ("PUT", format!("{}/recreate", topic(user, "topic"))),
    ]
}

pub(crate) fn namespace(user: &Client) -> String {
    format!("ns-{}", &user.subject[24..])
}

/// The path of a user's topic.
pub(crate) fn topic(user: &Client, topic: &str) -> String {
    format!("/api/v3/{}/{topic}", namespace(user))
}

/// The body of a reply that succeeded, whose message has these words.
#[track_caller]
pub(crate) fn success(reply: Response, words: &str) -> Value {
    let reply = reply.expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let mut body = reply.json();
    assert_eq!(body["status"].take(), json!("success"), "{body}");
    let message = body["message"].take();
    assert!(message.as_str().unwrap().contains(words), "{message}");
    let body = body.as_object_mut().unwrap();
    body.retain(|_, value| !value.is_null());
    Value::Object(body.clone())
}

pub(crate) async fn listed(user: &Client) -> Value {
    let mut body = success(user.get("/api/v3/namespace").await, "Found 1 namespace");
    body["namespaces"][namespace(user)].take()
}

/// [NS-01] [NS-02] the walk through a topic's life, in the form that the SDK reads.
#[tokio::test]
async fn a_topic_is_made_listed_made_anew_and_deleted() {
    let service = Service::start().await;
    let user = service.user(1);
    let (path, name) = (topic(&user, "my-topic"), on_kafka(&user, "my-topic"));
    assert_eq!(listed(&user).await, json!([]));

    let made = success(user.post(&path, "").await, "Topic my-topic created in ns-");
    assert_eq!(made, json!({"topics": ["my-topic"]}));
    assert_eq!(service.broker.end_offset(&name), Some(0));
    let again = success(user.post(&path, "").await, "already exists");
    assert_eq!(again, json!({"topics": ["my-topic"]}));
    let other = success(user.post(&topic(&user, "A_9"), "").await, "created");
    assert_eq!(other, json!({"topics": ["A_9", "my-topic"]}));
    assert_eq!(listed(&user).await, json!(["A_9", "my-topic"]));

    service.write(&user, "my-topic", &[b"1", b"2"]);
    let anew = user.send("PUT", &format!("{path}/recreate"), &[], "").await;
    assert_eq!(success(anew, "recreated"), json!({}));
    assert_eq!(service.broker.end_offset(&name), Some(0));
    assert_eq!(listed(&user).await, json!(["A_9", "my-topic"]));

    let gone = success(user.delete(&path).await, "Topic my-topic deleted from ns-");
    assert_eq!(gone, json!({"topics": ["A_9"]}));
    assert_eq!(service.broker.end_offset(&name), None);
    let again = success(user.delete(&path).await, "not found");
    assert_eq!(again, json!({"topics": ["A_9"]}));
}

/// A user comes, and goes with all its topics and nobody else's.
#[tokio::test]
async fn a_user_is_made_and_deleted_with_its_topics() {
    let service = Service::start().await;
    let (user, other) = (service.user(1), service.user(2));
    let named = json!({"subject": user.subject, "namespace": namespace(&user)});
    for _ in 0..2 {
        let made = success(user.post("/api/v3/user", "").await, &user.subject);
        assert_eq!(made, named);
    }
    for user in [&user, &other] {
        for name in ["abc", "def"] {
            success(user.post(&topic(user, name), "").await, "created");
        }
        // Of a namespace is also what others made in it.
        service.topic(user, "made.elsewhere");
    }
    assert_eq!(listed(&user).await, json!(["abc", "def", "made.elsewhere"]));
    for _ in 0..2 {
        assert_eq!(success(user.delete("/api/v3/user").await, "deleted"), json!({}));
        assert_eq!(listed(&user).await, json!([]));
    }
    assert_eq!(listed(&other).await, json!(["abc", "def", "made.elsewhere"]));
}

/// [NS-04] what one server makes or deletes is so for another one at once.
#[tokio::test]
async fn a_second_server_on_the_cluster_sees_it_at_once() {
    let service = Service::start().await;
    let another = service.another(|builder, _| builder).await;
    let (user, there) = (service.user(1), another.user(1));
    success(there.post(&topic(&user, "abc"), "").await, "created");
    success(user.post(&topic(&user, "abc"), "").await, "already exists");
    assert_eq!(listed(&user).await, json!(["abc"]));
    user.post("/api/v2/consumers/g", r#"{"name": "i"}"#)
        .await
        .expect(200);
    let subscribe = "/api/v2/consumers/g/instances/i/subscription";
    let topics = r#"{"topics": ["abc"]}"#;
    user.post(subscribe, topics).await.expect(204);
    success(there.delete(&topic(&user, "abc")).await, "deleted");
    assert_eq!(listed(&user).await, json!([]));
    assert_eq!(user.post(subscribe, topics).await.error(), (404, 40401));
}

/// [NS-06]
#[tokio::test]
async fn a_namespace_holds_fifty_topics() {
    let service = Service::start().await;
    let user = service.user(1);
    for number in 1..50 {
        service.topic(&user, &format!("topic-{number}"));
    }
    // Those of others do not count, and of many at once one is made.
    service.topic(&service.user(2), "topic-50");
    let new = ["new-1", "new-2", "new-3", "new-4"];
    let made = new.map(|name| {
        let (user, path) = (user.clone(), topic(&user, name));
        tokio::spawn(async move { user.post(&path, "").await })
    });
    let mut refused = 0;
    for reply in made {
        let reply = reply.await.unwrap();
        if reply.status != 200 {
            is_error("a 51st topic", &reply, 429, 42901, "holds 50 topics");
            assert_eq!(reply.header("retry-after"), None, "a wait does not cure it");
            refused += 1;
        }
    }
    assert_eq!(refused, 3);
    assert_eq!(listed(&user).await.as_array().unwrap().len(), 50);
    // One that is there is no new one.
    success(user.post(&topic(&user, "topic-1"), "").await, "already exists");
    success(user.delete(&topic(&user, "topic-1")).await, "deleted");
    success(user.post(&topic(&user, "new-5"), "").await, "created");
}

/// [NS-06] servers that make topics of one namespace in the same moment stay within the limit: what counts last is taken back.
#[tokio::test]
async fn servers_that_know_nothing_of_each_other_stay_within_fifty_topics() {
    let service = Service::start().await;
    let servers = [
        service.another(|builder, _| builder).await,
        service.another(|builder, _| builder).await,
        service.another(|builder, _| builder).await,
    ];
    let user = service.user(1);
    for number in 0..45 {
        service.topic(&user, &format!("topic-{number}"));
    }
    for round in 0..5 {
        let mut asked = Vec::new();
        for (at, server) in servers.iter().enumerate() {
            for number in 0..2 {
                let user = server.user(1);
                asked.push(tokio::spawn(async move {
                    let name = format!("new-{round}-{at}-{number}");
                    (user.post(&topic(&user, &name), "").await.status, name)
                }));
            }
        }
        let mut made = Vec::new();
        for reply in asked {
            match reply.await.unwrap() {
                (200, name) => made.push(name),
                (status, name) => assert_eq!(status, 429, "{name}"),
            }
        }
        let all = listed(&user).await;
        let all: Vec<&str> = all.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(all.len() <= 50, "{round}: {all:?}");
        assert_eq!(
            all.len(),
            45 + made.len(),
            "{round}: what was refused is not there"
        );
        assert!(made.iter().all(|name| all.contains(&name.as_str())), "{round}");
        for name in &made {
            success(user.delete(&topic(&user, name)).await, "deleted");
        }
    }
}

/// [NS-06] the number is a setting.
#[tokio::test]
async fn the_most_topics_are_set() {
    let mut limits = Limits::default();
    limits.max_topics = 1;
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    success(user.post(&topic(&user, "abc"), "").await, "created");
    let reply = user.post(&topic(&user, "def"), "").await;
    is_error("a second topic", &reply, 429, 42901, "holds 1 topics");
}

#[tokio::test]
async fn a_new_topics_name_is_3_to_32_letters_digits_dashes_or_underscores() {
    let service = Service::start().await;
    let user = service.user(1);
    let longest = "x".repeat(32);
    for name in ["abc", "a-b_C9", &longest] {
        success(user.post(&topic(&user, name), "").await, name);
    }
    for name in [
        "ab",
        "a.b.c",
        "a%20b",
        "a%2Fb",
        "abc%C3%A4",
        "abc%00",
        &format!("{longest}x"),
        "%2561bc",
    ] {
        let reply = user.post(&topic(&user, name), "").await;
        is_error(
            name,
            &reply,
            422,
            42204,
            "3 to 32 letters, digits, dashes or underscores",
        );
        // No namespace holds it, and none is made by asking.
        success(user.delete(&topic(&user, name)).await, "not found");
        let path = format!("{}/recreate", topic(&user, name));
        let reply = user.send("PUT", &path, &[], "").await;
        assert_eq!(reply.error(), (404, 40401), "{name}");
    }
    assert_eq!(listed(&user).await, json!(["a-b_C9", "abc", longest]));
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_not_made_anew() {
    let service = Service::start().await;
    let user = service.user(1);
    let path = format!("{}/recreate", topic(&user, "abc"));
    let reply = user.send("PUT", &path, &[], "").await;
    is_error(
        "recreate",
        &reply,
        404,
        40401,
        "Topic abc not found in the namespace",
    );
    assert!(service.asked(ApiKey::CreateTopics).is_empty());
}

/// Another's namespace is refused in the same words whether there is one, whether it holds the topic, and whatever it is
/// called.
#[tokio::test]
async fn no_route_tells_of_anothers_namespace() {
    let service = Service::start().await;
    let (user, other) = (service.user(1), service.user(2));
    success(other.post(&topic(&other, "abc"), "").await, "created");
    let own = namespace(&user);
    let upper = own.to_uppercase();
    let mut messages = Vec::new();
    for foreign in [
        &namespace(&other),
        "ns-000000000000",
        "x",
        "user",
        "%20",
        "..",
        &upper,
    ] {
        for (method, rest) in [
            ("POST", "abc"),
            ("POST", "x"),
            ("DELETE", "abc"),
            ("DELETE", "def"),
            ("PUT", "abc/recreate"),
            ("PUT", "def/recreate"),
        ] {
            let path = format!("/api/v3/{foreign}/{rest}");
            let reply = Raw::of(&user, method, &path).send().await;
            is_error(&path, &reply, 403, 40301, &own);
            messages.push(reply.text().to_owned());
        }
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(listed(&other).await, json!(["abc"]));
}

/// [ER-01] the embedded broker keeps no users.
#[tokio::test]
async fn a_cluster_without_users_gives_out_no_keys() {
    let service = Service::start().await;
    let user = service.user(1);
    for method in ["POST", "DELETE"] {
        let reply = user.send(method, "/api/v3/key", &[], "").await;
        is_error(method, &reply, 400, 40002, "The cluster gives out no keys");
    }
    // A secret can't be read back.
    let reply = user.get("/api/v3/key").await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("DELETE, POST")));
}

/// [AU-01] [AU-02] [CT-05] [D-01] the order of refusals is that of the other routes; a body is read and ignored.
#[tokio::test]
async fn these_routes_refuse_in_the_same_order() {
    let service = Service::start().await;
    let (user, other) = (service.user(1), service.user(2));
    for (method, path) in routes(&user) {
        let request = Raw::of(&user, method, &path);
        let large = "x".repeat(65_537);
        for header in ["subject", "authorization"] {
            let reply = request.clone().without(header).body(&large).send().await;
            is_error(&path, &reply, 422, 422, header);
            assert_eq!(reply.header("content-type"), Some("application/json"));
        }
        let reply = request
            .clone()
            .set("subject", &other.subject)
            .body(&large)
            .send()
            .await;
        is_error(&path, &reply, 401, 40101, "authorization: Bearer TOKEN");
        let reply = request.clone().body(&large).send().await;
        is_error(&path, &reply, 413, 41301, "64 KiB");
        // No type of a body is wrong where none is taken.
        let reply = request
            .add("Content-Type", "text/plain")
            .body("not JSON")
            .send()
            .await;
        let is_right = match (method, path.as_str()) {
            (_, "/api/v3/key") => reply.status == 400,
            ("PUT", _) => reply.status == 404,
            _ => reply.status == 200,
        };
        assert!(is_right, "{method} {path}: {reply:?}");
    }
    let foreign = Raw::of(&user, "POST", &topic(&other, "x")).body("x".repeat(65_537));
    assert_eq!(foreign.send().await.error(), (413, 41301));
}

/// [RT-02] [RT-03] [D-09]
#[tokio::test]
async fn paths_and_methods_that_are_none_are_404_and_405() {
    let service = Service::start().await;
    let user = service.user(1);
    for (path, allow) in [
        ("/api/v3/user".to_owned(), "DELETE, POST"),
        ("/api/v3/key/".to_owned(), "DELETE, POST"),
        ("/api/v3/namespace".to_owned(), "GET"),
        (topic(&user, "abc"), "DELETE, POST"),
        (format!("{}/recreate", topic(&user, "abc")), "PUT"),
    ] {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"] {
            if allow.split(", ").any(|allowed| allowed == method) {
                continue;
            }
            let reply = Raw::of(&user, method, &path).without("subject").send().await;
            assert_eq!(reply.status, 405, "{method} {path}");
            assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
            assert_eq!(reply.header("content-type"), Some(V2));
        }
    }
    for path in [
        "/api/v3",
        "/api/v3/users",
        "/api/v3/namespace/x/y/z",
        "/api/v3//abc",
    ] {
        let reply = user.post(path, "").await;
        assert_eq!(
            (reply.status, reply.json()),
            (404, json!({"detail": "Not Found"})),
            "{path}"
        );
    }
}

/// [ER-02] [ER-04] [ER-05] [ER-06] [RT-04] what Kafka says of a change has its row and no words of Kafka's.
#[tokio::test]
async fn each_error_of_kafka_has_its_row_here_too() {
    let mut limits = Limits::default();
    limits.call_wait = Duration::from_millis(500);
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    service.topic(&user, "here");
    let recreate = format!("{}/recreate", topic(&user, "here"));
    let asks = [
        ("POST", topic(&user, "new"), ApiKey::CreateTopics),
        ("DELETE", topic(&user, "here"), ApiKey::DeleteTopics),
        ("PUT", recreate, ApiKey::DeleteTopics),
        ("GET", "/api/v3/namespace".to_owned(), ApiKey::Metadata),
    ];
    for (method, path, api) in &asks[..3] {
        for (code, row) in [
            (44, Error::KafkaInvalid),
            (29, Error::KafkaUnauthorized),
            (31, Error::KafkaUnauthorized),
            (89, Error::Throttled),
            (7, Error::KafkaRetriable),
            (-1, Error::KafkaFailed),
        ] {
            service.broker.faults().on(*api, first(1)).error(code);
            let reply = user.send(method, path, &[], "").await;
            let expected = (row.code().status(), u64::from(row.code().error_code()));
            assert_eq!(reply.error(), expected, "{method} {path} {code}");
            assert_eq!(reply.json()["message"], row.to_string());
            service.broker.faults().clear();
        }
    }
    for (method, path, api) in &asks {
        service.broker.faults().on(*api, always()).never();
        let reply = user.send(method, path, &[], "").await;
        assert_eq!(reply.error(), (500, 50003), "{method} {path}");
        service.broker.faults().clear();
    }
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "here")), Some(0));
}

/// A topic that is made anew is there in the end, though its caller left in the middle.
#[tokio::test]
async fn a_change_ends_whole_though_its_caller_leaves() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "abc");
    service.write(&user, "abc", &[b"1"]);
    let (seen, mut deleted) = tokio::sync::mpsc::unbounded_channel();
    service.broker.observe(move |api, _, _| {
        if api == ApiKey::DeleteTopics {
            let _ = seen.send(());
        }
    });
    let mut connection = user.connect().await;
    let path = format!("{}/recreate", topic(&user, "abc"));
    connection.send(&user.head("PUT", &path, &[], "")).await;
    deleted.recv().await.unwrap();
    drop(connection);
    // The next change of the namespace comes behind it.
    success(user.post(&topic(&user, "abc"), "").await, "already exists");
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "abc")), Some(0));
}

/// [CR-11] [ER-07] without a cluster, and with one that is not there.
#[tokio::test]
async fn without_kafka_these_routes_say_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::builder(Service::tokens()).start();
    let serving = tokio::spawn(server.serve(listener, async { _ = stopped.await }));
    let service = Service::start().await;
    let user = Client {
        address,
        ..service.user(1)
    };
    for (method, path) in routes(&user) {
        let reply = user.send(method, &path, &[], "").await;
        is_error(&path, &reply, 500, 50002, "no Kafka endpoint");
    }
    drop(stop);
    serving.await.unwrap();
}
