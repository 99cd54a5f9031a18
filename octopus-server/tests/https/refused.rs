//! Files that the program does not start with.

use std::process::Command;

use crate::files::{Files, Pair};

#[test]
fn a_bad_file_ends_the_start_with_one_line_that_names_its_flag() {
    let (pair, other) = (Pair::new(), Pair::new());
    let broken = pair.certificate.replacen("MII", "***", 1);
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let files = Files::of(&pair);
    for (certificate, key, flag, why) in [
        (
            "",
            &*pair.key,
            "--tls-cert",
            "there is no certificate in PEM in it",
        ),
        (&broken, &pair.key, "--tls-cert", "it is not PEM"),
        (
            &pair.certificate,
            "",
            "--tls-key",
            "there is no private key in PEM in it",
        ),
        (&pair.certificate, encrypted, "--tls-key", "or it is encrypted"),
        (
            &pair.certificate,
            &other.key,
            "--tls-key",
            "it is not the key of the certificate",
        ),
    ] {
        files.write(certificate, key);
        let line = refused(&files);
        assert!(line.starts_with(flag), "{line}");
        assert!(line.contains(why), "{line}");
        assert!(
            !line.contains(pair.key.lines().nth(1).unwrap()),
            "a key is in the line"
        );
    }
    std::fs::remove_file(files.certificate()).unwrap();
    let line = refused(&files);
    assert!(
        line.starts_with("--tls-cert: ") && line.contains("certificate.pem"),
        "{line}"
    );
}

/// The line that the program ends with.
fn refused(files: &Files) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_octopus-server"))
        .args(["--dev", "--listen=127.0.0.1:0", "--tls-cert"])
        .arg(files.certificate())
        .arg("--tls-key")
        .arg(files.key())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}
