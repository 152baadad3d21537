//! Times that a client keeps under its write delegation (RFC 9754): their holder, the queries to it, and the
//! values that are accepted.

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::callback;
use nfs_wire::op::open::{self, ShareAccess};
use nfs_wire::op::{Args, Res, bind_conn_to_session, delegation, getattr, setattr};
use nfs_wire::rpc::{self, Message};
use nfs_wire::types::*;
use nfs_wire::xdr::Encode;
use testkit::nfs::*;

const WANTS: ShareAccess =
    ShareAccess::BOTH.union(ShareAccess::WANT_WRITE_DELEG).union(ShareAccess::WANT_DELEG_TIMESTAMPS);
const MINOR: u32 = 2;

/// The attributes that the tests compare.
const LOOKED_AT: [AttrNum; 4] = [AttrNum::Change, AttrNum::Size, AttrNum::TimeAccess, AttrNum::TimeModify];

/// The attributes of the file as a client sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ObservedAttributes {
    change: u64,
    size: u64,
    accessed: NfsTime,
    modified: NfsTime,
}

fn seen(result: Res<'_>) -> ObservedAttributes {
    let Res::GetAttr(Ok(given)) = result else { panic!("{result:?}") };
    let all: Vec<_> = given.obj_attributes.iter().map(|one| one.expect("an attribute")).collect();
    match all[..] {
        [Attr::Change(change), Attr::Size(size), Attr::TimeAccess(accessed), Attr::TimeModify(modified)] => {
            ObservedAttributes { change, size, accessed, modified }
        }
        _ => panic!("{all:?}"),
    }
}

fn looking() -> Args<'static> {
    Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&LOOKED_AT.map(AttrNum::get)) })
}

/// A client with a delegation on one connection, and another client on the other.
struct TimesHolder {
    world: NfsTestServer,
    first: Wire,
    second: Wire,
    holder: Client,
    other: Client,
    handle: Vec<u8>,
    opened: StateId,
    given: open::Delegation<'static>,
}

fn stateid_of(given: &open::Delegation<'_>) -> StateId {
    match given {
        open::Delegation::Write(write) | open::Delegation::WriteAttrs(write) => write.stateid,
        open::Delegation::Read(read) | open::Delegation::ReadAttrs(read) => read.stateid,
        other => panic!("{other:?}"),
    }
}

impl TimesHolder {
    /// The holder has opened its file with these requests for delegations.
    fn wanting(share_access: ShareAccess) -> TimesHolder {
        let world = NfsTestServer::new();
        let (mut first, mut second) = (world.connect(), world.connect());
        let mut holder = Client::new(&mut first, b"holder", MINOR);
        let bind = bind_conn_to_session::Args {
            sessid: holder.session,
            dir: bind_conn_to_session::FromClient::BackOrBoth,
            use_conn_in_rdma_mode: false,
        };
        first.call(MINOR, &[Args::BindConnToSession(bind)]).ok();
        let other = Client::new(&mut second, b"other", MINOR);
        let how = open::OpenHow::Create(open::CreateHow::Guarded(Fattr::default()));
        let Args::Open(asked) = opening(how, b"file") else { unreachable!() };
        let make = Args::Open(open::Args { share_access, ..asked });
        let made = holder.run(&mut first, &[Args::PutRootFh, lookup(EXPORT), make, Args::GetFh]).ok();
        let results = made.results();
        let (Res::Open(Ok(answer)), Res::GetFh(Ok(handle))) = (results[3], results[4]) else {
            panic!("{results:?}")
        };
        let given = match answer.delegation {
            open::Delegation::WriteAttrs(write) => {
                open::Delegation::WriteAttrs(open::WriteDelegation { permissions: NOBODY, ..write })
            }
            open::Delegation::Write(write) => {
                open::Delegation::Write(open::WriteDelegation { permissions: NOBODY, ..write })
            }
            open::Delegation::Read(read) => {
                open::Delegation::Read(open::ReadDelegation { permissions: NOBODY, ..read })
            }
            other => panic!("{other:?}"),
        };
        let (handle, opened) = (handle.object.0.to_vec(), answer.stateid);
        TimesHolder { world, first, second, holder, other, handle, opened, given }
    }

