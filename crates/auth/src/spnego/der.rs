//! The part of DER that SPNEGO needs. Only definite lengths are valid, and every length is checked against
//! the data.

use wire::Cursor;

use super::token::BadToken;

/// SEQUENCE and SEQUENCE OF.
pub const SEQUENCE: u8 = 0x30;
/// OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// OBJECT IDENTIFIER.
pub const OBJECT_IDENTIFIER: u8 = 0x06;
/// ENUMERATED.
pub const ENUMERATED: u8 = 0x0a;
/// GeneralString.
pub const GENERAL_STRING: u8 = 0x1b;
/// `[APPLICATION 0]`, constructed: the GSS-API wrapper of a first token.
pub const APPLICATION_0: u8 = 0x60;

/// The tag of `[number]`, constructed.
pub const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// Reads one element: its tag and its content.
pub fn element<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, &'a [u8]), BadToken> {
    let tag = cursor.u8()?;
    if tag & 0x1f == 0x1f {
        return Err(BadToken::UnexpectedTag(tag));
    }
    let first = cursor.u8()?;
    let len = match first {
        0..=0x7f => usize::from(first),
        // Longer forms than necessary are not DER, but some clients send them.
        0x81..=0x84 => {
            let digits = cursor.bytes(usize::from(first & 0x7f))?;
            digits.iter().fold(0, |len, digit| (len << 8) | usize::from(*digit))
        }
        _ => return Err(BadToken::BadLength),
    };
    Ok((tag, cursor.bytes(len)?))
}

/// Reads one element. It must have this tag.
pub fn expect<'a>(cursor: &mut Cursor<'a>, tag: u8) -> Result<&'a [u8], BadToken> {
    match element(cursor)? {
        (found, content) if found == tag => Ok(content),
        (found, _) => Err(BadToken::UnexpectedTag(found)),
    }
}

/// The content of the first element of `bytes`, which must have this tag.
pub fn only(bytes: &[u8], tag: u8) -> Result<&[u8], BadToken> {
    expect(&mut Cursor::new(bytes), tag)
}

/// Writes one element with the parts in order.
pub fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(len + 6);
    out.push(tag);
    let digits = len.to_be_bytes();
    let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
    match digits {
        [] => out.push(0),
        [short @ 0..=0x7f] => out.push(*short),
        long => {
            // A usize has at most eight digits.
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_shortest_form_and_read_back() {
        for len in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
            let content = vec![0x5a; len];
            let bytes = write(OCTET_STRING, &[&content[..len / 2], &content[len / 2..]]);
            let header = match len {
                0..=0x7f => 2,
                0x80..=0xff => 3,
                0x100..=0xffff => 4,
                _ => 5,
            };
            assert_eq!(bytes.len(), header + len);
            assert_eq!(only(&bytes, OCTET_STRING), Ok(&content[..]));
        }
    }

    #[test]
    fn bad_lengths_and_tags_are_refused() {
        assert_eq!(only(&[0x04, 0x80, 0, 0], OCTET_STRING), Err(BadToken::BadLength));
        assert_eq!(only(&[0x04, 0x85, 0, 0, 0, 0, 1, 9], OCTET_STRING), Err(BadToken::BadLength));
        assert!(matches!(
            only(&[0x04, 0x84, 0xff, 0xff, 0xff, 0xff], OCTET_STRING),
            Err(BadToken::Truncated(_))
        ));
        assert_eq!(only(&[0x3f, 1, 0], OCTET_STRING), Err(BadToken::UnexpectedTag(0x3f)));
        assert_eq!(only(&[0x04, 0x82, 0, 1, 9], OCTET_STRING), Ok(&[9][..]));
    }
}
