//! Inheritance, compared with the table in MS-DTYP 2.5.3.4.4 and with the observed behaviour of Windows.

use super::*;

const ALICE: Sid = Sid::unix_user(1000);
const STAFF: Sid = Sid::unix_group(50);
const BOB: Sid = Sid::unix_user(1001);
const OI: AceFlags = AceFlags::OBJECT_INHERIT;
const CI: AceFlags = AceFlags::CONTAINER_INHERIT;
const NP: AceFlags = AceFlags::NO_PROPAGATE;
const IO: AceFlags = AceFlags::INHERIT_ONLY;
const ID: AceFlags = AceFlags::INHERITED;
const NONE: AceFlags = AceFlags::empty();

fn creator() -> Token {
    Token::authenticated(ALICE, STAFF, &[])
}

fn parent(aces: Vec<Ace>) -> Descriptor {
    Descriptor::new(BOB, STAFF, Acl::new(aces))
}

fn child(parent: &Descriptor, is_directory: bool) -> Vec<Ace> {
    inherit(Some(parent), &creator(), is_directory, None).dacl.unwrap().aces
}

fn default() -> Vec<Ace> {
    vec![Ace::allow(ALICE, Rights::ALL, NONE), Ace::allow(well_known::SYSTEM, Rights::ALL, NONE)]
}

#[test]
fn flags_of_a_plain_entry_follow_the_table() {
    // The parent's flags, the flags in a directory, the flags in a file; none: not inherited.
    let table = [
        (NONE, None, None),
        (IO, None, None),
        (OI, Some(IO | OI), Some(NONE)),
        (OI | NP, None, Some(NONE)),
        (CI, Some(CI), None),
        (CI | NP, Some(NONE), None),
        (CI | OI, Some(CI | OI), Some(NONE)),
        (CI | OI | NP, Some(NONE), Some(NONE)),
        (IO | CI | OI, Some(CI | OI), Some(NONE)),
        (IO | OI, Some(IO | OI), Some(NONE)),
        (IO | NP | CI, Some(NONE), None),
    ];
    for (flags, directory, file) in table {
        let parent = parent(vec![Ace::allow(BOB, Rights::WRITE_DATA, flags)]);
        for (is_directory, expected) in [(true, directory), (false, file)] {
            let expected = expected.map_or_else(default, |f| vec![Ace::allow(BOB, Rights::WRITE_DATA, f)]);
            assert_eq!(child(&parent, is_directory), expected, "{flags:?} directory={is_directory}");
        }
    }
}

#[test]
fn creator_owner_becomes_the_owner_and_stays_for_what_follows() {
    let ace = |sid, flags| Ace::allow(sid, Rights::WRITE_DATA, flags);
    for (flags, directory) in [
        (CI, vec![ace(ALICE, NONE), ace(well_known::CREATOR_OWNER, CI | IO)]),
        (OI | CI, vec![ace(ALICE, NONE), ace(well_known::CREATOR_OWNER, OI | CI | IO)]),
        (OI | CI | IO, vec![ace(ALICE, NONE), ace(well_known::CREATOR_OWNER, OI | CI | IO)]),
        (OI, vec![ace(well_known::CREATOR_OWNER, OI | IO)]),
        (CI | NP, vec![ace(ALICE, NONE)]),
        (OI | NP, default()),
    ] {
        assert_eq!(child(&parent(vec![ace(well_known::CREATOR_OWNER, flags)]), true), directory, "{flags:?}");
    }
    let group = parent(vec![ace(well_known::CREATOR_GROUP, OI)]);
    assert_eq!(child(&group, false), [ace(STAFF, NONE)]);
}

#[test]
fn generic_rights_are_mapped_where_they_count() {
    let parent = parent(vec![Ace::allow(BOB, Rights::GENERIC_READ, OI | CI)]);
    assert_eq!(child(&parent, false), [Ace::allow(BOB, Rights::FOR_READ, NONE)]);
    assert_eq!(
        child(&parent, true),
        [Ace::allow(BOB, Rights::FOR_READ, NONE), Ace::allow(BOB, Rights::GENERIC_READ, OI | CI | IO)]
    );
}

#[test]
fn the_mark_of_inheritance_follows_the_parents_control() {
    let mut parent = parent(vec![Ace::allow(BOB, Rights::ALL, OI | CI | ID)]);
    let new = inherit(Some(&parent), &creator(), false, None);
    assert_eq!(new.control, Control::DACL_PRESENT);
    assert_eq!(new.dacl.unwrap().aces[0].flags, NONE);
    parent.control |= Control::DACL_AUTO_INHERITED;
    let new = inherit(Some(&parent), &creator(), false, None);
    assert_eq!(new.control, Control::DACL_PRESENT | Control::DACL_AUTO_INHERITED);
    assert_eq!(new.dacl.unwrap().aces[0].flags, ID);
    // A protected parent still passes on its entries.
    parent.control |= Control::DACL_PROTECTED;
    assert_eq!(child(&parent, true)[0].flags, OI | CI | ID);
}

