//! Requests that no decent client sends. Each gets the status of the RFC, and changes nothing.

use std::ops::ControlFlow;

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::compound::{CallWriter, Reply, Target};
use nfs_wire::op::{Args, Res, close, create, create_session, getattr, lock, names, open, sequence, setattr};
use nfs_wire::rpc::record::MARK;
use nfs_wire::rpc::{self, Accepted, AuthStat, Credential, Message, Rejected};
use nfs_wire::types::{Identity, LockType, SetTime, SpecData, StateId, StateOwner};
use nfs_wire::xdr::put_opaque;
use testkit::nfs::*;
use volume::{OpenHow, Patience, Volume};
use wire::Frame;

/// The content of the file.
const CONTENT: &[u8] = b"as it was";
/// Bytes of a call before its credential.
const CALL_HEAD: usize = 24;

/// A server with a file that is open.
struct VictimServer {
    world: NfsTestServer,
    wire: Wire,
    client: Client,
    file: Vec<u8>,
    stateid: StateId,
}

impl VictimServer {
    fn new() -> VictimServer {
        let world = NfsTestServer::new();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let (file, stateid) = client.create(&mut wire, b"file");
        client.on(&mut wire, &file, &[writing(stateid, 0, CONTENT)]).ok();
        VictimServer { world, wire, client, file, stateid }
    }

    /// Everything that a request could have changed: names, content, attributes, opens.
    fn seen(&self) -> String {
        let root = self.world.memory.root().expect("a root");
        let mut all = format!("{} states\n", self.world.server.state_count());
        let mut names = Vec::new();
        root.entries(0, &mut |entry| {
            names.push(entry.name);
            ControlFlow::Continue(())
        })
        .expect("a list");
        for name in names {
            let node = root.lookup(&name, OpenHow::Read).expect("a node");
            let stat = node.stat().expect("a stat");
            let mut content = Vec::new();
            let _ = node.read(0, 1 << 20, &mut content, Patience::Block);
            all += &format!(
                "{name:?} {} {:o} {} {:?} {content:?}\n",
                stat.size, stat.mode, stat.links, stat.modified
            );
        }
        all
    }

