//! The information classes that can be set on a file. One table gives the rights and the function for each
//! number (MS-SMB2 3.3.5.21.1 and MS-FSA 2.1.5.15).

use share::engine::{Basic, TimeSet};
use share::{Attributes, Options};
use smb_wire::NtStatus;
use smb_wire::fscc::file::{self, Disposition, DispositionEx, DispositionFlags, EndOfFile, RenameLayout};
use smb_wire::fscc::time::SetTime;
use smb_wire::fscc::{BadBuffer, FileAttributes, FileInfoClass, FileTime, ea};
use volume::security::Rights;

use super::{InfoChange, naming};
use crate::exchange::Stop;
use crate::info::ea_status;
use crate::info::position_mode::mode;

type SetInfoResult = Result<(), Stop>;

/// One class.
struct Class {
    number: FileInfoClass,
    /// The rights that the Open must have.
    needs: Rights,
    apply: fn(&InfoChange<'_>) -> SetInfoResult,
}

const fn class(number: FileInfoClass, needs: Rights, apply: fn(&InfoChange<'_>) -> SetInfoResult) -> Class {
    Class { number, needs, apply }
}

const NO_RIGHT: Rights = Rights::empty();

/// All classes that can be set.
const CLASSES: [Class; 15] = [
    class(FileInfoClass::BASIC, Rights::WRITE_ATTRIBUTES, basic),
    class(FileInfoClass::RENAME, Rights::DELETE, |c| naming::rename(c, RenameLayout::Type2)),
    class(FileInfoClass::LINK, NO_RIGHT, |c| naming::link(c, RenameLayout::Type2)),
    class(FileInfoClass::DISPOSITION, Rights::DELETE, disposition),
    class(FileInfoClass::POSITION, NO_RIGHT, position),
    class(FileInfoClass::FULL_EA, Rights::WRITE_EA, extended),
    class(FileInfoClass::MODE, NO_RIGHT, set_mode),
    class(FileInfoClass::ALLOCATION, Rights::WRITE_DATA, allocation),
    class(FileInfoClass::END_OF_FILE, Rights::WRITE_DATA, end_of_file),
    class(FileInfoClass::PIPE, Rights::WRITE_ATTRIBUTES, |_| Err(invalid())),
    class(FileInfoClass::VALID_DATA_LENGTH, Rights::WRITE_DATA, valid_data_length),
    class(FileInfoClass::SHORT_NAME, Rights::DELETE, naming::short_name),
    class(FileInfoClass::DISPOSITION_EX, Rights::DELETE, disposition_ex),
    class(FileInfoClass::RENAME_EX, Rights::DELETE, |c| naming::rename(c, RenameLayout::Ex)),
    class(FileInfoClass::LINK_EX, NO_RIGHT, |c| naming::link(c, RenameLayout::Ex)),
];

/// Sets the requested class.
pub(super) fn apply(change: &InfoChange<'_>, number: u8) -> SetInfoResult {
    let number = FileInfoClass(number);
    let class = CLASSES.iter().find(|class| class.number == number).ok_or_else(|| refusal(number))?;
    // MS-SMB2 3.3.5.21.1
    Stop::when(!change.may(class.needs), NtStatus::ACCESS_DENIED)?;
    (class.apply)(change)
}

/// The status for a class that cannot be set.
// MS-SMB2 3.3.5.21.1
fn refusal(number: FileInfoClass) -> NtStatus {
    match number {
        // Note 428: the status of Windows for classes that no document names.
        FileInfoClass::QUOTA | FileInfoClass(30 | 41 | 42 | 43) => NtStatus::NOT_SUPPORTED,
        _ => NtStatus::INVALID_INFO_CLASS,
    }
}

/// The status for a buffer that is not the structure of its class.
// MS-FSA 2.1.5.15
pub(super) fn status_of(bad: BadBuffer) -> Stop {
    Stop::Fail(match bad {
        BadBuffer::Length => NtStatus::INFO_LENGTH_MISMATCH,
        BadBuffer::Value => NtStatus::INVALID_PARAMETER,
    })
}

fn invalid() -> Stop {
    Stop::Fail(NtStatus::INVALID_PARAMETER)
}

// MS-FSA 2.1.5.15.2
fn basic(change: &InfoChange<'_>) -> SetInfoResult {
    let given = file::Basic::parse(change.buffer).map_err(status_of)?;
    let attributes = given.file_attributes;
    let is_directory = change.file.is_directory();
    if (attributes.contains(FileAttributes::DIRECTORY) && !is_directory)
        || (attributes.contains(FileAttributes::TEMPORARY) && is_directory)
    {
        return Err(invalid());
    }
    let basic = Basic {
        created: time(given.creation_time)?,
        accessed: time(given.last_access_time)?,
        modified: time(given.last_write_time)?,
        changed: time(given.change_time)?,
        attributes: settable(attributes),
    };
    change.settle(change.engine.set_basic(change.caller, change.file, basic))
}

/// The change in a time field. Zero makes no change.
fn time(given: FileTime) -> Result<Option<TimeSet>, Stop> {
    Ok(match given.to_set().map_err(status_of)? {
        SetTime::Keep => None,
        SetTime::Freeze => Some(TimeSet::Freeze),
        SetTime::Thaw => Some(TimeSet::Thaw),
        SetTime::To(time) => Some(TimeSet::Set(crate::time::from_file_time(time.0 as u64))),
    })
}

/// The settable attribute bits, or NORMAL if there is none of them. Zero makes no change.
fn settable(given: FileAttributes) -> Option<Attributes> {
    if given.is_empty() {
        return None;
    }
    let bits = Attributes::from_bits_truncate((given & FileAttributes::SETTABLE).bits());
    Some(if bits.is_empty() { Attributes::NORMAL } else { bits })
}

// MS-FSA 2.1.5.15.3
fn disposition(change: &InfoChange<'_>) -> SetInfoResult {
    let given = Disposition::parse(change.buffer).map_err(status_of)?;
    mark(change, given.delete_pending, false, false)
}

// MS-FSA 2.1.5.15.4
fn disposition_ex(change: &InfoChange<'_>) -> SetInfoResult {
    let given = DispositionEx::parse(change.buffer).map_err(status_of)?;
    let flags = given.checked().map_err(|_| NtStatus::NOT_SUPPORTED)?;
    let deletes = flags.contains(DispositionFlags::DELETE);
    let by_create = change.file.options().contains(Options::DELETE_ON_CLOSE);
    Stop::when(deletes && flags.contains(DispositionFlags::ON_CLOSE) && !by_create, NtStatus::NOT_SUPPORTED)?;
    let ignores = flags.contains(DispositionFlags::IGNORE_READONLY_ATTRIBUTE);
    let ignores = ignores && change.may(Rights::WRITE_ATTRIBUTES);
    mark(change, deletes, flags.contains(DispositionFlags::POSIX_SEMANTICS), ignores)
}

fn mark(change: &InfoChange<'_>, deletes: bool, posix: bool, ignores_read_only: bool) -> SetInfoResult {
    let step = change.engine.set_delete(change.caller, change.file, deletes, posix, ignores_read_only);
    change.settle(step)
}

// MS-FSA 2.1.5.15.10
fn position(change: &InfoChange<'_>) -> SetInfoResult {
    let given = file::Position::parse(change.buffer).map_err(status_of)?;
    let position = u64::try_from(given.current_byte_offset).map_err(|_| invalid())?;
    change.open.per_request.position_mode.set_position(position);
    Ok(())
}

// MS-FSA 2.1.5.15.6
fn extended(change: &InfoChange<'_>) -> SetInfoResult {
    if change.file.known_attributes().is_some_and(|bits| bits.contains(Attributes::REPARSE)) {
        return Err(Stop::Fail(NtStatus::EAS_NOT_SUPPORTED));
    }
    let mut list = Vec::new();
    for ea in ea::read_list(change.buffer) {
        let ea = ea.map_err(|bad| Stop::Fail(ea_status(bad)))?;
        list.push((ea.name.to_vec(), ea.value.to_vec()));
    }
    change.settle(change.engine.set_extended(change.caller, change.file, &list))
}

// MS-FSA 2.1.5.15.8
fn set_mode(change: &InfoChange<'_>) -> SetInfoResult {
    const SYNCHRONOUS: u32 = mode::SYNCHRONOUS_ALERT | mode::SYNCHRONOUS_NONALERT;
    let given = file::Mode::parse(change.buffer).map_err(status_of)?.mode;
    let known = mode::WRITE_THROUGH | mode::SEQUENTIAL_ONLY | SYNCHRONOUS;
    // No Open of a network client is synchronous, and none can become so.
    if given & !known != 0 || given & SYNCHRONOUS != 0 {
        return Err(invalid());
    }
    change.open.per_request.position_mode.set_mode(given);
    Ok(())
}

// MS-FSA 2.1.5.15.1
fn allocation(change: &InfoChange<'_>) -> SetInfoResult {
    let given = file::Allocation::parse(change.buffer).map_err(status_of)?;
    let bytes = size(change, given.allocation_size)?;
    change.settle(change.engine.set_allocation(change.caller, change.file, bytes))
}

// MS-FSA 2.1.5.15.5
fn end_of_file(change: &InfoChange<'_>) -> SetInfoResult {
    let given = EndOfFile::parse(change.buffer).map_err(status_of)?;
    let bytes = size(change, given.end_of_file)?;
    change.settle(change.engine.set_size(change.caller, change.file, bytes))
}

/// A valid size for a file.
fn size(change: &InfoChange<'_>, given: i64) -> Result<u64, Stop> {
    if change.file.is_directory() {
        return Err(invalid());
    }
    u64::try_from(given).map_err(|_| invalid())
}

/// Refuses the class. It would expose bytes that were never written, so it needs a privilege that nobody has
/// over the network.
// MS-FSA 2.1.5.15.15
fn valid_data_length(change: &InfoChange<'_>) -> SetInfoResult {
    file::ValidDataLength::parse(change.buffer).map_err(status_of)?;
    Err(Stop::Fail(NtStatus::PRIVILEGE_NOT_HELD))
}

#[cfg(test)]
mod tests {
    use volume::Time;

    use super::*;

    #[test]
    fn classes_stand_once_and_in_order() {
        assert!(CLASSES.windows(2).all(|pair| pair[0].number.0 < pair[1].number.0));
    }

    #[test]
    fn what_cannot_be_set_is_refused_as_windows_does() {
        // MS-FSCC 2.4: query only, or local only.
        for number in [1, 5, 6, 7, 8, 17, 18, 21, 22, 24, 28, 34, 35, 46, 48, 54, 59] {
            assert_eq!(refusal(FileInfoClass(number)), NtStatus::INVALID_INFO_CLASS, "{number}");
        }
        // MS-SMB2 note 428.
        for number in [30, 41, 42, 43] {
            assert_eq!(refusal(FileInfoClass(number)), NtStatus::NOT_SUPPORTED, "{number}");
        }
    }

    #[test]
    fn attributes_are_those_that_a_client_may_set() {
        let set = |bits| settable(FileAttributes::from_bits_retain(bits));
        assert_eq!(set(0), None);
        assert_eq!(set(0x80), Some(Attributes::NORMAL));
        assert_eq!(set(0x10), Some(Attributes::NORMAL));
        assert_eq!(set(0x0000_4fb7), Some(Attributes::from_bits_retain(0x0127)));
        assert_eq!(set(0x3000), Some(Attributes::OFFLINE | Attributes::NOT_INDEXED));
    }

    #[test]
    fn times_have_values_that_are_no_times() {
        let set = |ticks| time(FileTime(ticks)).map_err(|_| ());
        assert_eq!(set(0), Ok(None));
        assert_eq!(set(-1), Ok(Some(TimeSet::Freeze)));
        assert_eq!(set(-2), Ok(Some(TimeSet::Thaw)));
        assert_eq!(set(-3), Err(()));
        let epoch = Time { secs: 0, nanos: 100 };
        assert_eq!(set(0x019D_B1DE_D53E_8001), Ok(Some(TimeSet::Set(epoch))));
    }
}
