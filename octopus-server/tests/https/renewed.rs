//! SIGHUP.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::{
    caller::{Caller, ask},
    files::{Files, Pair},
    support::server::Server,
};

/// Longer than anything that a test waits for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);
const REQUEST: &str = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Sends a SIGHUP, and waits until the log has that many lines with these words; gives the last one.
async fn hang_up(server: &Server, words: &str, count: usize) -> String {
    server.signal("HUP");
    let found = async {
        loop {
            let log = server.log();
            let lines: Vec<_> = log.lines().filter(|line| line.contains(words)).collect();
            if lines.len() == count {
                return lines[count - 1].to_owned();
            }
            assert!(lines.len() < count, "{log}");
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, found)
        .await
        .unwrap_or_else(|_| panic!("{}", server.log()))
}

#[tokio::test]
async fn new_connections_see_a_new_certificate_and_open_ones_go_on() {
    let (old, new) = (Pair::new(), Pair::new());
    let files = Files::of(&old);
    let server = files.serve(&[]).await;
    let (trusts_old, trusts_new) = (Caller::trusting(&old), Caller::trusting(&new));
    let mut open = trusts_old.connect(server.address).await.unwrap();
    assert!(trusts_new.connect(server.address).await.is_err());

    files.write(&new.certificate, &new.key);
    // Nothing is read before the signal.
    trusts_old.connect(server.address).await.unwrap();
    let line = hang_up(&server, "the certificate was read again", 1).await;
    assert!(line.contains("certificate.pem"), "{line}");

    let (head, _) = ask(&mut open, REQUEST).await;
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    assert!(trusts_old.connect(server.address).await.is_err());
    let mut stream = trusts_new.connect(server.address).await.unwrap();
    let (head, _) = ask(&mut stream, REQUEST).await;
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
}

#[tokio::test]
async fn what_can_not_be_used_is_one_line_and_the_old_certificate_stays() {
    let (old, new) = (Pair::new(), Pair::new());
    let files = Files::of(&old);
    let server = files.serve(&[]).await;
    let caller = Caller::trusting(&old);
    for (number, (certificate, key, flag, why)) in [
        (
            "",
            &*new.key,
            "--tls-cert",
            "there is no certificate in PEM in it",
        ),
        (
            &new.certificate,
            "nothing",
            "--tls-key",
            "there is no private key in PEM in it",
        ),
        (
            &new.certificate,
            &old.key,
            "--tls-key",
            "it is not the key of the certificate",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        files.write(certificate, key);
        let line = hang_up(&server, "the certificate is not renewed", number + 1).await;
        assert!(line.contains(flag) && line.contains(why), "{line}");
        let mut stream = caller.connect(server.address).await.unwrap();
        let (head, _) = ask(&mut stream, REQUEST).await;
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    }
    std::fs::remove_file(files.key()).unwrap();
    let line = hang_up(&server, "the certificate is not renewed", 4).await;
    assert!(line.contains("--tls-key") && line.contains("key.pem"), "{line}");
    caller.connect(server.address).await.unwrap();

    files.write(&new.certificate, &new.key);
    hang_up(&server, "the certificate was read again", 1).await;
    Caller::trusting(&new).connect(server.address).await.unwrap();
    let log = server.log();
    for key in [&old.key, &new.key] {
        let line = key.lines().nth(1).unwrap();
        assert!(!log.contains(line), "a key is in the log");
    }
}
