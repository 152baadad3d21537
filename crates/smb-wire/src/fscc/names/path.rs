//! Splits a path from the wire into components and a stream after the last one.
//!
//! [`Path::parse`] makes all checks that need no file system. So its result never has `..`, is never
//! absolute, and has at most one stream.

use super::{BadName, MAX_COMPONENT, MAX_PATH, Syntax, to_host};
use crate::Utf16;
use crate::fscc::text::{split, split_where, unit_at};

const SEPARATOR: u16 = b'\\' as u16;
const SLASH: u16 = b'/' as u16;
const COLON: u16 = b':' as u16;

/// The reason why a path was refused, with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadPath {
    /// It begins with a separator: STATUS_INVALID_PARAMETER.
    #[error("the path begins with a separator")]
    Absolute,
    /// It has `..`: STATUS_OBJECT_PATH_SYNTAX_BAD.
    #[error("the path climbs")]
    Climbs,
    /// The path, one of its components or its stream is not a valid name: STATUS_OBJECT_NAME_INVALID.
    #[error("a part of the path is not a name: {0}")]
    Name(BadName),
    /// The text after a colon is not a stream name: STATUS_OBJECT_NAME_INVALID.
    #[error("the path names no possible stream")]
    Stream,
    /// It has the form of a path, but no object can have its stream. The status is returned only after a
    /// lookup of the parent.
    #[error("the path names a stream that nothing has: {why}")]
    Misnamed {
        /// The reason.
        why: BadStream,
        /// The number of units of the text before the stream.
        named: usize,
    },
}

/// The reason why the text after a file name cannot be a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadStream {
    /// It has neither a name nor a type, too many parts, or an empty type.
    #[error("the colons do not fit")]
    Form,
    /// Its name is invalid.
    #[error("{0}")]
    Name(BadName),
    /// No stream has this type: STATUS_OBJECT_NAME_INVALID.
    #[error("no stream has this type")]
    Type,
    /// No directory has an index with this name: STATUS_INVALID_PARAMETER.
    #[error("no directory has this index")]
    Index,
    /// There are components after it, but only a directory can have those: STATUS_OBJECT_NAME_INVALID.
    #[error("nothing lies below a stream")]
    OnTheWay,
}

impl From<BadName> for BadPath {
    fn from(bad: BadName) -> Self {
        BadPath::Name(bad)
    }
}

/// MS-FSCC 2.1.5.4: the type of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamType {
    /// `$DATA`, also without a type.
    Data,
    /// `$INDEX_ALLOCATION`: the directory itself.
    IndexAllocation,
}

/// The stream after a path's last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream<'a> {
    /// Its name, or empty for the unnamed stream of that type.
    pub name: Utf16<'a>,
    /// Its type.
    pub kind: StreamType,
}

/// A valid path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path<'a> {
    text: Utf16<'a>,
    syntax: Syntax,
    /// The stream, including `::$DATA`. It is `None` without a colon.
    pub stream: Option<Stream<'a>>,
    /// Whether there was a separator at the end. The path then means a directory only.
    pub trailing_separator: bool,
}

impl<'a> Path<'a> {
    /// Checks the path `text`, which is relative to the root of a share. The empty path is the root.
    ///
    /// # Errors
    /// [`BadPath`], which gives the status.
    pub fn parse(text: Utf16<'a>, syntax: Syntax) -> Result<Path<'a>, BadPath> {
        // MS-SMB2 3.3.5.9
        if unit_at(text, 0).is_some_and(|unit| separates(unit, syntax)) {
            return Err(BadPath::Absolute);
        }
        // MS-FSCC 2.1.5
        if text.len() > MAX_PATH {
            return Err(BadName::TooLong.into());
        }
        let mut path = Path { text, syntax, stream: None, trailing_separator: false };
        let mut parts = parts(text, syntax).peekable();
        let mut passed = 0;
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            let before = passed;
            passed += part.len() + 1;
            if part.is_empty() {
                path.trailing_separator = last && !text.is_empty();
                continue;
            }
            let misnamed = |why| BadPath::Misnamed { why, named: before + file_name(part, syntax).len() };
            let stream = match path.check_component(part)? {
                Ok(stream) => stream,
                Err(BadStream::Form) => return Err(BadPath::Stream),
                Err(BadStream::Name(bad)) => return Err(bad.into()),
                Err(why) => return Err(misnamed(why)),
            };
            if last {
                path.stream = stream;
            } else if stream.is_some_and(|s| s.kind != StreamType::IndexAllocation) {
                // MS-FSA 2.1.5.1 (before the last component, only the directory itself may be named as a
                // stream)
                return Err(misnamed(BadStream::OnTheWay));
            }
        }
        Ok(path)
    }

