//! One record as its JSON object: `topic`, `key`, `value`, `partition`, `offset`, `headers`, in that order [FE-01].

use std::io::Write as _;

use bytes::Bytes;
use octopus_core::{Format, Record, TopicPartition};

use crate::{
    base64, is_json, is_utf8,
    reply::{Pieces, Stream},
    text,
};

/// What the objects of a partition's records have in common.
#[derive(Debug)]
pub(crate) struct Skeleton {
    /// From the object's start to its key.
    head: Vec<u8>,
    /// From behind the value to the offset.
    middle: Vec<u8>,
}

/// Between the key and the value.
pub(crate) const VALUE: &[u8] = b",\"value\":";
/// Between the offset and the first header.
const HEADERS: &[u8] = b",\"headers\":[";
/// Behind the last header.
pub(crate) const END: &[u8] = b"]}";
/// The start of a header, its middle and its end.
pub(crate) const HEADER: [&[u8]; 3] = [b"{\"name\":\"", b"\",\"value\":", b"}"];
pub(crate) const NULL: &[u8] = b"null";

/// The bytes from which a value goes into the reply as a slice of its buffer and is not copied: below that a
/// copy costs less than one more slice to send.
const SHARED: usize = 16 * 1024;

impl Skeleton {
    pub(crate) fn new(partition: &TopicPartition) -> Self {
        let mut head = b"{\"topic\":\"".to_vec();
        text::write(partition.topic.as_str().as_bytes(), &mut head);
        head.extend_from_slice(b"\",\"key\":");
        let middle = format!(",\"partition\":{},\"offset\":", partition.partition).into_bytes();
        Self { head, middle }
    }

    /// Checks a record and measures its object.
    pub(crate) fn measure<'a>(&self, record: Record<'a>, format: Format) -> Result<Object<'a>, NotUtf8> {
        let key = Part::new(record.key, format)?;
        let value = Part::new(record.value, format)?;
        let mut names_are_utf8 = true;
        let mut headers = record.headers.len().saturating_sub(1);
        for header in record.headers {
            let name = if is_utf8(header.name) {
                text::len(header.name)
            } else {
                names_are_utf8 = false;
                text::lossy_len(header.name)
            };
            let value = header
                .value
                .map_or(NULL.len(), |value| base64::len(value.len()) + 2);
            headers += HEADER.iter().map(|piece| piece.len()).sum::<usize>() + name + value;
        }
        let glue = self.head.len() + VALUE.len() + self.middle.len() + HEADERS.len() + END.len();
        Ok(Object {
            length: glue + key.len() + value.len() + digits(record.offset.0) + headers,
            record,
            key,
            value,
            names_are_utf8,
        })
    }
}

/// A key or a value of a json instance is not UTF-8 [FE-05].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotUtf8;

/// A record whose object was measured and is not written yet.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    length: usize,
    record: Record<'a>,
    key: Part<'a>,
    value: Part<'a>,
    names_are_utf8: bool,
}

impl Object<'_> {
    /// The bytes of the object.
    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// The bytes of the key and the value as they are in Kafka, null counting none: what `max_bytes` counts [FE-10].
    pub(crate) fn payload(&self) -> u64 {
        let length = |part: Option<&[u8]>| part.map_or(0, |bytes| bytes.len() as u64);
        length(self.record.key) + length(self.record.value)
    }

    /// Writes the whole object.
    pub(crate) fn write(&self, skeleton: &Skeleton, out: &mut Pieces) {
        let key = self.key.shared(self.record.buffer);
        let value = self.value.shared(self.record.buffer);
        let not_copied = key.as_ref().map_or(0, Bytes::len) + value.as_ref().map_or(0, Bytes::len);
        out.reserve(self.length - not_copied);

        out.buffer().extend_from_slice(&skeleton.head);
        self.key.write(key, out);
        out.buffer().extend_from_slice(VALUE);
        self.value.write(value, out);
        let out = out.buffer();
        self.write_middle(skeleton, out);
        for (i, header) in self.record.headers.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(HEADER[0]);
            if self.names_are_utf8 {
                text::write(header.name, out);
            } else {
                text::lossy_write(header.name, out);
            }
            out.extend_from_slice(HEADER[1]);
            match header.value {
                None => out.extend_from_slice(NULL),
                Some(value) => {
                    out.push(b'"');
                    base64::write(value, out);
                    out.push(b'"');
                }
            }
            out.extend_from_slice(HEADER[2]);
        }
        out.extend_from_slice(END);
    }

    /// The object between `before` and `after`, made in windows of at most `window` bytes. It owns what it reads:
    /// slices of the record's buffer, or one copy where there is none.
    pub(crate) fn stream(
        &self,
        skeleton: &Skeleton,
        before: &'static [u8],
        after: &'static [u8],
        window: usize,
    ) -> Stream {
        let own =
            |bytes: &[u8]| slice(self.record.buffer, bytes).unwrap_or_else(|| Bytes::copy_from_slice(bytes));
        let mut middle = Vec::new();
        self.write_middle(skeleton, &mut middle);
        let mut stream = Stream::new(before.len() + self.length + after.len(), window);
        stream.raw(Bytes::from_static(before));
        stream.raw(Bytes::copy_from_slice(&skeleton.head));
        self.key.stream(own, &mut stream);
        stream.raw(Bytes::from_static(VALUE));
        self.value.stream(own, &mut stream);
        stream.raw(middle.into());
        stream.headers(own(self.record.headers.as_bytes()), after);
        stream
    }

    fn write_middle(&self, skeleton: &Skeleton, out: &mut Vec<u8>) {
        out.extend_from_slice(&skeleton.middle);
        write!(out, "{}", self.record.offset.0).expect("a Vec takes every write");
        out.extend_from_slice(HEADERS);
    }
}

