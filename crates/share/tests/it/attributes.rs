//! Times, attribute bits, descriptors, sizes, copies, listings.

use std::sync::Arc;

use crate::common::*;
use share::{
    Attributes, Basic, Config, CopySide, Disposition, LockRule, Open, Options, RangeKind, RangeRequest,
    Refusal, TimeSet,
};
use volume::security::{Ace, AceFlags, Acl, Descriptor, Parts, Rights, Sid};
use volume::{Time, Volume};

const LONG_AGO: Time = Time { secs: 946_684_800, nanos: 100 };

fn set(client: &Client, open: &std::sync::Arc<share::Open>, basic: Basic) -> Result<(), Refusal> {
    client.call(|c| client.share.set_basic(c, open, basic))
}

#[test]
fn times_that_were_set_stay_whatever_this_open_writes() {
    let world = TestShare::new();
    let client = world.client(1);
    let open = client.make("f");
    let at = Some(TimeSet::Set(LONG_AGO));
    set(&client, &open, Basic { created: at, modified: at, changed: at, ..Basic::default() }).unwrap();
    assert_eq!(world.share.info(&open).unwrap().changed, LONG_AGO);
    client.write(&open, 0, "text").unwrap();
    set(&client, &open, Basic { attributes: Some(Attributes::HIDDEN), ..Basic::default() }).unwrap();
    let info = world.share.info(&open).unwrap();
    assert_eq!((info.created, info.modified, info.changed), (LONG_AGO, LONG_AGO, LONG_AGO));
    world.memory.set_clock(Time { secs: 1_800_000_000, nanos: 0 });
    set(&client, &open, Basic { changed: Some(TimeSet::Thaw), ..Basic::default() }).unwrap();
    client.write(&open, 0, "text").unwrap();
    assert!(world.share.info(&open).unwrap().changed > LONG_AGO);
    set(&client, &open, Basic { modified: Some(TimeSet::Thaw), ..Basic::default() }).unwrap();
    client.write(&open, 0, "more").unwrap();
    let moved = world.share.info(&open).unwrap().modified;
    assert_ne!(moved, LONG_AGO);
    set(&client, &open, Basic { modified: Some(TimeSet::Freeze), ..Basic::default() }).unwrap();
    client.write(&open, 0, "last").unwrap();
    client.call(|c| world.share.set_size(c, &open, 1)).unwrap();
    assert_eq!(world.share.info(&open).unwrap().modified, moved);
}

#[test]
fn a_change_right_after_a_change_time_was_set_is_not_told_apart_from_the_setting() {
    let world = TestShare::new();
    let (one, other) = (world.client(1), world.client(2));
    let open = one.make("f");
    let second = other.open("f").open();
    let changed = || world.share.info(&second).unwrap().changed;
    let at = |ms: u32| Time { secs: now().wall_ns / 1_000_000_000, nanos: ms * 1_000_000 };
    world.memory.set_clock(at(0));
    set(&one, &open, Basic { changed: Some(TimeSet::Set(LONG_AGO)), ..Basic::default() }).unwrap();
    one.close(&open);
    world.memory.set_clock(at(200));
    other.write(&second, 0, "soon").unwrap();
    assert_eq!(changed(), LONG_AGO);
    world.memory.set_clock(at(300));
    other.write(&second, 0, "later").unwrap();
    assert!(changed() > LONG_AGO);
}

#[test]
fn a_time_that_one_open_holds_another_moves() {
    let world = TestShare::new();
    let client = world.client(1);
    let (one, other) = (client.make("f"), client.open("f").open());
    let at = Some(TimeSet::Set(LONG_AGO));
    set(&client, &one, Basic { modified: at, accessed: at, ..Basic::default() }).unwrap();
    client.write(&other, 0, "text").unwrap();
    let times = |open| {
        let info = world.share.info(open).unwrap();
        (info.modified, info.accessed)
    };
    let moved = times(&other);
    assert_eq!((moved.0 > LONG_AGO, times(&one)), (true, moved));
    client.write(&one, 0, "more").unwrap();
    assert_eq!(client.read(&one).unwrap(), "more");
    assert_eq!((times(&one), times(&other)), (moved, moved));
}

