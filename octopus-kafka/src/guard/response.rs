//! The layouts of the responses that we decode.

use kafka_protocol::messages::ApiKey;

use super::{
    Field,
    Kind::{Blob, Fixed, List, Maybe, Numbers, Tagged, Text, Texts},
    Walk,
};

/// Whether every count and length of a response fits its bytes. A response that no layout is known of does not.
pub(crate) fn fits(api_key: i16, version: i16, body: &[u8]) -> bool {
    let Some((_, compact_from, fields)) = LAYOUTS.iter().find(|(api, ..)| *api as i16 == api_key) else {
        return false;
    };
    Walk::new(version, version >= *compact_from, body)
        .fields(fields)
        .is_some()
}

const LAST: i16 = i16::MAX;
const I8: super::Kind = Fixed(1);
const I16: super::Kind = Fixed(2);
const I32: super::Kind = Fixed(4);
const I64: super::Kind = Fixed(8);
const UUID: super::Kind = Fixed(16);

/// Each API's first version with compact lengths, and the fields of its response.
const LAYOUTS: &[(ApiKey, i16, &[Field])] = &[
    (ApiKey::Produce, 9, PRODUCE),
    (ApiKey::ListOffsets, 6, LIST_OFFSETS),
    (ApiKey::Metadata, 9, METADATA),
    (ApiKey::OffsetCommit, 8, OFFSET_COMMIT),
    (ApiKey::OffsetFetch, 6, OFFSET_FETCH),
    (ApiKey::FindCoordinator, 3, FIND_COORDINATOR),
    (ApiKey::JoinGroup, 6, JOIN_GROUP),
    (ApiKey::Heartbeat, 4, &[(1, LAST, I32), (0, LAST, I16)]),
    (ApiKey::LeaveGroup, 4, LEAVE_GROUP),
    (
        ApiKey::SyncGroup,
        4,
        &[
            (1, LAST, I32),
            (0, LAST, I16),
            (5, LAST, Text),
            (5, LAST, Text),
            (0, LAST, Blob),
        ],
    ),
    (ApiKey::ConsumerGroupHeartbeat, 0, CONSUMER_HEARTBEAT),
    (ApiKey::CreateTopics, 5, CREATE_TOPICS),
    (ApiKey::DeleteTopics, 4, DELETE_TOPICS),
    (ApiKey::CreateAcls, 2, CREATE_ACLS),
    (ApiKey::DeleteAcls, 2, DELETE_ACLS),
    (ApiKey::AlterUserScramCredentials, 0, ALTER_CREDENTIALS),
    (ApiKey::SaslHandshake, LAST, &[(0, LAST, I16), (0, LAST, Texts)]),
    (
        ApiKey::SaslAuthenticate,
        2,
        &[(0, LAST, I16), (0, LAST, Text), (0, LAST, Blob), (1, LAST, I64)],
    ),
    (ApiKey::OffsetForLeaderEpoch, 4, EPOCH_ENDS),
    (
        ApiKey::InitProducerId,
        2,
        &[(0, LAST, I32), (0, LAST, I16), (0, LAST, I64), (0, LAST, I16)],
    ),
];

