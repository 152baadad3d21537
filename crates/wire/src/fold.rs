//! Case folding: each character becomes one character, so folded names keep their length.
//!
//! The mapping is Unicode's upper case, if that is a single character, with the two limits of the table that
//! NTFS ships. No character outside ASCII folds into ASCII, so neither a long s nor a dotless i equals a
//! plain letter. The micro sign stays itself. Otherwise a name that people and Windows see as another one
//! could reach, or hide, a file with such a letter in its name.

/// The folded form of one character. Folding it again changes nothing.
#[inline]
#[must_use]
pub fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) if !one.is_ascii() && c != '\u{b5}' => one,
        _ => c,
    }
}

/// Folds UTF-16 in place. A surrogate pair is folded as the character that it encodes.
pub fn fold_units(units: &mut [u16]) {
    let mut at = 0;
    while at < units.len() {
        let unit = units[at];
        if unit < 0x80 {
            if (u16::from(b'a')..=u16::from(b'z')).contains(&unit) {
                units[at] = unit - 0x20;
            }
            at += 1;
            continue;
        }
        let pair = units.get(at + 1).copied();
        let found = char::decode_utf16([unit].into_iter().chain(pair)).next();
        at += match found {
            Some(Ok(c)) => {
                let mut buffer = [0; 2];
                let folded = fold(c).encode_utf16(&mut buffer);
                if folded.len() == c.len_utf16() {
                    units[at..at + folded.len()].copy_from_slice(folded);
                }
                c.len_utf16()
            }
            _ => 1,
        };
    }
}

/// Appends the folded form of a host name. Bytes that are not UTF-8 stay as they are.
pub fn fold_host(name: &[u8], out: &mut Vec<u8>) {
    if name.is_ascii() {
        out.extend(name.iter().map(u8::to_ascii_uppercase));
        return;
    }
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut buffer = [0; 4];
            out.extend_from_slice(fold(c).encode_utf8(&mut buffer).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
}

/// Whether two host names are equal except for case.
#[must_use]
pub fn eq_folded(a: &[u8], b: &[u8]) -> bool {
    if a.is_ascii() && b.is_ascii() {
        return a.eq_ignore_ascii_case(b);
    }
    folded(a).eq(folded(b))
}

/// The folded characters of a host name. A byte that is not UTF-8 counts as a character beyond all others.
fn folded(name: &[u8]) -> impl Iterator<Item = u32> + '_ {
    name.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|c| fold(c) as u32);
        valid.chain(chunk.invalid().iter().map(|&byte| 0x11_0000 + u32::from(byte)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_is_stable_and_keeps_the_number_of_units() {
        for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
            let once = fold(c);
            assert_eq!(fold(once), once, "{c:?}");
            assert_eq!(once.len_utf16(), c.len_utf16(), "{c:?}");
            assert!(c.is_ascii() || !once.is_ascii(), "{c:?}");
        }
    }

    #[test]
    fn letters_of_many_scripts_fold_and_look_alikes_do_not() {
        for (a, b) in [("straße", "STRAßE"), ("ÄÖÜ", "äöü"), ("ЖЗ", "жз"), ("ａ", "Ａ"), ("ÿ", "Ÿ")]
        {
            assert!(eq_folded(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
        for (a, b) in [("ſ", "s"), ("ı", "i"), ("µ", "μ"), ("é", "e"), ("ß", "ss"), ("\u{212a}", "k")] {
            assert!(!eq_folded(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
    }

    #[test]
    fn names_that_are_not_utf8_compare_by_their_bytes() {
        assert!(eq_folded(b"a\xff", b"A\xff"));
        assert!(!eq_folded(b"a\xff", b"a\xfe"));
        let mut out = Vec::new();
        fold_host(b"caf\xe9 \xc3\xa9", &mut out);
        assert_eq!(out, b"CAF\xe9 \xc3\x89");
    }

    #[test]
    fn units_fold_as_characters_do() {
        let mut units: Vec<u16> = "aé𐐨z".encode_utf16().chain([0xD800, 0x61]).collect();
        fold_units(&mut units);
        let wanted: Vec<u16> = "AÉ𐐀Z".encode_utf16().chain([0xD800, 0x41]).collect();
        assert_eq!(units, wanted);
    }
}
