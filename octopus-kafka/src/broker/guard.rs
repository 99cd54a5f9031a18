//! The layouts of the requests that the broker decodes: the decoder allocates by the counts in them.

use kafka_protocol::messages::ApiKey;

use crate::guard::{
    Field,
    Kind::{self, Blob, Fixed, List, Numbers, Tagged, Text, Texts},
    Walk,
};

/// The longest frame of a request that carries no records.
const CONTROL: usize = 4 << 20;

/// Whether every count and length of the request fits the bytes that are there.
pub(crate) fn fits(api: ApiKey, version: i16, body: &[u8]) -> bool {
    let Some((_, flexible, fields)) = LAYOUTS.iter().find(|(layout, ..)| *layout == api) else {
        return false;
    };
    if api != ApiKey::Produce && body.len() > CONTROL {
        return false;
    }
    Walk::new(version, version >= *flexible, body)
        .fields(fields)
        .is_some()
}

const I8: Kind = Fixed(1);
const I16: Kind = Fixed(2);
const I32: Kind = Fixed(4);
const I64: Kind = Fixed(8);
const UUID: Kind = Fixed(16);
const LAST: i16 = i16::MAX;

/// Each API's first version with compact lengths, and the fields of its request.
const LAYOUTS: &[(ApiKey, i16, &[Field])] = &[
    (
        ApiKey::Produce,
        9,
        &[
            (3, LAST, Text),
            (0, LAST, I16),
            (0, LAST, I32),
            (
                0,
                LAST,
                List(&[
                    (0, 12, Text),
                    (13, LAST, UUID),
                    (0, LAST, List(&[(0, LAST, I32), (0, LAST, Blob)])),
                ]),
            ),
        ],
    ),
    (
        ApiKey::Fetch,
        12,
        &[
            (0, 14, I32),
            (0, LAST, I32),
            (0, LAST, I32),
            (3, LAST, I32),
            (4, LAST, I8),
            (7, LAST, I32),
            (7, LAST, I32),
            (
                0,
                LAST,
                List(&[
                    (0, 12, Text),
                    (13, LAST, UUID),
                    (
                        0,
                        LAST,
                        List(&[
                            (0, LAST, I32),
                            (9, LAST, I32),
                            (0, LAST, I64),
                            (12, LAST, I32),
                            (5, LAST, I64),
                            (0, LAST, I32),
                            (17, LAST, Tagged(0, 16)),
                            (18, LAST, Tagged(1, 8)),
                        ]),
                    ),
                ]),
            ),
            (
                7,
                LAST,
                List(&[(7, 12, Text), (13, LAST, UUID), (7, LAST, Numbers(4))]),
            ),
            (11, LAST, Text),
        ],
    ),
    (
        ApiKey::ListOffsets,
        6,
        &[
            (0, LAST, I32),
            (2, LAST, I8),
            (
                0,
                LAST,
                List(&[
                    (0, LAST, Text),
                    (0, LAST, List(&[(0, LAST, I32), (4, LAST, I32), (0, LAST, I64)])),
                ]),
            ),
            (10, LAST, I32),
        ],
    ),
    (
        ApiKey::Metadata,
        9,
        &[
            (0, LAST, List(&[(10, LAST, UUID), (0, LAST, Text)])),
            (4, LAST, I8),
            (8, 10, I8),
            (8, LAST, I8),
        ],
    ),
    (
        ApiKey::OffsetCommit,
        8,
        &[
            (0, LAST, Text),
            (1, LAST, I32),
            (1, LAST, Text),
            (7, LAST, Text),
            (2, 4, I64),
            (
                0,
                LAST,
                List(&[
                    (0, LAST, Text),
                    (
                        0,
                        LAST,
                        List(&[(0, LAST, I32), (0, LAST, I64), (6, LAST, I32), (0, LAST, Text)]),
                    ),
                ]),
            ),
        ],
    ),
    (
        ApiKey::OffsetFetch,
        6,
        &[
            (0, 7, Text),
            (0, 7, List(&[(0, LAST, Text), (0, LAST, Numbers(4))])),
            (
                8,
                LAST,
                List(&[
                    (8, LAST, Text),
                    (9, LAST, Text),
                    (9, LAST, I32),
                    (8, LAST, List(&[(8, LAST, Text), (8, LAST, Numbers(4))])),
                ]),
            ),
            (7, LAST, I8),
        ],
    ),
    (
        ApiKey::FindCoordinator,
        3,
        &[(0, 3, Text), (1, LAST, I8), (4, LAST, Texts)],
    ),
    (
        ApiKey::JoinGroup,
        6,
        &[
            (0, LAST, Text),
            (0, LAST, I32),
            (1, LAST, I32),
            (0, LAST, Text),
            (5, LAST, Text),
            (0, LAST, Text),
            (0, LAST, List(&[(0, LAST, Text), (0, LAST, Blob)])),
            (8, LAST, Text),
        ],
    ),
    (
        ApiKey::Heartbeat,
        4,
        &[(0, LAST, Text), (0, LAST, I32), (0, LAST, Text), (3, LAST, Text)],
    ),
    (
        ApiKey::LeaveGroup,
        4,
        &[
            (0, LAST, Text),
            (0, 2, Text),
            (
                3,
                LAST,
                List(&[(3, LAST, Text), (3, LAST, Text), (5, LAST, Text)]),
            ),
        ],
    ),
    (
        ApiKey::SyncGroup,
        4,
        &[
            (0, LAST, Text),
            (0, LAST, I32),
            (0, LAST, Text),
            (3, LAST, Text),
            (5, LAST, Text),
            (5, LAST, Text),
            (0, LAST, List(&[(0, LAST, Text), (0, LAST, Blob)])),
        ],
    ),
    (
        ApiKey::ConsumerGroupHeartbeat,
        0,
        &[
            (0, LAST, Text),
            (0, LAST, Text),
            (0, LAST, I32),
            (0, LAST, Text),
            (0, LAST, Text),
            (0, LAST, I32),
            (0, LAST, Texts),
            (1, LAST, Text),
            (0, LAST, Text),
            (0, LAST, List(&[(0, LAST, UUID), (0, LAST, Numbers(4))])),
        ],
    ),
    (
        ApiKey::ConsumerGroupDescribe,
        0,
        &[(0, LAST, Texts), (0, LAST, I8)],
    ),
    (ApiKey::SaslHandshake, LAST, &[(0, LAST, Text)]),
    (ApiKey::SaslAuthenticate, 2, &[(0, LAST, Blob)]),
    (ApiKey::ApiVersions, 3, &[(3, LAST, Text), (3, LAST, Text)]),
    (
        ApiKey::CreateTopics,
        5,
        &[
            (
                0,
                LAST,
                List(&[
                    (0, LAST, Text),
                    (0, LAST, I32),
                    (0, LAST, I16),
                    (0, LAST, List(&[(0, LAST, I32), (0, LAST, Numbers(4))])),
                    (0, LAST, List(&[(0, LAST, Text), (0, LAST, Text)])),
                ]),
            ),
            (0, LAST, I32),
            (1, LAST, I8),
        ],
    ),
    (ApiKey::DeleteTopics, 4, &[(0, LAST, Texts), (0, LAST, I32)]),
    (
        ApiKey::DeleteRecords,
        2,
        &[
            (
                0,
                LAST,
                List(&[
                    (0, LAST, Text),
                    (0, LAST, List(&[(0, LAST, I32), (0, LAST, I64)])),
                ]),
            ),
            (0, LAST, I32),
        ],
    ),
    (
        ApiKey::InitProducerId,
        2,
        &[(0, LAST, Text), (0, LAST, I32), (3, LAST, I64), (3, LAST, I16)],
    ),
    (
        ApiKey::OffsetForLeaderEpoch,
        4,
        &[
            (3, LAST, I32),
            (
                0,
                LAST,
                List(&[
                    (0, LAST, Text),
                    (0, LAST, List(&[(0, LAST, I32), (2, LAST, I32), (0, LAST, I32)])),
                ]),
            ),
        ],
    ),
    (
        ApiKey::DescribeConfigs,
        4,
        &[
            (0, LAST, List(&[(0, LAST, I8), (0, LAST, Text), (0, LAST, Texts)])),
            (1, LAST, I8),
            (3, LAST, I8),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_the_bytes_cannot_hold_is_refused() {
        // A DeleteTopics of 2^31 - 1 names, and compact of 2^32 - 2.
        assert!(!fits(
            ApiKey::DeleteTopics,
            1,
            &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]
        ));
        assert!(!fits(
            ApiKey::DeleteTopics,
            4,
            &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0]
        ));
        // One name that is not there, and a negative count.
        assert!(!fits(
            ApiKey::DeleteTopics,
            1,
            &[0, 0, 0, 1, 0, 9, b'a', 0, 0, 0, 0]
        ));
        assert!(!fits(
            ApiKey::DeleteTopics,
            1,
            &[0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0]
        ));
        assert!(fits(
            ApiKey::DeleteTopics,
            1,
            &[0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 0]
        ));
    }

    #[test]
    fn a_tagged_field_of_another_size_than_it_has_is_refused() {
        // A Fetch of one partition, whose replica directory says how long it is.
        let request = |size: u8, bytes: usize| {
            let mut body = vec![0; 21];
            body.extend([2]);
            body.extend([0; 16]);
            body.extend([2]);
            body.extend([0; 32]);
            body.extend([1, 0, size]);
            body.extend(vec![0; bytes]);
            body.extend([0, 1, 1, 0]);
            body
        };
        assert!(fits(ApiKey::Fetch, 17, &request(16, 16)));
        assert!(!fits(ApiKey::Fetch, 17, &request(1, 1)));
        assert!(!fits(ApiKey::Fetch, 17, &request(17, 17)));
    }
}
