//! Converts one component of a name between UTF-16 on the wire and bytes on the host.
//!
//! Most names are the same text in UTF-16 and UTF-8. The others are mapped, so that every name on the host
//! has exactly one name on the wire, which maps back to it:
//!
//! | on the host | on the wire |
//! |---|---|
//! | 0x01 to 0x1F | U+F001 to U+F01F |
//! | `"` `*` `:` `<` `>` `?` `\` `\|` | U+F020 U+F021 U+F022 U+F023 U+F024 U+F025 U+F026 U+F027 |
//! | a space, a dot, as the last character | U+F028, U+F029 |
//! | a byte B, 0x80 to 0xFF, that is not part of UTF-8 | U+EF00 + B (U+EF80 to U+EFFF) |
//! | a lone surrogate encoded like UTF-8 (WTF-8) | that surrogate |
//! | a character that the rows above would produce | each of its UTF-8 bytes as U+EF00 + B |
//!
//! Services for Macintosh began the mapping of the first three rows. Windows, macOS, Linux and Samba's catia
//! module use it too. A name from the wire is refused as [`BadName::Ambiguous`] if its host name has another
//! name on the wire. A plain trailing dot or space is an exception and is kept: only clients without the
//! mapping send it, and they mean that character.
//!
//! With [`Syntax::Posix`] (for clients with the POSIX extensions) only the last three rows apply.

use super::MAX_COMPONENT;
use crate::Utf16;

/// The syntax of names on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Syntax {
    /// MS-FSCC 2.1.5: components between backslashes (or slashes), streams after colons, ten forbidden
    /// characters.
    #[default]
    Windows,
    /// The POSIX extensions: components between slashes, all other characters allowed, no streams.
    Posix,
}

/// The reason why a component from the wire is not a name. A server returns STATUS_OBJECT_NAME_INVALID for
/// all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadName {
    /// It has no characters.
    #[error("the name is empty")]
    Empty,
    /// It has more than 255 units.
    #[error("the name is longer than 255 characters")]
    TooLong,
    /// It has a forbidden character.
    #[error("the name holds a forbidden character")]
    Forbidden,
    /// It is `.` or `..`, or would become one.
    #[error("the name is a dot directory")]
    Dots,
    /// It would become a host name with another name on the wire.
    #[error("the name is not the one that its file has on the wire")]
    Ambiguous,
}

/// Row two of the table, in the order of U+F020 to U+F027.
const MAPPED: [u8; 8] = *b"\"*:<>?\\|";
const CONTROL_FIRST: u32 = 0xF001;
const CONTROL_LAST: u32 = 0xF01F;
const MAPPED_FIRST: u32 = 0xF020;
const MAPPED_LAST: u32 = 0xF027;
const LAST_SPACE: u32 = 0xF028;
const LAST_DOT: u32 = 0xF029;
const RAW_BASE: u32 = 0xEF00;
const RAW_FIRST: u32 = 0xEF80;
const RAW_LAST: u32 = 0xEFFF;

