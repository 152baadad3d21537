//! The target of a symbolic link: backslashes on the wire become slashes on the host.
//!
//! Unlike the path of a request it may have `.` and `..`. Only relative targets have a meaning on both
//! sides. An absolute target on the host would be another path for a client, and vice versa. Clients with
//! the POSIX extensions send slashes.

use super::path::separator;
use super::{BadName, Syntax, to_host};
use crate::Utf16;
use crate::fscc::text::split;

/// Appends the host's form of a relative target from the wire, for a link in the host's file system.
///
/// # Errors
/// [`BadName::Empty`] for an empty target, [`BadName::Forbidden`] for an absolute one or one with a drive.
/// Otherwise the error of the first bad component. `out` is unchanged then.
pub fn target_to_host(wire: Utf16<'_>, syntax: Syntax, out: &mut Vec<u8>) -> Result<(), BadName> {
    let start = out.len();
    let mut result = Ok(());
    for (at, component) in split(wire, separator(syntax)).enumerate() {
        if at > 0 {
            out.push(b'/');
        }
        result = match component {
            dots if dots == "." || dots == ".." => {
                out.extend(dots.units().map(|unit| unit as u8));
                Ok(())
            }
            empty if empty.is_empty() && at > 0 => Ok(()),
            empty if empty.is_empty() && wire.is_empty() => Err(BadName::Empty),
            empty if empty.is_empty() => Err(BadName::Forbidden),
            name => to_host(name, syntax, out),
        };
        if result.is_err() {
            out.truncate(start);
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16;

    fn to_host_of(text: &str) -> Result<Vec<u8>, BadName> {
        let mut out = Vec::new();
        target_to_host(Utf16::new(&utf16::encode(text)).unwrap(), Syntax::Windows, &mut out).map(|()| out)
    }

    #[test]
    fn relative_targets_become_those_of_the_host() {
        for (wire, host) in
            [("a", "a"), ("..\\b\\.\\c", "../b/./c"), ("x\u{f022}y\\", "x:y/"), ("a\\\\b", "a//b")]
        {
            assert_eq!(to_host_of(wire).unwrap(), host.as_bytes());
        }
    }

    #[test]
    fn absolute_targets_have_no_other_side() {
        assert_eq!(to_host_of("\\a"), Err(BadName::Forbidden));
        assert_eq!(to_host_of("\\??\\C:\\x"), Err(BadName::Forbidden));
        assert_eq!(to_host_of("C:\\x"), Err(BadName::Forbidden));
        assert_eq!(to_host_of("a/b"), Err(BadName::Forbidden));
        assert_eq!(to_host_of(""), Err(BadName::Empty));
    }

    #[test]
    fn a_target_of_a_posix_client_has_slashes() {
        let to_host_of = |text: &str| {
            let mut out = Vec::new();
            target_to_host(Utf16::new(&utf16::encode(text)).unwrap(), Syntax::Posix, &mut out).map(|()| out)
        };
        for text in ["a", "../b/./c", "a/b/", "x:y"] {
            assert_eq!(to_host_of(text).unwrap(), text.as_bytes());
        }
        assert_eq!(to_host_of("/etc"), Err(BadName::Forbidden));
    }
}
