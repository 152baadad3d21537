//! Delegations: granted if the client can be called, recalled before another client writes, revoked in the
//! end.

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::callback;
use nfs_wire::op::names::LinkArgs;
use nfs_wire::op::{
    Args, Res, bind_conn_to_session, delegation, getattr, lock, open, readdir, setattr, stateid, xattr,
};
use nfs_wire::rpc::{self, Message};
use nfs_wire::types::*;
use nfs_wire::xdr::Encode;
use testkit::nfs::*;

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

/// Opens for reading with a wish for a READ delegation. Returns filehandle, open and delegation.
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

/// The delegation that a callback recalls, and the XID of the callback.
fn recalled(message: &[u8]) -> (u32, StateId) {
    let Heard { xid, stateid, .. } = hear(message);
    (xid, stateid)
}

/// A recall as the client hears it.
struct Heard {
    xid: u32,
    session: SessionId,
    slot: u32,
    sequence: u32,
    stateid: StateId,
}

impl Heard {
    /// The reply, with these statuses for CB_SEQUENCE and CB_RECALL.
    fn answer(&self, sequence: NfsStat, recall: NfsStat) -> Vec<u8> {
        let mut body = Vec::new();
        let ends = if sequence.is_ok() { recall } else { sequence };
        let count = if sequence.is_ok() { 2 } else { 1 };
        [ends.get(), 0, count, 11, sequence.get()].iter().for_each(|word| word.encode(&mut body));
        if sequence.is_ok() {
            body.extend_from_slice(&self.session);
            [self.sequence, self.slot, self.slot, self.slot].iter().for_each(|word| word.encode(&mut body));
            [4, recall.get()].iter().for_each(|word: &u32| word.encode(&mut body));
        }
        let mut reply = Vec::new();
        rpc::RpcReply::accepted(self.xid, rpc::Accepted::Success(&body)).write(&mut reply);
        reply
    }
}

fn hear(message: &[u8]) -> Heard {
    let Ok(Message::Call(Ok(call))) = Message::parse(message) else { panic!("no call") };
    assert_eq!(call.program, 0x4000_0000);
    let compound = callback::Call::parse(call.body).expect("CB_COMPOUND4args");
    let all: Vec<_> = compound.operations().map(|one| one.expect("an operation")).collect();
    match all[..] {
        [callback::Args::Sequence(sequence), callback::Args::Recall(recall)] => Heard {
            xid: call.xid,
            session: sequence.sessionid,
            slot: sequence.slotid,
            sequence: sequence.sequenceid,
            stateid: recall.stateid,
        },
        _ => panic!("{all:?}"),
    }
}

/// A world with a file and two clients, the first of which has a delegation of it.
struct DelegatedFile {
    world: NfsTestServer,
    first: Wire,
    second: Wire,
    holder: Client,
    other: Client,
    handle: Vec<u8>,
    given: StateId,
}

impl DelegatedFile {
    fn new() -> DelegatedFile {
        let world = NfsTestServer::new();
        let (mut first, mut second) = (world.connect(), world.connect());
        let mut holder = callable(&mut first, b"holder");
        let mut other = Client::new(&mut second, b"other", 1);
        let (made, open) = other.create(&mut second, b"file");
        other.on(&mut second, &made, &[closing(open)]).ok();
        let (handle, _, given) = delegated(&mut holder, &mut first, b"file");
        let given = given.expect("a delegation");
        DelegatedFile { world, first, second, holder, other, handle, given }
    }

    /// Lets time pass, as the server's own clock does.
    fn pass(&mut self, ms: u64) {
        let now = self.world.now.plus(std::time::Duration::from_millis(ms));
        (self.world.now, self.first.now, self.second.now) = (now, now, now);
        self.world.engine.tick(now);
        self.world.server.tick(now);
    }

    /// The other client opens for writing. Returns the server's status.
    fn write(&mut self) -> NfsStat {
        writes(&mut self.other, &mut self.second, b"file")
    }

