//! Times in the format of RFC 3339, in UTC, for people and for JSON.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::calendar::date;

/// The current time.
pub fn now() -> String {
    rfc3339(wall_ns())
}

/// The current time in nanoseconds after 1970.
pub fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The time `wall_ns` nanoseconds after 1970, in microseconds.
pub fn rfc3339(wall_ns: i64) -> String {
    let seconds = wall_ns.div_euclid(1_000_000_000);
    let micros = wall_ns.rem_euclid(1_000_000_000) / 1000;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00")
}

/// Appends the time `wall_ns` nanoseconds after 1970, as [`rfc3339`] writes it. It allocates once a second.
pub fn append_rfc3339(out: &mut Vec<u8>, wall_ns: i64) {
    thread_local! {
        /// The last second with its text. Many times in a row are of one second.
        static LAST: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    let second = wall_ns.div_euclid(1_000_000_000);
    LAST.with_borrow_mut(|(of, text)| {
        if *of != second {
            *text = rfc3339(second.saturating_mul(1_000_000_000));
            *of = second;
        }
        out.extend_from_slice(text.as_bytes());
    });
    // The microseconds stand before the six bytes of the zone.
    let mut left = wall_ns.rem_euclid(1_000_000_000) / 1000;
    for digit in out.iter_mut().rev().skip(6).take(6) {
        *digit = b'0' + (left % 10).unsigned_abs() as u8;
        left /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_date_1_counts_them() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000+00:00"),
            (951_782_399_000_001_000, "2000-02-28T23:59:59.000001+00:00"),
            (951_868_800_000_000_000, "2000-03-01T00:00:00.000000+00:00"),
            (1_795_176_000_000_000_000, "2026-11-20T12:00:00.000000+00:00"),
            (-1_000, "1969-12-31T23:59:59.999999+00:00"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000+00:00"),
        ];
        for (ns, wanted) in cases {
            assert_eq!(rfc3339(ns), wanted);
            let mut out = Vec::new();
            append_rfc3339(&mut out, ns);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
