//! The three messages as bytes (MS-NLMP 2.2.1).
//!
//! The parsers borrow from the message and never panic. [`super::Server`] and [`super::Client`] interpret
//! the fields. Payload fields may be anywhere in the message.

use wire::{Cursor, Truncated, Writer};

use super::flags::NegotiateFlags;

/// A malformed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field lies outside the message.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// It does not begin with "NTLMSSP\0".
    #[error("not an NTLM message")]
    NotNtlm,
    /// The message has another type than the expected one.
    #[error("NTLM message {found} came where {expected} is due")]
    WrongType {
        /// The expected type.
        expected: u32,
        /// The actual type.
        found: u32,
    },
    /// A name is not UTF-16.
    #[error("a name is not valid UTF-16")]
    BadName,
}

/// Message type of NEGOTIATE.
const NEGOTIATE: u32 = 0x0000_0001;
/// Message type of CHALLENGE.
const CHALLENGE: u32 = 0x0000_0002;
/// Message type of AUTHENTICATE.
const AUTHENTICATE: u32 = 0x0000_0003;

/// The offset of the MIC in an AUTHENTICATE message with one.
pub const MIC_OFFSET: usize = 72;
/// Length of the MIC in bytes.
pub const MIC_LEN: usize = 16;
/// Length of CHALLENGE and AUTHENTICATE before their payload, the latter without MIC.
const CHALLENGE_HEADER_LEN: usize = 56;

/// The value of VERSION. The protocol's revision matters, and the rest is for debugging.
const VERSION: [u8; 8] = [10, 0, 0, 0, 0, 0, 0, 0x0f];

/// The client's first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiate {
    /// The features that the client offers.
    pub flags: NegotiateFlags,
}

/// Reads a NEGOTIATE message. Its domain and workstation are not needed and are ignored.
///
/// # Errors
/// [`Malformed`].
pub fn parse_negotiate(message: &[u8]) -> Result<Negotiate, Malformed> {
    let mut cursor = header(message, NEGOTIATE)?;
    Ok(Negotiate { flags: NegotiateFlags::from_bits_retain(cursor.u32_le()?) })
}

impl Negotiate {
    /// The message, without domain and workstation.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        let mut writer = Writer::new(&mut out);
        writer.bytes(SIGNATURE);
        writer.u32_le(NEGOTIATE);
        writer.u32_le(self.flags.bits());
        writer.zeros(16);
        writer.bytes(&version(self.flags));
        out
    }
}

/// The server's answer.
#[derive(Debug, Clone, Copy)]
pub struct Challenge<'a> {
    /// The features that the server chose.
    pub flags: NegotiateFlags,
    /// The nonce that the response must cover.
    pub server_challenge: [u8; 8],
    /// The server's name, UTF-16LE.
    pub target_name: &'a [u8],
    /// The bytes of the AV pairs. The response copies them.
    pub target_info: &'a [u8],
}

/// Reads a CHALLENGE message.
///
/// # Errors
/// [`Malformed`].
pub fn parse_challenge(message: &[u8]) -> Result<Challenge<'_>, Malformed> {
    let mut cursor = header(message, CHALLENGE)?;
    let target_name = field(&mut cursor)?;
    let flags = NegotiateFlags::from_bits_retain(cursor.u32_le()?);
    let server_challenge = cursor.array()?;
    // Servers from before NTLMv2 end here.
    let target_info = if flags.contains(NegotiateFlags::TARGET_INFO) {
        cursor.skip(8)?;
        field(&mut cursor)?
    } else {
        &[]
    };
    Ok(Challenge { flags, server_challenge, target_name, target_info })
}

impl Challenge<'_> {
    /// The message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let len = CHALLENGE_HEADER_LEN + self.target_name.len() + self.target_info.len();
        let mut out = Vec::with_capacity(len);
        let mut payload = CHALLENGE_HEADER_LEN;
        let mut writer = Writer::new(&mut out);
        writer.bytes(SIGNATURE);
        writer.u32_le(CHALLENGE);
        put_field(&mut writer, self.target_name, &mut payload);
        writer.u32_le(self.flags.bits());
        writer.bytes(&self.server_challenge);
        writer.zeros(8);
        put_field(&mut writer, self.target_info, &mut payload);
        writer.bytes(&version(self.flags));
        writer.bytes(self.target_name);
        writer.bytes(self.target_info);
        out
    }
}

