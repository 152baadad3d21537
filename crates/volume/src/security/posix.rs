//! POSIX access lists in the form of Linux, in the attributes `system.posix_acl_access` and
//! `system.posix_acl_default`. They are translated to descriptors and back (acl(5)).

use super::{
    Ace, AceFlags, AceKind, Descriptor, Privileges, Rights, Sid, Token, from_mode, granted, well_known,
};

/// The flags of an entry that is inherited.
const INHERITED_BY: AceFlags = AceFlags::OBJECT_INHERIT.union(AceFlags::CONTAINER_INHERIT);
/// The identifiers that have all rights on a host anyway.
const MIGHTY: [Sid; 2] = [well_known::SYSTEM, well_known::ADMINISTRATORS];
const EVERYBODY: [Sid; 3] = [well_known::EVERYONE, well_known::AUTHENTICATED_USERS, well_known::NETWORK];

/// An access list with its permission bits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PosixAcl {
    /// The permission bits. With a list, those of the group are its mask.
    pub mode: u32,
    /// The list of the file itself. Empty when the permission bits are sufficient.
    pub access: Vec<PosixEntry>,
    /// The default list of a directory. New files and directories in it inherit it.
    pub default: Vec<PosixEntry>,
}

/// One entry of a list. A list is sorted by [`Tag`], and then by the number of the user or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PosixEntry {
    /// The kind of user or group that the entry is about.
    pub tag: Tag,
    /// Read 4, write 2, execute 1.
    pub bits: u16,
    /// The number of the named user or group; [`NOBODY`] without one.
    pub id: u32,
}

/// The kind of user or group that an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Tag {
    /// The owner.
    Owner = 0x01,
    /// A named user.
    User = 0x02,
    /// The file's group.
    OwnersGroup = 0x04,
    /// A named group.
    Group = 0x08,
    /// The most rights that named users and all groups get.
    Mask = 0x10,
    /// Everybody else.
    Others = 0x20,
}

/// The translation between the host's users and groups and the identifiers in descriptors.
pub trait IdMap {
    /// The identifier of a user.
    fn user(&self, uid: u32) -> Sid;
    /// The identifier of a group.
    fn group(&self, gid: u32) -> Sid;
    /// The user, or the group, that an identifier means.
    fn named(&self, sid: &Sid) -> Option<(Tag, u32)>;
}

/// Translates the numbers themselves, as S-1-22-1 and S-1-22-2.
#[derive(Debug, Clone, Copy)]
pub struct PlainIdMap;

impl IdMap for PlainIdMap {
    fn user(&self, uid: u32) -> Sid {
        Sid::unix_user(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        Sid::unix_group(gid)
    }

    fn named(&self, sid: &Sid) -> Option<(Tag, u32)> {
        let user = sid.as_unix_user().map(|uid| (Tag::User, uid));
        user.or_else(|| sid.as_unix_group().map(|gid| (Tag::Group, gid)))
    }
}

const TAGS: [Tag; 6] = [Tag::Owner, Tag::User, Tag::OwnersGroup, Tag::Group, Tag::Mask, Tag::Others];
/// The number of an entry that names nobody.
pub const NOBODY: u32 = u32::MAX;
/// The version in front of every list.
const VERSION: u32 = 2;

impl PosixEntry {
    /// An entry that names nobody.
    #[must_use]
    pub fn of(tag: Tag, bits: u16) -> PosixEntry {
        PosixEntry { tag, bits, id: NOBODY }
    }
}

/// Reads an attribute. `None` if it is not a list.
#[must_use]
pub fn parse(attribute: &[u8]) -> Option<Vec<PosixEntry>> {
    let (version, entries) = attribute.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let entry = |raw: &[u8]| {
        let tag = u16::from_le_bytes([raw[0], raw[1]]);
        let tag = TAGS.into_iter().find(|known| *known as u16 == tag)?;
        let bits = u16::from_le_bytes([raw[2], raw[3]]) & 7;
        Some(PosixEntry { tag, bits, id: u32::from_le_bytes(*raw[4..].first_chunk()?) })
    };
    entries.chunks_exact(8).map(entry).collect()
}

/// A list as an attribute.
#[must_use]
pub fn encode(entries: &[PosixEntry]) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        out.extend((entry.tag as u16).to_le_bytes());
        out.extend(entry.bits.to_le_bytes());
        out.extend(entry.id.to_le_bytes());
    }
    out
}

/// The permission bits that a list amounts to. The group's bits are those of its mask.
#[must_use]
pub fn mode_of_list(list: &[PosixEntry]) -> u32 {
    let bits = |tag| list.iter().find(|entry| entry.tag == tag).map(|entry| u32::from(entry.bits));
    let group = bits(Tag::Mask).or_else(|| bits(Tag::OwnersGroup));
    bits(Tag::Owner).unwrap_or(0) << 6 | group.unwrap_or(0) << 3 | bits(Tag::Others).unwrap_or(0)
}

