//! Security descriptors: writes the requested parts that the Open may read (MS-SMB2 3.3.5.20.3 and MS-FSA
//! 2.1.5.14).

use std::sync::atomic::Ordering;

use share::Options;
use smb_wire::NtStatus;
use volume::security::{Ace, AceKind, Descriptor, Parts, Rights};

use super::Query;
use crate::exchange::{Handled, Stop};
use crate::info::DESCRIPTOR_PARTS;
use crate::info::numbers::Numbers;

/// Entries of the audit list that are not audit entries (MS-DTYP 2.4.4.1), each with its part.
const SPECIAL: [(u8, Parts); 3] = [(0x11, Parts::LABEL), (0x12, Parts::ATTRIBUTE), (0x13, Parts::SCOPE)];

/// Writes a descriptor.
pub(super) fn answer(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let parts = Parts::from_bits_retain(query.parsed.additional_information) & DESCRIPTOR_PARTS;
    Stop::when(!query.file.granted().contains(needed(parts)), NtStatus::ACCESS_DENIED)?;
    let mut shown = select(&query.engine.descriptor(query.file)?, parts);
    if wants_numbers(query) {
        let info = query.engine.info(query.file)?;
        let numbers = Numbers { uid: Some(info.uid), gid: Some(info.gid), mode: Some(info.mode) };
        numbers.put(&mut shown);
    }
    let bytes = shown.encode().map_err(|_| NtStatus::INVALID_SECURITY_DESCR)?;
    // MS-SMB2 3.3.5.20.3
    if bytes.len() > query.limit() {
        let needed = (bytes.len() as u32).to_le_bytes();
        return Err(Stop::FailWith(NtStatus::BUFFER_TOO_SMALL, needed.to_vec()));
    }
    out.extend_from_slice(&bytes);
    Ok(NtStatus::SUCCESS)
}

/// Whether the client keeps POSIX owners and modes: it uses the POSIX extensions, or has set such numbers.
/// Other clients would show the entry with the mode as an unknown user.
fn wants_numbers(query: &Query<'_>) -> bool {
    query.file.options().contains(Options::STOP_AT_LINKS)
        || query.open.tree.speaks_numbers.load(Ordering::Relaxed)
}

/// The rights that an Open needs to read these parts.
// MS-FSA 2.1.5.14
fn needed(parts: Parts) -> Rights {
    let mut needed = Rights::empty();
    needed.set(Rights::READ_CONTROL, !(parts - Parts::SACL).is_empty());
    needed.set(Rights::ACCESS_SYSTEM_SECURITY, parts.intersects(Parts::SACL | Parts::BACKUP));
    needed
}

/// The requested parts of a descriptor. A request for a label returns no audit entry.
fn select(whole: &Descriptor, parts: Parts) -> Descriptor {
    let mut shown = whole.only(parts);
    if !parts.intersects(Parts::SACL | Parts::BACKUP)
        && let Some(sacl) = &mut shown.sacl
    {
        sacl.aces.retain(|ace| part_of(ace).is_some_and(|part| parts.intersects(part)));
    }
    shown
}

fn part_of(ace: &Ace) -> Option<Parts> {
    let AceKind::Other { kind, .. } = &ace.kind else { return None };
    SPECIAL.iter().find(|(special, _)| special == kind).map(|(_, part)| *part)
}

#[cfg(test)]
mod tests {
    use volume::security::{AceFlags, Acl, Control, well_known};

    use super::*;

    fn whole() -> Descriptor {
        let label = Ace {
            flags: AceFlags::empty(),
            kind: AceKind::Other { kind: 0x11, body: vec![0; 16].into_boxed_slice() },
        };
        let audit = Ace {
            flags: AceFlags::AUDIT_FAILURE,
            kind: AceKind::Audit(Rights::DELETE, well_known::EVERYONE),
        };
        let allow = Ace::allow(well_known::EVERYONE, Rights::ALL, AceFlags::empty());
        let mut whole = Descriptor::new(well_known::ADMINISTRATORS, well_known::USERS, Acl::new(vec![allow]));
        whole.sacl = Some(Acl::new(vec![audit, label]));
        whole.control |= Control::SACL_PRESENT;
        whole
    }

    #[test]
    fn only_what_was_asked_for_is_shown() {
        let shown = select(&whole(), Parts::OWNER);
        assert_eq!((shown.owner, shown.group), (Some(well_known::ADMINISTRATORS), None));
        assert!(shown.dacl.is_none() && shown.sacl.is_none());
        let label = select(&whole(), Parts::LABEL).sacl.unwrap();
        assert_eq!(label.aces.len(), 1);
        assert!(matches!(label.aces[0].kind, AceKind::Other { kind: 0x11, .. }));
        assert_eq!(select(&whole(), Parts::SACL).sacl.unwrap().aces.len(), 2);
    }

    #[test]
    fn audit_entries_need_their_own_right() {
        assert_eq!(needed(Parts::SACL), Rights::ACCESS_SYSTEM_SECURITY);
        assert_eq!(needed(Parts::OWNER | Parts::DACL), Rights::READ_CONTROL);
        assert_eq!(needed(Parts::empty()), Rights::empty());
        assert!(needed(Parts::BACKUP).contains(Rights::READ_CONTROL | Rights::ACCESS_SYSTEM_SECURITY));
    }
}
