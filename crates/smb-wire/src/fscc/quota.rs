//! Quotas of users: the structures of a query and of a set, and the list of SIDs in a query.

use super::chain::{Chain, Full, entries};
use super::{BadBuffer, FileTime};
use wire::Cursor;

/// MS-FSCC 2.4.41 FILE_QUOTA_INFORMATION: one user's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota<'a> {
    /// When the quota was last changed. It is ignored in a set.
    pub change_time: FileTime,
    /// Bytes that the user owns. The value is ignored in a set.
    pub quota_used: i64,
    /// Bytes at which the user is warned. [`Quota::NO_LIMIT`] means never, and [`Quota::REMOVE`] removes the
    /// setting.
    pub quota_threshold: i64,
    /// Bytes that the user may own, with the same special values.
    pub quota_limit: i64,
    /// The user.
    pub sid: &'a [u8],
}

impl Quota<'_> {
    /// No warning, no limit.
    pub const NO_LIMIT: i64 = -1;
    /// Removes the user's setting.
    pub const REMOVE: i64 = -2;
}

/// Whether `sid` has the form of a SID: its count of subauthorities matches its length.
#[must_use]
pub fn is_sid(sid: &[u8]) -> bool {
    // MS-DTYP 2.4.2.2
    matches!(sid, [1, count @ 0..=15, ..] if sid.len() == 8 + 4 * usize::from(*count))
}

/// Appends as many quotas as fit in `limit` bytes. Returns their number.
///
/// # Errors
/// [`Full`] if the first one does not fit (STATUS_BUFFER_TOO_SMALL).
pub fn write_list<'a>(
    list: impl IntoIterator<Item = Quota<'a>>,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<usize, Full> {
    let mut chain = Chain::new(out, limit, 8);
    let mut written = 0;
    for quota in list {
        let Ok(out) = chain.begin(40 + quota.sid.len()) else {
            return if written == 0 { Err(Full) } else { Ok(written) };
        };
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(quota.sid.len() as u32).to_le_bytes());
        for value in [quota.change_time.0, quota.quota_used, quota.quota_threshold, quota.quota_limit] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(quota.sid);
        written += 1;
    }
    Ok(written)
}

/// Reads a list of quotas from a set, or from the reply to a query.
///
/// An item is [`BadBuffer::Value`] if its SID is invalid, or a limit is below -2 (STATUS_INVALID_PARAMETER).
pub fn read_list(data: &[u8]) -> impl Iterator<Item = Result<Quota<'_>, BadBuffer>> {
    entries(data, 8).map(|entry| {
        let mut c = Cursor::new(entry?);
        c.skip(4)?;
        let sid_len = c.u32_le()? as usize;
        let quota = Quota {
            change_time: FileTime(c.i64_le()?),
            quota_used: c.i64_le()?,
            quota_threshold: c.i64_le()?,
            quota_limit: c.i64_le()?,
            sid: c.bytes(sid_len)?,
        };
        let is_valid = is_sid(quota.sid) && quota.quota_threshold >= -2 && quota.quota_limit >= -2;
        if is_valid { Ok(quota) } else { Err(BadBuffer::Value) }
    })
}

/// MS-FSCC 2.4.41.1: reads the SIDs in a query.
pub fn read_sids(data: &[u8]) -> impl Iterator<Item = Result<&[u8], BadBuffer>> {
    entries(data, 4).map(|entry| {
        let mut c = Cursor::new(entry?);
        c.skip(4)?;
        let length = c.u32_le()? as usize;
        let sid = c.bytes(length)?;
        if is_sid(sid) { Ok(sid) } else { Err(BadBuffer::Value) }
    })
}

/// Appends a list of SIDs for a query of a client.
///
/// # Errors
/// [`Full`] if a SID is longer than the maximum.
pub fn write_sids<'a>(sids: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> Result<(), Full> {
    let mut chain = Chain::new(out, usize::MAX, 4);
    for sid in sids {
        let length = u8::try_from(sid.len()).map_err(|_| Full)?;
        let out = chain.begin(8 + sid.len())?;
        out.extend_from_slice(&[0, 0, 0, 0, length, 0, 0, 0]);
        out.extend_from_slice(sid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;
    use proptest::prelude::*;

    const USERS: &str = "01 02 000000000005 20000000 21020000";

    #[test]
    fn quotas_are_written_as_the_diagram_says() {
        let sid = hex(USERS);
        let quota = Quota {
            change_time: FileTime(1),
            quota_used: 2,
            quota_threshold: Quota::NO_LIMIT,
            quota_limit: 4,
            sid: &sid,
        };
        let one = "10000000 0100000000000000 0200000000000000 ffffffffffffffff 0400000000000000";
        let mut out = Vec::new();
        assert_eq!(write_list([quota; 3], 119, &mut out), Ok(2));
        assert_eq!(out, hex(&format!("38000000 {one} {USERS} 00000000 {one} {USERS}")));
        assert_eq!(read_list(&out).collect::<Vec<_>>(), [Ok(quota); 2]);
        assert_eq!(write_list([quota], 55, &mut out), Err(Full));
    }

    #[test]
    fn sids_must_be_whole() {
        let mut out = Vec::new();
        write_sids([&hex(USERS)[..], &hex("01 01 000000000001 00000000")], &mut out).unwrap();
        assert_eq!(read_sids(&out).map(|sid| sid.unwrap().len()).collect::<Vec<_>>(), [16, 12]);
        for bad in ["", "01", "01 02 000000000005 20000000", "02 00 000000000000", "01 10 000000000005"] {
            assert!(!is_sid(&hex(bad)), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..120)) {
            prop_assert!(read_list(&data).count() + read_sids(&data).count() <= 2 * data.len());
        }
    }
}
