//! One turn of a fetch: polls, and packs what was found.

use std::time::Duration;

use octopus_codec::{Body, Packed, pack};
use octopus_core::{Error, Fault, FetchPlan, Fetched, Records as _, limits::FETCH_BYTES};
use octopus_kafka::{Consumer, Polled};

/// The bytes of records above which they are packed away from the threads that serve sockets: more than one broker's
/// answer, which takes half a millisecond, and a tenth of that again to be handed over and back. So are those of which some
/// unpack: a few hundred bytes may be a record of megabytes.
const PACK_APART: usize = (FETCH_BYTES.unsigned_abs() as usize) + 64 * 1024;

/// What a turn came to.
#[derive(Debug)]
pub(super) struct Turned {
    pub(super) fetched: Fetched,
    /// The reply, if a record is in it.
    pub(super) body: Option<Body>,
}

impl Turned {
    /// Whether it found records, and has nothing else to say. A reply over 2 MiB is none: it holds a record of any size.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.body, Some(Body::Whole(_)))
            && self.fetched.started.is_empty()
            && self.fetched.failed.is_empty()
    }
}

/// Polls, within this time and until `hurried` is ready, and packs.
pub(super) async fn take(
    consumer: &Consumer,
    plan: &FetchPlan,
    within: Duration,
    hurried: impl Future<Output = ()>,
) -> Result<Turned, Error> {
    let polled = consumer.poll_until(plan, within, hurried).await?;
    packed(consumer, plan, polled).await
}

/// As [`take`], of what there is at once, for a reply that nobody waits for yet. `None` where there is less than a turn has Kafka
/// wait for [CR-07], or where it comes to no plain reply.
pub(super) async fn take_ahead(
    consumer: &Consumer,
    plan: &FetchPlan,
    hurried: impl Future<Output = ()>,
) -> Option<Turned> {
    let polled = consumer.poll_until(plan, Duration::ZERO, hurried).await.ok()?;
    if polled.is_short || polled.parts.is_empty() {
        return None;
    }
    // What this thread was just given is done first: the reply before this one is sent, and Kafka is asked for what comes behind
    // it. Packing may take a millisecond, and what wakes a thread's tasks last is not taken over by another one.
    tokio::task::yield_now().await;
    let turned = packed(consumer, plan, polled).await;
    let turned = turned.ok().filter(Turned::is_plain);
    if turned.is_none() {
        consumer.give_back(plan);
    }
    turned
}

/// Packs what a poll found.
async fn packed(consumer: &Consumer, plan: &FetchPlan, polled: Polled) -> Result<Turned, Error> {
    let Polled {
        started,
        mut failed,
        parts,
        is_short: _,
    } = polled;
    let bytes: usize = parts.iter().map(|(_, records)| records.stored_bytes()).sum();
    let is_heavy = bytes > PACK_APART || parts.iter().any(|(_, records)| records.unpacks());
    let begun: Vec<_> = parts
        .iter()
        .map(|(at, records)| (at.clone(), records.position()))
        .collect();
    let (format, max_bytes) = (plan.format, plan.max_bytes);
    let packing = move || pack(parts, format, max_bytes);
    let packed = if is_heavy {
        match tokio::task::spawn_blocking(packing).await {
            Ok(packed) => packed,
            Err(_panicked) => return Err(Error::Internal),
        }
    } else {
        packing()
    };
    let Packed {
        body,
        next,
        skipped,
        cut,
        not_utf8,
        faults,
    } = packed;
    failed.extend(faults.into_iter().filter_map(|(partition, fault)| {
        // Damage may be of the way here, and gone when the records are fetched again.
        let begun = begun.iter().find(|(at, _)| *at == partition);
        let may_pass =
            |(at, position): &(_, _)| !consumer.is_damaged(at, *position) && fault == Fault::Corrupt;
        if begun.is_some_and(may_pass) {
            tracing::info!(topic = %partition.topic, "records came damaged, and are fetched again");
            return None;
        }
        tracing::warn!(topic = %partition.topic, ?fault, "records can't be read");
        let error = Error::RecordUnreadable(partition.clone());
        Some((partition, error))
    }));
    Ok(Turned {
        fetched: Fetched {
            started,
            skipped,
            next,
            cut,
            not_utf8,
            failed,
        },
        body,
    })
}
