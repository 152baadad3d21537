//! Permission bits, stored lists and the host's own POSIX lists must agree.

use std::sync::Arc;

use crate::common::*;
use share::{Config, Disposition, Open, Options, Refusal, Share};
use volume::security::posix::{PosixEntry, Tag, encode, parse};
use volume::security::{Ace, AceFlags, Acl, Descriptor, Parts, Rights, Sid, well_known};
use volume::{Note, OpenHow, Time, Volume};
use volume_posix::PosixVolume;

const HANDED_DOWN: AceFlags = AceFlags::OBJECT_INHERIT.union(AceFlags::CONTAINER_INHERIT);
const BOB: u32 = 2002;

fn list(aces: &[(Sid, Rights, AceFlags)]) -> Descriptor {
    let aces = aces.iter().map(|(sid, rights, flags)| Ace::allow(*sid, *rights, *flags)).collect();
    Descriptor { dacl: Some(Acl::new(aces)), ..Descriptor::default() }
}

fn set_list(owner: &Client, open: &Arc<Open>, given: &Descriptor) {
    owner.call(|c| owner.share.set_descriptor(c, open, Parts::DACL, given)).unwrap();
}

/// A directory that lets new objects inherit a list.
fn directory(owner: &Client, at: &str, aces: &[(Sid, Rights, AceFlags)]) {
    owner.make_directory(at);
    let open = owner.open(at).access(Rights::READ_ATTRIBUTES | Rights::WRITE_DAC).open();
    set_list(owner, &open, &list(aces));
    owner.close(&open);
}

/// Creates an object with a mode. Returns the mode that it then shows.
fn make(owner: &Client, at: &str, mode: u32, options: Options) -> u32 {
    let ask = owner.open(at).access(Rights::READ_ATTRIBUTES).mode(mode).options(options);
    let open = ask.disposition(Disposition::Create).open();
    let shown = owner.share.info(&open).unwrap().mode;
    owner.close(&open);
    shown
}

fn may(client: &Client, at: &str) -> (bool, bool) {
    let is_ok = |access| {
        client.open(at).access(access).result().is_ok_and(|it| {
            client.close(&it.open);
            true
        })
    };
    (is_ok(READ), is_ok(WRITE))
}

const ALL_MAY: (Sid, Rights, AceFlags) = (well_known::EVERYONE, Rights::ALL, HANDED_DOWN);

// RFC 8881 6.4.3
#[test]
fn the_mode_of_the_maker_is_applied_to_what_is_inherited() {
    let world = TestShare::new();
    let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
    directory(&owner, "d", &[ALL_MAY, (Sid::unix_user(BOB), Rights::ALL, HANDED_DOWN)]);
    for (mode, expected) in
        [(0o600, (false, false)), (0o640, (true, false)), (0o644, (true, false)), (0o666, (true, true))]
    {
        for options in [Options::empty(), Options::MODE_LIMITS] {
            let at = format!("d/f{mode:o}{}", options.bits());
            assert_eq!(make(&owner, &at, mode, options), mode, "{at}");
            assert_eq!(may(&other, &at), expected, "{at}");
            assert_eq!(may(&owner, &at), (true, true), "{at}");
            let host = world.memory.root().unwrap().lookup(&name("d"), OpenHow::Attributes).unwrap();
            let host = host.stat_name(&path(&at)[1]).unwrap();
            assert_eq!(host.mode, mode, "{at}");
            let rules = other.open(&at).access(Rights::WRITE_DAC).result();
            assert_eq!(rules.is_ok(), expected.1, "{at}");
        }
    }
    assert_eq!(make(&owner, "d/e", 0o700, Options::DIRECTORY), 0o700);
    let inside = other.open("d/e/new").disposition(Disposition::Create);
    assert_eq!(inside.refusal(), Refusal::AccessDenied);
    // The mode of a directory is its own, and it passes on the list that it got.
    assert_eq!(make(&owner, "d/e/f", 0o666, Options::MODE_LIMITS), 0o666);
    let open = owner.open("d/e/f").access(Rights::READ_ATTRIBUTES | Rights::READ_CONTROL).open();
    let handed = owner.share.descriptor(&open).unwrap().dacl.unwrap();
    assert!(handed.aces.iter().any(|ace| ace.sid() == Some(&Sid::unix_user(BOB))));
}

