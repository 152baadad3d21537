//! Delegations: granted where the client can be called, recalled before anybody else writes, taken away in the end.

mod common;

use common::*;
use nfs_wire::NfsStat;
use nfs_wire::callback;
use nfs_wire::compound;
use nfs_wire::op::{Args, Res, bind_conn_to_session, delegation, open, stateid};
use nfs_wire::rpc::{self, Message};
use nfs_wire::types::*;
use nfs_wire::xdr::Encode;

/// A client that can be called on `wire`.
fn callable(wire: &mut Wire, name: &[u8]) -> Client {
    let client = Client::new(wire, name, 1);
    bind_back(wire, &client);
    client
}

fn bind_back(wire: &mut Wire, client: &Client) {
    let bind = bind_conn_to_session::Args {
        sessid: client.session,
        dir: bind_conn_to_session::FromClient::BackOrBoth,
        use_conn_in_rdma_mode: false,
    };
    wire.call(1, &[Args::BindConnToSession(bind)]).ok();
}

fn open_it<'a>(share_access: open::ShareAccess, name: &'a [u8]) -> Args<'a> {
    let Args::Open(asked) = opening(open::OpenHow::NoCreate, name) else { unreachable!() };
    Args::Open(open::Args { share_access, ..asked })
}

/// Opens for reading, wanting a READ delegation; gives handle, open and delegation.
fn delegated(client: &mut Client, wire: &mut Wire, name: &[u8]) -> (Vec<u8>, StateId, Option<StateId>) {
    let access = open::ShareAccess::READ | open::ShareAccess::WANT_READ_DELEG;
    let all = [Args::PutRootFh, lookup(EXPORT), open_it(access, name), Args::GetFh];
    let answer = client.run(wire, &all).ok();
    let results = answer.results();
    let (Res::Open(Ok(opened)), Res::GetFh(Ok(handle))) = (results[3], results[4]) else {
        panic!("{results:?}")
    };
    let given = match opened.delegation {
        open::Delegation::Read(read) => Some(read.stateid),
        _ => None,
    };
    (handle.object.0.to_vec(), opened.stateid, given)
}

fn writes(client: &mut Client, wire: &mut Wire, name: &[u8]) -> NfsStat {
    let all = [Args::PutRootFh, lookup(EXPORT), open_it(open::ShareAccess::WRITE, name)];
    client.run(wire, &all).status()
}

/// Which delegation a call recalls, and the call's number.
fn recalled(message: &[u8]) -> (u32, StateId) {
    let Ok(Message::Call(Ok(call))) = Message::parse(message) else { panic!("no call") };
    assert_eq!(call.program, 0x4000_0000);
    let compound = callback::Call::parse(call.body).expect("CB_COMPOUND4args");
    let all: Vec<_> = compound.operations().map(|one| one.expect("an operation")).collect();
    match all[..] {
        [callback::Args::Sequence(_), callback::Args::Recall(recall)] => (call.xid, recall.stateid),
        _ => panic!("{all:?}"),
    }
}

/// A world with a file and two clients, the first of which has a delegation of it.
struct Scene {
    world: World,
    first: Wire,
    second: Wire,
    holder: Client,
    other: Client,
    handle: Vec<u8>,
    given: StateId,
}

impl Scene {
    fn new() -> Scene {
        let world = World::new();
        let (mut first, mut second) = (world.connect(), world.connect());
        let mut holder = callable(&mut first, b"holder");
        let mut other = Client::new(&mut second, b"other", 1);
        let (made, open) = other.create(&mut second, b"file");
        other.on(&mut second, &made, &[closing(open)]).ok();
        let (handle, _, given) = delegated(&mut holder, &mut first, b"file");
        let given = given.expect("a delegation");
        Scene { world, first, second, holder, other, handle, given }
    }

    fn give_back(&mut self) -> NfsStat {
        let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: self.given });
        self.holder.on(&mut self.first, &self.handle, &[back]).status()
    }
}

