//! Who may call: the headers `subject` and `authorization`, and whose instances are whose.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use octopus_auth::{Caller, Checked, Credentials, TokenCheck, TokenFault};
use octopus_core::Limits;
use serde_json::json;

use crate::{
    client::Client,
    raw::{GROUP, INSTANCE, Raw, is_error},
    routes::{ROUTES, reader},
    service::Service,
};

/// [AU-01] on every route, and the message names the header.
#[tokio::test]
async fn every_route_needs_both_headers() {
    let service = Service::start().await;
    let user = reader(&service).await;
    for row in &ROUTES {
        let request = row.request(&user);
        for (missing, names) in [
            (&["subject"][..], "subject"),
            (&["authorization"], "authorization"),
            (&["subject", "authorization"], "subject"),
        ] {
            let mut bare = request.clone();
            for name in missing {
                bare = bare.without(name);
            }
            let what = format!("{} {} without {missing:?}", row.method, row.path);
            is_error(&what, &bare.send().await, 422, 422, names);
        }
    }
    let row = &ROUTES[6];
    let request = row.prepare(&user).await;
    let upper = request
        .without("subject")
        .without("authorization")
        .add("SUBJECT", &user.subject)
        .add("Authorization", format!("Bearer {}", user.token));
    row.is_answered("in capitals", &user, &upper.send().await);
}

/// [AU-02] [D-42] each way in which a subject is no UUID, on the wire.
#[tokio::test]
async fn a_subject_that_is_no_uuid_is_401() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let good = user.subject.clone();
    let request = ROUTES[3].request(&user);
    for subject in [
        "",
        "nobody",
        &good.replace('-', ""),
        &good[1..],
        &format!("{good}0"),
        &format!("{{{good}}}"),
        &format!("urn:uuid:{good}"),
        &good.replace('6', "g"),
        &good.replacen('-', "0", 1),
        &format!("{good},{good}"),
        "6a0f4d3e-0000-4000-8000-00000000ä01",
    ] {
        let reply = request.clone().set("subject", subject).send().await;
        is_error(subject, &reply, 401, 40101, "UUID");
    }
    let twice = request.clone().add("subject", &good).send().await;
    is_error("twice", &twice, 401, 40101, "subject");
    let bytes = request.set("subject", b"\xff\xfe").send().await;
    is_error("bytes", &bytes, 401, 40101, "subject");
}

