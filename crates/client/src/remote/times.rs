//! Conversion between the times of a share, which count 100 ns from 1601 on (MS-DTYP 2.3.3), and those of
//! POSIX.

use smb_wire::fscc::FileTime;

/// The time from 1601 to 1970, in steps of 100 ns.
const EPOCH: i128 = FileTime::from_unix(0, 0).0 as i128;

/// Converts a time of a share to nanoseconds since 1970.
#[must_use]
pub fn unix_ns(file_time: i64) -> i128 {
    (i128::from(file_time) - EPOCH) * 100
}

/// Converts nanoseconds since 1970 to a time to set on a share. A time that no share can hold becomes zero,
/// which leaves the time as it is (MS-FSCC 2.4.7).
#[must_use]
pub fn file_time(unix_ns: i128) -> i64 {
    let time = unix_ns.div_euclid(100) + EPOCH;
    i64::try_from(time).ok().filter(|time| *time > 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_holds_the_times_from_1601_on_and_none_before() {
        let second = 1_000_000_000;
        for seconds in [-11_644_473_599_i128, -1, 0, 1, 9_300_000_000, 32_503_680_000] {
            let time = seconds * second + 700;
            assert_eq!(unix_ns(file_time(time)), time, "{seconds}");
        }
        assert_eq!(file_time(-11_644_473_600 * second), 0);
        assert_eq!(file_time(i128::from(i64::MAX) * second), 0);
    }
}
