mod spoken;

use self::spoken::{Spoken, create_topics, spoken};
use super::*;

fn each_version(mut check: impl FnMut(&Spoken, i16, &str)) {
    for spoken in spoken() {
        for version in spoken.versions.clone() {
            check(&spoken, version, &format!("{:?} {version}", spoken.api));
        }
    }
}

fn passes(spoken: &Spoken, version: i16, body: &[u8]) -> bool {
    fits(spoken.api as i16, version, body)
}

/// Where the first count that differs between two messages ends: the number of its last byte.
fn count_at(one: &[u8], two: &[u8]) -> usize {
    one.iter().zip(two).position(|(one, two)| one != two).unwrap()
}

#[test]
fn every_layout_is_tried() {
    let tried: Vec<ApiKey> = spoken().iter().map(|spoken| spoken.api).collect();
    for (api, ..) in LAYOUTS {
        assert!(tried.contains(api), "{api:?}");
    }
    assert_eq!(tried.len(), LAYOUTS.len());
}

#[test]
fn genuine_responses_pass_in_every_version() {
    each_version(|spoken, version, what| {
        for counts in [[1; 4], [0; 4], [3, 2, 4, 2], [9; 4]] {
            let body = (spoken.encode)(version, counts).unwrap_or_else(|| panic!("{what} is encoded"));
            assert!((spoken.decode)(version, body.clone()), "{what}");
            assert!(passes(spoken, version, &body), "{what} {counts:?}");
        }
    });
}

#[test]
fn a_response_that_ends_early_is_refused_wherever_it_ends() {
    each_version(|spoken, version, what| {
        let body = (spoken.encode)(version, [2; 4]).unwrap();
        for length in 0..body.len() {
            assert!(!passes(spoken, version, &body[..length]), "{what} {length}");
        }
    });
}

/// [KF-11]
#[test]
fn a_count_that_the_bytes_can_not_hold_is_refused() {
    each_version(|spoken, version, what| {
        let one = (spoken.encode)(version, [1; 4]).unwrap();
        let (_, compact_from, _) = LAYOUTS.iter().find(|(api, ..)| *api == spoken.api).unwrap();
        for list in 0..(spoken.lists)(version) {
            let mut counts = [1; 4];
            counts[list] = 2;
            let last = count_at(&one, &(spoken.encode)(version, counts).unwrap());
            let (at, hostile): (_, &[&[u8]]) = if version >= *compact_from {
                let hostile: &[&[u8]] = &[
                    &[0xff, 0xff, 0xff, 0xff, 0x0f],
                    &[0xff, 0xff, 0xff, 0xff, 0x07],
                    &[0xff, 0xff, 0xff, 0xff, 0xff],
                    &[0xff, 0xff, 0x3f],
                ];
                (last..=last, hostile)
            } else {
                let hostile: &[&[u8]] = &[
                    &[0x7f, 0xff, 0xff, 0xff],
                    &[0xff, 0xff, 0xff, 0xfe],
                    &[0x80, 0, 0, 0],
                    &[0, 0x10, 0, 0],
                ];
                (last - 3..=last, hostile)
            };
            for count in hostile {
                let mut body = one.to_vec();
                body.splice(at.clone(), count.iter().copied());
                assert!(!passes(spoken, version, &body), "{what}, list {list}: {count:?}");
            }
        }
    });
}

/// [KF-11] What the guard lets through harms nobody: it is decoded or refused, by counts that the bytes can hold.
#[test]
fn a_damaged_response_is_read_or_refused() {
    let (mut read, mut refused) = (0, 0);
    each_version(|spoken, version, _| {
        let body = (spoken.encode)(version, [2, 1, 1, 1]).unwrap();
        for at in 0..body.len() {
            for change in [
                &[0][..],
                &[1],
                &[0x7f],
                &[0x80],
                &[0xff],
                &[0x7f; 4],
                &[0xff; 4],
                &[0, 0, 0, 0, 0, 0],
            ] {
                let mut damaged = body.to_vec();
                damaged.splice(at..(at + change.len()).min(body.len()), change.iter().copied());
                if passes(spoken, version, &damaged) {
                    (spoken.decode)(version, damaged.into());
                    read += 1;
                } else {
                    refused += 1;
                }
            }
        }
    });
    assert!(read > 1000 && refused > 1000, "{read} {refused}");
}

/// The decoder reads such a field by the size that it has, whatever is said.
#[test]
fn a_known_tagged_field_of_another_size_is_refused() {
    for version in 5..=7 {
        let body = create_topics(version, [1, 1, 0, 0]).unwrap();
        assert!(fits(ApiKey::CreateTopics as i16, version, &body));
        // One tagged field of the topic: its number, 0, then its size, 2, then the code.
        let at = body
            .windows(5)
            .position(|field| field == [1, 0, 2, 0, 29])
            .unwrap();
        let mut lying = body.to_vec();
        lying.splice(at + 2..at + 5, [1, 29]);
        assert!(!fits(ApiKey::CreateTopics as i16, version, &lying));
        let mut unknown = body.to_vec();
        unknown.splice(at + 1..at + 3, [9, 2]);
        assert!(fits(ApiKey::CreateTopics as i16, version, &unknown));
    }
}

#[test]
fn a_response_without_a_layout_is_refused() {
    for api in [ApiKey::ApiVersions, ApiKey::Fetch, ApiKey::DescribeConfigs] {
        assert!(!fits(api as i16, 0, &[0; 64]));
    }
}
