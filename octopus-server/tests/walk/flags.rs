//! What an operator gets wrong, and is told.

use std::process::Command;

fn refused(flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_octopus-server"))
        .args(flags)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{flags:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_bad_flag_is_refused_in_one_line_that_names_it() {
    for (flags, words) in [
        (&["--listen", "nowhere"][..], &["--listen", "nowhere"][..]),
        (&["--max-polls", "0"], &["--max-polls", "0"]),
        (
            &["--auth", "open"],
            &["--auth", "open", "introspection", "tokens"],
        ),
        (&["--auth", "introspection"], &["introspection", "not available"]),
        (
            &["--auth", "tokens", "--tokens-file", "/nonexistent/file"],
            &["--tokens-file", "/nonexistent/file"],
        ),
        (
            &["--dev", "--namespaces", "registry"],
            &["registry", "not available"],
        ),
        (&["--tls-cert", "x"], &["--tls-cert"]),
    ] {
        let message = refused(flags);
        for word in words {
            assert!(message.contains(word), "{flags:?}: {message}");
        }
    }
}

#[test]
fn help_lists_every_flag_with_its_default() {
    let output = Command::new(env!("CARGO_BIN_EXE_octopus-server"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for flag in [
        "--dev",
        "--listen",
        "--bootstrap-servers",
        "--instance-timeout-ms",
        "--ready-file",
        "300000",
    ] {
        assert!(help.contains(flag), "{flag} is missing in {help}");
    }
}
