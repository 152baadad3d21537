//! Names and the path of an Open, in the syntax of its client.

use share::{Options, Share};
use smb_wire::fscc::names::{Syntax, to_host, to_wire};
use smb_wire::{NtStatus, Utf16};
use volume::Name;

/// The syntax of stream names. They may have characters that file names must not have, such as wildcards and
/// control characters (MS-FSCC 2.1.5.3), so none of them is mapped.
pub(crate) const STREAM_SYNTAX: Syntax = Syntax::Posix;

/// Parses one component of a path from the wire.
///
/// # Errors
/// STATUS_OBJECT_NAME_INVALID if the text is not a valid name.
pub(crate) fn name(text: Utf16<'_>, syntax: Syntax) -> Result<Name, NtStatus> {
    let mut host = Vec::with_capacity(text.len() * 2);
    to_host(text, syntax, &mut host).map_err(|_| NtStatus::OBJECT_NAME_INVALID)?;
    Name::new(&host).map_err(|_| NtStatus::OBJECT_NAME_INVALID)
}

/// The syntax of names that the client of an Open uses.
pub(crate) fn syntax(file: &share::Open) -> Syntax {
    // CREATE sets this option only for Opens with the POSIX context.
    if file.options().contains(Options::EXACT_CASE) { Syntax::Posix } else { Syntax::Windows }
}

/// The path from the root of the share in UTF-16LE, without a leading separator. A stream's name follows a
/// colon. It is empty for the root. It is empty for a user's home too.
// MS-FSCC 2.1.5
pub(crate) fn relative(engine: &Share, file: &share::Open) -> Vec<u8> {
    let path = engine.path_of(file);
    write(file.identity().path_from_home(&path), file.stream().as_ref(), syntax(file))
}

/// The path with a leading separator. For the root it is only the separator.
// MS-FSA 2.1.5.12.19
pub(crate) fn rooted(engine: &Share, file: &share::Open) -> Vec<u8> {
    let mut out = separator(syntax(file)).to_vec();
    out.extend_from_slice(&relative(engine, file));
    out
}

fn separator(syntax: Syntax) -> [u8; 2] {
    match syntax {
        Syntax::Windows => [b'\\', 0],
        Syntax::Posix => [b'/', 0],
    }
}

fn write(path: &[Name], stream: Option<&Name>, syntax: Syntax) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, name) in path.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(&separator(syntax));
        }
        to_wire(name.as_bytes(), syntax, &mut out);
    }
    if let Some(stream) = stream {
        out.extend_from_slice(&[b':', 0]);
        to_wire(stream.as_bytes(), STREAM_SYNTAX, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_its_client_reads_it() {
        let path = [Name::new(b"a").unwrap(), Name::new(b"b:c").unwrap()];
        let stream = Name::new(b"s?").unwrap();
        let text = |bytes: &[u8]| Utf16::new(bytes).unwrap().to_string_lossy();
        assert_eq!(text(&write(&path, Some(&stream), Syntax::Windows)), "a\\b\u{f022}c:s?");
        assert_eq!(text(&write(&path, None, Syntax::Posix)), "a/b:c");
        assert_eq!(write(&[], None, Syntax::Windows), []);
    }
}
