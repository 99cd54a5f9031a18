//! PLAIN (RFC 4616): the name and the password as they are.

use zeroize::Zeroizing;

use super::Login;

/// The only message.
pub(super) fn message(login: &Login) -> Result<Zeroizing<Vec<u8>>, String> {
    let (username, password) = (&login.username, login.password.expose());
    if username.contains('\0') || password.contains('\0') {
        return Err("a name or a password with a NUL in it can't be sent".to_owned());
    }
    let mut message = Zeroizing::new(Vec::with_capacity(2 + username.len() + password.len()));
    message.push(0);
    message.extend_from_slice(username.as_bytes());
    message.push(0);
    message.extend_from_slice(password.as_bytes());
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(username: &str, password: &str) -> Login {
        Login {
            username: username.to_owned(),
            password: password.into(),
        }
    }

    /// The example of RFC 4616, section 4.
    #[test]
    fn the_message_is_that_of_the_rfc() {
        assert_eq!(
            **message(&login("tim", "tanstaaftanstaaf")).unwrap(),
            *b"\0tim\0tanstaaftanstaaf"
        );
        assert_eq!(**message(&login("Ä", "ß,=")).unwrap(), *"\0Ä\0ß,=".as_bytes());
    }

    #[test]
    fn a_nul_would_end_the_name_early_and_is_refused() {
        for (username, password) in [("a\0b", "c"), ("a", "b\0c")] {
            let why = message(&login(username, password)).unwrap_err();
            assert!(why.contains("NUL") && !why.contains('\0'));
        }
    }
}
