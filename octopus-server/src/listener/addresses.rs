//! How many connections each address holds.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The connections of each address that has some.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    most: usize,
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A connection's place among those of its address, until this falls.
#[derive(Debug)]
pub(super) struct Place {
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Addresses {
    /// None yet; each may hold `most`.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            held: Arc::default(),
        }
    }

    /// A place for one more connection of this address, if it has one left.
    pub(super) fn place(&self, address: IpAddr) -> Option<Place> {
        let address = counted(address);
        let mut held = lock(&self.held);
        let count = held.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(held);
        Some(Place {
            held: Arc::clone(&self.held),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        if let Some(count) = held.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.address);
            }
        }
    }
}

/// The address that a connection counts for, and what it asks: of IPv6 the network of a site, since whoever has one has all of its addresses.
pub(crate) fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

fn lock(held: &Mutex<HashMap<IpAddr, usize>>) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
    // Nothing panics while the lock is held.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_others_have_their_own() {
        let addresses = Addresses::new(2);
        let of = |text: &str| addresses.place(text.parse().unwrap());
        let held = [
            of("10.0.0.1"),
            of("::ffff:10.0.0.1"),
            of("2001:db8::1"),
            of("2001:db8::2:1"),
        ];
        assert!(held.iter().all(Option::is_some));
        for full in ["10.0.0.1", "2001:db8::ffff:0:0:1"] {
            assert!(of(full).is_none(), "{full}");
        }
        for other in ["10.0.0.2", "2001:db8:0:1::1"] {
            assert!(of(other).is_some(), "{other}");
        }
        drop(held);
        assert!(lock(&addresses.held).is_empty());
        assert!(of("10.0.0.1").is_some());
    }
}
