use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

/// [BU-01]
#[test]
fn the_base_uri_is_absolute() {
    let origin = of(&[("host", "octopus.example.org")]).unwrap();
    assert_eq!(
        origin.base_uri(&name("my-group"), &name("my-instance")),
        "http://octopus.example.org/api/v2/consumers/my-group/instances/my-instance"
    );
    let secure = Origin::of(
        &headers(&[("host", "a:8443")]),
        &Uri::from_static("/"),
        Version::HTTP_11,
        Scheme::Https,
        local(),
    );
    assert_eq!(shown(secure), Some("https://a:8443".to_owned()));
}

/// [BU-01] [D-28]
#[test]
fn plain_forwarded_headers_count_each_alone() {
    for (pairs, origin) in [
        (&[("x-forwarded-proto", "https")][..], "https://own"),
        (&[("x-forwarded-proto", "HTTPS")], "https://own"),
        (&[("x-forwarded-proto", "http")], "http://own"),
        (&[("x-forwarded-host", "other")], "http://other"),
        (
            &[("x-forwarded-host", "Other.Example.org:443")],
            "http://Other.Example.org:443",
        ),
        (&[("x-forwarded-host", "10.0.0.1:65535")], "http://10.0.0.1:65535"),
        (&[("x-forwarded-host", "[::1]")], "http://[::1]"),
        (
            &[("x-forwarded-host", "[2001:db8::1]:8443")],
            "http://[2001:db8::1]:8443",
        ),
        (&[("x-forwarded-host", "my_service.")], "http://my_service."),
        (
            &[("x-forwarded-host", "other"), ("x-forwarded-proto", "https")],
            "https://other",
        ),
        (
            &[("x-forwarded-host", "a b"), ("x-forwarded-proto", "https")],
            "https://own",
        ),
        (
            &[("x-forwarded-host", "other"), ("x-forwarded-proto", "ftp")],
            "http://other",
        ),
    ] {
        let mut all = vec![("host", "own")];
        all.extend(pairs);
        assert_eq!(shown(of(&all)), Some(origin.to_owned()), "{pairs:?}");
    }
}

