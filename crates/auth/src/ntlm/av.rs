//! AV pairs: the names, the time and the flags inside CHALLENGE and NTLMv2 responses (MS-NLMP 2.2.2.1).

use wire::{Cursor, Now};

use super::message::Malformed;

/// The type of an AV pair. Numbers without a name are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AvId(pub u16);

impl AvId {
    /// End of the list.
    pub const EOL: AvId = AvId(0x0000);
    /// NetBIOS name of the server.
    pub const NB_COMPUTER_NAME: AvId = AvId(0x0001);
    /// NetBIOS name of the server's domain.
    pub const NB_DOMAIN_NAME: AvId = AvId(0x0002);
    /// DNS name of the server.
    pub const DNS_COMPUTER_NAME: AvId = AvId(0x0003);
    /// DNS name of the server's domain.
    pub const DNS_DOMAIN_NAME: AvId = AvId(0x0004);
    /// DNS name of the forest.
    pub const DNS_TREE_NAME: AvId = AvId(0x0005);
    /// 32 bits. Only [`AV_FLAG_MIC`] is used here.
    pub const FLAGS: AvId = AvId(0x0006);
    /// A FILETIME.
    pub const TIMESTAMP: AvId = AvId(0x0007);
    /// Identifies the client's machine and boot.
    pub const SINGLE_HOST: AvId = AvId(0x0008);
    /// The service name that the client meant to reach.
    pub const TARGET_NAME: AvId = AvId(0x0009);
    /// MD5 of the channel bindings, or zeros.
    pub const CHANNEL_BINDINGS: AvId = AvId(0x000a);
}

/// The bit of [`AvId::FLAGS`] for an AUTHENTICATE message with a MIC.
pub const AV_FLAG_MIC: u32 = 0x0000_0002;
/// The bit for a target name from a source that the client does not trust.
pub const AV_FLAG_UNVERIFIED_TARGET: u32 = 0x0000_0004;

/// A valid list of AV pairs.
#[derive(Debug, Clone, Copy)]
pub struct AvPairs<'a>(&'a [u8]);

impl<'a> AvPairs<'a> {
    /// Checks a list. It ends with [`AvId::EOL`] or, from some old clients, with its bytes. Bytes after the
    /// end are padding and ignored.
    ///
    /// # Errors
    /// [`Malformed`] if a value is longer than the rest.
    pub fn parse(bytes: &'a [u8]) -> Result<AvPairs<'a>, Malformed> {
        let mut cursor = Cursor::new(bytes);
        while cursor.remaining() > 0 {
            let id = AvId(cursor.u16_le()?);
            let len = cursor.u16_le()?;
            if id == AvId::EOL {
                break;
            }
            cursor.skip(usize::from(len))?;
        }
        Ok(AvPairs(&bytes[..cursor.position()]))
    }

    /// The pairs in order, without the end mark.
    pub fn iter(&self) -> impl Iterator<Item = (AvId, &'a [u8])> + use<'a> {
        let mut cursor = Cursor::new(self.0);
        std::iter::from_fn(move || {
            let id = AvId(cursor.u16_le().ok()?);
            let len = cursor.u16_le().ok()?;
            if id == AvId::EOL { None } else { Some((id, cursor.bytes(usize::from(len)).ok()?)) }
        })
    }

    /// The value of the first pair with this identifier.
    #[must_use]
    pub fn get(&self, id: AvId) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| *found == id).map(|(_, value)| value)
    }

    /// The flags, or 0 without any.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.get(AvId::FLAGS).and_then(|value| value.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    /// The FILETIME, if there is one of the right size.
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.get(AvId::TIMESTAMP).and_then(|value| value.try_into().ok()).map(u64::from_le_bytes)
    }
}

/// Appends one pair. A value over 64 KiB is cut. The names that use it are limited far below that.
pub fn push_av(out: &mut Vec<u8>, id: AvId, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&id.0.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&value[..usize::from(len)]);
}

/// Wall time in 100 ns since 1601. The clock has no earlier time.
pub(crate) fn filetime(now: Now) -> u64 {
    const EPOCH_1970: i64 = 116_444_736_000_000_000;
    u64::try_from(now.wall_ns.div_euclid(100) + EPOCH_1970).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn pairs_of_a_captured_challenge_are_read() {
        let bytes = hex("02000C0053005500540033003100310001000C00530055005400330031003100\
             07000800A1A1F5ADCBAED00100000000");
        let pairs = AvPairs::parse(&bytes).unwrap();
        let ids: Vec<u16> = pairs.iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [2, 1, 7]);
        assert_eq!(pairs.timestamp(), Some(0x01d0_aecb_adf5_a1a1));
        assert_eq!(pairs.flags(), 0);
    }

    #[test]
    fn a_value_that_overruns_is_malformed_and_padding_is_not() {
        assert!(AvPairs::parse(&hex("060004000200")).is_err());
        assert!(AvPairs::parse(&hex("0600")).is_err());
        let padded = hex("06000400020000000000000000000000");
        assert_eq!(AvPairs::parse(&padded).unwrap().flags(), AV_FLAG_MIC);
        assert_eq!(AvPairs::parse(&[]).unwrap().iter().count(), 0);
    }
}
