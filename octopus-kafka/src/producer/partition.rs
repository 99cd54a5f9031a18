//! What is sent to one partition, when, and what became of it: without sockets and clocks.
//!
//! Records wait in a queue. When a connection to the leader is at hand the first of them make a batch, and are out until
//! its outcome is known. A batch that was surely not appended goes back into the queue, and its sequence numbers are used
//! again. One that may have been appended is sent again as it was, until Kafka says that it has it, or its records' time
//! is over; then the producer takes its next epoch, so that no late copy of that batch is appended behind what follows.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use kafka_protocol::error::ResponseError;
use tokio::time::Instant;

use super::{
    NotWritten, Written,
    batch::{Batch, Identity, Queued},
    verdict::{Verdict, verdict},
};
use crate::{
    backoff,
    error::{Api, Error, Kind},
};

/// The failures in a row from which on the waits between tries get no longer: about a second.
const LONGEST: u32 = 5;
/// How long a topic may be missing before its records are given up: a broker that has just started may not know it yet.
const MISSING: Duration = Duration::from_secs(2);

/// The records of one partition.
#[derive(Debug)]
pub(super) struct Partition {
    queue: VecDeque<Arc<Queued>>,
    flight: Option<Flight>,
    /// Who the next batch is of; asked for where there is none.
    identity: Option<Identity>,
    /// The sequence number of the next batch.
    sequence: i32,
    /// The bytes of records in one batch.
    most_bytes: usize,
    /// The records that are looked through for one that is not taken.
    suspects: Option<Suspects>,
    /// The records that somebody waits for, by their deadlines.
    open: BTreeSet<(Instant, u64)>,
    next_id: u64,
    failures: u32,
    not_before: Option<Instant>,
    missing_since: Option<Instant>,
    last: Option<Error>,
    settled: VecDeque<Settled>,
    /// So that partitions that lost the same broker do not come back in step.
    chance: u64,
}

/// What became of a record, by its id.
pub(super) type Settled = (u64, Result<Written, NotWritten>);

/// A batch that is out, or may have been appended.
#[derive(Debug)]
struct Flight {
    batch: Arc<Batch>,
    /// Its request is without its answer.
    is_out: bool,
    /// An earlier request may have appended it.
    may_be_written: bool,
}

/// So many records at the front of the queue are not taken as they are, together.
#[derive(Debug, Clone, Copy)]
struct Suspects {
    left: usize,
    /// How many of them are sent together next.
    most: usize,
}

/// What a partition needs to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Nothing, or time.
    Nothing,
    /// A producer id.
    Identity,
    /// A connection to the leader, to send a batch on.
    Connection,
}

/// What became of a request with a batch.
#[derive(Debug)]
pub(super) enum Answer {
    /// Kafka has it: from this offset on if that is known, and with the time of its append if the topic goes by that.
    Written {
        base_offset: Option<i64>,
        append_time: Option<i64>,
    },
    /// Kafka refused it.
    Refused(ResponseError),
    /// It did not go out.
    NotSent(Error),
    /// It may have gone out, and was not answered.
    Lost(Error),
}

