//! The limits on the time of what a connection is at [D-32].

use std::{
    task::{Context, Poll},
    time::Duration,
};

use super::{Options, Protocol};
use crate::{
    clock::Sleep,
    ledger::{Ledger, Work},
};

/// The time that a client has to answer our farewell.
const FAREWELL: Duration = Duration::from_secs(2);

/// Follows a connection's book with alarms.
pub(super) struct Pace<'a> {
    options: &'a Options,
    protocol: Protocol,
    ledger: Ledger,
    work: Work,
    alarm: Sleep,
    head: Option<(u64, Sleep)>,
    is_ending: bool,
}

/// What has taken too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// The next request.
    Idle,
    /// The oldest request, from its head to the end of its reply.
    Busy,
    /// The head of a request.
    Head,
}

impl<'a> Pace<'a> {
    /// The pace of a new connection, which is idle.
    pub(super) fn new(options: &'a Options, protocol: Protocol, ledger: Ledger) -> Self {
        Self {
            options,
            protocol,
            work: ledger.stand().work,
            ledger,
            alarm: options.clock.sleep(options.keep_alive),
            head: None,
            is_ending: false,
        }
    }

    /// Whether nothing of a request is there.
    pub(super) fn is_idle(&self) -> bool {
        let stand = self.ledger.stand();
        stand.head.is_none() && matches!(stand.work, Work::Idle(_))
    }

    /// The connection is to end: from here on it is idle only for a farewell.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        if matches!(self.work, Work::Idle(_)) {
            self.alarm = self.options.clock.sleep(FAREWELL);
        }
    }

    /// What has taken too long by now, if anything. Told once, but for idleness at [`end`](Self::end), which may be told
    /// again.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Late> {
        let stand = self.ledger.stand();
        if self.work != stand.work {
            self.work = stand.work;
            self.alarm = self.options.clock.sleep(match stand.work {
                Work::Idle(_) if self.is_ending => FAREWELL,
                Work::Idle(_) => self.options.keep_alive,
                Work::Busy(_) => self.options.busy_timeout,
            });
        }
        if self.head.as_ref().map(|(number, _)| *number) != stand.head {
            let limit = self.options.head_timeout;
            self.head = stand.head.map(|number| (number, self.options.clock.sleep(limit)));
        }
        if let Some((_, alarm)) = &mut self.head {
            if alarm.as_mut().poll(cx).is_ready() {
                return Some(Late::Head);
            }
            // The head ends the idleness. In HTTP/2 it may be no request's, and a request that comes to a connection which
            // says its farewell is still served.
            if self.protocol == Protocol::Http1 {
                return None;
            }
        }
        match (self.alarm.as_mut().poll(cx), stand.work) {
            (Poll::Pending, _) => None,
            (Poll::Ready(()), Work::Idle(_)) => Some(Late::Idle),
            (Poll::Ready(()), Work::Busy(_)) => Some(Late::Busy),
        }
    }
}