/// The client's last message.
#[derive(Clone, Copy)]
pub struct Authenticate<'a> {
    /// Response of LM or LMv2, or empty.
    pub lm_response: &'a [u8],
    /// Response of NTLM: 24 bytes for version 1, more for version 2.
    pub nt_response: &'a [u8],
    /// Domain as the client sent it, UTF-16LE.
    pub domain: &'a [u8],
    /// User as the client sent it, UTF-16LE.
    pub user: &'a [u8],
    /// The client's machine, UTF-16LE.
    pub workstation: &'a [u8],
    /// The encrypted session key, or empty.
    pub encrypted_session_key: &'a [u8],
    /// The agreed features.
    pub flags: NegotiateFlags,
}

/// Reads an AUTHENTICATE message. `nt_response` says whether there is a MIC, so [`mic_of`] reads that
/// separately.
///
/// # Errors
/// [`Malformed`].
pub fn parse_authenticate(message: &[u8]) -> Result<Authenticate<'_>, Malformed> {
    let mut cursor = header(message, AUTHENTICATE)?;
    Ok(Authenticate {
        lm_response: field(&mut cursor)?,
        nt_response: field(&mut cursor)?,
        domain: field(&mut cursor)?,
        user: field(&mut cursor)?,
        workstation: field(&mut cursor)?,
        encrypted_session_key: field(&mut cursor)?,
        flags: NegotiateFlags::from_bits_retain(cursor.u32_le()?),
    })
}

impl Authenticate<'_> {
    /// The message with VERSION and a zero MIC. The sender then writes the MIC at [`MIC_OFFSET`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // The names come first, then the responses, as in Windows. Receivers must accept any order.
        let payloads = [
            self.domain,
            self.user,
            self.workstation,
            self.lm_response,
            self.nt_response,
            self.encrypted_session_key,
        ];
        let mut ends = MIC_OFFSET + MIC_LEN;
        let offsets = payloads.map(|payload| {
            let start = ends;
            ends += payload.len();
            start
        });
        let mut out = Vec::with_capacity(ends);
        let mut writer = Writer::new(&mut out);
        writer.bytes(SIGNATURE);
        writer.u32_le(AUTHENTICATE);
        for which in [3, 4, 0, 1, 2, 5] {
            put_field(&mut writer, payloads[which], &mut { offsets[which] });
        }
        writer.u32_le(self.flags.bits());
        writer.bytes(&version(self.flags));
        writer.zeros(MIC_LEN);
        for payload in payloads {
            writer.bytes(payload);
        }
        out
    }
}

impl std::fmt::Debug for Authenticate<'_> {
    /// Leaves out the responses and the key, since a response can be attacked off-line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticate")
            .field("user", &String::from_utf16_lossy(&units(self.user)))
            .field("domain", &String::from_utf16_lossy(&units(self.domain)))
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

/// The MIC of an AUTHENTICATE message that has one.
///
/// # Errors
/// [`Malformed`] if the message is too short for it.
pub fn mic_of(message: &[u8]) -> Result<[u8; MIC_LEN], Malformed> {
    let mut cursor = Cursor::new(message);
    cursor.skip(MIC_OFFSET)?;
    Ok(cursor.array()?)
}

