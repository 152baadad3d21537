//! 8.3 names: checks whether a name is a short name. Files with other names get no short name.

use crate::Utf16;
use crate::fscc::text::split;

/// MS-FSCC 2.1.5.2.1: whether `name` is a legal 8.3 name. It has up to eight characters, then optionally a
/// dot and up to three more. All are ASCII characters that DOS allowed.
#[must_use]
pub fn is_short_name(name: Utf16<'_>) -> bool {
    let mut parts = split(name, u16::from(b'.'));
    let base = parts.next().unwrap_or_default();
    let extension = parts.next();
    let sizes = (1..=8).contains(&base.len()) && extension.is_none_or(|e| (1..=3).contains(&e.len()));
    sizes && parts.next().is_none() && name.units().all(is_short_unit)
}

fn is_short_unit(unit: u16) -> bool {
    let Ok(byte) = u8::try_from(unit) else {
        return false;
    };
    byte.is_ascii_alphanumeric() || b".!#$%&'()-@^_`{}~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16::encode as bytes_of;

    #[test]
    fn short_names_are_told_from_long_ones() {
        let short = |name: &str| is_short_name(Utf16::new(&bytes_of(name)).unwrap());
        for good in ["A", "README.TXT", "12345678.123", "FOO~1.C", "a-b_c"] {
            assert!(short(good), "{good}");
        }
        for bad in
            ["", ".a", "a.", "123456789", "a.1234", "a.b.c", "a b", "é", "a+b", "a,b", "a;b", "[a]", "a*"]
        {
            assert!(!short(bad), "{bad}");
        }
    }
}
