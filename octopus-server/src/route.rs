//! Which route a request is for: its path and its method.

mod namespace;
mod produce;

use std::borrow::Cow;

use http::Method;

pub use namespace::{NamespaceRoute, TopicPath};
pub use produce::ProduceRoute;

use crate::headers::{PLAIN_JSON, V2};

/// The route of a request, of whichever API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One of the consume API [RT-01].
    Consumer(Route),
    /// One of users, keys, namespaces and topics.
    Namespace(NamespaceRoute),
    /// One that writes records.
    Produce(ProduceRoute),
}

/// A route of the consume API [RT-01].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// What is asked.
    pub operation: Operation,
    /// The group's segment of the path, percent-decoded once and otherwise as it came [D-10].
    pub group: String,
    /// The instance's segment, likewise; `None` at create, whose body may name it.
    pub instance: Option<String>,
}

/// A row of the specification's *Routes* [RT-01].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(
    missing_docs,
    reason = "each variant is a row, in the words of `octopus_core::Command`"
)]
pub enum Operation {
    Create,
    Delete,
    Subscribe,
    Subscription,
    Unsubscribe,
    Assign,
    Assignments,
    Commit,
    Committed,
    Seek,
    SeekToBeginning,
    SeekToEnd,
    Fetch,
}

/// Why a request has no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// The path matches none [RT-02].
    NotFound,
    /// The path's routes take other methods: the reply's `Allow` [RT-03].
    MethodNotAllowed(&'static str),
}

impl Target {
    /// The route of a method and of a path as it stands in the request, without the query. One slash at the end
    /// changes nothing [D-09].
    ///
    /// # Errors
    ///
    /// [`NoRoute`] says why there is none; HEAD and OPTIONS are methods like others [D-09].
    pub fn find(method: &Method, path: &str) -> Result<Self, NoRoute> {
        let segments = segments(path)?;
        let words = segments.iter().map(|segment| &**segment).collect::<Vec<_>>();
        match *words {
            ["api", "v2", ref rest @ ..] => Route::of(method, rest).map(Self::Consumer),
            ["api", "v3", ref rest @ ..] => match ProduceRoute::of(method, rest) {
                Some(route) => route.map(Self::Produce),
                None => NamespaceRoute::of(method, rest).map(Self::Namespace),
            },
            _ => Err(NoRoute::NotFound),
        }
    }

    /// Whether the route takes a body: only then its type is looked at [D-02].
    #[must_use]
    pub const fn takes_body(&self) -> bool {
        match self {
            Self::Consumer(route) => route.operation.takes_body(),
            Self::Namespace(_) => false,
            Self::Produce(_) => true,
        }
    }

    /// The type of its replies, until a fetch's `Accept` chooses another [RT-05].
    #[must_use]
    pub const fn media_type(&self) -> &'static str {
        match self {
            Self::Consumer(_) => V2,
            Self::Namespace(_) | Self::Produce(_) => PLAIN_JSON,
        }
    }

    /// A word for logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Consumer(route) => route.operation.name(),
            Self::Namespace(route) => route.name(),
            Self::Produce(route) => route.name(),
        }
    }
}

impl Route {
    /// As [`Target::find`], for the routes of the consume API alone.
    ///
    /// # Errors
    ///
    /// As there; the routes of other APIs are not found.
    pub fn find(method: &Method, path: &str) -> Result<Self, NoRoute> {
        match Target::find(method, path)? {
            Target::Consumer(route) => Ok(route),
            Target::Namespace(_) | Target::Produce(_) => Err(NoRoute::NotFound),
        }
    }

    /// The route of what follows `/api/v2`.
    fn of(method: &Method, rest: &[&str]) -> Result<Self, NoRoute> {
        let (group, instance, resource) = match *rest {
            ["consumers", group] => (group, None, Resource::Group),
            ["consumers", group, "instances", instance, ref rest @ ..] => (
                group,
                Some(instance),
                Resource::of(rest).ok_or(NoRoute::NotFound)?,
            ),
            _ => return Err(NoRoute::NotFound),
        };
        Ok(Self {
            operation: resource.operation(method)?,
            group: group.to_owned(),
            instance: instance.map(str::to_owned),
        })
    }
}

