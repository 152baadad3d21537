//! Makes of one side's access list that of another. A share's descriptor is what the others go through: it can say all
//! that they can. Users and groups go by the numbers of the host, which a share knows as S-1-22-1 and S-1-22-2.
//!
//! What cannot be said on the other side is left out, and each answer tells whether anything was.

use client::nfs::{AccessEntry, AceFlags, AceMask, AceType};
use volume::security::{
    self, Ace, AceKind, Acl, Control, Descriptor, Privileges, Rights, Sid, Token, from_mode, granted,
    mode_of, well_known,
};

use super::posix::{PosixAcl, PosixEntry, Tag};
use super::{List, Owner, Who};

/// A list, and whether it says all that the other one said.
pub(crate) type Made<T> = (T, bool);

/// Whom an entry of an export speaks of when it names neither a user nor a group.
const SPECIAL: [(&[u8], Sid); 4] = [
    (b"EVERYONE@", well_known::EVERYONE),
    (b"ANONYMOUS@", well_known::ANONYMOUS),
    (b"AUTHENTICATED@", well_known::AUTHENTICATED_USERS),
    (b"NETWORK@", well_known::NETWORK),
];
/// Who may do everything on a host anyhow.
const MIGHTY: [Sid; 2] = [well_known::SYSTEM, well_known::ADMINISTRATORS];
const INHERITED_BY: security::AceFlags =
    security::AceFlags::OBJECT_INHERIT.union(security::AceFlags::CONTAINER_INHERIT);

impl List {
    /// It as a share's, for a file of `owner`.
    pub(crate) fn to_nt(&self, owner: Option<&Owner>, is_directory: bool) -> Made<Descriptor> {
        let (user, group) = owner.and_then(Owner::sids).unwrap_or((well_known::NULL, well_known::NULL));
        match self {
            List::Nt(descriptor) => ((**descriptor).clone(), true),
            List::Posix(list) => (nt_of_posix(list, user, group, is_directory), true),
            List::Nfs(list) => nt_of_nfs(list, user, group),
        }
    }

    /// It as this host's; `current` are the permission bits that the copy has until now.
    pub(crate) fn to_posix(&self, owner: Option<&Owner>, is_directory: bool, current: u32) -> Made<PosixAcl> {
        if let List::Posix(list) = self {
            return (list.clone(), true);
        }
        let (descriptor, all) = self.to_nt(owner, is_directory);
        let (list, rest) = posix_of_nt(&descriptor, is_directory, current);
        (list, all && rest)
    }

    /// It as an export's.
    pub(crate) fn to_nfs(&self, owner: Option<&Owner>, is_directory: bool) -> Made<Vec<AccessEntry>> {
        if let List::Nfs(list) = self {
            return (list.clone(), true);
        }
        let (descriptor, all) = self.to_nt(owner, is_directory);
        let (list, rest) = nfs_of_nt(&descriptor);
        (list, all && rest)
    }
}

/// What three permission bits let somebody do.
fn rights(bits: u16, is_directory: bool) -> Rights {
    // The last entry is that of everybody else.
    let made = from_mode(u32::from(bits), well_known::NULL, well_known::NULL, is_directory);
    let last = made.dacl.as_ref().and_then(|list| list.aces.last());
    last.and_then(Ace::rights).unwrap_or_default()
}

fn nt_of_posix(list: &PosixAcl, user: Sid, group: Sid, is_directory: bool) -> Descriptor {
    let mut made = from_mode(list.mode, user, group, is_directory);
    let here = entries(&list.access, user, group, security::AceFlags::empty(), is_directory);
    let below = security::AceFlags::INHERIT_ONLY | INHERITED_BY;
    let (owner, owners_group) = (well_known::CREATOR_OWNER, well_known::CREATOR_GROUP);
    let inherited = entries(&list.default, owner, owners_group, below, is_directory);
    if let Some(dacl) = &mut made.dacl {
        if !here.is_empty() {
            // The owner's entries are right as they are: no list and no mask is in their way.
            dacl.aces.retain(|ace| ace.sid() == Some(&user));
            dacl.aces.extend(here.into_iter().filter(|ace| ace.sid() != Some(&user)));
        }
        dacl.aces.extend(inherited);
    }
    made
}