    /// Runs operations on the file. The last one must get this status.
    #[track_caller]
    fn refuses(&mut self, operations: &[Args<'_>], status: NfsStat) {
        let before = self.seen();
        let answer = self.client.on(&mut self.wire, &self.file.clone(), operations);
        assert_eq!(answer.status(), status, "{:?}", answer.results());
        assert_eq!(self.seen(), before, "something has changed");
    }

    /// The same in the export's root.
    #[track_caller]
    fn refuses_in_root(&mut self, operations: &[Args<'_>], status: NfsStat) {
        let before = self.seen();
        let all = [&[Args::PutRootFh, lookup(EXPORT)][..], operations].concat();
        let answer = self.client.run(&mut self.wire, &all);
        assert_eq!(answer.status(), status, "{operations:?}: {:?}", answer.results());
        assert_eq!(self.seen(), before, "{operations:?}: something has changed");
    }
}

/// A call without its record mark.
fn message(minor: u32, operations: &[Args<'_>]) -> Vec<u8> {
    let mut writer = CallWriter::begin(Frame::default(), Target::Server, 9, &Credential::None, b"", minor);
    operations.iter().for_each(|operation| {
        writer.push(operation);
    });
    writer.finish().bytes()[MARK..].to_vec()
}

/// The same with an AUTH_SYS credential of this many groups.
fn message_of_groups(count: u32, operations: &[Args<'_>]) -> Vec<u8> {
    let plain = message(1, operations);
    let mut body = vec![0; 4];
    put_opaque(b"host", &mut body);
    for word in [0, 0, count].into_iter().chain(1000..1000 + count) {
        body.extend_from_slice(&u32::to_be_bytes(word));
    }
    let mut out = plain[..CALL_HEAD].to_vec();
    out.extend_from_slice(&1_u32.to_be_bytes());
    put_opaque(&body, &mut out);
    // After the empty credential.
    out.extend_from_slice(&plain[CALL_HEAD + 8..]);
    out
}

/// The status of a COMPOUND's reply and its number of results. None for a reply of RPC alone.
fn compound_of(answer: &[u8]) -> Option<(NfsStat, usize)> {
    match Message::parse(answer) {
        Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) => {
            let reply = Reply::parse(body).expect("COMPOUND4res");
            Some((reply.status, reply.results().count()))
        }
        _ => None,
    }
}

// RFC 8881 2.6.2, 15.1.1.1; RFC 5531 9
#[test]
fn a_message_that_is_cut_does_nothing_wherever_it_is_cut() {
    let mut scene = VictimServer::new();
    let handle = scene.file.clone();
    let before = scene.seen();
    for len in 0.. {
        let sequence = scene.client.sequence(0, false);
        let whole = message(1, &[sequence, put(&handle), writing(scene.stateid, 0, b"something else")]);
        if len == whole.len() {
            break;
        }
        let mut wire = scene.world.connect();
        let answers = wire.deliver(&whole[..len]);
        let answered = answers.first().map(|answer| compound_of(answer));
        // Not even a call; invalid arguments; an invalid operation, in the slot if SEQUENCE came before it.
        let is_in_slot = match answered {
            None => !wire.is_closed(),
            Some(None) => false,
            Some(Some((status, results))) => {
                assert_eq!(status, NfsStat::BadXdr, "{len}");
                results > 1
            }
        };
        assert!(answered.is_some() || !is_in_slot, "{len}: neither answered nor closed");
        if !is_in_slot {
            scene.client.sequences[0] -= 1;
        }
        wire.lose();
        assert_eq!(scene.seen(), before, "{len}");
    }
}

// RFC 8881 2.10.6.4, 18.36.3
#[test]
fn what_is_longer_than_the_session_allows_is_refused_as_a_whole() {
    let mut scene = VictimServer::new();
    let channel = create_session::ChannelAttrs {
        maxrequestsize: 1024,
        maxresponsesize: 1024,
        maxresponsesize_cached: 512,
        maxoperations: 4,
        ..CHANNEL
    };
    let introduced = scene.wire.call(1, &[introduce(b"client")]).ok();
    let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
    let begun = scene.wire.call(1, &[begin_session(known.clientid, known.sequenceid, channel)]).ok();
    let Res::CreateSession(Ok(session)) = begun.last() else { panic!("{begun:?}") };
    assert_eq!(session.fore_chan_attrs.maxoperations, 4);
    scene.client.session = session.sessionid;
    scene.client.sequences = vec![0; 16];
    let (before, file) = (scene.seen(), scene.file.clone());
    let mut run = |operations: &[Args<'_>], cached| {
        let all = [&[scene.client.sequence(0, cached), put(&file)][..], operations].concat();
        let answer = scene.wire.call(1, &all);
        // A request that SEQUENCE itself refused has left the slot unchanged.
        if answer.results().len() == 1 {
            scene.client.sequences[0] -= 1;
        }
        answer.status()
    };
    let stateid = scene.stateid;
    assert_eq!(run(&[writing(stateid, 0, &[7; 1024])], false), NfsStat::ReqTooBig);
    assert_eq!(run(&[Args::GetFh, Args::GetFh, Args::GetFh], false), NfsStat::TooManyOps);
    assert_eq!(run(&[reading(stateid, 0, 8)], false), NfsStat::Ok);
    let all = Args::GetAttr(getattr::Args { attr_request: Bitmap::from_words([u32::MAX; 3]) });
    let status = run(&[all, all], true);
    assert!(matches!(status, NfsStat::RepTooBigToCache | NfsStat::Inval), "{status:?}");
    assert_eq!(run(&[Args::GetFh], false), NfsStat::Ok, "the slot goes on");
    assert_eq!(scene.seen(), before);
}

// RFC 8881 16.2.3
#[test]
fn more_operations_than_bytes_can_hold_end_where_the_bytes_do() {
    let mut scene = VictimServer::new();
    let before = scene.seen();
    for count in [3, 1000, u32::MAX] {
        let sequence = scene.client.sequence(0, false);
        let mut whole = message(1, &[sequence, Args::PutRootFh]);
        let Some(at) = whole.windows(8).position(|word| word == [0, 0, 0, 1, 0, 0, 0, 2]) else {
            panic!("count")
        };
        whole[at + 4..at + 8].copy_from_slice(&count.to_be_bytes());
        let answer = scene.wire.send(&whole);
        let (status, _) = compound_of(&answer).expect("a COMPOUND");
        let wanted = if count == 3 { NfsStat::BadXdr } else { NfsStat::TooManyOps };
        assert_eq!(status, wanted, "{count}");
        if wanted == NfsStat::TooManyOps {
            scene.client.sequences[0] -= 1;
        }
    }
    assert_eq!(scene.seen(), before);
}

// RFC 8881 16.2.3, 2.7: MINOR_VERS_MISMATCH with no results, whatever the operations are
#[test]
fn other_minor_versions_are_refused_without_a_look_at_their_operations() {
    let mut scene = VictimServer::new();
    let before = scene.seen();
    for minor in [0, 3, 4, u32::MAX] {
        for operations in
            [&[introduce(b"other")][..], &[Args::PutRootFh, lookup(EXPORT)], &[Args::Illegal(77)], &[]]
        {
            let answer = scene.wire.send(&message(minor, operations));
            assert_eq!(compound_of(&answer), Some((NfsStat::MinorVersMismatch, 0)), "{minor}");
        }
        let mut garbage = message(minor, &[Args::PutRootFh]);
        let end = garbage.len();
        garbage[end - 4..].fill(0xff);
        assert_eq!(compound_of(&scene.wire.send(&garbage)), Some((NfsStat::MinorVersMismatch, 0)));
    }
    assert_eq!(scene.seen(), before);
}

// RFC 5531 9
#[test]
fn other_programs_versions_and_procedures_are_told_what_there_is() {
    let scene = VictimServer::new();
    let ask = |at: usize, value: u32| {
        let mut wire = scene.world.connect();
        let mut whole = message(1, &[Args::PutRootFh]);
        whole[at..at + 4].copy_from_slice(&value.to_be_bytes());
        let answer = wire.send(&whole);
        match Message::parse(&answer) {
            Ok(Message::Reply(rpc::RpcReply { outcome, .. })) => format!("{outcome:?}"),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(8, 3), format!("{:?}", Err::<(), _>(Rejected::RpcMismatch { low: 2, high: 2 })));
    assert_eq!(ask(12, 100_005), "Ok(ProgUnavail)");
    assert_eq!(ask(16, 3), "Ok(ProgMismatch { low: 4, high: 4 })");
    assert_eq!(ask(20, 2), "Ok(ProcUnavail)");
}

// RFC 5531 appendix A: at most 16 groups
#[test]
fn a_credential_of_64_groups_is_rejected_before_anything_is_done() {
    let mut scene = VictimServer::new();
    let before = scene.seen();
    for (count, is_taken) in [(16, true), (17, false), (64, false)] {
        let sequence = scene.client.sequence(0, false);
        let handle = scene.file.clone();
        let mut wire = scene.world.connect();
        let answer = wire.send(&message_of_groups(count, &[sequence, put(&handle), Args::GetFh]));
        let Ok(Message::Reply(reply)) = Message::parse(&answer) else { panic!("{answer:?}") };
        match reply.outcome {
            Ok(Accepted::Success(_)) => assert!(is_taken, "{count}"),
            outcome => {
                assert_eq!(outcome, Err(Rejected::AuthError(AuthStat::BadCred)), "{count}");
                scene.client.sequences[0] -= 1;
            }
        }
    }
    assert_eq!(scene.seen(), before);
}

// RFC 8881 15.1.2.1, 15.1.2.7
#[test]
fn a_forged_handle_is_bad_and_one_of_what_is_gone_is_stale() {
    let mut scene = VictimServer::new();
    let good = scene.file.clone();
    let before = scene.seen();
    let mut wire = scene.world.connect();
    for at in 0..good.len() {
        let mut forged = good.clone();
        forged[at] ^= 0x10;
        let answer = scene.client.on(&mut wire, &forged, &[writing(scene.stateid, 0, b"forged")]);
        assert_eq!(answer.status(), NfsStat::BadHandle, "{at}");
    }
    for other in [&b""[..], &good[..good.len() - 1], &[good.as_slice(), b"x"].concat(), &[1; 128]] {
        assert_eq!(scene.client.on(&mut wire, other, &[]).status(), NfsStat::BadHandle);
    }
    assert_eq!(scene.client.on(&mut wire, &[1; 129], &[]).status(), NfsStat::BadXdr);
    assert_eq!(scene.seen(), before);
    scene.client.on(&mut wire, &good, &[closing(scene.stateid)]).ok();
    let remove = Args::Remove(names::RemoveArgs { target: b"file" });
    scene.client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), remove]).ok();
    let mut third = scene.world.connect();
    assert_eq!(scene.client.on(&mut third, &good, &[Args::GetFh]).status(), NfsStat::Stale);
    // A later file of the same name has another handle.
    scene.client.create(&mut wire, b"file");
    assert_eq!(scene.client.on(&mut third, &good, &[Args::GetFh]).status(), NfsStat::Stale);
    // An export that is no longer served.
    let root = scene.client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), Args::GetFh]).ok();
    let Res::GetFh(Ok(root)) = root.last() else { panic!("{root:?}") };
    scene.world.server.set_exports([]);
    assert_eq!(scene.client.on(&mut third, root.object.0, &[Args::GetFh]).status(), NfsStat::Stale);
}

