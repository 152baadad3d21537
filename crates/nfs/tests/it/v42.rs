//! The file operations of NFSv4.2.

use nfs_wire::NfsStat;
use nfs_wire::op::read_plus::{Content, Data, Hole};
use nfs_wire::op::{Args, OpNum, Res, allocate, clone, copy, read, read_plus, seek, xattr};
use nfs_wire::types::StateId;
use nfs_wire::xdr::List;
use testkit::nfs::*;
use volume::Failure;
use volume::faulty::VolumeCall;

const MIB: u64 = 1 << 20;

fn range(stateid: StateId, offset: u64, length: u64) -> allocate::Args {
    allocate::Args { stateid, offset, length }
}

fn seek(stateid: StateId, offset: u64, what: seek::ContentType) -> Args<'static> {
    Args::Seek(seek::Args { stateid, offset, what })
}

/// A client of minor version 2 with a file that is open.
fn begin() -> (Wire, Client, Vec<u8>, StateId) {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (handle, stateid) = client.create(&mut wire, b"file");
    (wire, client, handle, stateid)
}

// RFC 8276 8.4.2
#[test]
fn attributes_that_find_no_room_are_told_apart_from_one_that_is_too_large() {
    let (world, plan) = NfsTestServer::counted();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (file, _) = client.create(&mut wire, b"file");
    let mut set = |key, size| {
        let value = vec![b'v'; size];
        let set = xattr::SetArgs { option: xattr::SetOption::Either, key, value: &value };
        client.on(&mut wire, &file, &[Args::SetXattr(set)]).status()
    };
    assert_eq!(set(b"one", 40_000), NfsStat::Ok);
    assert_eq!(set(b"two", 40_000), NfsStat::NoSpc);
    assert_eq!(set(b"two", 20_000), NfsStat::Ok);
    assert_eq!(set(b"three", 65_530), NfsStat::Xattr2Big);
    plan.always(VolumeCall::SetAttributes, Some(Failure::NoSpace));
    assert_eq!(set(b"four", 10), NfsStat::NoSpc);
    plan.always(VolumeCall::SetAttributes, Some(Failure::TooLarge));
    assert_eq!(set(b"four", 10), NfsStat::Xattr2Big);
}

#[test]
fn a_hole_is_made_found_and_told_of() {
    let (mut wire, mut client, file, stateid) = begin();
    let data = vec![b'd'; 3 * MIB as usize / 4];
    for part in 0..4 {
        client.on(&mut wire, &file, &[writing(stateid, part * data.len() as u64, &data)]).ok();
    }
    client.on(&mut wire, &file, &[Args::Deallocate(range(stateid, MIB, MIB))]).ok();
    let found = |client: &mut Client, wire: &mut Wire, offset, what| {
        let answer = client.on(wire, &file, &[seek(stateid, offset, what)]);
        match answer.last() {
            Res::Seek(result) => result.map(|found| (found.eof, found.offset)),
            other => panic!("{other:?}"),
        }
    };
    use seek::ContentType::{Data as D, Hole as H};
    assert_eq!(found(&mut client, &mut wire, 0, H), Ok((false, MIB)));
    assert_eq!(found(&mut client, &mut wire, MIB + 5, H), Ok((false, MIB + 5)));
    assert_eq!(found(&mut client, &mut wire, MIB, D), Ok((false, 2 * MIB)));
    assert_eq!(found(&mut client, &mut wire, 5, D), Ok((false, 5)));
    assert_eq!(found(&mut client, &mut wire, 2 * MIB, H), Ok((true, 3 * MIB)));
    assert_eq!(found(&mut client, &mut wire, 3 * MIB, D), Err(NfsStat::NxIo));
    assert_eq!(found(&mut client, &mut wire, 0, seek::ContentType::Unknown(7)), Err(NfsStat::UnionNotSupp));

    let plus = read_plus::Args { stateid, offset: MIB - 3, count: MIB as u32 + 6 - 100_000 };
    let answer = client.on(&mut wire, &file, &[Args::ReadPlus(plus)]).ok();
    let Res::ReadPlus(Ok(read)) = answer.last() else { panic!("{answer:?}") };
    let hole = Hole { offset: MIB, length: MIB + 3 - 100_000 };
    let wanted = [Content::Data(Data { offset: MIB - 3, data: b"ddd" }), Content::Hole(hole)];
    assert_eq!(read.contents.iter().collect::<Vec<_>>(), wanted);
    assert!(!read.eof);
    let plus = read_plus::Args { stateid, offset: 3 * MIB - 2, count: 100 };
    let answer = client.on(&mut wire, &file, &[Args::ReadPlus(plus)]).ok();
    let Res::ReadPlus(Ok(read)) = answer.last() else { panic!("{answer:?}") };
    let wanted = [Content::Data(Data { offset: 3 * MIB - 2, data: b"dd" })];
    assert_eq!((read.contents.iter().collect::<Vec<_>>(), read.eof), (wanted.to_vec(), true));
}

