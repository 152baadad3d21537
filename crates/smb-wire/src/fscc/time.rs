//! FILETIME: steps of 100 ns since 1601-01-01 UTC, and the special values in a set.

use super::BadBuffer;

/// Steps of 100 ns between 1601-01-01 and 1970-01-01.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;

/// MS-FSCC 2.1.1: a point in time in steps of 100 ns since 1601-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileTime(pub i64);

/// The meaning of a time field of FileBasicInformation in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetTime {
    /// 0: the time is unchanged.
    Keep,
    /// -1: the time is unchanged, and later operations on this Open do not change it.
    Freeze,
    /// -2: later operations on this Open change the time again.
    Thaw,
    /// The time is set, and later operations on this Open do not change it.
    To(FileTime),
}

impl FileTime {
    /// The value for an unknown time.
    pub const ZERO: FileTime = FileTime(0);

    /// From nanoseconds since 1970-01-01 UTC, rounded down to 100 ns.
    ///
    /// An `i64` of nanoseconds covers the years 1677 to 2262. A `FileTime` can hold all of them.
    #[inline]
    #[must_use]
    pub const fn from_unix_ns(ns: i64) -> FileTime {
        FileTime(ns.div_euclid(100) + UNIX_EPOCH)
    }

    /// Nanoseconds since 1970-01-01 UTC. Times before 1677 and after 2262 give the nearest value of an
    /// `i64`.
    #[inline]
    #[must_use]
    pub const fn to_unix_ns(self) -> i64 {
        self.0.saturating_sub(UNIX_EPOCH).saturating_mul(100)
    }

    /// From whole seconds and nanoseconds since 1970-01-01 UTC, as in a host's `timespec`.
    #[inline]
    #[must_use]
    pub const fn from_unix(seconds: i64, ns: u32) -> FileTime {
        FileTime(
            seconds.saturating_mul(10_000_000).saturating_add((ns / 100) as i64).saturating_add(UNIX_EPOCH),
        )
    }

    /// Whole seconds and nanoseconds (below 1,000,000,000) since 1970-01-01 UTC.
    #[inline]
    #[must_use]
    pub const fn to_unix(self) -> (i64, u32) {
        let steps = self.0.saturating_sub(UNIX_EPOCH);
        (steps.div_euclid(10_000_000), (steps.rem_euclid(10_000_000) * 100) as u32)
    }

    /// The meaning of this field in a set of FileBasicInformation.
    ///
    /// # Errors
    /// [`BadBuffer::Value`] below -2 (STATUS_INVALID_PARAMETER).
    pub const fn to_set(self) -> Result<SetTime, BadBuffer> {
        // MS-FSCC 2.4.7
        match self.0 {
            0 => Ok(SetTime::Keep),
            -1 => Ok(SetTime::Freeze),
            -2 => Ok(SetTime::Thaw),
            i64::MIN..=-3 => Err(BadBuffer::Value),
            1.. => Ok(SetTime::To(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points_in_time_agree_with_other_tools() {
        // 2009-07-25T23:00:00Z, by `date -u +%s` and by Python's datetime difference to 1601-01-01.
        assert_eq!(FileTime::from_unix_ns(1_248_562_800_000_000_000), FileTime(0x01CA_0D7B_A2FB_5800));
        assert_eq!(FileTime::from_unix_ns(0).0, 0x019D_B1DE_D53E_8000);
        assert_eq!(FileTime(0).to_unix(), (-11_644_473_600, 0));
    }

    #[test]
    fn fractions_before_1970_round_down() {
        assert_eq!(FileTime::from_unix_ns(-1), FileTime(UNIX_EPOCH - 1));
        assert_eq!(FileTime(UNIX_EPOCH - 1).to_unix(), (-1, 999_999_900));
        assert_eq!(FileTime(UNIX_EPOCH - 1).to_unix_ns(), -100);
        assert_eq!(FileTime::from_unix(-1, 999_999_999), FileTime(UNIX_EPOCH - 1));
    }

    #[test]
    fn times_out_of_range_are_held_at_the_edge() {
        assert_eq!(FileTime(i64::MAX).to_unix_ns(), i64::MAX);
        assert_eq!(FileTime(i64::MIN).to_unix_ns(), i64::MIN);
        assert_eq!(FileTime::from_unix(i64::MAX, 0), FileTime(i64::MAX));
        assert!(FileTime(FileTime::from_unix_ns(i64::MIN).0).to_unix_ns() <= i64::MIN + 100);
    }

    #[test]
    fn special_values_only_mean_something_when_set() {
        assert_eq!(FileTime(0).to_set(), Ok(SetTime::Keep));
        assert_eq!(FileTime(-1).to_set(), Ok(SetTime::Freeze));
        assert_eq!(FileTime(-2).to_set(), Ok(SetTime::Thaw));
        assert_eq!(FileTime(-3).to_set(), Err(BadBuffer::Value));
        assert_eq!(FileTime(7).to_set(), Ok(SetTime::To(FileTime(7))));
    }
}
