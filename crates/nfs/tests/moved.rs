//! Files that a program of the host moves while clients have their filehandles.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use nfs_wire::op::{Args, Res, bind_conn_to_session, names, open};
use nfs_wire::types::{Identity, StateOwner};
use testkit::nfs::*;
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};
use volume::{Failure, HostEvent, Name, Volume};
use volume_posix::PosixVolume;

/// A share on a directory of the host, with other directories beside it.
struct HostShare {
    temp_dir: tempfile::TempDir,
    world: NfsTestServer,
    wire: Wire,
    client: Client,
}

impl HostShare {
    fn new() -> HostShare {
        let temp_dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp_dir.path().join("files/above/moved/below")).unwrap();
        let (world, wire, client) = HostShare::serve(&temp_dir);
        HostShare { temp_dir, world, wire, client }
    }

    /// A server on the share, and a client that can be called.
    fn serve(temp_dir: &tempfile::TempDir) -> (NfsTestServer, Wire, Client) {
        let volume =
            PosixVolume::open(&temp_dir.path().join("files"), &temp_dir.path().join("beside")).unwrap();
        let world = NfsTestServer::on(Arc::new(volume));
        let mut wire = world.connect();
        let client = Client::new(&mut wire, b"client", 1);
        let bind = bind_conn_to_session::Args {
            sessid: client.session,
            dir: bind_conn_to_session::FromClient::BackOrBoth,
            use_conn_in_rdma_mode: false,
        };
        wire.call(1, &[Args::BindConnToSession(bind)]).ok();
        (world, wire, client)
    }

    /// Replaces the server by a new one.
    fn restart(&mut self) {
        (self.world, self.wire, self.client) = HostShare::serve(&self.temp_dir);
    }

    /// Runs a program on the host. The server would learn of changes by this process itself.
    fn runs<'a>(&self, program: &str, arguments: impl IntoIterator<Item = &'a OsStr>) {
        assert!(std::process::Command::new(program).args(arguments).status().unwrap().success());
    }

    fn at(&self, path: &str) -> PathBuf {
        self.temp_dir.path().join("files").join(path)
    }

    fn moves(&self, from: PathBuf, to: PathBuf) {
        self.runs("mv", [from.as_os_str(), to.as_os_str()]);
    }

    fn outside(&self) -> PathBuf {
        self.temp_dir.path().join("outside")
    }

    /// The filehandle of a path.
    fn handle(&mut self, path: &[&'static [u8]]) -> Vec<u8> {
        let names = path.iter().map(|name| lookup(name));
        let all: Vec<_> =
            [Args::PutRootFh, lookup(EXPORT)].into_iter().chain(names).chain([Args::GetFh]).collect();
        let answer = self.client.run(&mut self.wire, &all).ok();
        let Res::GetFh(Ok(handle)) = answer.last() else { panic!("{answer:?}") };
        handle.object.0.to_vec()
    }

    /// The status of a lookup of a name below a filehandle, in a later batch of requests.
    fn looks(&mut self, handle: &[u8], name: &[u8]) -> NfsStat {
        self.wire.now.mono_ns += 1_000_000;
        self.client.on(&mut self.wire, handle, &[lookup(name)]).status()
    }
}

#[test]
fn a_directory_that_the_host_moves_out_of_the_share_is_stale_with_all_that_is_below() {
    let mut it = HostShare::new();
    assert!(it.world.engine.volume().properties().tells_changes);
    let moved = it.handle(&[b"above", b"moved"]);
    let below = it.handle(&[b"above", b"moved", b"below"]);
    let above = it.handle(&[b"above"]);
    std::fs::write(it.at("above/moved/below/f"), "f").unwrap();
    assert_eq!(it.looks(&below, b"f"), NfsStat::Ok);
    // Within the share the server follows the move.
    it.moves(it.at("above/moved"), it.at("elsewhere"));
    assert_eq!([it.looks(&moved, b"below"), it.looks(&below, b"f")], [NfsStat::Ok; 2]);
    it.moves(it.at("elsewhere"), it.outside());
    assert_eq!(it.looks(&moved, b"below"), NfsStat::Stale);
    assert_eq!(it.looks(&below, b"f"), NfsStat::Stale);
    assert_eq!(it.looks(&above, b"moved"), NfsStat::NoEnt, "nothing else is");
    it.moves(it.outside(), it.at("above/back"));
    assert_eq!([it.looks(&moved, b"below"), it.looks(&below, b"f")], [NfsStat::Ok; 2]);
}

#[test]
fn a_directory_that_the_host_moves_away_while_its_changes_are_lost_is_stale() {
    let mut it = HostShare::new();
    let moved = it.handle(&[b"above", b"moved"]);
    let above = it.handle(&[b"above"]);
    assert_eq!(it.looks(&moved, b"below"), NfsStat::Ok);
    // More events than the host queues for a reader that does not fetch them.
    let script = "cd \"$0\"; seq 40000 | xargs touch; mv moved ../../outside";
    it.runs("sh", ["-ec".as_ref(), script.as_ref(), it.at("above").as_os_str()]);
    assert_eq!(it.looks(&moved, b"below"), NfsStat::Stale);
    assert_eq!(it.looks(&above, b"40000"), NfsStat::Ok);
    it.moves(it.outside(), it.at("back"));
    assert_eq!(it.looks(&moved, b"below"), NfsStat::Ok);
}

