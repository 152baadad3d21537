//! What is known of a file, between the engine's values and the structures of MS-FSCC 2.4: one place for
//! each mapping, used by QUERY_DIRECTORY, QUERY_INFO and SET_INFO alike.
//!
//! [`Shown`] is a file as the classes of fixed size tell it, [`names`] its path, [`numbers`] owners and modes in descriptors, [`posix`] what the POSIX
//! extensions add, and [`Kept`] what belongs to an Open and to no file.

pub(crate) mod kept;
pub(crate) mod names;
pub(crate) mod numbers;
pub(crate) mod posix;
mod shown;

use smb_wire::NtStatus;
use smb_wire::fscc::ea::BadEa;
use volume::security::Parts;

pub(crate) use kept::Kept;
pub(crate) use shown::Shown;

/// Parts of a descriptor that a client may ask for or set; other bits are ignored (MS-SMB2 3.3.5.20.3 and
/// 3.3.5.21.3).
pub(crate) const DESCRIPTOR_PARTS: Parts = Parts::OWNER
    .union(Parts::GROUP)
    .union(Parts::DACL)
    .union(Parts::SACL)
    .union(Parts::LABEL)
    .union(Parts::ATTRIBUTE)
    .union(Parts::SCOPE)
    .union(Parts::BACKUP);

/// The status for a list of extended attributes, or of their names, that is none.
// MS-SMB2 3.3.5.21.1
pub(crate) fn ea_status(bad: BadEa) -> NtStatus {
    match bad {
        BadEa::List => NtStatus::EA_LIST_INCONSISTENT,
        BadEa::Name => NtStatus::INVALID_EA_NAME,
    }
}
