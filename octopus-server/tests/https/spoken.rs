//! What is spoken, and what is not.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::rustls::{
    ProtocolVersion,
    version::{TLS12, TLS13},
};

use crate::{
    caller::{Caller, ask},
    files::{Files, Pair},
    support::{kafka::Broker, server::Server},
};

/// Longer than anything that a test waits for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// [BU-01] an instance is created over HTTPS, and its `base_uri` says so.
#[tokio::test(flavor = "multi_thread")]
async fn the_scheme_of_a_base_uri_is_https() {
    let broker = Broker::start().await;
    let pair = Pair::new();
    let files = Files::of(&pair);
    let (certificate, key) = (files.certificate(), files.key());
    let variables = [
        ("OCTOPUS_TLS_CERT", certificate.to_str().unwrap()),
        ("OCTOPUS_TLS_KEY", key.to_str().unwrap()),
    ];
    let server = Server::with(&broker.address(), &[], &variables).await;
    let user = server.user(0);
    let mut stream = Caller::trusting(&pair).connect(server.address).await.unwrap();
    for (number, (headers, origin)) in [
        (&[][..], format!("https://{}", server.address)),
        (
            &[("X-Forwarded-Proto", "http"), ("X-Forwarded-Host", "a.example")],
            "http://a.example".to_owned(),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let create = format!(r#"{{"name": "i{number}"}}"#);
        let request = user.head("POST", "/api/v2/consumers/g", headers, &create);
        let (head, body) = ask(&mut stream, &request).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let expected = format!("{origin}/api/v2/consumers/g/instances/i{number}");
        assert_eq!(body["base_uri"], expected);
    }
}

#[tokio::test]
async fn tls_of_both_versions_is_spoken_with_the_best_protocol_that_both_know() {
    let pair = Pair::new();
    let server = Files::of(&pair).serve(&[]).await;
    for (version, name) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        for (offered, agreed) in [
            (&["http/1.1"][..], Some("http/1.1")),
            (&["http/1.0", "http/1.1"], Some("http/1.1")),
            (&["http/1.1", "h2"], Some("h2")),
            (&[], None),
        ] {
            let caller = Caller::with_versions(&pair, &[version]).speaking(offered);
            let mut stream = caller.connect(server.address).await.unwrap();
            let session = stream.get_ref().1;
            assert_eq!(session.protocol_version(), Some(name));
            let protocol = session
                .alpn_protocol()
                .map(|name| std::str::from_utf8(name).unwrap());
            assert_eq!(protocol, agreed, "{offered:?}");
            if agreed == Some("h2") {
                continue;
            }
            let (head, _) = ask(&mut stream, "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            assert!(head.starts_with("HTTP/1.1 404"), "{head}");
        }
    }
    let refused = Caller::trusting(&pair)
        .speaking(&["spdy/3"])
        .connect(server.address)
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
}

/// [BU-01] [CT-05] [RT-02] over HTTP/2 the routes are the same; the host is what its `:authority` says.
#[tokio::test(flavor = "multi_thread")]
async fn http_2_has_the_same_routes() {
    let broker = Broker::start().await;
    let pair = Pair::new();
    let files = Files::of(&pair);
    let server = files.serve_on(&broker.address(), &[]).await;
    let user = server.user(0);
    let caller = Caller::trusting(&pair).speaking(&["h2"]);
    let stream = TokioIo::new(caller.connect(server.address).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let mut ask = async |method: &str, path: &str, body: Vec<u8>| {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://octopus.example{path}"))
            .header("subject", &user.subject)
            .header("authorization", format!("Bearer {}", user.token))
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body).unwrap()
        };
        (status, body)
    };
    let (status, body) = ask("POST", "/api/v2/consumers/g", br#"{"name": "i"}"#.to_vec()).await;
    assert_eq!(status, 200, "{body}");
    let instance = "/api/v2/consumers/g/instances/i";
    assert_eq!(body["base_uri"], format!("https://octopus.example{instance}"));
    let records = format!("{instance}/records?timeout=1");
    assert_eq!(
        ask("GET", &records, Vec::new()).await,
        (200, Value::Array(Vec::new()))
    );
    for length in [64 * 1024 + 1, 4 << 20] {
        let (status, body) = ask("POST", &format!("{instance}/subscription"), vec![b' '; length]).await;
        assert_eq!((status, body["error_code"].as_u64()), (413, Some(41301)));
    }
    let (status, body) = ask("GET", "/nowhere", Vec::new()).await;
    assert_eq!((status, &body["detail"]), (404, &"Not Found".into()));
    assert_eq!(ask("DELETE", instance, Vec::new()).await, (204, Value::Null));
}

/// Plain HTTP gets an end and no answer in words that it could take for one; the log has one line of it.
#[tokio::test]
async fn plain_http_is_closed() {
    let pair = Pair::new();
    let server = Files::of(&pair).serve(&[]).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut read = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut read))
        .await
        .expect("an end")
        .expect("no reset");
    // An alert of TLS.
    assert!(read.len() <= 7 && !read.starts_with(b"HTTP"), "{read:?}");
    let log = server.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("handshake")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("DEBUG") && lines[0].contains("is it plain HTTP?"),
        "{lines:?}"
    );
}
