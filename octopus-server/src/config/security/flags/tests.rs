use http::Uri;

use super::*;
use crate::config::tests::read_words;

/// What these flags and variables say; words with a `--` are flags.
fn read(words: &[(&str, &str)]) -> Result<Security, String> {
    read_words(words, |flags: &SecurityFlags, variables| {
        flags.read(false, variables)
    })
}

const SASL_SSL: (&str, &str) = ("--kafka-security-protocol", "SASL_SSL");
const SASL_PLAINTEXT: (&str, &str) = ("--kafka-security-protocol", "SASL_PLAINTEXT");
const SSL: (&str, &str) = ("--kafka-security-protocol", "SSL");
const USER: (&str, &str) = ("--kafka-sasl-username", "octopus");
const PASSWORD: (&str, &str) = ("KAFKA_SASL_PASSWORD", "the-password");
const URL: (&str, &str) = ("--kafka-oauth-token-url", "https://id.example.org/token");
const CLIENT: (&str, &str) = ("KAFKA_OAUTH_CLIENT_ID", "octopus");
const CLIENT_SECRET: (&str, &str) = ("KAFKA_OAUTH_CLIENT_SECRET", "the-secret");
const TOKEN: (&str, &str) = ("KAFKA_OAUTH_TOKEN", "the-token");
const KEY: (&str, &str) = ("AWS_ACCESS_KEY_ID", "AKID");
const SECRET_KEY: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "the-key");
const REGION: (&str, &str) = ("AWS_REGION", "eu-central-1");

fn by(mechanism: &'static str) -> (&'static str, &'static str) {
    ("--kafka-sasl-mechanism", mechanism)
}

#[test]
fn nothing_is_plain_tcp() {
    assert_eq!(read(&[]), Ok(Security::default()));
    // Secrets that are there for something else do no harm.
    assert_eq!(read(&[PASSWORD, TOKEN, KEY, SECRET_KEY]), Ok(Security::default()));
    assert_eq!(read(&[("--kafka-sasl-username", "")]), Ok(Security::default()));
}

#[test]
fn tls_has_roots_and_an_identity() {
    let tls = |words: &[_]| read(words).unwrap().tls.unwrap();
    assert_eq!(tls(&[SSL]), Tls::default());
    assert_eq!(
        tls(&[
            SSL,
            ("--kafka-ca-file", "ca"),
            ("--kafka-client-cert", "cert"),
            ("--kafka-client-key", "key"),
        ]),
        Tls {
            ca_file: Some("ca".into()),
            identity: Some(("cert".into(), "key".into())),
        }
    );
}

#[test]
fn each_mechanism_has_what_it_needs() {
    let sasl = |words: &[_]| read(words).unwrap().sasl.unwrap();
    for (mechanism, how) in [
        ("PLAIN", LoginMechanism::Plain),
        ("SCRAM-SHA-256", LoginMechanism::ScramSha256),
        ("SCRAM-SHA-512", LoginMechanism::ScramSha512),
    ] {
        assert_eq!(
            sasl(&[SASL_SSL, by(mechanism), USER, PASSWORD]),
            Sasl::Login(how, "octopus".to_owned(), Password::Given("the-password".into()))
        );
        let file = ("--kafka-sasl-password-file", "f");
        assert_eq!(
            sasl(&[SASL_PLAINTEXT, by(mechanism), USER, file]),
            Sasl::Login(how, "octopus".to_owned(), Password::File("f".into()))
        );
    }
    assert_eq!(
        sasl(&[SASL_SSL, by("OAUTHBEARER"), TOKEN]),
        Sasl::Token("the-token".into())
    );
    let scope = ("--kafka-oauth-scope", "a b");
    assert_eq!(
        sasl(&[SASL_SSL, by("OAUTHBEARER"), URL, CLIENT, CLIENT_SECRET, scope]),
        Sasl::Endpoint(TokenEndpoint {
            url: Uri::from_static("https://id.example.org/token"),
            client_id: "octopus".to_owned(),
            client_secret: "the-secret".into(),
            scope: Some("a b".to_owned()),
        })
    );
    let session = ("AWS_SESSION_TOKEN", "the-session");
    for region in [REGION, ("AWS_DEFAULT_REGION", "eu-central-1")] {
        assert_eq!(
            sasl(&[SASL_SSL, by("AWS_MSK_IAM"), KEY, SECRET_KEY, session, region]),
            Sasl::Aws {
                region: "eu-central-1".to_owned(),
                credentials: AwsCredentials {
                    access_key_id: "AKID".to_owned(),
                    secret_access_key: "the-key".into(),
                    session_token: Some("the-session".into()),
                },
            }
        );
    }
}

