//! What a request asks: its route, query and body become a [`Command`].
//!
//! Nothing here knows an instance or a clock, so that any input can be tried on it.

mod create;
mod list;
pub(crate) mod number;
mod query;
mod value;

use octopus_core::{Command, Error, Format, Name};

use crate::route::{Operation, Route};

/// A request that is well formed.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The group, of the path.
    pub group: Name,
    /// The instance, of the path or of a create's body; `None` where a create leaves its name to the
    /// service [CR-03].
    pub instance: Option<Name>,
    /// What is asked.
    pub command: Command,
}

/// Reads a request. `body` is ignored where the route takes none, and `query` and `format` (what `Accept` chose)
/// everywhere but at a fetch. `max_topics` is the most items of a list [CT-06].
///
/// # Errors
///
/// In this order [D-01]: [`Error::BodyNotJson`]; what a field or a parameter breaks; and
/// [`Error::InstanceNotFound`] for a name in the path that no instance can have, where the route is not the
/// create [D-10]. A partition other than 0 is none of them.
pub fn parse(
    route: &Route,
    query: Option<&str>,
    body: &[u8],
    format: Option<Format>,
    max_topics: usize,
) -> Result<Parsed, Error> {
    let body = if route.operation.takes_body() {
        value::body(body)?
    } else {
        None
    };
    let command = match route.operation {
        Operation::Create => return create::create(&route.group, body),
        Operation::Delete => Command::Delete,
        Operation::Subscribe => Command::Subscribe(list::subscribe(body, max_topics)?),
        Operation::Subscription => Command::Subscription,
        Operation::Unsubscribe => Command::Unsubscribe,
        Operation::Assign => Command::Assign(list::partitions(body, max_topics)?),
        Operation::Assignments => Command::Assignments,
        Operation::Commit => {
            Command::Commit(body.map(|body| list::processed(&body, max_topics)).transpose()?)
        }
        Operation::Committed if body.is_none() => Command::Committed(None),
        Operation::Committed => Command::Committed(Some(list::partitions(body, max_topics)?)),
        Operation::Seek => Command::Seek(list::positions(body, max_topics)?),
        Operation::SeekToBeginning => Command::SeekToBeginning(list::partitions(body, max_topics)?),
        Operation::SeekToEnd => Command::SeekToEnd(list::partitions(body, max_topics)?),
        Operation::Fetch => Command::Fetch(query::fetch(query.unwrap_or_default(), format)?),
    };
    let name = |text: &str| Name::parse(text).ok_or(Error::InstanceNotFound);
    Ok(Parsed {
        group: name(&route.group)?,
        instance: Some(name(route.instance.as_deref().unwrap_or_default())?),
        command,
    })
}

#[cfg(test)]
mod tests;
