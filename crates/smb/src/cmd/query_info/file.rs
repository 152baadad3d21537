//! The information classes of files. One table gives the rights and the function for each number (MS-SMB2
//! 3.3.5.20.1 and MS-FSA 2.1.5.12).

use smb_wire::NtStatus;
use smb_wire::fscc::FileInfoClass;
use smb_wire::fscc::file::{AccessInfo, Alignment, All, Ea, Id, Mode, Position};
use smb_wire::negotiate::Dialect;
use volume::security::Rights;

use super::{Query, extended, fixed, names, whole_or_cut};
use crate::connection::Negotiated;
use crate::exchange::{Handled, Stop};
use crate::info::FileMetadata;
use crate::info::names::rooted;
use crate::info::posix::Owners;

/// One class.
struct Class {
    number: FileInfoClass,
    /// The rights that the Open must have.
    needs: Rights,
    /// The smallest buffer that Windows accepts: the size of its C structure.
    least: usize,
    write: Write,
}

type Write = fn(&Query<'_>, &mut Vec<u8>) -> Handled;

const fn class(number: FileInfoClass, needs: Rights, least: usize, write: Write) -> Class {
    Class { number, needs, least, write }
}

const NO_RIGHT: Rights = Rights::empty();

/// All supported classes.
const CLASSES: [Class; 18] = [
    // MS-FSA 2.1.5.12.6
    class(FileInfoClass::BASIC, Rights::READ_ATTRIBUTES, 40, |query, out| {
        query.tell(out, |shown, out| shown.basic().write(out))
    }),
    // MS-FSA 2.1.5.12.27
    class(FileInfoClass::STANDARD, NO_RIGHT, 24, |query, out| {
        query.tell(out, |shown, out| shown.standard().write(out))
    }),
    // MS-FSA 2.1.5.12.17
    class(FileInfoClass::INTERNAL, NO_RIGHT, 8, |query, out| {
        query.tell(out, |shown, out| shown.internal().write(out))
    }),
    // MS-FSA 2.1.5.12.10
    class(FileInfoClass::EA, NO_RIGHT, 4, |query, out| query.tell(out, |shown, out| ea(shown).write(out))),
    class(FileInfoClass::ACCESS, NO_RIGHT, 4, |query, out| fixed(out, |out| access(query).write(out))),
    class(FileInfoClass::POSITION, NO_RIGHT, 8, |query, out| fixed(out, |out| position(query).write(out))),
    class(FileInfoClass::FULL_EA, Rights::READ_EA, 0, extended::write),
    class(FileInfoClass::MODE, NO_RIGHT, 4, |query, out| fixed(out, |out| mode(query).write(out))),
    class(FileInfoClass::ALIGNMENT, NO_RIGHT, 4, |_, out| fixed(out, |out| ANY_ALIGNMENT.write(out))),
    class(FileInfoClass::ALL, Rights::READ_ATTRIBUTES, 104, all),
    class(FileInfoClass::ALTERNATE_NAME, NO_RIGHT, 8, names::alternate),
    class(FileInfoClass::STREAM, NO_RIGHT, 32, names::streams),
    // MS-FSA 2.1.5.12.8
    class(FileInfoClass::COMPRESSION, NO_RIGHT, 16, |query, out| {
        query.tell(out, |shown, out| shown.compression().write(out))
    }),
    // MS-FSA 2.1.5.12.21
    class(FileInfoClass::NETWORK_OPEN, Rights::READ_ATTRIBUTES, 56, |query, out| {
        query.tell(out, |shown, out| shown.network_open().write(out))
    }),
    // MS-FSA 2.1.5.12.5
    class(FileInfoClass::ATTRIBUTE_TAG, Rights::READ_ATTRIBUTES, 8, |query, out| {
        query.tell(out, |shown, out| shown.attribute_tag().write(out))
    }),
    class(FileInfoClass::NORMALIZED_NAME, NO_RIGHT, 8, names::normalized),
    class(FileInfoClass::ID, NO_RIGHT, Id::SIZE, id),
    class(FileInfoClass::POSIX, Rights::READ_ATTRIBUTES, 0, posix),
];

/// Buffers need no alignment.
const ANY_ALIGNMENT: Alignment = Alignment { alignment_requirement: 0 };

/// Writes the requested class.
pub(super) fn answer(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let number = FileInfoClass(query.parsed.file_info_class);
    let is_in_dialect = is_in_dialect(number, query.negotiated);
    let class = CLASSES.iter().find(|class| is_in_dialect && class.number == number);
    let class = class.ok_or_else(|| refusal(number))?;
    // MS-SMB2 3.3.5.20.1
    Stop::when(!query.file.granted().contains(class.needs), NtStatus::ACCESS_DENIED)?;
    Stop::when(query.limit() < class.least, NtStatus::INFO_LENGTH_MISMATCH)?;
    (class.write)(query, out)
}

/// Whether the connection's dialect has the class.
// MS-SMB2 3.3.5.20.1
fn is_in_dialect(number: FileInfoClass, negotiated: &Negotiated) -> bool {
    let dialect = negotiated.protection.dialect;
    match number {
        FileInfoClass::ID => dialect.is_smb3(),
        FileInfoClass::NORMALIZED_NAME => dialect == Dialect::Smb311,
        FileInfoClass::POSIX => negotiated.posix,
        _ => true,
    }
}

/// The status for an unsupported class.
// MS-SMB2 3.3.5.20.1
fn refusal(number: FileInfoClass) -> NtStatus {
    match number {
        FileInfoClass::NAME
        | FileInfoClass::MAILSLOT_QUERY
        | FileInfoClass::OBJECT_ID
        | FileInfoClass::QUOTA
        | FileInfoClass::REPARSE_POINT
        | FileInfoClass::SFIO_RESERVE
        | FileInfoClass::SFIO_VOLUME
        | FileInfoClass::HARD_LINK
        | FileInfoClass::NORMALIZED_NAME
        | FileInfoClass::STANDARD_LINK
        | FileInfoClass::ID
        // Note 416: the status of Windows for classes that no document names.
        | FileInfoClass(41 | 43 | 47 | 49 | 51 | 53) => NtStatus::NOT_SUPPORTED,
        FileInfoClass(52) => NtStatus::INFO_LENGTH_MISMATCH,
        // MS-FSA 2.1.5.12: these classes are for pipes, and this is a file.
        FileInfoClass::PIPE | FileInfoClass::PIPE_LOCAL | FileInfoClass::PIPE_REMOTE => {
            NtStatus::INVALID_PARAMETER
        }
        // Note 415 includes the classes that list directories or can only be set.
        _ => NtStatus::INVALID_INFO_CLASS,
    }
}

fn ea(shown: &FileMetadata) -> Ea {
    Ea { ea_size: shown.info().extended_size }
}

// MS-FSA 2.1.5.12.31
fn id(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let volume_serial_number = query.engine.volume().properties().serial;
    query.tell(out, |shown, out| Id { volume_serial_number, file_id: shown.file_id_128() }.write(out))
}

// MS-FSA 2.1.5.12.1
fn access(query: &Query<'_>) -> AccessInfo {
    AccessInfo { access_flags: query.file.granted().bits() }
}

// MS-FSA 2.1.5.12.23
fn position(query: &Query<'_>) -> Position {
    Position { current_byte_offset: query.open.per_request.position_mode.position() as i64 }
}

// MS-FSA 2.1.5.12.18
fn mode(query: &Query<'_>) -> Mode {
    let parsed = query.open.create_record.get().map_or(0, |record| record.asked_for.options);
    Mode { mode: query.open.per_request.position_mode.mode(query.file.options(), parsed) }
}

// MS-FSA 2.1.5.12.3
fn all(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let shown = query.shown()?;
    let all = All {
        basic: shown.basic(),
        standard: shown.standard(),
        internal: shown.internal(),
        ea: ea(&shown),
        access: access(query),
        position: position(query),
        mode: mode(query),
        alignment: ANY_ALIGNMENT,
    };
    let name = rooted(query.engine, query.file);
    whole_or_cut(all.write(&name, query.limit(), out))
}

/// SMB_FIND_FILE_POSIX_INFO of the POSIX extensions, which no section describes.
fn posix(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let shown = query.shown()?;
    let owners = Owners::of(shown.info(), query.engine);
    let start = out.len();
    owners.view(&shown).write(out);
    Stop::when(out.len() - start > query.limit(), NtStatus::INFO_LENGTH_MISMATCH)?;
    Ok(NtStatus::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_once_and_in_order() {
        assert!(CLASSES.windows(2).all(|pair| pair[0].number.0 < pair[1].number.0));
    }

    #[test]
    fn what_is_not_answered_is_refused_as_windows_does() {
        // MS-SMB2 note 415.
        for number in [1, 2, 3, 10, 11, 12, 13, 19, 20, 27, 31, 36, 37, 38, 39, 40, 50] {
            assert!(!CLASSES.iter().any(|class| class.number.0 == number), "{number}");
            assert_eq!(refusal(FileInfoClass(number)), NtStatus::INVALID_INFO_CLASS, "{number}");
        }
        assert_eq!(refusal(FileInfoClass(200)), NtStatus::INVALID_INFO_CLASS);
        assert_eq!(refusal(FileInfoClass::HARD_LINK), NtStatus::NOT_SUPPORTED);
    }
}
