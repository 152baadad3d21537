//! Translates access lists between the sides. The intermediate form is the descriptor of a share, which can
//! express all that the others can. Users and groups are known by the numbers of the host, which a share
//! knows as S-1-22-1 and S-1-22-2.
//!
//! Entries that the other side cannot express are left out. Each result tells whether there were any.

use client::nfs::{AccessEntry, AceFlags, AceMask, AceType};
use volume::security::posix::{PlainIdMap, PosixAcl, from_posix, posix_of};
use volume::security::{self, Ace, AceKind, Acl, Control, Descriptor, Rights, Sid, mode_of, well_known};

use super::{List, Owner, OwnerId};

/// A translated list, and whether it is complete.
pub(crate) type Translated<T> = (T, bool);

/// The special names of NFS entries that are neither users nor groups.
const SPECIAL: [(&[u8], Sid); 4] = [
    (b"EVERYONE@", well_known::EVERYONE),
    (b"ANONYMOUS@", well_known::ANONYMOUS),
    (b"AUTHENTICATED@", well_known::AUTHENTICATED_USERS),
    (b"NETWORK@", well_known::NETWORK),
];

/// Reading and running are two rights, as in a directory. The other side turns the right to run into x (RFC
/// 8881 6.3.2), so otherwise a file without x would get it.
const READ_RUNS_NOTHING: bool = true;

impl List {
    /// Translates it for a share, for a file of `owner`.
    pub(crate) fn to_nt(&self, owner: Option<&Owner>) -> Translated<Descriptor> {
        let (user, group) = owner.and_then(Owner::sids).unwrap_or((well_known::NULL, well_known::NULL));
        match self {
            List::Nt(descriptor) => ((**descriptor).clone(), true),
            List::Posix(list) => (from_posix(list, user, group, READ_RUNS_NOTHING, &PlainIdMap), true),
            List::Nfs(list) => nt_of_nfs(list, user, group),
        }
    }

    /// Translates it for this host. `current` are the present permission bits of the copy.
    pub(crate) fn to_posix(
        &self,
        owner: Option<&Owner>,
        is_directory: bool,
        current: u32,
    ) -> Translated<PosixAcl> {
        if let List::Posix(list) = self {
            return (list.clone(), true);
        }
        let (descriptor, all) = self.to_nt(owner);
        let mode = mode_of(&descriptor, is_directory, current);
        // As with permission bits, a file that nobody can run is not made runnable.
        let runs = is_directory || current & 0o111 != 0;
        let (list, rest) = posix_of(&descriptor, is_directory, mode, runs, &PlainIdMap);
        (list, all && rest)
    }

    /// Translates it for an export.
    pub(crate) fn to_nfs(&self, owner: Option<&Owner>) -> Translated<Vec<AccessEntry>> {
        if let List::Nfs(list) = self {
            return (list.clone(), true);
        }
        let (descriptor, all) = self.to_nt(owner);
        let (list, rest) = nfs_of_nt(&descriptor);
        (list, all && rest)
    }
}

/// The common flags, theirs and ours.
const FLAGS: [(AceFlags, security::AceFlags); 5] = [
    (AceFlags::FILE_INHERIT, security::AceFlags::OBJECT_INHERIT),
    (AceFlags::DIRECTORY_INHERIT, security::AceFlags::CONTAINER_INHERIT),
    (AceFlags::NO_PROPAGATE_INHERIT, security::AceFlags::NO_PROPAGATE),
    (AceFlags::INHERIT_ONLY, security::AceFlags::INHERIT_ONLY),
    (AceFlags::INHERITED, security::AceFlags::INHERITED),
];