#[test]
fn attribute_bits_are_kept_and_archive_comes_back_with_a_write() {
    let world = TestShare::new();
    let client = world.client(1);
    let open = client.make("f");
    let bits = || world.share.info(&open).unwrap().attributes;
    assert_eq!(bits(), Attributes::ARCHIVE);
    let give = |attributes| set(&client, &open, Basic { attributes: Some(attributes), ..Basic::default() });
    give(Attributes::HIDDEN | Attributes::SYSTEM).unwrap();
    assert_eq!(bits(), Attributes::HIDDEN | Attributes::SYSTEM);
    give(Attributes::NORMAL).unwrap();
    assert_eq!(bits(), Attributes::NORMAL);
    client.write(&open, 0, "x").unwrap();
    assert_eq!(bits(), Attributes::ARCHIVE);
    assert_eq!(give(Attributes::DIRECTORY), Err(Refusal::Invalid));
    let looks = client.open("f").access(READ).open();
    assert_eq!(set(&client, &looks, Basic::default()), Err(Refusal::AccessDenied));
}

/// A file or directory and an open of a stream of it. Both have old times and are backed up.
fn with_old_stream(world: &TestShare, client: &Client, at: &str) -> (Arc<Open>, Arc<Open>) {
    let stream = client.open(at).stream("s").disposition(Disposition::OpenOrCreate).open();
    let open = client.open(at).access(READ | WRITE).open();
    let times = Some(TimeSet::Set(LONG_AGO));
    let attributes = Some(Attributes::NORMAL);
    set(client, &open, Basic { modified: times, attributes, ..Basic::default() }).unwrap();
    set(client, &open, Basic { modified: Some(TimeSet::Thaw), ..Basic::default() }).unwrap();
    assert_eq!(shown(world, &open), (LONG_AGO, false));
    (open, stream)
}

/// The time of the last change of data, and whether the file is to be backed up.
fn shown(world: &TestShare, open: &Open) -> (Time, bool) {
    let info = world.share.info(open).unwrap();
    (info.modified, info.attributes.contains(Attributes::ARCHIVE))
}

// MS-FSA 2.1.4.17
#[test]
fn whatever_changes_a_stream_moves_the_times_of_its_file_or_directory() {
    let later = Time { secs: 1_800_000_000, nanos: 0 };
    for at in ["f", "d"] {
        type Change = fn(&Client, &Arc<Open>);
        let changes: [(&str, Change); 6] = [
            ("write", |client, stream| client.write(stream, 0, "text").unwrap()),
            ("size", |client, stream| {
                client.call(|c| client.share.set_size(c, stream, 7)).unwrap();
            }),
            ("allocation", |client, stream| {
                client.call(|c| client.share.set_allocation(c, stream, 1 << 20)).unwrap();
            }),
            ("zeros", |client, stream| {
                let owner = client.owner(stream);
                client.call(|c| client.share.zero(c, stream, owner, 0..2)).unwrap();
            }),
            ("copy", |client, stream| {
                let other = client.open("other").disposition(Disposition::OpenOrCreate).open();
                client.write(&other, 0, "text").unwrap();
                let side = |open| CopySide { open, owner: client.owner(open), at: 0 };
                client.call(|c| client.share.copy(c, side(&other), side(stream), 3)).unwrap();
            }),
            ("overwrite", |client, stream| {
                let is_of_directory = client.share.info(stream).unwrap().kind == volume::NodeKind::Directory;
                let at = if is_of_directory { "d" } else { "f" };
                client.close(&client.open(at).stream("s").disposition(Disposition::Overwrite).open());
            }),
        ];
        for (what, change) in changes {
            let world = TestShare::new();
            let client = world.client(1);
            match at {
                "d" => client.make_directory(at),
                _ => client.make_with(at, ""),
            }
            let (open, stream) = with_old_stream(&world, &client, at);
            client.write(&stream, 0, "before").unwrap();
            client.close(&stream);
            let (open, stream) = {
                client.close(&open);
                with_old_stream(&world, &client, at)
            };
            world.memory.set_clock(later);
            change(&client, &stream);
            let info = world.share.info(&open).unwrap();
            let moved = (info.modified > LONG_AGO, info.attributes.contains(Attributes::ARCHIVE));
            assert_eq!((moved, info.changed >= later), ((true, true), true), "{what} of a stream of {at}");
        }
    }
}