    fn new() -> TimesHolder {
        TimesHolder::wanting(WANTS)
    }

    /// Lets time pass, as the server's own clock does.
    fn pass(&mut self, ms: u64) {
        let now = self.world.now.plus(std::time::Duration::from_millis(ms));
        (self.world.now, self.first.now, self.second.now) = (now, now, now);
        self.world.engine.tick(now);
        self.world.server.tick(now);
    }

    /// The present.
    fn now(&self) -> NfsTime {
        let ns = self.world.now.wall_ns;
        NfsTime { seconds: ns / 1_000_000_000, nseconds: (ns % 1_000_000_000) as u32 }
    }

    /// The attributes as the holder sees them. No client is queried for that.
    fn own(&mut self) -> ObservedAttributes {
        let handle = self.handle.clone();
        seen(self.holder.on(&mut self.first, &handle, &[looking()]).ok().last())
    }

    /// The other client sends GETATTR. The server does not reply yet.
    fn look(&mut self) {
        let all = [self.other.sequence(0, false), put(&self.handle), looking()];
        self.second.begin(MINOR, &all);
        assert_eq!(self.second.work().len(), 0, "it waits for the holder");
    }

    /// The reply by now.
    fn answer(&mut self) -> ReceivedCompound {
        let mut answers = self.second.called();
        assert_eq!(answers.len(), 1, "one answer");
        let message = answers.remove(0);
        match Message::parse(&message) {
            Ok(Message::Reply(rpc::RpcReply { outcome: Ok(rpc::Accepted::Success(body)), .. })) => {
                ReceivedCompound(body.to_vec())
            }
            other => panic!("{other:?}"),
        }
    }

    /// The only callback to the holder.
    fn call(&mut self) -> Heard {
        let calls = self.first.called();
        assert_eq!(calls.len(), 1);
        Heard::of(&calls[0])
    }

    /// The attributes that the other client sees while the holder reports these.
    fn told(&mut self, change: u64, size: u64, accessed: NfsTime, modified: NfsTime) -> ObservedAttributes {
        self.look();
        let heard = self.call();
        assert!(heard.asks, "CB_GETATTR");
        let reply = heard.tell(&[
            Attr::Change(change),
            Attr::Size(size),
            Attr::TimeDelegAccess(accessed),
            Attr::TimeDelegModify(modified),
        ]);
        self.first.reply(&reply);
        seen(self.answer().ok().last())
    }

    /// The holder sets these times, under a stateid.
    fn sets(&mut self, stateid: StateId, attributes: &[Attr<'_>]) -> NfsStat {
        let (mut room, handle) = (Vec::new(), self.handle.clone());
        let obj_attributes = Fattr::of(attributes, &mut room);
        let set = Args::SetAttr(setattr::Args { stateid, obj_attributes });
        self.holder.on(&mut self.first, &handle, &[set]).status()
    }

    fn give_back(&mut self) -> NfsStat {
        let deleg_stateid = stateid_of(&self.given);
        let (back, handle) =
            (Args::DelegReturn(delegation::ReturnArgs { deleg_stateid }), self.handle.clone());
        self.holder.on(&mut self.first, &handle, &[back]).status()
    }
}

const NOBODY: nfs_wire::attr::Ace<'static> = nfs_wire::attr::Ace {
    ace_type: nfs_wire::attr::AceType::Denied,
    flag: nfs_wire::attr::AceFlags::empty(),
    access_mask: nfs_wire::attr::AceMask::empty(),
    who: b"EVERYONE@",
};

/// A callback as the holder receives it.
struct Heard {
    xid: u32,
    session: SessionId,
    slot: u32,
    sequence: u32,
    /// True for CB_GETATTR, false for CB_RECALL.
    asks: bool,
}