#[test]
fn an_explicit_list_stands_alone_unless_inheritance_is_asked_for() {
    let parent = parent(vec![Ace::allow(BOB, Rights::ALL, OI | CI)]);
    let own = Ace::allow(well_known::USERS, Rights::FOR_READ, NONE);
    let stale = Ace::allow(well_known::GUESTS, Rights::ALL, ID);
    let mut asked = Descriptor::new(BOB, STAFF, Acl::new(vec![own.clone(), stale.clone()]));
    let new = inherit(Some(&parent), &creator(), false, Some(&asked));
    assert_eq!(new.owner, Some(BOB));
    assert_eq!(new.dacl.unwrap().aces, [own.clone(), stale.clone()]);
    asked.control |= Control::DACL_AUTO_INHERIT_REQ;
    let new = inherit(Some(&parent), &creator(), false, Some(&asked));
    assert_eq!(new.dacl.unwrap().aces, [own.clone(), Ace::allow(BOB, Rights::ALL, NONE)]);
    assert_eq!(new.control, Control::DACL_PRESENT | Control::DACL_AUTO_INHERITED);
    asked.control |= Control::DACL_PROTECTED;
    let new = inherit(Some(&parent), &creator(), false, Some(&asked));
    assert_eq!(new.dacl.unwrap().aces, [own, stale]);
    assert_eq!(new.control, Control::DACL_PRESENT | Control::DACL_PROTECTED);
}

#[test]
fn an_explicit_null_list_and_an_owner_alone() {
    let null = Descriptor { control: Control::DACL_PRESENT, ..Descriptor::default() };
    let new = inherit(None, &creator(), false, Some(&null));
    assert_eq!((new.dacl, new.control), (None, Control::DACL_PRESENT));
    let owner = Descriptor { owner: Some(BOB), ..Descriptor::default() };
    let new = inherit(None, &creator(), false, Some(&owner));
    assert_eq!((new.owner, new.group), (Some(BOB), Some(STAFF)));
    assert_eq!(new.dacl.unwrap().aces[0], Ace::allow(BOB, Rights::ALL, NONE));
}

#[test]
fn audit_entries_are_inherited_with_their_conditions() {
    let audit = |flags| Ace { flags, kind: AceKind::Audit(Rights::ALL, well_known::EVERYONE) };
    let mut parent = parent(vec![]);
    parent.sacl = Some(Acl::new(vec![audit(OI | AceFlags::AUDIT_FAILURE)]));
    parent.control |= Control::SACL_PRESENT;
    let new = inherit(Some(&parent), &creator(), false, None);
    assert_eq!(new.sacl.unwrap().aces, [audit(AceFlags::AUDIT_FAILURE)]);
    assert!(new.control.contains(Control::SACL_PRESENT));
}

#[test]
fn amending_keeps_the_rest_and_the_mark_needs_the_request() {
    let mut stored = parent(vec![Ace::allow(BOB, Rights::ALL, NONE)]);
    let list = Acl::new(vec![
        Ace::allow(ALICE, Rights::GENERIC_READ, NONE),
        Ace::allow(ALICE, Rights::GENERIC_READ, OI | IO),
    ]);
    let mut given = Descriptor::new(ALICE, STAFF, list);
    given.control |= Control::DACL_AUTO_INHERITED;
    amend(&mut stored, &given, Parts::DACL);
    assert_eq!((stored.owner, stored.control), (Some(BOB), Control::DACL_PRESENT));
    assert_eq!(
        stored.dacl.as_ref().unwrap().aces,
        [Ace::allow(ALICE, Rights::FOR_READ, NONE), Ace::allow(ALICE, Rights::GENERIC_READ, OI | IO)]
    );
    given.control |= Control::DACL_AUTO_INHERIT_REQ | Control::DACL_PROTECTED;
    amend(&mut stored, &given, Parts::DACL | Parts::OWNER);
    assert_eq!(stored.owner, Some(ALICE));
    let kept = Control::DACL_PRESENT | Control::DACL_AUTO_INHERITED | Control::DACL_PROTECTED;
    assert_eq!(stored.control, kept);
    amend(&mut stored, &given, Parts::UNPROTECTED_DACL);
    assert_eq!(stored.control, kept - Control::DACL_PROTECTED);
}
