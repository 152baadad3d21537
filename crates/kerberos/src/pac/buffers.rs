//! PACTYPE (MS-PAC 2.3) and the buffers that are not in NDR.

use volume::security::Sid;
use wire::Cursor;

use super::{MAX_NAME, MAX_PAC, PacError};

/// The most entries of PACTYPE. MS-PAC 2.4 defines fifteen types.
const MAX_BUFFERS: usize = 64;

/// The types of buffers (MS-PAC 2.4).
pub(super) struct Buffers;

impl Buffers {
    pub(super) const LOGON_INFO: u32 = 1;
    pub(super) const CLIENT_INFO: u32 = 10;
    pub(super) const UPN_DNS_INFO: u32 = 12;
    pub(super) const ATTRIBUTES: u32 = 17;
    pub(super) const REQUESTOR_SID: u32 = 18;
}

/// The directory of a PAC.
pub(super) struct PacType<'a> {
    buffers: Vec<(u32, &'a [u8])>,
}

impl<'a> PacType<'a> {
    /// Reads the directory.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<PacType<'a>, PacError> {
        if bytes.len() > MAX_PAC {
            return Err(PacError::TooLarge { limit: MAX_PAC, of: "bytes" });
        }
        let bad = || PacError::Malformed { structure: "PACTYPE" };
        let mut from = Cursor::new(bytes);
        let mut word = || from.u32_le().map_err(|_| bad());
        let (count, version) = (word()? as usize, word()?);
        if version != 0 {
            return Err(bad());
        }
        if count > MAX_BUFFERS {
            return Err(PacError::TooLarge { limit: MAX_BUFFERS, of: "buffers" });
        }
        let mut buffers = Vec::with_capacity(count);
        for _ in 0..count {
            let (kind, size) = (word()?, word()? as usize);
            let (low, high) = (word()?, word()?);
            let offset = (u64::from(high) << 32) | u64::from(low);
            let start =
                usize::try_from(offset).ok().filter(|start| start.is_multiple_of(8)).ok_or_else(bad)?;
            let end = start.checked_add(size).ok_or_else(bad)?;
            buffers.push((kind, bytes.get(start..end).ok_or_else(bad)?));
        }
        Ok(PacType { buffers })
    }

    /// The first buffer of a type. Further ones are ignored (MS-PAC 2.4).
    pub(super) fn find(&self, kind: u32) -> Option<&'a [u8]> {
        self.buffers.iter().find(|(known, _)| *known == kind).map(|(_, bytes)| *bytes)
    }
}

/// The text of UTF-16 bytes. A surrogate without its half is replaced, so no two names become one by losing
/// characters.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    if !bytes.len().is_multiple_of(2) || bytes.len() / 2 > MAX_NAME {
        return None;
    }
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect();
    (!text.contains('\0')).then_some(text)
}

/// PAC_CLIENT_INFO (MS-PAC 2.7): the time of the initial authentication, and the client's name.
pub(super) fn client_info(bytes: &[u8]) -> Result<(u64, String), PacError> {
    let read = || {
        let mut from = Cursor::new(bytes);
        let time = from.u64_le().ok()?;
        let length = usize::from(from.u16_le().ok()?);
        Some((time, text(from.bytes(length).ok()?)?))
    };
    read().ok_or(PacError::Malformed { structure: "PAC_CLIENT_INFO" })
}

/// UPN_DNS_INFO (MS-PAC 2.10).
pub(super) struct UpnDnsInfo {
    pub(super) upn: Option<String>,
    pub(super) dns_domain: Option<String>,
    /// The SAM name and the SID of the extended form.
    pub(super) sam: Option<(String, Sid)>,
}

/// The flag of the extended form.
const EXTENDED: u32 = 0x0000_0002;

/// Reads UPN_DNS_INFO.
pub(super) fn upn_dns_info(bytes: &[u8]) -> Result<UpnDnsInfo, PacError> {
    let read = || {
        let mut from = Cursor::new(bytes);
        let region = |from: &mut Cursor<'_>| {
            let (length, offset) = (from.u16_le().ok()?, from.u16_le().ok()?);
            bytes.get(usize::from(offset)..usize::from(offset) + usize::from(length))
        };
        let upn = text(region(&mut from)?)?;
        let dns_domain = text(region(&mut from)?)?;
        let flags = from.u32_le().ok()?;
        let sam = if flags & EXTENDED != 0 {
            let name = text(region(&mut from)?)?;
            Some((name, whole_sid(region(&mut from)?)?))
        } else {
            None
        };
        let named = |text: String| (!text.is_empty()).then_some(text);
        Some(UpnDnsInfo { upn: named(upn), dns_domain: named(dns_domain), sam })
    };
    read().ok_or(PacError::Malformed { structure: "UPN_DNS_INFO" })
}

/// PAC_REQUESTOR_SID (MS-PAC 2.15).
pub(super) fn requestor_sid(bytes: &[u8]) -> Result<Sid, PacError> {
    whole_sid(bytes).ok_or(PacError::Malformed { structure: "PAC_REQUESTOR_SID" })
}

/// A SID that fills its bytes, apart from padding.
fn whole_sid(bytes: &[u8]) -> Option<Sid> {
    let mut from = Cursor::new(bytes);
    let sid = Sid::parse(&mut from).ok()?;
    (from.remaining() < 8).then_some(sid)
}

/// PAC_ATTRIBUTES_INFO (MS-PAC 2.14): the first 32 flags.
pub(super) fn attributes(bytes: &[u8]) -> Result<u32, PacError> {
    let read = || {
        let mut from = Cursor::new(bytes);
        let length = from.u32_le().ok()?;
        let flags = from.u32_le().ok()?;
        let known = if length < 32 { (1u32 << length) - 1 } else { u32::MAX };
        Some(flags & known)
    };
    read().ok_or(PacError::Malformed { structure: "PAC_ATTRIBUTES_INFO" })
}