/// [BU-02] [D-28]
#[test]
fn forwarded_headers_that_are_not_plain_are_ignored() {
    let long = "a".repeat(256);
    for host in [
        "",
        "a, b",
        "a,b",
        "a/b",
        "a/",
        "user@a",
        "user:password@a",
        "a b",
        "http://a",
        "//a",
        "a?b",
        "a#b",
        "a\\b",
        "a%2eb",
        "a:0",
        "a:",
        "a:65536",
        "a:+80",
        "a:8x",
        "a:80:80",
        ":80",
        ".",
        "..",
        "a..b",
        ".a",
        "::1",
        "[::1",
        "[::1]x",
        "[::1]:0",
        "[]",
        "[a]",
        "[::1%25eth0]",
        "[10.0.0.1]",
        "a\"b",
        "<a>",
        "a;b",
        &long,
    ] {
        let found = of(&[("host", "own"), ("x-forwarded-host", host)]);
        assert_eq!(shown(found), Some("http://own".to_owned()), "{host}");
    }
    for scheme in [
        "",
        "ftp",
        "https,http",
        "https, https",
        "https:",
        "https://",
        "wss",
        "on",
        " ",
    ] {
        let found = of(&[("host", "own"), ("x-forwarded-proto", scheme)]);
        assert_eq!(shown(found), Some("http://own".to_owned()), "{scheme}");
    }
    let twice = of(&[
        ("host", "own"),
        ("x-forwarded-host", "a"),
        ("x-forwarded-host", "a"),
    ]);
    assert_eq!(shown(twice), Some("http://own".to_owned()));
    let twice = of(&[
        ("host", "own"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-proto", "https"),
    ]);
    assert_eq!(shown(twice), Some("http://own".to_owned()));
}

/// [D-28]
#[test]
fn a_plain_value_has_at_most_255_characters() {
    let longest = "a".repeat(255);
    let found = of(&[("host", "own"), ("x-forwarded-host", &longest)]);
    assert_eq!(shown(found), Some(format!("http://{longest}")));
}

/// [D-28]
#[test]
fn a_host_that_is_missing_or_not_plain_is_refused_on_http_1_1() {
    for pairs in [
        &[][..],
        &[("x-forwarded-host", "other")],
        &[("host", "")],
        &[("host", "a b"), ("x-forwarded-host", "other")],
        &[("host", "user@a")],
        &[("host", "a/../b")],
        &[("host", "a"), ("host", "a")],
        &[("host", "a:0")],
    ] {
        assert_eq!(of(pairs), Err(HostInvalid), "{pairs:?}");
    }
}

/// [BU-01] Without a `Host` there is still an address.
#[test]
fn other_versions_name_their_host_elsewhere() {
    let http_1_0 = |pairs: &[(&str, &str)]| {
        let uri = Uri::from_static("/api");
        shown(Origin::of(
            &headers(pairs),
            &uri,
            Version::HTTP_10,
            Scheme::Http,
            local(),
        ))
    };
    assert_eq!(http_1_0(&[]), Some("http://127.0.0.1:8000".to_owned()));
    assert_eq!(
        http_1_0(&[("host", "a b")]),
        Some("http://127.0.0.1:8000".to_owned())
    );
    assert_eq!(http_1_0(&[("host", "a")]), Some("http://a".to_owned()));

    let target = |uri: &'static str, version, pairs: &[(&str, &str)]| {
        let uri = Uri::from_static(uri);
        shown(Origin::of(&headers(pairs), &uri, version, Scheme::Http, local()))
    };
    assert_eq!(
        target("https://b:1/x", Version::HTTP_2, &[]),
        Some("http://b:1".to_owned())
    );
    assert_eq!(
        target("http://b/x", Version::HTTP_11, &[("host", "a")]),
        Some("http://b".to_owned())
    );
    assert_eq!(
        target("http://u@b/x", Version::HTTP_11, &[("host", "a")]),
        Some("http://a".to_owned())
    );
}

proptest! {
    /// [BU-02] Whatever the headers hold, the URL has a plain scheme and host, and ends as it must.
    #[test]
    fn only_plain_hosts_ever_come_out(
        host in "[ -~]{0,12}|[a-z0-9.:@/\\[\\]%-]{0,16}",
        forwarded in "[ -~]{0,12}|[a-z0-9.:@/\\[\\]%-]{0,16}",
        proto in "[ -~]{0,8}|https?",
    ) {
        let pairs = [("host", &*host), ("x-forwarded-host", &forwarded), ("x-forwarded-proto", &proto)];
        let Ok(origin) = of(&pairs) else {
            return Ok(());
        };
        let text = origin.base_uri(&name("g"), &name("i"));
        let (scheme, rest) = text.split_once("://").unwrap();
        prop_assert!(scheme == "http" || scheme == "https");
        let authority = rest.strip_suffix("/api/v2/consumers/g/instances/i").unwrap();
        prop_assert!(authority == host || authority == forwarded);
        prop_assert!(
            authority.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b)),
            "{}", authority
        );
        let read = text.parse::<Uri>().unwrap();
        prop_assert_eq!(read.path(), "/api/v2/consumers/g/instances/i");
        prop_assert_eq!(read.authority().map(|a| a.as_str()), Some(authority));
    }
}

fn of(pairs: &[(&str, &str)]) -> Result<Origin, HostInvalid> {
    Origin::of(
        &headers(pairs),
        &Uri::from_static("/api"),
        Version::HTTP_11,
        Scheme::Http,
        local(),
    )
}

fn shown(origin: Result<Origin, HostInvalid>) -> Option<String> {
    let uri = origin.ok()?.base_uri(&name("g"), &name("i"));
    uri.strip_suffix("/api/v2/consumers/g/instances/i")
        .map(str::to_owned)
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = name.parse::<HeaderName>().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8000))
}