    /// The only callback that the server sends on the first connection.
    fn call(&mut self) -> Heard {
        let calls = self.first.called();
        assert_eq!(calls.len(), 1);
        hear(&calls[0])
    }

    fn give_back(&mut self) -> NfsStat {
        let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: self.given });
        self.holder.on(&mut self.first, &self.handle, &[back]).status()
    }
}

// RFC 8881 10.4.4
#[test]
fn a_read_delegation_is_recalled_before_another_client_opens_for_writing() {
    let mut scene = DelegatedFile::new();
    // Reading conflicts with nobody.
    let (.., own) = delegated(&mut scene.other, &mut scene.second, b"file");
    assert_eq!(own, None, "it cannot be called");
    assert!(scene.first.called().is_empty());
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    let calls = scene.first.called();
    assert_eq!(calls.len(), 1);
    let heard = hear(&calls[0]);
    assert_eq!(heard.stateid, scene.given);
    // One recall is enough.
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    assert!(scene.first.called().is_empty());
    let reply = heard.answer(NfsStat::Ok, NfsStat::Ok);
    scene.first.reply(&reply);
    scene.pass(5000);
    assert!(scene.first.called().is_empty(), "it has heard it");
    assert_eq!(scene.give_back(), NfsStat::Ok);
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Ok);
    assert_eq!(scene.give_back(), NfsStat::BadStateId);
}

/// A client that opens a file for writing outside its own READ delegation may have it open through another
/// mount, whose cache does not know of that. The delegation is recalled once. Only the writer's CLOSE waits
/// for it, and only for a moment.
// RFC 8881 10.3.1
#[test]
fn a_clients_own_open_for_writing_calls_its_delegation_back_and_its_close_waits_for_that() {
    for gives_back in [true, false] {
        let mut scene = DelegatedFile::new();
        let handle = scene.handle.clone();
        let open = |scene: &mut DelegatedFile| {
            let Args::Open(asked) = open_it(open::ShareAccess::WRITE, b"file") else { unreachable!() };
            let owner = StateOwner { clientid: 0, owner: Identity(b"writer") };
            let open = Args::Open(open::Args { owner, ..asked });
            let answer = scene.holder.run(&mut scene.first, &[Args::PutRootFh, lookup(EXPORT), open]).ok();
            let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
            opened.stateid
        };
        open(&mut scene);
        let calls = scene.first.called();
        assert_eq!(calls.len(), 1);
        assert_eq!(hear(&calls[0]).stateid, scene.given);
        let writer = open(&mut scene);
        assert!(scene.first.called().is_empty(), "asked once is enough");
        let close = |scene: &mut DelegatedFile| {
            let close = closing(StateId { seqid: 0, ..writer });
            scene.holder.on(&mut scene.first, &handle, &[close]).status()
        };
        assert_eq!(close(&mut scene), NfsStat::Delay);
        match gives_back {
            true => assert_eq!(scene.give_back(), NfsStat::Ok),
            false => scene.pass(2000),
        }
        assert_eq!(close(&mut scene), NfsStat::Ok);
    }
}

/// The time after which the recall of a delegation is forgotten.
const QUIET_MS: u64 = 2000;

// RFC 8881 10.4.4
#[test]
fn whoever_has_a_delegation_recalled_comes_before_the_next_one() {
    let mut scene = DelegatedFile::new();
    assert_eq!(scene.write(), NfsStat::Delay);
    scene.pass(5000);
    assert_eq!(scene.give_back(), NfsStat::Ok);
    // The other client has not tried again yet.
    let (_, open, given) = delegated(&mut scene.holder, &mut scene.first, b"file");
    assert_eq!(given, None);
    let handle = scene.handle.clone();
    scene.holder.on(&mut scene.first, &handle, &[closing(open)]).ok();
    scene.pass(900);
    assert_eq!(scene.write(), NfsStat::Ok);
}

fn sets<'a>(attribute: Attr<'a>, room: &'a mut Vec<u8>) -> Args<'a> {
    let obj_attributes = Fattr::of(&[attribute], room);
    Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes })
}

