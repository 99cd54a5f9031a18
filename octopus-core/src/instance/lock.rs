//! One request at a time [LK-01].

use crate::{RequestId, line::Line};

/// Who holds an instance, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    holder: Option<RequestId>,
    line: Line<RequestId>,
}

impl Lock {
    /// Takes the instance if nobody holds it or waits for it.
    pub(crate) fn try_take(&mut self, request: RequestId) -> bool {
        let free = !self.is_busy();
        if free {
            self.holder = Some(request);
        }
        free
    }

    /// Goes to the back of the line.
    pub(crate) fn wait(&mut self, request: RequestId) {
        self.line.push(request);
    }

    /// Leaves the line.
    pub(crate) fn leave(&mut self, request: RequestId) {
        self.line.remove(request);
    }

    /// The holder is done.
    pub(crate) fn release(&mut self) {
        self.holder = None;
    }

    /// Gives a free instance to the first of the line.
    pub(crate) fn take_next(&mut self) -> Option<RequestId> {
        if self.holder.is_none() {
            self.holder = self.line.pop();
            self.holder
        } else {
            None
        }
    }

    /// Takes the first out of the line, to be refused.
    pub(crate) fn turn_away(&mut self) -> Option<RequestId> {
        self.line.pop()
    }

    /// Who holds the instance.
    pub(crate) const fn holder(&self) -> Option<RequestId> {
        self.holder
    }

    /// Whether someone waits for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.line.is_empty()
    }

    /// Whether someone holds it or waits for it.
    pub(crate) fn is_busy(&self) -> bool {
        self.holder.is_some() || !self.line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [LK-01]
    #[test]
    fn the_line_is_served_in_order() {
        let [a, b, c, d] = [1, 2, 3, 4].map(RequestId);
        let mut lock = Lock::default();
        assert!(lock.try_take(a));
        assert!(!lock.try_take(b));
        for request in [b, c, d] {
            lock.wait(request);
        }
        assert_eq!(lock.take_next(), None);
        lock.leave(c);
        lock.release();
        assert!(!lock.try_take(c), "those who wait come first");
        assert_eq!(lock.take_next(), Some(b));
        assert_eq!(lock.holder(), Some(b));
        lock.release();
        assert_eq!(lock.turn_away(), Some(d));
        assert!(!lock.is_busy());
    }
}