#[test]
fn what_does_not_go_together_is_refused_in_one_line_without_a_secret() {
    let file = ("--kafka-sasl-password-file", "f");
    let (ca, cert, key) = (
        ("--kafka-ca-file", "ca"),
        ("--kafka-client-cert", "cert"),
        ("--kafka-client-key", "key"),
    );
    for (words, said) in [
        (
            &[("--kafka-security-protocol", "TLS")][..],
            r#"--kafka-security-protocol: "TLS" is refused: it must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"#,
        ),
        (
            &[SASL_SSL, by("GSSAPI")],
            r#"--kafka-sasl-mechanism: "GSSAPI" is refused: it must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM"#,
        ),
        (
            &[SASL_SSL],
            r#"--kafka-security-protocol: "SASL_SSL" is refused: only together with --kafka-sasl-mechanism"#,
        ),
        (
            &[SASL_PLAINTEXT, USER, PASSWORD],
            r#"--kafka-security-protocol: "SASL_PLAINTEXT" is refused: only together with --kafka-sasl-mechanism"#,
        ),
        (
            &[by("PLAIN"), USER, PASSWORD],
            r#"--kafka-sasl-mechanism: "PLAIN" is refused: only together with --kafka-security-protocol SASL_SSL"#,
        ),
        (
            &[SSL, by("AWS_MSK_IAM")],
            r#"--kafka-sasl-mechanism: "AWS_MSK_IAM" is refused: only together with --kafka-security-protocol SASL_SSL"#,
        ),
        (
            &[USER],
            r#"--kafka-sasl-username: "octopus" is refused: only together with --kafka-security-protocol SASL_SSL"#,
        ),
        (
            &[file],
            r#"--kafka-sasl-password-file: "f" is refused: only together with --kafka-security-protocol SASL_SSL"#,
        ),
        (
            &[URL],
            r#"--kafka-oauth-token-url: "https://id.example.org/token" is refused: only together with --kafka-security-protocol SASL_SSL"#,
        ),
        (
            &[SASL_SSL, by("PLAIN"), PASSWORD],
            r#"--kafka-sasl-mechanism: "PLAIN" is refused: only together with --kafka-sasl-username"#,
        ),
        (
            &[SASL_SSL, by("SCRAM-SHA-256"), USER],
            r#"--kafka-sasl-mechanism: "SCRAM-SHA-256" is refused: only together with KAFKA_SASL_PASSWORD or"#,
        ),
        (
            &[SASL_SSL, by("SCRAM-SHA-512"), USER, PASSWORD, file],
            r#"--kafka-sasl-password-file: "f" is refused: not together with KAFKA_SASL_PASSWORD"#,
        ),
        (
            &[SASL_SSL, by("PLAIN"), USER, PASSWORD, URL],
            r#"--kafka-oauth-token-url: "https://id.example.org/token" is refused: only together with --kafka-sasl-mechanism OAUTHBEARER"#,
        ),
        (
            &[SASL_SSL, by("OAUTHBEARER")],
            r#"--kafka-sasl-mechanism: "OAUTHBEARER" is refused: only together with --kafka-oauth-token-url"#,
        ),
        (
            &[SASL_SSL, by("OAUTHBEARER"), URL, CLIENT],
            r#"--kafka-oauth-token-url: "https://id.example.org/token" is refused: only together with KAFKA_OAUTH_CLIENT_ID and"#,
        ),
        (
            &[SASL_SSL, by("OAUTHBEARER"), URL, CLIENT, CLIENT_SECRET, TOKEN],
            r#"--kafka-oauth-token-url: "https://id.example.org/token" is refused: not together with KAFKA_OAUTH_TOKEN"#,
        ),
        (
            &[SASL_SSL, by("OAUTHBEARER"), TOKEN, USER],
            r#"--kafka-sasl-username: "octopus" is refused: only together with --kafka-sasl-mechanism PLAIN, SCRAM"#,
        ),
        (
            &[SASL_SSL, by("AWS_MSK_IAM"), KEY, REGION],
            r#"--kafka-sasl-mechanism: "AWS_MSK_IAM" is refused: only together with AWS_ACCESS_KEY_ID and"#,
        ),
        (
            &[SASL_SSL, by("AWS_MSK_IAM"), KEY, SECRET_KEY],
            r#"--kafka-sasl-mechanism: "AWS_MSK_IAM" is refused: only together with AWS_REGION"#,
        ),
        (
            &[SASL_PLAINTEXT, by("AWS_MSK_IAM"), KEY, SECRET_KEY, REGION],
            r#"--kafka-sasl-mechanism: "AWS_MSK_IAM" is refused: only together with --kafka-security-protocol SASL_SSL"#,
        ),
        (
            &[SASL_SSL, by("AWS_MSK_IAM"), KEY, SECRET_KEY, REGION, USER],
            r#"--kafka-sasl-username: "octopus" is refused: not together with --kafka-sasl-mechanism AWS_MSK_IAM"#,
        ),
        (
            &[ca],
            r#"--kafka-ca-file: "ca" is refused: only together with --kafka-security-protocol SSL or SASL_SSL"#,
        ),
        (
            &[SASL_PLAINTEXT, by("PLAIN"), USER, PASSWORD, cert, key],
            r#"--kafka-client-cert: "cert" is refused: only together with --kafka-security-protocol SSL"#,
        ),
        (
            &[SSL, cert],
            r#"--kafka-client-cert: "cert" is refused: only together with --kafka-client-key"#,
        ),
        (
            &[SSL, key],
            r#"--kafka-client-key: "key" is refused: only together with --kafka-client-cert"#,
        ),
    ] {
        let line = read(words).unwrap_err();
        assert!(line.starts_with(said), "{words:?}: {line}");
        assert_eq!(line.lines().count(), 1);
        for secret in [PASSWORD, CLIENT_SECRET, TOKEN, SECRET_KEY] {
            assert!(!line.contains(secret.1), "{line}");
        }
    }
}