// RFC 8881 10.4.4
#[test]
fn a_delegation_is_recalled_before_another_client_changes_attributes_or_names() {
    let mut rooms = [(); 3].map(|()| Vec::new());
    let [mode, owner, times] = &mut rooms;
    let value = xattr::SetArgs { option: xattr::SetOption::Either, key: b"key", value: b"value" };
    let changes = [
        vec![sets(Attr::Mode(0o640), mode)],
        vec![sets(Attr::OwnerGroup(b"7"), owner)],
        vec![sets(Attr::TimeModifySet(SetTime::Server), times)],
        vec![Args::SetXattr(value)],
        vec![Args::RemoveXattr(xattr::NameArgs { name: b"key" })],
        vec![Args::SaveFh, Args::PutRootFh, lookup(EXPORT), Args::Link(LinkArgs { newname: b"further" })],
    ];
    let mut scene = DelegatedFile::new();
    (scene.holder.minor, scene.other.minor) = (2, 2);
    for change in &changes {
        let handle = scene.handle.clone();
        let other = |scene: &mut DelegatedFile| scene.other.on(&mut scene.second, &handle, change).status();
        assert_eq!(other(&mut scene), NfsStat::Delay, "{change:?}");
        let calls = scene.first.called();
        assert_eq!(calls.iter().map(|call| recalled(call).1).collect::<Vec<_>>(), [scene.given]);
        assert_eq!(scene.give_back(), NfsStat::Ok);
        assert_eq!(other(&mut scene), NfsStat::Ok, "{change:?}");
        scene.pass(QUIET_MS);
        let (_, open, given) = delegated(&mut scene.holder, &mut scene.first, b"file");
        scene.holder.on(&mut scene.first, &handle, &[closing(open)]).ok();
        scene.given = given.expect("a delegation again");
    }
    // The client's own operations do not recall its delegation.
    let undo = Args::Remove(nfs_wire::op::names::RemoveArgs { target: b"further" });
    scene.other.run(&mut scene.second, &[Args::PutRootFh, lookup(EXPORT), undo]).status();
    scene.first.called();
    scene.give_back();
    scene.other.run(&mut scene.second, &[Args::PutRootFh, lookup(EXPORT), undo]).ok();
    scene.pass(QUIET_MS);
    let (.., given) = delegated(&mut scene.holder, &mut scene.first, b"file");
    scene.given = given.expect("a delegation again");
    for change in &changes {
        let handle = scene.handle.clone();
        scene.holder.on(&mut scene.first, &handle, change).ok();
    }
    assert!(scene.first.called().is_empty());
    assert_eq!(scene.give_back(), NfsStat::Ok);
}

// RFC 8881 8.4.2.3
#[test]
fn a_client_whose_lease_is_over_is_not_ended_by_a_conflict_that_it_has_no_part_in() {
    let mut scene = DelegatedFile::new();
    scene.pass(u64::from(LEASE_S) * 1000 + 1000);
    let mut wire = scene.world.connect();
    let mut third = Client::new(&mut wire, b"third", 1);
    let Args::Open(asked) = open_it(open::ShareAccess::BOTH, b"elsewhere") else { unreachable!() };
    scene.other.create(&mut scene.second, b"elsewhere");
    let denies = Args::Open(open::Args { share_deny: open::ShareDeny::BOTH, ..asked });
    let collides = third.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), denies]);
    assert_eq!(collides.status(), NfsStat::ShareDenied);
    assert_eq!(scene.give_back(), NfsStat::Ok, "it has what it had");
}

// RFC 8881 10.4.5
#[test]
fn a_recall_goes_out_again_on_another_connection_when_the_first_is_lost() {
    let mut scene = DelegatedFile::new();
    let mut spare = scene.world.connect();
    bind_back(&mut spare, &scene.holder);
    assert_eq!(writes(&mut scene.other, &mut scene.second, b"file"), NfsStat::Delay);
    assert_eq!(scene.first.called().len(), 1);
    std::mem::replace(&mut scene.first, scene.world.connect()).lose();
    let again = spare.called();
    assert_eq!(again.len(), 1);
    assert_eq!(recalled(&again[0]).1, scene.given);
}