/// The UTF-16 code units of a name. An odd last byte is dropped.
#[must_use]
pub fn units(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// A name as text.
///
/// # Errors
/// [`Malformed::BadName`] if it is not UTF-16.
pub fn name(bytes: &[u8]) -> Result<String, Malformed> {
    if !bytes.len().is_multiple_of(2) {
        return Err(Malformed::BadName);
    }
    String::from_utf16(&units(bytes)).map_err(|_| Malformed::BadName)
}

/// Text as UTF-16LE, the form of names and passwords in NTLM.
#[must_use]
pub fn utf16le(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Checks signature and type. Returns a reader after them.
fn header(message: &[u8], expected: u32) -> Result<Cursor<'_>, Malformed> {
    let mut cursor = Cursor::new(message);
    if cursor.bytes(SIGNATURE.len()).ok() != Some(SIGNATURE) {
        return Err(Malformed::NotNtlm);
    }
    let found = cursor.u32_le()?;
    if found == expected { Ok(cursor) } else { Err(Malformed::WrongType { expected, found }) }
}

/// The payload of the next length, maximum and offset. The offset of an empty field is ignored.
fn field<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Malformed> {
    let len = cursor.u16_le()?;
    cursor.skip(2)?;
    let offset = cursor.u32_le()?;
    if len == 0 {
        return Ok(&[]);
    }
    let offset = usize::try_from(offset).map_err(|_| Truncated { at: usize::MAX })?;
    Ok(cursor.window(offset, usize::from(len))?)
}

/// Writes length, maximum and offset of `value`, whose bytes go to `payload`. Advances `payload`.
///
/// Every name and response that this crate builds is far shorter than 64 KiB ([`super::av::push_av`]).
fn put_field(writer: &mut Writer<'_>, value: &[u8], payload: &mut usize) {
    let len = u16::try_from(value.len()).expect("fields are shorter than 64 KiB");
    writer.u16_le(len);
    writer.u16_le(len);
    writer.u32_le(u32::try_from(*payload).expect("messages are shorter than 4 GiB"));
    *payload += value.len();
}

/// The VERSION structure. It is zero unless both sides agreed on it.
fn version(flags: NegotiateFlags) -> [u8; 8] {
    if flags.contains(NegotiateFlags::VERSION) { VERSION } else { [0; 8] }
}

/// The NTLM messages inside the SMB 3.1.1 trace that Microsoft published with its key walk-through.
/// The signature at the head of every NTLM message.
pub const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";

#[cfg(test)]
pub(crate) mod captured {
    pub const NEGOTIATE: &str = "4E544C4D5353500001000000978208E20000000000000000000000000000000006038025\
         0000000F";
    pub const CHALLENGE: &str = "4E544C4D53535000020000000C000C003800000015828AE20D1D8BA31179D00800000000\
         0000000050005000440000000A0092270000000F53005500540033003100310002000C00530055005400330031003100\
         01000C0053005500540033003100310004000C0053005500540033003100310003000C00530055005400330031003100\
         07000800A1A1F5ADCBAED00100000000";
    pub const AUTHENTICATE: &str = "4E544C4D53535000030000001800180090000000EE00EE00A80000000C000C00580000\
         001A001A0064000000120012007E0000001000100096010000158288E2060380250000000FECAC77A5F385A8BF9C38\
         C706EEEDDCD3530055005400330031003100610064006D0069006E006900730074007200610074006F00720044005200\
         490056004500520033003100310000000000000000000000000000000000000000000000000063078EB639FE03E20A23\
         1C3AE3BF23080101000000000000A1A1F5ADCBAED001BC4AD05F223CC90F0000000002000C005300550054003300\
         3100310001000C0053005500540033003100310004000C0053005500540033003100310003000C0053005500540033\
         003100310007000800A1A1F5ADCBAED00106000400020000000800300030000000000000000000000000300000B61F\
         EFCAA857EA57BF1EDCEBF8974B8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A0010000000000000000000000000000000\
         00000900160063006900660073002F005300550054003300310031000000000000000000000000003B9BDFF38F5EE8F9\
         663F11A0F4C03A78";
    /// ExportedSessionKey of that exchange.
    pub const SESSION_KEY: &str = "270E1BA896585EEB7AF3472D3B4C75A7";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntlm::av::{AV_FLAG_MIC, AvPairs};
    use crate::testing::hex;

    #[test]
    fn captured_messages_are_read() {
        let negotiate = parse_negotiate(&hex(captured::NEGOTIATE)).unwrap();
        assert!(negotiate.flags.contains(NegotiateFlags::UNICODE | NegotiateFlags::KEY_EXCH));
        let bytes = hex(captured::CHALLENGE);
        let challenge = parse_challenge(&bytes).unwrap();
        assert_eq!(name(challenge.target_name).unwrap(), "SUT311");
        assert_eq!(challenge.server_challenge.as_slice(), hex("0D1D8BA31179D008"));
        let bytes = hex(captured::AUTHENTICATE);
        let authenticate = parse_authenticate(&bytes).unwrap();
        assert_eq!(name(authenticate.user).unwrap(), "administrator");
        assert_eq!(name(authenticate.domain).unwrap(), "SUT311");
        assert_eq!(name(authenticate.workstation).unwrap(), "DRIVER311");
        assert_eq!(authenticate.encrypted_session_key, hex("3B9BDFF38F5EE8F9663F11A0F4C03A78"));
        let pairs = AvPairs::parse(&authenticate.nt_response[44..]).unwrap();
        assert_eq!(pairs.flags(), AV_FLAG_MIC);
    }

    /// The AUTHENTICATE message of MS-NLMP 4.2.4.3, which has no MIC.
    #[test]
    fn the_example_without_mic_is_read() {
        let bytes = hex("4e544c4d53535000030000001800180 06c0000005400540084000000 0c000c0048000000\
             0800080054000000100010005c00000010001000d8000000358288e20501280a0000000f\
             44006f006d00610069006e005500730065007200 43004f004d0050005500540045005200\
             86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa68cd0ab851e51c96aabc927bebef6a1c\
             01010000000000000000000000000000aaaaaaaaaaaaaaaa0000000002000c0044006f006d0061006900\
             6e0001000c005300650072007600650072000000000000000000c5dad2544fc9799094ce1ce90bc9d03e");
        let authenticate = parse_authenticate(&bytes).unwrap();
        assert_eq!(name(authenticate.user).unwrap(), "User");
        assert_eq!(authenticate.lm_response.len(), 24);
        assert_eq!(authenticate.nt_response.len(), 84);
        assert_eq!(authenticate.encrypted_session_key.len(), 16);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let challenge = Challenge {
            flags: NegotiateFlags::TARGET_INFO | NegotiateFlags::VERSION,
            server_challenge: *b"12345678",
            target_name: &utf16le("BOX"),
            target_info: b"\0\0\0\0",
        };
        let bytes = challenge.encode();
        let read = parse_challenge(&bytes).unwrap();
        assert_eq!((read.flags, read.server_challenge), (challenge.flags, challenge.server_challenge));
        assert_eq!((read.target_name, read.target_info), (challenge.target_name, challenge.target_info));

        let bytes = hex(captured::AUTHENTICATE);
        let sent = parse_authenticate(&bytes).unwrap();
        let again = sent.encode();
        let read = parse_authenticate(&again).unwrap();
        assert_eq!(
            (read.user, read.domain, read.workstation, read.flags),
            (sent.user, sent.domain, sent.workstation, sent.flags)
        );
        assert_eq!(read.nt_response, sent.nt_response);
        assert_eq!(read.lm_response, sent.lm_response);
        assert_eq!(read.encrypted_session_key, sent.encrypted_session_key);
    }

    #[test]
    fn short_and_foreign_messages_are_refused() {
        let bytes = hex(captured::AUTHENTICATE);
        assert_eq!(parse_challenge(&bytes).unwrap_err(), Malformed::WrongType { expected: 2, found: 3 });
        assert_eq!(parse_negotiate(b"KERBEROS").unwrap_err(), Malformed::NotNtlm);
        for len in 0..64 {
            assert!(parse_authenticate(&bytes[..len]).is_err(), "{len} bytes");
        }
        let mut outside = bytes.clone();
        outside[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse_authenticate(&outside).is_err());
    }

    #[test]
    fn debug_shows_no_response() {
        let bytes = hex(captured::AUTHENTICATE);
        let text = format!("{:?}", parse_authenticate(&bytes).unwrap());
        assert!(text.contains("administrator") && !text.contains("response"), "{text}");
    }
}