const PRODUCE: &[Field] = &[
    (0, LAST, List(&[(0, LAST, Text), (0, LAST, List(PRODUCED))])),
    (1, LAST, I32),
];
const PRODUCED: &[Field] = &[
    (0, LAST, I32),
    (0, LAST, I16),
    (0, LAST, I64),
    (2, LAST, I64),
    (5, LAST, I64),
    (8, LAST, List(&[(8, LAST, I32), (8, LAST, Text)])),
    (8, LAST, Text),
];
const LIST_OFFSETS: &[Field] = &[
    (2, LAST, I32),
    (0, LAST, List(&[(0, LAST, Text), (0, LAST, List(LISTED))])),
];
const LISTED: &[Field] = &[
    (0, LAST, I32),
    (0, LAST, I16),
    (1, LAST, I64),
    (1, LAST, I64),
    (4, LAST, I32),
];
const METADATA: &[Field] = &[
    (3, LAST, I32),
    (
        0,
        LAST,
        List(&[(0, LAST, I32), (0, LAST, Text), (0, LAST, I32), (1, LAST, Text)]),
    ),
    (2, LAST, Text),
    (1, LAST, I32),
    (0, LAST, List(TOPIC)),
    (8, 10, I32),
    (13, LAST, I16),
];
const TOPIC: &[Field] = &[
    (0, LAST, I16),
    (0, LAST, Text),
    (10, LAST, UUID),
    (1, LAST, I8),
    (0, LAST, List(PARTITION)),
    (8, LAST, I32),
];
const PARTITION: &[Field] = &[
    (0, LAST, I16),
    (0, LAST, I32),
    (0, LAST, I32),
    (7, LAST, I32),
    (0, LAST, Numbers(4)),
    (0, LAST, Numbers(4)),
    (5, LAST, Numbers(4)),
];
const OFFSET_COMMIT: &[Field] = &[
    (3, LAST, I32),
    (
        0,
        LAST,
        List(&[
            (0, LAST, Text),
            (0, LAST, List(&[(0, LAST, I32), (0, LAST, I16)])),
        ]),
    ),
];
const OFFSET_FETCH: &[Field] = &[
    (3, LAST, I32),
    (0, 7, List(&[(0, LAST, Text), (0, LAST, List(COMMITTED))])),
    (2, 7, I16),
    (
        8,
        LAST,
        List(&[
            (8, LAST, Text),
            (8, LAST, List(&[(8, LAST, Text), (8, LAST, List(COMMITTED))])),
            (8, LAST, I16),
        ]),
    ),
];
const COMMITTED: &[Field] = &[
    (0, LAST, I32),
    (0, LAST, I64),
    (5, LAST, I32),
    (0, LAST, Text),
    (0, LAST, I16),
];
const FIND_COORDINATOR: &[Field] = &[
    (1, LAST, I32),
    (0, 3, I16),
    (1, 3, Text),
    (0, 3, I32),
    (0, 3, Text),
    (0, 3, I32),
    (4, LAST, List(COORDINATOR)),
];
const COORDINATOR: &[Field] = &[
    (4, LAST, Text),
    (4, LAST, I32),
    (4, LAST, Text),
    (4, LAST, I32),
    (4, LAST, I16),
    (4, LAST, Text),
];
const JOIN_GROUP: &[Field] = &[
    (2, LAST, I32),
    (0, LAST, I16),
    (0, LAST, I32),
    (7, LAST, Text),
    (0, LAST, Text),
    (0, LAST, Text),
    (9, LAST, I8),
    (0, LAST, Text),
    (
        0,
        LAST,
        List(&[(0, LAST, Text), (5, LAST, Text), (0, LAST, Blob)]),
    ),
];
const LEAVE_GROUP: &[Field] = &[
    (1, LAST, I32),
    (0, LAST, I16),
    (3, LAST, List(&[(3, LAST, Text), (3, LAST, Text), (3, LAST, I16)])),
];
const CONSUMER_HEARTBEAT: &[Field] = &[
    (0, LAST, I32),
    (0, LAST, I16),
    (0, LAST, Text),
    (0, LAST, Text),
    (0, LAST, I32),
    (0, LAST, I32),
    (
        0,
        LAST,
        Maybe(&[(0, LAST, List(&[(0, LAST, UUID), (0, LAST, Numbers(4))]))]),
    ),
];
const EPOCH_ENDS: &[Field] = &[
    (2, LAST, I32),
    (0, LAST, List(&[(0, LAST, Text), (0, LAST, List(EPOCH_END))])),
];
const EPOCH_END: &[Field] = &[(0, LAST, I16), (0, LAST, I32), (1, LAST, I32), (0, LAST, I64)];
const CREATE_TOPICS: &[Field] = &[(2, LAST, I32), (0, LAST, List(CREATED))];
const CREATED: &[Field] = &[
    (0, LAST, Text),
    (7, LAST, UUID),
    (0, LAST, I16),
    (1, LAST, Text),
    (5, LAST, I32),
    (5, LAST, I16),
    (
        5,
        LAST,
        List(&[
            (5, LAST, Text),
            (5, LAST, Text),
            (5, LAST, I8),
            (5, LAST, I8),
            (5, LAST, I8),
        ]),
    ),
    (5, LAST, Tagged(0, 2)),
];
const DELETE_TOPICS: &[Field] = &[
    (1, LAST, I32),
    (
        0,
        LAST,
        List(&[(0, LAST, Text), (6, LAST, UUID), (0, LAST, I16), (5, LAST, Text)]),
    ),
];
const CREATE_ACLS: &[Field] = &[
    (0, LAST, I32),
    (0, LAST, List(&[(0, LAST, I16), (0, LAST, Text)])),
];
const DELETE_ACLS: &[Field] = &[
    (0, LAST, I32),
    (
        0,
        LAST,
        List(&[(0, LAST, I16), (0, LAST, Text), (0, LAST, List(DELETED_ACL))]),
    ),
];
const DELETED_ACL: &[Field] = &[
    (0, LAST, I16),
    (0, LAST, Text),
    (0, LAST, I8),
    (0, LAST, Text),
    (1, LAST, I8),
    (0, LAST, Text),
    (0, LAST, Text),
    (0, LAST, I8),
    (0, LAST, I8),
];
const ALTER_CREDENTIALS: &[Field] = &[
    (0, LAST, I32),
    (0, LAST, List(&[(0, LAST, Text), (0, LAST, I16), (0, LAST, Text)])),
];

#[cfg(test)]
mod tests;
