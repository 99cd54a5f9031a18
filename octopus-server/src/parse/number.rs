//! Whole numbers, exactly [D-06].

/// What a number further from zero is taken for. It is past every bound there is.
const FURTHEST: i128 = 10i128.pow(30);

/// The value of a JSON number as it is written, such as `5`, `5.0` or `5e3`; `None` if it is not whole.
/// The text must be a JSON number.
pub(crate) fn whole(number: &str) -> Option<i128> {
    let (negative, magnitude) = sign(number);
    let (mantissa, exponent) = magnitude.split_once(['e', 'E']).unwrap_or((magnitude, "0"));
    let (units, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{units}{decimals}");
    let significant = digits.trim_end_matches('0');
    let zeros = exponent_of(exponent) - length(decimals) + length(&digits) - length(significant);
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let zeros = usize::try_from(zeros).ok()?;
    if significant.len() + zeros > 30 {
        return Some(signed(negative, FURTHEST));
    }
    format!("{significant}{:0<zeros$}", "")
        .parse()
        .ok()
        .map(|value| signed(negative, value))
}

/// The value of decimal digits with an optional minus, as a string or a query holds them; `None` for any other text.
pub(crate) fn decimal(text: &str) -> Option<i128> {
    let (negative, digits) = sign(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let value = match digits.len() {
        0 => 0,
        1..=30 => digits.parse().ok()?,
        _ => FURTHEST,
    };
    Some(signed(negative, value))
}

fn sign(text: &str) -> (bool, &str) {
    text.strip_prefix('-').map_or((false, text), |rest| (true, rest))
}

fn signed(negative: bool, magnitude: i128) -> i128 {
    if negative { -magnitude } else { magnitude }
}

/// An exponent, or one past every length that a number can have.
fn exponent_of(text: &str) -> i64 {
    let past = if text.starts_with('-') {
        -(1 << 40)
    } else {
        1 << 40
    };
    let value = text.strip_prefix('+').unwrap_or(text).parse().unwrap_or(past);
    value.clamp(-(1 << 40), 1 << 40)
}

fn length(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// [D-06]
    #[test]
    fn whole_numbers_are_read_exactly() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("0.000", 0),
            ("0e99999999999999999999", 0),
            ("5", 5),
            ("-5", -5),
            ("5.0", 5),
            ("5.00e0", 5),
            ("5e3", 5000),
            ("5E+3", 5000),
            ("0.5e1", 5),
            ("5000e-3", 5),
            ("1200.00e-2", 12),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("9223372036854775807", i128::from(i64::MAX)),
            ("-9223372036854775809", i128::from(i64::MIN) - 1),
            ("1e29", 10i128.pow(29)),
            ("1e30", FURTHEST),
            ("-1e400", -FURTHEST),
            ("1e99999999999999999999", FURTHEST),
        ] {
            assert_eq!(whole(text), Some(value), "{text}");
        }
        assert_eq!(whole(&"9".repeat(1000)), Some(FURTHEST));
        assert_eq!(whole(&format!("1{}e-1000", "0".repeat(1000))), Some(1));
        assert_eq!(whole(&format!("0.{}5e1001", "0".repeat(1000))), Some(5));
    }

    /// [D-06]
    #[test]
    fn what_is_not_whole_is_none() {
        for text in [
            "5.9",
            "-0.1",
            "5e-1",
            "1.5e0",
            "1e-99999999999999999999",
            "123.450e1",
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
        for text in [
            "", "-", "+5", " 5", "5 ", "5.0", "5e0", "0x5", "--5", "٣", "5_0", "five",
        ] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
        for (text, value) in [("5", 5), ("-5", -5), ("005", 5), ("0", 0), ("-0", 0)] {
            assert_eq!(decimal(text), Some(value), "{text}");
        }
        assert_eq!(decimal(&"9".repeat(1000)), Some(FURTHEST));
        assert_eq!(decimal(&format!("-{}1", "0".repeat(1000))), Some(-1));
    }

    proptest! {
        /// [D-06]
        #[test]
        fn any_way_to_write_a_number_reads_the_same(value: i64, zeros in 0usize..8, shift in 0usize..8) {
            let read = i128::from(value);
            let padding = "0".repeat(zeros);
            prop_assert_eq!(whole(&value.to_string()), Some(read));
            prop_assert_eq!(decimal(&value.to_string()), Some(read));
            prop_assert_eq!(whole(&format!("{value}.0{padding}")), Some(read));
            prop_assert_eq!(whole(&format!("{value}{}e-{shift}", "0".repeat(shift))), Some(read));
            prop_assert_eq!(whole(&format!("{value}.{padding}5")), None);
        }
    }
}