impl Heard {
    fn of(message: &[u8]) -> Heard {
        let Ok(Message::Call(Ok(call))) = Message::parse(message) else { panic!("no call") };
        let compound = callback::Call::parse(call.body).expect("CB_COMPOUND4args");
        let all: Vec<_> = compound.operations().map(|one| one.expect("an operation")).collect();
        let (sequence, asks) = match all[..] {
            [callback::Args::Sequence(sequence), callback::Args::Recall(_)] => (sequence, false),
            [callback::Args::Sequence(sequence), callback::Args::GetAttr(asked)] => {
                let wanted = [3, 4, 84, 85];
                assert_eq!(asked.attr_request, Bitmap::of(&wanted));
                (sequence, true)
            }
            _ => panic!("{all:?}"),
        };
        let (session, slot) = (sequence.sessionid, sequence.slotid);
        Heard { xid: call.xid, session, slot, sequence: sequence.sequenceid, asks }
    }

    /// The reply up to the status of the callback's operation.
    fn begun(&self, status: NfsStat) -> Vec<u8> {
        let mut body = Vec::new();
        [status.get(), 0, 2, 11, 0].iter().for_each(|word: &u32| word.encode(&mut body));
        body.extend_from_slice(&self.session);
        [self.sequence, self.slot, self.slot, self.slot].iter().for_each(|word| word.encode(&mut body));
        [if self.asks { 3 } else { 4 }, status.get()].iter().for_each(|word: &u32| word.encode(&mut body));
        body
    }

    fn finished(&self, body: &[u8]) -> Vec<u8> {
        let mut reply = Vec::new();
        rpc::RpcReply::accepted(self.xid, rpc::Accepted::Success(body)).write(&mut reply);
        reply
    }

    fn tell(&self, attributes: &[Attr<'_>]) -> Vec<u8> {
        let (mut body, mut room) = (self.begun(NfsStat::Ok), Vec::new());
        Fattr::of(attributes, &mut room).encode(&mut body);
        self.finished(&body)
    }

    fn refuse(&self, status: NfsStat) -> Vec<u8> {
        self.finished(&self.begun(status))
    }
}

fn later(time: NfsTime, seconds: i64) -> NfsTime {
    NfsTime { seconds: time.seconds + seconds, ..time }
}

// RFC 9754 3.1, 5
#[test]
fn minor_version_two_says_that_times_can_be_kept_and_that_an_open_is_always_given() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    for minor in [1, 2] {
        let mut client = Client::new(&mut wire, &[b'0' + minor as u8], minor);
        let asked = Bitmap::of(&[AttrNum::SupportedAttrs.get(), AttrNum::OpenArguments.get()]);
        let ask = Args::GetAttr(getattr::Args { attr_request: asked });
        for request in [vec![Args::PutRootFh, ask], vec![Args::PutRootFh, lookup(EXPORT), ask]] {
            let answer = client.run(&mut wire, &request).ok();
            let Res::GetAttr(Ok(given)) = answer.last() else { panic!("{answer:?}") };
            let all: Vec<_> = given.obj_attributes.iter().map(|one| one.expect("an attribute")).collect();
            let kept = [84, 85, 86];
            match all[..] {
                [Attr::SupportedAttrs(known)] if minor == 1 => {
                    assert!(!kept.iter().any(|one| known.has(*one)))
                }
                [Attr::SupportedAttrs(known), Attr::OpenArguments(arguments)] if minor == 2 => {
                    assert!(kept.iter().all(|one| known.has(*one)));
                    assert!(
                        arguments.share_access_want.has(20),
                        "OPEN_ARGS_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS"
                    );
                    assert!(
                        !arguments.share_access_want.has(21),
                        "OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION"
                    );
                }
                _ => panic!("{minor}: {all:?}"),
            }
        }
        // Attributes that can only be reported to the server cannot be read, and cannot be set for a new
        // object.
        let ask = Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[85]) });
        let status = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), ask]).status();
        assert_eq!(status, if minor == 1 { NfsStat::Ok } else { NfsStat::Inval });
        let mut room = Vec::new();
        let times = Fattr::of(&[Attr::TimeDelegModify(NfsTime { seconds: 5, nseconds: 0 })], &mut room);
        let make = opening(open::OpenHow::Create(open::CreateHow::Guarded(times)), b"new");
        let status = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), make]).status();
        assert_eq!(status, if minor == 1 { NfsStat::AttrNotSupp } else { NfsStat::Inval });
        let Args::Open(asked) = opening(open::OpenHow::NoCreate, b"none") else { unreachable!() };
        let open = Args::Open(open::Args { share_access: WANTS, ..asked });
        let status = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), open]).status();
        assert_eq!(status, if minor == 1 { NfsStat::Inval } else { NfsStat::NoEnt });
    }
}

