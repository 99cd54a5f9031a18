//! The names that members give themselves.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Builder;

/// What one id is from the next.
const STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// The ids of one consumer's memberships, one after the other. The same seed gives the same ids.
#[derive(Debug)]
pub(crate) struct MemberIds {
    next: u128,
}

impl MemberIds {
    /// Ids that nobody else has, if the seed is random.
    pub(crate) const fn new(seed: u128) -> Self {
        Self { next: seed }
    }

    /// A new member id: a UUID, written in 22 characters as Kafka's own clients do. None begins with a dash, which
    /// Kafka's tools would take for an option.
    pub(crate) fn next(&mut self) -> String {
        loop {
            let bytes = self.next.to_be_bytes();
            self.next = self.next.wrapping_add(STEP);
            let id = URL_SAFE_NO_PAD.encode(Builder::from_random_bytes(bytes).into_uuid());
            if !id.starts_with('-') {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::{Uuid, Version};

    use super::*;

    #[test]
    fn a_member_id_is_a_uuid_in_kafkas_short_form() {
        let mut ids = MemberIds::new(7);
        let ids: BTreeSet<String> = (0..10_000).map(|_| ids.next()).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids {
            assert_eq!(id.len(), 22);
            assert!(!id.starts_with('-'), "{id}");
            let bytes = URL_SAFE_NO_PAD.decode(&id).unwrap();
            let uuid = Uuid::from_slice(&bytes).unwrap();
            assert_eq!(uuid.get_version(), Some(Version::Random));
        }
    }
}