/// Sets the permission bits of a list. The bits of the group become its mask.
// chmod(2), acl(5)
pub fn set_mode_of_list(list: &mut [PosixEntry], mode: u32) {
    let has_mask = list.iter().any(|entry| entry.tag == Tag::Mask);
    for entry in list {
        let shift = match entry.tag {
            Tag::Owner => 6,
            Tag::Mask => 3,
            Tag::OwnersGroup if !has_mask => 3,
            Tag::Others => 0,
            Tag::User | Tag::OwnersGroup | Tag::Group => continue,
        };
        entry.bits = (mode >> shift & 7) as u16;
    }
}

/// The permission bits that a list gives to a user other than the host's root.
// acl(5), "Access check algorithm", with the groups taken together
#[must_use]
pub fn bits_for(list: &[PosixEntry], (owner, group): (u32, u32), uid: u32, groups: &[u32]) -> u16 {
    let find = |tag| list.iter().find(move |entry| entry.tag == tag);
    if uid == owner {
        return find(Tag::Owner).map_or(0, |entry| entry.bits);
    }
    let mask = find(Tag::Mask).map_or(7, |entry| entry.bits);
    if let Some(named) = list.iter().find(|entry| entry.tag == Tag::User && entry.id == uid) {
        return named.bits & mask;
    }
    let of_them = |entry: &&PosixEntry| match entry.tag {
        Tag::OwnersGroup => groups.contains(&group),
        Tag::Group => groups.contains(&entry.id),
        _ => false,
    };
    let theirs = list.iter().filter(of_them).map(|entry| entry.bits & mask);
    theirs.reduce(|sum, bits| sum | bits).unwrap_or_else(|| find(Tag::Others).map_or(0, |entry| entry.bits))
}

/// The descriptor of a file with these permission bits and lists. On the host exactly one class applies
/// to a user. So a class with fewer rights than a later one gets an entry that denies the difference. The
/// rights of several groups add up.
#[must_use]
pub fn from_posix(
    list: &PosixAcl,
    owner: Sid,
    group: Sid,
    is_directory: bool,
    numbers: &dyn IdMap,
) -> Descriptor {
    let mut made = from_mode(list.mode, owner, group, is_directory);
    let here = entries(&list.access, owner, group, AceFlags::empty(), is_directory, numbers);
    let below = AceFlags::INHERIT_ONLY | INHERITED_BY;
    let (owner_to_be, group_to_be) = (well_known::CREATOR_OWNER, well_known::CREATOR_GROUP);
    let inherited = entries(&list.default, owner_to_be, group_to_be, below, is_directory, numbers);
    if let Some(dacl) = &mut made.dacl {
        if !here.is_empty() {
            // The owner's entries need no change: neither a list nor a mask limits them.
            dacl.aces.retain(|ace| ace.sid() == Some(&owner));
            dacl.aces.extend(here);
        }
        dacl.aces.extend(inherited);
    }
    made
}

/// The rights that three permission bits give.
fn rights(bits: u16, is_directory: bool) -> Rights {
    // The last entry is the entry of everybody else.
    let made = from_mode(u32::from(bits), well_known::NULL, well_known::NULL, is_directory);
    let last = made.dacl.as_ref().and_then(|list| list.aces.last());
    last.and_then(Ace::rights).unwrap_or_default()
}