/// [D-42] [NS-01] the case of a subject's digits is nothing: it is the same user, with the same instances and topics.
#[tokio::test]
async fn a_subject_is_the_same_in_any_case() {
    let service = Service::start().await;
    let mut user = service.user(0xabcd);
    service.topic(&user, "t");
    user.post(GROUP, r#"{"name": "i"}"#).await.expect(200);
    user.subject = user.subject.to_uppercase();
    user.post(&format!("{INSTANCE}/subscription"), r#"{"topics": ["t"]}"#)
        .await
        .expect(204);
    user.subject = user.subject.to_lowercase();
    let subscription = user.get(&format!("{INSTANCE}/subscription")).await;
    assert_eq!(subscription.expect(200).json(), json!({"topics": ["t"]}));
}

/// [AU-02] [D-42] each way in which a token is malformed, on the wire, and the lengths that are not.
#[tokio::test]
async fn a_token_is_33_to_254_word_characters_behind_bearer() {
    let service = Service::start().await;
    let user = service.user(1);
    let request = Raw::of(&user, "DELETE", INSTANCE);
    let of = |length: usize| format!("0001_{}", "aZ9_".repeat(64))[..length].to_owned();
    for length in [33, 34, 253, 254] {
        let good = request
            .clone()
            .set("authorization", format!("Bearer {}", of(length)));
        is_error("a good token", &good.send().await, 404, 40403, "");
    }
    for authorization in [
        String::new(),
        "Bearer".to_owned(),
        of(40),
        format!("Bearer {}", of(32)),
        format!("Bearer {}", of(255)),
        format!("Bearer  {}", of(40)),
        format!("bearer {}", of(40)),
        format!("Basic {}", of(40)),
        format!("Bearer {}-", of(40)),
        format!("Bearer {} {}", of(40), of(40)),
        format!("Bearer {},Bearer {}", of(40), of(40)),
    ] {
        let reply = request.clone().set("authorization", &authorization).send().await;
        is_error(&authorization, &reply, 401, 40101, "token");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    let twice = request.add("authorization", format!("Bearer {}", of(40)));
    is_error("twice", &twice.send().await, 401, 40101, "token");
}

/// [AU-02] a token of each kind that is not the caller's own, active and of the service's scope: 401 on every route,
/// and nothing is done.
#[tokio::test]
async fn a_token_that_does_not_hold_is_401_on_every_route() {
    let authority = Authority::default();
    let tokens = Arc::new(authority.clone());
    let service = Service::behind(Some(tokens), Limits::default(), |builder| builder).await;
    let (user, other) = (service.user(1), service.user(2));
    authority.says(&user.token, Word::Holds(user.subject.clone()));
    let user = reader(&service).await;
    for (what, word) in [
        ("of nobody", Word::Unknown),
        ("inactive", Word::Inactive),
        ("without the scope", Word::WithoutScope),
        ("of another user", Word::Holds(other.subject.clone())),
    ] {
        for row in &ROUTES {
            let request = row.prepare(&user).await;
            authority.says(&user.token, word.clone());
            let reply = request.send().await;
            is_error(
                &format!("{what}: {} {}", row.method, row.path),
                &reply,
                401,
                40101,
                "token",
            );
            authority.says(&user.token, Word::Holds(user.subject.clone()));
            let path = format!("{INSTANCE}/subscription");
            let status = if row.path.is_empty() { 404 } else { 200 };
            assert_eq!(
                user.get(&path).await.status,
                status,
                "{what}: {} {}",
                row.method,
                row.path
            );
        }
    }
}

/// [D-35] while nobody can say whether a token holds, nobody is let in, and the answer says to come again.
#[tokio::test]
async fn while_the_authority_does_not_answer_nobody_is_let_in() {
    let authority = Authority::default();
    let tokens = Arc::new(authority.clone());
    let service = Service::behind(Some(tokens), Limits::default(), |builder| builder).await;
    let user = service.user(1);
    authority.says(&user.token, Word::Holds(user.subject.clone()));
    let user = reader(&service).await;
    for row in &ROUTES {
        let request = row.prepare(&user).await;
        authority.says(&user.token, Word::Silent);
        // The question of the token comes before that of the content type [D-01].
        let reply = request.clone().set("Content-Type", "text/plain").send().await;
        is_error(row.path, &reply, 503, 503, "retry");
        authority.says(&user.token, Word::Holds(user.subject.clone()));
        row.is_answered("once it answers again", &user, &request.send().await);
    }
}

/// [AU-03] [D-42] another subject's request for the same group and name finds nothing, on each route of an instance, and
/// may make an instance of that name of its own.
#[tokio::test]
async fn instances_belong_to_the_subject_that_created_them() {
    let service = Service::start().await;
    let user = reader(&service).await;
    let other = service.user(2);
    service.topic(&other, "t");
    for row in &ROUTES[1..] {
        let reply = row.request(&other).send().await;
        is_error(row.path, &reply, 404, 40403, "not found");
    }
    other.post(GROUP, r#"{"name": "i"}"#).await.expect(200);
    let path = format!("{INSTANCE}/assignments");
    assert_eq!(
        other.get(&path).await.json(),
        json!({"partitions": []}),
        "its own"
    );
    other.delete(INSTANCE).await.expect(204);
    assert_eq!(
        user.get(&path).await.expect(200).json(),
        json!({"partitions": [{"topic": "t", "partition": 0}]}),
        "untouched"
    );
    let elsewhere = Client { ..user.clone() };
    for path in [
        "/api/v2/consumers/h/instances/i",
        "/api/v2/consumers/g/instances/I",
    ] {
        assert_eq!(elsewhere.delete(path).await.error(), (404, 40403), "{path}");
    }
}

/// A token authority that says what it is told to.
#[derive(Clone, Default)]
struct Authority(Arc<Mutex<HashMap<String, Word>>>);

#[derive(Clone)]
enum Word {
    /// Active, with the scope, and this subject's.
    Holds(String),
    Inactive,
    WithoutScope,
    Unknown,
    Silent,
}

impl Authority {
    fn says(&self, token: &str, word: Word) {
        self.0.lock().unwrap().insert(token.to_owned(), word);
    }
}

impl TokenCheck for Authority {
    fn check<'a>(&'a self, credentials: &'a Credentials) -> Checked<'a> {
        Box::pin(async {
            let subject = credentials.subject()?;
            let token = credentials.token()?;
            let word = self.0.lock().unwrap().get(token).cloned();
            match word.unwrap_or(Word::Unknown) {
                Word::Holds(owner) if owner == subject.to_string() => Ok(Caller::of(subject)),
                Word::Holds(_) | Word::Inactive | Word::WithoutScope | Word::Unknown => {
                    Err(TokenFault::Refused)
                }
                Word::Silent => Err(TokenFault::Unreachable),
            }
        })
    }
}
