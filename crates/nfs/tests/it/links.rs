//! Further names for a file.

use nfs_wire::NfsStat;
use nfs_wire::op::{Args, Res, create, names, readdir};
use testkit::nfs::*;

// RFC 8881 18.9.3; link(2): the first to find the name free gets it. Programs use that to lock without locks.
#[test]
fn a_name_that_is_there_is_not_given_once_more_also_to_its_own_file() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, _) = client.create(&mut wire, b"file");
    client.create(&mut wire, b"other");
    let mut link = |newname| {
        let to = [Args::SaveFh, Args::PutRootFh, lookup(EXPORT), Args::Link(names::LinkArgs { newname })];
        client.on(&mut wire, &file, &to).status()
    };
    assert_eq!(link(b"lock"), NfsStat::Ok);
    for there in [&b"lock"[..], b"file", b"other"] {
        assert_eq!(link(there), NfsStat::Exist);
    }
}

// RFC 8881 14.5 (exception: SEMANTICS.md, "Names")
#[test]
fn a_name_that_is_not_utf8_is_listed_opened_renamed_and_removed() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (old, new) = (&b"caf\xe9"[..], &b"\xff\xfe"[..]);
    let (_, open) = client.create(&mut wire, old);
    let at = |last: Args<'static>| [Args::PutRootFh, lookup(EXPORT), last];
    let list = readdir::Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 1000,
        maxcount: 1000,
        attr_request: nfs_wire::attr::Bitmap::EMPTY,
    };
    let answer = client.run(&mut wire, &at(Args::ReadDir(list))).ok();
    let Res::ReadDir(Ok(listed)) = answer.last() else { panic!("{answer:?}") };
    let names: Vec<_> = listed.entries.iter().map(|entry| entry.name).collect();
    assert_eq!(names, [old]);
    let there = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), lookup(old), Args::GetFh]).ok();
    let Res::GetFh(Ok(handle)) = there.last() else { panic!("{there:?}") };
    let handle = handle.object.0.to_vec();
    client.on(&mut wire, &handle, &[closing(open)]).ok();
    let rename = Args::Rename(names::RenameArgs { oldname: old, newname: new });
    client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), Args::SaveFh, rename]).ok();
    client.run(&mut wire, &at(Args::Remove(names::RemoveArgs { target: new }))).ok();
    let gone = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), lookup(new)]);
    assert_eq!(gone.status(), NfsStat::NoEnt);
}

// rename(2); the Linux server returns NOTEMPTY, where RFC 8881 18.26.3 has EXIST
#[test]
fn a_directory_is_not_renamed_onto_one_that_holds_something() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let make = |objname: &'static [u8]| {
        Args::Create(create::Args {
            objtype: create::CreateType::Dir,
            objname,
            createattrs: nfs_wire::attr::Fattr::default(),
        })
    };
    client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), make(b"empty")]).ok();
    client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), make(b"full"), make(b"inside")]).ok();
    let mut rename = |oldname, newname| {
        let rename = Args::Rename(names::RenameArgs { oldname, newname });
        client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), Args::SaveFh, rename]).status()
    };
    assert_eq!(rename(b"empty", b"full"), NfsStat::NotEmpty);
    assert_eq!(rename(b"full", b"empty"), NfsStat::Ok);
}