fn nt_of_nfs(list: &[AccessEntry], user: Sid, group: Sid) -> Translated<Descriptor> {
    let (mut aces, mut all) = (Vec::new(), true);
    for entry in list {
        let is_group = entry.flags.contains(AceFlags::IDENTIFIER_GROUP);
        let below = entry.flags.contains(AceFlags::INHERIT_ONLY);
        let special = SPECIAL.iter().find(|(name, _)| *name == entry.who.as_slice());
        let sid = match entry.who.as_slice() {
            b"OWNER@" => Some(if below { well_known::CREATOR_OWNER } else { user }),
            b"GROUP@" => Some(if below { well_known::CREATOR_GROUP } else { group }),
            name => special.map(|(_, sid)| *sid).or_else(|| OwnerId::Name(name.to_vec()).sid(is_group)),
        };
        let mut flags = security::AceFlags::empty();
        FLAGS.iter().for_each(|(theirs, ours)| flags.set(*ours, entry.flags.contains(*theirs)));
        let rights = Rights::from_bits_retain(entry.mask.bits());
        match (entry.kind, sid) {
            (AceType::Allowed, Some(sid)) => aces.push(Ace::allow(sid, rights, flags)),
            (AceType::Denied, Some(sid)) => aces.push(Ace::deny(sid, rights, flags)),
            _ => all = false,
        }
    }
    (Descriptor::new(user, group, Acl::new(aces)), all)
}

fn nfs_of_nt(descriptor: &Descriptor) -> Translated<Vec<AccessEntry>> {
    let everything = [Ace::allow(well_known::EVERYONE, Rights::ALL, security::AceFlags::empty())];
    let aces = descriptor.dacl.as_ref().map_or(&everything[..], |list| &list.aces);
    let (mut list, mut all) = (Vec::new(), !descriptor.control.contains(Control::DACL_PROTECTED));
    for ace in aces {
        let (kind, rights, sid) = match &ace.kind {
            AceKind::Allow(rights, sid) => (AceType::Allowed, *rights, *sid),
            AceKind::Deny(rights, sid) => (AceType::Denied, *rights, *sid),
            AceKind::Audit(..) | AceKind::Other { .. } => {
                all = false;
                continue;
            }
        };
        let mut flags = AceFlags::empty();
        FLAGS.iter().for_each(|(theirs, ours)| flags.set(*theirs, ace.flags.contains(*ours)));
        let special = SPECIAL.iter().find(|(_, known)| *known == sid);
        let is_group = sid.as_unix_group().is_some();
        let who = if sid == well_known::CREATOR_OWNER || descriptor.owner == Some(sid) {
            b"OWNER@".to_vec()
        } else if sid == well_known::CREATOR_GROUP || descriptor.group == Some(sid) {
            flags |= AceFlags::IDENTIFIER_GROUP;
            b"GROUP@".to_vec()
        } else if let Some((name, _)) = special {
            name.to_vec()
        } else {
            flags.set(AceFlags::IDENTIFIER_GROUP, is_group);
            OwnerId::Sid(sid).name(is_group)
        };
        let mask = AceMask::from_bits_retain((rights.mapped() & Rights::ALL).bits());
        list.push(AccessEntry { kind, flags, mask, who });
    }
    (list, all)
}

#[cfg(test)]
mod tests {
    use volume::security::posix::{PosixEntry, Tag};
    use volume::security::{Token, granted};

    use super::*;

    const ANN: u32 = 1000;
    const BOB: u32 = 1001;
    const STAFF: u32 = 50;

    fn owner() -> Owner {
        Owner { user: OwnerId::Number(ANN), group: OwnerId::Number(STAFF) }
    }

    /// A list with a named user.
    fn list(bits: u16, mask: u16) -> PosixAcl {
        let entry = PosixEntry::of;
        let access = vec![
            entry(Tag::Owner, 6),
            PosixEntry { tag: Tag::User, bits, id: BOB },
            entry(Tag::OwnersGroup, 4),
            entry(Tag::Mask, mask),
            entry(Tag::Others, 0),
        ];
        PosixAcl { mode: 0o600 | u32::from(mask) << 3, access, default: Vec::new() }
    }