#[test]
fn times_go_with_a_delegation_to_write_whose_holder_wants_them_and_with_no_other() {
    let to_read = ShareAccess::READ | ShareAccess::WANT_READ_DELEG | ShareAccess::WANT_DELEG_TIMESTAMPS;
    assert!(matches!(TimesHolder::new().given, open::Delegation::WriteAttrs(_)));
    let plain = TimesHolder::wanting(WANTS - ShareAccess::WANT_DELEG_TIMESTAMPS);
    assert!(matches!(plain.given, open::Delegation::Write(_)));
    let mut reader = TimesHolder::wanting(to_read);
    assert!(matches!(reader.given, open::Delegation::Read(_)));
    for mut scene in [plain, TimesHolder::wanting(to_read)] {
        let given = stateid_of(&scene.given);
        let now = scene.now();
        assert_eq!(scene.sets(given, &[Attr::TimeDelegModify(now)]), NfsStat::BadStateId);
    }
    assert_eq!(reader.give_back(), NfsStat::Ok);
}

// RFC 8881 10.4.3, RFC 9754 5
#[test]
fn another_client_waits_while_the_holder_is_asked_and_sees_what_it_has() {
    let mut scene = TimesHolder::new();
    let first = scene.own();
    scene.pass(10_000);
    // The holder has no modified data, so nothing has changed.
    assert_eq!(scene.told(first.change, first.size, first.accessed, first.modified), first);
    let read = later(first.accessed, 3);
    let found = scene.told(first.change, first.size, read, first.modified);
    assert_eq!(found, ObservedAttributes { accessed: read, ..first });
    // Modified data that the server does not have yet.
    let written = later(first.modified, 4);
    let found = scene.told(first.change + 1, 5, first.accessed, written);
    assert_eq!((found.size, found.modified, found.accessed), (5, written, first.accessed));
    assert!(found.change > first.change, "{found:?}");
    let again = scene.told(first.change + 1, 7, first.accessed, later(written, 1));
    assert_eq!((again.size, again.modified), (7, later(written, 1)));
    assert!(again.change > found.change, "{again:?}");
    // The delegation still exists and was not recalled.
    assert!(scene.first.called().is_empty());
    assert_eq!(scene.give_back(), NfsStat::Ok);
    // Nobody is queried any more. The size is that of the written data.
    let handle = scene.handle.clone();
    let last = seen(scene.other.on(&mut scene.second, &handle, &[looking()]).ok().last());
    assert_eq!((last.size, last.modified), (0, later(written, 1)));
    assert!(last.change >= again.change);
}

#[test]
fn who_looks_at_nothing_that_is_kept_does_not_wait() {
    let mut scene = TimesHolder::new();
    let ask = Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[AttrNum::Mode.get()]) });
    let handle = scene.handle.clone();
    scene.other.on(&mut scene.second, &handle, &[ask]).ok();
    assert!(scene.first.called().is_empty());
}

// RFC 8881 10.4.3
#[test]
fn a_holder_that_does_not_answer_is_asked_to_give_the_delegation_back() {
    for silent in [false, true] {
        let mut scene = TimesHolder::new();
        scene.look();
        let heard = scene.call();
        assert!(heard.asks);
        if silent {
            scene.pass(1_999);
            assert!(scene.second.called().is_empty());
            scene.pass(1);
        } else {
            scene.first.reply(&heard.refuse(NfsStat::BadHandle));
        }
        let answer = scene.answer();
        assert_eq!(answer.status(), NfsStat::Delay);
        let recall = scene.call();
        assert!(!recall.asks, "CB_RECALL");
        // From now on nobody is queried: the other client gets NFS4ERR_DELAY until the delegation is
        // returned.
        let handle = scene.handle.clone();
        let again = scene.other.on(&mut scene.second, &handle, &[looking()]);
        assert_eq!(again.status(), NfsStat::Delay);
        assert_eq!(scene.give_back(), NfsStat::Ok);
        scene.other.on(&mut scene.second, &handle, &[looking()]).ok();
    }
}

