//! How many bytes of records the service takes on at once: who comes past them is told so before anything is sent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use octopus_core::{Error, Limits, Subject};

/// The bytes that bodies with records may take, all together and each user's. Clones are the same.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_of_one: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Those who hold some.
    users: HashMap<Subject, usize>,
}

/// What one request holds, until it falls.
#[derive(Debug)]
#[must_use = "it holds nothing once it has fallen"]
pub struct Hold {
    admission: Admission,
    subject: Subject,
    bytes: usize,
}

impl Admission {
    /// Nothing is held yet.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self(Arc::new(Shared {
            most: limits.produce_bytes,
            most_of_one: limits.produce_bytes_per_user,
            taken: Mutex::default(),
        }))
    }

    /// A hold of nothing yet, for a request of this user's.
    pub fn hold(&self, subject: Subject) -> Hold {
        Hold {
            admission: self.clone(),
            subject,
            bytes: 0,
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// Whether there is room for so many more bytes at present. None are taken.
    ///
    /// # Errors
    ///
    /// As [`grow`](Self::grow).
    pub fn fits(&self, bytes: usize) -> Result<(), Error> {
        self.sums(&self.admission.taken(), bytes).map(drop)
    }

    /// Takes so many more bytes.
    ///
    /// # Errors
    ///
    /// [`Error::ProducerFull`] where they would be too many, the user's or all users'; then none are taken.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let mut taken = self.admission.taken();
        let (all, own) = self.sums(&taken, bytes)?;
        if bytes > 0 {
            taken.all = all;
            taken.users.insert(self.subject, own);
            self.bytes += bytes;
        }
        Ok(())
    }

    /// The bytes of all users and of this one, with so many more.
    fn sums(&self, taken: &Taken, bytes: usize) -> Result<(usize, usize), Error> {
        let all = taken.all.saturating_add(bytes);
        let own = taken.users.get(&self.subject).copied().unwrap_or_default();
        let own = own.saturating_add(bytes);
        if all > self.admission.0.most || own > self.admission.0.most_of_one {
            Err(Error::ProducerFull)
        } else {
            Ok((all, own))
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut taken = self.admission.taken();
        taken.all = taken.all.saturating_sub(self.bytes);
        if let Some(own) = taken.users.get_mut(&self.subject) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                taken.users.remove(&self.subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Subject = Subject::from_uuid(1);
    const BEN: Subject = Subject::from_uuid(2);

    fn admission() -> Admission {
        let mut limits = Limits::default();
        limits.produce_bytes = 100;
        limits.produce_bytes_per_user = 60;
        Admission::new(&limits)
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let admission = admission();
        let (mut first, mut second) = (admission.hold(ANN), admission.hold(ANN));
        assert_eq!(first.grow(40), Ok(()));
        assert_eq!(second.grow(21), Err(Error::ProducerFull));
        assert_eq!(second.grow(20), Ok(()));
        let mut other = admission.hold(BEN);
        assert_eq!(other.grow(41), Err(Error::ProducerFull));
        assert_eq!(other.grow(40), Ok(()));
        assert_eq!(other.grow(1), Err(Error::ProducerFull));
    }

    #[test]
    fn what_falls_gives_back_what_it_held_and_no_more() {
        let admission = admission();
        let mut first = admission.hold(ANN);
        for _ in 0..3 {
            assert_eq!(first.grow(10), Ok(()));
        }
        let mut second = admission.hold(ANN);
        assert_eq!(second.grow(usize::MAX), Err(Error::ProducerFull));
        drop(second);
        assert_eq!(first.grow(30), Ok(()));
        assert_eq!(first.grow(1), Err(Error::ProducerFull));
        drop(first);
        assert!(admission.taken().users.is_empty());
        assert_eq!(admission.taken().all, 0);
    }
}
