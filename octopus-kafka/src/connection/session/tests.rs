use std::sync::atomic::AtomicU32;

use kafka_protocol::{
    messages::{SaslAuthenticateResponse, SaslHandshakeResponse},
    protocol::{Decodable as _, Encodable as _},
};
use tokio::time::{advance, sleep};

use super::*;
use crate::{
    connection::tests::{Came, METADATA, Peer, ask, open, settle, within},
    security::{Issued, Issuing, Login, NotIssued, Renewed, Source, Token},
};

const HANDSHAKE: i16 = ApiKey::SaslHandshake as i16;
const AUTHENTICATE: i16 = ApiKey::SaslAuthenticate as i16;
const PASSWORD: &str = "the-password-that-nobody-sees";

fn login() -> Login {
    Login {
        username: "octopus".to_owned(),
        password: PASSWORD.into(),
    }
}

fn plain() -> Sasl {
    Sasl::Plain(login())
}

fn address() -> Arc<str> {
    "kafka-1.example.org:9092".into()
}

/// What a scripted broker answers.
enum Says {
    /// To a handshake: an error code, and what it offers.
    Offers(i16, &'static [&'static str]),
    /// To a message: its own bytes, and how long the session lasts in milliseconds.
    Accepts(&'static [u8], i64),
    /// To a message: an error code and its words.
    Refuses(i16, &'static str),
    /// Something that is no answer.
    Lies,
    /// It ends the connection.
    Leaves,
}

async fn say(peer: &mut Peer, came: &Came, says: &Says) {
    let mut body = BytesMut::new();
    match says {
        Says::Offers(code, names) => {
            let names = names.iter().map(|name| StrBytes::from_static_str(name)).collect();
            let answer = SaslHandshakeResponse::default()
                .with_error_code(*code)
                .with_mechanisms(names);
            answer.encode(&mut body, came.version).unwrap();
        }
        Says::Accepts(bytes, ms) => {
            body.extend_from_slice(&[0]);
            let answer = SaslAuthenticateResponse::default()
                .with_auth_bytes(Bytes::from_static(bytes))
                .with_session_lifetime_ms(*ms);
            answer.encode(&mut body, came.version).unwrap();
        }
        Says::Refuses(code, text) => {
            body.extend_from_slice(&[0]);
            let answer = SaslAuthenticateResponse::default()
                .with_error_code(*code)
                .with_error_message(Some(StrBytes::from_static_str(text)));
            answer.encode(&mut body, came.version).unwrap();
        }
        Says::Lies => body.extend_from_slice(&[0, 0, 0x7f, 0xff, 0xff, 0xff]),
        Says::Leaves => return,
    }
    peer.answer(came.correlation_id, &body).await;
}

/// Takes one request for each answer; what was asked.
async fn script(peer: &mut Peer, answers: &[Says]) -> Vec<Came> {
    let mut asked = Vec::new();
    for says in answers {
        let came = peer.request().await;
        say(peer, &came, says).await;
        asked.push(came);
    }
    asked
}

/// What a message says.
fn said(came: &Came) -> Vec<u8> {
    assert_eq!((came.api_key, came.version), (AUTHENTICATE, 2));
    // Behind the request's header, which ends with no tagged fields.
    let mut body = Bytes::copy_from_slice(&came.body[1..]);
    SaslAuthenticateRequest::decode(&mut body, 2)
        .unwrap()
        .auth_bytes
        .to_vec()
}

/// A sign-in against these answers: how it ended, what was asked, and what is left of both sides.
async fn signed_in(sasl: &Sasl, answers: &[Says]) -> (Result<(), Kind>, Vec<Came>, Connection, Peer) {
    let (connection, mut peer, _) = open().await;
    let leaves = answers.iter().any(|says| matches!(says, Says::Leaves));
    let address = address();
    let serve = async {
        let asked = script(&mut peer, answers).await;
        if leaves {
            tokio::io::AsyncWriteExt::shutdown(&mut peer.0).await.unwrap();
        }
        asked
    };
    let (ended, asked) = tokio::join!(connection.sign_in(sasl, &address), serve);
    (ended, asked, connection, peer)
}

fn why(ended: Result<(), Kind>) -> String {
    match ended {
        Err(Kind::SignIn(why)) => why.into(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_names_its_mechanism_and_then_says_its_message() {
    let answers = [Says::Offers(0, &["PLAIN"]), Says::Accepts(b"", 0)];
    let (ended, asked, ..) = signed_in(&plain(), &answers).await;
    ended.unwrap();
    assert_eq!((asked[0].api_key, asked[0].version), (HANDSHAKE, 1));
    assert_eq!(asked[0].body, b"\0\x05PLAIN");
    assert_eq!(said(&asked[1]), format!("\0octopus\0{PASSWORD}").into_bytes());
}

/// [ER-05] each way in which a broker refuses, in one line without the password.
#[tokio::test(start_paused = true)]
async fn each_refusal_says_why_and_gives_nothing_away() {
    const OFFERS: Says = Says::Offers(0, &["PLAIN"]);
    for (answers, words) in [
        (
            vec![Says::Offers(33, &["SCRAM-SHA-256", "OAUTH\nBEARER"])],
            r"PLAIN: the broker does not offer it, but SCRAM-SHA-256, OAUTH\nBEARER",
        ),
        (vec![Says::Offers(34, &[])], "PLAIN: the port wants no sign-in"),
        (
            vec![Says::Offers(999, &[])],
            "PLAIN: the broker answered Unknown(999)",
        ),
        (
            vec![
                OFFERS,
                Says::Refuses(58, "Authentication failed: Invalid\nusername"),
            ],
            r"PLAIN: refused by the broker: Authentication failed: Invalid\nusername",
        ),
        (
            vec![OFFERS, Says::Refuses(58, "")],
            "PLAIN: refused by the broker",
        ),
        (
            vec![
                OFFERS,
                Says::Refuses(58, "no user with the-password-that-nobody-sees"),
            ],
            "PLAIN: refused by the broker",
        ),
        (
            vec![OFFERS, Says::Refuses(34, "late")],
            "PLAIN: the broker answered IllegalSaslState: late",
        ),
    ] {
        let (ended, ..) = signed_in(&plain(), &answers).await;
        assert_eq!(why(ended), words);
    }
}

/// What is said by nobody who knows Kafka is no refusal.
#[tokio::test(start_paused = true)]
async fn a_sign_in_that_is_answered_by_nonsense_or_broken_off_is_no_refusal() {
    let (ended, _, connection, mut peer) = signed_in(&plain(), &[Says::Lies]).await;
    assert_eq!(ended, Err(Kind::Malformed));
    assert!(connection.fault().is_some());
    assert_eq!(peer.rest().await, 0);
    let (ended, ..) = signed_in(&plain(), &[Says::Offers(0, &[]), Says::Leaves]).await;
    assert!(matches!(ended, Err(Kind::Closed { sent: true, .. })), "{ended:?}");
}

/// [ER-05] a broker that does not prove to know the password, and one that stops before it has to.
#[tokio::test(start_paused = true)]
async fn a_broker_is_believed_only_with_its_proof() {
    let scram = Sasl::ScramSha256(login());
    let answers = [Says::Offers(0, &[]), Says::Accepts(b"", 0)];
    let (ended, asked, ..) = signed_in(&scram, &answers).await;
    assert!(why(ended).contains("SCRAM-SHA-256: the broker's first part"));
    let first = String::from_utf8(said(&asked[1])).unwrap();
    assert!(
        first.starts_with("n,,n=octopus,r=") && first.len() == 15 + 32,
        "{first}"
    );
    let answers = [Says::Offers(0, &[]), Says::Accepts(b"r=another,s=AAAA,i=4096", 0)];
    let (ended, ..) = signed_in(&scram, &answers).await;
    assert!(why(ended).contains("nonce"));
}

#[tokio::test(start_paused = true)]
async fn no_two_sign_ins_have_the_same_nonce() {
    let scram = Sasl::ScramSha512(login());
    let credential = scram.credential().await.unwrap();
    let first = || {
        let exchange = scram.begin(&credential, "a", SystemTime::UNIX_EPOCH).unwrap();
        exchange.first()
    };
    assert_ne!(first(), first());
}

/// [ER-05] the broker says what is wrong with a token, and refuses it when it was heard.
#[tokio::test(start_paused = true)]
async fn a_refused_token_is_acknowledged_and_had_anew() {
    let source = Arc::new(Numbered::default());
    let sasl = Sasl::OAuthBearer(Renewed::new(Arc::clone(&source)));
    let refusal = [
        Says::Offers(0, &["OAUTHBEARER"]),
        Says::Accepts(br#"{"status":"invalid_token"}"#, 0),
        Says::Refuses(58, "{\"status\":\"invalid_token\"}"),
    ];
    let (ended, asked, ..) = signed_in(&sasl, &refusal).await;
    assert!(why(ended).starts_with("OAUTHBEARER: refused by the broker"));
    assert_eq!(said(&asked[1]), b"n,,\x01auth=Bearer token-0\x01\x01");
    assert_eq!(said(&asked[2]), b"\x01");
    let (ended, asked, ..) = signed_in(&sasl, &[Says::Offers(0, &[]), Says::Accepts(b"", 0)]).await;
    ended.unwrap();
    assert_eq!(said(&asked[1]), b"n,,\x01auth=Bearer token-1\x01\x01");
    signed_in(&sasl, &[Says::Offers(0, &[]), Says::Accepts(b"", 0)])
        .await
        .0
        .unwrap();
    assert_eq!(source.issued.load(Ordering::Relaxed), 2);
}

/// Tokens `token-0`, `token-1` and so on.
#[derive(Default)]
struct Numbered {
    issued: AtomicU32,
}

impl Source<Token> for Arc<Numbered> {
    fn issue(&self) -> Issuing<'_, Token> {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let credential = Token::new(format!("token-{number}").into());
        Box::pin(async move {
            Ok(Issued {
                credential,
                lifetime: Some(Duration::from_secs(3600)),
            })
        })
    }
}

/// [ER-05]
#[tokio::test(start_paused = true)]
async fn without_a_credential_nothing_is_said() {
    struct Nothing;
    impl Source<Token> for Nothing {
        fn issue(&self) -> Issuing<'_, Token> {
            Box::pin(async { Err(NotIssued::new("the endpoint answered 401")) })
        }
    }
    let sasl = Sasl::OAuthBearer(Renewed::new(Nothing));
    let (ended, _, connection, mut peer) = signed_in(&sasl, &[]).await;
    assert_eq!(
        why(ended),
        "OAUTHBEARER: no credential: the endpoint answered 401"
    );
    drop(connection);
    assert_eq!(peer.rest().await, 0);
}

/// A connection whose session lasts 100 s.
async fn session() -> (Connection, Peer) {
    let answers = [Says::Offers(0, &[]), Says::Accepts(b"", 100_000)];
    let (ended, _, connection, peer) = signed_in(&plain(), &answers).await;
    ended.unwrap();
    (connection, peer)
}

#[tokio::test(start_paused = true)]
async fn a_session_is_renewed_before_it_ends_again_and_again() {
    let (_connection, mut peer) = session().await;
    for _ in 0..3 {
        let began = Instant::now();
        let asked = script(&mut peer, &[Says::Offers(0, &[]), Says::Accepts(b"", 100_000)]).await;
        let after = began.elapsed().as_secs_f64();
        assert!((85.0..=95.1).contains(&after), "{after}");
        assert_eq!(asked[0].api_key, HANDSHAKE);
        assert_eq!(said(&asked[1]), format!("\0octopus\0{PASSWORD}").into_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_without_an_end_is_not_renewed() {
    let answers = [Says::Offers(0, &[]), Says::Accepts(b"", 0)];
    let (ended, _, _connection, mut peer) = signed_in(&plain(), &answers).await;
    ended.unwrap();
    tokio::select! {
        came = peer.request() => panic!("{} was asked", came.api_key),
        () = sleep(Duration::from_secs(400 * 24 * 3600)) => {}
    }
}

/// No request is lost by a renewal, and none is sent in the middle of it, where a broker would end the connection.
#[tokio::test(start_paused = true)]
async fn what_was_sent_is_answered_before_a_renewal_and_what_comes_meanwhile_after_it() {
    let (connection, mut peer) = session().await;
    advance(Duration::from_secs(80)).await;
    let serve = async {
        let early = peer.request().await;
        // The session is due, and its request is still being answered.
        sleep(Duration::from_secs(16)).await;
        settle().await;
        peer.answer(early.correlation_id, b"early").await;
        let handshake = peer.request().await;
        // Another request comes while the broker takes its time.
        sleep(Duration::from_secs(2)).await;
        say(&mut peer, &handshake, &Says::Offers(0, &[])).await;
        let message = peer.request().await;
        say(&mut peer, &message, &Says::Accepts(b"", 100_000)).await;
        let late = peer.request().await;
        peer.answer(late.correlation_id, b"late").await;
        [early, handshake, message, late].map(|came| came.api_key)
    };
    let late = async {
        sleep(Duration::from_secs(17)).await;
        ask(&connection, b"", 60).await
    };
    let (early, late, keys) = tokio::join!(ask(&connection, b"", 60), late, serve);
    assert_eq!(
        (early.unwrap(), late.unwrap()),
        (b"early".to_vec(), b"late".to_vec())
    );
    assert_eq!(keys, [METADATA, HANDSHAKE, AUTHENTICATE, METADATA]);
}

/// A caller in a hurry does not wait for a renewal, and its request is not sent.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_a_renewal_gives_up_in_time() {
    let (connection, mut peer) = session().await;
    let handshake = peer.request().await;
    assert_eq!(ask(&connection, b"", 3).await, Err(Kind::Timeout));
    say(&mut peer, &handshake, &Says::Offers(0, &[])).await;
    let message = peer.request().await;
    say(&mut peer, &message, &Says::Accepts(b"", 0)).await;
    settle().await;
    drop(connection);
    assert_eq!(peer.rest().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_ends_the_connection_and_what_waited_was_not_sent() {
    for refusal in [
        vec![Says::Offers(33, &[])],
        vec![Says::Offers(0, &[]), Says::Refuses(58, "no more")],
        vec![Says::Lies],
    ] {
        let (connection, mut peer) = session().await;
        let first = peer.request().await;
        let serve = async {
            settle().await;
            say(&mut peer, &first, &refusal[0]).await;
            script(&mut peer, &refusal[1..]).await;
            peer.rest().await
        };
        let (waited, rest) = tokio::join!(ask(&connection, b"", 60), serve);
        assert!(
            matches!(waited, Err(Kind::Closed { sent: false, .. })),
            "{waited:?}"
        );
        assert_eq!(rest, 0);
        assert!(connection.fault().is_some());
    }
}

/// A broker that never answers a renewal holds requests for so long and no longer.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_never_answered_ends_the_connection() {
    let (connection, mut peer) = session().await;
    peer.request().await;
    let began = Instant::now();
    let waited = ask(&connection, b"", 60).await;
    assert!(
        matches!(waited, Err(Kind::Closed { sent: false, .. })),
        "{waited:?}"
    );
    assert_eq!(began.elapsed().as_secs(), RENEWAL.as_secs());
    assert_eq!(peer.rest().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_too_short_to_be_renewed_ends_between_requests() {
    let answers = [Says::Offers(0, &[]), Says::Accepts(b"", 1000)];
    let (ended, _, connection, mut peer) = signed_in(&plain(), &answers).await;
    ended.unwrap();
    let serve = async {
        let came = peer.request().await;
        sleep(Duration::from_secs(2)).await;
        peer.answer(came.correlation_id, b"whole").await;
        peer.rest().await
    };
    let (answer, rest) = tokio::join!(ask(&connection, b"", 60), serve);
    assert_eq!((answer.unwrap(), rest), (b"whole".to_vec(), 0));
    assert!(connection.fault().is_some());
}

/// What waits for the end of a session holds no connection open.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_dropped_is_closed_though_its_session_lasts() {
    let (connection, mut peer) = session().await;
    drop(connection);
    let began = Instant::now();
    assert_eq!(peer.rest().await, 0);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_no_use_of_the_connection() {
    let (connection, mut peer) = session().await;
    let used = connection.used();
    script(&mut peer, &[Says::Offers(0, &[]), Says::Accepts(b"", 100_000)]).await;
    settle().await;
    ask_quietly(&connection).await;
    assert_eq!(connection.used(), used);
}

/// Waits until the renewal is over, which holds the gate.
async fn ask_quietly(connection: &Connection) {
    drop(connection.shared.gate.read().await);
}

/// The source fails when the session is due, and again: it is asked until the session ends.
#[tokio::test(start_paused = true)]
async fn without_a_new_credential_a_session_lasts_to_its_end() {
    struct Once(AtomicU32);
    impl Source<Token> for Once {
        fn issue(&self) -> Issuing<'_, Token> {
            let first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
            Box::pin(async move {
                let issued = Issued {
                    credential: Token::new("once".into()),
                    lifetime: Some(Duration::from_secs(50)),
                };
                first.then_some(issued).ok_or_else(|| NotIssued::new("gone"))
            })
        }
    }
    let sasl = Sasl::OAuthBearer(Renewed::new(Once(AtomicU32::new(0))));
    let answers = [Says::Offers(0, &[]), Says::Accepts(b"", 100_000)];
    let (ended, _, connection, mut peer) = signed_in(&sasl, &answers).await;
    ended.unwrap();
    let began = Instant::now();
    tokio::time::timeout(Duration::from_secs(3600), connection.ended())
        .await
        .unwrap();
    let after = began.elapsed().as_secs_f64();
    assert!((98.0..=100.0).contains(&after), "{after}");
    assert_eq!(peer.rest().await, 0);
    assert!(within(0) >= began);
}
