//! gzip: members of DEFLATE one behind the other, with a decoder that serves one batch after the other.

use bytes::{Buf, Bytes};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use octopus_core::Fault;

/// What unpacks: costly to make, so the next batch takes it over.
pub(crate) struct Deflated(Decompress);

/// The unpacked bytes of one batch.
pub(crate) struct Gzip {
    deflated: Deflated,
    packed: Bytes,
    place: Place,
    /// Of what the member at hand has unpacked to.
    crc: Crc,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Member,
    Behind,
}

/// Magic, method, flags, time, extra flags and system.
const HEAD: usize = 10;
/// The flags of the parts that a member's header may have, in their order; those above are reserved.
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

impl Gzip {
    pub(crate) fn new(packed: Bytes, left: Option<Deflated>) -> Self {
        Self {
            deflated: left.unwrap_or_else(|| Deflated(Decompress::new(false))),
            packed,
            place: Place::Start,
            crc: Crc::new(),
        }
    }

    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match self.place {
                Place::Behind if self.packed.is_empty() => return Ok(0),
                Place::Start | Place::Behind => self.begin()?,
                Place::Member => {}
            }
            let (taken, given) = (self.deflated.0.total_in(), self.deflated.0.total_out());
            let status = self
                .deflated
                .0
                .decompress(&self.packed, out, FlushDecompress::None)
                .map_err(|_| Fault::Corrupt)?;
            let taken = difference(self.deflated.0.total_in(), taken)?;
            let given = difference(self.deflated.0.total_out(), given)?;
            self.packed.advance(taken);
            self.crc.update(&out[..given]);
            if status == Status::StreamEnd {
                self.end()?;
            } else if taken == 0 && given == 0 {
                return Err(Fault::Corrupt); // The bytes end within a member.
            }
            if given > 0 {
                return Ok(given);
            }
        }
    }

    pub(crate) fn into_deflated(self) -> Deflated {
        self.deflated
    }

    /// Reads a member's header.
    fn begin(&mut self) -> Result<(), Fault> {
        let length = header(&self.packed).ok_or(Fault::Corrupt)?;
        self.packed.advance(length);
        self.deflated.0.reset(false);
        self.crc.reset();
        self.place = Place::Member;
        Ok(())
    }

    /// Reads what follows a member: its checksum and its length.
    fn end(&mut self) -> Result<(), Fault> {
        let crc = self.packed.try_get_u32_le().map_err(|_| Fault::Corrupt)?;
        let length = self.packed.try_get_u32_le().map_err(|_| Fault::Corrupt)?;
        if (crc, length) != (self.crc.sum(), self.crc.amount()) {
            return Err(Fault::Corrupt);
        }
        self.place = Place::Behind;
        Ok(())
    }
}

/// How long the header is that these bytes begin with.
fn header(bytes: &[u8]) -> Option<usize> {
    let (&[0x1f, 0x8b, 8, flags, ..], mut rest) = bytes.split_first_chunk::<HEAD>()? else {
        return None;
    };
    if flags & RESERVED != 0 {
        return None;
    }
    if flags & EXTRA != 0 {
        let (length, behind) = rest.split_first_chunk()?;
        rest = behind.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & HEADER_CRC != 0 {
        let mut crc = Crc::new();
        crc.update(&bytes[..bytes.len() - rest.len()]);
        let (stored, behind) = rest.split_first_chunk()?;
        if crc.sum() & 0xffff != u32::from(u16::from_le_bytes(*stored)) {
            return None;
        }
        rest = behind;
    }
    Some(bytes.len() - rest.len())
}

fn difference(behind: u64, before: u64) -> Result<usize, Fault> {
    usize::try_from(behind - before).map_err(|_| Fault::Corrupt)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, GzBuilder};

    use super::*;

    fn member(builder: GzBuilder, bytes: &[u8]) -> Vec<u8> {
        let mut gzip = builder.write(Vec::new(), Compression::default());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    fn unpack(packed: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut gzip = Gzip::new(Bytes::copy_from_slice(packed), None);
        let mut unpacked = Vec::new();
        loop {
            let mut out = [0; 7];
            match gzip.read(&mut out)? {
                0 => return Ok(unpacked),
                read => unpacked.extend_from_slice(&out[..read]),
            }
        }
    }

    #[test]
    fn every_part_of_a_header_is_passed() {
        let all = GzBuilder::new()
            .extra(vec![1, 0, 2])
            .filename("a name")
            .comment("a comment");
        let with_all = member(all, b"with all of it, ");
        let plain = member(GzBuilder::new(), b"and another member");
        let packed = [&with_all[..], &plain].concat();
        assert_eq!(unpack(&packed).unwrap(), b"with all of it, and another member");
        for end in 0..packed.len() {
            let whole = end == with_all.len();
            assert_eq!(unpack(&packed[..end]).is_ok(), whole, "{end}");
        }
        let nothing = member(GzBuilder::new(), b"");
        assert_eq!(unpack(&nothing).unwrap(), b"");
    }

    #[test]
    fn the_checksum_of_a_header_is_checked() {
        let plain = member(GzBuilder::new(), b"text");
        let (head, body) = plain.split_at(HEAD);
        let mut head = head.to_vec();
        head[3] |= HEADER_CRC;
        let mut crc = Crc::new();
        crc.update(&head);
        let [low, high, ..] = crc.sum().to_le_bytes();
        assert_eq!(
            unpack(&[&head, &[low, high][..], body].concat()).unwrap(),
            b"text"
        );
        assert!(unpack(&[&head, &[low ^ 1, high][..], body].concat()).is_err());
        head[3] = RESERVED;
        assert!(unpack(&[&head[..], body].concat()).is_err());
    }

    #[test]
    fn what_a_member_says_of_itself_is_checked() {
        let plain = member(GzBuilder::new(), b"text");
        for at in plain.len() - 8..plain.len() {
            let mut changed = plain.clone();
            changed[at] ^= 1;
            assert_eq!(unpack(&changed), Err(Fault::Corrupt), "{at}");
        }
        assert_eq!(unpack(&[&plain[..], &[0]].concat()), Err(Fault::Corrupt));
    }
}
