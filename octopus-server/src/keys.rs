//! Keys: what callers that speak to Kafka themselves sign in with.

use std::time::{Duration, SystemTime};

use octopus_auth::Caller;
use octopus_core::Error;
use octopus_kafka::{Cluster, security::Secret};

use crate::{random, reply::Key};

/// Makes and deletes keys, one a user: its name at Kafka is the subject, its password is made here and kept by Kafka
/// alone, as a hash, and it may do no more than use the namespace's topics and groups.
#[derive(Debug, Clone)]
pub(crate) struct Keys(Cluster);

impl Keys {
    pub(crate) const fn new(cluster: Cluster) -> Self {
        Self(cluster)
    }

    /// Makes a key, which ends the one before.
    ///
    /// # Errors
    ///
    /// [`Error::KeysUnsupported`] where the cluster keeps no users, or no rules for them.
    pub(crate) async fn make(&self, caller: &Caller, within: Duration) -> Result<Key, Error> {
        let access_key = caller.subject.to_string();
        let secret_key = Secret::from(random::hex::<24>().map_err(|_| Error::Internal)?);
        let granted = self
            .0
            .grant_key(&access_key, &secret_key, &caller.namespace, within);
        granted.await.map_err(|error| failed(&error))?;
        let now = jiff::Timestamp::try_from(SystemTime::now()).map_err(|_| Error::Internal)?;
        Ok(Key {
            access_key,
            secret_key,
            create_date: format!("{now:.0}"),
            endpoint: self.0.bootstrap().join(","),
        })
    }

    /// Deletes a key. Gives whether there was one.
    ///
    /// # Errors
    ///
    /// As [`make`](Self::make).
    pub(crate) async fn delete(&self, caller: &Caller, within: Duration) -> Result<bool, Error> {
        let user = caller.subject.to_string();
        let revoked = self.0.revoke_key(&user, &caller.namespace, within);
        revoked.await.map_err(|error| failed(&error))
    }

    /// As [`delete`](Self::delete); where there can't be a key there is none: on a cluster that keeps none, or for a service
    /// that may not make any.
    ///
    /// # Errors
    ///
    /// Where Kafka does not say within the time.
    pub(crate) async fn withdraw(&self, caller: &Caller, within: Duration) -> Result<(), Error> {
        let deleted = self.delete(caller, within).await;
        if deleted == Err(Error::KafkaUnauthorized) {
            tracing::warn!(
                "the service may not change users: a key that it made when it could is still there"
            );
            return Ok(());
        }
        match deleted {
            Ok(_) | Err(Error::KeysUnsupported) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn failed(error: &octopus_kafka::Error) -> Error {
    tracing::debug!(%error, "Kafka failed a request about keys");
    let error = Error::from(error.clone());
    if error == Error::KafkaInvalid {
        Error::KeysUnsupported
    } else {
        error
    }
}