    #[test]
    fn permission_bits_come_back_over_every_other_side() {
        for is_directory in [false, true] {
            for mode in 0..0o1000 {
                let given = List::Posix(PosixAcl { mode, ..PosixAcl::default() });
                let (nt, all) = given.to_nt(Some(&owner()));
                assert!(all);
                let (back, all) = List::Nt(Box::new(nt)).to_posix(None, is_directory, mode);
                assert!(all && back == PosixAcl { mode, ..PosixAcl::default() }, "{mode:o} {back:?}");
                let (nfs, all) = given.to_nfs(Some(&owner()));
                assert!(all);
                let (back, all) = List::Nfs(nfs).to_posix(Some(&owner()), is_directory, mode);
                assert!(all && back == PosixAcl { mode, ..PosixAcl::default() }, "{mode:o} {back:?}");
            }
        }
    }

    // RFC 8881 6.3.2
    #[test]
    fn the_list_of_a_file_that_nobody_runs_comes_to_a_mode_without_x() {
        for posix in [PosixAcl { mode: 0o644, ..PosixAcl::default() }, list(4, 4)] {
            let mode = posix.mode;
            let (nt, _) = List::Posix(posix.clone()).to_nt(Some(&owner()));
            assert_eq!(security::computed_mode(&nt), mode, "{nt:?}");
            let (nfs, _) = List::Posix(posix).to_nfs(Some(&owner()));
            assert!(nfs.iter().all(|entry| !entry.mask.contains(AceMask::EXECUTE)), "{nfs:?}");
        }
    }

    #[test]
    fn somebody_who_is_named_keeps_what_the_mask_leaves() {
        for (bits, mask) in [(6, 6), (6, 4), (0, 4), (4, 4)] {
            let (nt, _) = List::Posix(list(bits, mask)).to_nt(Some(&owner()));
            let bob = Token::authenticated(Sid::unix_user(BOB), Sid::unix_group(99), &[]);
            let has = granted(&nt, &bob, Rights::MAXIMUM_ALLOWED).unwrap();
            assert_eq!(has.contains(Rights::READ_DATA), bits & mask & 4 != 0, "{bits} {mask}");
            assert_eq!(has.contains(Rights::WRITE_DATA), bits & mask & 2 != 0, "{bits} {mask}");
            let (back, all) = List::Nt(Box::new(nt)).to_posix(None, false, 0o640);
            let named = back.access.iter().find(|entry| entry.tag == Tag::User).unwrap();
            assert!(all && (named.id, named.bits) == (BOB, bits & mask), "{back:?}");
        }
    }

    #[test]
    fn what_a_directory_passes_on_is_passed_on_on_the_other_side() {
        let mut given = PosixAcl { mode: 0o750, ..PosixAcl::default() };
        given.default = vec![
            PosixEntry::of(Tag::Owner, 7),
            PosixEntry { tag: Tag::User, bits: 5, id: BOB },
            PosixEntry::of(Tag::OwnersGroup, 5),
            PosixEntry::of(Tag::Mask, 5),
            PosixEntry::of(Tag::Others, 0),
        ];
        let (nt, _) = List::Posix(given.clone()).to_nt(Some(&owner()));
        let (back, all) = List::Nt(Box::new(nt)).to_posix(None, true, 0o750);
        assert!(all);
        assert_eq!(back, given);
    }

    #[test]
    fn who_is_not_known_on_the_other_side_is_told() {
        let stranger: Sid = "S-1-5-21-1-2-3-1001".parse().unwrap();
        let aces = vec![
            Ace::allow(stranger, Rights::FOR_READ, security::AceFlags::empty()),
            Ace::allow(well_known::SYSTEM, Rights::ALL, security::AceFlags::empty()),
        ];
        let nt = Descriptor::new(Sid::unix_user(ANN), Sid::unix_group(STAFF), Acl::new(aces));
        assert!(!List::Nt(Box::new(nt.clone())).to_posix(None, false, 0o644).1);
        // An export that accepts identifiers gives the same.
        let (nfs, all) = List::Nt(Box::new(nt)).to_nfs(None);
        assert!(all && nfs[0].who == stranger.to_string().into_bytes());
        let name = AccessEntry { who: b"ann@example.com".to_vec(), ..nfs[0].clone() };
        assert!(!List::Nfs(vec![name]).to_nt(Some(&owner())).1);
    }
}
