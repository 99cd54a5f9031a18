//! Keys: what callers that speak to Kafka themselves sign in with.
//!
//! A key is a password and rules for who has it, which Kafka changes one after the other. Whoever changes one here has its
//! user's keys alone meanwhile. Two servers on one cluster know nothing of each other: where one makes a key at the moment
//! at which the other deletes it, a password may be left without its rules, which lets its user do nothing; a key made or
//! deleted later mends that. A user that is deleted by one while the other makes its key may be left with a key.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use octopus_auth::Caller;
use octopus_core::{Error, Namespace};
use octopus_kafka::{Cluster, security::Secret};

use crate::{
    random,
    reply::Key,
    topics::{
        Told,
        gates::{Gates, Place},
    },
};

/// Who keeps the users that keys are of.
pub(crate) trait Users: fmt::Debug + Send + Sync {
    /// Gives a user rules and this password.
    fn grant<'a>(
        &'a self,
        user: &'a str,
        password: &'a Secret,
        namespace: &'a Namespace,
        within: Duration,
    ) -> Told<'a, ()>;

    /// Takes them back. Gives whether there was a password.
    fn revoke<'a>(&'a self, user: &'a str, namespace: &'a Namespace, within: Duration) -> Told<'a, bool>;

    /// Where they sign in.
    fn endpoint(&self) -> String;
}

impl Users for Cluster {
    fn grant<'a>(
        &'a self,
        user: &'a str,
        password: &'a Secret,
        namespace: &'a Namespace,
        within: Duration,
    ) -> Told<'a, ()> {
        Box::pin(async move {
            let granted = self.grant_key(user, password, namespace, within);
            granted.await.map_err(|error| failed(&error))
        })
    }

    fn revoke<'a>(&'a self, user: &'a str, namespace: &'a Namespace, within: Duration) -> Told<'a, bool> {
        Box::pin(async move {
            let revoked = self.revoke_key(user, namespace, within);
            revoked.await.map_err(|error| failed(&error))
        })
    }

    fn endpoint(&self) -> String {
        self.bootstrap().join(",")
    }
}

/// Makes and deletes keys, one a user: its name at Kafka is the subject, its password is made here and kept by Kafka
/// alone, as a hash, and it may do no more than use the namespace's topics and groups.
#[derive(Debug)]
pub(crate) struct Keys {
    users: Box<dyn Users>,
    gates: Gates,
}

impl Keys {
    pub(crate) fn new(users: impl Users + 'static) -> Self {
        Self {
            users: Box::new(users),
            gates: Gates::default(),
        }
    }

    /// Waits until nobody else here changes the namespace's key, or deletes its user. Whoever does either holds this.
    ///
    /// # Errors
    ///
    /// [`Error::KafkaRetriable`] where others take longer than that.
    pub(crate) async fn enter<'a>(
        &'a self,
        namespace: &'a Namespace,
        within: Duration,
    ) -> Result<Place<'a>, Error> {
        self.gates.enter(namespace, within).await
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
            .users
            .grant(&access_key, &secret_key, &caller.namespace, within);
        granted.await?;
        let now = jiff::Timestamp::try_from(SystemTime::now()).map_err(|_| Error::Internal)?;
        Ok(Key {
            access_key,
            secret_key,
            create_date: format!("{now:.0}"),
            endpoint: self.users.endpoint(),
        })
    }

    /// Deletes a key. Gives whether there was one.
    ///
    /// # Errors
    ///
    /// As [`make`](Self::make).
    pub(crate) async fn delete(&self, caller: &Caller, within: Duration) -> Result<bool, Error> {
        let user = caller.subject.to_string();
        self.users.revoke(&user, &caller.namespace, within).await
    }

    /// As [`delete`](Self::delete); where there can't be a key there is none: on a cluster that keeps none, or for a service
    /// that may not make any. Gives whether there can be one.
    ///
    /// # Errors
    ///
    /// Where Kafka does not say within the time.
    pub(crate) async fn withdraw(&self, caller: &Caller, within: Duration) -> Result<bool, Error> {
        let deleted = self.delete(caller, within).await;
        if deleted == Err(Error::KafkaUnauthorized) {
            tracing::warn!(
                "the service may not change users: a key that it made when it could is still there"
            );
            return Ok(false);
        }
        match deleted {
            Ok(_) => Ok(true),
            Err(Error::KeysUnsupported) => Ok(false),
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
