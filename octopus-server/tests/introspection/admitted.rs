//! Who is let in, and what the authority is asked about.

use std::time::Duration;

use serde_json::json;

use crate::{
    ADMITTED, ANN, BEN, PATH, REFUSED, SCOPE, active, asks,
    authority::{Authority, Mode},
    caller, serve,
    support::kafka::Broker,
    token_of,
};

/// [AU-02] [AU-03] [NS-01] a token opens the service to its subject and to the identities linked to it, each with a namespace
/// and instances of its own.
#[tokio::test]
async fn a_token_opens_the_service_to_its_identities() {
    let (authority, broker) = (Authority::start().await, Broker::start().await);
    let server = serve(&authority, &broker.address()).await;
    authority.knows(
        "ann",
        active(ANN, &format!(r#", "identity_set": ["{ANN}", "{BEN}"]"#)),
    );
    let ann = caller(&server, ANN, "ann");
    let topic = broker.topic(&ann, "events").await;
    broker.write(&topic, &[b"1"]).await;
    let create = json!({"name": "i", "auto.offset.reset": "earliest"}).to_string();
    ann.post("/api/v2/consumers/g", &create).await.expect(200);
    let subscription = json!({"topics": ["events"]}).to_string();
    ann.post(&format!("{PATH}/subscription"), &subscription)
        .await
        .expect(204);
    let records = ann.fetch_some(PATH, "?timeout=5000", "*/*").await;
    assert_eq!(records[0]["value"], json!("MQ=="));
    // The same token as another of its identities.
    let ben = caller(&server, BEN, "ann");
    assert_eq!(asks(&ben).await, ADMITTED);
    ann.delete(PATH).await.expect(204);
    assert_eq!(authority.asked(), 1);
}

/// [AU-02] each way in which a token does not hold, as an authority tells it.
#[tokio::test]
async fn a_token_that_does_not_hold_is_40101() {
    let authority = Authority::start().await;
    let server = serve(&authority, "").await;
    for (token, answer) in [
        ("inactive", r#"{"active": false}"#.to_owned()),
        ("bens", active(BEN, "")),
        ("nobodys", format!(r#"{{"active": true, "scope": "{SCOPE}"}}"#)),
        (
            "over",
            format!(r#"{{"active": true, "scope": "{SCOPE}", "sub": "{ANN}", "exp": 1700000000}}"#),
        ),
        ("none", format!(r#"{{"active": true, "sub": "{ANN}"}}"#)),
        (
            "longer",
            format!(r#"{{"active": true, "scope": "{SCOPE}_2 x{SCOPE}", "sub": "{ANN}"}}"#),
        ),
        (
            "name",
            format!(r#"{{"active": true, "scope": "{SCOPE}", "sub": "x", "username": "{ANN}"}}"#),
        ),
    ] {
        authority.knows(token, answer);
        let ann = caller(&server, ANN, token);
        let reply = ann.delete(PATH).await;
        assert_eq!(reply.error(), REFUSED, "{token}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    authority.knows("good", active(ANN, ""));
    assert_eq!(asks(&caller(&server, ANN, "good")).await, ADMITTED);
    let upper = ANN.to_uppercase();
    assert_eq!(asks(&caller(&server, &upper, "good")).await, ADMITTED);
}

/// [D-42] [D-01] [AU-01] [RT-02] what has not the form of a token, or comes to no token check, never reaches the authority.
#[tokio::test]
async fn the_authority_is_only_asked_about_what_may_be_a_token() {
    let authority = Authority::start().await;
    let server = serve(&authority, "").await;
    let mut ann = caller(&server, ANN, "ann");
    for token in [
        String::new(),
        "x".repeat(32),
        "x".repeat(255),
        format!("{}-", token_of("ann")),
        format!("{}&include=x", token_of("ann")),
        format!(" {}", token_of("ann")),
        format!("{} x", token_of("ann")),
        format!("{}\u{e4}", token_of("ann")),
    ] {
        ann.token = token;
        assert_eq!(asks(&ann).await, REFUSED, "{}", ann.token);
    }
    ann.token = token_of("ann");
    for subject in ["ann", "", &ANN[1..]] {
        ann.subject = subject.to_owned();
        assert_eq!(asks(&ann).await, REFUSED, "{subject}");
    }
    ann.subject = ANN.to_owned();
    assert_eq!(ann.get("/api/v2/nothing").await.status, 404);
    assert_eq!(ann.send("PATCH", PATH, &[], "").await.status, 405);
    let mut bare = ann.connect().await;
    bare.send(&format!(
        "DELETE {PATH} HTTP/1.1\r\nHost: x\r\nsubject: {ANN}\r\n\r\n"
    ))
    .await;
    assert_eq!(bare.receive().await.status, 422);
    assert_eq!(authority.asked(), 0);
    // What follows the token check is refused after it [D-01].
    ann.token = "x".repeat(254);
    let typed = ann
        .send(
            "POST",
            "/api/v2/consumers/g",
            &[("Content-Type", "text/plain")],
            "{}",
        )
        .await;
    assert_eq!((typed.error(), authority.asked()), (REFUSED, 1));
}

/// [AU-02] callers that come with one token at once cost one look-up, also where the first of them leaves.
#[tokio::test]
async fn twenty_first_requests_are_one_look_up() {
    let authority = Authority::start().await;
    let server = serve(&authority, "").await;
    authority.knows("ann", active(ANN, ""));
    authority.set(Mode::Silent);
    let ann = caller(&server, ANN, "ann");
    let mut first = ann.connect().await;
    first.send(&ann.head("DELETE", PATH, &[], "")).await;
    authority.was_asked(1).await;
    let others: Vec<_> = (0..20)
        .map(|_| {
            let ann = ann.clone();
            tokio::spawn(async move { asks(&ann).await })
        })
        .collect();
    // Each of them would be a look-up of its own within this time, were they not one.
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(first);
    tokio::time::sleep(Duration::from_millis(100)).await;
    authority.set(Mode::Answers);
    for other in others {
        assert_eq!(other.await.unwrap(), ADMITTED);
    }
    assert_eq!(authority.asked(), 1);
}
