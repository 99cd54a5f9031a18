use proptest::prelude::*;

use super::*;

const SCOPE: &str = "https://auth.example.org/scopes/x/action_all";
const ANN: &str = "01234567-89ab-cdef-0011-aaaaaaaaaaaa";
const BEN: &str = "01234567-89ab-cdef-0011-bbbbbbbbbbbb";
const EVE: &str = "01234567-89ab-cdef-0011-eeeeeeeeeeee";
/// Seconds since 1970.
const NOW: u64 = 1_800_000_000;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

fn read(status: u16, body: &str) -> Result<Answer, NoReply> {
    let reply = Reply {
        status,
        body: body.to_owned().into(),
    };
    Answer::read(&reply, SCOPE, now())
}

/// Whom an answer lets in, of three.
fn admitted(body: &str) -> Vec<&'static str> {
    let answer = read(200, body).unwrap();
    let is_in = |id: &&str| answer.verdict(subject(id).unwrap(), now()) == Verdict::Admitted;
    [ANN, BEN, EVE].into_iter().filter(is_in).collect()
}

/// [AU-02] the form of RFC 7662, section 2.1, and Globus Auth's `include`.
#[test]
fn the_form_has_the_token_and_asks_for_linked_identities() {
    let form = Form::of("a_token");
    assert_eq!(form.expose(), "token=a_token&include=identity_set");
    assert_eq!(format!("{form:?}"), "Form");
}

