//! What was written is what is read, and what another reader reads.

use kafka_protocol::records::RecordBatchDecoder;
use proptest::prelude::*;

use super::*;

type Pushed = (
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
    i32,
);

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => Just(Vec::new()),
        1 => (any::<u8>(), 0..most).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn pushed() -> impl Strategy<Value = Pushed> {
    let name = prop_oneof![Just(b"a".to_vec()), Just(b"b".to_vec()), bytes(300)];
    let headers = prop::collection::vec((name, prop::option::of(bytes(300))), 0..6);
    let time = prop_oneof![any::<i64>(), 1_700_000_000_000..1_800_000_000_000i64];
    let part = || prop::option::of(bytes(70_000));
    (
        time,
        part(),
        part(),
        headers,
        prop_oneof![3 => Just(0), 1 => 0..1000],
    )
}

fn compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(&Compression::ALL[..])
}

fn write(compression: Compression, base_offset: i64, records: &[Pushed]) -> (Bytes, Vec<Owned>) {
    let mut writer = BatchWriter::new(compression);
    writer.base_offset(base_offset);
    let mut owned = Vec::new();
    let mut offset = base_offset;
    for (timestamp, key, value, headers, skipped) in records {
        let borrowed: Vec<_> = headers
            .iter()
            .map(|(name, value)| (&name[..], value.as_deref()))
            .collect();
        writer.skip(*skipped);
        writer.push(*timestamp, key.as_deref(), value.as_deref(), &borrowed);
        offset += i64::from(*skipped);
        owned.push(Owned {
            offset,
            timestamp: *timestamp,
            key: key.clone(),
            value: value.clone(),
            headers: headers.clone(),
        });
        offset += 1;
    }
    (writer.finish(), owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// [KF-17] [K12] [FE-01] [FE-11] Keys, values and headers with repeated names and null values come back in their
    /// order.
    #[test]
    fn what_was_written_is_read(
        base_offset in 0..1i64 << 60,
        first in (compression(), prop::collection::vec(pushed(), 1..12)),
        second in (compression(), prop::collection::vec(pushed(), 1..12)),
        from in any::<prop::sample::Index>(),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        let mut next = base_offset;
        for (compression, records) in [first, second] {
            let (batch, owned) = write(compression, next, &records);
            next = owned.last().unwrap().offset + 1;
            bytes.extend_from_slice(&batch);
            expected.extend(owned);
        }
        let from = from.get(&expected).offset;
        expected.retain(|record| record.offset >= from);
        let mut reader = Reader::new(bytes.into(), Position::at(from));
        let (records, end) = read(&mut reader);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(records, expected);
        prop_assert_eq!(reader.position(), Position::at(next));
    }

    /// On batches of any bytes whose checksum is right, two readers that both accept them agree.
    #[test]
    fn another_reader_reads_the_same(
        mut records in prop::collection::vec(pushed(), 1..6),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        for record in &mut records {
            record.0 &= 0xff_ffff_ffff; // The other reader adds without a check.
        }
        // Not the batch's header: the other reader believes its count.
        let mut batch = write(Compression::None, 5, &records).0.to_vec();
        for (at, byte) in changes {
            let at = 61 + at.index(batch.len() - 61);
            batch[at] = byte;
        }
        let mut batch = Bytes::from(sealed(batch));
        let (ours, end) = read(&mut Reader::new(batch.clone(), Position::at(0)));
        if end == Ok(())
            && let Ok(theirs) = RecordBatchDecoder::decode(&mut batch)
        {
            prop_assert_eq!(ours.len(), theirs.records.len());
            for (ours, theirs) in ours.iter().zip(theirs.records) {
                prop_assert_eq!((ours.offset, ours.timestamp), (theirs.offset, theirs.timestamp));
                prop_assert_eq!(&ours.key, &theirs.key.map(Vec::from));
                prop_assert_eq!(&ours.value, &theirs.value.map(Vec::from));
                // It keeps the last of the headers of one name.
                for (name, value) in theirs.headers {
                    let last = ours.headers.iter().rfind(|(own, _)| own == name.as_bytes());
                    prop_assert_eq!(&last.unwrap().1, &value.map(Vec::from));
                }
            }
        }
    }

    /// Whatever is unpacked, a record comes once, in order, and not past its batch.
    #[test]
    fn any_packed_bytes_are_read_or_refused(
        compression in compression(),
        count in 0..20,
        records in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let (read, _, position) = offsets(&raw(compression, count, &records), 0);
        prop_assert!(read.is_sorted_by(|a, b| a < b));
        prop_assert!(position.offset <= i64::from(count.max(1)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(offsets(&bytes, 0).0, vec![0i64; 0]);
    }
}
