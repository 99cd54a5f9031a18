//! A partition's bytes, as a broker could give them.

use bytes::Bytes;
use octopus_core::{Fault, Position, Record, Records};
use octopus_kafka::records::{BatchWriter, Compression, Reader};

/// A record that was read, as its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owned {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The input is the offset to start from, one byte, and batches; their checksums are made right. Records must
/// come in order and from the offset on, alike from each of their offsets, alike where the batches came in two fetches, and
/// alike once written anew.
pub fn check(data: &[u8]) {
    let Some((from, bytes)) = data.split_first() else {
        return;
    };
    let bytes = Bytes::from(sealed(bytes.to_vec()));
    let (records, end) = read(&bytes, i64::from(*from));
    for i in [0, records.len() / 2, records.len().saturating_sub(1)] {
        let Some(record) = records.get(i) else { break };
        let (rest, rest_end) = read(&bytes, record.offset);
        assert_eq!(rest, records[i..]);
        assert_eq!(rest_end, end);
    }
    if let Some(cut) = first_batch(&bytes) {
        let first = Reader::new(bytes.slice(..cut), Position::at(i64::from(*from)));
        let both = first.then(bytes.slice(cut..));
        assert_eq!(drained(both), (records.clone(), end));
    }
    let mut writer = BatchWriter::new(Compression::None);
    let mut next = 0;
    let dense = records.iter().all(|record| record.offset < 1 << 20);
    if records.is_empty() || !dense {
        return;
    }
    for record in &records {
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|(name, value)| (&name[..], value.as_deref()))
            .collect();
        writer.skip(i32::try_from(record.offset - next).expect("offsets are below 2^20 and rise"));
        writer.push(
            record.timestamp,
            record.key.as_deref(),
            record.value.as_deref(),
            &headers,
        );
        next = record.offset + 1;
    }
    assert_eq!(read(&writer.finish(), 0), (records, Ok(())));
}

/// All records from an offset on, and how it ended.
pub(crate) fn read(bytes: &Bytes, from: i64) -> (Vec<Owned>, Result<(), Fault>) {
    drained(Reader::new(bytes.clone(), Position::at(from)))
}

/// All that a reader has, and how it ended.
fn drained(mut reader: Reader) -> (Vec<Owned>, Result<(), Fault>) {
    let mut records: Vec<Owned> = Vec::new();
    loop {
        let before = reader.position().offset;
        let record = match reader.next() {
            Some(Ok(record)) => own(record),
            Some(Err(fault)) => {
                assert_eq!(reader.next().and_then(Result::err), Some(fault), "a fault stays");
                return (records, Err(fault));
            }
            None => {
                assert!(reader.next().is_none() && reader.position().offset >= before);
                return (records, Ok(()));
            }
        };
        assert!(record.offset >= before, "offsets rise from the position on");
        assert_eq!(reader.position().offset, record.offset + 1);
        records.push(record);
    }
}

fn own(record: Record<'_>) -> Owned {
    if let (Some(buffer), Some(value)) = (record.buffer, record.value) {
        assert_eq!(buffer.slice_ref(value), value, "the value lies in the buffer");
    }
    let part = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let count = record.headers.len();
    let headers: Vec<_> = record
        .headers
        .map(|header| (header.name.to_vec(), part(header.value)))
        .collect();
    assert_eq!(headers.len(), count);
    Owned {
        offset: record.offset.0,
        timestamp: record.timestamp,
        key: part(record.key),
        value: part(record.value),
        headers,
    }
}

/// The length of the first batch, if it is whole.
fn first_batch(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<12>()?;
    let length = u32::from_be_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]) as usize + 12;
    (length <= bytes.len()).then_some(length)
}

/// The bytes with the checksum of every whole batch made right.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(prefix) = bytes[at..].first_chunk::<12>() {
        let length = u32::from_be_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]) as usize;
        let Some(batch) = bytes[at..]
            .get_mut(..length + 12)
            .filter(|batch| batch.len() >= 21)
        else {
            break;
        };
        let crc = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
        at += length + 12;
    }
    bytes
}
