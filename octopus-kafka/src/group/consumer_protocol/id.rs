//! The names that members give themselves.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use uuid::Builder;

/// A new member id: a random UUID, written in 22 characters as Kafka's own clients do. None begins with a dash, which
/// Kafka's tools would take for an option.
pub(crate) fn member_id() -> String {
    let random = SystemRandom::new();
    loop {
        let mut bytes = [0; 16];
        random
            .fill(&mut bytes)
            .expect("the system has random bytes: TLS and sign-ins need them as well");
        let id = URL_SAFE_NO_PAD.encode(Builder::from_random_bytes(bytes).into_uuid());
        if !id.starts_with('-') {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::{Uuid, Version};

    use super::*;

    #[test]
    fn a_member_id_is_a_random_uuid_in_kafkas_short_form() {
        let ids: BTreeSet<String> = (0..1000).map(|_| member_id()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            assert_eq!(id.len(), 22);
            assert!(!id.starts_with('-'), "{id}");
            let bytes = URL_SAFE_NO_PAD.decode(&id).unwrap();
            let uuid = Uuid::from_slice(&bytes).unwrap();
            assert_eq!(uuid.get_version(), Some(Version::Random));
        }
    }
}