/// The entries of a list as a share has them. For somebody who is named nothing else counts, so whoever has less than
/// those behind gets an entry that denies the difference.
fn entries(
    list: &[PosixEntry],
    user: Sid,
    group: Sid,
    flags: security::AceFlags,
    is_directory: bool,
) -> Vec<Ace> {
    let mask = list.iter().find(|entry| entry.tag == Tag::Mask).map_or(7, |entry| entry.bits);
    let has = |entry: &PosixEntry| match entry.tag {
        Tag::User | Tag::Group | Tag::OwnersGroup => rights(entry.bits & mask, is_directory),
        _ => rights(entry.bits, is_directory),
    };
    let all_of = |tags: &[Tag]| {
        list.iter().filter(|it| tags.contains(&it.tag)).fold(Rights::empty(), |sum, it| sum | has(it))
    };
    let others = all_of(&[Tag::Others]);
    let groups = all_of(&[Tag::OwnersGroup, Tag::Group]);
    let mut out = Vec::new();
    for entry in list {
        let (sid, behind) = match entry.tag {
            Tag::Owner => (user, Rights::empty()),
            Tag::User => (Sid::unix_user(entry.id), groups | others),
            Tag::OwnersGroup => (group, others),
            Tag::Group => (Sid::unix_group(entry.id), others),
            Tag::Mask => continue,
            Tag::Others => (well_known::EVERYONE, Rights::empty()),
        };
        let less = behind - has(entry);
        if !less.is_empty() {
            out.push(Ace::deny(sid, less, flags));
        }
        out.push(Ace::allow(sid, has(entry), flags));
    }
    out
}

fn posix_of_nt(descriptor: &Descriptor, is_directory: bool, current: u32) -> Made<PosixAcl> {
    let mode = mode_of(descriptor, is_directory, current);
    let Some(dacl) = &descriptor.dacl else {
        return (PosixAcl { mode, ..PosixAcl::default() }, true);
    };
    let mut all = true;
    let (mut named, mut below) = (Vec::new(), Vec::new());
    for ace in &dacl.aces {
        let (AceKind::Allow(_, sid) | AceKind::Deny(_, sid)) = &ace.kind else {
            all = false;
            continue;
        };
        let tag = tag_of(sid, descriptor);
        all &= tag.is_some() || MIGHTY.contains(sid);
        let Some((tag, id)) = tag else { continue };
        if !ace.flags.contains(security::AceFlags::INHERIT_ONLY) && matches!(tag, Tag::User | Tag::Group) {
            let bits = bits_of(descriptor, *sid, tag, is_directory, current);
            named.push(PosixEntry { tag, bits, id });
        }
        if ace.flags.intersects(INHERITED_BY)
            && let AceKind::Allow(rights, _) = ace.kind
        {
            below.push(PosixEntry { tag, bits: bits(rights), id });
        }
    }
    let class = |shift: u32| (mode >> shift & 7) as u16;
    let access = match named.is_empty() {
        true => Vec::new(),
        false => whole([class(6), class(3), class(0)], named),
    };
    let default = match below.is_empty() || !is_directory {
        true => Vec::new(),
        false => {
            let of = |tag| below.iter().filter(|it| it.tag == tag).fold(0, |sum, it| sum | it.bits);
            let classes = [of(Tag::Owner), of(Tag::OwnersGroup), of(Tag::Others)];
            whole(classes, below.into_iter().filter(|it| matches!(it.tag, Tag::User | Tag::Group)).collect())
        }
    };
    // With a list the bits of the group are the mask.
    let mask = access.iter().find(|entry| entry.tag == Tag::Mask).map(|entry| u32::from(entry.bits));
    let mode = mask.map_or(mode, |mask| mode & !0o070 | mask << 3);
    (PosixAcl { mode, access, default }, all)
}

/// A list of the three classes and who is named, in order and with its mask.
fn whole([owner, group, others]: [u16; 3], mut named: Vec<PosixEntry>) -> Vec<PosixEntry> {
    named.sort_by_key(|entry| (entry.tag, entry.id));
    named.dedup_by(|later, first| {
        let same = (later.tag, later.id) == (first.tag, first.id);
        if same {
            first.bits |= later.bits;
        }
        same
    });
    let mask = named.iter().fold(group, |sum, entry| sum | entry.bits);
    let mut list = vec![PosixEntry::of(Tag::Owner, owner), PosixEntry::of(Tag::OwnersGroup, group)];
    if !named.is_empty() {
        list.push(PosixEntry::of(Tag::Mask, mask));
    }
    list.push(PosixEntry::of(Tag::Others, others));
    list.extend(named);
    list.sort_by_key(|entry| (entry.tag, entry.id));
    list
}

/// Whom of a POSIX list an identifier means.
fn tag_of(sid: &Sid, of: &Descriptor) -> Option<(Tag, u32)> {
    let nobody = super::posix::NOBODY;
    let everybody = [well_known::EVERYONE, well_known::AUTHENTICATED_USERS, well_known::NETWORK];
    let owner = [Some(well_known::CREATOR_OWNER), Some(well_known::OWNER_RIGHTS), of.owner];
    if everybody.contains(sid) {
        Some((Tag::Others, nobody))
    } else if owner.contains(&Some(*sid)) {
        Some((Tag::Owner, nobody))
    } else if [Some(well_known::CREATOR_GROUP), of.group].contains(&Some(*sid)) {
        Some((Tag::OwnersGroup, nobody))
    } else if let Some(uid) = sid.as_unix_user() {
        Some((Tag::User, uid))
    } else {
        sid.as_unix_group().map(|gid| (Tag::Group, gid))
    }
}