// RFC 8881 20.2.3
#[test]
fn a_recall_that_the_client_refuses_is_made_again_a_second_later() {
    let mut scene = DelegatedFile::new();
    assert_eq!(scene.write(), NfsStat::Delay);
    for (sequence, refusal) in [(1, NfsStat::Delay), (2, NfsStat::BadStateId), (3, NfsStat::BadHandle)] {
        let heard = scene.call();
        assert_eq!((heard.stateid, heard.slot, heard.sequence), (scene.given, 0, sequence));
        scene.first.reply(&heard.answer(NfsStat::Ok, refusal));
        scene.pass(999);
        assert!(scene.first.called().is_empty());
        scene.pass(1);
    }
    scene.call();
    assert_eq!(scene.give_back(), NfsStat::Ok);
    scene.pass(5000);
    assert!(scene.first.called().is_empty());
    assert_eq!(scene.write(), NfsStat::Ok);
}

// RFC 8881 20.9.3
#[test]
fn a_call_that_the_client_has_not_taken_uses_no_number_up() {
    let mut scene = DelegatedFile::new();
    assert_eq!(scene.write(), NfsStat::Delay);
    let answers = [
        (1, NfsStat::Delay),
        (1, NfsStat::Delay),
        (1, NfsStat::Ok),
        (2, NfsStat::Ok),
        (3, NfsStat::SeqMisordered),
        (2, NfsStat::SeqMisordered),
        // The client has started from the beginning.
        (1, NfsStat::Ok),
        (2, NfsStat::BadSession),
        (2, NfsStat::Ok),
    ];
    for (number, sequence) in answers {
        let heard = scene.call();
        assert_eq!((heard.slot, heard.sequence), (0, number));
        scene.first.reply(&heard.answer(sequence, NfsStat::Delay));
        scene.pass(1000);
    }
}

// RFC 8881 18.46.3
#[test]
fn a_back_channel_on_whose_numbers_nobody_agrees_is_told_as_faulty_until_a_call_is_taken() {
    use nfs_wire::op::sequence::StatusFlags;
    let mut scene = DelegatedFile::new();
    assert_eq!(scene.write(), NfsStat::Delay);
    for (sequence, is_faulty) in [
        (NfsStat::SeqMisordered, false),
        // One less, and the first: the client may have missed a reply, or started from the beginning.
        (NfsStat::SeqMisordered, false),
        (NfsStat::SeqMisordered, true),
        // The client may be busy, which says nothing.
        (NfsStat::Delay, true),
        (NfsStat::Ok, false),
        (NfsStat::BadSession, true),
        (NfsStat::Ok, false),
    ] {
        let heard = scene.call();
        scene.first.reply(&heard.answer(sequence, NfsStat::Delay));
        let answer = scene.holder.run(&mut scene.first, &[]).ok();
        let Res::Sequence(Ok(told)) = answer.results()[0] else { panic!("{answer:?}") };
        let is_told = told.status_flags.contains(StatusFlags::BACKCHANNEL_FAULT);
        assert_eq!(is_told, is_faulty, "after {sequence:?}");
        scene.pass(1000);
    }
}

// RFC 8881 2.10.6.2
#[test]
fn a_recall_over_a_silent_connection_is_made_on_another_too() {
    let mut scene = DelegatedFile::new();
    let mut spare = scene.world.connect();
    bind_back(&mut spare, &scene.holder);
    assert_eq!(scene.write(), NfsStat::Delay);
    let unheard = scene.call();
    scene.pass(1);
    scene.pass(4998);
    assert!(spare.called().is_empty());
    scene.pass(1);
    let again = spare.called();
    let heard = hear(&again[0]);
    assert_eq!((heard.slot, heard.sequence, again.len()), (unheard.slot, unheard.sequence, 1));
    spare.reply(&heard.answer(NfsStat::Ok, NfsStat::Delay));
    // A late reply changes nothing.
    scene.first.reply(&unheard.answer(NfsStat::Ok, NfsStat::Delay));
    scene.pass(1000);
    let next = scene.call();
    assert_eq!((next.slot, next.sequence), (0, 2));
}