/// [AU-02] whom a token lets in.
#[test]
fn a_token_is_of_its_subject_and_of_the_identities_linked_to_it() {
    let with = |members: &str| format!(r#"{{"active": true, "scope": "{SCOPE}", {members}}}"#);
    for (members, whom) in [
        (format!(r#""sub": "{ANN}""#), vec![ANN]),
        (format!(r#""sub": "{}""#, ANN.to_uppercase()), vec![ANN]),
        (format!(r#""sub": "{ANN}", "identity_set": null"#), vec![ANN]),
        (format!(r#""sub": "{ANN}", "identity_set": []"#), vec![ANN]),
        (
            format!(r#""sub": "{ANN}", "identity_set": ["{ANN}", "{BEN}"]"#),
            vec![ANN, BEN],
        ),
        (
            format!(r#""sub": "{ANN}", "identity_set": ["x", 7, null, ["{EVE}"], "{BEN}"]"#),
            vec![ANN, BEN],
        ),
        (
            format!(r#""sub": "{ANN}", "identity_set": [{{"sub": "{BEN}", "username": "{EVE}"}}]"#),
            vec![ANN, BEN],
        ),
        (
            format!(r#""sub": "{ANN}", "identity_set_detail": [{{"sub": "{BEN}", "id": "{EVE}"}}, {{}}]"#),
            vec![ANN, BEN],
        ),
        (format!(r#""identity_set": ["{BEN}"]"#), vec![BEN]),
        (
            format!(r#""sub": "someone", "identity_set": ["{BEN}"]"#),
            vec![BEN],
        ),
        (
            format!(r#""sub": "someone", "username": "{ANN}", "client_id": "{ANN}", "aud": ["{ANN}"]"#),
            vec![],
        ),
        (format!(r#""client_id": "{ANN}""#), vec![]),
    ] {
        assert_eq!(admitted(&with(&members)), whom, "{members}");
    }
}

/// [AU-02] active, with the scope, a bearer's and not at its end.
#[test]
fn a_token_that_does_not_hold_is_refused() {
    let with = |members: &str| format!(r#"{{"sub": "{ANN}", {members}}}"#);
    let active = format!(r#""active": true, "scope": "{SCOPE}""#);
    for (members, holds) in [
        (active.clone(), true),
        (r#""active": false"#.to_owned(), false),
        (
            format!(r#""active": false, "scope": "{SCOPE}", "exp": {}"#, NOW + 100),
            false,
        ),
        // Scopes.
        (r#""active": true"#.to_owned(), false),
        (r#""active": true, "scope": null"#.to_owned(), false),
        (r#""active": true, "scope": """#.to_owned(), false),
        (
            format!(r#""active": true, "scope": "openid {SCOPE} email""#),
            true,
        ),
        (format!(r#""active": true, "scope": "{SCOPE}_2""#), false),
        (format!(r#""active": true, "scope": "x{SCOPE}""#), false),
        (
            format!(r#""active": true, "scope": "{}""#, &SCOPE[..SCOPE.len() - 1]),
            false,
        ),
        (
            format!(r#""active": true, "scope": "{}""#, SCOPE.to_uppercase()),
            false,
        ),
        (format!(r#""active": true, "scope": "{SCOPE},email""#), false),
        // Ends.
        (format!(r#"{active}, "exp": null"#), true),
        (format!(r#"{active}, "exp": {}"#, NOW + 1), true),
        (format!(r#"{active}, "exp": {NOW}"#), false),
        (format!(r#"{active}, "exp": {}"#, NOW - 1), false),
        (format!(r#"{active}, "exp": {NOW}.5"#), true),
        (format!(r#"{active}, "exp": "{}""#, NOW + 1), true),
        (format!(r#"{active}, "exp": "{NOW}""#), false),
        (format!(r#"{active}, "exp": 0"#), false),
        (format!(r#"{active}, "exp": -1"#), false),
        (format!(r#"{active}, "exp": "-1e300""#), false),
        (format!(r#"{active}, "exp": "nan""#), false),
        // Types.
        (format!(r#"{active}, "token_type": "Bearer""#), true),
        (format!(r#"{active}, "token_type": "bearer""#), true),
        (format!(r#"{active}, "token_type": null"#), true),
        (format!(r#"{active}, "token_type": "DPoP""#), false),
    ] {
        let whom = if holds { vec![ANN] } else { vec![] };
        assert_eq!(admitted(&with(&members)), whom, "{members}");
        assert_eq!(
            read(200, &with(&members)).unwrap() == Answer::Refused,
            !holds,
            "{members}"
        );
    }
}

/// [D-35] nobody knows whether the token holds; nothing of the answer is in the reason.
#[test]
fn what_is_no_answer_lets_nobody_in_and_refuses_nobody() {
    let good = format!(r#"{{"active": true, "scope": "{SCOPE}", "sub": "{ANN}"}}"#);
    for (status, body, words) in [
        (401, &*good, "the id or the secret of the service"),
        (403, &good, "answered 403"),
        (400, &good, "answered 400"),
        (404, &good, "answered 404"),
        (429, &good, "answered 429"),
        (302, &good, "answered 302"),
        (204, "", "answered 204"),
        (201, &good, "answered 201"),
        (500, &good, "answered 500"),
        (200, "", "not one of token introspection"),
        (200, "s3cret", "not one of token introspection"),
        (200, "<html>s3cret</html>", "not one of token introspection"),
        (200, "[]", "not one of token introspection"),
        (200, "null", "not one of token introspection"),
        (200, "{}", "not one of token introspection"),
        (200, r#"{"active": "s3cret"}"#, "not one of token introspection"),
        (200, r#"{"active": "true"}"#, "not one of token introspection"),
        (200, r#"{"active": 1}"#, "not one of token introspection"),
        (200, r#"{"active": null}"#, "not one of token introspection"),
        (
            200,
            r#"{"active": false, "active": true}"#,
            "not one of token introspection",
        ),
        (
            200,
            r#"{"active": true, "scope": ["s3cret"]}"#,
            "not one of token introspection",
        ),
        (
            200,
            r#"{"active": true, "sub": 7}"#,
            "not one of token introspection",
        ),
        (
            200,
            r#"{"active": true, "exp": true}"#,
            "not one of token introspection",
        ),
        (
            200,
            r#"{"active": true, "identity_set": "s3cret"}"#,
            "not one of token introspection",
        ),
        (
            200,
            r#"{"active": true, "exp": "s3cret"}"#,
            "an end that is no time",
        ),
        (200, r#"{"active": true, "exp": 1e300}"#, "an end that is no time"),
        (200, &format!("{good}x"), "not one of token introspection"),
        (200, &good[..good.len() - 1], "not one of token introspection"),
    ] {
        let why = read(status, body).expect_err(body).to_string();
        assert!(why.contains(words), "{status} {body}: {why}");
        assert!(!why.contains("s3cret") && !why.contains(ANN), "{why}");
    }
}

proptest! {
    /// [AU-02] nothing but an answer that says so lets anybody in, whatever comes.
    #[test]
    fn no_reply_is_too_strange(status: u16, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let reply = Reply { status, body: body.into() };
        prop_assert!(!matches!(Answer::read(&reply, SCOPE, now()), Ok(Answer::Holds(_))));
    }

    /// [AU-02] each of the identities once, in either shape, and nobody else.
    #[test]
    fn every_identity_and_nobody_else_is_let_in(
        sub in 0..20u128, ids in proptest::collection::vec((0..20u128, any::<bool>()), 0..30), asked in 0..20u128,
    ) {
        let id = |uuid| Subject::from_uuid(uuid).to_string();
        let set: Vec<_> = ids.iter().map(|(uuid, is_detail)| {
            if *is_detail { serde_json::json!({"sub": id(*uuid)}) } else { id(*uuid).into() }
        }).collect();
        let body = serde_json::json!({"active": true, "scope": SCOPE, "sub": id(sub), "identity_set": set});
        let answer = read(200, &body.to_string()).unwrap();
        let is_linked = asked == sub || ids.iter().any(|(uuid, _)| *uuid == asked);
        let verdict = answer.verdict(Subject::from_uuid(asked), now());
        prop_assert_eq!(verdict == Verdict::Admitted, is_linked);
    }
}
