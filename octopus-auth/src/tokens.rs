//! Tokens from a file that an operator keeps.

use std::{fmt, future, time::SystemTime};

use octopus_core::Subject;
use subtle::{Choice, ConstantTimeEq};

use crate::{
    Caller, Checked, Credentials, TokenCheck, TokenFault, credentials::LONGEST_TOKEN, is_token, subject,
};

/// The tokens of a file, each with its subject and the time at which it ends.
///
/// A look-up takes the same time wherever the token stands in the file, and whether or not it is there.
pub struct Tokens {
    entries: Vec<Entry>,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

struct Entry {
    token: Padded,
    subject: Subject,
    expiry: Option<SystemTime>,
}

/// A token with zeros behind it, so that two of them compare without a word about their lengths. No token
/// holds a zero.
type Padded = [u8; LONGEST_TOKEN];

impl Tokens {
    /// Reads a file's text. A line is `TOKEN SUBJECT [EXPIRY]`, split at blanks; `#` starts a comment; EXPIRY is
    /// an RFC 3339 time such as `2030-01-31T00:00:00Z`. A token may stand on several lines: it then holds for
    /// each of their subjects. `clock` tells the time that expiries are compared with.
    ///
    /// # Errors
    ///
    /// The first line that has another form.
    pub fn parse(
        text: &str,
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Result<Self, LineError> {
        let mut entries = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let entry = Entry::parse(line).map_err(|reason| LineError { line: i + 1, reason })?;
            entries.extend(entry);
        }
        Ok(Self {
            entries,
            clock: Box::new(clock),
        })
    }

    /// How many lines hold a token.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no line holds a token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The caller that these credentials prove [AU-02]. A token counts up to its expiry, not at it.
    ///
    /// # Errors
    ///
    /// [`TokenFault::Refused`] where the token is malformed, unknown, at its end, or another subject's.
    pub fn lookup(&self, credentials: &Credentials) -> Result<Caller, TokenFault> {
        let subject = credentials.subject()?;
        let token = padded(credentials.token()?);
        let now = (self.clock)();
        let mut holds = Choice::from(0);
        for entry in &self.entries {
            let valid = entry.subject == subject && entry.expiry.is_none_or(|expiry| now < expiry);
            holds |= entry.token.ct_eq(&token) & Choice::from(u8::from(valid));
        }
        if holds.into() {
            Ok(Caller::of(subject))
        } else {
            Err(TokenFault::Refused)
        }
    }
}

impl TokenCheck for Tokens {
    fn check<'a>(&'a self, credentials: &'a Credentials) -> Checked<'a> {
        Box::pin(future::ready(self.lookup(credentials)))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("len", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// A line of a tokens file that has another form. It names no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineError {
    line: usize,
    reason: &'static str,
}

impl LineError {
    /// The line's number, from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for LineError {}

impl Entry {
    /// Reads a line; `None` where it holds a comment or nothing.
    fn parse(line: &str) -> Result<Option<Self>, &'static str> {
        let text = line.split_once('#').map_or(line, |(text, _)| text);
        let mut words = text.split_whitespace();
        let Some(token) = words.next() else {
            return Ok(None);
        };
        if !is_token(token) {
            return Err("a token is 33 to 254 letters, digits or underscores");
        }
        let named = words.next().ok_or("a subject must follow the token")?;
        let subject = subject(named).ok_or("the subject is not a UUID of 8-4-4-4-12 hex digits")?;
        let expiry = words.next().map(expiry).transpose()?;
        if words.next().is_some() {
            return Err("nothing may follow the expiry");
        }
        Ok(Some(Self {
            token: padded(token),
            subject,
            expiry,
        }))
    }
}

fn expiry(text: &str) -> Result<SystemTime, &'static str> {
    text.parse::<jiff::Timestamp>()
        .and_then(SystemTime::try_from)
        .map_err(|_| "the expiry is not an RFC 3339 time such as 2030-01-31T00:00:00Z")
}

fn padded(token: &str) -> Padded {
    let mut padded = [0; LONGEST_TOKEN];
    for (to, from) in padded.iter_mut().zip(token.bytes()) {
        *to = from;
    }
    padded
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use super::*;

    const ANN: &str = "01234567-89ab-cdef-0011-aaaaaaaaaaaa";
    const BEN: &str = "01234567-89ab-cdef-0011-bbbbbbbbbbbb";
    const FIRST: &str = "first_token_first_token_first_token";
    const SECOND: &str = "second_token_second_token_second_token";
    /// 2030-01-31T00:00:00Z in seconds since 1970.
    const EXPIRY: u64 = 1_896_048_000;

    /// [AU-02]
    #[test]
    fn a_token_holds_for_the_subjects_of_its_lines_only() {
        let text = format!("# staff\n\n{FIRST} {ANN}\n  {SECOND}\t{BEN}  # two of them\n{SECOND} {ANN}\n");
        let tokens = Tokens::parse(&text, at(0)).unwrap();
        assert_eq!(tokens.len(), 3);
        for (subject, token, holds) in [
            (ANN, FIRST, true),
            (BEN, FIRST, false),
            (BEN, SECOND, true),
            (ANN, SECOND, true),
            (&*ANN.to_uppercase(), FIRST, true),
            (ANN, &FIRST[..34], false),
            (ANN, &format!("{FIRST}_"), false),
            (ANN, &FIRST.to_uppercase(), false),
            ("someone", FIRST, false),
        ] {
            let found = tokens.lookup(&credentials(subject, token));
            assert_eq!(found.is_ok(), holds, "{subject} {token}");
            if holds {
                assert_eq!(
                    found.unwrap().namespace.as_str(),
                    format!("ns-{}", &subject.to_lowercase()[24..])
                );
            }
        }
    }

    /// [AU-02]
    #[test]
    fn a_token_counts_up_to_its_expiry() {
        let now = Arc::new(AtomicU64::new(EXPIRY - 1));
        let clock = now.clone();
        let text = format!("{FIRST} {ANN} 2030-01-31T01:00:00+01:00");
        let tokens = Tokens::parse(&text, move || at(clock.load(Ordering::Relaxed))()).unwrap();
        assert!(tokens.lookup(&credentials(ANN, FIRST)).is_ok());
        now.store(EXPIRY, Ordering::Relaxed);
        assert_eq!(tokens.lookup(&credentials(ANN, FIRST)), Err(TokenFault::Refused));
    }

    /// [AU-02]
    #[test]
    fn a_check_answers_at_once() {
        let tokens = Tokens::parse(&format!("{FIRST} {ANN}"), at(0)).unwrap();
        let check: &dyn TokenCheck = &tokens;
        let known = credentials(ANN, FIRST);
        let mut answer = check.check(&known);
        let Poll::Ready(Ok(caller)) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("no caller");
        };
        assert_eq!(caller.subject.to_string(), ANN);
    }

