//! NetprPathType, NetprPathCompare and NetrNameValidate: checks of names that clients leave to the server.

use super::{ERROR_INVALID_NAME, ERROR_INVALID_PARAMETER, NERR_SUCCESS, server_name};
use crate::rpc::fault::Fault;
use crate::rpc::ndr::{StubReader, Writer};

/// MS-SRVS 2.2.2.9: the type of a path, by the algorithm of 3.1.1.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum PathType {
    Unc = 4096,
    UncWildcardPath = 4097,
    UncComputer = 4144,
    UncWildcardComputer = 4145,
    Relative = 8192,
    RelativeWildcard = 8193,
    Absolute = 8194,
    AbsoluteWildcard = 8195,
    AbsoluteDrive = 8198,
    AbsoluteDriveWildcard = 8199,
    Disk = 16384,
    Lpt = 16400,
    Com = 16416,
}

pub(super) fn path_type(args: &mut StubReader<'_>, out: &mut Writer) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.29
    server_name(args)?;
    let path = args.string()?.to_string_lossy();
    let flags = args.u32()?;
    let (kind, status) = match classify(&path) {
        _ if flags > 1 => (0, ERROR_INVALID_PARAMETER),
        Some(kind) => (kind as u32, NERR_SUCCESS),
        None => (0, ERROR_INVALID_NAME),
    };
    out.u32(kind);
    out.u32(status);
    Ok(())
}

/// MS-SRVS 3.1.1.9. `None` means ERROR_INVALID_NAME.
fn classify(path: &str) -> Option<PathType> {
    if path.is_empty() || path.contains(['<', '>', '"', '|']) {
        return None;
    }
    let wild = |text: &str| text.contains(['*', '?']);
    let pick = |text: &str, plain, wildcard| Some(if wild(text) { wildcard } else { plain });
    if let Some(unc) = path.strip_prefix("\\\\") {
        return match unc.split_once('\\') {
            Some((".", rest)) => pick(rest, PathType::AbsoluteDrive, PathType::AbsoluteDriveWildcard),
            None if unc == "*" => Some(PathType::UncWildcardComputer),
            None if unc.is_empty() || unc == "." || wild(unc) => None,
            None => Some(PathType::UncComputer),
            Some((computer, _)) if computer.is_empty() || wild(computer) => None,
            Some((_, "")) => None,
            Some((_, rest)) => pick(rest, PathType::Unc, PathType::UncWildcardPath),
        };
    }
    if let Some(local) = path.strip_prefix('\\') {
        return match strip_ignore_case(local, "DEV\\") {
            Some(name) => device(name),
            None if local.eq_ignore_ascii_case("DEV") => None,
            None => pick(local, PathType::Absolute, PathType::AbsoluteWildcard),
        };
    }
    let is_drive = |drive: &str| drive.len() == 1 && drive.starts_with(|c: char| c.is_ascii_alphabetic());
    match path.split_once(':') {
        Some((drive, "")) if is_drive(drive) => return Some(PathType::Disk),
        Some((drive, rest)) if is_drive(drive) => {
            return pick(rest, PathType::AbsoluteDrive, PathType::AbsoluteDriveWildcard);
        }
        _ => {}
    }
    device(path).or_else(|| pick(path, PathType::Relative, PathType::RelativeWildcard))
}

/// Devices such as `LPT1` and `com4:`.
fn device(name: &str) -> Option<PathType> {
    let name = name.strip_suffix(':').unwrap_or(name);
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    if strip_ignore_case(name, "LPT").is_some_and(is_number) {
        Some(PathType::Lpt)
    } else if strip_ignore_case(name, "COM").is_some_and(is_number) {
        Some(PathType::Com)
    } else {
        None
    }
}

fn strip_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

pub(super) fn path_compare(args: &mut StubReader<'_>, out: &mut Writer) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.31
    server_name(args)?;
    let first = args.string()?.to_string_lossy();
    let second = args.string()?.to_string_lossy();
    args.u32()?;
    let flags = args.u32()?;
    let result = match flags {
        0 => match (canonical(&first), canonical(&second)) {
            (Some(first), Some(second)) if classify(&first) != classify(&second) => 1,
            (Some(first), Some(second)) => order(&first, &second),
            _ => ERROR_INVALID_NAME,
        },
        1 => order(&first, &second),
        _ => ERROR_INVALID_PARAMETER,
    };
    out.u32(result);
    Ok(())
}

/// The order by the values of the 16-bit units: -1, 0 or 1.
fn order(first: &str, second: &str) -> u32 {
    match first.encode_utf16().cmp(second.encode_utf16()) {
        std::cmp::Ordering::Less => u32::MAX,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    }
}

/// The path with backslashes only and without `.` and `..`. `None` if it is not a path or goes above the
/// root.
fn canonical(path: &str) -> Option<String> {
    classify(path)?;
    let path = path.replace('/', "\\");
    let lead = path.len() - path.trim_start_matches('\\').len();
    let mut parts: Vec<&str> = Vec::new();
    for part in path[lead..].split('\\') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    let lead = &path[..lead.min(2)];
    // `\\.\` keeps its dot, which is a name there.
    let dot = if path.starts_with("\\\\.\\") { ".\\" } else { "" };
    Some(format!("{lead}{dot}{}", parts.join("\\")))
}