// RFC 8881 8.2.2 to 8.2.4
#[test]
fn a_stateid_is_taken_from_its_client_for_its_file_and_as_it_is_now_alone() {
    let mut scene = VictimServer::new();
    let mut other_wire = scene.world.connect();
    let mut stranger = Client::new(&mut other_wire, b"stranger", 1);
    let (other_file, other) = stranger.create(&mut other_wire, b"theirs");
    let uses = |stateid: StateId| {
        let owner = StateOwner { clientid: 0, owner: Identity(b"lock") };
        let new =
            lock::OpenToLockOwner { open_seqid: 0, open_stateid: stateid, lock_seqid: 0, lock_owner: owner };
        let lock = lock::Args {
            locktype: LockType::Write,
            reclaim: false,
            offset: 0,
            length: 1,
            locker: lock::Locker::New(new),
        };
        [writing(stateid, 0, b"x"), reading(stateid, 0, 1), closing(stateid), Args::Lock(lock)]
    };
    let own = scene.stateid;
    let changed = |at: usize| {
        let mut stateid = own;
        stateid.other[at] ^= 1;
        stateid
    };
    let newer = StateId { seqid: own.seqid + 1, ..own };
    for wrong in (0..12).map(changed).chain([other, newer]) {
        for operation in uses(wrong) {
            scene.refuses(&[operation], NfsStat::BadStateId);
        }
    }
    // A client's own stateid on another file.
    let before = scene.seen();
    let answer = scene.client.on(&mut scene.wire, &other_file, &[writing(own, 0, b"x")]);
    assert_eq!((answer.status(), scene.seen() == before), (NfsStat::BadStateId, true));
    // One that has moved on: the same owner opens the file again.
    let again = open::OpenHow::NoCreate;
    let opened =
        scene.client.run(&mut scene.wire, &[Args::PutRootFh, lookup(EXPORT), opening(again, b"file")]).ok();
    let Res::Open(Ok(now)) = opened.last() else { panic!("{opened:?}") };
    assert_eq!((now.stateid.other, now.stateid.seqid), (own.other, own.seqid + 1));
    for operation in uses(own) {
        scene.refuses(&[operation], NfsStat::OldStateId);
    }
    // One that is closed.
    let file = scene.file.clone();
    scene
        .client
        .on(&mut scene.wire, &file, &[Args::Close(close::Args { seqid: 0, open_stateid: now.stateid })])
        .ok();
    for operation in uses(now.stateid) {
        scene.refuses(&[operation], NfsStat::BadStateId);
    }
}

