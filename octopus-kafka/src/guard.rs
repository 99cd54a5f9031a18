//! A walk over a message before it is decoded. The decoders of `kafka-protocol` allocate by the counts that they read,
//! so a count that the bytes can't hold is refused here first.

mod response;

pub(crate) use response::fits;

/// A field, in the versions from the first to the second number.
pub(crate) type Field = (i16, i16, Kind);

/// What a field is made of.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "broker"),
    allow(dead_code, reason = "some are in requests only")
)]
pub(crate) enum Kind {
    /// So many bytes.
    Fixed(usize),
    /// A string, which may be null.
    Text,
    /// Bytes, which may be null.
    Blob,
    /// A list, which may be null, of elements with these fields.
    List(&'static [Field]),
    /// These fields, or none: a byte says which.
    Maybe(&'static [Field]),
    /// A list of numbers of so many bytes.
    Numbers(usize),
    /// A list of strings.
    Texts,
    /// A tagged field: its tag, and its size, which the decoder takes for granted.
    Tagged(u32, u32),
}

/// A message whose fields are being passed.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    version: i16,
    compact: bool,
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// A walk over a message's body. `compact`: its lengths are varints, and tagged fields follow each group of fields.
    pub(crate) const fn new(version: i16, compact: bool, body: &'a [u8]) -> Self {
        Self {
            version,
            compact,
            rest: body,
        }
    }

    /// Passes these fields; `None` where a length or a count does not fit.
    pub(crate) fn fields(&mut self, fields: &[Field]) -> Option<()> {
        for (from, to, kind) in fields {
            if (*from..=*to).contains(&self.version) {
                self.field(kind)?;
            }
        }
        if self.compact {
            for _ in 0..self.varint()? {
                let tag = self.varint()?;
                let size = self.varint()?;
                let lies = |(from, to, kind): &Field| {
                    let named = matches!(kind, Kind::Tagged(known, right) if *known == tag && *right != size);
                    named && (*from..=*to).contains(&self.version)
                };
                if fields.iter().any(lies) {
                    return None;
                }
                self.skip(usize::try_from(size).ok()?)?;
            }
        }
        Some(())
    }

    fn field(&mut self, kind: &Kind) -> Option<()> {
        match kind {
            Kind::Fixed(bytes) => self.skip(*bytes),
            Kind::Text => self.text(),
            Kind::Blob => {
                let length = self.length(4)?;
                self.skip(length)
            }
            Kind::Numbers(bytes) => {
                let count = self.length(4)?;
                self.skip(count.checked_mul(*bytes)?)
            }
            Kind::List(fields) => (0..self.count()?).try_for_each(|_| self.fields(fields)),
            Kind::Maybe(fields) => {
                let (marker, rest) = self.rest.split_first()?;
                self.rest = rest;
                match marker {
                    1 => self.fields(fields),
                    _ => Some(()),
                }
            }
            Kind::Texts => (0..self.count()?).try_for_each(|_| self.text()),
            Kind::Tagged(..) => Some(()),
        }
    }

    fn text(&mut self) -> Option<()> {
        let length = self.length(2)?;
        self.skip(length)
    }

    /// A list's count. No element takes less than a byte, so that the walk ends with the bytes.
    fn count(&mut self) -> Option<usize> {
        let count = self.length(4)?;
        (count <= self.rest.len()).then_some(count)
    }

    /// A length or a count: a number of so many bytes, or a varint that is one more; null is none.
    fn length(&mut self, bytes: usize) -> Option<usize> {
        if self.compact {
            return usize::try_from(self.varint()?.saturating_sub(1)).ok();
        }
        let (number, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        let number = match number {
            [a, b] => i32::from(i16::from_be_bytes([*a, *b])),
            [a, b, c, d] => i32::from_be_bytes([*a, *b, *c, *d]),
            _ => return None,
        };
        if number == -1 {
            Some(0)
        } else {
            usize::try_from(number).ok()
        }
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for i in 0..5 {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u32::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }
}