#[test]
fn space_is_reserved_and_the_file_grows_with_it() {
    let (mut wire, mut client, file, stateid) = begin();
    client.on(&mut wire, &file, &[writing(stateid, 0, b"head")]).ok();
    client.on(&mut wire, &file, &[Args::Allocate(range(stateid, 2, 8))]).ok();
    let answer = client.on(&mut wire, &file, &[reading(stateid, 0, 100)]).ok();
    assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: b"head\0\0\0\0\0\0" })));
    for (bad, status) in [
        (range(stateid, 0, 0), NfsStat::Inval),
        (range(stateid, u64::MAX, 2), NfsStat::FBig),
        (range(StateId::INVALID, 0, 1), NfsStat::BadStateId),
    ] {
        assert_eq!(client.on(&mut wire, &file, &[Args::Allocate(bad)]).status(), status, "{bad:?}");
        assert_eq!(client.on(&mut wire, &file, &[Args::Deallocate(bad)]).status(), status, "{bad:?}");
    }
}

#[test]
fn a_copy_stays_within_its_source_and_never_overlaps() {
    let (mut wire, mut client, from, source) = begin();
    let (to, target) = client.create(&mut wire, b"copy");
    client.on(&mut wire, &from, &[writing(source, 0, b"0123456789")]).ok();
    let copying = |src_offset, dst_offset, count, dst_stateid| {
        Args::Copy(copy::Args {
            src_stateid: source,
            dst_stateid,
            src_offset,
            dst_offset,
            count,
            consecutive: false,
            synchronous: true,
            source_server: List::EMPTY,
        })
    };
    let mut copy = |to: &[u8], operation| {
        let answer = client.run(&mut wire, &[put(&from), Args::SaveFh, put(to), operation]);
        match answer.last() {
            Res::Copy(copy::Res::Ok(ok)) => {
                assert_eq!((ok.response.callback_id, ok.requirements.synchronous), (None, true));
                Ok(ok.response.count)
            }
            Res::Copy(copy::Res::Failed(status)) => Err(status),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(copy(&to, copying(2, 1, 3, target)), Ok(3));
    assert_eq!(copy(&to, copying(7, 4, 0, target)), Ok(3), "zero means up to the end");
    assert_eq!(copy(&to, copying(10, 0, 0, target)), Ok(0));
    assert_eq!(copy(&to, copying(8, 0, 3, target)), Err(NfsStat::Inval), "beyond the end");
    assert_eq!(copy(&from, copying(0, 2, 3, source)), Err(NfsStat::Inval), "overlapping");
    assert_eq!(copy(&from, copying(0, 5, 5, source)), Ok(5));
    let answer = client.on(&mut wire, &to, &[reading(target, 0, 100)]).ok();
    assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: b"\x00234789" })));
    let answer = client.on(&mut wire, &from, &[reading(source, 0, 100)]).ok();
    assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: b"0123401234" })));
}

