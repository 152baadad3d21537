//! The host's permission bits as a descriptor, and a descriptor as permission bits.

use super::{
    Ace, AceFlags, AceKind, Acl, Control, Descriptor, Privileges, Rights, Sid, Token, granted, well_known,
};

/// The rights that an owner has whatever the bits say. On the host, too, an owner can always obtain
/// access.
const OWNERS: Rights = Rights::DELETE
    .union(Rights::READ_CONTROL)
    .union(Rights::WRITE_DAC)
    .union(Rights::WRITE_OWNER)
    .union(Rights::SYNCHRONIZE)
    .union(Rights::READ_ATTRIBUTES)
    .union(Rights::WRITE_ATTRIBUTES)
    .union(Rights::READ_EA)
    .union(Rights::WRITE_EA);
/// The rights of everybody who can reach a file. The host shows attributes to all.
const ANYONES: Rights = Rights::READ_CONTROL.union(Rights::READ_ATTRIBUTES).union(Rights::SYNCHRONIZE);

/// The rights on data that three permission bits give.
fn data_rights(bits: u32, is_directory: bool) -> Rights {
    let mut out = Rights::empty();
    if bits & 0o4 != 0 {
        out |= Rights::READ_DATA | Rights::READ_EA;
        // A user who can read a file's bytes can run them, and files that come from elsewhere have no x
        // bit.
        if !is_directory {
            out |= Rights::EXECUTE;
        }
    }
    if bits & 0o2 != 0 {
        // On a file the last right has no meaning, but a request for all rights includes it.
        out |= Rights::WRITE_DATA | Rights::APPEND_DATA | Rights::WRITE_EA | Rights::WRITE_ATTRIBUTES;
        out |= Rights::DELETE_CHILD;
    }
    if bits & 0o1 != 0 {
        out |= Rights::EXECUTE;
    }
    out
}

/// A descriptor with the meaning of the host's permission bits, for a node that has no stored descriptor.
///
/// On the host exactly one of the three classes applies to a user. So a class with fewer rights than a
/// later one gets an entry that denies the difference.
#[must_use]
pub fn from_mode(mode: u32, owner: Sid, group: Sid, is_directory: bool) -> Descriptor {
    let [user, members, others] = [6, 3, 0].map(|shift| data_rights(mode >> shift, is_directory));
    let none = AceFlags::empty();
    let mut aces = Vec::with_capacity(5);
    let kept_from_user = (members | others) - user - OWNERS;
    if !kept_from_user.is_empty() {
        aces.push(Ace::deny(owner, kept_from_user, none));
    }
    aces.push(Ace::allow(owner, OWNERS | user, none));
    let kept_from_members = others - members - ANYONES;
    if !kept_from_members.is_empty() {
        aces.push(Ace::deny(group, kept_from_members, none));
    }
    aces.push(Ace::allow(group, ANYONES | members, none));
    aces.push(Ace::allow(well_known::EVERYONE, ANYONES | others, none));
    Descriptor::new(owner, group, Acl::new(aces))
}

