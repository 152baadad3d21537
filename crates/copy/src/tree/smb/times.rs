//! Times of a share, which counts 100 ns from the year 1601 on (MS-DTYP 2.3.3), and those of a copy.

use smb_wire::fscc::FileTime;

/// From 1601 to 1970, in steps of 100 ns.
const EPOCH: i128 = FileTime::from_unix(0, 0).0 as i128;

/// The time of a share as a copy has it.
pub(super) fn modified(written: i64) -> i128 {
    (i128::from(written) - EPOCH) * 100
}

/// A time as it is set on a share. One that no share can hold is zero, which leaves the time as it is (MS-FSCC 2.4.7).
pub(super) fn to_set(modified: i128) -> i64 {
    let time = modified.div_euclid(100) + EPOCH;
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
            assert_eq!(modified(to_set(time)), time, "{seconds}");
        }
        assert_eq!(to_set(-11_644_473_600 * second), 0);
        assert_eq!(to_set(i128::from(i64::MAX) * second), 0);
    }
}