#[test]
fn an_answer_that_is_none_counts_as_none() {
    let mut scene = TimesHolder::new();
    scene.look();
    let heard = scene.call();
    scene.first.reply(&heard.tell(&[Attr::Size(5)]));
    assert_eq!(scene.answer().status(), NfsStat::Delay);
}

#[test]
fn a_holder_whose_connection_is_lost_keeps_nobody_waiting() {
    let mut scene = TimesHolder::new();
    scene.look();
    assert!(scene.call().asks);
    std::mem::replace(&mut scene.first, scene.world.connect()).lose();
    assert_eq!(scene.answer().status(), NfsStat::Delay);
}

#[test]
fn who_waits_for_a_holder_and_loses_its_connection_may_ask_again() {
    let mut scene = TimesHolder::new();
    let first = scene.own();
    scene.look();
    let heard = scene.call();
    std::mem::replace(&mut scene.second, scene.world.connect()).lose();
    let tell = [Attr::Change(first.change), Attr::Size(0)];
    scene.first.reply(&heard.tell(&tell));
    // Its slot is free again.
    let handle = scene.handle.clone();
    let again = scene.other.on(&mut scene.second, &handle, &[looking()]);
    assert_eq!(again.status(), NfsStat::Delay, "the delegation was called back meanwhile");
}

// RFC 9754 5
#[test]
fn what_the_holder_says_of_the_times_lies_between_their_handing_over_and_now() {
    let mut scene = TimesHolder::new();
    let (given, opened) = (stateid_of(&scene.given), scene.opened);
    let first = scene.own();
    scene.pass(10_000);
    let (read, written) = (later(first.accessed, 2), later(first.modified, 3));
    let both = [Attr::TimeDelegAccess(read), Attr::TimeDelegModify(written)];
    for wrong in [opened, StateId::ANONYMOUS] {
        assert_eq!(scene.sets(wrong, &both), NfsStat::BadStateId);
    }
    assert_eq!(scene.own(), first);
    assert_eq!(scene.sets(given, &both), NfsStat::Ok);
    let found = scene.own();
    assert_eq!((found.accessed, found.modified), (read, written));
    assert!(found.change > first.change);
    // A time before the delegation is ignored, and a time in the future becomes the present.
    assert_eq!(scene.sets(given, &[Attr::TimeDelegModify(later(first.modified, -1))]), NfsStat::Ok);
    assert_eq!(scene.own().modified, written);
    let now = scene.now();
    assert_eq!(scene.sets(given, &[Attr::TimeDelegModify(later(now, 86_400))]), NfsStat::Ok);
    assert_eq!(scene.own().modified, now);
    let twice = [Attr::TimeModifySet(SetTime::Server), Attr::TimeDelegModify(written)];
    assert_eq!(scene.sets(given, &twice), NfsStat::Inval);
    let wrong = NfsTime { nseconds: 1_000_000_000, ..written };
    assert_eq!(scene.sets(given, &[Attr::TimeDelegModify(wrong)]), NfsStat::Inval);
    // A later write changes the time again.
    assert_eq!(scene.sets(given, &[Attr::TimeDelegModify(written)]), NfsStat::Ok);
    let handle = scene.handle.clone();
    scene.holder.on(&mut scene.first, &handle, &[writing(given, 0, b"data")]).ok();
    assert!(scene.own().modified != written);
    assert_eq!(scene.sets(given, &[Attr::TimeDelegModify(written)]), NfsStat::Ok);
    assert_eq!(scene.give_back(), NfsStat::Ok);
    let last = seen(scene.other.on(&mut scene.second, &handle, &[looking()]).ok().last());
    assert_eq!((last.size, last.modified), (4, written));
    assert_eq!(scene.sets(given, &[Attr::TimeDelegModify(written)]), NfsStat::BadStateId);
}