// MS-FSA 2.1.5.15.1
#[test]
fn a_wish_for_room_moves_the_time_of_change_and_none_of_its_data() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    client.close(&with_old_stream(&world, &client, "f").0);
    let open = client.open("f").open();
    let at = |secs| world.memory.set_clock(Time { secs, nanos: 0 });
    at(1_800_000_000);
    client.call(|c| world.share.set_allocation(c, &open, 1 << 20)).unwrap();
    let info = world.share.info(&open).unwrap();
    assert_eq!((info.changed.secs, info.modified, info.size), (1_800_000_000, LONG_AGO, 4));
    assert!(info.attributes.contains(Attributes::ARCHIVE) && info.allocated >= 1 << 20);
    at(1_900_000_000);
    client.write(&open, 0, "more").unwrap();
    assert!(world.share.info(&open).unwrap().modified > LONG_AGO);
    at(1_950_000_000);
    client.write(&open, 0, "most").unwrap();
    assert_eq!(world.share.info(&open).unwrap().modified.secs, 1_950_000_000);
}

// MS-FSA 2.1.5.1.2
#[test]
fn a_new_stream_moves_the_time_of_change_and_none_of_its_data() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    let (open, _stream) = with_old_stream(&world, &client, "d");
    world.memory.set_clock(Time { secs: 1_800_000_000, nanos: 0 });
    let made = client.open("d").stream("t").disposition(Disposition::Create).result().unwrap();
    assert!(made.info.attributes.contains(Attributes::ARCHIVE));
    let info = world.share.info(&open).unwrap();
    assert_eq!((info.changed.secs, info.modified), (1_800_000_000, LONG_AGO));
}

// MS-FSA 2.1.4.17
#[test]
fn times_that_a_stream_holds_stay_whatever_is_written_through_it() {
    for at in ["f", "d"] {
        let world = TestShare::new();
        let client = world.client(1);
        match at {
            "d" => client.make_directory(at),
            _ => client.make_with(at, ""),
        }
        let (open, stream) = with_old_stream(&world, &client, at);
        let both = |what| Basic { modified: Some(what), changed: Some(what), ..Basic::default() };
        let before = world.share.info(&open).unwrap().changed;
        set(&client, &stream, both(TimeSet::Freeze)).unwrap();
        world.memory.set_clock(Time { secs: now().wall_ns / 1_000_000_000, nanos: 0 });
        client.write(&stream, 0, "text").unwrap();
        let info = world.share.info(&open).unwrap();
        assert_eq!((info.modified, info.changed), (LONG_AGO, before), "{at}");
        set(&client, &stream, both(TimeSet::Thaw)).unwrap();
        world.memory.set_clock(Time { secs: 1_900_000_000, nanos: 0 });
        client.write(&stream, 0, "more").unwrap();
        let info = world.share.info(&open).unwrap();
        assert!(info.modified > LONG_AGO && info.changed > before, "{at}: {info:?}");
    }
}

#[test]
fn an_object_id_is_made_only_by_whoever_may_change_the_file() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "");
    let looks = client.open("f").access(READ).open();
    assert_eq!(world.share.object_id(&looks, true, now()), Err(Refusal::AccessDenied));
    assert_eq!(world.share.object_id(&looks, false, now()), Err(Refusal::NoSuchNote));
    let writes = client.open("f").access(Rights::WRITE_ATTRIBUTES).open();
    let made = world.share.object_id(&writes, true, now()).unwrap();
    assert_eq!(world.share.object_id(&looks, true, now()), Ok(made));
}

