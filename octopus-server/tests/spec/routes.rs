//! *Routes*: the table of the specification, and everything that is none of them.

use serde_json::json;

use crate::{
    client::{BINARY, Client, Response, V2},
    raw::{GROUP, INSTANCE, Raw, value},
    service::Service,
};

/// A row of the table, with a body and a reply of its form.
pub(crate) struct Row {
    pub(crate) method: &'static str,
    /// Below the group's path.
    pub(crate) path: &'static str,
    /// Empty where the route takes none.
    pub(crate) body: &'static str,
    before: Before,
    pub(crate) status: u16,
    /// Empty where there is none; `ORIGIN` stands for the service's own.
    reply: &'static str,
}

/// What the instance `i` reads before the request.
#[derive(Clone, Copy)]
enum Before {
    /// There is no instance.
    Missing,
    Nothing,
    Subscribed,
    /// At the first record of its partition.
    Assigned,
}

const PARTITIONS: &str = r#"{"partitions": [{"topic": "t", "partition": 0}]}"#;

/// The table, row by row.
#[rustfmt::skip]
pub(crate) const ROUTES: [Row; 13] = [
    row("POST", "", r#"{"name": "i", "format": "binary", "auto.offset.reset": "latest", "auto.commit.enable": "false", "fetch.min.bytes": 1, "consumer.request.timeout.ms": 5000}"#,
        Before::Missing, 200, r#"{"instance_id": "i", "base_uri": "ORIGIN/api/v2/consumers/g/instances/i"}"#),
    row("DELETE", "/instances/i", "", Before::Nothing, 204, ""),
    row("POST", "/instances/i/subscription", r#"{"topics": ["t"]}"#, Before::Nothing, 204, ""),
    row("GET", "/instances/i/subscription", "", Before::Subscribed, 200, r#"{"topics": ["t"]}"#),
    row("DELETE", "/instances/i/subscription", "", Before::Subscribed, 204, ""),
    row("POST", "/instances/i/assignments", PARTITIONS, Before::Nothing, 204, ""),
    row("GET", "/instances/i/assignments", "", Before::Assigned, 200, PARTITIONS),
    row("POST", "/instances/i/offsets", r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 41, "metadata": "m"}]}"#,
        Before::Assigned, 200, "[]"),
    row("GET", "/instances/i/offsets", PARTITIONS,
        Before::Assigned, 200, r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 42, "metadata": "m"}]}"#),
    row("POST", "/instances/i/positions", r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}"#, Before::Assigned, 204, ""),
    row("POST", "/instances/i/positions/beginning", PARTITIONS, Before::Assigned, 204, ""),
    row("POST", "/instances/i/positions/end", PARTITIONS, Before::Assigned, 204, ""),
    row("GET", "/instances/i/records", "",
        Before::Assigned, 200, r#"[{"topic": "t", "key": null, "value": "MA==", "partition": 0, "offset": 0, "headers": []}]"#),
];

