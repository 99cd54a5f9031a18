//! What a request is made of: its content type, and a body that has to be JSON of the right form and size.

use octopus_core::Limits;
use serde_json::json;

use crate::{
    client::{BINARY, Client, V2},
    raw::{GROUP, INSTANCE, Raw, is_error},
    routes::{ROUTES, reader},
    service::{Service, on_kafka},
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

/// A row of bodies: the row of the routes, the body, the status, the code, and what the message names.
type Body = (usize, &'static str, u16, u64, &'static str);

/// [CT-04] [D-05] [D-07] what is missing, null, of the wrong type or unknown, at each level of each body, and its name.
#[tokio::test]
async fn a_field_that_is_missing_wrong_or_unknown_is_named() {
    const SUBSCRIBE: usize = 2;
    const ASSIGN: usize = 5;
    const COMMIT: usize = 7;
    const COMMITTED: usize = 8;
    const SEEK: usize = 9;
    const BEGINNING: usize = 10;
    const END: usize = 11;
    #[rustfmt::skip]
    let rows: &[Body] = &[
        (SUBSCRIBE, r#"{}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": null}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": "t"}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": {"t": 0}}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": [null]}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": [""]}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": ["t", " "]}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": [1]}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": [["t"]]}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": [{"topic": "t"}]}"#, 422, 422, "topics"),
        (SUBSCRIBE, r#"{"topics": ["t"], "surprise": 1}"#, 422, 422, "Unknown field surprise"),
        (SUBSCRIBE, r#"{"Topics": ["t"]}"#, 422, 422, "Unknown field Topics"),
        (SUBSCRIBE, r#"{"topics": []}"#, 422, 42204, "topics"),
        (SUBSCRIBE, r#"{"topic_pattern": ".*"}"#, 422, 42204, "topic_pattern"),
        (SUBSCRIBE, r#"{"topic_pattern": "", "topics": 1, "surprise": 1}"#, 422, 42204, "topic_pattern"),
        (SUBSCRIBE, r#"{"topic_pattern": 1, "topics": ["t"]}"#, 422, 42204, "topic_pattern"),
        (ASSIGN, r#"{}"#, 422, 422, "partitions"),
        (ASSIGN, r#"{"partitions": null}"#, 422, 422, "partitions"),
        (ASSIGN, r#"{"partitions": {"topic": "t", "partition": 0}}"#, 422, 422, "partitions"),
        (ASSIGN, r#"{"partitions": [null]}"#, 422, 422, "partitions"),
        (ASSIGN, r#"{"partitions": ["t"]}"#, 422, 422, "partitions"),
        (ASSIGN, r#"{"partitions": [["t", 0]]}"#, 422, 422, "partitions"),
        (ASSIGN, r#"{"partitions": [{"partition": 0}]}"#, 422, 422, "topic"),
        (ASSIGN, r#"{"partitions": [{"topic": null, "partition": 0}]}"#, 422, 422, "topic"),
        (ASSIGN, r#"{"partitions": [{"topic": " ", "partition": 0}]}"#, 422, 422, "topic"),
        (ASSIGN, r#"{"partitions": [{"topic": 1, "partition": 0}]}"#, 422, 422, "topic"),
        (ASSIGN, r#"{"partitions": [{"topic": "t"}]}"#, 422, 422, "partition"),
        (ASSIGN, r#"{"partitions": [{"topic": "t", "partition": null}]}"#, 422, 422, "partition"),
        (ASSIGN, r#"{"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}"#, 422, 422, "Unknown field offset"),
        (ASSIGN, r#"{"partitions": [{"topic": "t", "partition": 0}], "topics": []}"#, 422, 422, "Unknown field topics"),
        (COMMIT, r#"{}"#, 422, 422, "offsets"),
        (COMMIT, r#"{"offsets": null}"#, 422, 422, "offsets"),
        (COMMIT, r#"{"offsets": 5}"#, 422, 422, "offsets"),
        (COMMIT, r#"{"offsets": [5]}"#, 422, 422, "offsets"),
        (COMMIT, r#"{"offsets": [null]}"#, 422, 422, "offsets"),
        (COMMIT, r#"{"offsets": [{"partition": 0, "offset": 5}]}"#, 422, 422, "topic"),
        (COMMIT, r#"{"offsets": [{"topic": "t", "offset": 5}]}"#, 422, 422, "partition"),
        (COMMIT, r#"{"offsets": [{"topic": "t", "partition": 0}]}"#, 422, 422, "offset"),
        (COMMIT, r#"{"offsets": [{"topic": "t", "partition": 0, "offset": null}]}"#, 422, 422, "offset"),
        (COMMIT, r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 5, "metadata": 1}]}"#, 422, 422, "metadata"),
        (COMMIT, r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 5, "leader": 1}]}"#, 422, 422, "Unknown field leader"),
        (COMMIT, r#"{"partitions": []}"#, 422, 422, "Unknown field partitions"),
        (COMMITTED, r#"{}"#, 422, 422, "partitions"),
        (COMMITTED, r#"{"partitions": null}"#, 422, 422, "partitions"),
        (COMMITTED, r#"{"partitions": [{"topic": "t"}]}"#, 422, 422, "partition"),
        (COMMITTED, r#"{"partitions": [{"topic": "t", "partition": 0, "x": 0}]}"#, 422, 422, "Unknown field x"),
        (COMMITTED, r#"{"offsets": []}"#, 422, 422, "Unknown field offsets"),
        (SEEK, r#"{}"#, 422, 422, "offsets"),
        (SEEK, r#"{"offsets": [{"topic": "t", "partition": 0}]}"#, 422, 422, "offset"),
        (SEEK, r#"{"offsets": [{"topic": "t", "offset": 0}]}"#, 422, 422, "partition"),
        (SEEK, r#"{"offsets": [{"partition": 0, "offset": 0}]}"#, 422, 422, "topic"),
        (SEEK, r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 0, "x": 0}]}"#, 422, 422, "Unknown field x"),
        (SEEK, r#"{"partitions": []}"#, 422, 422, "Unknown field partitions"),
        (BEGINNING, r#"{}"#, 422, 422, "partitions"),
        (BEGINNING, r#"{"partitions": [{"partition": 0}]}"#, 422, 422, "topic"),
        (BEGINNING, r#"{"offsets": []}"#, 422, 422, "Unknown field offsets"),
        (END, r#"{}"#, 422, 422, "partitions"),
        (END, r#"{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}"#, 422, 422, "Unknown field offset"),
        (END, r#"{"partitions": "all"}"#, 422, 422, "partitions"),
    ];
    let service = Service::start().await;
    let user = reader(&service).await;
    for (row, body, status, code, names) in rows {
        let reply = ROUTES[*row].prepare(&user).await.body(body).send().await;
        let what = format!("{} {} {body}", ROUTES[*row].method, ROUTES[*row].path);
        is_error(&what, &reply, *status, *code, names);
    }
    let long = format!(r#"{{"{}": 1}}"#, "n".repeat(60_000));
    let reply = ROUTES[SUBSCRIBE].prepare(&user).await.body(long).send().await;
    is_error(
        "a long name",
        &reply,
        422,
        422,
        &format!("Unknown field {}", "n".repeat(20)),
    );

    // Known, and nothing to do with.
    for (row, body) in [
        (
            0,
            r#"{"id": null, "name": "i", "format": null, "fetch.min.bytes": null}"#,
        ),
        (SUBSCRIBE, r#"{"topics": ["t"], "topic_pattern": null}"#),
        (
            COMMIT,
            r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 5, "metadata": null}]}"#,
        ),
        (
            SEEK,
            r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 0, "metadata": "m"}]}"#,
        ),
        (
            SEEK,
            r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 0, "metadata": 7}]}"#,
        ),
    ] {
        let reply = ROUTES[row].prepare(&user).await.body(body).send().await;
        ROUTES[row].is_answered(body, &user, &reply);
    }
}

/// [D-06] how an offset and a partition may be written, and what they come to.
#[tokio::test]
async fn a_number_is_a_whole_one_as_a_number_or_as_a_string() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let row = &ROUTES[7];
    let request = row.prepare(&user).await;
    let commit = |partition: &str, offset: &str| {
        let item = format!(r#"{{"topic": "t", "partition": {partition}, "offset": {offset}}}"#);
        request.clone().body(format!(r#"{{"offsets": [{item}]}}"#))
    };
    for (offset, committed) in [
        ("5", 6),
        ("5.0", 6),
        ("\"5\"", 6),
        ("5e0", 6),
        ("0.5e1", 6),
        ("\"007\"", 8),
        ("-0", 1),
        ("0", 1),
        ("9007199254740993", 9_007_199_254_740_994),
        ("9007199254740993.0", 9_007_199_254_740_994),
        ("9223372036854775806", i64::MAX),
        ("\"9223372036854775806\"", i64::MAX),
    ] {
        let reply = commit("0", offset).send().await;
        assert_eq!(reply.expect(200).text(), "[]", "{offset}");
        assert_eq!(service.committed(&user, "g", "t"), Some(committed), "{offset}");
    }
    let digits = "9".repeat(1000);
    let nearly = format!("0.{digits}");
    for offset in [
        "5.9",
        "-1",
        "\"-1\"",
        "true",
        "false",
        "\"\"",
        "\"5.0\"",
        "\"five\"",
        "\" 5\"",
        "\"+5\"",
        "\"5e0\"",
        "\"0x5\"",
        "[5]",
        "{}",
        "9223372036854775807",
        "\"9223372036854775807\"",
        "1e400",
        "-1e400",
        "1e-400",
        &digits,
        &nearly,
    ] {
        is_error(
            offset,
            &commit("0", offset).send().await,
            422,
            422,
            "offset is missing or invalid",
        );
    }
    for partition in ["0.0", "\"0\"", "0e5", "-0", "\"00\""] {
        assert_eq!(
            commit(partition, "5").send().await.expect(200).text(),
            "[]",
            "{partition}"
        );
    }
    for partition in [
        "0.5",
        "true",
        "\"\"",
        "\"zero\"",
        "[]",
        "2147483648",
        "-2147483649",
        "1e400",
        &digits,
    ] {
        is_error(
            partition,
            &commit(partition, "5").send().await,
            422,
            422,
            "partition is missing or invalid",
        );
    }
    assert_eq!(service.committed(&user, "g", "t"), Some(6), "nothing since");
}

/// [D-11] the query of a fetch.
#[tokio::test]
async fn the_parameters_of_a_fetch_are_whole_numbers() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let digits = "9".repeat(1000);
    let row = &ROUTES[12];
    for query in [
        "timeout=1",
        "timeout=-1",
        "timeout=0",
        "timeout=",
        "timeout",
        "timeout=007",
        "timeout=%35",
        "timeout=5&timeout=soon",
        "timeout=&timeout=soon",
        "max_bytes=",
        "max_bytes=-5",
        "max_bytes=0",
        "max_bytes=1000&max_bytes=x",
        "surprise=1&timeout=1&=&&",
        "Timeout=soon",
        "",
        &format!("timeout={digits}&max_bytes={digits}"),
        &format!("timeout=-{digits}&max_bytes=-{digits}"),
    ] {
        let mut request = row.prepare(&user).await;
        request.target += &format!("?{query}");
        row.is_answered(query, &user, &request.send().await);
    }
    let request = row.prepare(&user).await;
    for name in ["timeout", "max_bytes"] {
        for value in [
            "soon", "1.5", "1.0", "+5", "%2B5", "5%20", "1e3", "0x5", "true", "--1", "-", "%ff", "null",
        ] {
            let mut request = request.clone();
            request.target += &format!("?{name}={value}");
            is_error(
                value,
                &request.send().await,
                422,
                422,
                &format!("{name} is missing or invalid"),
            );
        }
    }
}

/// [D-08] the last of a repeated key; a topic or a partition once, an offset as it came last.
#[tokio::test]
async fn what_comes_twice_counts_once() {
    let service = Service::start().await;
    let user = reader(&service).await;
    service.topic(&user, "u");
    ROUTES[2]
        .prepare(&user)
        .await
        .body(r#"{"topics": ["u", "t", "u"]}"#)
        .send()
        .await
        .expect(204);
    let path = format!("{INSTANCE}/subscription");
    assert_eq!(user.get(&path).await.json(), json!({"topics": ["u", "t"]}));
    user.delete(&path).await.expect(204);

    let twice = r#"{"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": "0"}]}"#;
    user.post(&format!("{INSTANCE}/assignments"), twice)
        .await
        .expect(204);
    let partitions = json!({"partitions": [{"topic": "t", "partition": 0}]});
    assert_eq!(
        user.get(&format!("{INSTANCE}/assignments")).await.json(),
        partitions
    );
    let offsets = user.send("GET", &format!("{INSTANCE}/offsets"), &[], twice).await;
    assert_eq!(offsets.json()["offsets"].as_array().unwrap().len(), 1);

    let commits = r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 7, "offset": 8}, {"topic": "t", "partition": 0, "offset": 3}]}"#;
    user.post(&format!("{INSTANCE}/offsets"), commits)
        .await
        .expect(200);
    assert_eq!(service.committed(&user, "g", "t"), Some(4));
    service.write(&user, "t", &[b"1", b"2"]);
    let seek = commits.replace('7', "0").replace('8', "0").replace('3', "2");
    user.post(&format!("{INSTANCE}/positions"), &seek)
        .await
        .expect(204);
    let records = user.fetch(INSTANCE, "", BINARY).await.expect(200).json();
    assert_eq!(records[0]["offset"], 2);
}

/// [CT-06] [NS-06] on each route with a list: as many items as a namespace may hold topics, and no more.
#[tokio::test]
async fn a_list_is_no_longer_than_a_namespaces_topics() {
    for most in [50, 3] {
        let mut limits = Limits::default();
        assert_eq!(limits.max_topics, 50);
        limits.max_topics = most;
        let service = Service::with(limits, |builder| builder).await;
        let user = reader(&service).await;
        for row in ROUTES[1..].iter().filter(|row| !row.body.is_empty()) {
            let body: serde_json::Value = row.body.parse().unwrap();
            let (list, items) = body.as_object().unwrap().iter().next().unwrap();
            let of = |length: usize| json!({list: vec![items[0].clone(); length]}).to_string();
            let reply = row.prepare(&user).await.body(of(most)).send().await;
            row.is_answered("the longest list", &user, &reply);
            let reply = row.prepare(&user).await.body(of(most + 1)).send().await;
            let what = format!("{} {}", row.method, row.path);
            is_error(&what, &reply, 422, 422, &format!("{list} lists more than {most}"));
        }
    }
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

/// [D-13] what an empty list does on each route.
#[tokio::test]
async fn an_empty_list_is_a_list() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let before = service.committed(&user, "g", "t");
    let partitions = r#"{"partitions": []}"#;
    let offsets = r#"{"offsets": []}"#;
    let send = |row: usize, body: &'static str| {
        let user: Client = user.clone();
        async move { ROUTES[row].prepare(&user).await.body(body).send().await }
    };
    assert_eq!(send(7, offsets).await.expect(200).text(), "[]");
    assert_eq!(service.committed(&user, "g", "t"), before, "nothing is committed");
    assert_eq!(
        send(8, partitions).await.expect(200).json(),
        json!({"offsets": []})
    );
    send(9, offsets).await.expect(204);
    let records = user.fetch(INSTANCE, "", BINARY).await.expect(200).json();
    assert_eq!(records[0]["offset"], 0, "nothing was sought");

    assert_eq!(send(5, partitions).await.expect(204).text(), "");
    user.post(&format!("{INSTANCE}/assignments"), ROUTES[5].body)
        .await
        .expect(204);
    user.post(&format!("{INSTANCE}/assignments"), partitions)
        .await
        .expect(204);
    let assignments = user.get(&format!("{INSTANCE}/assignments")).await;
    assert_eq!(assignments.json(), json!({"partitions": []}), "cleared");
    for path in ["positions/beginning", "positions/end"] {
        let reply = user.post(&format!("{INSTANCE}/{path}"), partitions).await;
        is_error(path, &reply, 409, 40903, "No partition is assigned");
    }
    user.post(&format!("{INSTANCE}/subscription"), r#"{"topics": ["t"]}"#)
        .await
        .expect(204);
    let subscribed = user.post(&format!("{INSTANCE}/assignments"), partitions).await;
    is_error("while subscribed", &subscribed, 409, 40903, "unsubscribe first");
}

/// [D-05] [CT-04] a body that is refused does nothing, even where only its last item is wrong [D-17].
#[tokio::test]
async fn a_refused_body_does_nothing() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let before = service.committed(&user, "g", "t");
    let group = on_kafka(&user, "g");
    for (row, body) in [
        (
            7,
            r#"{"offsets": [{"topic": "t", "partition": 0, "offset": 7}, {"topic": "t"}]}"#,
        ),
        (5, r#"{"partitions": [{"topic": "t", "partition": 0}, null]}"#),
        (2, r#"{"topics": ["t", ""]}"#),
    ] {
        let reply = ROUTES[row].prepare(&user).await.body(body).send().await;
        assert_eq!(reply.error(), (422, 422), "{body}");
        let assigned = user.get(&format!("{INSTANCE}/assignments")).await.json();
        let expected = if row == 7 {
            json!([{"topic": "t", "partition": 0}])
        } else {
            json!([])
        };
        assert_eq!(assigned["partitions"], expected, "{body}");
        assert_eq!(
            user.get(&format!("{INSTANCE}/subscription")).await.json(),
            json!({"topics": []})
        );
    }
    assert_eq!(service.committed(&user, "g", "t"), before);
    assert!(service.broker.group_members(&group).is_empty());
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
