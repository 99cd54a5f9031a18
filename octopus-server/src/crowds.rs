//! How many requests each user has in progress.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use octopus_core::{Error, Subject};

/// Lets no user have more than so many requests in progress, however many connections bring them.
#[derive(Debug)]
pub(crate) struct Crowds(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    /// Those who have some.
    users: Mutex<HashMap<Subject, usize>>,
}

/// One request's place among its user's, until the last clone of it falls: whatever goes on for a request whose caller
/// left holds one.
#[derive(Debug, Clone)]
#[must_use = "it is no place once it has fallen"]
pub(crate) struct Place(#[expect(dead_code, reason = "held to be dropped")] Arc<Seat>);

#[derive(Debug)]
struct Seat {
    crowds: Arc<Shared>,
    subject: Subject,
}

impl Crowds {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Shared {
            most,
            users: Mutex::default(),
        }))
    }

    /// A place for a request of this user's.
    ///
    /// # Errors
    ///
    /// [`Error::UserRequests`] where the user has as many as there may be.
    pub(crate) fn enter(&self, subject: Subject) -> Result<Place, Error> {
        let most = self.0.most;
        let mut users = self.0.lock();
        let count = users.entry(subject).or_default();
        if *count >= most {
            return Err(Error::UserRequests(most));
        }
        *count += 1;
        drop(users);
        Ok(Place(Arc::new(Seat {
            crowds: Arc::clone(&self.0),
            subject,
        })))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, usize>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Entry::Occupied(mut user) = self.crowds.lock().entry(self.subject) {
            match user.get() {
                0 | 1 => _ = user.remove(),
                _ => *user.get_mut() -= 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_so_many_places_and_gives_them_back() {
        let crowds = Crowds::new(2);
        let (one, other) = (Subject::from_uuid(1), Subject::from_uuid(2));
        let first = crowds.enter(one).unwrap();
        let second = crowds.enter(one).unwrap();
        assert_eq!(crowds.enter(one).unwrap_err(), Error::UserRequests(2));
        let _theirs = crowds.enter(other).unwrap();
        drop(first);
        let kept = second.clone();
        let third = crowds.enter(one).unwrap();
        assert_eq!(crowds.enter(one).unwrap_err(), Error::UserRequests(2));
        drop((second, third));
        let fourth = crowds.enter(one).unwrap();
        assert_eq!(
            crowds.enter(one).unwrap_err(),
            Error::UserRequests(2),
            "a clone is kept"
        );
        drop((kept, fourth));
        assert_eq!(crowds.0.lock().len(), 1, "who has none is not kept");
    }
}
