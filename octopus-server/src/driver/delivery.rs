//! What became of a request's reply.

use octopus_core::{Event, RequestId};

use super::Driver;
use crate::send::{Fate, Receipt};

/// Tells the engine once whether a request's reply was handed to the network; dropped, that it was not.
#[must_use]
pub(crate) struct Delivery(Option<(Driver, RequestId)>);

impl Delivery {
    pub(super) fn new(driver: Driver, request: RequestId) -> Self {
        Self(Some((driver, request)))
    }

    /// The reply has nothing to hand over but its head, so it counts as delivered.
    pub(crate) fn delivered(mut self) {
        self.settle(Fate::Delivered);
    }

    /// The receipt that rides in the reply's last chunk and settles this delivery.
    pub(crate) fn into_receipt(mut self) -> Receipt {
        let mut inner = Self(self.0.take());
        Receipt::new(move |fate| inner.settle(fate))
    }

    fn settle(&mut self, fate: Fate) {
        if let Some((driver, request)) = self.0.take() {
            driver.feed(match fate {
                Fate::Delivered => Event::Delivered(request),
                Fate::Dropped => Event::Dropped(request),
            });
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.settle(Fate::Dropped);
    }
}
