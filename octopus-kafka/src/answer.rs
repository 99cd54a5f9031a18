//! From the bytes behind an answer's correlation id to the answer.

use bytes::{Buf, Bytes};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request};

use crate::{
    api::fetch::{self, FetchResponse},
    guard, versions,
};

/// The answer to a request of this version; `None` where it can't be read.
pub(crate) fn read<R: Request>(version: i16, frame: Bytes) -> Option<R::Response> {
    let mut body = body(frame, R::Response::header_version(version))?;
    guard::fits(R::KEY, version, &body).then_some(())?;
    R::Response::decode(&mut body, version).ok()
}

/// The answer to a Fetch of this version. Its records are slices of the frame.
pub(crate) fn fetched(version: i16, frame: Bytes) -> Option<FetchResponse> {
    let body = body(frame, i16::from(version >= fetch::FLEXIBLE))?;
    FetchResponse::decode(version, body).ok()
}

/// What follows a response's header, whose tagged fields say nothing.
fn body(mut frame: Bytes, header_version: i16) -> Option<Bytes> {
    if header_version >= 1 {
        let rest = versions::skip_tags(&frame)?.len();
        frame.advance(frame.len() - rest);
    }
    Some(frame)
}