#[test]
fn extended_attributes_are_set_told_listed_and_removed() {
    let (mut wire, mut client, file, _) = begin();
    let set = |option, key, value| Args::SetXattr(xattr::SetArgs { option, key, value });
    let get = |name| Args::GetXattr(xattr::NameArgs { name });
    use xattr::SetOption::{Create, Either, Replace};
    let mut status = |operation: Args<'_>| client.on(&mut wire, &file, &[operation]).status();
    assert_eq!(status(set(Replace, b"colour", b"red")), NfsStat::NoXattr);
    assert_eq!(status(set(Create, b"colour", b"red")), NfsStat::Ok);
    assert_eq!(status(set(Create, b"colour", b"blue")), NfsStat::Exist);
    assert_eq!(status(set(Replace, b"colour", b"green")), NfsStat::Ok);
    assert_eq!(status(set(Either, b"empty", b"")), NfsStat::Ok);
    assert_eq!(status(set(Either, b"Colour", b"other case")), NfsStat::Ok);
    assert_eq!(status(get(b"nothing")), NfsStat::NoXattr);
    assert_eq!(status(get(b"")), NfsStat::Inval);
    assert_eq!(status(set(Either, b"big", &[0; 70_000])), NfsStat::Xattr2Big);
    for (name, value) in [(&b"colour"[..], &b"green"[..]), (b"empty", b""), (b"Colour", b"other case")] {
        let answer = client.on(&mut wire, &file, &[get(name)]).ok();
        assert_eq!(answer.last(), Res::GetXattr(Ok(xattr::GetResOk { value })));
    }
    // One after the other, since no two names fit.
    let mut seen = Vec::new();
    let mut cookie = 0;
    loop {
        let answer =
            client.on(&mut wire, &file, &[Args::ListXattrs(xattr::ListArgs { cookie, maxcount: 30 })]);
        let Res::ListXattrs(Ok(list)) = answer.last() else { panic!("{answer:?}") };
        seen.extend(list.names.iter().map(<[u8]>::to_vec));
        cookie = list.cookie;
        if list.eof {
            break;
        }
    }
    assert_eq!(seen, [&b"Colour"[..], b"colour", b"empty"]);
    let small = Args::ListXattrs(xattr::ListArgs { cookie: 0, maxcount: 20 });
    assert_eq!(client.on(&mut wire, &file, &[small]).status(), NfsStat::TooSmall);
    let remove = Args::RemoveXattr(xattr::NameArgs { name: b"colour" });
    assert_eq!(client.on(&mut wire, &file, &[remove]).status(), NfsStat::Ok);
    assert_eq!(client.on(&mut wire, &file, &[remove]).status(), NfsStat::NoXattr);
}

#[test]
fn minor_version_one_has_none_of_it() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, stateid) = client.create(&mut wire, b"file");
    let answer = client.on(&mut wire, &file, &[seek(stateid, 0, seek::ContentType::Data)]);
    assert_eq!((answer.status(), answer.last()), (NfsStat::OpIllegal, Res::Illegal(NfsStat::OpIllegal)));
    assert_eq!(OpNum::Seek.get(), 69);
}

/// Bytes of a storage unit that volumes in memory can share.
const UNIT: u64 = 4096;

#[test]
fn a_clone_makes_its_target_longer_only_with_what_it_brings() {
    let (world, plan) = NfsTestServer::counted();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (from, source) = client.create(&mut wire, b"file");
    let (to, target) = client.create(&mut wire, b"clone");
    client.on(&mut wire, &from, &[writing(source, 0, &[b'f'; 5000])]).ok();
    client.on(&mut wire, &to, &[writing(target, 0, &[b't'; 10])]).ok();
    let resized = plan.count(VolumeCall::Resize);
    let mut share = |src_offset, dst_offset, count| {
        let (src_stateid, dst_stateid) = (source, target);
        let clone = Args::Clone(clone::Args { src_stateid, dst_stateid, src_offset, dst_offset, count });
        let status = client.run(&mut wire, &[put(&from), Args::SaveFh, put(&to), clone]).status();
        let answer = client.on(&mut wire, &to, &[reading(target, 0, 100_000)]).ok();
        let Res::Read(Ok(read)) = answer.last() else { panic!("{answer:?}") };
        (status, read.data.to_vec())
    };
    let (f, t) = (|count| vec![b'f'; count], vec![b't'; 10]);
    assert_eq!(share(0, 1, UNIT), (NfsStat::Inval, t.clone()), "not a whole block there");
    assert_eq!(share(1, UNIT, UNIT), (NfsStat::Inval, t.clone()), "nor here");
    assert_eq!(share(0, UNIT, 100), (NfsStat::Inval, t.clone()), "nor as much");
    plan.always(VolumeCall::Copy, Some(Failure::NoSpace));
    assert_eq!(share(0, UNIT, 0), (NfsStat::NoSpc, t.clone()), "the host refuses");
    plan.always(VolumeCall::Copy, None);
    // After the end, up to the end of the source, which is in the middle of a block.
    assert_eq!(share(0, UNIT, 0), (NfsStat::Ok, [t, vec![0; UNIT as usize - 10], f(5000)].concat()));
    // Across the end, and into the middle.
    assert_eq!(share(0, 2 * UNIT, UNIT).1.len(), 3 * UNIT as usize);
    assert_eq!(share(0, 0, 0), (NfsStat::Ok, [f(5000), f(3 * UNIT as usize - 5000)].concat()));
    assert_eq!(plan.count(VolumeCall::Resize), resized, "nothing was made longer before, or cut back");
}