// RFC 8881 18.46.3, 2.10.6.1
#[test]
fn slots_and_sessions_that_are_not_there_and_numbers_out_of_order() {
    let mut scene = VictimServer::new();
    let before = scene.seen();
    let good = sequence::Args {
        sessionid: scene.client.session,
        sequenceid: scene.client.sequences[0] + 1,
        slotid: 0,
        highest_slotid: 0,
        cachethis: false,
    };
    let mut unknown = good;
    unknown.sessionid[3] ^= 1;
    let slots = scene.client.sequences.len() as u32;
    let remove = Args::Remove(names::RemoveArgs { target: b"file" });
    for (wrong, status) in [
        (unknown, NfsStat::BadSession),
        (sequence::Args { slotid: slots, highest_slotid: slots, ..good }, NfsStat::BadSlot),
        (sequence::Args { slotid: u32::MAX, highest_slotid: u32::MAX, ..good }, NfsStat::BadSlot),
        (sequence::Args { highest_slotid: slots, ..good }, NfsStat::BadHighSlot),
        (sequence::Args { slotid: 1, ..good }, NfsStat::BadHighSlot),
        (sequence::Args { sequenceid: good.sequenceid + 1, ..good }, NfsStat::SeqMisordered),
        (sequence::Args { sequenceid: good.sequenceid - 2, ..good }, NfsStat::SeqMisordered),
        (sequence::Args { sequenceid: good.sequenceid - 1, ..good }, NfsStat::SeqFalseRetry),
    ] {
        let answer = scene.wire.call(1, &[Args::Sequence(wrong), Args::PutRootFh, lookup(EXPORT), remove]);
        assert_eq!(answer.status(), status, "{wrong:?}");
        assert_eq!(scene.seen(), before);
    }
    scene.wire.call(1, &[Args::Sequence(good), Args::PutRootFh, Args::GetFh]).ok();
    scene.client.sequences[0] += 1;
    // A second SEQUENCE, and operations that need one without it.
    scene.refuses(&[Args::Sequence(good)], NfsStat::SequencePos);
    assert_eq!(
        scene.wire.call(1, &[Args::PutRootFh, lookup(EXPORT), remove]).status(),
        NfsStat::OpNotInSession
    );
    assert_eq!(scene.wire.call(1, &[introduce(b"x"), Args::PutRootFh]).status(), NfsStat::NotOnlyOp);
}