/// A user and the topic `t` of one record, whose group `g` has committed what the table's rows read.
pub(crate) async fn reader(service: &Service) -> Client {
    let user = service.user(1);
    service.topic(&user, "t");
    service.write(&user, "t", &[b"0"]);
    user.post(GROUP, r#"{"name": "i"}"#).await.expect(200);
    user.post(&format!("{INSTANCE}/assignments"), PARTITIONS)
        .await
        .expect(204);
    let commit = ROUTES.iter().find(|row| row.body.contains("41")).unwrap();
    user.post(&format!("{GROUP}{}", commit.path), commit.body)
        .await
        .expect(200);
    user
}

impl Row {
    /// The request of a row, once its instance is as the row needs it.
    pub(crate) async fn prepare(&self, user: &Client) -> Raw {
        user.delete(INSTANCE).await;
        if !matches!(self.before, Before::Missing) {
            user.post(GROUP, r#"{"name": "i"}"#).await.expect(200);
        }
        let asks: &[(&str, &str)] = match self.before {
            Before::Missing | Before::Nothing => &[],
            Before::Subscribed => &[("subscription", r#"{"topics": ["t"]}"#)],
            Before::Assigned => &[("assignments", PARTITIONS), ("positions/beginning", PARTITIONS)],
        };
        for (path, body) in asks {
            user.post(&format!("{INSTANCE}/{path}"), body).await.expect(204);
        }
        self.request(user)
    }

    /// Its request.
    pub(crate) fn request(&self, user: &Client) -> Raw {
        Raw::of(user, self.method, &format!("{GROUP}{}", self.path)).body(self.body)
    }

    /// Checks that the reply is that of the row.
    #[track_caller]
    pub(crate) fn is_answered(&self, what: &str, user: &Client, reply: &Response) {
        let what = format!("{} {} {what}", self.method, self.path);
        assert_eq!(reply.status, self.status, "{what}: {reply:?}");
        if self.reply.is_empty() {
            assert_eq!((reply.text(), reply.header("content-type")), ("", None), "{what}");
        } else {
            let expected = self.reply.replace("ORIGIN", &format!("http://{}", user.address));
            assert_eq!(reply.json(), value(&expected), "{what}");
        }
    }
}

const fn row(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    before: Before,
    status: u16,
    reply: &'static str,
) -> Row {
    Row {
        method,
        path,
        body,
        before,
        status,
        reply,
    }
}

/// [RT-01] [RT-05] every row has its status, its body and its type.
#[tokio::test]
async fn the_thirteen_routes_answer_as_their_table_says() {
    let service = Service::start().await;
    let user = reader(&service).await;
    for row in &ROUTES {
        let reply = row.prepare(&user).await.send().await;
        row.is_answered("", &user, &reply);
        if row.status == 200 {
            let media_type = if row.path.ends_with("records") { BINARY } else { V2 };
            assert_eq!(reply.header("content-type"), Some(media_type), "{}", row.path);
        }
    }
}

/// [D-09] a slash at the end changes nothing, and is not redirected.
#[tokio::test]
async fn a_slash_at_the_end_is_no_difference() {
    let service = Service::start().await;
    let user = reader(&service).await;
    for row in &ROUTES {
        let mut request = row.prepare(&user).await;
        request.target += "/";
        row.is_answered("with a slash", &user, &request.send().await);
    }
    let mut fetch = ROUTES[12].prepare(&user).await;
    fetch.target += "/?timeout=1000&max_bytes=100";
    ROUTES[12].is_answered("with a slash and a query", &user, &fetch.send().await);
}

/// [RT-02] [RT-05] whoever asks, and whatever the method.
#[tokio::test]
async fn a_path_of_no_route_is_404_with_the_body_of_fastapi() {
    let service = Service::start().await;
    let user = reader(&service).await;
    for path in [
        "/",
        "/api",
        "/api/v2",
        "/api/v2/consumers",
        "/api/v2/consumers/",
        "/api/v2/consumers//",
        "/api/v2/consumers/g//",
        "//api/v2/consumers/g",
        "/api/v2/consumers/g/i",
        "/api/v2/consumers/g/instances",
        "/api/v2/consumers/g/instances/",
        "/api/v2/consumers/g/instances//",
        "/api/v2/consumers/g/instances//records",
        "/api/v2/consumers/g//instances/i",
        "/api/v2/consumers/g/instance/i",
        "/api/v2/consumers/g/instances/i/record",
        "/api/v2/consumers/g/instances/i/Records",
        "/api/v2/consumers/g/instances/i/records/0",
        "/api/v2/consumers/g/instances/i/records//",
        "/api/v2/consumers/g/instances/i/subscriptions",
        "/api/v2/consumers/g/instances/i/assignment",
        "/api/v2/consumers/g/instances/i/positions/middle",
        "/api/v2/consumers/g/instances/i/positions/end/x",
        "/api/v2/consumers/g/instances/i/offsets/beginning",
        "/api/v2/consumer/g",
        "/api/v1/consumers/g",
        "/API/v2/consumers/g",
        "/consumers/g",
        "/consumers/g/instances/i/records",
    ] {
        for method in ["GET", "POST", "DELETE", "PUT", "OPTIONS"] {
            let known = Raw::of(&user, method, path);
            let unknown = known.clone().without("subject").without("authorization");
            for request in [known, unknown] {
                let reply = request.send().await;
                let what = format!("{method} {path}");
                assert_eq!(
                    (reply.status, reply.json()),
                    (404, json!({"detail": "Not Found"})),
                    "{what}"
                );
                assert_eq!(reply.header("content-type"), Some(V2), "{what}");
                assert_eq!(reply.header("allow"), None, "{what}");
            }
        }
    }
}

/// [RT-03] [RT-05] [D-09] every method on every path: what is not in the table is refused, HEAD and OPTIONS too.
#[tokio::test]
async fn a_method_that_a_route_does_not_take_is_405_with_allow() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let mut paths: Vec<&str> = ROUTES.iter().map(|row| row.path).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 9);
    for path in paths {
        let mut allowed: Vec<&str> = ROUTES
            .iter()
            .filter(|row| row.path == path)
            .map(|row| row.method)
            .collect();
        allowed.sort_unstable();
        for method in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW", "get", "post",
        ] {
            if allowed.contains(&method) {
                continue;
            }
            // A request is refused so before anyone asks who sent it.
            let request = Raw::of(&user, method, &format!("{GROUP}{path}"));
            let reply = request.without("subject").without("authorization").send().await;
            let what = format!("{method} {path}");
            assert_eq!(reply.status, 405, "{what}");
            if method == "HEAD" {
                assert_eq!(reply.text(), "", "{what}");
            } else {
                assert_eq!(reply.json(), json!({"detail": "Method Not Allowed"}), "{what}");
            }
            assert_eq!(reply.header("content-type"), Some(V2), "{what}");
            let mut told: Vec<&str> = reply.header("allow").unwrap().split(", ").collect();
            told.sort_unstable();
            assert_eq!(told, allowed, "{what}");
        }
    }
}

/// [RT-06] but for a group named `recreate`, whose path is that of the topic recreate route.
#[tokio::test]
async fn the_routes_of_the_earlier_version_are_gone() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let namespace = format!("ns-{}", &user.subject[24..]);
    for row in &ROUTES {
        for group in ["g", "recreate"] {
            let path = format!("/api/v3/{namespace}/consumers/{group}{}", row.path);
            let reply = Raw::of(&user, row.method, &path).body(row.body).send().await;
            let (status, detail) = if group == "recreate" && row.path.is_empty() {
                (405, "Method Not Allowed")
            } else {
                (404, "Not Found")
            };
            assert_eq!(
                (reply.status, reply.json()),
                (status, json!({"detail": detail})),
                "{path}"
            );
            assert_eq!(reply.header("allow").is_some(), status == 405, "{path}");
        }
    }
}

