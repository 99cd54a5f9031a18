//! `base_uri`: where a caller finds its instance again.

use crate::{
    raw::{GROUP, INSTANCE, Raw, is_error},
    service::Service,
};

/// The header lines of a create, and the origin that its `base_uri` begins with.
type Row = (&'static [(&'static str, &'static str)], &'static str);

/// What a forwarded header may hold.
#[rustfmt::skip]
const PLAIN: &[Row] = &[
    (&[], "http://own.example:80"),
    (&[("X-Forwarded-Proto", "https")], "https://own.example:80"),
    (&[("X-Forwarded-Proto", "http")], "http://own.example:80"),
    (&[("X-Forwarded-Proto", "HTTPS")], "https://own.example:80"),
    (&[("x-forwarded-proto", "https")], "https://own.example:80"),
    (&[("X-Forwarded-Host", "octopus.example.org")], "http://octopus.example.org"),
    (&[("X-Forwarded-Host", "octopus.example.org:8443")], "http://octopus.example.org:8443"),
    (&[("X-Forwarded-Host", "10.0.0.1")], "http://10.0.0.1"),
    (&[("X-Forwarded-Host", "[::1]")], "http://[::1]"),
    (&[("X-Forwarded-Host", "[2001:db8::1]:443")], "http://[2001:db8::1]:443"),
    (&[("X-Forwarded-Host", "h:1")], "http://h:1"),
    (&[("X-Forwarded-Host", "h:65535")], "http://h:65535"),
    (&[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "octopus.example.org")], "https://octopus.example.org"),
    (&[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "a, b")], "https://own.example:80"),
    (&[("X-Forwarded-Proto", "ftp"), ("X-Forwarded-Host", "octopus.example.org")], "http://octopus.example.org"),
    (&[("Forwarded", "proto=https;host=evil.example")], "http://own.example:80"),
    (&[("X-Forwarded-Port", "444")], "http://own.example:80"),
    (&[("X-Forwarded-Prefix", "/evil")], "http://own.example:80"),
];

/// What is no plain scheme.
const SCHEMES: &[&str] = &[
    "",
    "https,http",
    "https, https",
    "https://",
    "https:",
    "ftp",
    "javascript",
    "https;",
    "ht tp",
    "wss",
    "https/x",
];

/// What is no plain host.
const HOSTS: &[&str] = &[
    "",
    "a, b",
    "a,b",
    "a/b",
    "a/",
    "/",
    "http://a",
    "user@a",
    "user:secret@a",
    "a b",
    "a?b",
    "a#b",
    "a\\b",
    "a:b",
    "a:",
    "a:0",
    "a:65536",
    "a:80:80",
    "a:-1",
    "a:+80",
    ":80",
    ".",
    "..",
    "a..b",
    "::1",
    "[::1",
    "[::1]x",
    "[a]",
    "[]",
    "<script>",
    "a\"b",
    "a%41",
    "ä",
];

/// [BU-01] each alone, in each way that is plain.
#[tokio::test]
async fn a_base_uri_begins_with_the_forwarded_scheme_and_host() {
    let service = Service::start().await;
    for (headers, origin) in PLAIN {
        base_uri_is(&service, headers, origin).await;
    }
}

/// [BU-02] [D-28] what is not plain is left out, not copied: the request's own scheme and host stand instead.
#[tokio::test]
async fn a_forwarded_header_that_is_not_plain_is_as_none() {
    let service = Service::start().await;
    for scheme in SCHEMES {
        base_uri_is(
            &service,
            &[("X-Forwarded-Proto", scheme)],
            "http://own.example:80",
        )
        .await;
    }
    let (longest, too_long) = ("x".repeat(255), "x".repeat(256));
    base_uri_is(
        &service,
        &[("X-Forwarded-Host", &longest)],
        &format!("http://{longest}"),
    )
    .await;
    for host in HOSTS.iter().copied().chain([&*too_long]) {
        base_uri_is(&service, &[("X-Forwarded-Host", host)], "http://own.example:80").await;
    }
    for name in ["X-Forwarded-Proto", "X-Forwarded-Host"] {
        base_uri_is(
            &service,
            &[(name, "https"), (name, "https")],
            "http://own.example:80",
        )
        .await;
    }
}

/// [D-28] a request without one plain `Host` is refused before anything else is looked at, forwarded or not.
#[tokio::test]
async fn a_host_that_is_missing_repeated_or_not_plain_is_400() {
    let service = Service::start().await;
    let user = service.user(1);
    let request = Raw::of(&user, "GET", "/nowhere")
        .without("subject")
        .add("X-Forwarded-Host", "octopus.example.org");
    is_error(
        "missing",
        &request.clone().without("Host").send().await,
        400,
        400,
        "Host",
    );
    is_error(
        "twice",
        &request.clone().add("Host", "a").send().await,
        400,
        400,
        "Host",
    );
    for host in HOSTS {
        let reply = request.clone().set("Host", host).send().await;
        is_error(host, &reply, 400, 400, "Host");
    }
}

async fn base_uri_is(service: &Service, headers: &[(&str, &str)], origin: &str) {
    let user = service.user(1);
    let mut create = Raw::of(&user, "POST", GROUP)
        .set("Host", "own.example:80")
        .body(r#"{"name": "i"}"#);
    for (name, value) in headers {
        create = create.add(name, value);
    }
    let created = create.send().await.expect(200).json();
    assert_eq!(created["base_uri"], format!("{origin}{INSTANCE}"), "{headers:?}");
    user.delete(INSTANCE).await.expect(204);
}