// RFC 8881 5.8, 15.1.15.1
#[test]
fn attributes_that_are_unknown_are_left_out_of_an_answer_and_refused_in_a_change() {
    let mut scene = VictimServer::new();
    let before = scene.seen();
    let unknown = Bitmap::of(&[AttrNum::Size.get(), 90, 95]);
    let get = Args::GetAttr(getattr::Args { attr_request: unknown });
    let file = scene.file.clone();
    let answer = scene.client.on(&mut scene.wire, &file, &[get]).ok();
    let Res::GetAttr(Ok(found)) = answer.last() else { panic!("{answer:?}") };
    let found: Vec<_> = found.obj_attributes.iter().map(|attr| attr.expect("an attribute")).collect();
    assert_eq!(found, [Attr::Size(CONTENT.len() as u64)]);
    let stateid = StateId::ANONYMOUS;
    let set = |obj_attributes| Args::SetAttr(setattr::Args { stateid, obj_attributes });
    let value = [0; 8];
    for (numbers, values, status) in [
        (&[90][..], &value[..], NfsStat::AttrNotSupp),
        (&[AttrNum::Fileid.get()], &value, NfsStat::Inval),
        (&[AttrNum::Mode.get()], &value[..2], NfsStat::BadXdr),
        (&[AttrNum::Mode.get()], &value, NfsStat::BadXdr),
    ] {
        let attributes = Fattr { mask: Bitmap::of(numbers), values };
        scene.refuses(&[set(attributes)], status);
        let make = open::OpenHow::Create(open::CreateHow::Guarded(attributes));
        scene.refuses_in_root(&[opening(make, b"new")], status);
        let make =
            create::Args { objtype: create::CreateType::Dir, objname: b"new", createattrs: attributes };
        scene.refuses_in_root(&[Args::Create(make)], status);
    }
    // Attributes that can only be set cannot be read.
    let get = Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[AttrNum::TimeModifySet.get()]) });
    scene.refuses(&[get], NfsStat::Inval);
    let mut room = Vec::new();
    let far = Fattr::of(&[Attr::Size(u64::MAX)], &mut room);
    scene.refuses(&[set(far)], NfsStat::FBig);
    let mut room = Vec::new();
    let never = nfs_wire::types::NfsTime { seconds: 0, nseconds: 1_000_000_000 };
    let never = Fattr::of(&[Attr::TimeModifySet(SetTime::Client(never))], &mut room);
    scene.refuses(&[set(never)], NfsStat::Inval);
    assert_eq!(scene.seen(), before);
}

