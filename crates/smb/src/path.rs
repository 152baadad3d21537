//! Paths from the wire, as the engine wants them: checked single names from the root of the share.

use share::{Options, Refusal};
use smb_wire::fscc::names::{self, BadName, BadPath, Path, StreamType, Syntax};
use smb_wire::{NtStatus, Utf16};
use volume::Name;

use crate::suspend::Stop;

/// How names of streams are mapped: they may hold what file names must not, wildcards and control
/// characters among it (MS-FSCC 2.1.5.3), so nothing of it is told by other characters.
pub(crate) const STREAM_SYNTAX: Syntax = Syntax::Posix;

/// A path taken apart.
#[derive(Debug, Default)]
pub(crate) struct Target {
    /// From the root of the share.
    pub names: Vec<Name>,
    /// A named stream of what the path leads to.
    pub stream: Option<Name>,
    /// It ends with a separator, or names a directory's index.
    wants_directory: bool,
    /// It names the unnamed data stream: `file::$DATA`.
    wants_data: bool,
}

impl Target {
    /// Whether it names a data stream, if only the unnamed one, which no path does where there are none.
    pub fn names_data(&self) -> bool {
        self.wants_data || self.stream.is_some()
    }

    /// What the form of the path says about the object it may lead to.
    pub fn constrain(&self, options: &mut Options) -> Result<(), Stop> {
        if self.wants_directory {
            // MS-FSA 2.1.5.1
            if options.contains(Options::NOT_DIRECTORY) {
                return Err(Stop::Fail(NtStatus::OBJECT_NAME_INVALID));
            }
            *options |= Options::DIRECTORY;
        }
        if self.names_data() {
            if options.contains(Options::DIRECTORY) {
                return Err(Stop::Fail(NtStatus::NOT_A_DIRECTORY));
            }
            if self.wants_data {
                *options |= Options::NOT_DIRECTORY;
            }
        }
        Ok(())
    }
}

/// Takes a path from the wire apart.
///
/// # Errors
/// The status that MS-SMB2 3.3.5.9 and MS-FSA 2.1.5.1 give for its form.
pub(crate) fn parse(text: Utf16<'_>, syntax: Syntax) -> Result<Target, Stop> {
    let path = Path::parse(text, syntax).map_err(bad_path)?;
    let mut target = Target { wants_directory: path.trailing_separator, ..Target::default() };
    for component in path.components() {
        target.names.push(name(component, syntax)?);
    }
    if let Some(stream) = path.stream {
        match stream.kind {
            StreamType::IndexAllocation => target.wants_directory = true,
            StreamType::Data if stream.name.is_empty() => target.wants_data = true,
            StreamType::Data => target.stream = Some(name(stream.name, STREAM_SYNTAX)?),
        }
    }
    Ok(target)
}

/// One component.
pub(crate) fn name(text: Utf16<'_>, syntax: Syntax) -> Result<Name, Stop> {
    let mut host = Vec::with_capacity(text.len() * 2);
    names::to_host(text, syntax, &mut host).map_err(bad_name)?;
    Name::new(&host).map_err(|_| Stop::Fail(NtStatus::OBJECT_NAME_INVALID))
}

fn bad_name(_: BadName) -> Stop {
    Stop::Fail(NtStatus::OBJECT_NAME_INVALID)
}

fn bad_path(bad: BadPath) -> Stop {
    Stop::Fail(match bad {
        // MS-SMB2 3.3.5.9
        BadPath::Absolute => NtStatus::INVALID_PARAMETER,
        BadPath::Climbs => NtStatus::OBJECT_PATH_SYNTAX_BAD,
        BadPath::Name(_) | BadPath::Stream => NtStatus::OBJECT_NAME_INVALID,
    })
}

/// The answer to a path that the engine refused; a link that the client is to follow itself is told with
/// where it stands (MS-SMB2 2.2.2.2.1).
pub(crate) fn refused(refusal: &Refusal, asked: Utf16<'_>) -> Stop {
    let Refusal::StoppedAtLink { text, left } = refusal else {
        return Stop::Fail(crate::status::of(refusal));
    };
    let mut target = Vec::new();
    names::to_wire(text, Syntax::Posix, &mut target);
    for unit in target.chunks_exact_mut(2) {
        if *unit == [b'/', 0] {
            unit[0] = b'\\';
        }
    }
    // What was not looked at yet, counted in bytes of the path.
    let separators = [u16::from(b'\\'), u16::from(b'/')];
    let mut unparsed = 0;
    let mut parts = *left;
    for unit in asked.units().rev() {
        if parts == 0 {
            break;
        }
        unparsed += 2;
        if separators.contains(&unit) {
            parts -= 1;
        }
    }
    let relative = !text.starts_with(b"/");
    Stop::FailWith(NtStatus::STOPPED_ON_SYMLINK, symlink_error(&target, unparsed, relative))
}

/// SYMBOLIC_LINK_ERROR_RESPONSE (MS-SMB2 2.2.2.2.1).
fn symlink_error(target: &[u8], unparsed: u16, relative: bool) -> Vec<u8> {
    const ERROR_TAG: u32 = 0x4c4d_5953;
    const REPARSE_TAG: u32 = 0xa000_000c;
    let len = target.len() as u32;
    let mut out = Vec::with_capacity(28 + 2 * target.len());
    let mut w = wire::Writer::new(&mut out);
    w.u32_le(24 + 2 * len);
    w.u32_le(ERROR_TAG);
    w.u32_le(REPARSE_TAG);
    w.u16_le((12 + 2 * len) as u16);
    w.u16_le(unparsed);
    w.u16_le(0);
    w.u16_le(len as u16);
    w.u16_le(len as u16);
    w.u16_le(len as u16);
    w.u32_le(u32::from(relative));
    w.bytes(target);
    w.bytes(target);
    out
}
