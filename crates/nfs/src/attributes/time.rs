//! Conversion of times between NFS and the host.

use nfs_wire::NfsStat;
use nfs_wire::types::NfsTime;
use volume::Time;

/// A time in wire format.
#[must_use]
pub fn time(time: Time) -> NfsTime {
    NfsTime { seconds: time.secs, nseconds: time.nanos }
}

/// A time that a client sent.
///
/// # Errors
/// NFS4ERR_INVAL.
pub fn time_of(time: NfsTime) -> Result<Time, NfsStat> {
    let NfsTime { seconds: secs, nseconds: nanos } = time;
    if nanos < 1_000_000_000 { Ok(Time { secs, nanos }) } else { Err(NfsStat::Inval) }
}
