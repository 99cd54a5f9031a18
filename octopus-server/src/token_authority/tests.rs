use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::FutureExt as _;
use octopus_kafka::security::Trust;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

const TOKEN: &str = "a_token_a_token_a_token_a_token_a_token";
const PLAIN_SECRET: &str = "s3cret";
/// One that a form writes in another way.
const SECRET: &str = "s3cret+/=";

fn authority(url: &str, secret: &str) -> TokenAuthority {
    let key = rcgen::KeyPair::generate().unwrap();
    let trusted = rcgen::CertificateParams::new(Vec::new())
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let tls = Tls::new(Trust::Pem(trusted.pem().as_bytes()), None).unwrap();
    TokenAuthority::new(url.parse().unwrap(), "octopus".to_owned(), secret.into(), tls)
}

/// An endpoint, and what asks it.
async fn world(secret: &str) -> (TcpListener, TokenAuthority) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (
        listener,
        authority(&format!("http://127.0.0.1:{port}/v2/introspect?b=c"), secret),
    )
}

/// Answers one request with these bytes, and gives it.
async fn answer(listener: &TcpListener, bytes: &[u8]) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"include=identity_set") {
        assert!(stream.read_buf(&mut asked).await.unwrap() > 0);
    }
    stream.write_all(bytes).await.unwrap();
    String::from_utf8(asked).unwrap()
}