/// MS-SRVS 2.2.2.8: the kinds of names by their numbers from 1 on. Each has its least and most characters,
/// and its forbidden characters.
const NAME_TYPES: [(usize, usize, Forbidden); 13] = [
    (1, 256, Forbidden::Default),
    (0, 256, Forbidden::Nul),
    (1, 256, Forbidden::Default),
    (1, 260, Forbidden::Computer),
    (1, 16, Forbidden::Default),
    (1, 15, Forbidden::Domain),
    (1, 80, Forbidden::Default),
    (1, 260, Forbidden::Default),
    (1, 80, Forbidden::Default),
    (1, 15, Forbidden::Default),
    (1, 260, Forbidden::Destination),
    (0, 8, Forbidden::Nul),
    (1, 15, Forbidden::Default),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forbidden {
    /// Control characters and `"/\[]:|<>+=;,?`.
    Default,
    /// No characters. A string cannot have a zero.
    Nul,
    /// Those of [`Default`](Forbidden::Default), `*`, and blanks at either end.
    Computer,
    /// Those of [`Default`](Forbidden::Default), `*`, and blanks.
    Domain,
    /// Those of [`Default`](Forbidden::Default). `*` is allowed only at the end of names of the greatest
    /// length.
    Destination,
}

pub(super) fn name_validate(args: &mut StubReader<'_>, out: &mut Writer) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.32
    server_name(args)?;
    let name = args.string()?.to_string_lossy();
    let kind = args.u32()?;
    let flags = args.u32()?;
    let rules = (kind as usize).checked_sub(1).and_then(|index| NAME_TYPES.get(index));
    let status = match rules {
        // MS-SRVS 3.1.4.32 (Windows allows the highest bit, which asks for old rules)
        _ if flags & 0x7FFF_FFFF != 0 => ERROR_INVALID_PARAMETER,
        None => ERROR_INVALID_PARAMETER,
        Some(rules) if is_valid(&name, *rules) => NERR_SUCCESS,
        Some(_) => ERROR_INVALID_NAME,
    };
    out.u32(status);
    Ok(())
}

fn is_valid(name: &str, (least, most, forbidden): (usize, usize, Forbidden)) -> bool {
    let units = name.encode_utf16().count();
    let by_default = |c: char| c < ' ' || "\"/\\[]:|<>+=;,?".contains(c);
    let characters = match forbidden {
        Forbidden::Nul => true,
        Forbidden::Default => !name.contains(by_default),
        Forbidden::Computer => {
            !name.contains(by_default) && !name.contains('*') && name.trim_matches(' ') == name
        }
        Forbidden::Domain => !name.contains(by_default) && !name.contains(['*', ' ']),
        Forbidden::Destination => {
            let body = name.strip_suffix('*').unwrap_or(name);
            !body.contains(by_default) && !body.contains('*') && (units < most || body.len() < name.len())
        }
    };
    (least..=most).contains(&units) && characters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_types_of_the_algorithm() {
        for (path, wanted) in [
            ("\\\\srv", Some(PathType::UncComputer)),
            ("\\\\*", Some(PathType::UncWildcardComputer)),
            ("\\\\srv\\share\\f", Some(PathType::Unc)),
            ("\\\\srv\\share\\*", Some(PathType::UncWildcardPath)),
            ("\\\\.\\pipe", Some(PathType::AbsoluteDrive)),
            ("\\\\.", None),
            ("\\\\.x", Some(PathType::UncComputer)),
            ("\\dir\\f", Some(PathType::Absolute)),
            ("\\dir\\?", Some(PathType::AbsoluteWildcard)),
            ("\\DEV\\LPT1", Some(PathType::Lpt)),
            ("\\dev\\com4:", Some(PathType::Com)),
            ("\\DEV\\XYZ", None),
            ("C:", Some(PathType::Disk)),
            ("c:\\x", Some(PathType::AbsoluteDrive)),
            ("c:*", Some(PathType::AbsoluteDriveWildcard)),
            ("lpt2", Some(PathType::Lpt)),
            ("COM3:", Some(PathType::Com)),
            ("a\\b", Some(PathType::Relative)),
            ("a*", Some(PathType::RelativeWildcard)),
            ("a|b", None),
            ("", None),
        ] {
            assert_eq!(classify(path), wanted, "{path}");
        }
    }

    #[test]
    fn paths_are_compared_in_canonical_form() {
        assert_eq!(canonical("a/./b\\..\\c").unwrap(), "a\\c");
        assert_eq!(canonical("\\\\srv\\\\share").unwrap(), "\\\\srv\\share");
        assert_eq!(canonical("a\\..\\.."), None);
        assert_eq!(canonical("\\\\.\\x").unwrap(), "\\\\.\\x");
        assert_eq!((order("a", "b"), order("b", "b"), order("b", "a")), (u32::MAX, 0, 1));
    }

    #[test]
    fn names_are_held_against_the_rules_of_their_kind() {
        let valid = |kind: usize, name: &str| is_valid(name, NAME_TYPES[kind - 1]);
        assert!(valid(9, "share$") && !valid(9, "") && !valid(9, "a/b") && !valid(9, &"x".repeat(81)));
        assert!(valid(2, "") && valid(2, "a/b"));
        assert!(valid(4, "pc 1") && !valid(4, " pc") && !valid(4, "p*"));
        assert!(valid(6, "DOMAIN") && !valid(6, "MY DOM") && !valid(6, &"D".repeat(16)));
        assert!(valid(11, "name*") && !valid(11, "na*me") && !valid(11, &"x".repeat(260)));
    }
}
