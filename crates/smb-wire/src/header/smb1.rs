//! The one supported SMB1 message: the NEGOTIATE that leads to SMB2 (MS-SMB2 3.3.5.3, MS-CIFS 2.2.4.52).

use crate::malformed::Malformed;
use crate::reader::FieldReader;

/// The first four bytes of an SMB1 message.
pub const PROTOCOL_ID: [u8; 4] = *b"\xffSMB";

/// The dialect string that offers SMB 2.0.2.
pub const DIALECT_2_002: &[u8] = b"SMB 2.002";

/// The dialect string that offers SMB 2.1 or newer.
pub const DIALECT_2_WILDCARD: &[u8] = b"SMB 2.???";

const COMMAND_NEGOTIATE: u8 = 0x72;
const HEADER: usize = 32;
const DIALECT_BUFFER_FORMAT: u8 = 0x02;

/// The dialect strings of an SMB1 NEGOTIATE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiate<'a> {
    dialects: &'a [u8],
}

impl<'a> Negotiate<'a> {
    /// Parses a whole SMB1 message.
    ///
    /// # Errors
    /// [`Malformed`] if it is not an SMB1 NEGOTIATE request or its dialects are incomplete.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(message, "SMB_COM_NEGOTIATE");
        if r.array::<4>("Protocol")? != PROTOCOL_ID {
            return Err(r.wrong("Protocol"));
        }
        if r.u8("Command")? != COMMAND_NEGOTIATE {
            return Err(r.wrong("Command"));
        }
        r.skip(HEADER - 5, "header")?;
        if r.u8("WordCount")? != 0 {
            return Err(r.wrong("WordCount"));
        }
        let count = r.u16("ByteCount")?;
        let dialects = r.bytes(usize::from(count), "ByteCount")?;
        let parsed = Negotiate { dialects };
        if parsed.walk().any(|dialect| dialect.is_none()) {
            return Err(r.wrong("Dialects"));
        }
        Ok(parsed)
    }

    /// The dialect strings in order, without their zero byte.
    pub fn dialects(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.walk().map_while(|dialect| dialect)
    }

    /// Whether `dialect` is offered.
    #[must_use]
    pub fn offers(&self, dialect: &[u8]) -> bool {
        self.dialects().any(|offered| offered == dialect)
    }

    /// The dialects, with `None` at the position where the list is broken.
    fn walk(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut rest = self.dialects;
        std::iter::from_fn(move || {
            let (&format, text) = rest.split_first()?;
            let end = text.iter().position(|&byte| byte == 0);
            match end {
                Some(end) if format == DIALECT_BUFFER_FORMAT => {
                    rest = &text[end + 1..];
                    Some(Some(&text[..end]))
                }
                _ => {
                    rest = &[];
                    Some(None)
                }
            }
        })
    }

    /// Appends a whole SMB1 NEGOTIATE request. A client sends it if it does not know whether the server has
    /// SMB2.
    ///
    /// # Panics
    /// If the dialects together are longer than 65,535 bytes.
    pub fn write_request(dialects: &[&[u8]], out: &mut Vec<u8>) {
        let length: usize = dialects.iter().map(|dialect| dialect.len() + 2).sum();
        let length = u16::try_from(length).expect("dialect strings are short");
        out.extend_from_slice(&PROTOCOL_ID);
        out.push(COMMAND_NEGOTIATE);
        // Status, Flags (canonical, caseless), Flags2 (Unicode, NT status, long names, extended security).
        out.extend_from_slice(&[0, 0, 0, 0, 0x18, 0x53, 0xc8]);
        out.resize(out.len() + HEADER - 12, 0);
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        for dialect in dialects {
            out.push(DIALECT_BUFFER_FORMAT);
            out.extend_from_slice(dialect);
            out.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_must_be_whole() {
        let mut message = Vec::new();
        Negotiate::write_request(&[b"NT LM 0.12", DIALECT_2_002], &mut message);
        let parsed = Negotiate::parse(&message).unwrap();
        assert!(parsed.offers(DIALECT_2_002) && !parsed.offers(DIALECT_2_WILDCARD));
        assert_eq!(parsed.dialects().count(), 2);
        *message.last_mut().unwrap() = b'x';
        assert_eq!(Negotiate::parse(&message).unwrap_err().field, "Dialects");
    }
}