// RFC 8881 10.4.6
#[test]
fn who_cannot_be_called_is_called_when_it_binds_a_connection_again() {
    let mut scene = DelegatedFile::new();
    std::mem::replace(&mut scene.first, scene.world.connect()).lose();
    assert_eq!(scene.write(), NfsStat::Delay);
    scene.pass(1000 * u64::from(LEASE_S) / 2);
    assert_eq!(scene.write(), NfsStat::Delay);
    bind_back(&mut scene.first, &scene.holder);
    assert_eq!(scene.call().stateid, scene.given);
    // Also if the session is gone, and over another session.
    let mut spare = scene.world.connect();
    let gone = nfs_wire::op::destroy::SessionArgs { sessionid: scene.holder.session };
    spare.call(1, &[Args::DestroySession(gone)]).ok();
    let known = spare.call(1, &[introduce(b"holder")]).ok();
    let Res::ExchangeId(Ok(known)) = known.last() else { panic!("{known:?}") };
    let begun = spare.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]).ok();
    let Res::CreateSession(Ok(session)) = begun.last() else { panic!("{begun:?}") };
    (scene.holder.session, scene.holder.sequences) = (session.sessionid, vec![0; 16]);
    bind_back(&mut scene.first, &scene.holder);
    assert_eq!(scene.call().stateid, scene.given);
    assert_eq!(scene.give_back(), NfsStat::Ok);
    assert_eq!(scene.write(), NfsStat::Ok);
}

// RFC 8881 10.4.6
#[test]
fn who_cannot_be_called_loses_a_delegation_with_its_lease() {
    let mut scene = DelegatedFile::new();
    scene.first.now = scene.world.now;
    std::mem::replace(&mut scene.first, scene.world.connect()).lose();
    let link = Args::Link(LinkArgs { newname: b"further" });
    let all = [
        Args::PutRootFh,
        lookup(EXPORT),
        lookup(b"file"),
        Args::SaveFh,
        Args::PutRootFh,
        lookup(EXPORT),
        link,
    ];
    let links = |scene: &mut DelegatedFile| scene.other.run(&mut scene.second, &all).status();
    assert_eq!(links(&mut scene), NfsStat::Delay);
    scene.pass(1000 * u64::from(LEASE_S) - 1);
    assert_eq!(links(&mut scene), NfsStat::Delay);
    scene.pass(500);
    assert_eq!(links(&mut scene), NfsStat::Ok);
}

// RFC 8881 10.4
#[test]
fn a_write_delegation_is_given_to_who_wants_it_and_recalled_before_another_client_looks() {
    let mut scene = DelegatedFile::new();
    assert_eq!(scene.give_back(), NfsStat::Ok);
    let looks = |scene: &mut DelegatedFile, name: &[u8]| {
        let wanted = nfs_wire::attr::Bitmap::of(&[nfs_wire::attr::AttrNum::Size.get()]);
        let look = Args::GetAttr(nfs_wire::op::getattr::Args { attr_request: wanted });
        scene.other.run(&mut scene.second, &[Args::PutRootFh, lookup(EXPORT), lookup(name), look]).status()
    };
    // A client that does not ask for a write delegation gets none.
    for (want, is_given) in [(open::ShareAccess::empty(), false), (open::ShareAccess::WANT_WRITE_DELEG, true)]
    {
        let access = open::ShareAccess::BOTH | want;
        let all = [Args::PutRootFh, lookup(EXPORT), open_it(access, b"made")];
        let (_, made) = scene.other.create(&mut scene.second, b"made");
        scene
            .other
            .run(&mut scene.second, &[Args::PutRootFh, lookup(EXPORT), lookup(b"made"), closing(made)])
            .ok();
        let answer = scene.holder.run(&mut scene.first, &[&all[..], &[Args::GetFh]].concat()).ok();
        let results = answer.results();
        let (Res::Open(Ok(opened)), Res::GetFh(Ok(at))) = (results[3], results[4]) else {
            panic!("{results:?}")
        };
        let at = at.object.0.to_vec();
        let given = match opened.delegation {
            open::Delegation::Write(write) => Some(write.stateid),
            _ => None,
        };
        assert_eq!(given.is_some(), is_given, "{:?}", opened.delegation);
        if let Some(given) = given {
            assert_eq!(looks(&mut scene, b"made"), NfsStat::Delay);
            assert_eq!(scene.call().stateid, given);
            let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: given });
            scene.holder.on(&mut scene.first, &at, &[writing(given, 0, b"kept back"), back]).ok();
        }
        assert_eq!(looks(&mut scene, b"made"), NfsStat::Ok);
        scene.holder.on(&mut scene.first, &at, &[closing(opened.stateid)]).ok();
        let gone = Args::Remove(nfs_wire::op::names::RemoveArgs { target: b"made" });
        scene.other.run(&mut scene.second, &[Args::PutRootFh, lookup(EXPORT), gone]).ok();
    }
}

