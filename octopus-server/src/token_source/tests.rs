use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

const SECRET: &str = "s3cret+/:ä";

fn source(url: &str, scope: Option<&str>) -> TokenSource {
    let endpoint = TokenEndpoint {
        url: url.parse().unwrap(),
        client_id: "octopus:1".to_owned(),
        client_secret: SECRET.into(),
        scope: scope.map(str::to_owned),
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let trusted = rcgen::CertificateParams::new(Vec::new())
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let tls = Tls::new(
        octopus_kafka::security::Trust::Pem(trusted.pem().as_bytes()),
        None,
    );
    TokenSource::new(endpoint, tls.unwrap())
}

/// Answers one request with these bytes; what was asked.
async fn answered(bytes: &[u8], scope: Option<&str>) -> (Result<Issued<Token>, NotIssued>, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let source = source(&format!("http://127.0.0.1:{port}/realms/a/token?b=c"), scope);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"client_credentials") && !asked.ends_with(b"scope=a+b%2Fc") {
            assert!(stream.read_buf(&mut asked).await.unwrap() > 0);
        }
        stream.write_all(bytes).await.unwrap();
        String::from_utf8(asked).unwrap()
    };
    tokio::join!(source.issue(), serve)
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The request and the answer of RFC 6749, section 4.4.
#[tokio::test]
async fn a_token_is_asked_for_as_oauth_has_it() {
    let body =
        r#"{"access_token":"2YotnFZFEjr1zCsicMWpAA","token_type":"Bearer","expires_in":3600,"more":[1]}"#;
    let (issued, asked) = answered(&ok(body), Some("a b/c")).await;
    let issued = issued.unwrap();
    assert_eq!(issued.credential, Token::new("2YotnFZFEjr1zCsicMWpAA".into()));
    assert_eq!(issued.lifetime, Some(Duration::from_secs(3600)));
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "grant_type=client_credentials&scope=a+b%2Fc");
    assert!(
        head.starts_with("POST /realms/a/token?b=c HTTP/1.1\r\n"),
        "{head}"
    );
    let basic = STANDARD.encode("octopus%3A1:s3cret%2B%2F%3A%C3%A4");
    for line in [
        &*format!("authorization: Basic {basic}"),
        "content-type: application/x-www-form-urlencoded",
        "host: 127.0.0.1:",
    ] {
        assert!(head.contains(line), "{head}");
    }
    let (_, asked) = answered(b"", None).await;
    assert!(asked.ends_with("\r\n\r\ngrant_type=client_credentials"));
}

/// [ER-05] none of what was sent or came is in the reason.
#[tokio::test]
async fn what_brings_no_token_says_why_and_gives_nothing_away() {
    let long = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n{}",
        " ".repeat(70_000)
    );
    for (answer, words) in [
        (
            &b"HTTP/1.1 401 No\r\nContent-Length: 6\r\n\r\ns3cret"[..],
            "answered 401",
        ),
        (
            b"HTTP/1.1 302 Go\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
            "answered 302",
        ),
        (&ok(r#"{"error":"s3cret"}"#), "no bearer token in it"),
        (&ok("s3cret"), "no bearer token in it"),
        (long.as_bytes(), "too long"),
        (b"SSH-2.0-s3cret\r\n", "no answer that can be read"),
        (b"", "no answer that can be read"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "broken off"),
    ] {
        let (issued, _) = answered(answer, None).await;
        let why = issued.unwrap_err().to_string();
        assert!(why.contains(words), "{words}: {why}");
        assert!(!why.contains("s3cret") && why.lines().count() == 1, "{why}");
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let why = source(&format!("http://{closed}/"), None)
        .issue()
        .await
        .unwrap_err();
    assert!(why.to_string().contains(&closed.to_string()), "{why}");
}

#[tokio::test]
async fn a_secret_is_not_sent_to_whom_the_certificate_does_not_name() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let source = source(&format!("https://127.0.0.1:{port}/"), None);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        // Not the TLS that was begun.
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        first
    };
    let (issued, first) = tokio::join!(source.issue(), serve);
    assert_eq!(first, [0x16], "a TLS handshake");
    let why = issued.unwrap_err().to_string();
    assert!(why.contains("it speaks no TLS"), "{why}");
}

#[test]
fn answers_are_read_as_issuers_write_them() {
    let life = |body: &str| read(body.as_bytes()).map(|issued| issued.lifetime.unwrap().as_secs());
    for (body, seconds) in [
        (r#"{"access_token":"a","expires_in":"60"}"#, Some(60)),
        (
            r#"{"access_token":"a","expires_in":59.9,"token_type":"bearer"}"#,
            Some(59),
        ),
        (r#"{"access_token":"a"}"#, Some(300)),
        (r#"{"access_token":"a","expires_in":null}"#, Some(300)),
        (r#"{"access_token":"","expires_in":60}"#, None),
        (r#"{"access_token":"a","expires_in":-1}"#, None),
        (r#"{"access_token":"a","expires_in":1e300}"#, None),
        (r#"{"access_token":"a","expires_in":"soon"}"#, None),
        (r#"{"access_token":"a","token_type":"mac"}"#, None),
        (r#"{"access_token":7}"#, None),
        ("[]", None),
        ("", None),
    ] {
        assert_eq!(life(body), seconds, "{body}");
    }
    assert_eq!(
        format!("{:?}", source("https://id/x", None)),
        "TokenSource(https://id/x)"
    );
}
