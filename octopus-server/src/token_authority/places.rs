//! Whose look-up goes next.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// So many places, which addresses take in turn: one that asks for many waits for its own.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Shared>);

/// How many there are of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The places.
    pub(super) all: usize,
    /// Those that one address has at once.
    pub(super) of_one: usize,
    /// Those of one address that wait.
    pub(super) waiting_of_one: usize,
}

/// An address as it is counted; `None` where it is not told.
type Asker = Option<IpAddr>;

/// A place for one look-up, until it falls.
#[derive(Debug)]
#[must_use = "it is no place once it has fallen"]
pub(super) struct Place {
    shared: Arc<Shared>,
    asker: Asker,
}

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Of those who have some.
    of_each: HashMap<Asker, usize>,
    /// Who waits, in the order of their numbers.
    lines: HashMap<Asker, BTreeMap<u64, oneshot::Sender<Place>>>,
    /// Each of `lines` once. A line that everyone left is taken away at its turn.
    turns: VecDeque<Asker>,
    next_number: u64,
}

impl Places {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self(Arc::new(Shared {
            bounds,
            state: Mutex::default(),
        }))
    }

    /// A place that is there at once; nobody is passed over for it.
    pub(super) fn take(&self, asker: Asker) -> Option<Place> {
        let mut state = self.0.lock();
        let has = state.of_each.get(&asker).copied().unwrap_or_default();
        // Whoever waits while there is a place has as many as one may.
        let is_free = state.taken < self.0.bounds.all && has < self.0.bounds.of_one;
        is_free.then(|| {
            state.take(asker);
            Place::new(&self.0, asker)
        })
    }

    /// Waits for a place. `None` where too many of this asker's wait already.
    pub(super) async fn enter(&self, asker: Asker) -> Option<Place> {
        if let Some(place) = self.take(asker) {
            return Some(place);
        }
        let (_waiting, place) = self.wait(asker)?;
        place.await.ok()
    }

    fn wait(&self, asker: Asker) -> Option<(Waiting, oneshot::Receiver<Place>)> {
        let (sender, place) = oneshot::channel();
        let mut state = self.0.lock();
        let number = state.next_number;
        if !state.lines.contains_key(&asker) {
            state.turns.push_back(asker);
        }
        let line = state.lines.entry(asker).or_default();
        if line.len() >= self.0.bounds.waiting_of_one {
            return None;
        }
        line.insert(number, sender);
        state.next_number += 1;
        drop(state);
        let waiting = Waiting {
            shared: Arc::clone(&self.0),
            asker,
            number,
        };
        Some((waiting, place))
    }
}

impl Place {
    /// One that is counted already.
    fn new(shared: &Arc<Shared>, asker: Asker) -> Self {
        Self {
            shared: Arc::clone(shared),
            asker,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.give_back(self.asker);
        let next = state.next(self.shared.bounds);
        drop(state);
        if let Some((asker, sender)) = next {
            // Where the one who waited is gone meanwhile, the place falls here and goes on to the next.
            let _ = sender.send(Self::new(&self.shared, asker));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, asker: Asker) {
        self.taken += 1;
        *self.of_each.entry(asker).or_default() += 1;
    }

    fn give_back(&mut self, asker: Asker) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(has) = self.of_each.get_mut(&asker) {
            *has = has.saturating_sub(1);
            if *has == 0 {
                self.of_each.remove(&asker);
            }
        }
    }

    /// Who gets the place that is free: the first of the next line that may have one more. It is taken.
    fn next(&mut self, bounds: Bounds) -> Option<(Asker, oneshot::Sender<Place>)> {
        for _ in 0..self.turns.len() {
            let asker = self.turns.pop_front()?;
            if self.of_each.get(&asker).is_some_and(|has| *has >= bounds.of_one) {
                self.turns.push_back(asker);
                continue;
            }
            let first = self.lines.get_mut(&asker).and_then(BTreeMap::pop_first);
            if let Some((_, sender)) = first {
                self.turns.push_back(asker);
                self.take(asker);
                return Some((asker, sender));
            }
            self.lines.remove(&asker);
        }
        None
    }
}

/// One that waits, until it is let in or leaves.
struct Waiting {
    shared: Arc<Shared>,
    asker: Asker,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(line) = self.shared.lock().lines.get_mut(&self.asker) {
            line.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::Pin};

    use futures_util::FutureExt as _;

    use super::*;

    type Entering<'a> = Pin<Box<dyn Future<Output = Option<Place>> + 'a>>;

    fn places(all: usize, of_one: usize, waiting_of_one: usize) -> Places {
        Places::new(Bounds {
            all,
            of_one,
            waiting_of_one,
        })
    }

    fn asker(last: u8) -> Asker {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    /// One that waits.
    fn waiter(places: &Places, asker: Asker) -> Entering<'_> {
        let mut entering: Entering<'_> = Box::pin(places.enter(asker));
        assert!(entering.as_mut().now_or_never().is_none());
        entering
    }

    fn is_in(entering: &mut Entering<'_>) -> Option<Place> {
        entering.as_mut().now_or_never().flatten()
    }

    #[test]
    fn an_address_that_asks_for_many_waits_for_its_own() {
        let places = places(3, 3, 100);
        let (many, one) = (asker(1), asker(2));
        let held = [(); 3].map(|()| places.take(many).unwrap());
        let mut crowd: Vec<_> = (0..50).map(|_| waiter(&places, many)).collect();
        let mut late = waiter(&places, one);
        let [first, second, third] = held;
        drop(first);
        let _mine = is_in(&mut crowd[0]).unwrap();
        assert!(is_in(&mut late).is_none());
        drop(second);
        let _its = is_in(&mut late).expect("the second turn is the other's");
        drop(third);
        let _mine = is_in(&mut crowd[1]).unwrap();
        assert!(is_in(&mut crowd[2]).is_none());
    }

    #[test]
    fn an_address_leaves_places_for_others() {
        let places = places(3, 2, 1);
        let (many, one) = (asker(1), asker(2));
        let held = [(); 2].map(|()| places.take(many).unwrap());
        let mut more = waiter(&places, many);
        assert!(places.enter(many).now_or_never().unwrap().is_none(), "one waits");
        let other = places.enter(one).now_or_never().flatten().unwrap();
        drop(other);
        assert!(
            is_in(&mut more).is_none(),
            "a place of another's is not for this one"
        );
        let [first, _second] = held;
        drop(first);
        assert!(is_in(&mut more).is_some());
    }

    #[test]
    fn who_leaves_takes_no_place_along() {
        let places = places(1, 1, 10);
        let held = places.take(asker(1)).unwrap();
        drop(waiter(&places, asker(2)));
        let given = waiter(&places, asker(3));
        let mut last = waiter(&places, asker(1));
        drop(held);
        // It has the place, and never looked.
        drop(given);
        let place = is_in(&mut last).unwrap();
        drop((place, last));
        let state = places.0.lock();
        assert_eq!((state.taken, state.of_each.len()), (0, 0));
        drop(state);
        drop(places.take(asker(4)).unwrap());
        assert!(places.0.lock().lines.is_empty() && places.0.lock().turns.is_empty());
    }
}