/// A secret is sent to nobody in between.
#[test]
fn a_token_endpoint_has_tls_or_is_on_this_machine() {
    for url in [
        "https://id.example.org",
        "https://id.example.org:8443/a/b?c=d",
        "http://localhost:8080/token",
        "http://127.0.0.1/token",
        "http://[::1]:1/",
    ] {
        assert!(endpoint(url).is_ok(), "{url}");
    }
    for url in [
        "http://id.example.org/token",
        "http://localhost.example.org/",
        "ftp://localhost/",
        "id.example.org",
        "/token",
        "https://",
        "https://user:password@id.example.org/",
        "https://a b/",
    ] {
        assert!(endpoint(url).is_err(), "{url}");
    }
}

#[test]
fn dev_has_its_own_broker() {
    let dev = |flags: &SecurityFlags, variables: Variables<'_>| flags.read(true, variables);
    let line = read_words(&[SSL], dev).unwrap_err();
    assert!(line.starts_with(r#"--kafka-security-protocol: "SSL" is refused: not together with --dev"#));
}

#[test]
fn no_secret_is_shown() {
    let all = [
        read(&[SASL_SSL, by("PLAIN"), USER, PASSWORD]),
        read(&[SASL_SSL, by("OAUTHBEARER"), TOKEN]),
        read(&[SASL_SSL, by("OAUTHBEARER"), URL, CLIENT, CLIENT_SECRET]),
        read(&[SASL_SSL, by("AWS_MSK_IAM"), KEY, SECRET_KEY, REGION]),
    ];
    let shown = format!("{all:?}");
    assert!(shown.contains("octopus") && shown.matches("Ok(").count() == 4);
    for secret in [PASSWORD, CLIENT_SECRET, TOKEN, SECRET_KEY] {
        assert!(!shown.contains(secret.1), "{shown}");
    }
}
