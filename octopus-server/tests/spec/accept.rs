//! A fetch's `Accept`: which type its reply has, and which instances it reads.

use octopus_core::Limits;

use crate::{
    client::{BINARY, Client, JSON, V2},
    raw::{GROUP, Raw, is_error},
    service::Service,
};

const AVRO: &str = "application/vnd.kafka.avro.v2+json";
const JSON_SCHEMA: &str = "application/vnd.kafka.jsonschema.v2+json";
const PROTOBUF: &str = "application/vnd.kafka.protobuf.v2+json";
/// No type of a reply.
const NONE: &str = "";

/// The lines of `Accept`, and the type that they choose.
#[rustfmt::skip]
const ROWS: &[(&[&str], &str)] = &[
    // The specification's own.
    (&["application/vnd.kafka.binary.v2+json"], BINARY),
    (&["application/vnd.kafka.v2+json"], V2),
    (&["*/*"], BINARY),
    (&[], BINARY),
    (&["application/vnd.kafka.json.v2+json"], JSON),
    (&["application/json"], NONE),
    // Case, parameters, blanks, and nothing at all.
    (&["APPLICATION/VND.KAFKA.JSON.V2+JSON"], JSON),
    (&["application/vnd.kafka.json.v2+json; charset=utf-8"], JSON),
    (&["application/vnd.kafka.json.v2+json;charset=\"a,b;q=0\""], JSON),
    (&["  application/vnd.kafka.json.v2+json ;q=0.5 "], JSON),
    (&[""], BINARY),
    (&[" , "], BINARY),
    // Wildcards.
    (&["application/*"], BINARY),
    (&["text/html, */*;q=0.8"], BINARY),
    (&["application/json, */*;q=0.1"], BINARY),
    (&["text/*"], NONE),
    (&["application/*+json"], NONE),
    // The highest q, then the weight, then the fewest wildcards, then the order.
    (&["application/vnd.kafka.json.v2+json, application/vnd.kafka.binary.v2+json;q=0.9"], JSON),
    (&["application/vnd.kafka.json.v2+json;q=0.9, application/vnd.kafka.binary.v2+json;q=0.8"], JSON),
    (&["application/vnd.kafka.json.v2+json;q=0.8, application/vnd.kafka.binary.v2+json;q=0.9"], BINARY),
    (&["application/vnd.kafka.json.v2+json;q=0.001, text/html"], JSON),
    (&["application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json;q=0.9, application/json;q=0.8"], JSON),
    (&["application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json"], V2),
    (&["application/vnd.kafka.v2+json, application/vnd.kafka.binary.v2+json"], BINARY),
    (&["application/vnd.kafka.json.v2+json, */*"], BINARY),
    (&["application/vnd.kafka.json.v2+json, */*;q=0.9"], JSON),
    (&["*/*, application/vnd.kafka.v2+json"], BINARY),
    (&["application/vnd.kafka.avro.v2+json, application/vnd.kafka.json.v2+json"], AVRO),
    (&["application/vnd.kafka.json.v2+json, application/vnd.kafka.avro.v2+json"], JSON),
    // Types that no instance has.
    (&["application/vnd.kafka.avro.v2+json"], AVRO),
    (&["application/vnd.kafka.jsonschema.v2+json"], JSON_SCHEMA),
    (&["application/vnd.kafka.protobuf.v2+json"], PROTOBUF),
    // q=0 excludes.
    (&["*/*, application/vnd.kafka.binary.v2+json;q=0"], V2),
    (&["*/*, application/vnd.kafka.binary.v2+json;q=0, application/vnd.kafka.v2+json;q=0.0"], JSON),
    (&["*/*;q=0, application/vnd.kafka.json.v2+json"], JSON),
    (&["application/vnd.kafka.json.v2+json;q=0"], NONE),
    (&["*/*;q=0"], NONE),
    // Several header lines are one list.
    (&["application/json", "application/vnd.kafka.json.v2+json"], JSON),
    (&["application/vnd.kafka.json.v2+json;q=0.5", "application/vnd.kafka.binary.v2+json;q=0.6"], BINARY),
    // Nothing of the second version, and nothing that can be read.
    (&["application/vnd.kafka.json.v1+json"], NONE),
    (&["application/vnd.kafka+json"], NONE),
    (&["application/vnd.kafka.v3+json, text/html"], NONE),
    (&["json"], NONE),
    (&["application/vnd.kafka.json.v2+json;q=high"], NONE),
    (&["application/vnd.kafka.json.v2+json;q=2"], NONE),
];