#[test]
fn another_user_gets_what_the_descriptor_gives() {
    let world = TestShare::new();
    let owner = world.client(1);
    let other = world.client_of(2, user(2002));
    owner.make_with("f", "text");
    assert_eq!(other.open("f").access(WRITE).refusal(), Refusal::AccessDenied);
    assert!(other.open("f").access(READ).result().is_ok());
    let none = AceFlags::empty();
    let list =
        Acl::new(vec![Ace::allow(Sid::unix_user(2002), Rights::WRITE_DATA | Rights::READ_CONTROL, none)]);
    let descriptor = Descriptor { dacl: Some(list), ..Descriptor::default() };
    let open = owner.open("f").access(READ | Rights::WRITE_DAC).open();
    let step = owner.caller(true, now(), |c| world.share.set_descriptor(c, &open, Parts::DACL, &descriptor));
    done(step).unwrap();
    assert_eq!(other.open("f").access(Rights::READ_DATA).refusal(), Refusal::AccessDenied);
    let maximum = other.open("f").access(Rights::MAXIMUM_ALLOWED).open();
    // All may list and change the directory, which gives two more rights.
    let by_parent = Rights::READ_ATTRIBUTES | Rights::DELETE;
    assert_eq!(maximum.granted(), Rights::WRITE_DATA | Rights::READ_CONTROL | by_parent);
    // The owner can always access the descriptor, and nothing else.
    assert_eq!(owner.open("f").access(Rights::READ_DATA).refusal(), Refusal::AccessDenied);
    let open = owner.open("f").access(Rights::READ_CONTROL | Rights::WRITE_DAC).open();
    assert_eq!(world.share.descriptor(&open).unwrap().owner, Some(Sid::unix_user(1001)));
    let steal = Descriptor { owner: Some(Sid::unix_user(2002)), ..Descriptor::default() };
    let set_owner =
        |open| done(owner.caller(true, now(), |c| world.share.set_descriptor(c, open, Parts::OWNER, &steal)));
    assert_eq!(set_owner(&open), Err(Refusal::AccessDenied));
    assert_eq!(owner.open("f").access(Rights::ACCESS_SYSTEM_SECURITY).refusal(), Refusal::PrivilegeNotHeld);
}

#[test]
fn rights_are_decided_at_the_open_and_a_mode_of_the_host_is_applied_to_the_descriptor() {
    let world = TestShare::new();
    let owner = world.client(1);
    let other = world.client_of(2, user(2002));
    let list = |rights| Acl::new(vec![Ace::allow(Sid::unix_user(2002), rights, AceFlags::empty())]);
    owner.make_with("f", "");
    let open = owner.open("f").access(READ | WRITE | Rights::WRITE_DAC).open();
    let set = |rights| {
        let descriptor = Descriptor { dacl: Some(list(rights)), ..Descriptor::default() };
        let step =
            owner.caller(true, now(), |c| world.share.set_descriptor(c, &open, Parts::DACL, &descriptor));
        done(step).unwrap();
    };
    set(READ | WRITE);
    let writes = other.open("f").access(READ | WRITE).open();
    set(Rights::READ_ATTRIBUTES);
    assert_eq!(other.open("f").access(READ).refusal(), Refusal::AccessDenied);
    other.write(&writes, 0, "text").unwrap();
    assert_eq!(other.read(&writes).unwrap(), "text");
    // The creator of the file still has all rights, and the list says nothing of it.
    owner.write(&open, 0, "more").unwrap();
    set(READ);
    let file = world.memory.root().unwrap().lookup(&name("f"), volume::OpenHow::Read).unwrap();
    // RFC 8881 6.4.1.1: the bits of the group limit the named users, and everybody gets theirs.
    for (mode, reads, writes) in
        [(0o640, true, false), (0o700, false, false), (0o640, false, false), (0o606, false, true)]
    {
        file.set_mode(mode).unwrap();
        assert_eq!(other.open("f").access(READ).result().is_ok(), reads || mode & 4 != 0, "{mode:o}");
        assert_eq!(other.open("f").access(WRITE).result().is_ok(), writes, "{mode:o}");
        assert_eq!(world.share.info(&open).unwrap().mode, mode);
    }
}

