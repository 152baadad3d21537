//! Turns paths from the wire into the form of the engine: checked single names from the root of the share.
//! Start with [`parse`].

use share::{Identity, Options, Refusal, Share};
use smb_wire::error::SymbolicLink;
use smb_wire::fscc::names::{self, BadPath, BadStream, Path, StreamType, Syntax};
use smb_wire::fscc::reparse::Reparse;
use smb_wire::{NtStatus, Utf16};
use volume::Name;

use crate::exchange::Stop;
use crate::info::names::{STREAM_SYNTAX, name};

/// The parts of a path.
#[derive(Debug, Default)]
pub(crate) struct ParsedPath {
    /// The names from the root of the share, or from the user's home.
    pub names: Vec<Name>,
    /// The named stream, if the path has one.
    pub stream: Option<Name>,
    ends_with_separator: bool,
    /// The path names a directory's index: `directory::$INDEX_ALLOCATION`.
    names_index: bool,
    /// The path names the unnamed data stream: `file::$DATA`.
    wants_data: bool,
}

impl ParsedPath {
    /// Whether the path names a data stream, including the unnamed one. No such path is valid on a share
    /// without streams.
    pub fn names_data(&self) -> bool {
        self.wants_data || self.stream.is_some()
    }

    /// Whether this path of a user leads to this Open by the current name of its file. Case is ignored.
    pub fn is_path_of(&self, user: &Identity, engine: &Share, open: &share::Open) -> bool {
        let same = |a: &Name, b: &Name| names::eq_folded(a.as_bytes(), b.as_bytes());
        let is_stream = match (&self.stream, &open.stream()) {
            (Some(asked), Some(real)) => same(asked, real),
            (None, None) => true,
            _ => false,
        };
        let mut asked = user.path_from_root(&self.names);
        let is_name = |name: &Name| asked.next().is_some_and(|asked| same(name, asked));
        is_stream && engine.path_of(open).iter().all(is_name) && asked.next().is_none()
    }

    /// Applies what the form of the path says about its object, such as a separator at the end.
    pub fn constrain(&self, options: &mut Options) -> Result<(), Stop> {
        // MS-FSA 2.1.5.1
        if self.ends_with_separator && options.contains(Options::NOT_DIRECTORY) {
            return Err(Stop::Fail(NtStatus::OBJECT_NAME_INVALID));
        }
        if self.ends_with_separator || self.names_index {
            // The index is the directory itself, also for a client that asks for a non-directory.
            *options -= Options::NOT_DIRECTORY;
            *options |= Options::DIRECTORY;
        }
        if self.names_data() {
            Stop::when(options.contains(Options::DIRECTORY), NtStatus::NOT_A_DIRECTORY)?;
            if self.wants_data {
                *options |= Options::NOT_DIRECTORY;
            }
        }
        Ok(())
    }
}

/// Splits a path from the wire.
///
/// # Errors
/// The status that MS-SMB2 3.3.5.9 and MS-FSA 2.1.5.1 give for its form.
pub(crate) fn parse(text: Utf16<'_>, syntax: Syntax) -> Result<ParsedPath, Stop> {
    let path = Path::parse(text, syntax).map_err(bad_path)?;
    let mut target = ParsedPath { ends_with_separator: path.trailing_separator, ..ParsedPath::default() };
    for component in path.components() {
        target.names.push(name(component, syntax)?);
    }
    if let Some(stream) = path.stream {
        match stream.kind {
            StreamType::IndexAllocation => target.names_index = true,
            StreamType::Data if stream.name.is_empty() => target.wants_data = true,
            StreamType::Data => target.stream = Some(name(stream.name, STREAM_SYNTAX)?),
        }
    }
    Ok(target)
}

fn bad_path(bad: BadPath) -> Stop {
    Stop::Fail(match bad {
        // MS-SMB2 3.3.5.9
        BadPath::Absolute => NtStatus::INVALID_PARAMETER,
        BadPath::Climbs => NtStatus::OBJECT_PATH_SYNTAX_BAD,
        // MS-FSA 2.1.5.1
        BadPath::Misnamed { why: BadStream::Index, .. } => NtStatus::INVALID_PARAMETER,
        BadPath::Name(_) | BadPath::Stream | BadPath::Misnamed { .. } => NtStatus::OBJECT_NAME_INVALID,
    })
}