impl Partition {
    /// Nothing to send yet. A batch has records of at most `most_bytes`, or one record.
    pub(super) const fn new(most_bytes: usize, chance: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            flight: None,
            identity: None,
            sequence: 0,
            most_bytes,
            suspects: None,
            open: BTreeSet::new(),
            next_id: 0,
            failures: 0,
            not_before: None,
            missing_since: None,
            last: None,
            settled: VecDeque::new(),
            chance,
        }
    }

    /// Puts a record behind the others; `make` is given its id.
    pub(super) fn push(&mut self, make: impl FnOnce(u64) -> Queued) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let queued = make(id);
        self.open.insert((queued.deadline, id));
        self.queue.push_back(Arc::new(queued));
        id
    }

    /// Nobody waits for a record any more. It is not sent, unless it is out or may have been written.
    pub(super) fn withdraw(&mut self, id: u64) {
        if let Ok(place) = self.queue.binary_search_by_key(&id, |queued| queued.id) {
            self.take_from_queue(place);
        } else if let Some(queued) = self.in_flight(id) {
            let key = (queued.deadline, id);
            self.open.remove(&key);
            self.give_up_what_nobody_waits_for();
        }
    }

    /// Whether there is nothing left of what was given to it.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.flight.is_none() && self.settled.is_empty()
    }

    /// What became of a record, until there is none.
    pub(super) fn poll_settled(&mut self) -> Option<Settled> {
        self.settled.pop_front()
    }

    /// What it needs next; nothing while a batch is out.
    pub(super) fn poll_want(&self, now: Instant) -> Want {
        let waits = self.not_before.is_some_and(|then| then > now);
        match &self.flight {
            Some(flight) if flight.is_out => Want::Nothing,
            None if self.queue.is_empty() => Want::Nothing,
            Some(_) | None if waits => Want::Nothing,
            None if self.identity.is_none() => Want::Identity,
            Some(_) | None => Want::Connection,
        }
    }

    /// When it is to be asked again, though nothing happens until then.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.open.first().map(|(deadline, _)| *deadline);
        let is_out = self.flight.as_ref().is_some_and(|flight| flight.is_out);
        let retry = self.not_before.filter(|_| !is_out && !self.is_empty());
        deadline.into_iter().chain(retry).min()
    }

    /// Until when something is waited for, if anything is.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.last().map(|(deadline, _)| *deadline)
    }

    /// Settles what is over its time.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.not_before.is_some_and(|then| then <= now) {
            self.not_before = None;
        }
        while let Some(&(deadline, id)) = self.open.first()
            && deadline <= now
        {
            let error = self.last.clone();
            let error = error.unwrap_or_else(|| Error::new(Api::Produce, Kind::Timeout));
            if let Ok(place) = self.queue.binary_search_by_key(&id, |queued| queued.id) {
                self.take_from_queue(place);
                self.refuse(id, false, error);
            } else {
                self.open.pop_first();
                self.refuse(id, true, error);
            }
        }
        self.give_up_what_nobody_waits_for();
    }

    /// A producer id came, or why there is none.
    pub(super) fn handle_identity(&mut self, identity: Result<Identity, Error>, now: Instant) {
        match identity {
            Ok(identity) => {
                self.identity = Some(identity);
                self.sequence = 0;
                self.failures = 0;
            }
            Err(error) if may_pass(&error) => self.back_off(error, now),
            Err(error) => self.give_up(&error),
        }
    }

    /// There is no connection to the leader.
    pub(super) fn handle_no_connection(&mut self, error: Error, now: Instant) {
        let is_missing = matches!(
            error.kind(),
            Kind::Response(ResponseError::UnknownTopicOrPartition)
        );
        if is_missing {
            let since = *self.missing_since.get_or_insert(now);
            if now.duration_since(since) >= MISSING {
                self.missing_since = None;
                self.give_up(&error);
                return;
            }
        } else {
            self.missing_since = None;
        }
        if is_missing || may_pass(&error) {
            self.back_off(error, now);
        } else {
            self.give_up(&error);
        }
    }

    /// A connection to the leader is at hand: the batch that is to be sent on it, and until when it is waited for. None
    /// where there is nothing left to send.
    pub(super) fn take(&mut self, now: Instant) -> Option<(Arc<Batch>, Instant)> {
        self.handle_timeout(now);
        self.missing_since = None;
        if let Some(flight) = &mut self.flight {
            let open = flight.batch.records.iter();
            let open = open.filter(|queued| self.open.contains(&(queued.deadline, queued.id)));
            let deadline = open.map(|queued| queued.deadline).max()?;
            flight.is_out = true;
            return Some((Arc::clone(&flight.batch), deadline));
        }
        if self.queue.is_empty() {
            return None;
        }
        let identity = self.identity?;
        let count = self.batch_length();
        let records: Vec<_> = self.queue.drain(..count).collect();
        let deadline = records.iter().map(|queued| queued.deadline).max()?;
        let batch = Arc::new(Batch {
            records,
            identity,
            base_sequence: self.sequence,
        });
        self.flight = Some(Flight {
            batch: Arc::clone(&batch),
            is_out: true,
            may_be_written: false,
        });
        Some((batch, deadline))
    }

    /// What became of the batch that is out.
    pub(super) fn handle_answer(&mut self, answer: Answer, now: Instant) {
        let Some(flight) = &mut self.flight else { return };
        flight.is_out = false;
        match answer {
            Answer::Written {
                base_offset,
                append_time,
            } => self.written(base_offset, append_time),
            Answer::Refused(code) => self.refused(code, now),
            Answer::NotSent(error) => {
                self.put_back();
                self.handle_no_connection(error, now);
            }
            Answer::Lost(error) => {
                flight.may_be_written = true;
                self.back_off(error, now);
            }
        }
        self.give_up_what_nobody_waits_for();
    }

    fn written(&mut self, base_offset: Option<i64>, append_time: Option<i64>) {
        let Some(flight) = self.flight.take() else { return };
        self.sequence = flight.batch.next_sequence();
        self.failures = 0;
        self.not_before = None;
        self.last = None;
        self.pass_suspects(flight.batch.records.len());
        // For a batch that it has already Kafka gives its largest timestamp, whatever the topic goes by.
        let append_time = append_time
            .filter(|time| !(flight.may_be_written && Some(*time) == flight.batch.max_timestamp()));
        for (place, queued) in (0i64..).zip(&flight.batch.records) {
            if !self.open.remove(&(queued.deadline, queued.id)) {
                continue;
            }
            let written = Written {
                partition: 0,
                offset: base_offset.map(|base| base.saturating_add(place)),
                timestamp: append_time.or(queued.record.timestamp).unwrap_or(-1),
            };
            self.settled.push_back((queued.id, Ok(written)));
        }
    }

    fn refused(&mut self, code: ResponseError, now: Instant) {
        let Some(flight) = &mut self.flight else { return };
        let error = Error::response(Api::Produce, code);
        let verdict = verdict(code);
        tracing::debug!(?code, ?verdict, "Kafka refused a batch");
        match verdict {
            Verdict::Written => return self.written(None, None),
            Verdict::AgainUnknown => {
                flight.may_be_written = true;
                return self.back_off(error, now);
            }
            Verdict::Again => {
                self.put_back();
                return self.back_off(error, now);
            }
            Verdict::Unknown => flight.may_be_written = true,
            Verdict::TooLarge | Verdict::Bad | Verdict::Denied | Verdict::Astray | Verdict::Fenced => {}
        }
        if flight.may_be_written {
            // What this refusal is about came after, or because of, what may have been appended before.
            self.land(&error);
            if verdict == Verdict::Denied {
                self.give_up(&error);
            }
            return;
        }
        let (count, size) = (flight.batch.records.len(), flight.batch.size());
        self.put_back();
        match verdict {
            Verdict::TooLarge if count > 1 => self.most_bytes = (size / 2).max(1),
            Verdict::Bad if count > 1 => self.suspect(count),
            Verdict::TooLarge | Verdict::Bad => {
                self.pass_suspects(1);
                if let Some(queued) = self.take_from_queue(0) {
                    self.refuse(queued.id, false, error);
                }
            }
            Verdict::Denied => self.give_up(&error),
            Verdict::Fenced => {
                self.identity = None;
                self.back_off(error, now);
            }
            Verdict::Astray => {
                self.renew();
                self.back_off(error, now);
            }
            Verdict::Written | Verdict::Again | Verdict::AgainUnknown | Verdict::Unknown => {}
        }
    }

    /// How many records the next batch has.
    fn batch_length(&self) -> usize {
        let most = self.suspects.map_or(usize::MAX, |suspects| suspects.most);
        let mut bytes = 0;
        let fits = |queued: &&Arc<Queued>| {
            bytes += queued.size;
            bytes <= self.most_bytes
        };
        self.queue.iter().take(most).take_while(fits).count().max(1)
    }

    /// Puts the records of a batch that was surely not appended back into the queue: those that somebody waits for.
    fn put_back(&mut self) {
        if let Some(flight) = self.flight.take_if(|flight| !flight.may_be_written) {
            for queued in flight.batch.records.iter().rev() {
                if self.open.contains(&(queued.deadline, queued.id)) {
                    self.queue.push_front(Arc::clone(queued));
                }
            }
        }
    }

    /// A batch of so many records has one that is not taken: they are sent in halves until it is found.
    fn suspect(&mut self, count: usize) {
        let left = self.suspects.map_or(0, |suspects| suspects.left).max(count);
        let most = (count / 2).max(1);
        self.suspects = Some(Suspects { left, most });
    }

    /// So many records at the front were dealt with: more of the others are sent together.
    fn pass_suspects(&mut self, count: usize) {
        if let Some(suspects) = &mut self.suspects {
            suspects.left = suspects.left.saturating_sub(count);
            suspects.most = suspects.most.saturating_mul(2).min(suspects.left);
        }
        self.suspects = self.suspects.filter(|suspects| suspects.left > 0);
    }

    /// Ends the batch that may have been appended, and fences it.
    fn land(&mut self, error: &Error) {
        let Some(flight) = self.flight.take() else { return };
        for queued in &flight.batch.records {
            if self.open.remove(&(queued.deadline, queued.id)) {
                self.refuse(queued.id, true, error.clone());
            }
        }
        self.renew();
    }

    /// What is sent from here on is of another epoch, whose sequence starts anew.
    fn renew(&mut self) {
        self.identity = self.identity.and_then(Identity::next);
        self.sequence = 0;
    }

    /// Gives up all records that are there: none of them would fare better.
    fn give_up(&mut self, error: &Error) {
        self.land(error);
        for queued in std::mem::take(&mut self.queue) {
            if self.open.remove(&(queued.deadline, queued.id)) {
                self.refuse(queued.id, false, error.clone());
            }
        }
        self.suspects = None;
        self.failures = 0;
        self.last = None;
    }

    /// Ends a batch that may have been appended once nobody waits for it.
    fn give_up_what_nobody_waits_for(&mut self) {
        let is_over = self.flight.as_ref().is_some_and(|flight| {
            let is_open = |queued: &Arc<Queued>| self.open.contains(&(queued.deadline, queued.id));
            !flight.is_out && !flight.batch.records.iter().any(is_open)
        });
        if is_over {
            self.flight = None;
            self.renew();
        }
    }

    fn back_off(&mut self, error: Error, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let chance = self.chance.wrapping_add(u64::from(self.failures));
        self.not_before = Some(now + backoff::wait(self.failures.min(LONGEST), chance));
        self.last = Some(error);
    }

    fn refuse(&mut self, id: u64, sent: bool, error: Error) {
        self.settled.push_back((id, Err(NotWritten { sent, error })));
    }

    fn take_from_queue(&mut self, place: usize) -> Option<Arc<Queued>> {
        let queued = self.queue.remove(place)?;
        self.open.remove(&(queued.deadline, queued.id));
        if self.suspects.is_some_and(|suspects| place < suspects.left) {
            self.pass_suspects(1);
        }
        Some(queued)
    }

    fn in_flight(&self, id: u64) -> Option<&Arc<Queued>> {
        let batch = &self.flight.as_ref()?.batch;
        batch.records.get(batch.place(id)?)
    }
}

/// Whether an error that came before a request may pass.
fn may_pass(error: &Error) -> bool {
    match error.kind() {
        Kind::Unreachable(_)
        | Kind::Timeout
        | Kind::Closed { .. }
        | Kind::TooLarge
        | Kind::Malformed
        | Kind::Full => true,
        // A broker that gets no producer ids from its controller in time may answer so.
        Kind::Response(ResponseError::UnknownServerError) => true,
        Kind::Response(code) => code.is_retriable(),
        Kind::SignIn(_) | Kind::Unsupported | Kind::InvalidTopic => false,
    }
}

#[cfg(test)]
mod tests;
