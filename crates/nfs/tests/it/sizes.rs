//! A share with a size. Clients see it as the size of the file system, and nothing grows beyond it.

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::op::{Args, Res, allocate, clone, copy, getattr, setattr};
use nfs_wire::xdr::List;
use testkit::nfs::{Client, NfsTestServer, Wire, put, writing};

/// space_avail, space_free and space_total.
const SPACE: [AttrNum; 3] = [AttrNum::SpaceAvail, AttrNum::SpaceFree, AttrNum::SpaceTotal];

fn space(client: &mut Client, wire: &mut Wire, file: &[u8]) -> Vec<u64> {
    let attr_request = Bitmap::of(&SPACE.map(AttrNum::get));
    let answer = client.run(wire, &[put(file), Args::GetAttr(getattr::Args { attr_request })]).ok();
    let results = answer.results();
    let Some(Res::GetAttr(Ok(got))) = results.last() else { panic!("{results:?}") };
    let of = |attribute| match attribute {
        Ok(Attr::SpaceAvail(bytes) | Attr::SpaceFree(bytes) | Attr::SpaceTotal(bytes)) => bytes,
        other => panic!("{other:?}"),
    };
    got.obj_attributes.iter().map(of).collect()
}

#[test]
fn what_does_not_fit_is_refused_whole_and_the_rest_is_shown() {
    let world = NfsTestServer::sized(100);
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (file, stateid) = client.create(&mut wire, b"file");
    client.on(&mut wire, &file, &[writing(stateid, 0, &[1; 60])]).ok();
    assert_eq!(space(&mut client, &mut wire, &file), [40, 40, 100]);
    let refused = client.on(&mut wire, &file, &[writing(stateid, 60, &[2; 41])]);
    assert_eq!(refused.status(), NfsStat::NoSpc);
    assert_eq!(world.engine.usage().map(|usage| usage.bytes), Some(60), "nothing of it was written");
    client.on(&mut wire, &file, &[writing(stateid, 60, &[2; 40])]).ok();
    client.on(&mut wire, &file, &[writing(stateid, 0, &[3; 100])]).ok();
    assert_eq!(space(&mut client, &mut wire, &file), [0, 0, 100]);
    world.engine.set_quota(Some(99)).unwrap_err();
    world.engine.set_quota(Some(150)).unwrap();
    assert_eq!(space(&mut client, &mut wire, &file), [50, 50, 150]);
}

// RFC 8881 15.1.4.4
#[test]
fn no_file_grows_beyond_the_largest_which_is_told() {
    const LARGEST: u64 = 4 << 40;
    let world = NfsTestServer::sized(1 << 50);
    world.engine.set_largest_file(Some(LARGEST));
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (from, source) = client.create(&mut wire, b"from");
    client.on(&mut wire, &from, &[writing(source, 0, &[1; 4096])]).ok();
    let (file, stateid) = client.create(&mut wire, b"file");
    let attr_request = Bitmap::of(&[AttrNum::Maxfilesize.get()]);
    let answer = client.on(&mut wire, &file, &[Args::GetAttr(getattr::Args { attr_request })]).ok();
    let Res::GetAttr(Ok(got)) = answer.last() else { panic!("{answer:?}") };
    assert_eq!(got.obj_attributes.iter().next(), Some(Ok(Attr::Maxfilesize(LARGEST))));
    let mut room = Vec::new();
    let obj_attributes = Fattr::of(&[Attr::Size(LARGEST + 1)], &mut room);
    let copying = copy::Args {
        src_stateid: source,
        dst_stateid: stateid,
        src_offset: 0,
        dst_offset: LARGEST - 4095,
        count: 4096,
        consecutive: false,
        synchronous: true,
        source_server: List::EMPTY,
    };
    let cloning = clone::Args {
        src_stateid: source,
        dst_stateid: stateid,
        src_offset: 0,
        dst_offset: LARGEST,
        count: 4096,
    };
    for (beyond, name) in [
        (writing(stateid, LARGEST - 3, b"ends"), "WRITE"),
        (Args::SetAttr(setattr::Args { stateid, obj_attributes }), "SETATTR"),
        (Args::Allocate(allocate::Args { stateid, offset: LARGEST, length: 1 }), "ALLOCATE"),
        (Args::Copy(copying), "COPY"),
        (Args::Clone(cloning), "CLONE"),
    ] {
        let refused = client.run(&mut wire, &[put(&from), Args::SaveFh, put(&file), beyond]);
        assert_eq!(refused.status(), NfsStat::FBig, "{name}");
    }
    client.on(&mut wire, &file, &[writing(stateid, LARGEST - 3, b"end")]).ok();
}
