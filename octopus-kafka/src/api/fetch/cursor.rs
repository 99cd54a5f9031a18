//! Reads an answer's fields, each against what is left of the bytes.

use uuid::Uuid;

use super::Malformed;

/// What is left of a frame.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    flexible: bool,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8], flexible: bool) -> Self {
        Self { bytes, flexible }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        Ok(i16::from_be_bytes(*self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(*self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(*self.array()?))
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, Malformed> {
        Ok(Uuid::from_bytes(*self.array()?))
    }

    /// How many items an array has, `None` for null. A count of more items than bytes are left is refused,
    /// since every item has bytes.
    pub(super) fn count(&mut self) -> Result<Option<usize>, Malformed> {
        let count = if self.flexible {
            self.compact()?
        } else {
            classic(self.i32()?.into())?
        };
        match count {
            Some(count) if count > self.bytes.len() => Err(Malformed),
            count => Ok(count),
        }
    }

    pub(super) fn string(&mut self) -> Result<&'a str, Malformed> {
        let length = if self.flexible {
            self.compact()?
        } else {
            classic(self.i16()?.into())?
        };
        std::str::from_utf8(self.take(length.ok_or(Malformed)?)?).map_err(|_| Malformed)
    }

    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let length = if self.flexible {
            self.compact()?
        } else {
            classic(self.i32()?.into())?
        };
        length.map(|length| self.take(length)).transpose()
    }

    /// Reads tagged fields where the version has them: each one's number and what lies in it. What `read`
    /// leaves of a field is skipped.
    pub(super) fn tags(
        &mut self,
        mut read: impl FnMut(u32, &mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let length = self.unsigned_varint()?;
            let value = self.take(usize::try_from(length).map_err(|_| Malformed)?)?;
            read(tag, &mut Self::new(value, true))?;
        }
        Ok(())
    }

    /// A compact length: one more than it is, 0 for null.
    fn compact(&mut self) -> Result<Option<usize>, Malformed> {
        let Some(length) = self.unsigned_varint()?.checked_sub(1) else {
            return Ok(None);
        };
        usize::try_from(length).map(Some).map_err(|_| Malformed)
    }

    fn unsigned_varint(&mut self) -> Result<u32, Malformed> {
        let mut number = 0;
        for i in 0..5 {
            let [byte] = *self.array()?;
            if i == 4 && byte > 0x0f {
                break;
            }
            number |= u32::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }
}

/// A length of the older versions: -1 for null.
fn classic(length: i64) -> Result<Option<usize>, Malformed> {
    if length == -1 {
        return Ok(None);
    }
    usize::try_from(length).map(Some).map_err(|_| Malformed)
}