/// [AC-01] [AC-02] [AC-03] [AC-04] [D-03] [D-04] [RT-05] every row, on an instance of each format.
#[tokio::test]
async fn accept_chooses_the_reply_and_the_format_that_it_reads() {
    let service = Service::start().await;
    let user = service.user(1);
    instances(&service, &user).await;
    for (lines, chosen) in ROWS {
        for format in ["binary", "json"] {
            let what = format!("{lines:?} of a {format} instance");
            user.post(
                &format!("{GROUP}/instances/{format}/positions/beginning"),
                r#"{"partitions": []}"#,
            )
            .await
            .expect(204);
            let reply = fetch(&user, format, lines).send().await;
            let is_read = match *chosen {
                BINARY | V2 => format == "binary",
                JSON => format == "json",
                _ => false,
            };
            if is_read {
                let reply = reply.expect(200);
                let value = if format == "json" { "[1]" } else { "\"WzFd\"" };
                assert!(
                    reply.text().contains(&format!("\"value\":{value}")),
                    "{what}: {}",
                    reply.text()
                );
                assert_eq!(reply.header("content-type"), Some(*chosen), "{what}");
            } else if chosen.is_empty() {
                is_error(&what, &reply, 406, 406, "Accept");
                assert_eq!(reply.header("content-type"), Some(V2), "{what}");
            } else {
                is_error(&what, &reply, 406, 40601, &format!("format is {format}"));
                assert_eq!(reply.header("content-type"), Some(*chosen), "{what}");
            }
        }
    }
    let bytes = fetch(&user, "binary", &[])
        .add("Accept", b"\xff/\xff")
        .send()
        .await;
    is_error("bytes", &bytes, 406, 406, "Accept");
}

/// [AC-03] [AC-04] what a refusal names is what reads the instance.
#[tokio::test]
async fn a_refused_accept_is_told_which_one_to_send() {
    let service = Service::start().await;
    let user = service.user(1);
    instances(&service, &user).await;
    for (format, accept, names) in [
        ("binary", JSON, BINARY),
        ("json", BINARY, JSON),
        ("binary", "text/html", BINARY),
        ("json", "text/html", JSON),
    ] {
        let reply = fetch(&user, format, &[accept]).send().await.expect(406);
        let message = reply.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(names), "{message}");
    }
}

/// [D-04] [RT-05] an error of a fetch has the type that was chosen, whatever refused it; before the choice it has none.
#[tokio::test]
async fn a_fetchs_errors_have_the_type_that_was_chosen() {
    let mut limits = Limits::default();
    limits.max_fetches_per_user = 0;
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    instances(&service, &user).await;
    for accept in [BINARY, V2, JSON, AVRO] {
        for (path, code) in [
            ("nobody/records", 40403),
            ("nobody/records?timeout=soon", 422),
            ("..%2f/records", 40403),
        ] {
            let target = format!("{GROUP}/instances/{path}");
            let reply = Raw::of(&user, "GET", &target).add("Accept", accept).send().await;
            assert_eq!(reply.error().1, code, "{accept} {path}");
            assert_eq!(reply.header("content-type"), Some(accept), "{path}");
        }
    }
    for (format, accept) in [("binary", BINARY), ("binary", V2), ("json", JSON)] {
        let reply = fetch(&user, format, &[accept]).send().await;
        assert_eq!(
            (reply.error(), reply.header("content-type")),
            ((429, 42901), Some(accept))
        );
    }
    let nobody = fetch(&user, "json", &[JSON]).without("subject").send().await;
    assert_eq!(
        (nobody.error(), nobody.header("content-type")),
        ((422, 422), Some(V2))
    );
    let refused = fetch(&user, "json", &[JSON])
        .set("subject", "nobody")
        .send()
        .await;
    assert_eq!(
        (refused.error(), refused.header("content-type")),
        ((401, 40101), Some(V2))
    );
}

/// [RT-05] no other route looks at `Accept`.
#[tokio::test]
async fn accept_is_nothing_to_the_other_routes() {
    let service = Service::start().await;
    let user = crate::routes::reader(&service).await;
    for row in &crate::routes::ROUTES[..12] {
        for accept in [JSON, "application/json", "text/html", "*/*;q=0"] {
            let reply = row.prepare(&user).await.add("Accept", accept).send().await;
            row.is_answered(accept, &user, &reply);
            let media_type = (row.status == 200).then_some(V2);
            assert_eq!(reply.header("content-type"), media_type, "{} {accept}", row.path);
        }
    }
}

/// An instance of each format, named for it, with a topic of one record.
async fn instances(service: &Service, user: &Client) {
    service.topic(user, "t");
    service.write(user, "t", &[b"[1]"]);
    for format in ["binary", "json"] {
        let create = format!(r#"{{"name": "{format}", "format": "{format}"}}"#);
        user.post(GROUP, &create).await.expect(200);
        let assign = r#"{"partitions": [{"topic": "t", "partition": 0}]}"#;
        user.post(&format!("{GROUP}/instances/{format}/assignments"), assign)
            .await
            .expect(204);
    }
}

fn fetch(user: &Client, format: &str, lines: &[&str]) -> Raw {
    let target = format!("{GROUP}/instances/{format}/records");
    let request = Raw::of(user, "GET", &target);
    lines
        .iter()
        .fold(request, |request, line| request.add("Accept", line))
}
