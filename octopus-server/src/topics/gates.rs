//! One change at a time in each namespace.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use octopus_core::{Error, Namespace};
use tokio::{
    sync::{Mutex as Turn, OwnedMutexGuard},
    time::timeout,
};

/// Lets one at a time into each namespace.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<Namespace, Arc<Turn<()>>>>);

/// A place in a namespace that nobody else has meanwhile.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    gates: &'a Gates,
    namespace: &'a Namespace,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Gates {
    /// Waits for the namespace, in turn.
    ///
    /// # Errors
    ///
    /// [`Error::KafkaRetriable`] where others take longer than that: they wait for Kafka.
    pub(crate) async fn enter<'a>(
        &'a self,
        namespace: &'a Namespace,
        within: Duration,
    ) -> Result<Place<'a>, Error> {
        let turn = Arc::clone(self.lock().entry(namespace.clone()).or_default());
        let mut place = Place {
            gates: self,
            namespace,
            turn: None,
        };
        let turn = timeout(within, turn.lock_owned()).await;
        place.turn = Some(turn.map_err(|_| Error::KafkaRetriable)?);
        Ok(place)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Namespace, Arc<Turn<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut gates = self.gates.lock();
        self.turn.take();
        // Who waits has a handle too.
        if gates
            .get(self.namespace)
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            gates.remove(self.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use octopus_core::Subject;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn one_at_a_time_is_let_into_a_namespace_and_nothing_is_kept_of_it() {
        let gates = Gates::default();
        let [one, other] = [1, 2].map(|n| Namespace::of(Subject::from_uuid(n)));
        let first = gates.enter(&one, SOON).await.unwrap();
        let elsewhere = gates.enter(&other, SOON).await.unwrap();
        let late = gates.enter(&one, Duration::from_millis(10)).await;
        assert_eq!(late.unwrap_err(), Error::KafkaRetriable);
        let (second, ()) = tokio::join!(gates.enter(&one, SOON), async { drop(first) });
        assert_eq!(gates.lock().len(), 2);
        drop((second.unwrap(), elsewhere));
        assert!(gates.lock().is_empty());
    }
}
