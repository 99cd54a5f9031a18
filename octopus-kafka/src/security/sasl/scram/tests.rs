use super::*;

fn scram(hash: Hash, username: &str, nonce: &str) -> Scram {
    let login = Login {
        username: username.to_owned(),
        password: "pencil".into(),
    };
    Scram::new(hash, login, nonce.to_owned())
}

fn sent(step: Result<Step, String>) -> String {
    match step {
        Ok(Step::Send(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// RFC 5802, section 5 (SHA-1); RFC 7677, section 3 (SHA-256); SHA-512 and the escapes as Python's hashlib and hmac
/// compute them.
#[test]
fn the_messages_are_those_of_the_rfcs() {
    for (hash, username, nonce, escaped, challenge, proof, signature) in [
        (
            Hash::Sha1,
            "user",
            "fyko+d2lbbFgONRv9qkxdawL",
            "user",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        ),
        (
            Hash::Sha256,
            "user",
            "rOprNGfwEbeRWgbNEkqO",
            "user",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
        (
            Hash::Sha512,
            "a=b,c",
            "rOprNGfwEbeRWgbNEkqO",
            "a=3Db=2Cc",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=8192",
            "LHMn4jVrP1hBCl0zXgGx98zcRkWhdKJQh6nn0minTxRCsSAWZjGgIW7Z9fkca2FHKFhfP5SdskEgWHocY4HxgQ==",
            "S3ahMva+DcgVXUSDgeFqHzsSOm5dVSye8FZ9+215p4OH/eBr/D+Gtr72GCE8VU0s1e0qWeiKagzO/5KcmCizaQ==",
        ),
    ] {
        let mut scram = scram(hash, username, nonce);
        let first = String::from_utf8(scram.first().to_vec()).unwrap();
        assert_eq!(first, format!("n,,n={escaped},r={nonce}"));
        let last = sent(scram.next(challenge.as_bytes()));
        let (whole, _) = challenge.split_once(',').unwrap();
        assert_eq!(last, format!("c=biws,{whole},p={proof}"));
        assert_eq!(scram.next(format!("v={signature}").as_bytes()), Ok(Step::Done));
        assert!(scram.next(b"").is_err(), "there is nothing more to say");
    }
}

/// [ER-05] whoever does not know the password can't pose as the broker.
#[test]
fn a_broker_that_does_not_prove_itself_is_not_believed() {
    let challenge = "r=ours+theirs,s=QSXCR+Q6sek8bf92,i=4096";
    for (answer, why) in [
        (
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            "does not know the password",
        ),
        ("v=", "does not know the password"),
        ("v=AA==", "does not know the password"),
        ("v=%", "can't be read"),
        ("", "can't be read"),
        ("r=x", "can't be read"),
        ("e=invalid-proof", "refused the proof"),
    ] {
        let mut scram = scram(Hash::Sha256, "user", "ours");
        sent(scram.next(challenge.as_bytes()));
        let refused = scram.next(answer.as_bytes()).unwrap_err();
        assert!(refused.contains(why), "{answer}: {refused}");
        assert!(scram.next(answer.as_bytes()).is_err());
    }
}

/// [ER-05] what would weaken the proof, take all day, or is no SCRAM at all.
#[test]
fn a_challenge_that_does_not_fit_is_refused() {
    let long = format!("r=ours+,s={},i=4096", "A".repeat(4096));
    for (challenge, why) in [
        ("r=ours,s=AAAA,i=4096", "nonce"),
        ("r=other+ours,s=AAAA,i=4096", "nonce"),
        ("r=ours+,s=AAAA,i=4095", "iterations"),
        ("r=ours+,s=AAAA,i=1000001", "iterations"),
        ("r=ours+,s=AAAA,i=4294971392", "iterations"),
        ("r=ours+,s=AAAA,i=-4096", "iterations"),
        ("r=ours+,s=AAAA,i=+4096", "iterations"),
        ("r=ours+,s=AAAA,i=", "iterations"),
        ("r=ours+,s=AAAA", "can't be read"),
        ("r=ours+,s=,i=4096", "can't be read"),
        ("r=ours+,s=%,i=4096", "can't be read"),
        ("r=ours+,i=4096,s=AAAA", "can't be read"),
        ("m=must,r=ours+,s=AAAA,i=4096", "can't be read"),
        ("e=unknown-user", "refused the name"),
        ("", "can't be read"),
        (&long, "too long"),
    ] {
        let refused = scram(Hash::Sha256, "user", "ours").next(challenge.as_bytes());
        let refused = refused.unwrap_err();
        assert!(refused.contains(why), "{challenge}: {refused}");
        assert!(!refused.contains("pencil"));
    }
    assert!(scram(Hash::Sha256, "user", "ours").next(&[0xff]).is_err());
    let extended = b"r=ours+,s=AAAA,i=4096,x=whatever";
    assert!(scram(Hash::Sha256, "user", "ours").next(extended).is_ok());
}

/// [ER-05] an answer that is no text, or too long, ends a sign-in as any other wrong one does.
#[test]
fn no_right_answer_follows_a_wrong_one() {
    let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let proof = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    for wrong in [&b"\xff"[..], &[b'v'; 4097], b"v=AA=="] {
        let mut scram = scram(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO");
        sent(scram.next(challenge.as_bytes()));
        assert!(scram.next(wrong).is_err());
        assert!(scram.next(proof.as_bytes()).is_err(), "{wrong:?}");

        let mut scram = self::scram(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO");
        assert!(scram.next(wrong).is_err());
        assert!(scram.next(challenge.as_bytes()).is_err(), "{wrong:?}");
    }
}

proptest::proptest! {
    /// Whatever a broker says, it is answered or refused; it is never believed without its proof.
    #[test]
    fn no_words_of_a_broker_pass_for_a_proof(first in ".{0,64}", tail in "[ -~]{0,32}", last in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
        for challenge in [first, format!("r=ours{tail},s=AAAA,i=4096")] {
            let mut scram = scram(Hash::Sha256, "user", "ours");
            if let Ok(step) = scram.next(challenge.as_bytes()) {
                proptest::prop_assert!(matches!(step, Step::Send(_)));
                proptest::prop_assert!(scram.next(&last).is_err());
            }
        }
    }
}
