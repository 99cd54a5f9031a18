//! Text that nobody may see.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A password, a token or a key. `Debug` shows nothing of it, and its memory is wiped when it falls.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text itself, for those who send it or sign with it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether somebody else's words give it away.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        !self.0.is_empty() && text.contains(self.0.as_str())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::from("hunter2");
        assert_eq!(format!("{secret:?} {secret:#?}"), "Secret Secret");
        assert_eq!(secret.expose(), "hunter2");
        assert!(secret == Secret::from("hunter2") && secret != Secret::from("hunter3"));
        assert!(secret.is_in("no hunter2 here") && !secret.is_in("hunter"));
        assert!(!Secret::from("").is_in("anything"));
    }
}
