//! Written data that is lost because the host could not bring it to stable storage.

use nfs_wire::NfsStat;
use nfs_wire::op::open::OpenHow;
use nfs_wire::op::{Args, Res, commit, write};
use nfs_wire::types::{StableHow, StateId, Verifier};
use testkit::nfs::*;
use volume::Failure;
use volume::faulty::{PlannedFault, VolumeCall};

/// A client that has the file open.
struct UnstableWriter(Wire, Client, StateId);

impl UnstableWriter {
    fn write(&mut self, file: &[u8], stable: StableHow) -> Result<Verifier, NfsStat> {
        let write = Args::Write(write::Args { stateid: self.2, offset: 0, stable, data: b"data" });
        match self.1.on(&mut self.0, file, &[write]).last() {
            Res::Write(written) => written.map(|written| written.writeverf),
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, file: &[u8]) -> Result<Verifier, NfsStat> {
        let commit = Args::Commit(commit::Args { offset: 0, count: 0 });
        match self.1.on(&mut self.0, file, &[commit]).last() {
            Res::Commit(committed) => committed.map(|committed| committed.writeverf),
            other => panic!("{other:?}"),
        }
    }
}

// RFC 8881 18.3.3: a host reports once that it could not store written data, and reports success to the next
// one who asks. The data of that one exists only in its own memory, so it must be told to send it again.
#[test]
fn who_was_not_told_that_written_data_is_lost_writes_it_again() {
    for fails in [StableHow::Unstable, StableHow::FileSync] {
        let (world, plan) = NfsTestServer::counted();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"one", 1);
        let (file, stateid) = client.create(&mut wire, b"file");
        let mut one = UnstableWriter(wire, client, stateid);
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"two", 1);
        let open = [Args::PutRootFh, lookup(EXPORT), opening(OpenHow::NoCreate, b"file")];
        let answer = client.run(&mut wire, &open).ok();
        let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
        let stateid = opened.stateid;
        let mut two = UnstableWriter(wire, client, stateid);
        let before = two.write(&file, StableHow::Unstable).unwrap();
        assert_eq!(two.commit(&file), Ok(before), "nothing is lost");
        let before = two.write(&file, StableHow::Unstable).unwrap();
        plan.add(VolumeCall::Sync, 1, PlannedFault::Fail(Failure::Io));
        let failed = match fails {
            StableHow::Unstable => one.commit(&file),
            stable => one.write(&file, stable),
        };
        assert_eq!(failed, Err(NfsStat::Io));
        let after = two.commit(&file).unwrap();
        assert_ne!(after, before, "what was written before may be lost");
        assert_eq!(two.write(&file, StableHow::Unstable), Ok(after));
        assert_eq!(two.commit(&file), Ok(after), "what was written since is not");
    }
}
