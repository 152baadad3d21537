//! Permission bits of the host as a descriptor, and back.

use super::{Ace, AceFlags, Acl, Descriptor, Privileges, Rights, Sid, Token, granted, well_known};

/// What an owner has whatever the bits say: on the host, too, the owner can always get there.
const OWNERS: Rights = Rights::DELETE
    .union(Rights::READ_CONTROL)
    .union(Rights::WRITE_DAC)
    .union(Rights::WRITE_OWNER)
    .union(Rights::SYNCHRONIZE)
    .union(Rights::READ_ATTRIBUTES)
    .union(Rights::WRITE_ATTRIBUTES)
    .union(Rights::READ_EA)
    .union(Rights::WRITE_EA);
/// What everybody has who can reach a file: the host tells attributes to all.
const ANYONES: Rights = Rights::READ_CONTROL.union(Rights::READ_ATTRIBUTES).union(Rights::SYNCHRONIZE);

/// The rights on data that three permission bits give.
fn data_rights(bits: u32, is_directory: bool) -> Rights {
    let mut out = Rights::empty();
    if bits & 0o4 != 0 {
        out |= Rights::READ_DATA | Rights::READ_EA;
        // Who can read a file's bytes can run them, and files that come from elsewhere carry no x.
        if !is_directory {
            out |= Rights::EXECUTE;
        }
    }
    if bits & 0o2 != 0 {
        // On a file the last says nothing, but who asks for all rights asks for it too.
        out |= Rights::WRITE_DATA | Rights::APPEND_DATA | Rights::WRITE_EA | Rights::WRITE_ATTRIBUTES;
        out |= Rights::DELETE_CHILD;
    }
    if bits & 0o1 != 0 {
        out |= Rights::EXECUTE;
    }
    out
}

/// A descriptor that says what the host's permission bits say, for a node that has none stored.
///
/// On the host only one of the three classes counts for somebody, so a class that has less than a later
/// one gets an entry that denies the difference.
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

/// The permission bits that come nearest to a descriptor; `current` are the bits until now. A file's x
/// bits are kept or lost, never won, since the right to run says nothing about what a file is.
/// Set-id and sticky bits stay.
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
}