// RFC 8275 4.2
#[test]
fn a_mode_whose_mask_does_not_count_adds_nothing_to_what_is_inherited() {
    let world = TestShare::new();
    let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
    let third = world.client_of(3, user(2003));
    let reads = (Sid::unix_user(BOB), Rights::FOR_READ, HANDED_DOWN);
    directory(&owner, "d", &[(Sid::unix_user(1001), Rights::ALL, HANDED_DOWN), reads]);
    assert_eq!(make(&owner, "d/f", 0o666, Options::MODE_LIMITS), 0o600);
    assert_eq!((may(&owner, "d/f"), may(&other, "d/f")), ((true, true), (true, false)));
    assert_eq!(may(&third, "d/f"), (false, false));
    // A mode alone is the mode of the file.
    assert_eq!(make(&owner, "d/g", 0o644, Options::empty()), 0o644);
    assert_eq!(may(&third, "d/g"), (true, false));
}

// RFC 8881 6.3.2
#[test]
fn the_mode_shown_is_the_one_that_the_list_comes_to() {
    let world = TestShare::new();
    let owner = world.client(1);
    owner.make_with("f", "text");
    let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
    let me = Sid::unix_user(1001);
    let ours = Sid::unix_group(1001);
    let none = AceFlags::empty();
    let writes = Rights::WRITE_DATA | Rights::APPEND_DATA;
    for (aces, mode) in [
        (&[(me, Rights::READ_DATA, none)][..], 0o400),
        (&[(me, Rights::ALL, none), (ours, Rights::READ_DATA, none)], 0o740),
        (&[(well_known::EVERYONE, Rights::READ_DATA, none), (me, writes, none)], 0o644),
        (&[(well_known::EVERYONE, Rights::WRITE_DATA, none), (me, Rights::READ_DATA, none)], 0o400),
        (&[(Sid::unix_user(BOB), Rights::ALL, none)], 0),
    ] {
        set_list(&owner, &open, &list(aces));
        assert_eq!(world.share.info(&open).unwrap().mode, mode, "{aces:?}");
    }
}

#[test]
fn a_list_that_is_set_as_it_was_shown_lets_the_host_run_nothing_new() {
    let world = TestShare::new();
    let owner = world.client(1);
    owner.make_with("f", "text");
    let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
    for mode in [0o640, 0o740] {
        owner.call(|c| world.share.set_mode(c, &open, mode)).unwrap();
        for _ in 0..2 {
            let shown = world.share.descriptor(&open).unwrap();
            set_list(&owner, &open, &shown);
            assert_eq!(world.share.info(&open).unwrap().mode, mode);
            let host = world.memory.root().unwrap().stat_name(&name("f")).unwrap();
            assert_eq!(host.mode, mode);
        }
    }
    // Another list counts as a whole.
    set_list(&owner, &open, &list(&[(Sid::unix_user(1001), Rights::ALL, AceFlags::empty())]));
    assert_eq!(world.share.info(&open).unwrap().mode, 0o700);
}

