//! Renames, links and short names (MS-FSA 2.1.5.15.7, 2.1.5.15.12 and 2.1.5.15.14).

use smb_wire::fscc::file::{RenameFlags, RenameLayout, RenameRequest, read_name};
use smb_wire::fscc::names::BadStream;
use smb_wire::fscc::names::path::{StreamType, parse_stream};
use smb_wire::fscc::names::{Syntax, is_short_name};
use smb_wire::{NtStatus, Utf16};
use volume::security::Rights;

use super::InfoChange;
use super::file::status_of;
use crate::exchange::Stop;
use crate::info::names::{STREAM_SYNTAX, name, syntax};
use crate::path::{self, ParsedPath};

/// Renames the object of the Open. A name with a leading colon renames a stream, any other the file.
// MS-SMB2 3.3.5.21.1
// MS-FSA 2.1.5.15.12
pub(super) fn rename(change: &InfoChange<'_>, layout: RenameLayout) -> Result<(), Stop> {
    let parsed = RenameRequest::parse(change.buffer, layout).map_err(status_of)?;
    check_root(&parsed)?;
    let replaces = parsed.flags.contains(RenameFlags::REPLACE_IF_EXISTS);
    let syntax = syntax(change.file);
    let name = without_separator(parsed.name);
    let step = if syntax == Syntax::Windows && parsed.name.units().next() == Some(u16::from(b':')) {
        let name = new_stream(parsed.name, change.file.is_directory())?;
        change.engine.rename(change.caller, change.file, &[], Some(&name), replaces, false)
    } else {
        let to = target(name, syntax)?;
        let posix = parsed.flags.contains(RenameFlags::POSIX_SEMANTICS);
        change.engine.rename(change.caller, change.file, &to.names, None, replaces, posix)
    };
    change.settle(step)
}

/// Adds a hard link to the file.
// MS-FSA 2.1.5.15.7
pub(super) fn link(change: &InfoChange<'_>, layout: RenameLayout) -> Result<(), Stop> {
    let parsed = RenameRequest::parse(change.buffer, layout).map_err(status_of)?;
    check_root(&parsed)?;
    Stop::when(change.file.stream().is_some(), NtStatus::INVALID_PARAMETER)?;
    Stop::when(change.file.is_directory(), NtStatus::FILE_IS_A_DIRECTORY)?;
    let to = target(without_separator(parsed.name), syntax(change.file))?;
    let replaces = parsed.flags.contains(RenameFlags::REPLACE_IF_EXISTS);
    change.settle(change.engine.link(change.caller, change.file, &to.names, replaces))
}

/// Refuses a root handle for a relative name, since such handles exist on one machine only.
// MS-SMB2 3.3.5.21.1
fn check_root(parsed: &RenameRequest<'_>) -> Result<(), Stop> {
    if parsed.root_directory == 0 { Ok(()) } else { Err(Stop::Fail(NtStatus::INVALID_PARAMETER)) }
}

/// The new path of a file.
fn target(name: Utf16<'_>, syntax: Syntax) -> Result<ParsedPath, Stop> {
    let target = path::parse(name, syntax)?;
    if target.stream.is_some() {
        // MS-FSA 2.1.5.15.12 (exception: Windows treats the path of a stream like one that is in use)
        return Err(Stop::Fail(NtStatus::SHARING_VIOLATION));
    }
    Stop::when(target.names.is_empty(), NtStatus::OBJECT_NAME_INVALID)?;
    Ok(target)
}

