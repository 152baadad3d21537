//! Splits a compound into its messages (MS-SMB2 3.3.5.2.7).

use super::{Header, SIZE};
use crate::malformed::Malformed;

/// The messages of one frame in order. Each one is the bytes from its own header to the next one, so that
/// offsets in its body cannot reach the next message. The iterator ends after an error.
#[derive(Debug, Clone)]
pub struct Chain<'a> {
    rest: &'a [u8],
}

impl<'a> Chain<'a> {
    /// The messages in `frame`, which begins with a header.
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Self {
        Chain { rest: frame }
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = Result<(&'a Header, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let whole = std::mem::take(&mut self.rest);
        let header = match Header::parse(whole) {
            Ok(header) => header,
            Err(error) => return Some(Err(error)),
        };
        let next = header.next_command() as usize;
        if next == 0 {
            return Some(Ok((header, whole)));
        }
        // MS-SMB2 3.3.5.2.7
        if next < SIZE || !next.is_multiple_of(8) || next >= whole.len() {
            return Some(Err(Malformed::new("SMB2 header", "NextCommand")));
        }
        let (message, rest) = whole.split_at(next);
        self.rest = rest;
        Some(Ok((header, message)))
    }
}