// RFC 8881 6.4.1.1
#[test]
fn a_mode_or_an_owner_that_is_set_changes_the_stored_list_and_does_not_end_it() {
    let world = TestShare::new();
    let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
    owner.make_with("f", "text");
    let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
    set_list(&owner, &open, &list(&[(Sid::unix_user(1001), Rights::ALL, AceFlags::empty()), ALL_MAY]));
    assert_eq!(may(&other, "f"), (true, true));
    owner.call(|c| world.share.set_mode(c, &open, 0o640)).unwrap();
    assert_eq!((may(&other, "f"), world.share.info(&open).unwrap().mode), ((false, false), 0o640));
    let named = (Sid::unix_user(BOB), Rights::FOR_READ | Rights::FOR_WRITE, AceFlags::empty());
    set_list(&owner, &open, &list(&[(Sid::unix_user(1001), Rights::ALL, AceFlags::empty()), named]));
    for (mode, expected) in [(0o660, (true, true)), (0o640, (true, false)), (0o600, (false, false))] {
        owner.call(|c| world.share.set_mode(c, &open, mode)).unwrap();
        assert_eq!((may(&other, "f"), world.share.info(&open).unwrap().mode), (expected, mode));
    }
    let mut identity = (*user(0)).clone();
    (identity.administrator, identity.unbound) = (true, true);
    let root = world.client_of(3, Arc::new(identity));
    let theirs = root.open("f").access(Rights::READ_ATTRIBUTES | Rights::WRITE_OWNER).open();
    root.call(|c| world.share.set_owner(c, &theirs, Some(BOB), None)).unwrap();
    assert_eq!((may(&other, "f"), may(&owner, "f")), ((true, true), (false, false)));
}

/// Moves the host's clock to this second.
fn later(world: &TestShare, second: i64) {
    world.memory.set_clock(Time { secs: 1_700_000_010 + second, nanos: 0 });
}

fn entry(tag: Tag, bits: u16, id: u32) -> PosixEntry {
    PosixEntry { id: if matches!(tag, Tag::User | Tag::Group) { id } else { u32::MAX }, tag, bits }
}

/// The list that `chmod 600` and then `setfacl -m u:2002:rw` make.
fn for_bob() -> Vec<u8> {
    encode(&[
        entry(Tag::Owner, 6, 0),
        entry(Tag::User, 6, BOB),
        entry(Tag::OwnersGroup, 0, 0),
        entry(Tag::Mask, 6, 0),
        entry(Tag::Others, 0, 0),
    ])
}

#[test]
fn the_hosts_list_decides_and_its_mask_is_not_the_groups_right() {
    let world = TestShare::new();
    let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
    let mut member = (*user(2003)).clone();
    member.host_groups = vec![1001];
    let member = world.client_of(3, Arc::new(member));
    owner.make_with("f", "text");
    let host = world.memory.root().unwrap().lookup(&name("f"), OpenHow::Attributes).unwrap();
    later(&world, 1);
    host.set_mode(0o600).unwrap();
    assert_eq!((may(&other, "f"), may(&member, "f")), ((false, false), (false, false)));
    later(&world, 2);
    host.set_note(Note::AccessList, Some(&for_bob())).unwrap();
    assert_eq!((may(&other, "f"), may(&member, "f")), ((true, true), (false, false)));
    let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
    assert_eq!(world.share.info(&open).unwrap().mode, 0o660);
    let shown = world.share.descriptor(&open).unwrap().dacl.unwrap();
    assert!(shown.aces.iter().any(|ace| ace.sid() == Some(&Sid::unix_user(BOB))));
    // The bits of the group are the mask, and it is right when they are set.
    owner.call(|c| world.share.set_mode(c, &open, 0o640)).unwrap();
    assert_eq!((may(&other, "f"), may(&member, "f")), ((true, false), (false, false)));
}

