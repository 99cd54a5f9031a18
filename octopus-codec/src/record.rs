//! One record as its JSON object: `topic`, `key`, `value`, `partition`, `offset`, `headers`, in that order [FE-01].

mod skeleton;

use bytes::Bytes;
use octopus_core::{Format, Header, Headers, Record};
pub(crate) use skeleton::{END, NULL, Skeleton, VALUE};

use crate::{
    base64, is_json, is_utf8,
    reply::{Out, Stream},
    text,
};

/// The start of a header, its middle and its end.
pub(crate) const HEADER: (&[u8; 9], &[u8; 10], &[u8; 1]) = (b"{\"name\":\"", b"\",\"value\":", b"}");

/// The bytes from which a value goes into the reply as a slice of its buffer and is not copied: below that a
/// copy costs less than one more slice to send.
pub(crate) const SHARED: usize = 16 * 1024;

/// A key or a value of a json instance is not UTF-8 [FE-05].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotUtf8;

/// A record that was checked and is not written yet.
#[derive(Debug)]
pub(crate) struct Object<'r, 'a> {
    record: &'r Record<'a>,
    key: Part<'a>,
    value: Part<'a>,
}

impl<'r, 'a> Object<'r, 'a> {
    /// Checks a record.
    #[inline]
    pub(crate) fn new(record: &'r Record<'a>, format: Format) -> Result<Self, NotUtf8> {
        Ok(Self {
            key: Part::new(record.key, format)?,
            value: Part::new(record.value, format)?,
            record,
        })
    }

    /// The bytes of the key and the value as they are in Kafka, null counting none: what `max_bytes` counts [FE-10].
    #[inline]
    pub(crate) fn payload(&self) -> usize {
        self.record.key.map_or(0, <[u8]>::len) + self.record.value.map_or(0, <[u8]>::len)
    }

    /// No fewer bytes than the object's, found without looking into it.
    #[inline]
    pub(crate) fn most(&self, skeleton: &Skeleton) -> usize {
        // What a key, a value or a header has around it, or a null's bytes, and the end of base64.
        const AROUND: usize = 32;
        let headers = self.record.headers;
        let bytes = self.payload() + headers.as_bytes().len();
        skeleton.most() + text::LONGEST * bytes + AROUND * (headers.len() + 2)
    }

    /// The bytes of the object.
    pub(crate) fn measure(&self, skeleton: &Skeleton) -> usize {
        let around = HEADER.0.len() + HEADER.1.len() + HEADER.2.len();
        let headers: usize = self
            .record
            .headers
            .map(|header| {
                let name = if is_utf8(header.name) {
                    text::len(header.name)
                } else {
                    text::lossy_len(header.name)
                };
                let value = header
                    .value
                    .map_or(NULL.len(), |value| base64::len(value.len()) + 2);
                around + name + value
            })
            .sum();
        let commas = self.record.headers.len().saturating_sub(1);
        skeleton.len(self.record.offset.0) + self.key.len() + self.value.len() + headers + commas
    }

    /// Writes the whole object.
    #[inline(always)]
    pub(crate) fn write(&self, skeleton: &mut Skeleton, out: &mut Out<'_>) {
        if let Part::Null = self.key {
            skeleton.write_null_head(out);
        } else {
            skeleton.write_head(out);
            self.key.write(self.record.buffer, out);
            out.bytes(VALUE);
        }
        self.value.write(self.record.buffer, out);
        let headers = self.record.headers;
        let has_headers = headers.len() > 0;
        skeleton.write_tail(self.record.offset.0, has_headers, out);
        if has_headers {
            write_headers(headers, out);
        }
    }