/// The permission bits that come nearest to a descriptor; `current` is the present mode. A file's x bits
/// can be removed but not added, because the right to run does not show that a file is a program. Set-id
/// and sticky bits stay.
#[must_use]
pub fn mode_of(descriptor: &Descriptor, is_directory: bool, current: u32) -> u32 {
    let owner = descriptor.owner.unwrap_or(well_known::NULL);
    let group = descriptor.group.unwrap_or(well_known::NULL);
    let everyone = [well_known::EVERYONE, well_known::AUTHENTICATED_USERS, well_known::NETWORK];
    let bits = |user: Sid, groups: Vec<Sid>| {
        let token = Token { user, group: user, owner: user, groups, privileges: Privileges::empty() };
        let has = granted(descriptor, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default();
        let bit = |right, bit| if has.contains(right) { bit } else { 0 };
        bit(Rights::READ_DATA, 0o4) | bit(Rights::WRITE_DATA, 0o2) | bit(Rights::EXECUTE, 0o1)
    };
    let user = bits(owner, everyone.to_vec());
    let members = bits(well_known::NULL, [&[group][..], &everyone].concat());
    let others = bits(well_known::NULL, everyone.to_vec());
    let wanted = user << 6 | members << 3 | others;
    let running = if is_directory { wanted & 0o111 } else { wanted & current & 0o111 };
    (current & 0o7000) | (wanted & 0o666) | running
}

/// The rights that the permission bits can express.
const READS: Rights = Rights::READ_DATA.union(Rights::READ_EA);
const WRITES: Rights = Rights::WRITE_DATA
    .union(Rights::APPEND_DATA)
    .union(Rights::WRITE_EA)
    .union(Rights::WRITE_ATTRIBUTES)
    .union(Rights::DELETE_CHILD);
/// The rights that a list must not give to somebody who may not write by the mode. With these rights they
/// could take over the list.
const RULES: Rights = Rights::DELETE.union(Rights::WRITE_DAC).union(Rights::WRITE_OWNER);
/// All rights that permission bits can give.
const WHOLE: Rights = READS.union(WRITES).union(Rights::EXECUTE);
/// Identifiers that mean everybody.
const EVERYBODY: [Sid; 3] = [well_known::EVERYONE, well_known::AUTHENTICATED_USERS, well_known::NETWORK];
const INHERITED_BY: AceFlags = AceFlags::OBJECT_INHERIT.union(AceFlags::CONTAINER_INHERIT);

/// The nine permission bits that a descriptor's list amounts to. The bits of the owner, the group and
/// everybody come from the entries for each of them and from the entries for everybody.
// RFC 8881 6.3.2
#[must_use]
pub fn computed_mode(descriptor: &Descriptor) -> u32 {
    let owner = descriptor.owner.unwrap_or(well_known::NULL);
    let group = descriptor.group.unwrap_or(well_known::NULL);
    let bits = |user: Sid, groups: Vec<Sid>| {
        let has = all_of(descriptor, user, groups);
        let bit = |right, bit| if has.contains(right) { bit } else { 0 };
        let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
        bit(Rights::READ_DATA, 0o4) | bit(writes, 0o2) | bit(Rights::EXECUTE, 0o1)
    };
    let members = bits(well_known::NULL, [&[group][..], &EVERYBODY].concat());
    bits(owner, EVERYBODY.to_vec()) << 6 | members << 3 | bits(well_known::NULL, EVERYBODY.to_vec())
}

fn all_of(descriptor: &Descriptor, user: Sid, groups: Vec<Sid>) -> Rights {
    let token = Token { user, group: user, owner: user, groups, privileges: Privileges::empty() };
    granted(descriptor, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default()
}

/// Changes a descriptor's list to agree with a mode that is set. Owner, group and everybody get exactly
/// its bits. The entries of other users and groups keep the rights that the group's bits allow. Entries
/// that are only inherited stay as they are.
// RFC 8881 6.4.1.1
pub fn apply_mode(descriptor: &mut Descriptor, mode: u32) {
    let owner = descriptor.owner.unwrap_or(well_known::NULL);
    let group = descriptor.group.unwrap_or(well_known::NULL);
    // The r bit does not include running here, because a list has a separate right for it.
    let [user, members, others] = [6, 3, 0].map(|shift| data_rights(mode >> shift, true));
    let (in_force, inherited) = apart(descriptor);
    let none = AceFlags::empty();
    let mut aces = Vec::with_capacity(in_force.len() + inherited.len() + 5);
    let mut kept_from_all = Rights::empty();
    for ace in in_force {
        let classes = [owner, group, well_known::OWNER_RIGHTS];
        match ace.sid().copied() {
            Some(sid) if EVERYBODY.contains(&sid) => {
                if let AceKind::Deny(rights, _) = ace.kind {
                    kept_from_all |= rights.mapped();
                }
                if matches!(ace.kind, AceKind::Audit(..)) {
                    aces.push(ace);
                }
            }
            Some(sid) if classes.contains(&sid) && !matches!(ace.kind, AceKind::Audit(..)) => {}
            Some(sid) => aces.extend(named(&ace, sid, mode, kept_from_all)),
            None => aces.push(ace),
        }
    }
    let kept_from_members = others - members - ANYONES;
    if !kept_from_members.is_empty() {
        aces.push(Ace::deny(group, kept_from_members, none));
    }
    aces.push(Ace::allow(group, ANYONES | members, none));
    aces.push(Ace::allow(well_known::EVERYONE, ANYONES | others, none));
    let behind = aces.iter().filter(|ace| matches!(ace.kind, AceKind::Allow(..)));
    let kept_from_user = behind.filter_map(Ace::rights).fold(Rights::empty(), |sum, it| sum | it) & WHOLE;
    aces.insert(0, Ace::allow(owner, OWNERS | user, none));
    let kept_from_user = kept_from_user - user - OWNERS;
    if !kept_from_user.is_empty() {
        aces.insert(0, Ace::deny(owner, kept_from_user, none));
    }
    aces.extend(inherited);
    set_list(descriptor, aces);
}

/// The entry of a named user or group, reduced to the bits of the group.
fn named(ace: &Ace, sid: Sid, mode: u32, kept_from_all: Rights) -> Option<Ace> {
    match ace.kind {
        AceKind::Allow(rights, _) => {
            let left = rights.mapped() - kept_from_all - beyond(mode >> 3);
            (!left.is_empty()).then(|| Ace::allow(sid, left, ace.flags))
        }
        _ => Some(ace.clone()),
    }
}

/// The rights that three permission bits give to nobody of their class.
fn beyond(bits: u32) -> Rights {
    let lost = |bit, rights| if bits & bit == 0 { rights } else { Rights::empty() };
    lost(0o4, READS) | lost(0o2, WRITES | RULES) | lost(0o1, Rights::EXECUTE)
}

/// Removes the rights from an inherited list that the creator's mode denies to each class. No class gains
/// rights by it.
// RFC 8275 4.2
pub fn limit_to_mode(descriptor: &mut Descriptor, mode: u32) {
    let owner = descriptor.owner.unwrap_or(well_known::NULL);
    let group = descriptor.group.unwrap_or(well_known::NULL);
    let none = AceFlags::empty();
    // Owner and group keep the rights that they have as everybody, as far as their own bits allow.
    let user = all_of(descriptor, owner, EVERYBODY.to_vec());
    let members =
        all_of(descriptor, well_known::NULL, [&[group][..], &EVERYBODY].concat()) - beyond(mode >> 3);
    let (in_force, inherited) = apart(descriptor);
    let mut aces = Vec::with_capacity(in_force.len() + inherited.len() + 3);
    let kept_from_user = beyond(mode >> 6) - OWNERS;
    if !kept_from_user.is_empty() {
        aces.push(Ace::deny(owner, kept_from_user, none));
    }
    if !(user - kept_from_user).is_empty() {
        aces.push(Ace::allow(owner, user - kept_from_user, none));
    }
    for ace in in_force {
        let AceKind::Allow(rights, sid) = ace.kind else {
            aces.push(ace);
            continue;
        };
        let lost = if sid == owner || sid == well_known::OWNER_RIGHTS {
            beyond(mode >> 6) - OWNERS
        } else if EVERYBODY.contains(&sid) {
            beyond(mode)
        } else {
            beyond(mode >> 3)
        };
        let left = rights.mapped() - lost;
        if !left.is_empty() {
            aces.push(Ace::allow(sid, left, ace.flags));
        }
    }
    if !members.is_empty() {
        aces.push(Ace::allow(group, members, none));
    }
    aces.extend(inherited);
    set_list(descriptor, aces);
}

/// The entries that count for the file itself, and the entries that are inherited. An entry that does
/// both becomes two.
fn apart(descriptor: &Descriptor) -> (Vec<Ace>, Vec<Ace>) {
    let open = Acl::new(vec![Ace::allow(well_known::EVERYONE, Rights::ALL, AceFlags::empty())]);
    let list = descriptor.dacl.as_ref().unwrap_or(&open);
    let (mut in_force, mut inherited) = (Vec::new(), Vec::new());
    for ace in &list.aces {
        if ace.flags.contains(AceFlags::INHERIT_ONLY) {
            inherited.push(ace.clone());
            continue;
        }
        if ace.flags.intersects(INHERITED_BY) {
            let flags = ace.flags | AceFlags::INHERIT_ONLY;
            inherited.push(Ace { flags, ..ace.clone() });
        }
        let flags = ace.flags - (INHERITED_BY | AceFlags::NO_PROPAGATE | AceFlags::INHERITED);
        in_force.push(Ace { flags, ..ace.clone() });
    }
    (in_force, inherited)
}

/// Stores a list that was changed by a mode. It is no longer the list that the directory passes on.
// RFC 8881 6.4.3.2
fn set_list(descriptor: &mut Descriptor, aces: Vec<Ace>) {
    descriptor.dacl = Some(Acl::new(aces));
    descriptor.control |= Control::DACL_PRESENT;
    descriptor.control -= Control::DACL_AUTO_INHERITED;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Sid = Sid::unix_user(1000);
    const BOB: Sid = Sid::unix_user(1001);
    const CAROL: Sid = Sid::unix_user(1002);
    const STAFF: Sid = Sid::unix_group(50);
    const GUESTS: Sid = Sid::unix_group(51);

    #[test]
    fn every_mode_comes_back() {
        for is_directory in [false, true] {
            for mode in 0..0o10000 {
                let made = from_mode(mode, ALICE, STAFF, is_directory);
                assert_eq!(mode_of(&made, is_directory, mode), mode, "{mode:o} directory={is_directory}");
            }
        }
    }

    #[test]
    fn each_class_gets_what_the_host_would_give() {
        let classes = [
            (Token::authenticated(ALICE, STAFF, &[]), 6),
            (Token::authenticated(BOB, STAFF, &[]), 3),
            (Token::authenticated(CAROL, GUESTS, &[]), 0),
        ];
        for mode in 0..0o1000_u32 {
            let made = from_mode(mode, ALICE, STAFF, true);
            for (token, shift) in &classes {
                for (right, bit) in [
                    (Rights::LIST_DIRECTORY, 0o4),
                    (Rights::ADD_FILE | Rights::ADD_SUBDIRECTORY | Rights::DELETE_CHILD, 0o2),
                    (Rights::TRAVERSE, 0o1),
                ] {
                    let expected = mode >> shift & bit != 0;
                    assert_eq!(granted(&made, token, right).is_ok(), expected, "{mode:o} {right:?} {shift}");
                }
            }
        }
    }

    #[test]
    fn the_owner_of_a_file_that_may_be_read_and_written_has_every_right() {
        let made = from_mode(0o644, ALICE, STAFF, false);
        let owner = Token::authenticated(ALICE, STAFF, &[]);
        assert_eq!(granted(&made, &owner, Rights::MAXIMUM_ALLOWED), Ok(Rights::ALL));
        let other = Token::authenticated(CAROL, GUESTS, &[]);
        assert_eq!(granted(&made, &other, Rights::MAXIMUM_ALLOWED), Ok(Rights::FOR_READ | Rights::EXECUTE));
    }

    #[test]
    fn a_file_never_wins_an_x_bit() {
        let open = Descriptor { owner: Some(ALICE), ..Descriptor::default() };
        assert_eq!(mode_of(&open, false, 0o4644), 0o4666);
        assert_eq!(mode_of(&open, false, 0o4755), 0o4777);
        assert_eq!(mode_of(&open, true, 0o1700), 0o1777);
    }

    /// Lists that grant much, lists that grant little, and lists with contradictory entries.
    fn lists() -> Vec<Descriptor> {
        let both = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
        let none = AceFlags::empty();
        let everyone = Ace::allow(well_known::EVERYONE, Rights::ALL, both | AceFlags::INHERITED);
        let bob = Ace::allow(BOB, Rights::ALL, none);
        let of = |aces| Descriptor::new(ALICE, STAFF, Acl::new(aces));
        vec![
            of(vec![everyone.clone()]),
            of(vec![everyone, bob.clone(), Ace::allow(GUESTS, Rights::FOR_READ, none)]),
            of(vec![Ace::deny(ALICE, Rights::ALL, none), bob.clone()]),
            of(vec![Ace::deny(well_known::EVERYONE, Rights::WRITE_DATA, none), bob]),
            of(vec![Ace::allow(well_known::AUTHENTICATED_USERS, Rights::ALL, none)]),
            of(vec![Ace::allow(well_known::OWNER_RIGHTS, Rights::READ_DATA, none)]),
            of(vec![]),
            Descriptor { owner: Some(ALICE), group: Some(STAFF), ..Descriptor::default() },
        ]
    }

    #[test]
    fn the_mode_that_is_set_is_the_one_that_the_list_comes_to() {
        for list in lists() {
            for mode in 0..0o1000 {
                let mut made = list.clone();
                apply_mode(&mut made, mode);
                assert_eq!(computed_mode(&made), mode, "{mode:o} {list:?}");
                let once = made.clone();
                apply_mode(&mut made, mode);
                assert_eq!(made, once, "{mode:o} {list:?}");
            }
        }
    }

    #[test]
    fn who_is_named_keeps_what_the_groups_bits_leave() {
        let carol = Token::authenticated(CAROL, GUESTS, &[]);
        let bob = Token::authenticated(BOB, GUESTS, &[]);
        for (mode, reads, writes) in [(0o600, false, false), (0o640, true, false), (0o660, true, true)] {
            let mut made = lists().swap_remove(1);
            apply_mode(&mut made, mode);
            let has = |token| granted(&made, token, Rights::MAXIMUM_ALLOWED).unwrap_or_default();
            assert_eq!(has(&bob).contains(Rights::READ_DATA), reads, "{mode:o}");
            assert_eq!(has(&bob).contains(Rights::WRITE_DATA), writes, "{mode:o}");
            assert_eq!(has(&bob).contains(Rights::WRITE_DAC), writes, "{mode:o}");
            assert_eq!(has(&carol).contains(Rights::READ_DATA), reads, "{mode:o}");
            assert!(!has(&carol).contains(Rights::WRITE_DATA), "{mode:o}");
        }
    }

    #[test]
    fn what_is_to_be_inherited_stays_when_a_mode_is_set() {
        let mut made = lists().swap_remove(0);
        apply_mode(&mut made, 0o700);
        let carol = Token::authenticated(CAROL, GUESTS, &[]);
        let has = granted(&made, &carol, Rights::MAXIMUM_ALLOWED).unwrap();
        assert_eq!(has, ANYONES);
        let below = super::super::inherit(Some(&made), &carol, false, None);
        assert!(granted(&below, &Token::authenticated(BOB, STAFF, &[]), Rights::ALL).is_ok());
    }

    #[test]
    fn a_makers_mode_takes_from_what_is_inherited_and_adds_nothing() {
        let carol = Token::authenticated(CAROL, STAFF, &[]);
        for list in lists() {
            for mode in [0o600, 0o640, 0o666, 0o777, 0o070] {
                let mut made = list.clone();
                limit_to_mode(&mut made, mode);
                for token in [Token::authenticated(BOB, GUESTS, &[]), carol.clone()] {
                    let now = granted(&made, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default();
                    let before = granted(&list, &token, Rights::MAXIMUM_ALLOWED).unwrap_or_default();
                    assert!(before.contains(now), "{mode:o} {list:?}");
                }
                assert_eq!(computed_mode(&made) & !mode, 0, "{mode:o} {list:?} {made:?}");
            }
        }
    }
}
