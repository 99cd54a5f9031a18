//! Create, and its undoing.

use std::time::Instant;

use tracing::info;

use super::{Engine, call::Purpose};
use crate::{
    Effect, Error, InstanceId, InstanceKey, Namespace, Open, Reply, RequestId, Settings,
    instance::{Instance, LastCommit, Life},
    request::{Answered, Stage},
};

impl Engine {
    pub(super) fn create(
        &mut self,
        id: RequestId,
        namespace: Namespace,
        key: InstanceKey,
        settings: Settings,
        now: Instant,
    ) {
        let subject = key.subject;
        if let Err(error) = self.check_create(&key) {
            return self.refuse(id, subject, error, now);
        }
        let number = InstanceId(self.next_instance);
        self.next_instance += 1;
        self.names.insert(key.clone(), number);
        self.places.add(subject);
        self.instances
            .insert(number, Instance::new(key.clone(), settings.clone(), now));
        let effect = Effect::Open(Open {
            namespace,
            key,
            settings,
        });
        let within = self.config.limits.open_wait;
        let call = self.call(number, Purpose::Open(id), effect, within, now);
        self.admit(id, subject, Some(number), Stage::Opening(call));
    }

    /// The refusals in their order [D-44] [D-29].
    fn check_create(&self, key: &InstanceKey) -> Result<(), Error> {
        let limits = &self.config.limits;
        if self.shutdown.has_begun() {
            Err(Error::ShuttingDown)
        } else if !self.config.kafka {
            Err(Error::NoKafka)
        } else if self.names.contains_key(key) {
            Err(Error::InstanceExists)
        } else if self.places.of(&key.subject) >= limits.max_instances_per_user {
            Err(Error::UserInstances(limits.max_instances_per_user))
        } else if self.places.total() >= limits.max_instances {
            Err(Error::TotalInstances(limits.max_instances))
        } else {
            Ok(())
        }
    }

    /// Kafka answered a create. A failure leaves nothing behind [D-41].
    pub(super) fn opened(
        &mut self,
        request: RequestId,
        number: InstanceId,
        outcome: Result<(), Error>,
        now: Instant,
    ) {
        match outcome {
            Ok(()) => {
                if let Some(instance) = self.instances.get_mut(&number) {
                    instance.life = Life::Open;
                    info!(instance = number.0, group = %instance.key.group, name = %instance.key.name, "opened");
                }
                self.answer_as(request, Ok(Reply::Created), Answered::Created, now);
            }
            Err(error) => {
                self.unname(number);
                self.instances.remove(&number);
                self.answer(request, Err(error), now);
            }
        }
    }

    /// Kafka did not answer a create, and what the call left is not known.
    pub(super) fn open_timeout(&mut self, request: RequestId, number: InstanceId, now: Instant) {
        self.answer(request, Err(Error::KafkaRetriable), now);
        self.undo(Some(number), now);
    }

    /// Takes back a create whose answer did not reach its caller [D-29].
    pub(super) fn undo(&mut self, instance: Option<InstanceId>, now: Instant) {
        if let Some(number) = instance {
            self.doom(number, LastCommit::No, now);
            self.stop_fetch(number, Err(Error::InstanceNotFound), now);
        }
    }

    /// Frees an instance's name and its places.
    pub(super) fn unname(&mut self, number: InstanceId) {
        if let Some(instance) = self.instances.get_mut(&number)
            && instance.is_named
        {
            instance.is_named = false;
            self.names.remove(&instance.key);
            self.places.remove(&instance.key.subject);
        }
    }
}
