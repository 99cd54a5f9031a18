//! The order of refusals: a request with every fault hears of them one by one, in the order of the decision, as they are
//! mended.

use std::time::Duration;

use octopus_kafka::broker::{ApiKey, first};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    client::{BINARY, Client, JSON, Response, V2},
    raw::{GROUP, Raw, is_error},
    reader::{Reader, partitions},
    service::Service,
};

/// A fault: the status and the code that tell of it, a word of the message, and what mends it.
type Fault<'a> = (u16, u64, &'a str, Box<dyn Fn(Raw) -> Raw + 'a>);

/// A user's instances: `held`, which another request holds, `wrong`, which can't do what is asked, and `good`.
struct World {
    service: Service,
    user: Client,
    holder: Option<JoinHandle<Response>>,
}

impl World {
    async fn start() -> Self {
        let service = Service::start().await;
        let user = service.user(1);
        for topic in ["t", "u"] {
            service.topic(&user, topic);
            service.fill(&user, topic, 1);
        }
        service.topic(&user, "quiet");
        for name in ["held", "wrong", "good"] {
            service.reader(&user, "g", name, json!({})).await;
        }
        Self {
            service,
            user,
            holder: None,
        }
    }

    fn reader(&self, name: &str) -> Reader {
        Reader {
            user: self.user.clone(),
            path: format!("{GROUP}/instances/{name}"),
            accept: BINARY,
        }
    }

    /// Has a fetch that finds nothing for 30 s hold the instance `held`.
    async fn hold(&mut self) {
        let held = self.reader("held");
        held.assign(&["quiet"]).await;
        let came = self.service.arrivals();
        self.holder = Some(held.fetch("?timeout=30000"));
        self.service.arrived(came + 1).await;
    }

    /// Sends a request, mends what it is told of, and sends it again, until it has no fault.
    async fn is_told(&self, mut request: Raw, faults: Vec<Fault<'_>>) -> Response {
        for (status, code, words, mend) in faults {
            let reply = if code == 40904 {
                self.send_to_held(&request).await
            } else {
                request.send().await
            };
            let what = format!(
                "{} {}, before {words:?} is mended",
                request.method, request.target
            );
            if code == 0 {
                let detail = if status == 404 {
                    "Not Found"
                } else {
                    "Method Not Allowed"
                };
                assert_eq!(
                    (reply.status, reply.json()),
                    (status, json!({"detail": detail})),
                    "{what}"
                );
            } else {
                is_error(&what, &reply, status, code, words);
            }
            request = mend(request);
        }
        request.send().await
    }

    /// The reply to a request that waits for a held instance until it has waited too long.
    async fn send_to_held(&self, request: &Raw) -> Response {
        let request = request.clone();
        let mut reply = tokio::spawn(async move { request.send().await });
        for _ in 0..30 {
            // Kafka is asked for its topics before it waits.
            if let Ok(reply) = tokio::time::timeout(Duration::from_millis(200), &mut reply).await {
                return reply.unwrap();
            }
            self.service.clock.advance(Duration::from_secs(1));
        }
        panic!("it waits on");
    }
}

/// The faults that a request of any route with a body may have before its body is read, in order.
fn before_the_body<'a>(user: &'a Client, method: &'a str, target: &'a str) -> (Raw, Vec<Fault<'a>>) {
    let request = Raw::of(user, "BREW", "/api/v2/consumer/nobody")
        .set("Host", "a b")
        .without("subject")
        .without("authorization")
        .add("Content-Type", "text/plain")
        .body(format!("{{{}", " ".repeat(64 * 1024)));
    let faults: Vec<Fault<'a>> = vec![
        (400, 400, "Host", Box::new(|r| r.set("Host", "octopus.example"))),
        (404, 0, "", Box::new(|r| at(r, target))),
        (405, 0, "", Box::new(|r| by(r, method))),
        (422, 422, "subject", Box::new(|r| r.set("subject", "nobody"))),
        (
            422,
            422,
            "authorization",
            Box::new(|r| r.set("authorization", "Bearer x")),
        ),
        (401, 40101, "UUID", Box::new(|r| r.set("subject", &user.subject))),
        (
            401,
            40101,
            "token",
            Box::new(|r| r.set("authorization", format!("Bearer {}", user.token))),
        ),
        (415, 415, "content type", Box::new(|r| r.set("Content-Type", V2))),
        (413, 41301, "64 KiB", Box::new(|r| r.body("{"))),
    ];
    (request, faults)
}