// RFC 8881 14.5, 1.7
#[test]
fn names_that_are_none_are_refused_by_every_operation() {
    let mut scene = VictimServer::new();
    let long = [b'x'; 256];
    for (name, status) in [
        (&b""[..], NfsStat::Inval),
        (b"a/b", NfsStat::BadChar),
        (b"/", NfsStat::BadChar),
        (b"a\0b", NfsStat::BadChar),
        (b".", NfsStat::BadName),
        (b"..", NfsStat::BadName),
        (&long, NfsStat::NameTooLong),
    ] {
        let make = open::OpenHow::Create(open::CreateHow::Unchecked(Fattr::default()));
        let of = |objtype| {
            let createattrs = Fattr::default();
            Args::Create(create::Args { objtype, objname: name, createattrs })
        };
        let device = SpecData { specdata1: 1, specdata2: 3 };
        for operation in [
            lookup(name),
            opening(open::OpenHow::NoCreate, name),
            opening(make, name),
            of(create::CreateType::Dir),
            of(create::CreateType::Fifo),
            of(create::CreateType::Chr(device)),
            Args::Remove(names::RemoveArgs { target: name }),
        ] {
            scene.refuses_in_root(&[operation], status);
        }
        for (oldname, newname) in [(name, &b"new"[..]), (b"file", name)] {
            let rename = Args::Rename(names::RenameArgs { oldname, newname });
            scene.refuses_in_root(&[Args::SaveFh, rename], status);
        }
        let (link, file) = (Args::Link(names::LinkArgs { newname: name }), scene.file.clone());
        scene.refuses_in_root(&[put(&file), Args::SaveFh, Args::PutRootFh, lookup(EXPORT), link], status);
    }
}

// After a cut, the connection is opened again and continues with a WRITE of a session that is bound to other
// connections, without BIND_CONN_TO_SESSION.
#[test]
fn a_long_message_is_taken_only_of_a_session_that_is_there() {
    const SHORT: usize = 128 * 1024;
    let mut scene = VictimServer::new();
    let data = vec![7; 1 << 20];
    let first = scene.client.sequence(0, false);
    let operations = [first, put(&scene.file), writing(scene.stateid, 0, &data)];
    let mut fresh = scene.world.connect();
    let long = fresh.written(1, &operations);
    let head = &long[..wire::limits::HEAD];
    assert_eq!(fresh.takes(head), (SHORT, true));
    // Also for a session that is gone, so that its client learns of that. No other long message is accepted.
    let mut strange = long.clone();
    let at = long.windows(16).position(|bytes| bytes == scene.client.session).expect("its session");
    strange[at] ^= 1;
    let without = fresh.written(1, &operations[1..]);
    let reply = [&long[..4], &1_u32.to_be_bytes(), &long[8..]].concat();
    assert_eq!(fresh.takes(&strange[..4096]), (SHORT, true));
    for head in [&without[..4096], &reply[..4096], &[0; 4096], &[0xff; 4096], &[]] {
        assert_eq!(fresh.takes(head), (SHORT, false));
    }
    // The connection carries the session from then on.
    fresh.send(&long);
    assert!(fresh.takes(&[]).0 > 1 << 20);
    assert!(scene.wire.takes(&[]).0 > 1 << 20);
    // Until the session has ended.
    let end = nfs_wire::op::destroy::SessionArgs { sessionid: scene.client.session };
    scene.wire.call(1, &[Args::DestroySession(end)]).ok();
    assert_eq!((fresh.takes(head), scene.wire.takes(head)), ((SHORT, true), (SHORT, true)));
    let answer = fresh.send(&long);
    assert!(!answer.is_empty() && !fresh.is_closed(), "it is told NFS4ERR_BADSESSION");
}