/// [D-10] a segment is decoded once, and then has to be a name.
#[tokio::test]
async fn the_names_in_a_path_are_percent_decoded_once() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let row = &ROUTES[6];
    for path in [
        "/api/v2/consumers/%67/instances/i/assignments",
        "/api/v2/consumers/g/instances/%69/assignments",
        "/api/v2/consumers/%67/instances/%69/assignments/",
    ] {
        let mut request = row.prepare(&user).await;
        path.clone_into(&mut request.target);
        row.is_answered(path, &user, &request.send().await);
    }
    for (group, instance) in [
        ("%2567", "i"),
        ("g", "%2569"),
        ("g", "i%2Fassignments"),
        ("g", "i%20"),
        ("g", "%ff"),
        ("g", "%00"),
        ("g", "i%"),
        ("g", "i+"),
        ("-g", "i"),
        ("g", ".."),
        ("g", "%2e%2e"),
    ] {
        for row in &ROUTES[1..] {
            let path = row.path.strip_prefix("/instances/i").unwrap();
            let path = format!("/api/v2/consumers/{group}/instances/{instance}{path}");
            let reply = Raw::of(&user, row.method, &path).body(row.body).send().await;
            assert_eq!(reply.error(), (404, 40403), "{} {path}", row.method);
        }
    }
}