/// The refusal of a path that [`parse`] rejects, for an open or a create. A path with an invalid stream type
/// is refused only after the lookup of its parent.
// MS-FSA 2.1.5.1 (phases 6 and 7)
pub(crate) fn refusal(
    text: Utf16<'_>,
    syntax: Syntax,
    posix: bool,
    needs_file: bool,
    exists: impl FnOnce(&[Name]) -> Result<bool, Refusal>,
) -> Stop {
    let bad = match Path::parse(text, syntax) {
        Err(bad) => bad,
        Ok(_) => return Stop::Fail(NtStatus::OBJECT_NAME_INVALID),
    };
    let BadPath::Misnamed { why, named } = bad else { return bad_path(bad) };
    let owner = text.as_bytes().get(..named * 2).and_then(Utf16::new).unwrap_or_default();
    let names = match parse(owner, syntax) {
        Ok(owner) => owner.names,
        Err(stop) => return stop,
    };
    if names.is_empty() {
        return bad_path(bad);
    }
    match exists(&names) {
        Ok(false) if why == BadStream::Index && needs_file => Stop::Fail(NtStatus::OBJECT_NAME_NOT_FOUND),
        Ok(_) => bad_path(bad),
        Err(why) => refused(&further(why, components(text) - names.len()), text, posix),
    }
}

/// The number of components of a path.
fn components(text: Utf16<'_>) -> usize {
    let separators = [u16::from(b'\\'), u16::from(b'/')];
    let (mut count, mut is_in_component) = (0, false);
    for unit in text.units() {
        let is_separator = separators.contains(&unit);
        count += usize::from(!is_separator && !is_in_component);
        is_in_component = !is_separator;
    }
    count
}

/// Adds `behind` components to the unparsed rest of a refusal.
fn further(why: Refusal, behind: usize) -> Refusal {
    match why {
        Refusal::StoppedAtLink { text, left } => Refusal::StoppedAtLink { text, left: left + behind },
        Refusal::StoppedAtReparse { data, left } => Refusal::StoppedAtReparse { data, left: left + behind },
        other => other,
    }
}

/// The text of a symbolic link of the host in wire form. A client with the POSIX extensions gets it
/// unchanged: Linux 6.12 and newer takes a backslash there for a character of a name.
pub(crate) fn link_text(text: &[u8], posix: bool) -> Vec<u8> {
    let (syntax, separator) = if posix { (Syntax::Posix, b'/') } else { (Syntax::Windows, b'\\') };
    let mut told = Vec::new();
    for (at, component) in text.split(|&byte| byte == b'/').enumerate() {
        if at > 0 {
            told.extend_from_slice(&u16::from(separator).to_le_bytes());
        }
        names::to_wire(component, syntax, &mut told);
    }
    told
}

/// The status for a path that the engine refused. A link that the client must follow itself comes with its
/// position in the path (MS-SMB2 2.2.2.2.1).
pub(crate) fn refused(refusal: &Refusal, asked: Utf16<'_>, posix: bool) -> Stop {
    match refusal {
        Refusal::StoppedAtLink { text, left } => {
            let target = link_text(text, posix);
            let name = Utf16::new(&target).unwrap_or_default();
            let is_relative = !text.starts_with(b"/");
            stopped(SymbolicLink {
                unparsed_path_length: unparsed(asked, *left),
                substitute_name: name,
                print_name: name,
                is_relative,
            })
        }
        Refusal::StoppedAtReparse { data, left } => match Reparse::parse(data) {
            Ok(Reparse::Symlink { substitute_name, print_name, relative }) => stopped(SymbolicLink {
                unparsed_path_length: unparsed(asked, *left),
                substitute_name,
                print_name,
                is_relative: relative,
            }),
            // MS-FSA 2.1.5.1: a reparse point that no server follows for its clients.
            _ => Stop::Fail(NtStatus::IO_REPARSE_TAG_NOT_HANDLED),
        },
        _ => Stop::Fail(crate::status::of(refusal)),
    }
}

fn stopped(link: SymbolicLink<'_>) -> Stop {
    let mut data = Vec::new();
    link.write(&mut data);
    Stop::FailWith(NtStatus::STOPPED_ON_SYMLINK, data)
}

/// How many bytes of a path belong to its last `left` components.
fn unparsed(asked: Utf16<'_>, mut left: usize) -> u16 {
    let separators = [u16::from(b'\\'), u16::from(b'/')];
    let (mut bytes, mut is_in_component) = (0, false);
    for unit in asked.units().rev() {
        if left == 0 {
            break;
        }
        bytes += 2;
        // Several separators in a row count as one. Separators at the end do not count.
        let is_separator = separators.contains(&unit);
        left -= usize::from(is_separator && is_in_component);
        is_in_component = !is_separator;
    }
    bytes
}
