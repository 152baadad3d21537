//! An NFS server with a hostile client that has a session.
use nfs_wire::NfsStat;
use nfs_wire::op::{Args, destroy};
use nfs_wire::rpc::{self, AuthSys, Credential, NFS_PROGRAM, NFS_V4, PROC_COMPOUND};
use nfs_wire::xdr::Encode;

use testkit::nfs::{Client, EXPORT, NfsTestServer, lookup};

/// Operations of one COMPOUND after a valid SEQUENCE: minor version, number of operations, the operations.
/// Then the same bytes as a separate message. The server answers each call, and removes all state with the
/// client.
pub fn server(data: &[u8]) {
    let [minor, count, operations @ ..] = data else { return };
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let minor = 1 + u32::from(*minor % 2);
    let mut client = Client::new(&mut wire, b"fuzz", minor);
    let (handle, stateid) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[testkit::nfs::writing(stateid, 0, b"data of a file")]).ok();

    let mut message = Vec::new();
    let credential = Credential::Sys(AuthSys::new(b"host", 0, 0, &[]));
    rpc::RpcCall::write_header(99, NFS_PROGRAM, NFS_V4, PROC_COMPOUND, &credential, &mut message);
    // An empty tag, the minor version, and the number of operations.
    [0, minor, 3 + u32::from(*count)].iter().for_each(|word| word.encode(&mut message));
    client.sequence(0, true).encode(&mut message);
    Args::PutRootFh.encode(&mut message);
    lookup(EXPORT).encode(&mut message);
    message.extend_from_slice(operations);
    let answers = wire.deliver(&message);
    assert_eq!(answers.len(), 1, "each call is answered once");

    let mut stranger = world.connect();
    let answers = stranger.deliver(data);
    assert!(answers.len() <= 1);

    // Other clients are not affected, and no state is left. The client itself may have ended its session.
    let mut wire = world.connect();
    let mut other = Client::new(&mut wire, b"other", 1);
    other.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), Args::GetFh]).ok();
    let session = Args::DestroySession(destroy::SessionArgs { sessionid: client.session });
    let gone = wire.call(1, &[session]).status();
    assert!(matches!(gone, NfsStat::Ok | NfsStat::BadSession | NfsStat::ConnNotBoundToSession), "{gone:?}");
    let mut world = world;
    world.pass(1 << 20);
    assert_eq!(world.server.state_count(), 0, "states of clients that are gone");
}