    /// Checks one component and returns its stream.
    fn check_component(&self, part: Utf16<'a>) -> Result<Result<Option<Stream<'a>>, BadStream>, BadPath> {
        let name = file_name(part, self.syntax);
        let stream = match self.syntax {
            Syntax::Windows => parse_stream(part),
            Syntax::Posix => Ok(None),
        };
        let dots = name.units().all(|unit| unit == u16::from(b'.')).then_some(name.len());
        match dots {
            // A stream of the share's root has no file name before it.
            Some(0) if stream != Ok(None) && part.len() == self.text.len() => {}
            Some(0) => return Err(BadName::Empty.into()),
            Some(1) => return Err(BadName::Dots.into()),
            Some(2) => return Err(BadPath::Climbs),
            _ if name.len() > MAX_COMPONENT => return Err(BadName::TooLong.into()),
            _ => {}
        }
        Ok(stream)
    }

    /// Whether the path is the root of the share (or a stream of it).
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.components().next().is_none()
    }

    /// The file names of the path, including the last one, without streams.
    pub fn components(&self) -> impl Iterator<Item = Utf16<'a>> + use<'a> {
        let syntax = self.syntax;
        parts(self.text, syntax).map(move |part| file_name(part, syntax)).filter(|name| !name.is_empty())
    }

    /// Appends the host's form of the path with `/` between components. It is empty for the root.
    ///
    /// # Errors
    /// The first [`BadName`] of a component. `out` is unchanged then.
    pub fn to_host(&self, out: &mut Vec<u8>) -> Result<(), BadName> {
        let start = out.len();
        for name in self.components() {
            if out.len() > start {
                out.push(b'/');
            }
            if let Err(bad) = to_host(name, self.syntax, out) {
                out.truncate(start);
                return Err(bad);
            }
        }
        Ok(())
    }
}

pub(super) fn separator(syntax: Syntax) -> u16 {
    match syntax {
        Syntax::Windows => SEPARATOR,
        Syntax::Posix => SLASH,
    }
}

/// Whether a unit separates components. Samba accepts a slash too, and some clients rely on that. No name
/// may contain one.
// MS-FSCC 2.1.5.2 (exception: the slash)
fn separates(unit: u16, syntax: Syntax) -> bool {
    unit == separator(syntax) || unit == SLASH
}

/// The components of a path with their streams.
fn parts<'a>(text: Utf16<'a>, syntax: Syntax) -> impl Iterator<Item = Utf16<'a>> + use<'a> {
    split_where(text, move |unit| separates(unit, syntax))
}

