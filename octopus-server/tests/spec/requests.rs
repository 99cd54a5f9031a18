//! What a request is made of: its content type, and a body that has to be JSON of the right size.

use serde_json::json;

use crate::{
    client::V2,
    raw::{GROUP, INSTANCE, Raw, is_error},
    routes::{ROUTES, reader},
    service::Service,
};

/// What a request's content type may be.
const TAKEN: &[&str] = &[
    "application/vnd.kafka.v2+json",
    "application/vnd.kafka.binary.v2+json",
    "application/vnd.kafka.json.v2+json",
    "application/vnd.kafka.avro.v2+json",
    "application/vnd.kafka.jsonschema.v2+json",
    "application/vnd.kafka.protobuf.v2+json",
    "application/json",
    "Application/JSON",
    "APPLICATION/VND.KAFKA.V2+JSON",
    "application/json; charset=utf-8",
    "application/json;charset=utf-8; x=\"a;b\"",
    "application/vnd.kafka.v2+json ; charset=latin1",
    "application/json;",
    "",
    "  ",
];

/// What it may not be.
const REFUSED: &[&str] = &[
    "application/x-www-form-urlencoded",
    "text/plain",
    "text/json",
    "application/octet-stream",
    "multipart/form-data; boundary=x",
    "application/vnd.kafka+json",
    "application/vnd.kafka.v1+json",
    "application/vnd.kafka.json.v1+json",
    "application/vnd.kafka.v3+json",
    "application/*",
    "*/*",
    "json",
    "application/json, application/json",
    "application/jsonx",
    "; charset=utf-8",
];

/// [CT-01] [CT-02] [D-02] each type on each route; a route that takes no body does not look at it.
#[tokio::test]
async fn a_body_has_one_of_the_types_where_a_route_takes_one() {
    let service = Service::start().await;
    let user = reader(&service).await;
    for row in &ROUTES {
        let absent = row.prepare(&user).await;
        row.is_answered("without a type", &user, &absent.send().await);
        for content_type in TAKEN {
            let request = row.prepare(&user).await.add("Content-Type", content_type);
            row.is_answered(content_type, &user, &request.send().await);
        }
        for content_type in REFUSED {
            let request = row.prepare(&user).await.add("Content-Type", content_type);
            let reply = request.send().await;
            let what = format!("{} {} of {content_type}", row.method, row.path);
            if row.body.is_empty() {
                row.is_answered(content_type, &user, &reply);
                continue;
            }
            is_error(&what, &reply, 415, 415, "application/vnd.kafka.v2+json");
            let twice = row
                .prepare(&user)
                .await
                .add("Content-Type", V2)
                .add("Content-Type", V2);
            is_error("two types", &twice.send().await, 415, 415, "application/json");
            let bytes = row.request(&user).add("Content-Type", b"application/json\xff");
            is_error("bytes", &bytes.send().await, 415, 415, "content type");
            let empty = row.request(&user).add("Content-Type", content_type).body("");
            is_error(
                &format!("{what}, without a body"),
                &empty.send().await,
                415,
                415,
                "content type",
            );
        }
    }
}

