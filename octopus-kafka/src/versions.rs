//! Which versions of each request a broker speaks.

use std::{ops::RangeInclusive, sync::Arc};

/// The versions that a broker told of. Clones are the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Versions(Arc<[Spoken]>);

/// The versions of one request, in the order of the API's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spoken {
    api_key: i16,
    min: i16,
    max: i16,
}

/// The answer to an ApiVersions request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// These versions.
    Versions(Versions),
    /// The broker does not know the version that was asked in; it can be asked in version 0.
    AskInVersion0,
}

impl Versions {
    /// The highest version that is in our range and in the broker's.
    pub(crate) fn choose(&self, api_key: i16, ours: &RangeInclusive<i16>) -> Option<i16> {
        let at = self.0.binary_search_by_key(&api_key, |spoken| spoken.api_key);
        let Spoken { min, max, .. } = self.0[at.ok()?];
        let version = max.min(*ours.end());
        (version >= min.max(*ours.start())).then_some(version)
    }

    /// Reads the body of an ApiVersions response of version 0 or 3. Whoever answers with another error than "unknown
    /// version" is not a broker that we can speak to, as is one whose answer does not fit: `None`.
    pub(crate) fn read(version: i16, body: &[u8]) -> Option<Told> {
        let (code, rest) = i16_of(body)?;
        match code {
            0 => {}
            // A broker that does not know the version answers in version 0, whose start is the same.
            35 => return Some(Told::AskInVersion0),
            _ => return None,
        }
        let compact = version >= 3;
        let (count, mut rest) = if compact {
            compact_count(rest)?
        } else {
            count(rest)?
        };
        let mut versions = Vec::new();
        for _ in 0..count {
            let (api_key, after) = i16_of(rest)?;
            let (min, after) = i16_of(after)?;
            let (max, after) = i16_of(after)?;
            rest = if compact { skip_tags(after)? } else { after };
            versions.push(Spoken { api_key, min, max });
        }
        // Of one that comes twice, the last counts.
        versions.reverse();
        versions.sort_by_key(|spoken| spoken.api_key);
        versions.dedup_by_key(|spoken| spoken.api_key);
        Some(Told::Versions(Self(versions.into())))
    }
}

fn i16_of(bytes: &[u8]) -> Option<(i16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((i16::from_be_bytes(*number), rest))
}

fn count(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::try_from(i32::from_be_bytes(*number)).ok()?, rest))
}

fn compact_count(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = unsigned(bytes)?;
    Some((number.checked_sub(1)?, rest))
}

/// What follows a group of tagged fields.
pub(crate) fn skip_tags(bytes: &[u8]) -> Option<&[u8]> {
    let (tags, mut rest) = unsigned(bytes)?;
    for _ in 0..tags {
        let (_, after) = unsigned(rest)?;
        let (size, after) = unsigned(after)?;
        rest = after.get(usize::try_from(size).ok()?..)?;
    }
    Some(rest)
}

fn unsigned(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0u32;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::{
        messages::{ApiVersionsResponse, api_versions_response::ApiVersion},
        protocol::Encodable,
    };

    use super::*;

    fn told() -> Versions {
        let mut body = BytesMut::new();
        let apis = [(1, 4, 17), (18, 0, 4), (3, 0, 13)].map(|(key, min, max)| {
            ApiVersion::default()
                .with_api_key(key)
                .with_min_version(min)
                .with_max_version(max)
        });
        ApiVersionsResponse::default()
            .with_api_keys(apis.to_vec())
            .encode(&mut body, 3)
            .unwrap();
        match Versions::read(3, &body) {
            Some(Told::Versions(versions)) => versions,
            other => panic!("{other:?}"),
        }
    }

    /// [ER-01] the highest common version; none is no version.
    #[test]
    fn the_highest_common_version_is_chosen() {
        assert_eq!(told().choose(1, &(4..=16)), Some(16));
        assert_eq!(told().choose(1, &(4..=30)), Some(17));
        assert_eq!(told().choose(1, &(18..=20)), None);
        assert_eq!(told().choose(1, &(0..=3)), None);
        assert_eq!(told().choose(2, &(0..=9)), None);
    }

    #[test]
    fn an_unknown_version_is_asked_again_in_version_0() {
        assert_eq!(Versions::read(3, &[0, 35, 0, 0, 0, 0]), Some(Told::AskInVersion0));
        let mut zero = vec![0, 0, 0, 0, 0, 1];
        zero.extend([0, 3, 0, 0, 0, 9]);
        let Some(Told::Versions(versions)) = Versions::read(0, &zero) else {
            panic!()
        };
        assert_eq!(versions.choose(3, &(4..=13)), Some(9));
    }

    #[test]
    fn of_versions_that_come_twice_the_last_counts() {
        let mut body = vec![0, 0, 0, 0, 0, 3];
        for (key, max) in [(3, 9), (1, 4), (3, 11)] {
            body.extend([0, key, 0, 0, 0, max]);
        }
        let Some(Told::Versions(versions)) = Versions::read(0, &body) else {
            panic!()
        };
        assert_eq!(versions.choose(3, &(0..=20)), Some(11));
        assert_eq!(versions.choose(1, &(0..=20)), Some(4));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_none() {
        for body in [
            &[][..],
            &[0],
            &[0, 0, 0x7f, 0xff, 0xff, 0xff],
            &[0, 0, 0xff, 0xff, 0xff, 0xff],
            &[0, 58, 0, 0],
        ] {
            assert_eq!(Versions::read(0, body), None, "{body:?}");
        }
        for body in [
            &[0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f][..],
            &[0, 0, 0],
            &[0, 0, 2, 0, 1, 0, 4],
        ] {
            assert_eq!(Versions::read(3, body), None, "{body:?}");
        }
    }
}
