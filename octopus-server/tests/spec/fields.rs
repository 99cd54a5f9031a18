//! The fields of a request's body and the parameters of its query: what they may hold, and what is said of one that
//! does not.

use octopus_core::Limits;
use serde_json::json;

use crate::{
    client::{BINARY, Client},
    raw::{INSTANCE, is_error},
    routes::{ROUTES, reader},
    service::{Service, on_kafka},
};

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
    let seek = commits.replace(['7', '8'], "0").replace('3', "2");
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
