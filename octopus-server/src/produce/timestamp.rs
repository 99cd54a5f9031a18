//! Times as the routes that write have them: ISO 8601 outside, milliseconds since 1970 UTC within.

use jiff::Timestamp;

/// The milliseconds of a time with its offset from UTC, such as `2030-01-31T12:00:00.25+01:00`; `None` for another text
/// and for one before 1970.
pub(super) fn parse(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_millisecond()).filter(|_| time >= Timestamp::UNIX_EPOCH)
}

/// The text of a time; `None` where it has none, such as Kafka's -1.
pub(super) fn format(milliseconds: i64) -> Option<String> {
    if milliseconds < 0 {
        return None;
    }
    let time = Timestamp::from_millisecond(milliseconds).ok()?;
    Some(format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_to_the_millisecond() {
        for (text, milliseconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2030-01-31T12:00:00Z", 1_896_091_200_000),
            // What Python's `isoformat` writes.
            ("2030-01-31T12:00:00+00:00", 1_896_091_200_000),
            ("2030-01-31T13:30:00.123456+01:30", 1_896_091_200_123),
            ("2030-01-31T12:00:00.9999Z", 1_896_091_200_999),
            ("2030-01-31 12:00:00z", 1_896_091_200_000),
        ] {
            assert_eq!(parse(text), Some(milliseconds), "{text}");
        }
        for text in [
            "",
            "1969-12-31T23:59:59.9999Z",
            "2030-01-31T12:00:00",
            "2030-01-31",
            "2030-02-30T12:00:00Z",
            "1896091200000",
            "now",
            "99999-01-31T12:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_that_is_none_has_no_text() {
        for none in [-1, i64::MIN, i64::MAX] {
            assert_eq!(format(none), None);
        }
    }

    proptest! {
        #[test]
        fn a_time_that_is_written_is_read_as_it_was(milliseconds in 0i64..250_000_000_000_000) {
            let text = format(milliseconds).unwrap();
            prop_assert_eq!(parse(&text), Some(milliseconds));
            prop_assert!(text.ends_with('Z'));
        }
    }
}