#[test]
fn a_directory_that_a_client_moves_is_known_where_it_is() {
    let mut it = HostShare::new();
    let [moved, below] =
        [&[&b"above"[..], b"moved"][..], &[b"above", b"moved", b"below"]].map(|path| it.handle(path));
    let rename = Args::Rename(names::RenameArgs { oldname: b"moved", newname: b"elsewhere" });
    let from = [Args::PutRootFh, lookup(EXPORT), lookup(b"above"), Args::SaveFh];
    let all: Vec<_> = from.into_iter().chain([Args::PutRootFh, lookup(EXPORT), rename]).collect();
    it.client.run(&mut it.wire, &all).ok();
    assert_eq!([it.looks(&moved, b"below"), it.looks(&below, b"none")], [NfsStat::Ok, NfsStat::NoEnt]);
    let path = |it: &HostShare| {
        let handle = it.world.server.handles.check(&below).unwrap();
        it.world.server.known_item(&handle).and_then(|item| item.path())
    };
    let expected = [&b"elsewhere"[..], b"below"].map(|name| Name::new(name).unwrap());
    assert_eq!(path(&it).as_deref(), Some(&expected[..]));
    it.moves(it.at("elsewhere"), it.outside());
    assert_eq!([it.looks(&moved, b"below"), it.looks(&below, b"none")], [NfsStat::Stale; 2]);
}

/// A directory `d` with `below` in it, in a share whose host fails as planned; and its filehandle.
fn failing() -> (NfsTestServer, Arc<FaultPlan>, Wire, Client, Vec<u8>) {
    let (world, plan) = NfsTestServer::counted();
    let root = world.memory.root().unwrap();
    let d = root.create_directory(&Name::new(b"d").unwrap(), 0o777, None).unwrap();
    d.create_directory(&Name::new(b"below").unwrap(), 0o777, None).unwrap();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let answer = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), lookup(b"d"), Args::GetFh]).ok();
    let Res::GetFh(Ok(handle)) = answer.last() else { panic!("{answer:?}") };
    let handle = handle.object.0.to_vec();
    (world, plan, wire, client, handle)
}

#[test]
fn a_host_that_fails_for_a_moment_makes_no_directory_stale_and_nothing_of_it_unknown() {
    let (world, plan, mut wire, mut client, handle) = failing();
    let mut looks = |is_moved: bool| {
        if is_moved {
            world.memory.tell(HostEvent::Overflow);
        }
        wire.now.mono_ns += 1_000_000;
        let before = plan.count(VolumeCall::Lookup);
        let status = client.on(&mut wire, &handle, &[lookup(b"below")]).status();
        (status, plan.count(VolumeCall::Lookup) - before)
    };
    let as_ever = looks(true);
    assert_eq!(as_ever.0, NfsStat::Ok);
    plan.always(VolumeCall::Lookup, Some(Failure::Io));
    assert_eq!(looks(true).0, NfsStat::Io);
    plan.always(VolumeCall::Lookup, None);
    assert_eq!(looks(false), as_ever, "it is not looked for by its address");
    // Descriptors that are only cached make room.
    plan.add(VolumeCall::Lookup, 1, PlannedFault::Fail(Failure::Exhausted));
    assert_eq!(looks(true).0, NfsStat::Ok);
}

/// OPEN by filehandle with a request for a READ delegation. Returns whether it is granted.
fn is_delegated(it: &mut HostShare, handle: &[u8]) -> bool {
    let open = Args::Open(open::Args {
        seqid: 0,
        share_access: ShareAccess::READ | ShareAccess::WANT_READ_DELEG,
        share_deny: ShareDeny::empty(),
        owner: StateOwner { clientid: 0, owner: Identity(b"owner") },
        openhow: open::OpenHow::NoCreate,
        claim: open::Claim::Fh,
    });
    let answer = it.client.on(&mut it.wire, handle, &[open]).ok();
    let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
    it.client.on(&mut it.wire, handle, &[closing(opened.stateid)]).ok();
    matches!(opened.delegation, open::Delegation::Read(_))
}

#[test]
fn a_delegation_of_a_file_whose_name_is_not_known_after_a_restart_ends_by_itself() {
    let mut it = HostShare::new();
    std::fs::write(it.at("f"), "f").unwrap();
    let handle = it.handle(&[b"f"]);
    it.restart();
    assert!(is_delegated(&mut it, &handle));
    it.wire.now.mono_ns += 1_000_000;
    it.world.engine.maintain(it.wire.now);
    assert_eq!(it.wire.called().len(), 0);
    // Nobody would report a change by the host.
    it.wire.now.mono_ns += 61_000_000_000;
    it.world.engine.maintain(it.wire.now);
    assert_eq!(it.wire.called().len(), 1, "recalled");
}

#[test]
fn a_delegation_of_a_file_whose_name_is_known_is_recalled_when_the_host_changes_it() {
    let mut it = HostShare::new();
    std::fs::write(it.at("f"), "f").unwrap();
    let handle = it.handle(&[b"f"]);
    it.restart();
    assert_eq!(it.handle(&[b"f"]), handle);
    assert!(is_delegated(&mut it, &handle));
    it.runs("sh", ["-c".as_ref(), "echo more >> \"$0\"".as_ref(), it.at("f").as_os_str()]);
    it.wire.now.mono_ns += 1_000_000;
    it.world.engine.maintain(it.wire.now);
    assert_eq!(it.wire.called().len(), 1, "recalled");
}
