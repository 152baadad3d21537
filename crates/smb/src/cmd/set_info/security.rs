//! Sets parts of a security descriptor (MS-SMB2 3.3.5.21.3 and MS-FSA 2.1.5.17).

use std::sync::atomic::Ordering;

use smb_wire::NtStatus;
use volume::security::{Descriptor, Parts, Rights};

use super::InfoChange;
use crate::exchange::Stop;
use crate::info::DESCRIPTOR_PARTS;
use crate::info::numbers::Numbers;

/// Sets the requested parts.
pub(super) fn apply(change: &InfoChange<'_>, additional_information: u32) -> Result<(), Stop> {
    let parts = Parts::from_bits_retain(additional_information) & DESCRIPTOR_PARTS;
    Stop::when(!change.may(needed(parts)), NtStatus::ACCESS_DENIED)?;
    let given = Descriptor::parse(change.buffer);
    let mut given = given.map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
    let numbers = Numbers::take(&mut given);
    let rest = numbers.rest_of(parts);
    // MS-FSA 2.1.5.17
    Stop::when(rest.contains(Parts::OWNER) && given.owner.is_none(), NtStatus::INVALID_OWNER)?;
    if !rest.is_empty() || parts.is_empty() {
        change.settle(change.engine.set_descriptor(change.caller, change.file, rest, &given))?;
    }
    if numbers.is_none() { Ok(()) } else { apply_numbers(change, parts, numbers) }
}

/// Sets owner, group and mode as chown(2) and chmod(2) do.
fn apply_numbers(change: &InfoChange<'_>, parts: Parts, numbers: Numbers) -> Result<(), Stop> {
    change.open.tree.speaks_numbers.store(true, Ordering::Relaxed);
    let uid = numbers.uid.filter(|_| parts.contains(Parts::OWNER));
    let gid = numbers.gid.filter(|_| parts.contains(Parts::GROUP));
    if uid.is_some() || gid.is_some() {
        change.settle(change.engine.set_owner(change.caller, change.file, uid, gid))?;
    }
    match numbers.mode.filter(|_| parts.contains(Parts::DACL)) {
        Some(mode) => change.settle(change.engine.set_mode(change.caller, change.file, mode)),
        None => Ok(()),
    }
}

/// The rights that an Open needs to set these parts.
// MS-SMB2 3.3.5.21.3
fn needed(parts: Parts) -> Rights {
    let mut needed = Rights::empty();
    let owner = Parts::OWNER | Parts::GROUP | Parts::LABEL | Parts::BACKUP;
    needed.set(Rights::WRITE_OWNER, parts.intersects(owner));
    needed.set(Rights::WRITE_DAC, parts.intersects(Parts::DACL | Parts::ATTRIBUTE | Parts::BACKUP));
    let system = Parts::SACL | Parts::SCOPE | Parts::BACKUP;
    needed.set(Rights::ACCESS_SYSTEM_SECURITY, parts.intersects(system));
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_right() {
        assert_eq!(needed(Parts::DACL), Rights::WRITE_DAC);
        assert_eq!(needed(Parts::OWNER | Parts::DACL), Rights::WRITE_OWNER | Rights::WRITE_DAC);
        assert_eq!(needed(Parts::SACL), Rights::ACCESS_SYSTEM_SECURITY);
        assert_eq!(needed(Parts::BACKUP).bits(), 0x010c_0000);
        assert_eq!(needed(Parts::empty()), Rights::empty());
    }
}