#[test]
fn a_descriptor_goes_before_the_hosts_list_until_the_host_changes_it() {
    let world = TestShare::new();
    let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
    let third = world.client_of(3, user(2003));
    owner.make_with("f", "text");
    let host = world.memory.root().unwrap().lookup(&name("f"), OpenHow::Attributes).unwrap();
    later(&world, 3);
    host.set_note(Note::AccessList, Some(&for_bob())).unwrap();
    let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
    let me = (Sid::unix_user(1001), Rights::ALL, AceFlags::empty());
    let named = (Sid::unix_user(2003), Rights::FOR_READ, AceFlags::empty());
    set_list(&owner, &open, &list(&[me, named]));
    assert_eq!((may(&other, "f"), may(&third, "f")), ((false, false), (true, false)));
    // The host's own programs find the same.
    let on_host = parse(&host.note(Note::AccessList).unwrap().unwrap()).unwrap();
    assert!(on_host.contains(&entry(Tag::User, 4, 2003)) && !on_host.iter().any(|it| it.id == BOB));
    // A mode limits the rights of the descriptor, and does not end it.
    later(&world, 4);
    host.set_mode(0o600).unwrap();
    assert_eq!((may(&third, "f"), world.share.info(&open).unwrap().mode), ((false, false), 0o600));
    later(&world, 5);
    host.set_mode(0o660).unwrap();
    assert_eq!((may(&other, "f"), may(&third, "f")), ((false, false), (true, false)));
    owner.close(&open);
    // A list that is set on the host ends it.
    later(&world, 6);
    host.set_note(Note::AccessList, Some(&for_bob())).unwrap();
    assert_eq!((may(&other, "f"), may(&third, "f")), ((true, true), (false, false)));
}

#[test]
fn what_a_mode_takes_from_whoever_is_named_no_later_mode_gives_back() {
    let world = TestShare::new();
    let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
    owner.make_with("f", "text");
    let host = world.memory.root().unwrap().lookup(&name("f"), OpenHow::Attributes).unwrap();
    later(&world, 1);
    host.set_note(Note::AccessList, Some(&for_bob())).unwrap();
    let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
    let me = (Sid::unix_user(1001), Rights::ALL, AceFlags::empty());
    let named = (Sid::unix_user(BOB), Rights::FOR_READ | Rights::FOR_WRITE, AceFlags::empty());
    set_list(&owner, &open, &list(&[me, named]));
    let on_host = || host.note(Note::AccessList).unwrap().and_then(|bytes| parse(&bytes)).unwrap_or_default();
    for (mode, bits, expected) in
        [(0o660, 6, (true, true)), (0o640, 4, (true, false)), (0o660, 4, (true, false))]
    {
        owner.call(|c| world.share.set_mode(c, &open, mode)).unwrap();
        assert_eq!(may(&other, "f"), expected, "{mode:o}");
        // The host's own programs find the same.
        assert!(on_host().contains(&entry(Tag::User, bits, BOB)), "{mode:o} {:?}", on_host());
        assert!(on_host().contains(&entry(Tag::Mask, (mode >> 3 & 7) as u16, 0)), "{mode:o} {:?}", on_host());
    }
    for mode in [0o700, 0o770] {
        owner.call(|c| world.share.set_mode(c, &open, mode)).unwrap();
        assert_eq!(may(&other, "f"), (false, false), "{mode:o}");
        assert!(!on_host().iter().any(|it| it.tag == Tag::User && it.bits != 0), "{mode:o} {:?}", on_host());
        assert_eq!(host.stat().unwrap().mode & 0o777, mode);
    }
}

/// Checks a file like NFS does, without opening it. Returns whether it may be read.
fn may_read_unopened(client: &Client, at: &str) -> bool {
    let share = &client.share;
    let rights = client.caller(true, now(), |c| {
        share.item_in(c, &share.root_item(), &name(at)).and_then(|item| share.item_rights(c, &item))
    });
    rights.unwrap().contains(Rights::READ_DATA)
}

