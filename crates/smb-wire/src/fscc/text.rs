//! Helpers of this module for [`Utf16`].

use super::BadBuffer;
use crate::Utf16;

/// The text in `bytes`.
///
/// # Errors
/// [`BadBuffer::Value`] if their number is odd.
pub fn parse(bytes: &[u8]) -> Result<Utf16<'_>, BadBuffer> {
    Utf16::new(bytes).ok_or(BadBuffer::Value)
}

/// The unit at `index`.
#[inline]
#[must_use]
pub fn unit_at(text: Utf16<'_>, index: usize) -> Option<u16> {
    text.units().nth(index)
}

/// The parts between occurrences of `separator`. There is one more part than separators.
pub fn split<'a>(text: Utf16<'a>, separator: u16) -> impl Iterator<Item = Utf16<'a>> + use<'a> {
    split_where(text, move |unit| unit == separator)
}

/// The parts between units that match `separates`. There is one more part than such units.
pub fn split_where<'a, F: Fn(u16) -> bool>(
    text: Utf16<'a>,
    separates: F,
) -> impl Iterator<Item = Utf16<'a>> + use<'a, F> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(at) = text.units().position(&separates) else {
            return Some(text);
        };
        let bytes = text.as_bytes();
        rest = bytes.get(at * 2 + 2..).and_then(Utf16::new);
        bytes.get(..at * 2).and_then(Utf16::new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16;

    #[test]
    fn splitting_keeps_empty_parts() {
        let bytes = utf16::encode("\\a\\\\b");
        let parts: Vec<String> =
            split(parse(&bytes).unwrap(), u16::from(b'\\')).map(|part| part.to_string_lossy()).collect();
        assert_eq!(parts, ["", "a", "", "b"]);
        assert_eq!(split(Utf16::EMPTY, 1).count(), 1);
    }

    #[test]
    fn odd_lengths_are_refused_and_indexes_are_checked() {
        assert_eq!(parse(b"abc"), Err(BadBuffer::Value));
        let text = parse(b"a\0b\0").unwrap();
        assert_eq!((unit_at(text, 1), unit_at(text, 2)), (Some(0x62), None));
    }
}