/// Appends the host's name for the component `wire` to `out`.
///
/// # Errors
/// [`BadName`]. `out` is unchanged then.
pub fn to_host(wire: Utf16<'_>, syntax: Syntax, out: &mut Vec<u8>) -> Result<(), BadName> {
    if wire.is_empty() {
        return Err(BadName::Empty);
    }
    if wire.len() > MAX_COMPONENT {
        return Err(BadName::TooLong);
    }
    let start = out.len();
    let result = decode(wire, syntax, out).and_then(|raw| {
        let name = &out[start..];
        if name == b"." || name == b".." {
            return Err(BadName::Dots);
        }
        // Only raw bytes can combine with their neighbours into a sequence with a shorter form.
        if raw && !is_wire_name_of(name, syntax, wire) { Err(BadName::Ambiguous) } else { Ok(()) }
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Whether [`to_wire`] makes `wire` from `name`. A plain final dot or space also matches.
fn is_wire_name_of(name: &[u8], syntax: Syntax, wire: Utf16<'_>) -> bool {
    let mut units = wire.units();
    let mut same = true;
    encode(name, syntax, |unit| {
        let given = units.next();
        let plain_end = matches!((u32::from(unit), given), (LAST_SPACE, Some(0x20)) | (LAST_DOT, Some(0x2E)));
        same &= given == Some(unit) || plain_end;
    });
    same && units.next().is_none()
}

/// The loop of [`to_host`]. Returns whether there was a raw byte.
fn decode(wire: Utf16<'_>, syntax: Syntax, out: &mut Vec<u8>) -> Result<bool, BadName> {
    let mut raw = false;
    let mut left = wire.len();
    for decoded in char::decode_utf16(wire.units()) {
        let c = match decoded {
            Ok(c) => c,
            Err(lone) => {
                left -= 1;
                put_surrogate(lone.unpaired_surrogate(), out);
                continue;
            }
        };
        left -= c.len_utf16();
        let code = c as u32;
        if code < 0x80 {
            if is_forbidden(code as u8, syntax) {
                return Err(BadName::Forbidden);
            }
            out.push(code as u8);
        } else if (RAW_FIRST..=RAW_LAST).contains(&code) {
            raw = true;
            out.push((code - RAW_BASE) as u8);
        } else if let Some(byte) = unmapped(code, left == 0, syntax) {
            out.push(byte);
        } else {
            let mut buffer = [0; 4];
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
    }
    Ok(raw)
}

/// The ASCII byte of a private character at this position.
fn unmapped(code: u32, last: bool, syntax: Syntax) -> Option<u8> {
    if syntax == Syntax::Posix {
        return None;
    }
    match code {
        CONTROL_FIRST..=CONTROL_LAST => Some((code - CONTROL_FIRST) as u8 + 1),
        MAPPED_FIRST..=MAPPED_LAST => Some(MAPPED[(code - MAPPED_FIRST) as usize]),
        LAST_SPACE if last => Some(b' '),
        LAST_DOT if last => Some(b'.'),
        _ => None,
    }
}

/// The private character of an ASCII byte at this position.
fn mapped(byte: u8, last: bool, syntax: Syntax) -> Option<u16> {
    if syntax == Syntax::Posix {
        return None;
    }
    let code = match byte {
        0x01..=0x1F => CONTROL_FIRST + u32::from(byte) - 1,
        b'"' => MAPPED_FIRST,
        b'*' => MAPPED_FIRST + 1,
        b':' => MAPPED_FIRST + 2,
        b'<' => MAPPED_FIRST + 3,
        b'>' => MAPPED_FIRST + 4,
        b'?' => MAPPED_FIRST + 5,
        b'\\' => MAPPED_FIRST + 6,
        b'|' => MAPPED_LAST,
        b' ' if last => LAST_SPACE,
        b'.' if last => LAST_DOT,
        _ => return None,
    };
    Some(code as u16)
}

/// Whether a character below 0x80 is forbidden in a component on the wire.
fn is_forbidden(byte: u8, syntax: Syntax) -> bool {
    // MS-FSCC 2.1.5.2
    match syntax {
        Syntax::Windows => byte < 0x20 || byte == b'/' || MAPPED.contains(&byte),
        Syntax::Posix => byte == 0 || byte == b'/',
    }
}

/// A lone surrogate as WTF-8.
fn put_surrogate(unit: u16, out: &mut Vec<u8>) {
    let low = (unit & 0x3F) as u8;
    let middle = (unit >> 6 & 0x3F) as u8;
    out.extend_from_slice(&[0xED, 0x80 | middle, 0x80 | low]);
}

/// Appends the wire's name for the host name `host` to `out`, as UTF-16LE. It has at most one unit for each
/// byte of `host`.
///
/// `.` and `..` are unchanged, for the first two entries of a listing.
pub fn to_wire(host: &[u8], syntax: Syntax, out: &mut Vec<u8>) {
    encode(host, syntax, |unit| out.extend_from_slice(&unit.to_le_bytes()));
}

/// Appends the wire's form of a host path, component by component. A `/` becomes a backslash, or stays a
/// slash with [`Syntax::Posix`].
pub fn path_to_wire(host: &[u8], syntax: Syntax, out: &mut Vec<u8>) {
    let separator = match syntax {
        Syntax::Windows => b'\\',
        Syntax::Posix => b'/',
    };
    for (at, component) in host.split(|&byte| byte == b'/').enumerate() {
        if at > 0 {
            out.extend_from_slice(&[separator, 0]);
        }
        to_wire(component, syntax, out);
    }
}

/// [`to_wire`] into 16-bit units, for matching and folding.
pub fn to_wire_units(host: &[u8], syntax: Syntax, out: &mut Vec<u16>) {
    encode(host, syntax, |unit| out.push(unit));
}

/// The dot or space for the last unit of a wire name, or `None` for any other unit. A client without the
/// mapping sends the plain character.
#[must_use]
pub fn plain_end(unit: u16) -> Option<u16> {
    match u32::from(unit) {
        LAST_SPACE => Some(u16::from(b' ')),
        LAST_DOT => Some(u16::from(b'.')),
        _ => None,
    }
}

/// The number of 16-bit units that [`to_wire`] writes for `host`.
#[must_use]
pub fn wire_units(host: &[u8], syntax: Syntax) -> usize {
    if host.is_ascii() {
        return host.len();
    }
    let mut units = 0;
    encode(host, syntax, |_| units += 1);
    units
}

#[inline]
fn encode(host: &[u8], syntax: Syntax, mut put: impl FnMut(u16)) {
    let dots = host == b"." || host == b"..";
    let mut at = 0;
    while let Some(&byte) = host.get(at) {
        if byte < 0x80 {
            at += 1;
            let last = at == host.len() && !dots;
            put(mapped(byte, last, syntax).unwrap_or(u16::from(byte)));
            continue;
        }
        let Some((code, len)) = wtf8(&host[at..]) else {
            put(RAW_BASE as u16 + u16::from(byte));
            at += 1;
            continue;
        };
        let next = at + len;
        if needs_escape(code, &host[next..], syntax) {
            host[at..next].iter().for_each(|&b| put(RAW_BASE as u16 + u16::from(b)));
        } else if let Ok(unit) = u16::try_from(code) {
            put(unit);
        } else {
            let high = (code - 0x1_0000) >> 10;
            put(0xD800 | high as u16);
            put(0xDC00 | (code & 0x3FF) as u16);
        }
        at = next;
    }
}

/// Whether a host character would not map back to itself, so that its bytes must be mapped one by one.
fn needs_escape(code: u32, rest: &[u8], syntax: Syntax) -> bool {
    match code {
        RAW_FIRST..=RAW_LAST => true,
        // A low surrogate after a high one would be read as one character.
        0xD800..=0xDBFF => matches!(wtf8(rest), Some((0xDC00..=0xDFFF, _))),
        _ => unmapped(code, rest.is_empty(), syntax).is_some(),
    }
}

/// The character beyond ASCII at the start of `bytes`, and its length. Surrogates count as characters.
fn wtf8(bytes: &[u8]) -> Option<(u32, usize)> {
    let (&lead, rest) = bytes.split_first()?;
    let (len, bits, least) = match lead {
        0xC2..=0xDF => (2, u32::from(lead & 0x1F), 0x80),
        0xE0..=0xEF => (3, u32::from(lead & 0x0F), 0x800),
        0xF0..=0xF4 => (4, u32::from(lead & 0x07), 0x1_0000),
        _ => return None,
    };
    let mut code = bits;
    for &byte in rest.get(..len - 1)? {
        if byte & 0xC0 != 0x80 {
            return None;
        }
        code = code << 6 | u32::from(byte & 0x3F);
    }
    (least..=0x10_FFFF).contains(&code).then_some((code, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16::encode as bytes_of;
    use proptest::prelude::*;

    fn host_of(wire: &str) -> Result<Vec<u8>, BadName> {
        host_of_units(&wire.encode_utf16().collect::<Vec<_>>())
    }

    fn host_of_units(wire: &[u16]) -> Result<Vec<u8>, BadName> {
        let bytes: Vec<u8> = wire.iter().flat_map(|u| u.to_le_bytes()).collect();
        let mut out = b"before/".to_vec();
        let result = to_host(Utf16::new(&bytes).unwrap(), Syntax::Windows, &mut out);
        assert!(result.is_ok() || out == b"before/");
        result.map(|()| out.split_off(7))
    }

    fn wire_of(host: &[u8]) -> Vec<u16> {
        let mut out = Vec::new();
        to_wire_units(host, Syntax::Windows, &mut out);
        out
    }

    #[test]
    fn forbidden_characters_map_as_linux_and_macos_do() {
        // The table of Linux's fs/smb/client/cifs_unicode.h (SFM_*), in its own order.
        for (byte, unit) in [
            (b'*', 0xF021),
            (b'?', 0xF025),
            (b':', 0xF022),
            (b'>', 0xF024),
            (b'<', 0xF023),
            (b'|', 0xF027),
            (b'"', 0xF020),
            (b'\\', 0xF026),
            (1, 0xF001),
            (31, 0xF01F),
        ] {
            assert_eq!(wire_of(&[b'x', byte, b'y']), [0x78, unit, 0x79]);
            assert_eq!(host_of_units(&[0x78, unit, 0x79]).unwrap(), [b'x', byte, b'y']);
        }
        assert_eq!(wire_of(b"a. "), [0x61, 0x2E, 0xF028]);
        assert_eq!(wire_of(b"a ."), [0x61, 0x20, 0xF029]);
        assert_eq!(host_of("a\u{f029}").unwrap(), b"a.");
    }

    #[test]
    fn forbidden_characters_from_the_wire_are_refused() {
        for bad in ["a*", "a?", "a<", "a>", "a\"", "a|", "a:b", "a/b", "a\\b", "a\0", "a\x1f"] {
            assert_eq!(host_of(bad), Err(BadName::Forbidden), "{bad:?}");
        }
        assert_eq!(host_of(""), Err(BadName::Empty));
        assert_eq!(host_of(&"x".repeat(256)), Err(BadName::TooLong));
        assert!(host_of(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn no_way_leads_to_a_dot_directory() {
        for bad in [".", "..", "\u{f029}", ".\u{f029}"] {
            assert_eq!(host_of(bad), Err(BadName::Dots), "{bad:?}");
        }
        assert_eq!(host_of("...").unwrap(), b"...");
        assert_eq!((wire_of(b"."), wire_of(b"..")), (vec![0x2E], vec![0x2E, 0x2E]));
    }

    #[test]
    fn private_characters_of_the_host_survive_next_to_mapped_ones() {
        let real = "a\u{f021}b".as_bytes();
        let wire = wire_of(real);
        assert_eq!(wire, [0x61, 0xEFEF, 0xEF80, 0xEFA1, 0x62]);
        assert_eq!(host_of_units(&wire).unwrap(), real);
        assert_eq!(host_of("\u{f029}x").unwrap(), "\u{f029}x".as_bytes());
        assert_eq!(host_of("\u{f0b7} list").unwrap(), "\u{f0b7} list".as_bytes());
    }

    #[test]
    fn a_second_way_to_a_plain_name_is_refused() {
        // The bytes of é one by one. The name on the wire is é.
        assert_eq!(host_of("\u{efc3}\u{efa9}"), Err(BadName::Ambiguous));
        assert_eq!(host_of("\u{efff}.").unwrap(), b"\xff.");
    }

    #[test]
    fn surrogates_travel_as_wtf8() {
        assert_eq!(host_of_units(&[0xD800]).unwrap(), [0xED, 0xA0, 0x80]);
        assert_eq!(host_of_units(&[0xDC00, 0xD800]).unwrap(), [0xED, 0xB0, 0x80, 0xED, 0xA0, 0x80]);
        assert_eq!(wire_of(&[0xED, 0xA0, 0x80, 0xED, 0xB0, 0x80]), [0xEFED, 0xEFA0, 0xEF80, 0xDC00]);
        assert_eq!(host_of("𝄞").unwrap(), "𝄞".as_bytes());
    }

    #[test]
    fn paths_are_mapped_component_by_component() {
        let mut out = Vec::new();
        path_to_wire("a./b:/é".as_bytes(), Syntax::Windows, &mut out);
        assert_eq!(out, bytes_of("a\u{f029}\\b\u{f022}\\é"));
        out.clear();
        path_to_wire(b"a./b", Syntax::Posix, &mut out);
        assert_eq!(out, bytes_of("a./b"));
    }

    #[test]
    fn posix_clients_see_names_as_they_are() {
        let name = br#"a:b*"c\d. "#;
        let mut wire = Vec::new();
        to_wire(name, Syntax::Posix, &mut wire);
        assert_eq!(wire, bytes_of(r#"a:b*"c\d. "#));
        let mut host = Vec::new();
        to_host(Utf16::new(&wire).unwrap(), Syntax::Posix, &mut host).unwrap();
        assert_eq!(host, name);
        assert_eq!(
            to_host(Utf16::new(b"a\0/\0").unwrap(), Syntax::Posix, &mut host),
            Err(BadName::Forbidden)
        );
    }

    fn awkward_bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            (0xEE00u32..0xF100).prop_map(|c| char::from_u32(c).unwrap().to_string().into_bytes()),
            any::<u8>().prop_map(|b| vec![b]),
            (0xD800u16..=0xDFFF).prop_map(|u| {
                let mut out = Vec::new();
                put_surrogate(u, &mut out);
                out
            }),
            Just(b".".to_vec()),
            Just(b" ".to_vec()),
        ];
        proptest::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_host_name_comes_back(name in awkward_bytes(), posix in any::<bool>()) {
            prop_assume!(!name.contains(&0) && !name.contains(&b'/') && name != b"." && name != b"..");
            let syntax = if posix { Syntax::Posix } else { Syntax::Windows };
            let mut wire = Vec::new();
            to_wire(&name, syntax, &mut wire);
            prop_assert!(wire.len() <= name.len() * 2);
            let mut back = Vec::new();
            prop_assert_eq!(to_host(Utf16::new(&wire).unwrap(), syntax, &mut back), Ok(()));
            prop_assert_eq!(back, name);
        }

        #[test]
        fn every_wire_name_has_one_host_name_or_none(
            units in proptest::collection::vec(
                prop_oneof![any::<u16>(), 0xEF70u16..0xF030, 0xD800u16..0xE000, 0x20u16..0x7F], 1..8)
        ) {
            if let Ok(host) = host_of_units(&units) {
                prop_assert!(!host.contains(&0) && !host.contains(&b'/'));
                let mut wire = wire_of(&host);
                let end = wire.len() - 1;
                if let (Some(0x2E), 0xF029) | (Some(0x20), 0xF028) = (units.last().copied(), wire[end]) {
                    wire[end] = *units.last().unwrap();
                }
                prop_assert_eq!(wire, units);
            }
        }
    }
}
