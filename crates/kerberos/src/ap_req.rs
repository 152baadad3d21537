//! The encryption types of an AP-REQ (RFC 4120 section 5.5.1), which the library does not tell: that of the
//! ticket, and that of the authenticator, which is the ticket's session key.
//!
//! Everything else in the token is left to the library. The parser takes DER with definite lengths only, as
//! the library does.

use wire::Cursor;

use crate::encryption_type::EncryptionType;

/// `[APPLICATION 0]`, constructed: the wrapper of GSS-API (RFC 2743 section 3.1).
const GSS: u8 = 0x60;
/// `[APPLICATION 14]`, constructed: AP-REQ.
const AP_REQ: u8 = 0x6e;
/// `[APPLICATION 1]`, constructed: Ticket.
const TICKET: u8 = 0x61;
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The identifier of an AP-REQ among the tokens of the mechanism (RFC 4121 section 4.1).
const TOK_ID: [u8; 2] = [1, 0];

/// The encryption types of ticket and authenticator, or `None` if the token is no AP-REQ.
#[must_use]
pub fn encryption_types(token: &[u8]) -> Option<[EncryptionType; 2]> {
    let request = only(only(request(token)?, AP_REQ)?, SEQUENCE)?;
    let ticket = only(only(field(request, 3)?, TICKET)?, SEQUENCE)?;
    Some([encrypted_data(field(ticket, 3)?)?, encrypted_data(field(request, 4)?)?])
}

/// The AP-REQ of a token, without the wrapper of GSS-API.
pub fn request(token: &[u8]) -> Option<&[u8]> {
    if *token.first()? == AP_REQ {
        return Some(token);
    }
    let mut inside = Cursor::new(only(token, GSS)?);
    expect(&mut inside, OBJECT_IDENTIFIER)?;
    (inside.bytes(2).ok()? == TOK_ID).then_some(())?;
    inside.bytes(inside.remaining()).ok()
}

/// The type of an EncryptedData (RFC 4120 section 5.2.9).
fn encrypted_data(bytes: &[u8]) -> Option<EncryptionType> {
    let number = only(field(only(bytes, SEQUENCE)?, 0)?, INTEGER)?;
    let first = i32::from(*number.first()? as i8);
    (number.len() <= 4).then(|| {
        EncryptionType::of(number[1..].iter().fold(first, |value, byte| value << 8 | i32::from(*byte)))
    })
}

/// The content of the first field with this number in a SEQUENCE.
fn field(fields: &[u8], number: u8) -> Option<&[u8]> {
    let mut cursor = Cursor::new(fields);
    while cursor.remaining() > 0 {
        let (tag, content) = element(&mut cursor)?;
        if tag == 0xa0 | number {
            return Some(content);
        }
    }
    None
}

fn only(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    expect(&mut Cursor::new(bytes), tag)
}

fn expect<'a>(cursor: &mut Cursor<'a>, tag: u8) -> Option<&'a [u8]> {
    element(cursor).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// The tag and the content of the next element.
fn element<'a>(cursor: &mut Cursor<'a>) -> Option<(u8, &'a [u8])> {
    let tag = cursor.u8().ok()?;
    let len = match cursor.u8().ok()? {
        short @ 0..=0x7f => usize::from(short),
        long @ 0x81..=0x84 => {
            let digits = cursor.bytes(usize::from(long & 0x7f)).ok()?;
            digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit))
        }
        _ => return None,
    };
    Some((tag, cursor.bytes(len).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let len = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, len[0], len[1]][..], content].concat()
    }

    fn encrypted(kind: &[u8]) -> Vec<u8> {
        let kind = der(0xa0, &der(INTEGER, kind));
        der(SEQUENCE, &[kind, der(0xa2, &der(4, b"cipher"))].concat())
    }

    /// An AP-REQ with a ticket and an authenticator of these types.
    fn ap_req(ticket: &[u8], authenticator: &[u8]) -> Vec<u8> {
        let parts = [der(0xa0, &[2, 1, 5]), der(0xa3, &encrypted(ticket))];
        let ticket = der(TICKET, &der(SEQUENCE, &parts.concat()));
        let fields = [der(0xa0, &[2, 1, 5]), der(0xa3, &ticket), der(0xa4, &encrypted(authenticator))];
        der(AP_REQ, &der(SEQUENCE, &fields.concat()))
    }

    fn wrapped(request: &[u8]) -> Vec<u8> {
        der(GSS, &[&[6, 1, 0x2a][..], &TOK_ID, request].concat())
    }

    #[test]
    fn the_types_of_ticket_and_authenticator_are_found() {
        let request = ap_req(&[23], &[18]);
        let found = Some([EncryptionType::Rc4, EncryptionType::Aes256Sha1]);
        assert_eq!(encryption_types(&wrapped(&request)), found);
        assert_eq!(encryption_types(&request), found);
        // A negative number, and one of two bytes.
        let odd = encryption_types(&ap_req(&[0x80], &[1, 0])).unwrap();
        assert_eq!(odd, [EncryptionType::Other(-128), EncryptionType::Other(256)]);
        assert_eq!(encryption_types(&ap_req(&[1, 2, 3, 4, 5], &[18])), None);
        assert_eq!(encryption_types(&der(GSS, &[&[6, 1, 0x2a, 3, 0][..], &request].concat())), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            noise in proptest::collection::vec(any::<u8>(), 0..80),
            at: usize,
            bit: u8,
        ) {
            let _ = encryption_types(&noise);
            let mut request = wrapped(&ap_req(&[23], &[18]));
            let at = at % request.len();
            request[at] ^= 1 << (bit % 8);
            let _ = encryption_types(&request);
            let _ = encryption_types(&request[..at]);
        }
    }
}
