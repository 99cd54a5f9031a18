use std::collections::BTreeSet;

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
    ] {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            assert_eq!(target(method, path), Err(NoRoute::NotFound), "{method} {path}");
        }
    }
    for method in ["POST", "GET", "DELETE", "HEAD"] {
        let found = target(method, "/api/v3/ns-1/consumers/recreate");
        assert_eq!(found, Err(NoRoute::MethodNotAllowed("PUT")), "{method}");
    }
}

#[test]
fn the_routes_of_users_keys_namespaces_and_topics_exist() {
    let path = || TopicPath {
        namespace: "ns-1".to_owned(),
        topic: "a b".to_owned(),
    };
    let rows = [
        ("POST", "/api/v3/user", NamespaceRoute::CreateUser),
        ("DELETE", "/api/v3/user/", NamespaceRoute::DeleteUser),
        ("POST", "/api/v3/key", NamespaceRoute::CreateKey),
        ("DELETE", "/api/v3/key", NamespaceRoute::DeleteKey),
        ("GET", "/api/v3/namespace", NamespaceRoute::Namespaces),
        ("POST", "/api/v3/ns-1/a%20b", NamespaceRoute::CreateTopic(path())),
        (
            "DELETE",
            "/api/v3/ns-1/a%20b",
            NamespaceRoute::DeleteTopic(path()),
        ),
        (
            "PUT",
            "/api/v3/ns-1/a%20b/recreate",
            NamespaceRoute::RecreateTopic(path()),
        ),
    ];
    for (method, path, route) in &rows {
        let found = target(method, path).unwrap();
        assert_eq!(found, Target::Namespace(route.clone()), "{method} {path}");
        assert_eq!(found.media_type(), "application/json");
        assert!(!found.takes_body());
        assert_eq!(find(method, path), Err(NoRoute::NotFound));
        let taken = rows
            .iter()
            .filter(|(_, other, _)| other.trim_end_matches('/') == path.trim_end_matches('/'));
        let taken: BTreeSet<_> = taken.map(|(method, ..)| *method).collect();
        let allow = Vec::from_iter(taken.iter().copied()).join(", ");
        for method in ["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "get"] {
            match target(method, path) {
                Ok(_) => assert!(taken.contains(method), "{method} {path}"),
                Err(NoRoute::MethodNotAllowed(told)) => assert_eq!(told, allow, "{method} {path}"),
                Err(NoRoute::NotFound) => panic!("{method} {path}"),
            }
        }
    }
    for path in [
        "/api/v3",
        "/api/v3/",
        "/api/v3/users",
        "/api/v3/ns-1",
        "/api/v3/ns-1/",
        "/api/v3//topic",
        "/api/v3/ns-1/topic/create",
        "/api/v3/ns-1/topic/recreate/now",
        "/api/v4/user",
    ] {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            assert_eq!(target(method, path), Err(NoRoute::NotFound), "{method} {path}");
        }
    }
}

#[test]
fn the_routes_that_write_records_exist() {
    for (path, topic, is_batch) in [
        ("/api/v3/ns-1/topics/t/records", "t", false),
        ("/api/v3/ns-1/topics/a%2Fb/records/", "a/b", false),
        ("/api/v3/ns-1/topics/t/records:batch", "t", true),
        ("/api/v3/ns-1/topics/t/records%3Abatch", "t", true),
    ] {
        let found = target("POST", path).unwrap();
        let route = ProduceRoute {
            path: TopicPath {
                namespace: "ns-1".to_owned(),
                topic: topic.to_owned(),
            },
            is_batch,
        };
        assert_eq!(found, Target::Produce(route), "{path}");
        assert!(found.takes_body());
        assert_eq!(found.media_type(), "application/json");
        for method in ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "post"] {
            let refused = target(method, path);
            assert_eq!(refused, Err(NoRoute::MethodNotAllowed("POST")), "{method} {path}");
        }
        assert_eq!(find("POST", path), Err(NoRoute::NotFound));
    }
    for path in [
        "/api/v3/ns-1/topics/t/records:",
        "/api/v3/ns-1/topics/t/records:batches",
        "/api/v3/ns-1/topics/t/records/batch",
        "/api/v3/ns-1/topics//records",
        "/api/v3//topics/t/records",
        "/api/v3/ns-1/topics/records",
        "/api/v2/ns-1/topics/t/records",
    ] {
        assert_eq!(target("POST", path), Err(NoRoute::NotFound), "{path}");
    }
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

/// [D-02]
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

proptest! {
    #[test]
    fn no_path_of_topics_is_too_strange(path in "/api/v3/[/%a-f0-9.ä]{0,30}(/recreate)?/?") {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            if let Ok(Target::Namespace(
                NamespaceRoute::CreateTopic(path)
                | NamespaceRoute::DeleteTopic(path)
                | NamespaceRoute::RecreateTopic(path),
            )) = target(method, &path)
            {
                prop_assert!(!path.namespace.is_empty() && !path.topic.is_empty());
            }
        }
    }
}

fn find(method: &str, path: &str) -> Result<Route, NoRoute> {
    Route::find(&method.parse().unwrap(), path)
}

fn target(method: &str, path: &str) -> Result<Target, NoRoute> {
    Target::find(&method.parse().unwrap(), path)
}
