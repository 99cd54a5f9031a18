//! A reply over 2 MiB, made in windows while it is sent [RP-02].

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use octopus_core::Headers;

use crate::{
    base64, is_utf8,
    record::{END, HEADER, NULL},
    reply::Progress,
    text,
};

/// The windows of a body that never stands in memory whole: each at most 64 KiB, made when it is asked for, from
/// the record's own bytes.
pub struct Stream {
    /// What comes next, up to the first header that is not in it yet.
    segments: VecDeque<Segment>,
    /// The headers that are not in the segments yet, as they lie in the batch.
    headers: Bytes,
    /// What stands behind the record.
    after: &'static [u8],
    /// The bytes that are still to come.
    left: usize,
    /// The most bytes of a window.
    window: usize,
}

/// A part of the body.
enum Segment {
    /// As it is.
    Raw(Bytes),
    /// As base64.
    Base64(Bytes),
    /// As the inside of a string.
    Text(Bytes),
    /// As the inside of a string, where it is not UTF-8 [D-25].
    Lossy(Bytes),
}

const QUOTE: &[u8] = b"\"";

impl Stream {
    /// The least window: one that has room for the longest escape.
    const LEAST_WINDOW: usize = text::LONGEST;

    /// A stream of `length` bytes in windows of at most `window`.
    pub(crate) fn new(length: usize, window: usize) -> Self {
        Self {
            segments: VecDeque::new(),
            headers: Bytes::new(),
            after: b"",
            left: length,
            window: window.max(Self::LEAST_WINDOW),
        }
    }

    /// Adds bytes as they are.
    pub(crate) fn raw(&mut self, bytes: Bytes) {
        self.segments.push_back(Segment::Raw(bytes));
    }

    /// Adds a string of the bytes' base64.
    pub(crate) fn base64(&mut self, bytes: Bytes) {
        self.quoted(Segment::Base64(bytes));
    }

    /// Adds a string of the text.
    pub(crate) fn text(&mut self, text: Bytes) {
        self.quoted(Segment::Text(text));
    }

    /// Adds the headers, the record's end, and what stands behind it: the last that is added.
    pub(crate) fn headers(&mut self, headers: Bytes, after: &'static [u8]) {
        self.headers = headers;
        self.after = after;
        self.next_header(true);
    }

    /// Whether the last window was given.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.left == 0
    }

    fn quoted(&mut self, segment: Segment) {
        self.raw(Bytes::from_static(QUOTE));
        self.segments.push_back(segment);
        self.raw(Bytes::from_static(QUOTE));
    }

    /// Adds one header's segments, or behind the last one the end's. There may be millions of headers, so they
    /// are read as they are needed.
    fn next_header(&mut self, is_first: bool) {
        let headers = self.headers.clone();
        let Some((mut header, rest)) = (!headers.is_empty())
            .then(|| Headers::parse(1, &headers))
            .flatten()
        else {
            self.headers = Bytes::new();
            self.raw(Bytes::from_static(END));
            self.raw(Bytes::from_static(self.after));
            return;
        };
        self.headers = headers.slice_ref(rest);
        if let Some(header) = header.next() {
            if !is_first {
                self.raw(Bytes::from_static(b","));
            }
            self.raw(Bytes::from_static(HEADER.0));
            let name = headers.slice_ref(header.name);
            self.segments.push_back(if is_utf8(&name) {
                Segment::Text(name)
            } else {
                Segment::Lossy(name)
            });
            self.raw(Bytes::from_static(HEADER.1));
            match header.value {
                None => self.raw(Bytes::from_static(NULL)),
                Some(value) => self.base64(headers.slice_ref(value)),
            }
            self.raw(Bytes::from_static(HEADER.2));
        }
    }

    /// Writes what fits of a segment and says how many bytes that is.
    fn fill(segment: &mut Segment, out: &mut [u8]) -> usize {
        let (bytes, Progress { taken, written }) = match segment {
            Segment::Raw(bytes) => {
                let fit = bytes.len().min(out.len());
                out[..fit].copy_from_slice(&bytes[..fit]);
                (
                    bytes,
                    Progress {
                        taken: fit,
                        written: fit,
                    },
                )
            }
            Segment::Base64(bytes) => {
                let progress = base64::write_some(bytes, out);
                (bytes, progress)
            }
            Segment::Text(text) => {
                let progress = text::write_some(text, out);
                (text, progress)
            }
            Segment::Lossy(bytes) => {
                let progress = text::lossy_write_some(bytes, out);
                (bytes, progress)
            }
        };
        let _ = bytes.split_to(taken);
        written
    }
}

impl Segment {
    const fn is_empty(&self) -> bool {
        match self {
            Self::Raw(bytes) | Self::Base64(bytes) | Self::Text(bytes) | Self::Lossy(bytes) => {
                bytes.is_empty()
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Bytes;

    /// The next window, never empty.
    fn next(&mut self) -> Option<Bytes> {
        let room = self.window.min(self.left);
        let mut out = Vec::new();
        let mut at = 0;
        while at < room {
            let Some(segment) = self.segments.front_mut() else {
                break;
            };
            if let Segment::Raw(bytes) = segment
                && at == 0
                && bytes.len() >= room
            {
                self.left -= room;
                return Some(bytes.split_to(room));
            }
            out.resize(room, 0);
            at += Self::fill(segment, &mut out[at..]);
            if !segment.is_empty() {
                break;
            }
            self.segments.pop_front();
            if self.segments.is_empty() && at < self.left {
                self.next_header(false);
            }
        }
        out.truncate(at);
        self.left = if out.is_empty() { 0 } else { self.left - out.len() };
        (!out.is_empty()).then(|| out.into())
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never what is in it: keys and values stay out of logs.
        f.debug_struct("Stream")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
