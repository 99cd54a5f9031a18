use super::*;
use crate::config::tests::read_words;

/// What these flags and variables say; words with a `--` are flags.
fn read(words: &[(&str, &str)]) -> Result<Auth, String> {
    read_words(words, |flags: &CallerFlags, variables| {
        flags.read(false, variables)
    })
}

const INTROSPECTION: (&str, &str) = ("--auth", "introspection");
const TOKENS: (&str, &str) = ("--auth", "tokens");
const FILE: (&str, &str) = ("--tokens-file", "f");
const ID: (&str, &str) = ("SERVER_CLIENT_ID", "octopus");
const SECRET: (&str, &str) = ("SERVER_SECRET", "the-s3cret");
const SECRET_FILE: (&str, &str) = ("SERVER_SECRET_FILE", "s");
const URL: (&str, &str) = ("--introspection-url", "https://id.example.org/introspect");
const SCOPE: (&str, &str) = ("--required-scope", "urn:a:b");

/// [AU-02]
#[test]
fn introspection_is_by_globus_auth_unless_it_is_told_otherwise() {
    let globus = Introspection {
        url: Uri::from_static("https://auth.globus.org/v2/oauth2/token/introspect"),
        client_id: "octopus".to_owned(),
        client_secret: Password::Given("the-s3cret".into()),
        scope: "https://auth.globus.org/scopes/2b9d2f5c-fa32-45b5-875b-b24cd343b917/action_all".to_owned(),
    };
    for words in [
        &[ID, SECRET][..],
        &[INTROSPECTION, ID, SECRET],
        &[ID, SECRET, ("--introspection-url", ""), ("--required-scope", "")],
    ] {
        assert_eq!(read(words), Ok(Auth::Introspection(globus.clone())), "{words:?}");
    }
    let own = Introspection {
        url: Uri::from_static("https://id.example.org/introspect"),
        client_secret: Password::File("s".into()),
        scope: "urn:a:b".to_owned(),
        ..globus
    };
    assert_eq!(read(&[ID, SECRET_FILE, URL, SCOPE]), Ok(Auth::Introspection(own)));
}

#[test]
fn tokens_need_their_file_and_nothing_else() {
    assert_eq!(read(&[TOKENS, FILE]), Ok(Auth::Tokens("f".into())));
    // What is there for another start does no harm.
    let empty = [("--introspection-url", ""), ("--required-scope", "")];
    assert_eq!(
        read(&[TOKENS, FILE, ID, SECRET, empty[0], empty[1]]),
        Ok(Auth::Tokens("f".into()))
    );
}

#[test]
fn what_does_not_go_together_is_refused_in_one_line_without_a_secret() {
    for (words, said) in [
        (
            &[][..],
            "--auth: \"introspection\" is refused: only together with the variables SERVER_CLIENT_ID",
        ),
        (
            &[SECRET],
            "--auth: \"introspection\" is refused: only together with the variables SERVER_CLIENT_ID",
        ),
        (
            &[ID],
            "--auth: \"introspection\" is refused: only together with the variable SERVER_SECRET",
        ),
        (
            &[ID, SECRET, SECRET_FILE],
            "SERVER_SECRET_FILE: \"s\" is refused: not together with SERVER_SECRET",
        ),
        (
            &[ID, SECRET, FILE],
            "--tokens-file: \"f\" is refused: only together with --auth tokens",
        ),
        (
            &[TOKENS],
            "--auth: \"tokens\" is refused: only together with --tokens-file",
        ),
        (
            &[TOKENS, FILE, URL],
            "--introspection-url: \"https://id.example.org/introspect\" is refused: only together with --auth intro",
        ),
        (
            &[TOKENS, FILE, SCOPE],
            "--required-scope: \"urn:a:b\" is refused: only together with --auth introspection",
        ),
        (
            &[ID, SECRET, ("--introspection-url", "http://id.example.org/")],
            "--introspection-url: \"http://id.example.org/\" is refused: it must be a URL with https",
        ),
        (
            &[ID, SECRET, ("--introspection-url", "id.example.org")],
            "--introspection-url: \"id.example.org\" is refused: it must be a URL with https",
        ),
        (
            &[ID, SECRET, ("--required-scope", "a b")],
            "--required-scope: \"a b\" is refused: it must be one scope",
        ),
    ] {
        let line = read(words).expect_err(said);
        assert!(line.starts_with(said), "{words:?}: {line}");
        assert!(!line.contains("s3cret") && line.lines().count() == 1, "{line}");
    }
    assert!(!format!("{:?}", read(&[ID, SECRET])).contains("s3cret"));
}
