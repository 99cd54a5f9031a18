//! Every number of the specification, each once.

use std::{ops::RangeInclusive, time::Duration};

/// The longest group or instance name, in bytes [CR-02].
pub const NAME_LENGTH: usize = 128;
/// The bytes of a topic's name that the topic routes make. Topics that are made otherwise may have any name.
pub const TOPIC_LENGTH: RangeInclusive<usize> = 3..=32;
/// The largest request body, in bytes [CT-05].
pub const BODY_BYTES: usize = 64 * 1024;
/// The largest body of records to write, in bytes: base64 of the largest record, and room for the rest of it. Like the
/// other limits of the routes that write, not of the specification.
pub const PRODUCE_BODY_BYTES: usize = 12 * 1024 * 1024;
/// The most records that one request writes.
pub const PRODUCE_RECORDS: usize = 500;
/// The most headers of a record that a request writes.
pub const PRODUCE_HEADERS: usize = 100;
/// The most bytes of JSON in a reply of more than one record [RP-01].
pub const REPLY_BYTES: usize = 2 * 1024 * 1024;
/// The piece in which a reply over [`REPLY_BYTES`] is made and sent, in bytes [RP-02].
pub const WINDOW_BYTES: usize = 64 * 1024;
/// The most bytes of records that a fetch asks of each broker [FE-13].
pub const FETCH_BYTES: i32 = 1024 * 1024;
/// The largest record that is read, in bytes of its batch as stored [FE-13].
pub const RECORD_BYTES: usize = 8 * 1024 * 1024;
/// The longest wait of a fetch [FE-08].
pub const MAX_WAIT: Duration = Duration::from_secs(30);
/// The wait of a fetch when neither it nor its instance names one [CR-08].
pub const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// The limits that a setting or a test may change. The defaults are the specification's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The instances that the service holds [CR-10].
    pub max_instances: usize,
    /// The instances that one user holds [CR-10].
    pub max_instances_per_user: usize,
    /// The fetches that the service polls for at once [LI-02].
    pub max_polls: usize,
    /// The fetches that one user has in progress [LI-01].
    pub max_fetches_per_user: usize,
    /// The requests that one user has in progress, from the token's check to the answer: more than any client has with
    /// four instances and a few writers. Not a limit of the specification.
    pub max_requests_per_user: usize,
    /// The topics of a namespace, and so the items of a list in a request [NS-06] [CT-06].
    pub max_topics: usize,
    /// The bytes of bodies with records to write that the service holds, each until its records are written. Not a limit
    /// of the specification.
    pub produce_bytes: usize,
    /// As many of them as one user's may be.
    pub produce_bytes_per_user: usize,
    /// The longest that a record waits for Kafka to take it: long enough for a leader that died to have a follower. Not
    /// a time of the specification.
    pub produce_wait: Duration,
    /// The longest turn of a fetch [LI-02].
    pub turn: Duration,
    /// The longest turn while other fetches wait in the line, also where they come when it has begun, so that one with
    /// records ready gets through well within the bound of [LI-04]: behind eleven quiet ones in three of these.
    pub short_turn: Duration,
    /// The longest that a request waits for another on the same instance [LK-01].
    pub lock_wait: Duration,
    /// The longest that a fetch waits for the fate of a reply with records that is being sent from its instance: its
    /// client may hold that reply already, and come back on another connection before we know. Not a time of the
    /// specification, which has a fetch refused at once [LK-02].
    pub settle_wait: Duration,
    /// The longest that a reply may take to send [RP-03].
    pub send_timeout: Duration,
    /// The longest from the first byte of a request's head to its last, and the longest of a handshake [D-32].
    pub head_timeout: Duration,
    /// The longest that a request's body may take to come [D-32].
    pub body_timeout: Duration,
    /// The time that a connection may be without a request [D-32].
    pub keep_alive: Duration,
    /// The longest that a connection may take over one request, from its head to the end of its reply: more than all
    /// waits together, so that it only ends those whose client asks and never reads. Not a time of the specification.
    pub busy_timeout: Duration,
    /// The idle time after which an instance is closed [LC-01].
    pub idle_timeout: Duration,
    /// The time between two looks for idle instances [LC-01].
    pub reap_interval: Duration,
    /// The least time between two auto-commits of fetches [AK-01].
    pub auto_commit_interval: Duration,
    /// The time that an instance's last commit and its leave of the group share [AK-03] [D-46].
    pub close_wait: Duration,
    /// The time that all instances share at shutdown [AK-03].
    pub shutdown_grace: Duration,
    /// How long a rebalance waits for the idle instance's next fetch; zero: for ever [D-23].
    pub idle_rejoin: Duration,
    /// The time that a create has to reach Kafka: its refusal comes within 10 s [D-41].
    pub open_wait: Duration,
    /// The time that Kafka has to answer a request other than a create or a fetch's turn [ER-06].
    pub call_wait: Duration,
    /// How far past its time a call is waited for before it is given up: a guard against a driver that
    /// never answers, not a time of the specification.
    pub call_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_instances: 12,
            max_instances_per_user: 4,
            max_polls: 3,
            max_fetches_per_user: 2,
            max_requests_per_user: 64,
            max_topics: 50,
            produce_bytes: 64 * 1024 * 1024,
            produce_bytes_per_user: 16 * 1024 * 1024,
            produce_wait: Duration::from_secs(30),
            turn: Duration::from_millis(500),
            short_turn: Duration::from_millis(40),
            lock_wait: Duration::from_secs(10),
            settle_wait: Duration::from_millis(200),
            send_timeout: Duration::from_secs(30),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
            busy_timeout: Duration::from_secs(180),
            idle_timeout: Duration::from_secs(300),
            reap_interval: Duration::from_secs(30),
            auto_commit_interval: Duration::from_secs(5),
            close_wait: Duration::from_secs(5),
            shutdown_grace: Duration::from_secs(8),
            idle_rejoin: Duration::from_secs(10),
            open_wait: Duration::from_secs(9),
            call_wait: Duration::from_secs(10),
            call_grace: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CR-02] [CT-05] [RP-01] [RP-02] [FE-13] [FE-08] [CR-08]
    #[test]
    fn sizes_and_waits_are_the_specifications() {
        assert_eq!(NAME_LENGTH, 128);
        assert_eq!(BODY_BYTES, 65_536);
        assert_eq!(REPLY_BYTES, 2_097_152);
        assert_eq!(WINDOW_BYTES, 65_536);
        assert_eq!(FETCH_BYTES, 1_048_576);
        assert_eq!(RECORD_BYTES, 8_388_608);
        assert_eq!(MAX_WAIT.as_millis(), 30_000);
        assert_eq!(DEFAULT_WAIT.as_millis(), 5_000);
    }

    /// [CR-10] [LI-01] [LI-02] [CT-06] [LK-01] [RP-03] [LC-01] [AK-01] [AK-03] [D-23]
    #[test]
    fn limits_are_the_specifications() {
        let limits = Limits::default();
        let counts = [
            limits.max_instances,
            limits.max_instances_per_user,
            limits.max_polls,
            limits.max_fetches_per_user,
            limits.max_topics,
        ];
        assert_eq!(counts, [12, 4, 3, 2, 50]);
        let times = [
            limits.turn,
            limits.lock_wait,
            limits.send_timeout,
            limits.idle_timeout,
            limits.reap_interval,
            limits.auto_commit_interval,
            limits.close_wait,
            limits.shutdown_grace,
            limits.idle_rejoin,
        ];
        let times = times.map(|time| time.as_millis());
        assert_eq!(
            times,
            [500, 10_000, 30_000, 300_000, 30_000, 5_000, 5_000, 8_000, 10_000]
        );
    }
}