    /// The object between `before` and `after`, `length` bytes together, made in windows of at most `window` bytes. It
    /// owns what it reads: slices of the record's buffer, or one copy where there is none.
    pub(crate) fn stream(
        &self,
        skeleton: &mut Skeleton,
        before: &'static [u8],
        after: &'static [u8],
        length: usize,
        window: usize,
    ) -> Stream {
        let own = |bytes: &[u8]| {
            let shared = self.record.buffer.and_then(|buffer| slice(buffer, bytes));
            shared.unwrap_or_else(|| Bytes::copy_from_slice(bytes))
        };
        let mut stream = Stream::new(length, window);
        stream.raw(Bytes::from_static(before));
        stream.raw(Bytes::copy_from_slice(skeleton.head()));
        self.key.stream(own, &mut stream);
        stream.raw(Bytes::from_static(VALUE));
        self.value.stream(own, &mut stream);
        stream.raw(Bytes::copy_from_slice(skeleton.tail(self.record.offset.0)));
        stream.headers(own(self.record.headers.as_bytes()), after);
        stream
    }
}

/// Writes the headers and the object's end.
fn write_headers(headers: Headers<'_>, out: &mut Out<'_>) {
    for (i, Header { name, value }) in headers.enumerate() {
        if i > 0 {
            out.byte(b',');
        }
        out.bytes(HEADER.0);
        out.with(|room| {
            if text::is_plain_ascii(name) {
                text::copy(name, room);
                name.len()
            } else if is_utf8(name) {
                text::write(name, room)
            } else {
                text::lossy_write(name, room)
            }
        });
        out.bytes(HEADER.1);
        match value {
            None => out.bytes(NULL),
            Some(value) => {
                out.byte(b'"');
                out.with(|room| base64::write(value, room));
                out.byte(b'"');
            }
        }
        out.bytes(HEADER.2);
    }
    out.bytes(END);
}

/// A key or a value, and how it is written.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Null,
    /// As base64 [FE-02].
    Binary(&'a [u8]),
    /// As the JSON value that it is [FE-03].
    Json(&'a [u8]),
    /// As a string [FE-04].
    Text(&'a [u8]),
}

impl<'a> Part<'a> {
    #[inline]
    fn new(bytes: Option<&'a [u8]>, format: Format) -> Result<Self, NotUtf8> {
        Ok(match (bytes, format) {
            (None, _) => Self::Null,
            (Some(bytes), Format::Binary) => Self::Binary(bytes),
            (Some(bytes), Format::Json) if !is_utf8(bytes) => return Err(NotUtf8),
            (Some(bytes), Format::Json) if is_json(bytes) => Self::Json(bytes),
            (Some(bytes), Format::Json) => Self::Text(bytes),
        })
    }

    /// The bytes that it is written in.
    fn len(&self) -> usize {
        match *self {
            Self::Null => NULL.len(),
            Self::Binary(bytes) => base64::len(bytes.len()) + 2,
            Self::Json(bytes) => bytes.len(),
            Self::Text(bytes) => text::len(bytes) + 2,
        }
    }

    #[inline(always)]
    fn write(&self, buffer: Option<&Bytes>, out: &mut Out<'_>) {
        match *self {
            Self::Null => out.bytes(NULL),
            Self::Binary(bytes) => {
                out.byte(b'"');
                out.with(|room| base64::write(bytes, room));
                out.byte(b'"');
            }
            Self::Json(bytes) => {
                if bytes.len() >= SHARED
                    && let Some(buffer) = buffer
                    && let Some(shared) = slice(buffer, bytes)
                {
                    out.share(shared, buffer);
                } else {
                    out.with(|room| {
                        text::copy(bytes, room);
                        bytes.len()
                    });
                }
            }
            Self::Text(bytes) => {
                out.byte(b'"');
                out.with(|room| text::write(bytes, room));
                out.byte(b'"');
            }
        }
    }

    fn stream(&self, own: impl Fn(&[u8]) -> Bytes, stream: &mut Stream) {
        match *self {
            Self::Null => stream.raw(Bytes::from_static(NULL)),
            Self::Binary(bytes) => stream.base64(own(bytes)),
            Self::Json(bytes) => stream.raw(own(bytes)),
            Self::Text(bytes) => stream.text(own(bytes)),
        }
    }
}

/// The slice of the buffer that these bytes are, `None` if they lie elsewhere.
fn slice(buffer: &Bytes, bytes: &[u8]) -> Option<Bytes> {
    let (all, part) = (buffer.as_ptr_range(), bytes.as_ptr_range());
    (all.start <= part.start && part.end <= all.end).then(|| buffer.slice_ref(bytes))
}