/// A file with a write delegation of the holder, and another file beside it.
fn with_writer(scene: &mut DelegatedFile) -> (Vec<u8>, StateId) {
    assert_eq!(scene.give_back(), NfsStat::Ok);
    let (_, made) = scene.other.create(&mut scene.second, b"made");
    let close = [Args::PutRootFh, lookup(EXPORT), lookup(b"made"), closing(made)];
    scene.other.run(&mut scene.second, &close).ok();
    let access = open::ShareAccess::BOTH | open::ShareAccess::WANT_WRITE_DELEG;
    let all = [Args::PutRootFh, lookup(EXPORT), open_it(access, b"made"), Args::GetFh];
    let answer = scene.holder.run(&mut scene.first, &all).ok();
    let results = answer.results();
    let (Res::Open(Ok(opened)), Res::GetFh(Ok(at))) = (results[3], results[4]) else { panic!("{results:?}") };
    let open::Delegation::Write(given) = opened.delegation else { panic!("{:?}", opened.delegation) };
    (at.object.0.to_vec(), given.stateid)
}

// RFC 8881 10.4.3
#[test]
fn attributes_are_compared_when_who_writes_has_given_back_what_it_kept() {
    for (negates, wanted) in [(false, NfsStat::Ok), (true, NfsStat::Same)] {
        let mut scene = DelegatedFile::new();
        let (at, given) = with_writer(&mut scene);
        let compares = |scene: &mut DelegatedFile, attribute: Attr<'_>| {
            let mut room = Vec::new();
            let given = getattr::VerifyArgs { obj_attributes: Fattr::of(&[attribute], &mut room) };
            let operation = if negates { Args::NVerify(given) } else { Args::Verify(given) };
            let all = [Args::PutRootFh, lookup(EXPORT), lookup(b"made"), operation];
            scene.other.run(&mut scene.second, &all).status()
        };
        assert_eq!(compares(&mut scene, Attr::Type(FileType::Reg)), wanted, "what no writing changes");
        assert_eq!(compares(&mut scene, Attr::Size(9)), NfsStat::Delay);
        assert_eq!(scene.call().stateid, given);
        let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: given });
        scene.holder.on(&mut scene.first, &at, &[writing(given, 0, b"kept back"), back]).ok();
        assert_eq!(compares(&mut scene, Attr::Size(9)), wanted);
    }
}