/// A key or a value, and how it is written.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Null,
    /// As base64 [FE-02].
    Binary(&'a [u8]),
    /// As the JSON value that it is [FE-03].
    Json(&'a [u8]),
    /// As a string, and the bytes that takes without its quotes [FE-04].
    Text(&'a [u8], usize),
}

impl<'a> Part<'a> {
    fn new(bytes: Option<&'a [u8]>, format: Format) -> Result<Self, NotUtf8> {
        Ok(match (bytes, format) {
            (None, _) => Self::Null,
            (Some(bytes), Format::Binary) => Self::Binary(bytes),
            (Some(bytes), Format::Json) if !is_utf8(bytes) => return Err(NotUtf8),
            (Some(bytes), Format::Json) if is_json(bytes) => Self::Json(bytes),
            (Some(bytes), Format::Json) => Self::Text(bytes, text::len(bytes)),
        })
    }

    const fn len(&self) -> usize {
        match *self {
            Self::Null => NULL.len(),
            Self::Binary(bytes) => base64::len(bytes.len()) + 2,
            Self::Json(bytes) => bytes.len(),
            Self::Text(_, length) => length + 2,
        }
    }

    /// The part as a slice of its buffer, if it can be sent so and is worth it.
    fn shared(&self, buffer: Option<&Bytes>) -> Option<Bytes> {
        match *self {
            Self::Json(bytes) if bytes.len() >= SHARED => slice(buffer, bytes),
            Self::Null | Self::Binary(_) | Self::Json(_) | Self::Text(..) => None,
        }
    }

    fn write(&self, shared: Option<Bytes>, out: &mut Pieces) {
        if let Some(shared) = shared {
            out.share(shared);
            return;
        }
        let out = out.buffer();
        match *self {
            Self::Null => out.extend_from_slice(NULL),
            Self::Binary(bytes) => {
                out.push(b'"');
                base64::write(bytes, out);
                out.push(b'"');
            }
            Self::Json(bytes) => out.extend_from_slice(bytes),
            Self::Text(bytes, _) => {
                out.push(b'"');
                text::write(bytes, out);
                out.push(b'"');
            }
        }
    }

    fn stream(&self, own: impl Fn(&[u8]) -> Bytes, stream: &mut Stream) {
        match *self {
            Self::Null => stream.raw(Bytes::from_static(NULL)),
            Self::Binary(bytes) => stream.base64(own(bytes)),
            Self::Json(bytes) => stream.raw(own(bytes)),
            Self::Text(bytes, _) => stream.text(own(bytes)),
        }
    }
}

/// The slice of the buffer that these bytes are, `None` if they lie elsewhere.
fn slice(buffer: Option<&Bytes>, bytes: &[u8]) -> Option<Bytes> {
    let buffer = buffer?;
    let (all, part) = (buffer.as_ptr_range(), bytes.as_ptr_range());
    (all.start <= part.start && part.end <= all.end).then(|| buffer.slice_ref(bytes))
}

/// The characters of a number.
fn digits(number: i64) -> usize {
    let digits = number
        .unsigned_abs()
        .checked_ilog10()
        .map_or(1, |log| log as usize + 1);
    digits + usize::from(number < 0)
}