#[test]
fn no_mode_of_the_host_brings_back_what_one_has_taken_from_a_stored_list() {
    for is_looked_at_unopened in [false, true] {
        let world = TestShare::new();
        let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
        let third = world.client_of(3, user(2003));
        let reads = |client: &Client, at: &str| match is_looked_at_unopened {
            true => may_read_unopened(client, at),
            false => may(client, at).0,
        };
        let me = (Sid::unix_user(1001), Rights::ALL, AceFlags::empty());
        let named = (Sid::unix_user(BOB), Rights::FOR_READ | Rights::FOR_WRITE, AceFlags::empty());
        let all = (well_known::EVERYONE, Rights::FOR_READ | Rights::WRITE_DAC, AceFlags::empty());
        for (at, aces) in [("named", &[me, named][..]), ("all", &[me, all])] {
            owner.make_with(at, "text");
            let open = owner.open(at).access(READ | Rights::WRITE_DAC).open();
            set_list(&owner, &open, &list(aces));
            owner.close(&open);
            let host = world.memory.root().unwrap().lookup(&name(at), OpenHow::Attributes).unwrap();
            let before = host.stat().unwrap().mode;
            assert!(reads(&other, at));
            later(&world, 1);
            host.set_mode(0o600).unwrap();
            assert!(!reads(&other, at), "{at}");
            later(&world, 2);
            host.set_mode(before).unwrap();
            // A named user got nothing back, and everybody has the rights of the mode and no more.
            assert_eq!(reads(&other, at), before & 0o4 != 0, "{at} {before:o}");
            assert_eq!(reads(&third, at), before & 0o4 != 0, "{at} {before:o}");
            assert!(other.open(at).access(Rights::WRITE_DAC).result().is_err(), "{at}");
            let open = owner.open(at).access(READ | WRITE | Rights::READ_CONTROL).open();
            assert_eq!(world.share.info(&open).unwrap().mode, before);
            // Attributes that are set do not end it either.
            let set = share::Basic { attributes: Some(share::Attributes::HIDDEN), ..Default::default() };
            owner.call(|c| world.share.set_basic(c, &open, set)).unwrap();
            assert_eq!(reads(&other, at), before & 0o4 != 0, "{at}");
        }
    }
}

#[test]
fn a_list_that_the_host_sets_ends_a_descriptor_for_good() {
    for is_looked_at_unopened in [false, true] {
        let world = TestShare::new();
        let (owner, other) = (world.client(1), world.client_of(2, user(BOB)));
        let third = world.client_of(3, user(2003));
        owner.make_with("f", "text");
        let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
        let me = (Sid::unix_user(1001), Rights::ALL, AceFlags::empty());
        set_list(&owner, &open, &list(&[me, (Sid::unix_user(2003), Rights::FOR_READ, AceFlags::empty())]));
        owner.close(&open);
        let host = world.memory.root().unwrap().lookup(&name("f"), OpenHow::Attributes).unwrap();
        let before = host.stat().unwrap().mode;
        assert!(may_read_unopened(&third, "f"));
        later(&world, 1);
        host.set_note(Note::AccessList, Some(&for_bob())).unwrap();
        match is_looked_at_unopened {
            true => assert!(may_read_unopened(&other, "f")),
            false => assert_eq!(may(&other, "f"), (true, true)),
        }
        // The result of setfacl -b and chmod.
        later(&world, 2);
        host.set_note(Note::AccessList, None).unwrap();
        host.set_mode(before).unwrap();
        assert_eq!((may(&other, "f"), may(&third, "f")), ((false, false), (false, false)));
        assert!(host.note(Note::Descriptor).unwrap().is_none());
    }
}

/// A share on a directory of the host that stores POSIX lists.
fn on_host() -> Option<(tempfile::TempDir, Arc<Share>)> {
    let temp_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp_dir.path().join("files")).unwrap();
    let volume = PosixVolume::open(&temp_dir.path().join("files"), &temp_dir.path().join("beside")).unwrap();
    let root = volume.root().unwrap();
    if root.set_note(Note::DefaultList, None).is_err() {
        eprintln!("SKIPPED: no POSIX lists in {}", temp_dir.path().display());
        return None;
    }
    let share = Share::open(Arc::new(volume), Config::default()).unwrap();
    Some((temp_dir, share))
}

/// Bob has all rights on new objects, and so has the owner; no one else.
fn default_list() -> Vec<u8> {
    encode(&[
        entry(Tag::Owner, 7, 0),
        entry(Tag::User, 7, BOB),
        entry(Tag::OwnersGroup, 5, 0),
        entry(Tag::Mask, 7, 0),
        entry(Tag::Others, 0, 0),
    ])
}