// RFC 8881 10.4.3, 18.23.3
#[test]
fn a_listing_tells_no_size_that_a_writer_may_have_changed() {
    let list = |scene: &mut DelegatedFile, cookie, wanted: &[AttrNum]| {
        let numbers: Vec<u32> = wanted.iter().map(|wanted| wanted.get()).collect();
        let attr_request = Bitmap::of(&numbers);
        let list = readdir::Args { cookie, cookieverf: [0; 8], dircount: 4096, maxcount: 4096, attr_request };
        let answer =
            scene.other.run(&mut scene.second, &[Args::PutRootFh, lookup(EXPORT), Args::ReadDir(list)]);
        let Res::ReadDir(Ok(found)) = answer.last() else { return Err(answer.status()) };
        let of = |entry: readdir::ReaddirEntry<'_>| {
            let first = entry.attrs.iter().next().map(|attribute| match attribute {
                Ok(Attr::Size(size)) => Ok(size),
                Ok(Attr::RdattrError(why)) => Err(why),
                Ok(Attr::Type(_)) => Ok(0),
                other => panic!("{other:?}"),
            });
            (entry.name.to_vec(), entry.cookie, first)
        };
        Ok((found.entries.iter().map(of).collect::<Vec<_>>(), found.eof))
    };
    let mut scene = DelegatedFile::new();
    // The cookies of the first two entries would be those that the protocol reserves.
    for name in [&b"second"[..], b"third"] {
        let (made, open) = scene.other.create(&mut scene.second, name);
        scene.other.on(&mut scene.second, &made, &[closing(open)]).ok();
    }
    let (_, given) = with_writer(&mut scene);
    // A client that can continue without these attributes gets the other entries.
    let (mut entries, eof) = list(&mut scene, 0, &[AttrNum::RdattrError, AttrNum::Size]).unwrap();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    let shown: Vec<_> = entries.iter().map(|(name, _, first)| (&name[..], *first)).collect();
    let delayed = Some(Err(NfsStat::Delay));
    let wanted =
        [(&b"file"[..], Some(Ok(0))), (b"made", delayed), (b"second", Some(Ok(0))), (b"third", Some(Ok(0)))];
    assert_eq!((shown, eof), (wanted.to_vec(), true));
    assert_eq!(scene.call().stateid, given);
    // A client that cannot gets the entries up to there, and NFS4ERR_DELAY after that.
    let mut cookie = 0;
    while let Ok((entries, eof)) = list(&mut scene, cookie, &[AttrNum::Size]) {
        assert!(!eof && entries.iter().all(|(name, ..)| name != b"made"), "{entries:?}");
        cookie = entries.last().expect("a list that is not whole has something").1;
    }
    assert_eq!(list(&mut scene, cookie, &[AttrNum::Size]), Err(NfsStat::Delay));
    assert!(list(&mut scene, 0, &[AttrNum::Type]).is_ok(), "what no writing changes");
}

#[test]
fn what_is_not_given_back_in_time_is_taken_away_and_the_client_is_told() {
    let mut scene = DelegatedFile::new();
    assert_eq!(scene.write(), NfsStat::Delay);
    let heard = scene.call();
    scene.first.reply(&heard.answer(NfsStat::Ok, NfsStat::Ok));
    // The client renews its lease meanwhile.
    scene.pass(1000 * u64::from(LEASE_S) - 1);
    scene.holder.run(&mut scene.first, &[Args::PutRootFh]).ok();
    assert_eq!(scene.write(), NfsStat::Delay);
    scene.pass(1);
    assert_eq!(scene.write(), NfsStat::Ok);
    let read = scene.holder.on(&mut scene.first, &scene.handle, &[reading(scene.given, 0, 1)]);
    assert_eq!(read.status(), NfsStat::DelegRevoked);
    let flag = nfs_wire::op::sequence::StatusFlags::RECALLABLE_STATE_REVOKED;
    let told = |answer: &ReceivedCompound| match answer.results()[0] {
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
    let mut scene = DelegatedFile::new();
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
    let mut scene = DelegatedFile::new();
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
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, open) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[closing(open)]).ok();
    let access = open::ShareAccess::READ | open::ShareAccess::WANT_ANY_DELEG;
    let answer = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), open_it(access, b"file")]).ok();
    let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
    assert_eq!(opened.delegation, open::Delegation::NoneExt(open::WhyNone::Resource(false)));
}

