//! SIDs that stand for numbers of the host: `S-1-5-88-1-UID`, `-2-GID` and `-3-MODE`.
//!
//! Clients that keep POSIX owners and modes write them into descriptors in this form: Linux with `posix`,
//! `modefromsid` or `idsfromsid`, and macOS. The entry with the mode allows and denies nothing. The other
//! entries of the list are for servers that do not know such SIDs.

use volume::security::{Ace, AceFlags, AceKind, Acl, Control, Descriptor, Parts, Rights, Sid};

/// The authority of the SIDs, and their first number.
const AUTHORITY: u64 = 5;
const UNIX: u32 = 88;
const USER: u32 = 1;
const GROUP: u32 = 2;
const MODE: u32 = 3;

/// The numbers in a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Numbers {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mode: Option<u32>,
}

impl Numbers {
    /// Removes the numbers from a descriptor. The rest names users by the server's own SIDs. If there was a
    /// mode, no list is left, since the mode replaces it.
    pub fn take(given: &mut Descriptor) -> Numbers {
        let mut numbers = Numbers::default();
        if let Some(uid) = given.owner.as_ref().and_then(|sid| number(sid, USER)) {
            numbers.uid = Some(uid);
            given.owner = None;
        }
        if let Some(gid) = given.group.as_ref().and_then(|sid| number(sid, GROUP)) {
            numbers.gid = Some(gid);
            given.group = None;
        }
        let Some(list) = &mut given.dacl else { return numbers };
        let mode = list.aces.iter().filter_map(|ace| number(ace.sid()?, MODE)).next();
        numbers.mode = mode.map(|mode| mode & 0o7777);
        if numbers.mode.is_some() {
            given.dacl = None;
            given.control -= Control::DACL_PRESENT;
        } else {
            list.aces.retain_mut(is_understood);
        }
        numbers
    }

    /// Whether there are no numbers.
    pub fn is_none(&self) -> bool {
        *self == Numbers::default()
    }

    /// The parts of `asked` that still apply to the descriptor without these numbers.
    pub fn rest_of(&self, asked: Parts) -> Parts {
        let mut rest = asked;
        if self.uid.is_some() {
            rest -= Parts::OWNER;
        }
        if self.gid.is_some() {
            rest -= Parts::GROUP;
        }
        if self.mode.is_some() {
            rest -= Parts::DACL | Parts::PROTECTED_DACL | Parts::UNPROTECTED_DACL;
        }
        rest
    }

    /// Writes the numbers into a descriptor with its queried parts: owner and group as numbers, and the mode
    /// as first entry of the list.
    pub fn put(&self, shown: &mut Descriptor) {
        let sid = |kind, number: u32| Sid::new(AUTHORITY, &[UNIX, kind, number]);
        if let (Some(owner), Some(uid)) = (&mut shown.owner, self.uid) {
            *owner = sid(USER, uid);
        }
        if let (Some(group), Some(gid)) = (&mut shown.group, self.gid) {
            *group = sid(GROUP, gid);
        }
        if let (Some(Acl { aces, .. }), Some(mode)) = (&mut shown.dacl, self.mode) {
            let kind = AceKind::Deny(Rights::empty(), sid(MODE, mode & 0o7777));
            aces.insert(0, Ace { flags: AceFlags::empty(), kind });
        }
    }
}

fn number(sid: &Sid, kind: u32) -> Option<u32> {
    match (sid.authority(), sid.subs()) {
        (AUTHORITY, &[UNIX, of, number]) if of == kind => Some(number),
        _ => None,
    }
}

/// Replaces a number of an entry by the server's SID. Returns false for an entry without rights, which only
/// carries a number.
fn is_understood(ace: &mut Ace) -> bool {
    let (AceKind::Allow(rights, sid) | AceKind::Deny(rights, sid)) = &mut ace.kind else { return true };
    let meant = number(sid, USER).map(Sid::unix_user).or_else(|| number(sid, GROUP).map(Sid::unix_group));
    let Some(meant) = meant else { return true };
    *sid = meant;
    !rights.is_empty()
}

#[cfg(test)]
mod tests {
    use volume::security::well_known;

    use super::*;

    fn sid(kind: u32, number: u32) -> Sid {
        Sid::new(AUTHORITY, &[UNIX, kind, number])
    }

    fn entry(sid: Sid, rights: Rights) -> Ace {
        Ace::allow(sid, rights, AceFlags::empty())
    }

    #[test]
    fn a_mode_takes_the_place_of_the_list_and_owners_that_of_sids() {
        let everyone = entry(well_known::AUTHENTICATED_USERS, Rights::ALL);
        let list = vec![Ace::deny(sid(MODE, 0o100_640), Rights::empty(), AceFlags::empty()), everyone];
        let mut given = Descriptor::new(sid(USER, 1000), sid(GROUP, 55), Acl::new(list));
        let numbers = Numbers::take(&mut given);
        assert_eq!(numbers, Numbers { uid: Some(1000), gid: Some(55), mode: Some(0o640) });
        assert_eq!((given.owner, given.group, given.dacl), (None, None, None));
        let all = Parts::OWNER | Parts::GROUP | Parts::DACL | Parts::SACL;
        assert_eq!(numbers.rest_of(all), Parts::SACL);
    }

    #[test]
    fn a_list_without_a_mode_stays_with_the_servers_own_names() {
        let user = well_known::USERS;
        let list = vec![
            entry(sid(USER, 7), Rights::empty()),
            entry(sid(GROUP, 8), Rights::READ_DATA),
            entry(user, Rights::ALL),
        ];
        let mut given = Descriptor::new(user, user, Acl::new(list));
        assert!(Numbers::take(&mut given).is_none());
        let left = vec![entry(Sid::unix_group(8), Rights::READ_DATA), entry(user, Rights::ALL)];
        assert_eq!((given.owner, given.dacl.map(|list| list.aces)), (Some(user), Some(left)));
    }

    #[test]
    fn what_is_said_is_understood_again() {
        let user = well_known::USERS;
        let numbers = Numbers { uid: Some(3), gid: Some(4), mode: Some(0o1777) };
        let mut shown = Descriptor::new(user, user, Acl::new(vec![entry(user, Rights::ALL)]));
        numbers.put(&mut shown);
        assert_eq!(shown.dacl.as_ref().map(|list| list.aces.len()), Some(2));
        assert_eq!(Numbers::take(&mut shown), numbers);
        // Parts that were not queried stay empty.
        let mut nothing = Descriptor::default();
        numbers.put(&mut nothing);
        assert_eq!(nothing, Descriptor::default());
    }
}