/// [CT-03] on every route that takes a body; one that takes none does not read it.
#[tokio::test]
async fn a_body_that_is_not_json_is_400() {
    let deep = format!(r#"{{"topics": {}"#, "[".repeat(30_000));
    let bodies: &[&[u8]] = &[
        b"{",
        b"}",
        b"{\"topics\"",
        b"{\"topics\": [\"t\"]",
        b"{\"topics\": [\"t\"}",
        b"{\"topics\": [\"t\",]}",
        b"{\"topics\": [\"t\"],}",
        b"{topics: []}",
        b"{'topics': []}",
        b"{\"topics\": [t]}",
        b"{} {}",
        b"{}x",
        b"null null",
        b"nul",
        b"None",
        b"NaN",
        b"{\"a\": NaN}",
        b"{\"a\": Infinity}",
        b"{\"a\": 01}",
        b"{\"a\": +1}",
        b"{\"a\": .5}",
        b"{\"a\": 1.}",
        b"{\"a\": 0x10}",
        b"{\"a\": \"\\x\"}",
        b"{\"a\": \"\\u12\"}",
        b"{\"a\": \"\n\"}",
        b"{\"a\": 1} // a",
        b"topics=t",
        b"\"",
        b"\x00",
        b"\xff",
        b"{\"topics\": [\"\xff\"]}",
        b"{\"topics\": [\"\xed\xa0\x80\"]}",
        b"\xfe\xff\x00{\x00}",
        deep.as_bytes(),
    ];
    let service = Service::start().await;
    let user = reader(&service).await;
    for row in &ROUTES {
        if row.body.is_empty() {
            let request = row.prepare(&user).await.body("{ is ignored");
            row.is_answered("with a body", &user, &request.send().await);
            continue;
        }
        let request = row.prepare(&user).await;
        for body in bodies {
            let reply = request.clone().body(body).send().await;
            let what = format!(
                "{} {} {}",
                row.method,
                row.path,
                body[..body.len().min(40)].escape_ascii()
            );
            is_error(&what, &reply, 400, 40003, "JSON");
        }
        row.is_answered("after all", &user, &request.send().await);
    }
}

/// [CT-03] [D-08] what is JSON however it is written.
#[tokio::test]
async fn a_body_may_be_written_as_json_may() {
    let service = Service::start().await;
    let user = reader(&service).await;
    for body in [
        "\r\n\t {\"topics\"\t:\n[ \"t\" ] } \n",
        "\u{feff}{\"topics\": [\"t\"]}",
        r#"{"\u0074opics": ["\u0074"]}"#,
        r#"{"topics": ["x"], "topics": ["t"]}"#,
    ] {
        let reply = ROUTES[2].prepare(&user).await.body(body).send().await;
        ROUTES[2].is_answered(body, &user, &reply);
        let subscription = user.get(&format!("{INSTANCE}/subscription")).await;
        assert_eq!(
            subscription.expect(200).json(),
            json!({"topics": ["t"]}),
            "{body}"
        );
    }
}

/// [CT-04] a body that is JSON and no object; nothing can be nested or long enough to be more than that.
#[tokio::test]
async fn a_body_that_is_no_object_is_422() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let digits = "9".repeat(1000);
    for row in ROUTES.iter().filter(|row| !row.body.is_empty()) {
        for body in ["[]", "1", "\"{}\"", "true", &deep, &digits] {
            let reply = row.request(&user).body(body).send().await;
            is_error(&format!("{} {:.20}", row.path, body), &reply, 422, 422, "body");
        }
        let deep = format!(r#"{{"surprise": {deep}}}"#);
        let reply = row.request(&user).body(deep).send().await;
        is_error(row.path, &reply, 422, 422, "Unknown field surprise");
    }
}

/// [D-02] an empty or blank body, and `null`, count as none: the default where there is one, else the field that is
/// missing.
#[tokio::test]
async fn an_empty_a_blank_and_a_null_body_count_as_none() {
    let service = Service::start().await;
    let user = reader(&service).await;
    for body in ["", " ", " \r\n\t", "null", " null\n", "\u{feff}"] {
        for row in ROUTES.iter().filter(|row| !row.body.is_empty()) {
            let request = row.prepare(&user).await.add("Content-Type", V2).body(body);
            let reply = request.send().await;
            let what = format!("{} {} {body:?}", row.method, row.path);
            match (row.method, row.path.rsplit('/').next().unwrap()) {
                (_, "") => {
                    let instance = reply.expect(200).json()["instance_id"]
                        .as_str()
                        .unwrap()
                        .to_owned();
                    user.delete(&format!("{GROUP}/instances/{instance}"))
                        .await
                        .expect(204);
                }
                ("POST", "offsets") => assert_eq!(reply.expect(200).text(), "[]", "{what}"),
                ("GET", _) => is_error(&what, &reply, 404, 40402, "partitions"),
                (_, "subscription") => is_error(&what, &reply, 422, 422, "topics"),
                (_, "positions") => is_error(&what, &reply, 422, 422, "offsets"),
                _ => is_error(&what, &reply, 422, 422, "partitions"),
            }
        }
    }
    assert_eq!(service.committed(&user, "g", "t"), Some(0), "every position");
}

/// [CT-05] [D-01] a body of 64 KiB is taken, one byte more is refused: on every route where its length is told, before
/// a byte of it has come; and where it comes in chunks as soon as it is too long, before its end.
#[tokio::test]
async fn a_body_is_at_most_64_kib() {
    const MOST: usize = 64 * 1024;
    let service = Service::start().await;
    let user = reader(&service).await;
    for row in &ROUTES {
        let filled = |length: usize| {
            let filler = " ".repeat(length - row.body.len());
            format!("{}{filler}", row.body)
        };
        let request = row.prepare(&user).await;
        is_error(row.path, &request.announce(MOST + 1).await, 413, 41301, "64 KiB");
        is_error(
            row.path,
            &request.announce(usize::MAX / 4).await,
            413,
            41301,
            "64 KiB",
        );
        let reply = request.clone().body(filled(MOST)).send().await;
        row.is_answered("64 KiB", &user, &reply);
        for chunk in [1000, 16 * 1024, MOST + 1] {
            let request = row.prepare(&user).await;
            let reply = request
                .clone()
                .body(filled(MOST + 1))
                .send_chunked(chunk, false)
                .await;
            is_error(&format!("{} in chunks", row.path), &reply, 413, 41301, "64 KiB");
            let reply = request.clone().body(filled(MOST)).send_chunked(chunk, true).await;
            row.is_answered("64 KiB in chunks", &user, &reply);
        }
    }
}

/// [CT-02] what `curl -d` sends by itself.
#[tokio::test]
async fn curls_default_type_is_refused() {
    let service = Service::start().await;
    let user = service.user(1);
    let create = Raw::of(&user, "POST", GROUP)
        .add("Accept", "*/*")
        .add("User-Agent", "curl/8.5.0")
        .add("Content-Type", "application/x-www-form-urlencoded")
        .body(r#"{"name": "i"}"#);
    is_error(
        "curl -d",
        &create.send().await,
        415,
        415,
        "application/vnd.kafka.v2+json",
    );
    assert_eq!(user.delete(INSTANCE).await.error(), (404, 40403));
    create
        .set("Content-Type", "application/json")
        .send()
        .await
        .expect(200);
}
