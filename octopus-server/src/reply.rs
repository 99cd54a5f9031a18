//! Answers: the only place that builds a response.

mod namespace;

pub use namespace::{Key, Managed, managed};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use octopus_core::{CallId, Commit, Error, Name, Reply, TopicName, TopicPartition};
use serde::Serialize;

use crate::{
    base_uri::{HostInvalid, Origin},
    headers::{Encoding, PLAIN_JSON, V2},
    route::{NoRoute, Operation},
};

/// What a reply is about.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The route.
    pub operation: Operation,
    /// The type that a fetch's `Accept` chose; [`V2`] elsewhere [RT-05].
    pub media_type: &'static str,
    /// Where the service was reached.
    pub origin: &'a Origin,
    /// The instance's group.
    pub group: &'a Name,
    /// The instance.
    pub instance: &'a Name,
}

/// A response's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// These bytes; none for a 204.
    Bytes(Bytes),
    /// The records that this call packed, as they were packed.
    Records(CallId),
}

/// The answer to a request that succeeded: the row's status and body [RT-01], of the type [RT-05].
#[must_use]
pub fn done(reply: Reply, asked: &Asked<'_>) -> Response<Content> {
    let body = match reply {
        Reply::Created => json(&Created {
            instance_id: asked.instance.as_str(),
            base_uri: asked.origin.base_uri(asked.group, asked.instance),
        }),
        Reply::NoContent => {
            let mut response = Response::new(Content::Bytes(Bytes::new()));
            *response.status_mut() = StatusCode::NO_CONTENT;
            return response;
        }
        Reply::Topics(topics) => json(&Topics {
            topics: topics.iter().map(TopicName::as_str).collect(),
        }),
        Reply::Partitions(partitions) => json(&Partitions {
            partitions: partitions.iter().map(Partition::of).collect(),
        }),
        Reply::Offsets(commits) => json(&Offsets {
            offsets: commits.iter().map(Committed::of).collect(),
        }),
        Reply::Empty => Bytes::from_static(b"[]"),
        Reply::Records(call) => return typed(Content::Records(call), asked.media_type),
    };
    let media_type = if asked.operation.is_fetch() {
        asked.media_type
    } else {
        V2
    };
    typed(Content::Bytes(body), media_type)
}

/// Says of a reply that it is compressed [D-36].
pub(crate) fn encoded(headers: &mut HeaderMap, encoding: Encoding) {
    headers.insert(
        header::CONTENT_ENCODING,
        HeaderValue::from_static(encoding.name()),
    );
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
}

/// The answer to a request that was refused [RT-04], with `Retry-After` where a wait cures it [LI-01] [LI-05].
///
/// `route` is the route's word for the log. `media_type` is what a fetch's `Accept` chose, and that of the route where
/// nothing was chosen [D-04].
#[must_use]
pub fn refused(error: &Error, route: &'static str, media_type: &'static str) -> Response<Bytes> {
    let (error_code, status) = (error.code().error_code(), error.code().status());
    // Whoever has no token can have that answer too, as often as they ask; the outage has a line of its own.
    if status < 500 || *error == Error::AuthorityUnreachable {
        tracing::debug!(error_code, route, "refused");
    } else {
        tracing::warn!(error_code, route, "failed");
    }
    let mut response = typed(
        json(&Refusal {
            error_code,
            message: error.to_string(),
        }),
        media_type,
    );
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(wait) = error.retry_after() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, wait.as_secs().into());
    }
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

/// The answer to a request without a route: 404 [RT-02] or 405 with `Allow` [RT-03].
#[must_use]
pub fn no_route(why: NoRoute) -> Response<Bytes> {
    let (status, detail) = match why {
        NoRoute::NotFound => (StatusCode::NOT_FOUND, "Not Found"),
        NoRoute::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"),
    };
    tracing::debug!(status = status.as_u16(), "no route");
    let mut response = typed(json(&Detail { detail }), V2);
    *response.status_mut() = status;
    if let NoRoute::MethodNotAllowed(allow) = why {
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    response
}

/// The answer to an HTTP/1.1 request whose `Host` does not hold: 400 [D-28].
#[must_use]
pub fn host_invalid(_: HostInvalid) -> Response<Bytes> {
    tracing::debug!(error_code = 400, "refused");
    let message = "The Host header is missing, repeated or not a plain host".to_owned();
    let mut response = typed(
        json(&Refusal {
            error_code: 400,
            message,
        }),
        V2,
    );
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

#[derive(Serialize)]
struct Created<'a> {
    instance_id: &'a str,
    base_uri: String,
}

#[derive(Serialize)]
struct Topics<'a> {
    topics: Vec<&'a str>,
}

#[derive(Serialize)]
struct Partitions<'a> {
    partitions: Vec<Partition<'a>>,
}

#[derive(Serialize)]
struct Partition<'a> {
    topic: &'a str,
    partition: i32,
}

impl<'a> Partition<'a> {
    fn of(at: &'a TopicPartition) -> Self {
        Self {
            topic: at.topic.as_str(),
            partition: at.partition,
        }
    }
}

#[derive(Serialize)]
struct Offsets<'a> {
    offsets: Vec<Committed<'a>>,
}

#[derive(Serialize)]
struct Committed<'a> {
    #[serde(flatten)]
    partition: Partition<'a>,
    offset: i64,
    metadata: &'a str,
}

impl<'a> Committed<'a> {
    fn of(commit: &'a Commit) -> Self {
        Self {
            partition: Partition::of(&commit.partition),
            offset: commit.position.offset,
            metadata: &commit.metadata,
        }
    }
}

#[derive(Serialize)]
struct Refusal {
    error_code: u32,
    message: String,
}

#[derive(Serialize)]
struct Detail {
    detail: &'static str,
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body)
        .expect("structs of text and numbers")
        .into()
}

/// A reply of plain JSON.
pub(crate) fn plain(status: StatusCode, body: Vec<u8>) -> Response<Bytes> {
    let mut response = typed(Bytes::from(body), PLAIN_JSON);
    *response.status_mut() = status;
    response
}

fn typed<T>(body: T, media_type: &'static str) -> Response<T> {
    let mut response = Response::new(body);
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

#[cfg(test)]
mod tests;