/// [D-01] [D-44] a create: a name that is taken comes before the limit, and its fields before both.
#[tokio::test]
async fn a_create_is_told_of_its_faults_in_order() {
    let world = World::start().await;
    world.user.post(GROUP, r#"{"name": "fourth"}"#).await.expect(200);
    let (request, mut faults) = before_the_body(&world.user, "POST", "/api/v2/consumers/-g");
    let more: Vec<Fault<'_>> = vec![
        (400, 40003, "JSON", Box::new(|r| r.body(r#"{"format": "avro"}"#))),
        (422, 42204, "group", Box::new(|r| at(r, GROUP))),
        (422, 422, "format", Box::new(|r| r.body(r#"{"name": "good"}"#))),
        (
            409,
            40902,
            "already has",
            Box::new(|r| r.body(r#"{"name": "fifth"}"#)),
        ),
    ];
    faults.extend(more);
    let reply = world.is_told(request, faults).await;
    is_error("past the limit", &reply, 429, 42901, "The user holds 4");
}

/// [D-01] a subscribe.
#[tokio::test]
async fn a_subscribe_is_told_of_its_faults_in_order() {
    let mut world = World::start().await;
    world.hold().await;
    world.reader("wrong").assign(&["t"]).await;
    let target = path("nobody", "subscription");
    let (request, mut faults) = before_the_body(&world.user, "POST", &target);
    let more: Vec<Fault<'_>> = vec![
        (400, 40003, "JSON", Box::new(|r| r.body(r#"{"topics": [1]}"#))),
        (422, 422, "topics", Box::new(|r| r.body(r#"{"topics": []}"#))),
        (
            422,
            42204,
            "topics",
            Box::new(|r| r.body(r#"{"topics": ["missing"]}"#)),
        ),
        (
            404,
            40403,
            "instance",
            Box::new(|r| at(r, &path("held", "subscription"))),
        ),
        (
            404,
            40401,
            "Topic missing",
            Box::new(|r| r.body(r#"{"topics": ["t"]}"#)),
        ),
        (
            409,
            40904,
            "retry",
            Box::new(|r| at(r, &path("wrong", "subscription"))),
        ),
        (
            409,
            40903,
            "unsubscribe",
            Box::new(|r| at(r, &path("good", "subscription"))),
        ),
    ];
    faults.extend(more);
    world.is_told(request, faults).await.expect(204);
}

/// [D-01] an assign.
#[tokio::test]
async fn an_assign_is_told_of_its_faults_in_order() {
    let mut world = World::start().await;
    world.hold().await;
    world.reader("wrong").subscribe(&["t"]).await;
    let target = path("nobody", "assignments");
    let (request, mut faults) = before_the_body(&world.user, "POST", &target);
    let of = |topic: &str, partition: &str| {
        format!(r#"{{"partitions": [{{"topic": "{topic}", "partition": {partition}}}]}}"#)
    };
    let more: Vec<Fault<'_>> = vec![
        (
            400,
            40003,
            "JSON",
            Box::new(move |r| r.body(of("missing", "true"))),
        ),
        (
            422,
            422,
            "partition",
            Box::new(move |r| r.body(of("missing", "1"))),
        ),
        (
            404,
            40403,
            "instance",
            Box::new(|r| at(r, &path("held", "assignments"))),
        ),
        (
            404,
            40402,
            "Partition 1",
            Box::new(move |r| r.body(of("missing", "0"))),
        ),
        (
            404,
            40401,
            "Topic missing",
            Box::new(move |r| r.body(of("t", "0"))),
        ),
        (
            409,
            40904,
            "retry",
            Box::new(|r| at(r, &path("wrong", "assignments"))),
        ),
        (
            409,
            40903,
            "unsubscribe",
            Box::new(|r| at(r, &path("good", "assignments"))),
        ),
    ];
    faults.extend(more);
    world.is_told(request, faults).await.expect(204);
}

/// [D-01] a commit: a topic that is not assigned is never asked for; that it is not is a matter of state.
#[tokio::test]
async fn a_commit_is_told_of_its_faults_in_order() {
    let mut world = World::start().await;
    world.hold().await;
    world.reader("good").assign(&["t"]).await;
    let kafka = world.service.broker.faults();
    kafka
        .on(ApiKey::OffsetCommit, first(1))
        .client("octopus-g-good")
        .error(30);
    let target = path("nobody", "offsets");
    let (request, mut faults) = before_the_body(&world.user, "POST", &target);
    let of = |topic: &str, partition: &str| {
        let item = format!(r#"{{"topic": "{topic}", "partition": {partition}, "offset": 0}}"#);
        format!(r#"{{"offsets": [{item}]}}"#)
    };
    let more: Vec<Fault<'_>> = vec![
        (
            400,
            40003,
            "JSON",
            Box::new(move |r| r.body(of("missing", "true"))),
        ),
        (
            422,
            422,
            "partition",
            Box::new(move |r| r.body(of("missing", "1"))),
        ),
        (
            404,
            40403,
            "instance",
            Box::new(|r| at(r, &path("held", "offsets"))),
        ),
        (
            404,
            40402,
            "Partition 1",
            Box::new(move |r| r.body(of("missing", "0"))),
        ),
        (409, 40904, "retry", Box::new(|r| at(r, &path("good", "offsets")))),
        (
            409,
            40903,
            "topic missing",
            Box::new(move |r| r.body(of("t", "0"))),
        ),
        (403, 40301, "not authorized", Box::new(|r| r)),
    ];
    faults.extend(more);
    assert_eq!(world.is_told(request, faults).await.expect(200).text(), "[]");
}

/// [D-01] [CO-04] the committed offsets, whose missing body is a matter of partitions.
#[tokio::test]
async fn committed_offsets_are_told_of_their_faults_in_order() {
    let mut world = World::start().await;
    world.hold().await;
    let kafka = world.service.broker.faults();
    kafka
        .on(ApiKey::OffsetFetch, first(1))
        .client("octopus-g-good")
        .error(30);
    let target = path("nobody", "offsets");
    let (request, mut faults) = before_the_body(&world.user, "GET", &target);
    let of = |topic: &str, partition: &str| {
        format!(r#"{{"partitions": [{{"topic": "{topic}", "partition": {partition}}}]}}"#)
    };
    let more: Vec<Fault<'_>> = vec![
        (
            400,
            40003,
            "JSON",
            Box::new(move |r| r.body(of("missing", "true"))),
        ),
        (422, 422, "partition", Box::new(|r| r.body(""))),
        (
            404,
            40403,
            "instance",
            Box::new(|r| at(r, &path("held", "offsets"))),
        ),
        (
            404,
            40402,
            "name the partitions",
            Box::new(move |r| r.body(of("missing", "1"))),
        ),
        (
            404,
            40402,
            "Partition 1",
            Box::new(move |r| r.body(of("missing", "0"))),
        ),
        (
            404,
            40401,
            "Topic missing",
            Box::new(move |r| r.body(of("t", "0"))),
        ),
        (409, 40904, "retry", Box::new(|r| at(r, &path("good", "offsets")))),
        (403, 40301, "not authorized", Box::new(|r| r)),
    ];
    faults.extend(more);
    let reply = world.is_told(request, faults).await.expect(200);
    assert_eq!(reply.json(), json!({"offsets": []}));
}

/// [D-01] [D-02] a fetch, whose content type is nobody's matter, and whose body is one only if it is too large.
#[tokio::test]
async fn a_fetch_is_told_of_its_faults_in_order() {
    let mut world = World::start().await;
    world.hold().await;
    world.reader("wrong").assign(&["u"]).await;
    world.reader("good").assign(&["t"]).await;
    let kafka = world.service.broker.faults();
    let topic = crate::service::on_kafka(&world.user, "u");
    kafka.on(ApiKey::ListOffsets, first(1)).topic(topic).error(29);
    let target = path("nobody", "records?timeout=soon");
    let (request, mut faults) = before_the_body(&world.user, "GET", &target);
    let request = request.add("Accept", "text/html");
    faults.retain(|(status, ..)| *status != 415 && *status != 413);
    let more: Vec<Fault<'_>> = vec![
        (413, 41301, "64 KiB", Box::new(|r| r.body("{"))),
        (406, 406, "Accept", Box::new(|r| r.set("Accept", JSON))),
        (
            422,
            422,
            "timeout",
            Box::new(|r| at(r, &path("nobody", "records?timeout=30000"))),
        ),
        (
            404,
            40403,
            "instance",
            Box::new(|r| at(r, &path("held", "records?timeout=30000"))),
        ),
        (406, 40601, "format", Box::new(|r| r.set("Accept", BINARY))),
        (
            409,
            40904,
            "retry",
            Box::new(|r| at(r, &path("wrong", "records?timeout=30000"))),
        ),
        (
            403,
            40301,
            "not authorized",
            Box::new(|r| at(r, &path("good", "records?timeout=30000"))),
        ),
    ];
    faults.extend(more);
    let reply = world.is_told(request, faults).await.expect(200);
    assert_eq!(reply.json()[0]["topic"], "t");
}

/// [D-01] [LI-01] a user's third fetch hears that its instance is held before it hears that it is the third, and of
/// either before Kafka is asked.
#[tokio::test]
async fn a_third_fetch_is_told_of_its_instance_first() {
    let world = World::start().await;
    let mut fetches = Vec::new();
    for name in ["held", "wrong"] {
        let reader = world.reader(name);
        reader.assign(&["t"]).await;
        reader.post("positions/end", partitions(&[])).await.expect(204);
        let came = world.service.arrivals();
        fetches.push(reader.fetch("?timeout=30000"));
        world.service.arrived(came + 1).await;
    }
    let fetch = |name: &str| Raw::of(&world.user, "GET", &path(name, "records"));
    is_error("held", &fetch("held").send().await, 409, 40904, "retry");
    is_error("third", &fetch("good").send().await, 429, 42901, "2 fetches");
    is_error("nobody", &fetch("nobody").send().await, 404, 40403, "instance");
    let json = fetch("held").add("Accept", JSON);
    is_error("format", &json.send().await, 406, 40601, "format");
    world.service.clock.advance(Duration::from_secs(30));
    for fetch in fetches {
        assert_eq!(fetch.await.unwrap().expect(200).text(), "[]");
    }
}

fn path(instance: &str, rest: &str) -> String {
    format!("{GROUP}/instances/{instance}/{rest}")
}

fn at(mut request: Raw, target: &str) -> Raw {
    target.clone_into(&mut request.target);
    request
}

fn by(mut request: Raw, method: &str) -> Raw {
    method.clone_into(&mut request.method);
    request
}