#[test]
fn what_is_made_inherits_from_its_directory() {
    let world = TestShare::new();
    let owner = world.client(1);
    let other = world.client_of(2, user(2002));
    let inherited = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let list = Acl::new(vec![
        Ace::allow(Sid::unix_user(1001), Rights::ALL, inherited),
        Ace::allow(Sid::unix_user(2002), Rights::FOR_READ, inherited),
    ]);
    let descriptor = Descriptor::new(Sid::unix_user(1001), Sid::unix_group(1001), list);
    let make =
        owner.open("d").disposition(Disposition::Create).options(Options::DIRECTORY).descriptor(&descriptor);
    owner.close(&make.open());
    owner.make_with("d/f", "text");
    let open = other.open("d/f").access(READ).open();
    assert_eq!(other.read(&open).unwrap(), "text");
    assert_eq!(other.open("d/f").access(WRITE).refusal(), Refusal::AccessDenied);
    assert_eq!(other.open("d/g").disposition(Disposition::Create).refusal(), Refusal::AccessDenied);
    assert_eq!(other.open("d/f").access(Rights::DELETE).refusal(), Refusal::AccessDenied);
}

#[test]
fn a_users_limit_holds_whatever_the_descriptor_says() {
    let world = TestShare::new();
    let owner = world.client(1);
    owner.make_with("f", "text");
    let mut identity = (*user(1001)).clone();
    identity.limit = Rights::FOR_READ | Rights::FOR_EXECUTE;
    let limited = world.client_of(2, std::sync::Arc::new(identity));
    assert!(limited.open("f").access(READ).result().is_ok());
    assert_eq!(limited.open("f").access(WRITE).refusal(), Refusal::AccessDenied);
    assert_eq!(limited.open("g").disposition(Disposition::Create).refusal(), Refusal::AccessDenied);
}

#[test]
fn unreadable_names_are_not_listed_where_the_share_says_so() {
    let world = TestShare::with(Config { hide_unreadable: true, ..Config::default() });
    let owner = world.client(1);
    let other = world.client_of(2, user(2002));
    owner.make_with("seen", "");
    let private = owner.make("private");
    owner.call(|c| world.share.set_mode(c, &private, 0o600)).unwrap();
    assert_eq!(other.names_in(""), ["seen"]);
    assert_eq!(owner.names_in(""), ["private", "seen"]);
}

#[test]
fn sizes_holes_and_copies() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "0123456789");
    let (from, to) = (client.open("f").open(), client.make("g"));
    let copied = client.call(|c| {
        let source = CopySide { open: &from, owner: client.owner(&from), at: 4 };
        world.share.copy(c, source, CopySide { open: &to, owner: client.owner(&to), at: 1 }, 100)
    });
    assert_eq!(copied, Ok(6));
    assert_eq!(client.read(&to).unwrap(), "\x00456789");
    client.call(|c| world.share.zero(c, &from, client.owner(&from), 2..4)).unwrap();
    assert_eq!(client.read(&from).unwrap(), "01\x00\x00456789");
    client.call(|c| world.share.set_size(c, &from, 3)).unwrap();
    client.call(|c| world.share.set_allocation(c, &from, 2)).unwrap();
    assert_eq!(world.share.info(&from).unwrap().size, 2);
    world.share.set_sparse(&from, true).unwrap();
    assert!(world.share.info(&from).unwrap().attributes.contains(Attributes::SPARSE));
    let (ranges, more) = world.share.allocated_ranges(&to, 0..100, 8).unwrap();
    assert_eq!((ranges.as_slice(), more), (std::slice::from_ref(&(0..7)), false));
}