/// A component without its stream.
fn file_name(part: Utf16<'_>, syntax: Syntax) -> Utf16<'_> {
    match syntax {
        Syntax::Windows => split(part, COLON).next().unwrap_or_default(),
        Syntax::Posix => part,
    }
}

/// MS-FSCC 2.1.5: the part after the first colon of a component: `name`, `name:type` or `:type`.
///
/// # Errors
/// [`BadStream`].
pub fn parse_stream(component: Utf16<'_>) -> Result<Option<Stream<'_>>, BadStream> {
    let mut parts = split(component, COLON);
    parts.next();
    let Some(name) = parts.next() else { return Ok(None) };
    let kind = parts.next();
    if kind.map_or(name, |kind| kind).is_empty() || parts.next().is_some() {
        return Err(BadStream::Form);
    }
    // MS-FSCC 2.1.5.3
    if name.len() > MAX_COMPONENT {
        return Err(BadStream::Name(BadName::TooLong));
    }
    let is_forbidden = |unit| matches!(unit, 0 | SLASH | SEPARATOR);
    if name.units().chain(kind.unwrap_or_default().units()).any(is_forbidden) {
        return Err(BadStream::Name(BadName::Forbidden));
    }
    let kind = kind.map_or(Ok(StreamType::Data), |kind| stream_type(kind).ok_or(BadStream::Type))?;
    // MS-FSA 2.1.5.1 ($I30 is the only index of a directory)
    if kind == StreamType::IndexAllocation && !name.is_empty() && !eq_ascii(name, "$I30") {
        return Err(BadStream::Index);
    }
    Ok(Some(Stream { name, kind }))
}

fn stream_type(name: Utf16<'_>) -> Option<StreamType> {
    if eq_ascii(name, "$DATA") {
        Some(StreamType::Data)
    } else if eq_ascii(name, "$INDEX_ALLOCATION") {
        Some(StreamType::IndexAllocation)
    } else {
        None
    }
}

fn eq_ascii(name: Utf16<'_>, wanted: &str) -> bool {
    name.len() == wanted.len()
        && name
            .units()
            .zip(wanted.bytes())
            .all(|(unit, byte)| u8::try_from(unit).is_ok_and(|u| u.eq_ignore_ascii_case(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16::encode as bytes_of;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq)]
    struct ParsedNames {
        parts: Vec<String>,
        stream: Option<(String, StreamType)>,
        trailing: bool,
    }

    fn parse(text: &str) -> Result<ParsedNames, BadPath> {
        let bytes = bytes_of(text);
        let path = Path::parse(Utf16::new(&bytes).unwrap(), Syntax::Windows)?;
        Ok(ParsedNames {
            parts: path.components().map(|part| part.to_string_lossy()).collect(),
            stream: path.stream.map(|s| (s.name.to_string_lossy(), s.kind)),
            trailing: path.trailing_separator,
        })
    }

    fn plain(parts: &[&str]) -> ParsedNames {
        ParsedNames { parts: parts.iter().map(ToString::to_string).collect(), stream: None, trailing: false }
    }

    #[test]
    fn plain_paths() {
        assert_eq!(parse(""), Ok(plain(&[])));
        assert_eq!(parse("a"), Ok(plain(&["a"])));
        assert_eq!(parse("a\\b c\\d"), Ok(plain(&["a", "b c", "d"])));
        assert_eq!(parse("a\\\\b"), Ok(plain(&["a", "b"])));
        assert_eq!(parse("a\\"), Ok(ParsedNames { trailing: true, ..plain(&["a"]) }));
        assert_eq!(parse("..."), Ok(plain(&["..."])));
        assert_eq!(parse("a/b c\\d/"), Ok(ParsedNames { trailing: true, ..plain(&["a", "b c", "d"]) }));
    }

    #[test]
    fn paths_that_climb_or_are_absolute() {
        assert_eq!(parse("\\a"), Err(BadPath::Absolute));
        assert_eq!(parse("\\"), Err(BadPath::Absolute));
        assert_eq!(parse("/a"), Err(BadPath::Absolute));
        assert_eq!(parse("..\\..\\.."), Err(BadPath::Climbs));
        assert_eq!(parse("a/../b"), Err(BadPath::Climbs));
        assert_eq!(parse("a\\..\\b"), Err(BadPath::Climbs));
        assert_eq!(parse("a\\..:s"), Err(BadPath::Climbs));
        assert_eq!(parse("a\\.\\b"), Err(BadPath::Name(BadName::Dots)));
        assert_eq!(parse(&"x".repeat(256)), Err(BadPath::Name(BadName::TooLong)));
        assert_eq!(parse(&"x\\".repeat(16_381)), Err(BadPath::Name(BadName::TooLong)));
    }

    #[test]
    fn streams() {
        let stream = |name: &str, kind| Some((name.to_string(), kind));
        assert_eq!(parse("f:s").unwrap().stream, stream("s", StreamType::Data));
        assert_eq!(parse("f:s:$DaTa").unwrap().stream, stream("s", StreamType::Data));
        assert_eq!(parse("f::$DATA").unwrap().stream, stream("", StreamType::Data));
        assert_eq!(parse("d::$INDEX_ALLOCATION").unwrap().stream, stream("", StreamType::IndexAllocation));
        assert_eq!(parse("f:?Stream*").unwrap().stream, stream("?Stream*", StreamType::Data));
        assert_eq!(parse(":s").unwrap(), ParsedNames { stream: stream("s", StreamType::Data), ..plain(&[]) });
        assert_eq!(parse("d:$I30:$INDEX_ALLOCATION\\f"), Ok(plain(&["d", "f"])));
        for bad in [
            "f:",
            "f::",
            "f:s:",
            "f:s:$FOO",
            "f:s:?D*a",
            "f:s:$DATA:",
            "f:/",
            "f:a\0",
            "d:s\\f",
            "d:s\\",
            "f:x:$INDEX_ALLOCATION",
            "a\\:s",
            "f::fooooo",
        ] {
            let bad_name =
                matches!(parse(bad), Err(BadPath::Stream | BadPath::Name(_) | BadPath::Misnamed { .. }));
            assert!(bad_name, "{bad:?} gave {:?}", parse(bad));
        }
    }

    #[test]
    fn a_stream_that_nothing_has_is_told_with_what_it_would_belong_to() {
        for (text, why, file) in [
            ("a\\f:s:$FOO", BadStream::Type, "a\\f"),
            ("f::fooooo", BadStream::Type, "f"),
            (":s:$FOO", BadStream::Type, ""),
            ("a/f:x:$INDEX_ALLOCATION", BadStream::Index, "a/f"),
            ("a\\\\d:s\\f", BadStream::OnTheWay, "a\\\\d"),
            ("d:s:$FOO\\f", BadStream::Type, "d"),
        ] {
            let named = file.encode_utf16().count();
            assert_eq!(parse(text), Err(BadPath::Misnamed { why, named }), "{text}");
        }
        for text in ["f:", "f::", "f:s:", "f:s:$DATA:", "f:s:t:u", "f:s:a\0"] {
            assert!(matches!(parse(text), Err(BadPath::Stream | BadPath::Name(_))), "{text:?}");
        }
    }

    #[test]
    fn posix_paths_know_neither_backslashes_nor_streams() {
        let bytes = bytes_of("a\\b:c/d*");
        let path = Path::parse(Utf16::new(&bytes).unwrap(), Syntax::Posix).unwrap();
        let mut host = Vec::new();
        path.to_host(&mut host).unwrap();
        assert_eq!((host.as_slice(), path.stream), (b"a\\b:c/d*".as_slice(), None));
    }

    #[test]
    fn a_bad_component_leaves_nothing_behind() {
        let bytes = bytes_of("ok\\b*d");
        let path = Path::parse(Utf16::new(&bytes).unwrap(), Syntax::Windows).unwrap();
        let mut host = b"x".to_vec();
        assert_eq!(path.to_host(&mut host), Err(BadName::Forbidden));
        assert_eq!(host, b"x");
    }

    proptest! {
        #[test]
        fn no_path_leads_out(units in proptest::collection::vec(
            prop_oneof![Just(b'\\' as u16), Just(b'.' as u16), Just(b':' as u16), Just(b'/' as u16),
                Just(0xF029), Just(0u16), Just(b'a' as u16), any::<u16>()], 0..24), posix in any::<bool>())
        {
            let bytes: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
            let syntax = if posix { Syntax::Posix } else { Syntax::Windows };
            if let Ok(path) = Path::parse(Utf16::new(&bytes).unwrap(), syntax) {
                let mut host = Vec::new();
                if path.to_host(&mut host).is_ok() {
                    prop_assert!(!host.contains(&0));
                    prop_assert!(!host.starts_with(b"/"));
                    prop_assert!(host.split(|&b| b == b'/').all(|part| part != b"." && part != b".."));
                    prop_assert_eq!(host.is_empty(), path.is_root());
                }
            }
        }
    }
}