impl Operation {
    /// Whether the route takes a body: only then its type is looked at [D-02].
    #[must_use]
    pub const fn takes_body(self) -> bool {
        match self {
            Self::Create
            | Self::Subscribe
            | Self::Assign
            | Self::Commit
            | Self::Committed
            | Self::Seek
            | Self::SeekToBeginning
            | Self::SeekToEnd => true,
            Self::Delete | Self::Subscription | Self::Unsubscribe | Self::Assignments | Self::Fetch => false,
        }
    }

    /// Whether it is the fetch, the only route that looks at `Accept`.
    #[must_use]
    pub const fn is_fetch(self) -> bool {
        matches!(self, Self::Fetch)
    }

    /// Whether it is the create, the only route whose path names no instance.
    #[must_use]
    pub const fn is_create(self) -> bool {
        matches!(self, Self::Create)
    }

    /// A word for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Subscribe => "subscribe",
            Self::Subscription => "subscription",
            Self::Unsubscribe => "unsubscribe",
            Self::Assign => "assign",
            Self::Assignments => "assignments",
            Self::Commit => "commit",
            Self::Committed => "committed",
            Self::Seek => "seek",
            Self::SeekToBeginning => "seek to beginning",
            Self::SeekToEnd => "seek to end",
            Self::Fetch => "fetch",
        }
    }
}

/// The segments of the longest path.
const LONGEST: usize = 8;

/// What a path names, whatever the method.
#[derive(Clone, Copy)]
enum Resource {
    Group,
    Instance,
    Subscription,
    Assignments,
    Offsets,
    Positions,
    Beginning,
    End,
    Records,
}

impl Resource {
    /// The resource of the segments behind an instance's.
    fn of(rest: &[&str]) -> Option<Self> {
        match rest {
            [] => Some(Self::Instance),
            ["subscription"] => Some(Self::Subscription),
            ["assignments"] => Some(Self::Assignments),
            ["offsets"] => Some(Self::Offsets),
            ["positions"] => Some(Self::Positions),
            ["positions", "beginning"] => Some(Self::Beginning),
            ["positions", "end"] => Some(Self::End),
            ["records"] => Some(Self::Records),
            _ => None,
        }
    }

    fn operation(self, method: &Method) -> Result<Operation, NoRoute> {
        const DELETE: &str = "DELETE";
        const GET: &str = "GET";
        const POST: &str = "POST";
        let (operation, allow) = match (self, method.as_str()) {
            (Self::Group, POST) => (Some(Operation::Create), POST),
            (Self::Group, _) => (None, POST),
            (Self::Instance, DELETE) => (Some(Operation::Delete), DELETE),
            (Self::Instance, _) => (None, DELETE),
            (Self::Subscription, POST) => (Some(Operation::Subscribe), POST),
            (Self::Subscription, GET) => (Some(Operation::Subscription), GET),
            (Self::Subscription, DELETE) => (Some(Operation::Unsubscribe), DELETE),
            (Self::Subscription, _) => (None, "DELETE, GET, POST"),
            (Self::Assignments, POST) => (Some(Operation::Assign), POST),
            (Self::Assignments, GET) => (Some(Operation::Assignments), GET),
            (Self::Assignments, _) => (None, "GET, POST"),
            (Self::Offsets, POST) => (Some(Operation::Commit), POST),
            (Self::Offsets, GET) => (Some(Operation::Committed), GET),
            (Self::Offsets, _) => (None, "GET, POST"),
            (Self::Positions, POST) => (Some(Operation::Seek), POST),
            (Self::Beginning, POST) => (Some(Operation::SeekToBeginning), POST),
            (Self::End, POST) => (Some(Operation::SeekToEnd), POST),
            (Self::Positions | Self::Beginning | Self::End, _) => (None, POST),
            (Self::Records, GET) => (Some(Operation::Fetch), GET),
            (Self::Records, _) => (None, GET),
        };
        operation.ok_or(NoRoute::MethodNotAllowed(allow))
    }
}

/// The segments of a path, none of them empty.
fn segments(path: &str) -> Result<Vec<Cow<'_, str>>, NoRoute> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments = path.split('/').map(decoded);
    if segments.next().as_deref() != Some("") {
        return Err(NoRoute::NotFound);
    }
    let segments = segments.take(LONGEST + 1).collect::<Vec<_>>();
    if segments.iter().any(|segment| segment.is_empty()) {
        return Err(NoRoute::NotFound);
    }
    Ok(segments)
}

/// A segment, percent-decoded once. Bytes that are not UTF-8 become U+FFFD, which no name holds [D-10].
fn decoded(segment: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy()
}

#[cfg(test)]
mod tests;