fn reply(status: u16, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn basic(pair: &str) -> String {
    format!("\r\nauthorization: Basic {}\r\n", STANDARD.encode(pair))
}

/// [AU-02] the request of RFC 7662, section 2.1.
#[tokio::test]
async fn a_token_is_asked_about_as_the_standard_has_it() {
    let (listener, authority) = world(PLAIN_SECRET).await;
    let form = Form::of(TOKEN);
    let bytes = reply(200, r#"{"active": false}"#);
    let (replied, asked) = tokio::join!(authority.ask(&form), answer(&listener, &bytes));
    let replied = replied.unwrap();
    assert_eq!(
        (replied.status, &*replied.body),
        (200, &br#"{"active": false}"#[..])
    );
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, format!("token={TOKEN}&include=identity_set"));
    assert!(head.starts_with("POST /v2/introspect?b=c HTTP/1.1\r\n"), "{head}");
    for line in [
        &*basic("octopus:s3cret"),
        "\r\ncontent-type: application/x-www-form-urlencoded",
        "\r\naccept: application/json",
        "\r\nhost: 127.0.0.1:",
    ] {
        assert!(head.contains(line), "{head}");
    }
}

/// Authorities that decode id and secret, and those that do not, are both served.
#[tokio::test]
async fn a_secret_that_is_refused_as_it_is_is_tried_encoded() {
    let (listener, authority) = world(SECRET).await;
    let form = Form::of(TOKEN);
    let (refusal, good) = (reply(401, ""), reply(200, "{}"));
    let (plain, encoded) = (basic("octopus:s3cret+/="), basic("octopus:s3cret%2B%2F%3D"));
    let both = async |last: &[u8]| {
        let first = answer(&listener, &refusal).await;
        assert!(first.contains(&plain), "{first}");
        let second = answer(&listener, last).await;
        assert!(second.contains(&encoded), "{second}");
    };
    // Neither is right, and the next look-up tries both again.
    let (replied, ()) = tokio::join!(authority.ask(&form), both(&refusal));
    assert_eq!(replied.unwrap().status, 401);
    let (replied, ()) = tokio::join!(authority.ask(&form), both(&good));
    assert_eq!(replied.unwrap().status, 200);
    // It is known which one is right.
    for bytes in [&good, &refusal] {
        let (replied, asked) = tokio::join!(authority.ask(&form), answer(&listener, bytes));
        assert_eq!(replied.unwrap().status, if *bytes == good { 200 } else { 401 });
        assert!(asked.contains(&encoded), "{asked}");
    }
}

#[tokio::test]
async fn a_secret_that_needs_no_encoding_is_sent_once() {
    let (listener, authority) = world(PLAIN_SECRET).await;
    let form = Form::of(TOKEN);
    let refusal = reply(401, "");
    // A second request would find nobody, and there would be no reply.
    let (replied, _) = tokio::join!(authority.ask(&form), async {
        answer(&listener, &refusal).await;
        drop(listener);
    });
    assert_eq!(replied.unwrap().status, 401);
}

/// [D-35] a redirect is an answer, and nobody goes where it points.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (listener, authority) = world(PLAIN_SECRET).await;
    let elsewhere = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let form = Form::of(TOKEN);
    let bytes = format!(
        "HTTP/1.1 307 X\r\nLocation: http://{}/\r\nContent-Length: 0\r\n\r\n",
        elsewhere.local_addr().unwrap()
    );
    let ask = async {
        tokio::select! {
            replied = authority.ask(&form) => replied,
            _ = elsewhere.accept() => panic!("the redirect was followed"),
        }
    };
    let (replied, _) = tokio::join!(ask, answer(&listener, bytes.as_bytes()));
    assert_eq!(replied.unwrap().status, 307);
}

/// [D-35] nothing of what was sent or came is in the reason.
#[tokio::test]
async fn what_is_no_reply_says_why_and_gives_nothing_away() {
    let long = reply(200, &" ".repeat(70_000));
    for (bytes, words) in [
        (&*long, "too long"),
        (b"SSH-2.0-s3cret\r\n", "no answer that can be read"),
        (b"", "no answer that can be read"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "broken off"),
    ] {
        let (listener, authority) = world(PLAIN_SECRET).await;
        let form = Form::of(TOKEN);
        let (replied, _) = tokio::join!(authority.ask(&form), answer(&listener, bytes));
        let why = replied.unwrap_err().to_string();
        assert!(why.contains(words), "{words}: {why}");
        assert!(
            !why.contains("s3cret") && !why.contains(TOKEN) && why.lines().count() == 1,
            "{why}"
        );
    }
    let (listener, authority) = world(PLAIN_SECRET).await;
    let closed = listener.local_addr().unwrap().to_string();
    drop(listener);
    let why = authority.ask(&Form::of(TOKEN)).await.unwrap_err().to_string();
    assert!(why.contains(&closed), "{why}");
}

/// [D-35] counted over all that a look-up takes: the wait for a place, the connection, the whole answer.
#[tokio::test]
async fn a_look_up_has_one_time_limit() {
    let (listener, mut authority) = world(PLAIN_SECRET).await;
    assert_eq!(authority.patience, Duration::from_secs(5));
    authority.patience = Duration::from_millis(50);
    let form = Form::of(TOKEN);
    let silent = async {
        let (stream, _) = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
        drop(stream);
    };
    tokio::select! {
        replied = authority.ask(&form) => assert!(replied.unwrap_err().to_string().ends_with("no answer in time")),
        () = silent => unreachable!(),
    }
    authority.places = Places::new(Bounds { all: 0, ..PLACES });
    assert_eq!(authority.ask(&form).await, Err(NoReply::no_place()));
}

/// However many tokens one address makes up, another's are looked up, and so is one that held before.
#[tokio::test]
async fn tokens_that_are_made_up_shut_out_nobody_else() {
    let (_listener, authority) = world(PLAIN_SECRET).await;
    let from =
        |address: &str, is_known| Form::of(TOKEN).brought(Some(address.parse::<IpAddr>().unwrap()), is_known);
    let made_up = from("2001:db8::1", false);
    let mut held: Vec<_> = std::iter::from_fn(|| authority.place(&made_up).now_or_never())
        .map(Option::unwrap)
        .collect();
    assert_eq!(held.len(), 32);
    let same_network = from("2001:db8::2", false);
    assert!(authority.place(&same_network).now_or_never().is_none());
    let elsewhere = from("2001:db8:0:1::1", false);
    let others = std::iter::from_fn(|| authority.place(&elsewhere).now_or_never().flatten());
    held.extend(others);
    assert_eq!(held.len(), 48);
    // All who are strange are full.
    assert!(authority.place(&from("10.0.0.1", false)).now_or_never().is_none());
    let known = from("2001:db8::1", true);
    let kept = std::iter::from_fn(|| authority.place(&known).now_or_never().flatten());
    held.extend(kept);
    assert_eq!(held.len(), 64);
}

/// [AU-02]
#[tokio::test]
async fn a_token_is_not_sent_to_whom_the_certificate_does_not_name() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let authority = authority(&format!("https://127.0.0.1:{port}/"), SECRET);
    let form = Form::of(TOKEN);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        stream.write_all(&reply(200, "{}")).await.unwrap();
        first
    };
    let (replied, first) = tokio::join!(authority.ask(&form), serve);
    assert_eq!(first, [0x16], "a TLS handshake");
    let why = replied.unwrap_err().to_string();
    assert!(why.contains("it speaks no TLS"), "{why}");
    assert_eq!(
        format!("{authority:?}"),
        format!("TokenAuthority(https://127.0.0.1:{port}/)")
    );
}