/// A path without a leading separator. smbclient links with one. pysmb, smbj, jcifs-ng and node-smb2 rename
/// with one, of either kind, and Samba accepts it.
// MS-FSA 2.1.5.15.7, 2.1.5.15.12 (exception: Windows takes such a name for one of the host and refuses a
// rename to it)
fn without_separator(name: Utf16<'_>) -> Utf16<'_> {
    match name.as_bytes() {
        [b'\\' | b'/', 0, rest @ ..] => Utf16::new(rest).unwrap_or(name),
        _ => name,
    }
}

/// The new name of a stream. If the Open has the file's own data or a directory, it names those.
// MS-FSA 2.1.5.15.12.1
fn new_stream(text: Utf16<'_>, is_directory: bool) -> Result<volume::Name, Stop> {
    let fail = |status| Err(Stop::Fail(status));
    let stream = match parse_stream(text) {
        Ok(Some(stream)) => stream,
        Err(BadStream::Index) if is_directory => return fail(NtStatus::INVALID_PARAMETER),
        Err(BadStream::Index | BadStream::Type) => return fail(NtStatus::OBJECT_TYPE_MISMATCH),
        Ok(None) | Err(_) => return fail(NtStatus::INVALID_PARAMETER),
    };
    match (stream.kind, is_directory) {
        (StreamType::IndexAllocation, true) => fail(NtStatus::INVALID_PARAMETER),
        (StreamType::Data, true) if stream.name.is_empty() => fail(NtStatus::INVALID_PARAMETER),
        (StreamType::IndexAllocation, false) | (StreamType::Data, true) => {
            fail(NtStatus::OBJECT_TYPE_MISMATCH)
        }
        // A named stream cannot replace the file's own data.
        (StreamType::Data, false) if stream.name.is_empty() => fail(NtStatus::NOT_SUPPORTED),
        (StreamType::Data, false) => {
            name(stream.name, STREAM_SYNTAX).map_err(|_| Stop::Fail(NtStatus::INVALID_PARAMETER))
        }
    }
}

/// Refuses all short names, as on a volume without them.
// MS-FSA 2.1.5.15.14
pub(super) fn short_name(change: &InfoChange<'_>) -> Result<(), Stop> {
    let name = read_name(change.buffer).map_err(status_of)?;
    let is_root = change.file.name().is_none();
    let is_allowed = name.is_empty() || is_short_name(name);
    let is_wrong = is_root || change.file.stream().is_some() || !is_allowed;
    Stop::when(is_wrong || syntax(change.file) == Syntax::Posix, NtStatus::INVALID_PARAMETER)?;
    let needed = Rights::WRITE_DATA | Rights::WRITE_ATTRIBUTES;
    Stop::when(!change.file.granted().intersects(needed), NtStatus::ACCESS_DENIED)?;
    Err(Stop::Fail(NtStatus::SHORT_NAMES_NOT_ENABLED_ON_VOLUME))
}

#[cfg(test)]
mod tests {
    use smb_wire::utf16;

    use super::*;

    fn status<T>(result: Result<T, Stop>) -> Option<NtStatus> {
        match result {
            Err(Stop::Fail(status)) => Some(status),
            _ => None,
        }
    }

    fn stream(text: &str) -> Result<volume::Name, Stop> {
        new_stream(Utf16::new(&utf16::encode(text)).unwrap(), false)
    }

    fn parse_path(text: &str, syntax: Syntax) -> Result<ParsedPath, Stop> {
        target(Utf16::new(&utf16::encode(text)).unwrap(), syntax)
    }

    #[test]
    fn a_stream_keeps_its_type() {
        for text in [":new", ":new:$DATA", ":new:$data"] {
            assert_eq!(stream(text).ok(), volume::Name::new(b"new").ok(), "{text}");
        }
        assert_eq!(stream(":a?\u{5}*").ok(), volume::Name::new(b"a?\x05*").ok());
        assert_eq!(status(stream("::$DATA")), Some(NtStatus::NOT_SUPPORTED));
        for text in ["::$INDEX_ALLOCATION", ":a:$INDEX_ALLOCATION", ":a:b"] {
            assert_eq!(status(stream(text)), Some(NtStatus::OBJECT_TYPE_MISMATCH), "{text}");
        }
        for text in [":", "::", ":a:", ":a:$DATA:", ":a:b:c", ":a\\b", ":a:b\\c", ":a\0"] {
            assert_eq!(status(stream(text)), Some(NtStatus::INVALID_PARAMETER), "{text}");
        }
    }

    #[test]
    fn one_separator_before_a_new_name_is_no_harm() {
        for text in ["\\a\\b", "/a\\b"] {
            assert!(without_separator(Utf16::new(&utf16::encode(text)).unwrap()) == "a\\b", "{text}");
        }
        let bytes = utf16::encode("\\\\a\\b");
        let rest = without_separator(Utf16::new(&bytes).unwrap());
        assert!(rest == "\\a\\b");
        assert_eq!(status(target(rest, Syntax::Windows)), Some(NtStatus::INVALID_PARAMETER));
        let bytes = utf16::encode("\\a\\b");
        assert!(without_separator(Utf16::new(&bytes[2..]).unwrap()) == "a\\b");
    }

    #[test]
    fn a_file_goes_to_a_path_below_the_root() {
        assert_eq!(parse_path("a\\b", Syntax::Windows).ok().unwrap().names.len(), 2);
        assert_eq!(parse_path("a:b", Syntax::Posix).ok().unwrap().names.len(), 1);
        assert_eq!(status(parse_path("\\a", Syntax::Windows)), Some(NtStatus::INVALID_PARAMETER));
        assert_eq!(status(parse_path("..\\a", Syntax::Windows)), Some(NtStatus::OBJECT_PATH_SYNTAX_BAD));
        assert_eq!(status(parse_path("a:b", Syntax::Windows)), Some(NtStatus::SHARING_VIOLATION));
    }
}
