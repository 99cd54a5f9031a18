//! The packed records of a batch: any bytes, and what was packed with some bytes changed.

use bytes::Bytes;
use octopus_core::Fault;
use octopus_kafka::records::{BatchWriter, Compression};

use crate::records::{read, sealed};

/// The length of a batch's header.
const HEADER: usize = 61;

/// The input is a compression, a byte to change and how, and packed records. As a value they must come back
/// from a batch of that compression; as records, and after the change, they are read or refused.
pub fn check(data: &[u8]) {
    let Some(([compression, at, change], packed)) = data.split_first_chunk() else {
        return;
    };
    let compression = Compression::ALL[usize::from(*compression) % Compression::ALL.len()];
    let mut writer = BatchWriter::new(compression);
    writer.push(0, None, Some(packed), &[]);
    writer.push(0, None, Some(packed), &[]);
    let batch = writer.finish();
    let (records, end) = read(&batch, 0);
    assert_eq!((records.len(), end), (2, Ok(())));
    assert!(
        records
            .iter()
            .all(|record| record.value.as_deref() == Some(packed))
    );

    let mut changed = batch.to_vec();
    let body = changed.len() - HEADER;
    changed[HEADER + usize::from(*at) % body] ^= change;
    let (_, end) = read(&Bytes::from(sealed(changed)), 0);
    assert_ne!(end, Err(Fault::OldFormat));

    let mut any = [&batch[..HEADER], packed].concat();
    let length = u32::try_from(any.len() - 12).expect("an input is short");
    any[8..12].copy_from_slice(&length.to_be_bytes());
    let (records, end) = read(&Bytes::from(sealed(any)), 0);
    assert!(records.len() <= 2);
    assert!(
        end.is_err() || records.len() == 2,
        "a batch has the records that it says"
    );
}