#[test]
fn shared_storage_moves_no_end_and_keeps_to_what_is_there() {
    const UNIT: u64 = 4096;
    let world = TestShare::new();
    let client = world.client(1);
    let text = "x".repeat(5000);
    client.make_with("f", &text);
    let (f, g) = (client.open("f").open(), client.make("g"));
    let share = |from: u64, to: &_, at: u64, len: u64| {
        client.call(|c| {
            let source = CopySide { open: &f, owner: client.owner(&f), at: from };
            let target = CopySide { open: to, owner: client.owner(to), at };
            world.share.clone_range(c, source, target, len, false)
        })
    };
    // Neither beyond the source nor onto itself, and nothing behind the target's end.
    assert_eq!(share(0, &f, 0, UNIT), Err(Refusal::NotSupported));
    assert_eq!(share(0, &g, 1, UNIT), Err(Refusal::Invalid));
    assert_eq!(share(0, &g, 0, 100), Err(Refusal::Invalid));
    assert_eq!(share(0, &g, 0, 3 * UNIT), Err(Refusal::NotSupported));
    assert_eq!(share(0, &g, 0, UNIT), Ok(()));
    assert_eq!(world.share.info(&g).unwrap().size, 0);
    client.call(|c| world.share.set_size(c, &g, 5000)).unwrap();
    assert_eq!(share(0, &g, 0, 0), Ok(()));
    assert_eq!(client.read(&g).unwrap(), "\0".repeat(5000));
    // The last unit is not whole, and a byte range of another client does not count.
    let other = world.client(2);
    let held = other.open("f").open();
    let range = RangeRequest { start: 0, len: 10, kind: RangeKind::Exclusive };
    other.call(|c| world.share.lock(c, &held, other.owner(&held), LockRule::Exact, &[range])).unwrap();
    assert_eq!(share(0, &g, 0, 2 * UNIT), Ok(()));
    assert_eq!(client.read(&g).unwrap(), text);
    assert_eq!(share(0, &g, 0, 5000), Ok(()));
    // A unit that is whole in the source and not in the target.
    let h = client.make("h");
    client.call(|c| world.share.set_size(c, &h, 3)).unwrap();
    assert_eq!(share(0, &h, 0, UNIT), Ok(()));
    assert_eq!(client.read(&h).unwrap(), "xxx");
    // Holes would be lost.
    world.share.set_sparse(&f, true).unwrap();
    assert_eq!(share(0, &g, 0, UNIT), Err(Refusal::NotSupported));
    world.share.set_sparse(&g, true).unwrap();
    assert_eq!(share(0, &g, 0, UNIT), Ok(()));
}

#[test]
fn an_appender_writes_only_behind_the_end() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    let open = client.open("f").access(READ | Rights::APPEND_DATA).open();
    client.write(&open, 0, "+more").unwrap();
    assert_eq!(client.read(&open).unwrap(), "text+more");
    assert_eq!(client.call(|c| world.share.set_size(c, &open, 0)), Err(Refusal::AccessDenied));
}

#[test]
fn object_ids_and_reparse_points_stay_with_the_file() {
    let world = TestShare::new();
    let client = world.client(1);
    let open = client.make("f");
    assert_eq!(world.share.object_id(&open, false, now()), Err(Refusal::NoSuchNote));
    let id = world.share.object_id(&open, true, now()).unwrap();
    assert_eq!(world.share.object_id(&open, false, now()), Ok(id));
    let bytes = [0x14, 0, 0, 0x80, 0, 0, 0, 0];
    let put = |bytes: &[u8]| client.caller(true, now(), |c| world.share.set_reparse(c, &open, bytes));
    put(&bytes).unwrap();
    assert_eq!(put(&[1, 0, 0, 0x80, 0, 0, 0, 0]), Err(Refusal::Invalid));
    let info = world.share.info(&open).unwrap();
    assert_eq!((info.reparse_tag, info.attributes.contains(Attributes::REPARSE)), (0x8000_0014, true));
    let take = |tag| client.caller(true, now(), |c| world.share.delete_reparse(c, &open, tag));
    assert_eq!(take(1), Err(Refusal::Invalid));
    take(0x8000_0014).unwrap();
    assert_eq!(world.share.reparse(&open), Err(Refusal::NoSuchNote));
}