    #[test]
    fn a_line_of_another_form_is_named_without_its_token() {
        for (line, reason) in [
            (
                "short 01234567-89ab-cdef-0011-aaaaaaaaaaaa".to_owned(),
                "33 to 254",
            ),
            (format!("{FIRST}- {ANN}"), "33 to 254"),
            (FIRST.to_owned(), "subject must follow"),
            (format!("{FIRST} # {ANN}"), "subject must follow"),
            (format!("{FIRST} ann"), "not a UUID"),
            (format!("{FIRST} {ANN} tomorrow"), "RFC 3339"),
            (format!("{FIRST} {ANN} 2030-01-31"), "RFC 3339"),
            (format!("{FIRST} {ANN} 2030-02-31T00:00:00Z"), "RFC 3339"),
            (
                format!("{FIRST} {ANN} 2030-01-31T00:00:00Z x"),
                "nothing may follow",
            ),
        ] {
            let error = Tokens::parse(&format!("# one\n\n{line}\n"), at(0)).unwrap_err();
            assert_eq!(error.line(), 3);
            let shown = format!("{error} {error:?}");
            assert!(
                shown.contains(reason) && shown.contains("line 3"),
                "{line}: {shown}"
            );
            assert!(!shown.contains(FIRST), "{shown}");
        }
    }

    #[test]
    fn debug_output_shows_no_token() {
        let tokens = Tokens::parse(&format!("{FIRST} {ANN}"), at(0)).unwrap();
        assert_eq!(format!("{tokens:?}"), "Tokens { len: 1, .. }");
        assert!(Tokens::parse("# nobody", at(0)).unwrap().is_empty());
    }

    fn credentials(subject: &str, token: &str) -> Credentials {
        Credentials::new(subject, format!("Bearer {token}"))
    }

    fn at(secs: u64) -> impl Fn() -> SystemTime + Send + Sync {
        move || SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
    }
}
