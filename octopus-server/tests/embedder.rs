//! The server in another service: with a token check of its own.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use octopus_auth::{Caller, Checked, Credentials, TokenCheck, TokenFault, subject};
use octopus_server::Server;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

/// Lets everybody in, and fails over one subject.
struct Fragile;

const FRAGILE: &str = "00000000-0000-4000-8000-00000000dead";
const STURDY: &str = "00000000-0000-4000-8000-000000000001";

impl TokenCheck for Fragile {
    fn check<'a>(&'a self, credentials: &'a Credentials) -> Checked<'a> {
        Box::pin(async {
            let caller = credentials.subject()?;
            assert_ne!(
                Some(caller),
                subject(FRAGILE),
                "the inside of the service, with secrets"
            );
            if credentials.token().is_ok() {
                Ok(Caller::of(caller))
            } else {
                Err(TokenFault::Refused)
            }
        })
    }
}

fn create(subject: &str) -> String {
    format!(
        "POST /api/v2/consumers/g HTTP/1.1\r\nHost: localhost\r\nsubject: {subject}\r\n\
         authorization: Bearer a_token_of_at_least_33_characters_\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Sends a request and reads its answer, whose body is as long as its `Content-Length` says.
async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    loop {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).await.unwrap();
        assert_ne!(read, 0, "the connection stays open");
        answer += std::str::from_utf8(&bytes[..read]).unwrap();
        if let Some((head, body)) = answer.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return answer;
            }
        }
    }
}

/// [ER-08] a panic in one request is 500, 500 for it alone, and tells nothing of its cause.
#[tokio::test]
async fn a_panic_in_a_request_ends_nothing_but_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::builder(Arc::new(Fragile)).start();
    let serving = tokio::spawn(server.serve(listener, async { _ = stopped.await }));

    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        let failed = ask(&mut stream, &create(FRAGILE)).await;
        assert!(failed.starts_with("HTTP/1.1 500 "), "{failed}");
        assert!(
            failed.ends_with(
                r#"{"error_code":500,"message":"Internal error; retry, and tell the operator if it goes on"}"#
            ),
            "{failed}"
        );
        // Without a cluster a create is refused, on the same connection [CR-11].
        let refused = ask(&mut stream, &create(STURDY)).await;
        assert!(refused.contains(r#""error_code":50002"#), "{refused}");
    }
    drop(stop);
    serving.await.unwrap();
}
