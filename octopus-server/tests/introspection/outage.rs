//! What happens when the authority does not answer.

use octopus_server::clock::{Clock as _, SystemClock};

use crate::{
    ADMITTED, ANN, AWAY, BEN, REFUSED, active, asks,
    authority::{Authority, Mode},
    caller, serve,
};

/// [D-35] [AU-02] whatever is wrong with the authority, or with what it knows of the service: who is remembered goes on,
/// and nobody else is let in. The log has a line, not one a request.
#[tokio::test]
async fn without_the_authority_nobody_new_is_let_in() {
    let start = SystemClock.now();
    let authority = Authority::start().await;
    let elsewhere = Authority::start().await;
    let server = serve(&authority, "").await;
    for (token, subject) in [("ann", ANN), ("ben", BEN)] {
        authority.knows(token, active(subject, ""));
    }
    let ann = caller(&server, ANN, "ann");
    assert_eq!(asks(&ann).await, ADMITTED);
    let made_up = caller(&server, ANN, "made_up");
    assert_eq!(asks(&made_up).await, REFUSED);

    let body = active(BEN, "");
    let with = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let faults = [
        Vec::new(),
        b"SSH-2.0-OpenSSH\r\n".to_vec(),
        with("500 X", &body),
        with("503 X", ""),
        with("429 X", &body),
        with("401 X", r#"{"error": "invalid_client"}"#),
        with("403 X", &body),
        format!(
            "HTTP/1.1 307 X\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
            elsewhere.url()
        )
        .into_bytes(),
        with("200 OK", ""),
        with("200 OK", "<html></html>"),
        with("200 OK", r#"{"error": "x"}"#),
        with("200 OK", &format!("{body}{}", " ".repeat(70_000))),
        with("200 OK", &body)[..60].to_vec(),
    ];
    let ben = caller(&server, BEN, "ben");
    let mut failed = 0;
    for fault in faults {
        let what = String::from_utf8_lossy(&fault[..fault.len().min(60)]).into_owned();
        authority.set(Mode::Bytes(fault));
        for _ in 0..2 {
            let reply = ben.delete(crate::PATH).await;
            assert_eq!(reply.error(), AWAY, "{what}");
            assert!(
                reply.text().contains("The token can't be checked at present"),
                "{}",
                reply.text()
            );
            failed += 1;
        }
        if (SystemClock.now() - start).as_secs() < 50 {
            assert_eq!(asks(&ann).await, ADMITTED, "{what}");
        }
    }
    assert_eq!(elsewhere.asked(), 0, "no redirect is followed");
    let lines = |words: &str| server.log().lines().filter(|line| line.contains(words)).count();
    let minutes = usize::try_from((SystemClock.now() - start).as_secs() / 60).unwrap();
    let told = lines("the token authority does not answer: nobody new is let in");
    assert!(
        (1..=1 + minutes).contains(&told),
        "{told} of {failed}: {}",
        server.log()
    );
    assert_eq!(
        lines(" WARN "),
        told + 1,
        "and that there is no Kafka: {}",
        server.log()
    );

    authority.set(Mode::Answers);
    assert_eq!(asks(&ben).await, ADMITTED);
    assert_eq!(lines("the token authority answers again"), 1);
    assert_eq!(lines(" ERROR "), 0);
}

/// [D-35] an authority that says nothing costs a caller 5 s and nobody else a thing.
#[tokio::test]
async fn a_silent_authority_is_waited_for_in_vain() {
    let authority = Authority::start().await;
    let server = serve(&authority, "").await;
    authority.knows("ann", active(ANN, ""));
    let ann = caller(&server, ANN, "ann");
    assert_eq!(asks(&ann).await, ADMITTED);
    authority.set(Mode::Silent);
    let start = SystemClock.now();
    let others: Vec<_> = (0..10)
        .map(|i| {
            let other = caller(&server, BEN, &format!("ben_{}", i % 2));
            tokio::spawn(async move { asks(&other).await })
        })
        .collect();
    authority.was_asked(3).await;
    assert_eq!(asks(&ann).await, ADMITTED);
    assert!(others.iter().all(|other| !other.is_finished()) || (SystemClock.now() - start).as_secs() >= 5);
    for other in others {
        assert_eq!(other.await.unwrap(), AWAY);
    }
    let past = (SystemClock.now() - start).as_millis();
    assert!((4_900..30_000).contains(&past), "{past} ms");
    assert_eq!(authority.asked(), 3, "one a token");
}

/// However many tokens are made up at one address, a good one of another's is looked up at once. Whoever finds no place is
/// told of in a line of its own, which does not blame the authority.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn tokens_that_are_made_up_at_one_address_shut_out_no_other() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let authority = Authority::start().await;
    let server = serve(&authority, "").await;
    authority.knows("ann", active(ANN, ""));
    authority.set(Mode::SilentOfOthers);
    let crowd: Vec<_> = (0..200)
        .map(|i| {
            let made_up = caller(&server, BEN, &format!("made_up_{i}"));
            tokio::spawn(async move { asks(&made_up).await })
        })
        .collect();
    authority.was_asked(32).await;

    let ann = caller(&server, ANN, "ann");
    let start = SystemClock.now();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    // All of 127.0.0.0/8 is this machine.
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let request = ann.head("DELETE", crate::PATH, &[("Connection", "close")], "");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 404 ") && reply.contains("40403"),
        "{reply}"
    );
    let past = (SystemClock.now() - start).as_millis();
    assert!(past < 4_000, "{past} ms: as long as the others' look-ups take");

    for made_up in crowd {
        assert_eq!(made_up.await.unwrap(), AWAY);
    }
    let told = |words: &str| server.log().lines().filter(|line| line.contains(words)).count();
    assert!(told("there was no place for a look-up") >= 1, "{}", server.log());
}