/// What somebody may do by the whole of a descriptor.
fn bits_of(descriptor: &Descriptor, sid: Sid, tag: Tag, is_directory: bool, current: u32) -> u16 {
    let everybody = [well_known::EVERYONE, well_known::AUTHENTICATED_USERS, well_known::NETWORK];
    let (user, mut groups) = if tag == Tag::User { (sid, vec![]) } else { (well_known::NULL, vec![sid]) };
    groups.extend(everybody);
    let token = Token { user, group: user, owner: user, groups, privileges: Privileges::empty() };
    let bits = bits(granted(descriptor, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default());
    // As with permission bits, a file that cannot be run by anybody is not made one that can.
    if is_directory || current & 0o111 != 0 { bits } else { bits & 6 }
}

fn bits(rights: Rights) -> u16 {
    let bit = |right, bit| if rights.mapped().contains(right) { bit } else { 0 };
    bit(Rights::READ_DATA, 4) | bit(Rights::WRITE_DATA, 2) | bit(Rights::EXECUTE, 1)
}

/// The flags that both have, theirs and ours.
const FLAGS: [(AceFlags, security::AceFlags); 5] = [
    (AceFlags::FILE_INHERIT, security::AceFlags::OBJECT_INHERIT),
    (AceFlags::DIRECTORY_INHERIT, security::AceFlags::CONTAINER_INHERIT),
    (AceFlags::NO_PROPAGATE_INHERIT, security::AceFlags::NO_PROPAGATE),
    (AceFlags::INHERIT_ONLY, security::AceFlags::INHERIT_ONLY),
    (AceFlags::INHERITED, security::AceFlags::INHERITED),
];

fn nt_of_nfs(list: &[AccessEntry], user: Sid, group: Sid) -> Made<Descriptor> {
    let (mut aces, mut all) = (Vec::new(), true);
    for entry in list {
        let is_group = entry.flags.contains(AceFlags::IDENTIFIER_GROUP);
        let below = entry.flags.contains(AceFlags::INHERIT_ONLY);
        let special = SPECIAL.iter().find(|(name, _)| *name == entry.who.as_slice());
        let sid = match entry.who.as_slice() {
            b"OWNER@" => Some(if below { well_known::CREATOR_OWNER } else { user }),
            b"GROUP@" => Some(if below { well_known::CREATOR_GROUP } else { group }),
            name => special.map(|(_, sid)| *sid).or_else(|| Who::Name(name.to_vec()).sid(is_group)),
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

fn nfs_of_nt(descriptor: &Descriptor) -> Made<Vec<AccessEntry>> {
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
            Who::Sid(sid).name(is_group)
        };
        let mask = AceMask::from_bits_retain((rights.mapped() & Rights::ALL).bits());
        list.push(AccessEntry { kind, flags, mask, who });
    }
    (list, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: u32 = 1000;
    const BOB: u32 = 1001;
    const STAFF: u32 = 50;

    fn owner() -> Owner {
        Owner { user: Who::Number(ANN), group: Who::Number(STAFF) }
    }

    /// A list with somebody in it who is named.
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
                let (nt, all) = given.to_nt(Some(&owner()), is_directory);
                assert!(all);
                let (back, all) = List::Nt(Box::new(nt)).to_posix(None, is_directory, mode);
                assert!(all && back == PosixAcl { mode, ..PosixAcl::default() }, "{mode:o} {back:?}");
                let (nfs, all) = given.to_nfs(Some(&owner()), is_directory);
                assert!(all);
                let (back, all) = List::Nfs(nfs).to_posix(Some(&owner()), is_directory, mode);
                assert!(all && back == PosixAcl { mode, ..PosixAcl::default() }, "{mode:o} {back:?}");
            }
        }
    }

    #[test]
    fn somebody_who_is_named_keeps_what_the_mask_leaves() {
        for (bits, mask) in [(6, 6), (6, 4), (0, 4), (4, 4)] {
            let (nt, _) = List::Posix(list(bits, mask)).to_nt(Some(&owner()), false);
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
        let (nt, _) = List::Posix(given.clone()).to_nt(Some(&owner()), true);
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
        // An export that takes identifiers says the same.
        let (nfs, all) = List::Nt(Box::new(nt)).to_nfs(None, false);
        assert!(all && nfs[0].who == stranger.to_string().into_bytes());
        let name = AccessEntry { who: b"ann@example.com".to_vec(), ..nfs[0].clone() };
        assert!(!List::Nfs(vec![name]).to_nt(Some(&owner()), false).1);
    }
}
