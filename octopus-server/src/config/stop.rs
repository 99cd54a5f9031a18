//! Why the program says something and ends.

use std::{error::Error, fmt};

use clap::error::{ContextKind, ErrorKind};

/// What the program says instead of serving. `Display` is the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The help or the version that was asked for: printed, then exit status 0.
    Said(String),
    /// One line that names a flag, its value and what is allowed: exit status 2.
    Refused(String),
}

impl Stop {
    /// The exit status.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self {
            Self::Said(_) => 0,
            Self::Refused(_) => 2,
        }
    }

    pub(super) fn refused(flag: &str, value: &str, rule: &str) -> Self {
        Self::Refused(format!("{flag}: {value:?} is refused: {rule}"))
    }

    pub(super) fn of(error: &clap::Error) -> Self {
        let part = |kind| error.get(kind).map(ToString::to_string);
        let kind = error.kind();
        if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            return Self::Said(error.to_string());
        }
        if matches!(kind, ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
            let argument = part(ContextKind::InvalidArg).unwrap_or_default();
            let flag = argument.split(' ').next().unwrap_or_default();
            let value = part(ContextKind::InvalidValue).unwrap_or_default();
            let allowed = part(ContextKind::ValidValue).filter(|values| !values.is_empty());
            let rule = match (error.source(), allowed) {
                (Some(rule), _) => format!("it must be {rule}"),
                (None, Some(values)) => format!("it must be one of {values}"),
                (None, None) => "it needs a value".to_owned(),
            };
            return Self::refused(flag, &value, &rule);
        }
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        Self::Refused(line.strip_prefix("error: ").unwrap_or(line).to_owned())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

impl Error for Stop {}