// RFC 8881 10.4.4
#[test]
fn a_read_delegation_is_recalled_before_another_client_opens_for_writing() {
    let mut scene = Scene::new();
    // Reading is in nobody's way.
    let (.., own) = delegated(&mut scene.other, &mut scene.second, b"file");
    assert_eq!(own, None, "it cannot be called");
    assert!(scene.first.called().is_empty());
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    let calls = scene.first.called();
    assert_eq!(calls.len(), 1);
    let (xid, stateid) = recalled(&calls[0]);
    assert_eq!(stateid, scene.given);
    // Asked once is enough.
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    assert!(scene.first.called().is_empty());
    let mut results = Vec::new();
    [0u32, 0, 0].iter().for_each(|word| word.encode(&mut results));
    let mut reply = Vec::new();
    rpc::Reply::accepted(xid, rpc::Accepted::Success(&results)).write(&mut reply);
    assert!(compound::Reply::parse(&results).is_ok());
    scene.first.reply(&reply);
    assert_eq!(scene.give_back(), NfsStat::Ok);
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Ok);
    assert_eq!(scene.give_back(), NfsStat::BadStateId);
}

// RFC 8881 10.4.5
#[test]
fn a_recall_goes_out_again_on_another_connection_when_the_first_is_lost() {
    let mut scene = Scene::new();
    let mut spare = scene.world.connect();
    bind_back(&mut spare, &scene.holder);
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    assert_eq!(scene.first.called().len(), 1);
    std::mem::replace(&mut scene.first, scene.world.connect()).lose();
    let again = spare.called();
    assert_eq!(again.len(), 1);
    assert_eq!(recalled(&again[0]).1, scene.given);
}

#[test]
fn what_is_not_given_back_in_time_is_taken_away_and_the_client_is_told() {
    let mut scene = Scene::new();
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    let later = scene.world.now.plus(std::time::Duration::from_secs(36));
    let exports = scene.world.server.exports();
    exports.list()[0].engine.tick(later);
    drop(exports);
    scene.world.server.tick(later);
    for wire in [&mut scene.first, &mut scene.second] {
        wire.called();
        wire.now = later;
    }
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Ok);
    let read = scene.holder.on(&mut scene.first, &scene.handle, &[reading(scene.given, 0, 1)]);
    assert_eq!(read.status(), NfsStat::DelegRevoked);
    let flag = nfs_wire::op::sequence::StatusFlags::RECALLABLE_STATE_REVOKED;
    let told = |answer: &Answer| match answer.results()[0] {
        Res::Sequence(Ok(sequence)) => sequence.status_flags.contains(flag),
        other => panic!("{other:?}"),
    };
    assert!(told(&read));
    let free = Args::FreeStateId(stateid::FreeArgs { stateid: scene.given });
    scene.holder.run(&mut scene.first, &[free]).ok();
    let quiet = scene.holder.run(&mut scene.first, &[Args::PutRootFh]).ok();
    assert!(!told(&quiet));
}

#[test]
fn a_delegation_that_was_taken_away_is_forgotten_with_its_export() {
    let mut scene = Scene::new();
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    let later = scene.world.now.plus(std::time::Duration::from_secs(36));
    scene.world.engine.tick(later);
    scene.world.server.tick(later);
    let holder = scene.world.server.clients.get(scene.holder.clientid).expect("the client");
    let revoked = || holder.revoked.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(revoked(), 1);
    scene.world.server.end_export("share", later);
    assert_eq!(revoked(), 0);
}

// RFC 8881 18.16.3
#[test]
fn a_file_is_opened_under_its_own_delegation_alone() {
    let mut scene = Scene::new();
    let (other, open) = scene.holder.create(&mut scene.first, b"other");
    scene.holder.on(&mut scene.first, &other, &[closing(open)]).ok();
    let Args::Open(asked) = open_it(open::ShareAccess::READ, b"") else { unreachable!() };
    let under = Args::Open(open::Args { claim: open::Claim::DelegCurFh(scene.given), ..asked });
    let mut opens = |handle: &[u8]| scene.holder.on(&mut scene.first, handle, &[under]).status();
    assert_eq!(opens(&other), NfsStat::BadStateId);
    assert_eq!(opens(&scene.handle), NfsStat::Ok);
    let file = open::DelegateCur { delegate_stateid: scene.given, file: b"other" };
    let named = Args::Open(open::Args { claim: open::Claim::DelegateCur(file), ..asked });
    let all = [Args::PutRootFh, lookup(EXPORT), named];
    assert_eq!(scene.holder.run(&mut scene.first, &all).status(), NfsStat::BadStateId);
}

#[test]
fn who_cannot_be_called_is_given_nothing_and_told_why() {
    let world = World::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, open) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[closing(open)]).ok();
    let access = open::ShareAccess::READ | open::ShareAccess::WANT_ANY_DELEG;
    let answer = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), open_it(access, b"file")]).ok();
    let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
    assert_eq!(opened.delegation, open::Delegation::NoneExt(open::WhyNone::Resource(false)));
}
