//! Which route a request is for: its path and its method.

use std::borrow::Cow;

use http::Method;

/// A request's route [RT-01].
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

impl Route {
    /// The route of a method and of a path as it stands in the request, without the query. One slash at the end
    /// changes nothing [D-09].
    ///
    /// # Errors
    ///
    /// [`NoRoute`] says why there is none; HEAD and OPTIONS are methods like others [D-09].
    pub fn find(method: &Method, path: &str) -> Result<Self, NoRoute> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments = path.split('/').map(decoded);
        if segments.next().as_deref() != Some("") {
            return Err(NoRoute::NotFound);
        }
        let segments = segments.by_ref().take(LONGEST + 1).collect::<Vec<_>>();
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(NoRoute::NotFound);
        }
        let words = segments.iter().map(|segment| &**segment).collect::<Vec<_>>();
        let (group, instance, resource) = match *words {
            ["api", "v2", "consumers", group] => (group, None, Resource::Group),
            [
                "api",
                "v2",
                "consumers",
                group,
                "instances",
                instance,
                ref rest @ ..,
            ] => (
                group,
                Some(instance),
                Resource::of(rest).ok_or(NoRoute::NotFound)?,
            ),
            // The earlier consumer routes are gone; this one of their paths is that of another route [RT-06].
            ["api", "v3", _, "consumers", "recreate"] if method != Method::PUT => {
                return Err(NoRoute::MethodNotAllowed("PUT"));
            }
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

/// A segment, percent-decoded once. Bytes that are not UTF-8 become U+FFFD, which no name holds [D-10].
fn decoded(segment: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use octopus_core::Name;
    use proptest::prelude::*;

    use super::*;

    const BASE: &str = "/api/v2/consumers/g/instances/i";

    /// [RT-01]
    #[test]
    fn the_thirteen_routes_exist() {
        for (method, path, operation) in [
            ("POST", "/api/v2/consumers/g".to_owned(), Operation::Create),
            ("DELETE", BASE.to_owned(), Operation::Delete),
            ("POST", format!("{BASE}/subscription"), Operation::Subscribe),
            ("GET", format!("{BASE}/subscription"), Operation::Subscription),
            ("DELETE", format!("{BASE}/subscription"), Operation::Unsubscribe),
            ("POST", format!("{BASE}/assignments"), Operation::Assign),
            ("GET", format!("{BASE}/assignments"), Operation::Assignments),
            ("POST", format!("{BASE}/offsets"), Operation::Commit),
            ("GET", format!("{BASE}/offsets"), Operation::Committed),
            ("POST", format!("{BASE}/positions"), Operation::Seek),
            (
                "POST",
                format!("{BASE}/positions/beginning"),
                Operation::SeekToBeginning,
            ),
            ("POST", format!("{BASE}/positions/end"), Operation::SeekToEnd),
            ("GET", format!("{BASE}/records"), Operation::Fetch),
        ] {
            let instance = (operation != Operation::Create).then(|| "i".to_owned());
            let route = Route {
                operation,
                group: "g".to_owned(),
                instance,
            };
            assert_eq!(find(method, &path), Ok(route.clone()), "{method} {path}");
            assert_eq!(operation.is_create(), route.instance.is_none());
        }
    }

    /// [D-09]
    #[test]
    fn one_slash_at_the_end_changes_nothing() {
        for path in [
            "/api/v2/consumers/g/",
            &format!("{BASE}/subscription/"),
            &format!("{BASE}/positions/end/"),
        ] {
            let plain = path.strip_suffix('/').unwrap();
            assert!(find("POST", path).is_ok(), "{path}");
            assert_eq!(find("POST", path), find("POST", plain));
            assert_eq!(
                find("POST", &format!("{path}/")),
                Err(NoRoute::NotFound),
                "{path}/"
            );
        }
    }

    /// [RT-02]
    #[test]
    fn a_path_that_matches_no_route_is_not_found() {
        for path in [
            "",
            "/",
            "*",
            "/api/v2/consumers",
            "/api/v2/consumers/",
            "/api/v2/consumers//instances/i",
            "/api/v2/consumers/g/instances",
            "/api/v2/consumers/g/instances/",
            "/api/v2/consumers/g/instances//records",
            "/api/v2/consumers/g/i",
            "/api/v2/consumers/a/b/instances/i",
            "/api/v1/consumers/g",
            "/consumers/g",
            "//api/v2/consumers/g",
            "api/v2/consumers/g",
            "/API/v2/consumers/g",
            "/api/v2/consumers/g/instances/i/record",
            "/api/v2/consumers/g/instances/i/records/x",
            "/api/v2/consumers/g/instances/i/positions/end/x",
            "/api/v2/consumers/g/instances/i/positions/middle",
            "/api/v2/consumers/g/instances/i/Records",
        ] {
            for method in ["GET", "POST", "DELETE", "HEAD", "PUT"] {
                assert_eq!(find(method, path), Err(NoRoute::NotFound), "{method} {path}");
            }
        }
    }

    /// [RT-03] [D-09]
    #[test]
    fn a_method_that_a_route_does_not_take_is_not_allowed() {
        for (path, taken) in [
            ("/api/v2/consumers/g".to_owned(), "POST"),
            (BASE.to_owned(), "DELETE"),
            (format!("{BASE}/subscription"), "DELETE, GET, POST"),
            (format!("{BASE}/assignments"), "GET, POST"),
            (format!("{BASE}/offsets"), "GET, POST"),
            (format!("{BASE}/positions"), "POST"),
            (format!("{BASE}/positions/beginning"), "POST"),
            (format!("{BASE}/positions/end"), "POST"),
            (format!("{BASE}/records"), "GET"),
        ] {
            for method in [
                "GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "get",
            ] {
                let found = find(method, &path);
                if taken.split(", ").any(|taken| taken == method) {
                    assert!(found.is_ok(), "{method} {path}");
                } else {
                    assert_eq!(found, Err(NoRoute::MethodNotAllowed(taken)), "{method} {path}");
                }
            }
        }
    }

    /// [RT-06]
    #[test]
    fn the_earlier_routes_are_gone() {
        for path in [
            "/api/v3/ns-1/consumers/g",
            "/api/v3/ns-1/consumers/g/instances/i",
            "/api/v3/ns-1/consumers/g/instances/i/records",
            "/api/v3/ns-1/consumers/recreate/instances/i",
            "/api/v3/ns-1/consumers",
            "/api/v3/consumers/recreate",
        ] {
            for method in ["GET", "POST", "DELETE"] {
                assert_eq!(find(method, path), Err(NoRoute::NotFound), "{method} {path}");
            }
        }
        for method in ["POST", "GET", "DELETE", "HEAD"] {
            let found = find(method, "/api/v3/ns-1/consumers/recreate");
            assert_eq!(found, Err(NoRoute::MethodNotAllowed("PUT")), "{method}");
        }
        assert_eq!(
            find("PUT", "/api/v3/ns-1/consumers/recreate"),
            Err(NoRoute::NotFound)
        );
    }

    /// [D-10]
    #[test]
    fn segments_are_percent_decoded_once() {
        for (segment, read) in [
            ("%67", "g"),
            ("%2567", "%67"),
            ("a%2Fb", "a/b"),
            ("a+b", "a+b"),
            ("a%20b", "a b"),
            ("%C3%A4", "ä"),
            ("%ff", "\u{fffd}"),
            ("%", "%"),
            ("%2", "%2"),
            ("..", ".."),
            ("a;b=c", "a;b=c"),
        ] {
            let route = find("POST", &format!("/api/v2/consumers/{segment}")).unwrap();
            assert_eq!(route.group, read);
            let route = find("DELETE", &format!("/api/v2/consumers/g/instances/{segment}")).unwrap();
            assert_eq!(route.instance.as_deref(), Some(read));
        }
    }

    #[test]
    fn a_route_takes_a_body_where_the_table_has_one() {
        for (method, path) in [
            ("POST", "/subscription"),
            ("POST", "/assignments"),
            ("POST", "/offsets"),
            ("GET", "/offsets"),
            ("POST", "/positions"),
            ("POST", "/positions/beginning"),
            ("POST", "/positions/end"),
        ] {
            let route = find(method, &format!("{BASE}{path}")).unwrap();
            assert!(route.operation.takes_body(), "{method} {path}");
        }
        assert!(
            find("POST", "/api/v2/consumers/g")
                .unwrap()
                .operation
                .takes_body()
        );
        for (method, path) in [
            ("DELETE", ""),
            ("GET", "/subscription"),
            ("GET", "/assignments"),
            ("GET", "/records"),
        ] {
            let route = find(method, &format!("{BASE}{path}")).unwrap();
            assert!(!route.operation.takes_body(), "{method} {path}");
            assert_eq!(route.operation.is_fetch(), path == "/records");
        }
    }

    proptest! {
        /// [D-10] A name finds its way through any encoding of its path, and no path is too strange.
        #[test]
        fn every_name_can_be_addressed(name in "[A-Za-z0-9][A-Za-z0-9._-]{0,20}", encoded: [bool; 21]) {
            let segment = name.bytes().zip(encoded).map(|(byte, encoded)| {
                if encoded { format!("%{byte:02x}") } else { char::from(byte).to_string() }
            });
            let route = find("POST", &format!("/api/v2/consumers/{}", segment.collect::<String>())).unwrap();
            prop_assert_eq!(Name::parse(&route.group).map(|n| n.to_string()), Some(name));
        }

        #[test]
        fn no_path_is_too_strange(path in "/api/v2/consumers/[/%a-f0-9.ä]{0,30}") {
            for method in ["GET", "POST", "DELETE"] {
                if let Ok(route) = find(method, &path) {
                    prop_assert!(!route.group.is_empty());
                }
            }
        }
    }

    fn find(method: &str, path: &str) -> Result<Route, NoRoute> {
        Route::find(&method.parse().unwrap(), path)
    }
}
