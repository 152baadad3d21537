//! Converts between the times of SMB and those of the volume. SMB counts steps of 100 ns since 1601 (MS-DTYP
//! 2.3.3).

use volume::Time;
use wire::Now;

/// Seconds from 1601-01-01 to 1970-01-01.
const EPOCH_GAP: i64 = 11_644_473_600;
const TICKS: i64 = 10_000_000;

/// The FILETIME of a time of the volume. Times before 1601 become 0.
#[must_use]
pub fn to_file_time(time: Time) -> u64 {
    let ticks =
        time.secs.saturating_add(EPOCH_GAP).saturating_mul(TICKS).saturating_add(i64::from(time.nanos / 100));
    u64::try_from(ticks).unwrap_or(0)
}

/// The time of a FILETIME.
#[must_use]
pub fn from_file_time(ticks: u64) -> Time {
    let ticks = i64::try_from(ticks).unwrap_or(i64::MAX);
    let secs = ticks.div_euclid(TICKS) - EPOCH_GAP;
    Time { secs, nanos: (ticks.rem_euclid(TICKS) * 100) as u32 }
}

/// The FILETIME of a clock reading.
#[must_use]
pub fn now(now: Now) -> u64 {
    to_file_time(Time::from_wall_ns(now.wall_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unix_epoch_is_where_the_specification_has_it() {
        // MS-DTYP 2.3.3 counts from 1601; the Unix epoch is the well-known 0x019DB1DED53E8000.
        let epoch = Time { secs: 0, nanos: 0 };
        assert_eq!(to_file_time(epoch), 0x019D_B1DE_D53E_8000);
        assert_eq!(from_file_time(0x019D_B1DE_D53E_8000), epoch);
        assert_eq!(from_file_time(0), Time { secs: -EPOCH_GAP, nanos: 0 });
        assert_eq!(to_file_time(Time { secs: -EPOCH_GAP - 5, nanos: 0 }), 0);
    }
}
