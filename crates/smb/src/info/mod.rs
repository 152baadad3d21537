//! The metadata of a file, between the engine's values and the structures of MS-FSCC 2.4. QUERY_DIRECTORY,
//! QUERY_INFO and SET_INFO share these mappings.
//!
//! [`FileMetadata`] has a file in the classes of fixed size. [`names`] has its path, [`numbers`] owners and
//! modes in descriptors, [`posix`] the POSIX extensions. [`PositionMode`] has the values that belong to an
//! Open and not to a file.

mod metadata;
pub(crate) mod names;
pub(crate) mod numbers;
pub(crate) mod position_mode;
pub(crate) mod posix;

use smb_wire::NtStatus;
use smb_wire::fscc::ea::BadEa;
use volume::security::Parts;

pub(crate) use metadata::FileMetadata;
pub(crate) use position_mode::PositionMode;

/// The parts of a descriptor that a client may query or set. Other bits are ignored (MS-SMB2 3.3.5.20.3 and
/// 3.3.5.21.3).
pub(crate) const DESCRIPTOR_PARTS: Parts = Parts::OWNER
    .union(Parts::GROUP)
    .union(Parts::DACL)
    .union(Parts::SACL)
    .union(Parts::LABEL)
    .union(Parts::ATTRIBUTE)
    .union(Parts::SCOPE)
    .union(Parts::BACKUP);

/// The status for a malformed list of extended attributes or of their names.
// MS-SMB2 3.3.5.21.1
pub(crate) fn ea_status(bad: BadEa) -> NtStatus {
    match bad {
        BadEa::List => NtStatus::EA_LIST_INCONSISTENT,
        BadEa::Name => NtStatus::INVALID_EA_NAME,
    }
}
