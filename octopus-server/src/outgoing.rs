//! Requests of the service's own to other services, over TLS or, on this machine, without.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{
    Request, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use octopus_kafka::security::Tls;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

/// The longest that one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most of an answer that is read, in bytes.
const MOST: usize = 64 * 1024;

/// Why there is no answer, in words for the log: nothing that was sent or that came is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unanswered(String);

/// A form that is sent as a client with an id and a secret, which `pair` has with a colon between (HTTP Basic).
pub(crate) fn form(url: &Uri, pair: &str, form: String) -> Option<Request<Full<Bytes>>> {
    let mut basic = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
    basic.set_sensitive(true);
    Request::post(url)
        .header(AUTHORIZATION, basic)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .body(Full::new(form.into()))
        .ok()
}

/// An id and a secret with a colon between, each encoded as in a form before that (RFC 6749, section 2.3.1).
pub(crate) fn encoded_pair(id: &str, secret: &str) -> String {
    let [id, secret] =
        [id, secret].map(|text| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>());
    format!("{id}:{secret}")
}

/// Sends one request on a connection of its own, and gives the status and the body of the answer.
pub(crate) async fn send(
    mut request: Request<Full<Bytes>>,
    tls: &Tls,
) -> Result<(StatusCode, Bytes), Unanswered> {
    let uri = request.uri().clone();
    let authority = uri
        .authority()
        .ok_or_else(|| Unanswered::new(&uri, "it has no host"))?;
    let host =
        HeaderValue::from_str(authority.as_str()).map_err(|_| Unanswered::new(&uri, "it has no host"))?;
    request.headers_mut().insert(HOST, host);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path
        .parse()
        .map_err(|_| Unanswered::new(&uri, "it has no path"))?;
    let answer = async {
        let name = authority.host();
        let name = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        let is_https = uri.scheme_str() == Some("https");
        let port = authority.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let stream = TcpStream::connect((name, port))
            .await
            .map_err(|error| error.to_string())?;
        if is_https {
            let stream = tls
                .connect(name, stream)
                .await
                .map_err(|error| error.to_string())?;
            exchange(stream, request).await
        } else {
            exchange(stream, request).await
        }
    };
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|why| Unanswered::new(&uri, &why)),
        Err(_) => Err(Unanswered::new(&uri, "no answer in time")),
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String> {
    let broken = |error: hyper::Error| format!("no answer that can be read: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MOST).collect().await;
        let body = body.map_err(|_| "its answer is too long or broken off".to_owned())?;
        Ok((head.status, body.to_bytes()))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    // The connection is driven as long as the answer takes, and may end before it.
    tokio::select! {
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

impl Unanswered {
    fn new(uri: &Uri, why: &str) -> Self {
        Self(format!(
            "{}: {why}",
            uri.authority().map_or("", |authority| authority.as_str())
        ))
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
