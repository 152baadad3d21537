//! Names, paths, patterns and targets of links.

use smb_wire::Utf16;
use smb_wire::fscc::names::target::target_to_host;
use smb_wire::fscc::names::{
    Path, Syntax, fold_host, is_short_name, path_to_wire, to_host, to_wire, to_wire_units, wire_units,
};
use smb_wire::fscc::wildcard::Pattern;

/// A path from the wire, or a name of the host.
pub fn names(data: &[u8]) {
    from_host(data);
    let Some(text) = Utf16::new(&data[..data.len() & !1]) else { return };
    for syntax in [Syntax::Windows, Syntax::Posix] {
        if let Ok(path) = Path::parse(text, syntax) {
            let mut host = Vec::new();
            let _ = path.to_host(&mut host);
            for component in path.components() {
                name(component, syntax);
            }
        }
        name(text, syntax);
        let mut host = Vec::new();
        if target_to_host(text, syntax, &mut host).is_ok() {
            assert!(!host.is_empty() && host[0] != b'/' && !host.contains(&0), "{host:02x?}");
        }
    }
    let _ = is_short_name(text);
    // The first half is the pattern, and the second is the name.
    let units: Vec<u16> = text.units().collect();
    let (_, name) = units.split_at(units.len() / 2);
    let Some(pattern) = Utf16::new(&text.as_bytes()[..units.len() / 2 * 2]) else { return };
    for ignore_case in [false, true] {
        if let Ok(pattern) = Pattern::new(pattern, ignore_case) {
            let matches = pattern.matches(name);
            assert!(matches || !pattern.selects_all());
        }
    }
}

/// Checks that a client's name becomes one component on the host, and is the same after the way back.
fn name(wire: Utf16<'_>, syntax: Syntax) {
    let mut host = Vec::new();
    if to_host(wire, syntax, &mut host).is_err() {
        return;
    }
    assert!(!host.contains(&b'/') && !host.contains(&0), "{host:02x?}");
    assert!(host != b"." && host != b"..", "{host:02x?}");
    let mut back = Vec::new();
    to_wire(&host, syntax, &mut back);
    let mut again = Vec::new();
    let back = Utf16::new(&back).expect("whole units");
    assert_eq!(to_host(back, syntax, &mut again), Ok(()), "{wire:?} as {back:?}");
    assert_eq!(again, host, "{wire:?} as {back:?}");
}

fn from_host(host: &[u8]) {
    for syntax in [Syntax::Windows, Syntax::Posix] {
        let (mut bytes, mut units) = (Vec::new(), Vec::new());
        to_wire(host, syntax, &mut bytes);
        to_wire_units(host, syntax, &mut units);
        assert!(
            bytes
                .chunks_exact(2)
                .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
                .eq(units.iter().copied())
        );
        assert_eq!(wire_units(host, syntax), units.len());
        path_to_wire(host, syntax, &mut Vec::new());
    }
    fold_host(host, &mut Vec::new());
}