// RFC 8881 10.4.2: Linux keeps new locks to itself under a READ delegation and loses one that is on its way
// when it goes back
#[test]
fn no_read_delegation_goes_to_a_client_that_writes_or_locks_the_file_itself() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = callable(&mut wire, b"client");
    let (_, writer) = client.create(&mut wire, b"file");
    let (handle, reader, given) = delegated(&mut client, &mut wire, b"file");
    assert_eq!(given, None, "it has the file open for writing");
    // The opens are of one owner, so both stateids are of one open.
    client.on(&mut wire, &handle, &[closing(StateId { seqid: 0, ..writer })]).ok();
    assert_eq!(reader.other, writer.other);
    let access = open::ShareAccess::READ;
    let reads = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), open_it(access, b"file")]).ok();
    let Res::Open(Ok(opened)) = reads.last() else { panic!("{reads:?}") };
    if let open::Delegation::Read(read) = opened.delegation {
        let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: read.stateid });
        client.on(&mut wire, &handle, &[back]).ok();
    }
    let lock_owner = StateOwner { clientid: 0, owner: Identity(b"locks") };
    let new =
        lock::OpenToLockOwner { open_seqid: 0, open_stateid: opened.stateid, lock_seqid: 0, lock_owner };
    let locker = lock::Locker::New(new);
    let asked = lock::Args { locktype: LockType::Read, reclaim: false, offset: 0, length: 10, locker };
    client.on(&mut wire, &handle, &[Args::Lock(asked)]).ok();
    assert_eq!(delegated(&mut client, &mut wire, b"file").2, None, "it holds a range");
    let (_, last, _) = delegated(&mut client, &mut wire, b"file");
    client.on(&mut wire, &handle, &[closing(last)]).ok();
    assert!(delegated(&mut client, &mut wire, b"file").2.is_some(), "it does neither now");
}

// RFC 8881 10.4: a delegation that nobody asked for must be worth the DELEGRETURN that it costs
#[test]
fn who_does_not_ask_is_given_a_read_delegation_of_a_file_that_it_opens_again() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let (mut client, mut other) = (callable(&mut wire, b"client"), callable(&mut wire, b"other"));
    let (handle, writer) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[closing(writer)]).ok();
    let mut opens = |client: &mut Client| {
        let all = [Args::PutRootFh, lookup(EXPORT), open_it(open::ShareAccess::READ, b"file")];
        let answer = client.run(&mut wire, &all).ok();
        let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
        let is_given = matches!(opened.delegation, open::Delegation::Read(_));
        assert!(is_given || opened.delegation == open::Delegation::None);
        client.on(&mut wire, &handle, &[closing(opened.stateid)]).ok();
        is_given
    };
    assert!(!opens(&mut client), "it may read it once and be done");
    assert!(!opens(&mut other), "nor has this one opened it before");
    assert!(opens(&mut client) && opens(&mut other));
}

// RFC 8881 8.5
#[test]
fn an_open_that_an_administrator_revokes_takes_the_clients_delegation_along() {
    let mut scene = DelegatedFile::new();
    let known = scene.world.server.all_states();
    let open = known.iter().find(|state| state.opened().is_some()).expect("the holder's open");
    let open = open.id();
    let revoked = scene.world.server.revoke(scene.holder.clientid, &open.other, scene.world.now);
    let revoked = revoked.expect("the open");
    assert_eq!((revoked.opens, revoked.lock_owners, revoked.delegations), (1, 0, 1));
    assert_eq!(scene.write(), NfsStat::Ok, "nobody is asked to give way");
    assert!(scene.first.called().is_empty());
    for stateid in [open, scene.given] {
        let read = scene.holder.on(&mut scene.first, &scene.handle, &[reading(stateid, 0, 1)]);
        assert_eq!(read.status(), NfsStat::AdminRevoked);
        let free = Args::FreeStateId(stateid::FreeArgs { stateid });
        scene.holder.run(&mut scene.first, &[free]).ok();
    }
    assert_eq!(scene.give_back(), NfsStat::BadStateId);
    assert_eq!(scene.world.server.state_count(), 1, "the other client's open");
}