/// The entries of a list. The owner's entries are included only if they are inherited.
fn entries(
    list: &[PosixEntry],
    owner: Sid,
    group: Sid,
    flags: AceFlags,
    is_directory: bool,
    numbers: &dyn IdMap,
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
    let (mut out, mut kept_from_groups, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for entry in list {
        let allowed = has(entry);
        let deny = |sid, less: Rights| (!less.is_empty()).then(|| Ace::deny(sid, less, flags));
        match entry.tag {
            Tag::Owner if flags.contains(AceFlags::INHERIT_ONLY) => {
                out.push(Ace::allow(owner, allowed, flags));
            }
            Tag::Owner | Tag::Mask => {}
            Tag::User => {
                let sid = numbers.user(entry.id);
                if sid != owner {
                    out.extend(deny(sid, (groups | others) - allowed));
                    out.push(Ace::allow(sid, allowed, flags));
                }
            }
            Tag::OwnersGroup | Tag::Group => {
                let sid = if entry.tag == Tag::Group { numbers.group(entry.id) } else { group };
                out.push(Ace::allow(sid, allowed, flags));
                kept_from_groups.extend(deny(sid, others - allowed));
            }
            Tag::Others => last.push(Ace::allow(well_known::EVERYONE, allowed, flags)),
        }
    }
    out.into_iter().chain(kept_from_groups).chain(last).collect()
}

/// The host's lists that come nearest to a descriptor with the permission bits `mode`, and whether they
/// express all of it. With `runs` the right to execute becomes an x bit.
#[must_use]
pub fn posix_of(
    descriptor: &Descriptor,
    is_directory: bool,
    mode: u32,
    runs: bool,
    numbers: &dyn IdMap,
) -> (PosixAcl, bool) {
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
        let tag = tag_of(sid, descriptor, numbers);
        all &= tag.is_some() || MIGHTY.contains(sid);
        let Some((tag, id)) = tag else { continue };
        if !ace.flags.contains(AceFlags::INHERIT_ONLY) && matches!(tag, Tag::User | Tag::Group) {
            let bits = bits_of(descriptor, *sid, tag) & if runs { 7 } else { 6 };
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

/// A list of the three classes and the named users and groups, sorted and with its mask.
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

/// The tag and number in a POSIX list that an identifier means.
fn tag_of(sid: &Sid, of: &Descriptor, numbers: &dyn IdMap) -> Option<(Tag, u32)> {
    let owner = [Some(well_known::CREATOR_OWNER), Some(well_known::OWNER_RIGHTS), of.owner];
    if EVERYBODY.contains(sid) {
        Some((Tag::Others, NOBODY))
    } else if owner.contains(&Some(*sid)) {
        Some((Tag::Owner, NOBODY))
    } else if [Some(well_known::CREATOR_GROUP), of.group].contains(&Some(*sid)) {
        Some((Tag::OwnersGroup, NOBODY))
    } else {
        numbers.named(sid)
    }
}

/// The permission bits that the whole descriptor gives to an identifier.
fn bits_of(descriptor: &Descriptor, sid: Sid, tag: Tag) -> u16 {
    let (user, mut groups) = if tag == Tag::User { (sid, vec![]) } else { (well_known::NULL, vec![sid]) };
    groups.extend(EVERYBODY);
    let token = Token { user, group: user, owner: user, groups, privileges: Privileges::empty() };
    bits(granted(descriptor, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default())
}

fn bits(rights: Rights) -> u16 {
    let bit = |right, bit| if rights.mapped().contains(right) { bit } else { 0 };
    bit(Rights::READ_DATA, 4) | bit(Rights::WRITE_DATA, 2) | bit(Rights::EXECUTE, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_setfacl_is_read_and_written_the_same() {
        // The attribute that `setfacl -m u:1000:r` made on a file with mode 640.
        let seen = [
            2, 0, 0, 0, //
            1, 0, 6, 0, 255, 255, 255, 255, //
            2, 0, 4, 0, 0xe8, 3, 0, 0, //
            4, 0, 4, 0, 255, 255, 255, 255, //
            16, 0, 4, 0, 255, 255, 255, 255, //
            32, 0, 0, 0, 255, 255, 255, 255,
        ];
        let list = parse(&seen).unwrap();
        assert_eq!(list[1], PosixEntry { tag: Tag::User, bits: 4, id: 1000 });
        assert_eq!(list.last(), Some(&PosixEntry::of(Tag::Others, 0)));
        assert_eq!(encode(&list), seen);
        assert!((0..seen.len()).filter(|cut| cut % 8 != 4).all(|cut| parse(&seen[..cut]).is_none()));
        assert!(parse(&[3, 0, 0, 0]).is_none() && parse(&[2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }

    /// Compares with the access that Linux 6.1 grants, by the access check of acl(5).
    #[test]
    fn everybody_gets_by_the_descriptor_what_the_host_gives() {
        const OWNER: u32 = 1000;
        const GROUP: u32 = 55;
        for case in (0..8_u16.pow(5)).step_by(5) {
            let digit = |at: u32| case / 8_u16.pow(at) % 8;
            // A sparse set: every combination of mask, named user and others, with two groups that vary
            // against each other.
            let list = [
                PosixEntry::of(Tag::Owner, digit(0)),
                PosixEntry { tag: Tag::User, bits: digit(1), id: 1001 },
                PosixEntry::of(Tag::OwnersGroup, digit(2)),
                PosixEntry { tag: Tag::Group, bits: 7 - digit(2), id: 66 },
                PosixEntry::of(Tag::Mask, digit(3)),
                PosixEntry::of(Tag::Others, digit(4)),
            ];
            let mode = u32::from(digit(0)) << 6 | u32::from(digit(3)) << 3 | u32::from(digit(4));
            let acl = PosixAcl { mode, access: list.to_vec(), default: Vec::new() };
            let made = from_posix(&acl, Sid::unix_user(OWNER), Sid::unix_group(GROUP), true, &PlainIdMap);
            for (uid, groups) in [
                (OWNER, &[GROUP, 66][..]),
                (1001, &[GROUP]),
                (1002, &[GROUP]),
                (1002, &[66]),
                (1002, &[66, GROUP]),
                (1002, &[7]),
            ] {
                let sids: Vec<Sid> = groups.iter().map(|gid| Sid::unix_group(*gid)).collect();
                let token = Token::authenticated(Sid::unix_user(uid), sids[0], &sids);
                let has = granted(&made, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default();
                let expected = bits_for(&list, (OWNER, GROUP), uid, groups);
                assert_eq!(bits(has), expected, "{list:?} {uid} {groups:?}");
            }
        }
    }
}
