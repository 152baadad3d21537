//! Further names for a file.

mod common;

use common::*;
use nfs_wire::NfsStat;
use nfs_wire::op::{Args, names};

// RFC 8881 18.9.3; link(2): who finds the name free has it, which is how programs lock without locks
#[test]
fn a_name_that_is_there_is_not_given_once_more_also_to_its_own_file() {
    let world = World::new();
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
