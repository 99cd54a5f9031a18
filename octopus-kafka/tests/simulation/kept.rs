//! The seeds of worlds that failed once.

/// What each failed at, and its seed; nothing is read ahead in them.
pub(crate) const SEEDS: &[(&str, u64)] = &[
    (
        "a commit that waited for a join, of what the join gave to others",
        4,
    ),
    ("as before, of two topics", 51),
    ("a throttled connection that is asked who coordinates a group", 2),
    ("a throttled connection that a heartbeat is sent on", 7),
    (
        "two commits in flight, of which the first was not answered in time",
        10,
    ),
    ("as before, where the group's coordinator moves", 22),
    (
        "a connection that an answer throttled which nobody waited for",
        95,
    ),
    ("as before, of a look-up", 160),
    ("a commit that was sent after its member had left", 241),
    ("as before, where the connection took long to open", 264),
    ("a start that was read from again and again", 1454),
    ("as before, where the log was cut off", 1467),
    ("a topic that is there, and was said to be unknown", 997),
    ("records kept from before the log was cut off below them", 102_162),
    (
        "a position of a topic that is gone, whose start a join forgot",
        112_109,
    ),
    ("as before, where the join came while it was looked for", 113_200),
];

/// As these, of the protocol where the coordinator assigns.
pub(crate) const CONSUMER: &[(&str, u64)] = &[
    (
        "what was given and taken away before anyone took it, and never said not to be owned",
        1391,
    ),
    ("as before", 1644),
    (
        "a heartbeat in the moment in which its connection is throttled",
        561,
    ),
];
