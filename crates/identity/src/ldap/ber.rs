//! The encoding of LDAP: BER with definite lengths (RFC 4511 section 5.1). Bytes of a server are hostile.

/// The reason why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BerError {
    /// The bytes end within an element.
    #[error("the message ends too early")]
    Truncated,
    /// A form that LDAP forbids, or a number that does not fit.
    #[error("the message has an element that LDAP does not allow")]
    Form,
    /// Another element than the one that the protocol demands here.
    #[error("the message has the element {0:#04x} in a wrong place")]
    Unexpected(u8),
}

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;

/// A reader over elements, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct BerReader<'a>(&'a [u8]);

impl<'a> BerReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> BerReader<'a> {
        BerReader(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tag of the next element.
    pub(super) fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next element: its tag and its content.
    pub(super) fn element(&mut self) -> Result<(u8, &'a [u8]), BerError> {
        let (&tag, rest) = self.0.split_first().ok_or(BerError::Truncated)?;
        // LDAP has no tags of several bytes.
        if tag & 0x1f == 0x1f {
            return Err(BerError::Form);
        }
        let (header, length) = length(rest)?.ok_or(BerError::Truncated)?;
        let rest = rest.get(header..).ok_or(BerError::Truncated)?;
        let (content, rest) = rest.split_at_checked(length).ok_or(BerError::Truncated)?;
        self.0 = rest;
        Ok((tag, content))
    }

    /// The content of the next element, which must have this tag.
    pub(super) fn expect(&mut self, wanted: u8) -> Result<&'a [u8], BerError> {
        match self.element()? {
            (tag, content) if tag == wanted => Ok(content),
            (tag, _) => Err(BerError::Unexpected(tag)),
        }
    }

    /// A sequence or a set, to read on in.
    pub(super) fn inner(&mut self, wanted: u8) -> Result<BerReader<'a>, BerError> {
        Ok(BerReader(self.expect(wanted)?))
    }

    /// A number that is not negative, in an element of this tag.
    pub(super) fn number(&mut self, wanted: u8) -> Result<u32, BerError> {
        let content = self.expect(wanted)?;
        let is_positive = content.first().is_some_and(|first| *first < 0x80) && content.len() <= 5;
        let value = content.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        u32::try_from(value).ok().filter(|_| is_positive).ok_or(BerError::Form)
    }
}

/// The number of bytes of a length and its value; none: more bytes are needed.
fn length(bytes: &[u8]) -> Result<Option<(usize, usize)>, BerError> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let count = usize::from(first & 0x7f);
    match first {
        0..=0x7f => Ok(Some((1, usize::from(first)))),
        // No indefinite lengths, and none beyond 4 GB.
        0x81..=0x84 => {
            let Some(digits) = bytes.get(1..=count) else { return Ok(None) };
            let value = digits.iter().fold(0usize, |value, byte| value << 8 | usize::from(*byte));
            Ok(Some((1 + count, value)))
        }
        _ => Err(BerError::Form),
    }
}

/// The length of the first message of `bytes`, header included; none: more bytes are needed to say.
pub(super) fn message_length(bytes: &[u8]) -> Result<Option<usize>, BerError> {
    match bytes.first() {
        None => Ok(None),
        Some(&SEQUENCE) => Ok(length(&bytes[1..])?.map(|(header, length)| 1 + header + length)),
        Some(&tag) => Err(BerError::Unexpected(tag)),
    }
}

/// A writer of elements. Nested ones are written first, then enclosed.
#[derive(Debug, Default)]
pub(super) struct BerWriter(Vec<u8>);

impl BerWriter {
    pub(super) fn element(&mut self, tag: u8, content: &[u8]) -> &mut BerWriter {
        self.0.push(tag);
        match content.len() {
            short @ 0..0x80 => self.0.push(short as u8),
            long => {
                let bytes = long.to_be_bytes();
                let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
                self.0.push(0x80 | digits.len() as u8);
                self.0.extend_from_slice(digits);
            }
        }
        self.0.extend_from_slice(content);
        self
    }

    pub(super) fn nested(&mut self, tag: u8, write: impl FnOnce(&mut BerWriter)) -> &mut BerWriter {
        let mut inner = BerWriter::default();
        write(&mut inner);
        self.element(tag, &inner.0)
    }

    pub(super) fn octets(&mut self, content: &[u8]) -> &mut BerWriter {
        self.element(OCTETS, content)
    }

    pub(super) fn boolean(&mut self, value: bool) -> &mut BerWriter {
        self.element(BOOLEAN, &[if value { 0xff } else { 0 }])
    }

    pub(super) fn number(&mut self, tag: u8, value: u32) -> &mut BerWriter {
        let bytes = value.to_be_bytes();
        let zeros = bytes.iter().take(3).take_while(|byte| **byte == 0).count();
        let digits = &bytes[zeros..];
        // A leading bit would make the number negative.
        let padded: Vec<u8> = (digits[0] >= 0x80).then_some(0).into_iter().chain(digits.to_vec()).collect();
        self.element(tag, &padded)
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}
