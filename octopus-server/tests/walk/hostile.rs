//! Input of those who mean harm, or mean nothing.

use tokio::io::AsyncWriteExt as _;

use crate::{
    refused::{GROUP, instances, is_error, is_quiet},
    support::{kafka::Broker, server::Server},
};

/// What a hostile request may come to.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Status and error code.
    Code(u16, u64),
    /// One of these statuses, by hyper and without a word.
    Bare(&'static [u16]),
    /// Status and nothing more that matters.
    Status(u16),
    /// The connection ends without an answer: nobody is there to read one.
    End,
}

/// No input hangs the service or makes it panic, and the next request is served as ever.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_and_hurts_nobody() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &["--max-instances-per-user", "10"]).await;
    let user = server.user(0);
    instances(&broker, &user).await;
    let callers = format!(
        "Host: h\r\nsubject: {}\r\nauthorization: Bearer {}\r\n",
        user.subject, user.token
    );
    let with = |line: &str, headers: &str, body: &str| {
        format!("{line} HTTP/1.1\r\n{callers}{headers}\r\n{body}").into_bytes()
    };
    let post = |path: &str, body: &str| {
        let length = format!("Content-Length: {}\r\n", body.len());
        with(&format!("POST {GROUP}{path}"), &length, body)
    };
    let bytes = |parts: &[&[u8]]| parts.concat();
    let (open, close) = ("[".repeat(30_000), "]".repeat(30_000));
    let digits = "9".repeat(1000);
    let filler = "x".repeat(200 * 1024);
    let records = format!("GET {GROUP}/instances/free/records");
    let offset = |partition: &str, offset: &str| {
        let item = format!(r#"{{"topic": "events", "partition": {partition}, "offset": {offset}}}"#);
        post("/instances/bin/positions", &format!(r#"{{"offsets": [{item}]}}"#))
    };
    let chunks = format!("1000\r\n{}\r\n", "x".repeat(0x1000)).repeat(17) + "0\r\n\r\n";

    #[rustfmt::skip]
    let hostile: Vec<(&str, Vec<u8>, Fate)> = vec![
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), Fate::Bare(&[400])),
        ("a method of no letters", with("G@T / ", "", ""), Fate::Bare(&[400])),
        ("an unknown method", with(&format!("BREW {GROUP}"), "", ""), Fate::Status(405)),
        ("a method of 10 KiB", with(&format!("{} {GROUP}", "M".repeat(10_000)), "", ""), Fate::Status(405)),
        ("HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), Fate::End),
        ("HTTP/1.7", format!("GET {GROUP} HTTP/1.7\r\n{callers}\r\n").into_bytes(), Fate::Bare(&[400, 505])),
        ("no host", format!("GET {GROUP} HTTP/1.1\r\n\r\n").into_bytes(), Fate::Code(400, 400)),
        ("two hosts", with(&format!("POST {GROUP}"), "Host: i\r\n", ""), Fate::Code(400, 400)),
        ("HTTP/1.0 without a host", format!("GET {GROUP} HTTP/1.0\r\n\r\n").into_bytes(), Fate::Status(405)),
        ("a path of bytes", bytes(&[b"GET /api/v2/consumers/\xff\xfe HTTP/1.1\r\n", callers.as_bytes(), b"\r\n"]), Fate::Bare(&[400])),
        ("a path of escaped bytes", with("POST /api/v2/consumers/%ff%00", "", ""), Fate::Code(422, 42204)),
        ("a broken escape", with("DELETE /api/v2/consumers/g/instances/%2", "", ""), Fate::Code(404, 40403)),
        ("a way up", with("POST /api/v2/consumers/../../etc", "", ""), Fate::Status(404)),
        ("a query of bytes", bytes(&[records.as_bytes(), b"?timeout=\xff HTTP/1.1\r\n", callers.as_bytes(), b"\r\n"]), Fate::Bare(&[400])),
        ("a query of escaped bytes", with(&format!("{records}?timeout=%ff"), "", ""), Fate::Code(422, 422)),
        ("parameters of 1,000 digits", with(&format!("{records}?timeout=-{digits}&max_bytes={digits}x"), "", ""), Fate::Code(422, 422)),
        ("a subject of bytes", bytes(&[format!("POST {GROUP} HTTP/1.1\r\nHost: h\r\nauthorization: x\r\n").as_bytes(), b"subject: \xff\xfe\r\n\r\n"]), Fate::Code(401, 40101)),
        ("a content type of bytes", bytes(&[format!("POST {GROUP} HTTP/1.1\r\n{callers}").as_bytes(), b"Content-Type: \xff\r\n\r\n"]), Fate::Code(415, 415)),
        ("an Accept of bytes", bytes(&[format!("{records} HTTP/1.1\r\n{callers}").as_bytes(), b"Accept: \xff/\xff\r\n\r\n"]), Fate::Code(406, 406)),
        ("an Accept of 3,500 ranges", with(&records, &format!("Accept: {}*/*;q=0\r\n", "*/*,".repeat(3_500)), ""), Fate::Status(200)),
        ("a head over 16 KiB", with(&records, &format!("Accept: {}*/*;q=0\r\n", "*/*,".repeat(15_000)), ""), Fate::Bare(&[431])),
        ("a header with a NUL", with(&format!("POST {GROUP}"), "x: a\0b\r\n", ""), Fate::Bare(&[400])),
        ("a header without a name", with(&format!("POST {GROUP}"), ": a\r\n", ""), Fate::Bare(&[400])),
        ("headers of 200 KiB", with(&format!("POST {GROUP}"), &format!("x: {filler}\r\n"), ""), Fate::Bare(&[431])),
        ("1,000 headers", with(&format!("POST {GROUP}"), &"x: y\r\n".repeat(1000), ""), Fate::Bare(&[431])),
        ("a target of 200 KiB", with(&format!("GET /{filler}"), "", ""), Fate::Bare(&[414, 431])),
        ("a length that is none", with(&format!("POST {GROUP}"), "Content-Length: many\r\n", ""), Fate::Bare(&[400])),
        ("two lengths", with(&format!("POST {GROUP}"), "Content-Length: 1\r\nContent-Length: 2\r\n", "{}"), Fate::Bare(&[400])),
        ("a length past 64 bits", with(&format!("POST {GROUP}"), &format!("Content-Length: {digits}\r\n"), ""), Fate::Bare(&[400])),
        ("a large length, and nothing sent", with(&format!("POST {GROUP}"), "Content-Length: 70000\r\n", ""), Fate::Code(413, 41301)),
        ("a large length that waits to be asked for", with(&format!("POST {GROUP}"), "Content-Length: 70000\r\nExpect: 100-continue\r\n", ""), Fate::Code(413, 41301)),
        ("the largest length", with(&format!("POST {GROUP}"), "Content-Length: 18446744073709551615\r\n", ""), Fate::Bare(&[413, 431])),
        ("chunks over 64 KiB", with(&format!("POST {GROUP}"), "Transfer-Encoding: chunked\r\n", &chunks), Fate::Code(413, 41301)),
        ("chunks of no size", with(&format!("POST {GROUP}"), "Transfer-Encoding: chunked\r\n", "zz\r\n\r\n"), Fate::End),
        ("a chunk of the largest size", with(&format!("POST {GROUP}"), "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"), Fate::End),
        ("an unknown coding", with(&format!("POST {GROUP}"), "Transfer-Encoding: gzip\r\n", ""), Fate::Bare(&[400])),
        ("nested lists", post("/instances/free/subscription", &format!(r#"{{"topics": [{open}{close}]}}"#)), Fate::Code(422, 422)),
        ("nested lists without an end", post("/instances/free/subscription", &format!(r#"{{"topics": [{open}"#)), Fate::Code(400, 40003)),
        ("nested objects", post("", &format!(r#"{{"name": {}1{}}}"#, r#"{"":"#.repeat(10_000), "}".repeat(10_000))), Fate::Code(422, 42204)),
        ("a body of brackets", post("", &open), Fate::Code(400, 40003)),
        ("a body that is a list", post("", "[]"), Fate::Code(422, 422)),
        ("a lone surrogate", post("", r#"{"name": "\ud800"}"#), Fate::Code(400, 40003)),
        ("a body of bytes", bytes(&[&with(&format!("POST {GROUP}"), "Content-Length: 14\r\n", ""), b"{\"name\": \"\xff\xff\"}"]), Fate::Code(400, 40003)),
        ("an offset of 1,000 digits", offset("0", &digits), Fate::Code(422, 422)),
        ("an offset that is nearly none", offset("0", &format!("0.{digits}")), Fate::Code(422, 422)),
        ("a partition of 1,000 digits", offset(&digits, "0"), Fate::Code(422, 422)),
        ("a partition past 31 bits", offset("2147483648", "0"), Fate::Code(422, 422)),
        ("a timeout past all bounds", post("", &format!(r#"{{"consumer.request.timeout.ms": {digits}, "fetch.min.bytes": "{digits}"}}"#)), Fate::Status(200)),
        ("a field's name of 60 KiB", post("", &format!(r#"{{"{}": 1}}"#, "n".repeat(60_000))), Fate::Code(422, 422)),
    ];
    for (what, request, fate) in hostile {
        let mut connection = user.connect().await;
        // What is refused early is not always taken whole.
        let _ = connection.stream.write_all(&request).await;
        let reply = connection.try_receive().await;
        match (fate, reply) {
            (Fate::End, None) => {}
            (Fate::Code(status, code), Some(reply)) => {
                is_error(what, &reply, status, code, "");
                assert!(reply.body.len() < 1024, "{what}: a short message");
            }
            (Fate::Bare(allowed), Some(reply)) if allowed.contains(&reply.status) => {}
            (Fate::Status(status), Some(reply)) if reply.status == status => {}
            (fate, reply) => panic!("{what}: {fate:?}, but {reply:?}"),
        }
    }

    let mut cut = user.connect().await;
    cut.stream
        .write_all(&with(
            &format!("POST {GROUP}"),
            "Content-Length: 100\r\n",
            r#"{"name": "cut"}"#,
        ))
        .await
        .unwrap();
    cut.stream.shutdown().await.unwrap();
    assert_eq!(cut.try_receive().await, None, "a body cut short is no request");

    let mut asked = user.connect().await;
    let body = r#"{"name": "asked"}"#;
    let head = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len());
    asked.send_bytes(&with(&format!("POST {GROUP}"), &head, "")).await;
    assert_eq!(asked.receive().await.status, 100);
    asked.send(body).await;
    assert_eq!(asked.receive().await.expect(200).json()["instance_id"], "asked");

    let mut piped = user.connect().await;
    let wrong = with("GET /nowhere", "", "");
    let create = post("", r#"{"name": "piped"}"#);
    let delete = with(&format!("DELETE {GROUP}/instances/piped"), "", "");
    piped
        .send_bytes(&bytes(&[&wrong, &create, &delete, &delete]))
        .await;
    for status in [404, 200, 204, 404] {
        assert_eq!(piped.receive().await.status, status);
    }

    assert_eq!(
        user.delete(&format!("{GROUP}/instances/cut")).await.error(),
        (404, 40403)
    );
    user.post(GROUP, r#"{"name": "last"}"#).await.expect(200);
    is_quiet(&server, &[&user]);
}
