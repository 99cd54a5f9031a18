//! Keys: what lets a user's own Kafka clients in, and to no more than one namespace.

use std::{num::NonZeroU32, time::Duration};

use bytes::Bytes;
use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        AlterUserScramCredentialsRequest, CreateAclsRequest, DeleteAclsRequest,
        alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
        create_acls_request::AclCreation,
        delete_acls_request::DeleteAclsFilter,
    },
    protocol::StrBytes,
};
use octopus_core::Namespace;
use ring::{
    pbkdf2,
    rand::{SecureRandom as _, SystemRandom},
};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::Cluster;
use crate::{
    error::{Api, Error, Kind},
    security::Secret,
};

/// Kafka's number of SCRAM-SHA-512.
const SCRAM_SHA_512: i8 = 2;
/// How often a password is hashed: twice the least that Kafka takes.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(8192).expect("more than none");

/// Kafka's numbers of what a rule is about.
const ANY: i8 = 1;
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const PREFIXED: i8 = 4;
const ALLOW: i8 = 3;
const READ: i8 = 3;
const WRITE: i8 = 4;
const DESCRIBE_CONFIGS: i8 = 10;

/// What a key lets its user do with each kind of what the namespace holds. Who may read or write may also describe.
const ALLOWED: [(i8, i8); 4] = [
    (TOPIC, READ),
    (TOPIC, WRITE),
    (TOPIC, DESCRIBE_CONFIGS),
    (GROUP, READ),
];

impl Cluster {
    /// Lets a user sign in to Kafka by SCRAM-SHA-512 with this password, in place of an earlier one, to read and write a
    /// namespace's topics and read with its groups. The rules come first: at no time may the user do more.
    ///
    /// # Errors
    ///
    /// Where Kafka refuses it: one that keeps no such users, or that has no rules for them, does not support it [ER-01].
    pub async fn grant_key(
        &self,
        user: &str,
        password: &Secret,
        namespace: &Namespace,
        within: Duration,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        let rules = ALLOWED.map(|(resource, operation)| {
            AclCreation::default()
                .with_resource_type(resource)
                .with_resource_name(prefix(namespace))
                .with_resource_pattern_type(PREFIXED)
                .with_principal(principal(user))
                .with_host(StrBytes::from_static_str("*"))
                .with_operation(operation)
                .with_permission_type(ALLOW)
        });
        let make = |_| CreateAclsRequest::default().with_creations(rules.to_vec());
        let response = self.ask_controller(1..=3, make, deadline).await?;
        let codes = response.results.iter().map(|result| result.error_code);
        all_done(Api::CreateAcls, codes.collect(), rules.len())?;

        let hashed = hashed(password)?;
        let credential = ScramCredentialUpsertion::default()
            .with_name(StrBytes::from_string(user.to_owned()))
            .with_mechanism(SCRAM_SHA_512)
            .with_iterations(i32::try_from(ITERATIONS.get()).expect("thousands"))
            .with_salt(hashed.salt)
            .with_salted_password(hashed.password);
        let make = |_| AlterUserScramCredentialsRequest::default().with_upsertions(vec![credential.clone()]);
        let response = self.ask_controller(0..=0, make, deadline).await?;
        let codes = response.results.iter().map(|result| result.error_code);
        all_done(Api::AlterUserScramCredentials, codes.collect(), 1)
    }

    /// Takes back what [`grant_key`](Self::grant_key) gave: the password first, then the rules. Gives whether there was a
    /// password.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn revoke_key(
        &self,
        user: &str,
        namespace: &Namespace,
        within: Duration,
    ) -> Result<bool, Error> {
        let deadline = Instant::now() + within;
        let credential = ScramCredentialDeletion::default()
            .with_name(StrBytes::from_string(user.to_owned()))
            .with_mechanism(SCRAM_SHA_512);
        let make = |_| AlterUserScramCredentialsRequest::default().with_deletions(vec![credential.clone()]);
        let response = self.ask_controller(0..=0, make, deadline).await?;
        let code = response.results.first().map(|result| result.error_code.err());
        let was_there = match code {
            Some(None) => true,
            Some(Some(ResponseError::ResourceNotFound)) => false,
            Some(Some(code)) => return Err(Error::response(Api::AlterUserScramCredentials, code)),
            None => return Err(Error::new(Api::AlterUserScramCredentials, Kind::Malformed)),
        };
        let filter = DeleteAclsFilter::default()
            .with_resource_type_filter(ANY)
            .with_resource_name_filter(Some(prefix(namespace)))
            .with_pattern_type_filter(PREFIXED)
            .with_principal_filter(Some(principal(user)))
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY);
        let make = |_| DeleteAclsRequest::default().with_filters(vec![filter.clone()]);
        let response = self.ask_controller(1..=3, make, deadline).await?;
        let filters = response.filter_results.iter();
        let codes = filters.flat_map(|filter| {
            let rules = filter.matching_acls.iter().map(|rule| rule.error_code);
            [filter.error_code].into_iter().chain(rules)
        });
        all_done(Api::DeleteAcls, codes.collect(), 1)?;
        Ok(was_there)
    }
}

/// What the names of a namespace's topics and groups begin with [NS-02] [NS-03].
fn prefix(namespace: &Namespace) -> StrBytes {
    StrBytes::from_string(namespace.qualify(""))
}

fn principal(user: &str) -> StrBytes {
    StrBytes::from_string(format!("User:{user}"))
}

/// Whether there are at least so many answers, and none of them is an error.
fn all_done(api: Api, codes: Vec<i16>, least: usize) -> Result<(), Error> {
    if codes.len() < least {
        return Err(Error::new(api, Kind::Malformed));
    }
    match codes.into_iter().find_map(|code| code.err()) {
        Some(code) => Err(Error::response(api, code)),
        None => Ok(()),
    }
}

/// A password as Kafka keeps it.
struct Hashed {
    salt: Bytes,
    password: Bytes,
}

fn hashed(password: &Secret) -> Result<Hashed, Error> {
    let mut salt = [0; 32];
    // Without random bytes there is no key.
    SystemRandom::new()
        .fill(&mut salt)
        .map_err(|_| Error::new(Api::AlterUserScramCredentials, Kind::Unsupported))?;
    let mut hash = Zeroizing::new([0; 64]);
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA512,
        ITERATIONS,
        &salt,
        password.expose().as_bytes(),
        &mut *hash,
    );
    Ok(Hashed {
        salt: Bytes::copy_from_slice(&salt),
        password: Bytes::copy_from_slice(&*hash),
    })
}