#[test]
fn what_the_hosts_directory_hands_down_is_what_is_made() {
    let Some((temp_dir, share)) = on_host() else { return };
    let me = rustix::process::getuid().as_raw();
    let identity = Arc::new(share::Identity { actor: None, ..(*user(me)).clone() });
    let owner = Client {
        share: Arc::clone(&share),
        key: share::ClientKey(1),
        identity,
        ears: Arc::default(),
        details: None,
    };
    let bob = Arc::new(share::Identity { actor: None, ..(*user(BOB)).clone() });
    let bob = Client { share, key: share::ClientKey(2), identity: bob, ears: Arc::default(), details: None };
    let directory = temp_dir.path().join("files/d");
    std::fs::create_dir(&directory).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&directory, "system.posix_acl_default", &default_list(), flags).unwrap();
    // Without a mode the list alone decides, as if a mask of 022 did not count.
    owner.make_with("d/f", "text");
    assert_eq!(may(&bob, "d/f"), (true, true));
    let list = |at: &str| {
        let mut value = [0; 256];
        let len =
            rustix::fs::getxattr(directory.join(at), "system.posix_acl_access", &mut value[..]).unwrap();
        parse(&value[..len]).unwrap()
    };
    assert!(list("f").contains(&entry(Tag::Mask, 6, 0)) && list("f").contains(&entry(Tag::User, 7, BOB)));
    for (mode, expected) in [(0o666, (true, true)), (0o644, (true, false)), (0o600, (false, false))] {
        let at = format!("d/f{mode:o}");
        assert_eq!(make(&owner, &at, mode, Options::MODE_LIMITS) & 0o770, mode & 0o770);
        assert_eq!(may(&bob, &at), expected, "{at}");
        assert!(list(&at[2..]).contains(&entry(Tag::Mask, (mode >> 3 & 7) as u16, 0)));
    }
    // A list that is set while the file is open counts, although the mode stays the same.
    let open = owner.open("d/f").access(Rights::READ_ATTRIBUTES).open();
    let others = encode(&[
        entry(Tag::Owner, 6, 0),
        entry(Tag::User, 6, 2003),
        entry(Tag::OwnersGroup, 0, 0),
        entry(Tag::Mask, 6, 0),
        entry(Tag::Others, 0, 0),
    ]);
    rustix::fs::setxattr(directory.join("f"), "system.posix_acl_access", &others, flags).unwrap();
    // The host does not report changes by this very process.
    assert!(
        std::process::Command::new("chmod").arg("660").arg(directory.join("f")).status().unwrap().success()
    );
    owner.share.maintain(now().plus(std::time::Duration::from_secs(1)));
    assert_eq!(may(&bob, "d/f"), (false, false));
    owner.close(&open);
    make(&owner, "d/e", 0o777, Options::DIRECTORY);
    owner.make_with("d/e/f", "text");
    assert_eq!(may(&bob, "d/e/f"), (true, true));
    // The inherited list is shown. A descriptor that is set changes it on the host, too.
    let open =
        owner.open("d").access(Rights::READ_ATTRIBUTES | Rights::WRITE_DAC | Rights::READ_CONTROL).open();
    let shown = owner.share.descriptor(&open).unwrap().dacl.unwrap();
    assert!(shown.is_inheritable());
    let me = (Sid::unix_user(me), Rights::ALL, AceFlags::empty());
    set_list(&owner, &open, &self::list(&[me, (Sid::unix_user(2003), Rights::ALL, HANDED_DOWN)]));
    let mut value = [0; 256];
    let len = rustix::fs::getxattr(&directory, "system.posix_acl_default", &mut value[..]).unwrap();
    let handed = parse(&value[..len]).unwrap();
    assert!(
        handed.contains(&entry(Tag::User, 7, 2003)) && !handed.iter().any(|it| it.id == BOB),
        "{handed:?}"
    );
}
