//! Sessions over several connections, and the replies to a client that breaks the rules.

use nfs_wire::NfsStat;
use nfs_wire::op::{Args, Res, commit, create_session, destroy, exchange_id, names, open, read, stateid};
use nfs_wire::types::StateId;
use testkit::nfs::*;
use volume::faulty::{PlannedFault, VolumeCall};

// RFC 8881 2.10.6.1
#[test]
fn a_retry_on_another_connection_gets_the_reply_of_the_first_and_does_nothing_again() {
    let world = NfsTestServer::new();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut client = Client::new(&mut first, b"client", 1);
    let sequence = client.sequence(3, true);
    let make = open::OpenHow::Create(open::CreateHow::Guarded(Default::default()));
    let request = [sequence, Args::PutRootFh, lookup(EXPORT), opening(make, b"once"), Args::GetFh];
    let answer = first.call(1, &request).ok();
    assert_eq!(second.call(1, &request), answer, "the very same bytes");
    // A slot that has moved on no longer has the reply.
    let next = [client.sequence(3, false), Args::PutRootFh];
    second.call(1, &next).ok();
    assert_eq!(first.call(1, &request).status(), NfsStat::SeqMisordered);
}

// RFC 8881 2.10.6.1.3.1
#[test]
fn another_request_under_an_old_number_is_told_apart_from_a_retry() {
    let world = NfsTestServer::new();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut client = Client::new(&mut first, b"client", 1);
    let sequence = client.sequence(0, true);
    first.call(1, &[sequence, Args::PutRootFh, Args::GetFh]).ok();
    let other = second.call(1, &[sequence, Args::PutRootFh, lookup(EXPORT)]);
    assert_eq!(other.status(), NfsStat::SeqFalseRetry);
}

// RFC 8881 2.10.6.1.3.1: the reply holds the session ID, with which others could use the session.
#[test]
fn another_user_does_not_get_the_reply_to_create_session() {
    let world = NfsTestServer::new();
    let (mut own, mut foreign) = (world.connect(), world.connect());
    foreign.uid = 77;
    let introduced = own.call(1, &[introduce(b"client")]).ok();
    let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
    let request = [begin_session(known.clientid, known.sequenceid, CHANNEL)];
    let begun = own.call(1, &request).ok();
    assert_eq!(foreign.call(1, &request).status(), NfsStat::ClidInUse);
    assert_eq!(own.call(1, &request), begun);
}

// RFC 8881 2.10.3.1, 18.46.3
#[test]
fn sixteen_connections_carry_one_session_without_being_bound() {
    let world = NfsTestServer::new();
    let mut wires: Vec<_> = (0..16).map(|_| world.connect()).collect();
    let mut client = Client::new(&mut wires[0], b"client", 1);
    let (file, stateid) = client.create(&mut wires[0], b"file");
    for round in 0..4u64 {
        for (at, wire) in wires.iter_mut().enumerate() {
            let offset = (round * 16 + at as u64) * 8;
            let slot = at as u32;
            let write = writing(stateid, offset, b"12345678");
            let all = [client.sequence(slot, false), put(&file), write];
            wire.call(1, &all).ok();
        }
    }
    let answer = client.on(&mut wires[7], &file, &[reading(stateid, 0, 1000)]).ok();
    let wanted = b"12345678".repeat(64);
    assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: &wanted })));
}

// RFC 8881 15.1.3.4
#[test]
fn an_operation_that_does_not_exist_is_told_as_such_wherever_it_stands() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    for number in [0, 2, 76, 10_044, u32::MAX] {
        let answer = wire.call(1, &[Args::Illegal(number)]);
        assert_eq!((answer.status(), answer.last()), (NfsStat::OpIllegal, Res::Illegal(NfsStat::OpIllegal)));
    }
}

// RFC 8881 18.36.4
#[test]
fn a_session_that_cannot_be_granted_leaves_its_number_unused() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let introduced = wire.call(1, &[introduce(b"client")]).ok();
    let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
    let small = create_session::ChannelAttrs { maxresponsesize: 20, ..CHANNEL };
    for _ in 0..3 {
        let refused = wire.call(1, &[begin_session(known.clientid, known.sequenceid, small)]);
        assert_eq!(refused.status(), NfsStat::TooSmall);
    }
    let begun = wire.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]).ok();
    assert_eq!(wire.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]), begun, "a retry");
}

// RFC 8881 18.35.4
#[test]
fn who_makes_no_session_within_a_lease_is_forgotten() {
    let mut world = NfsTestServer::new();
    let mut wire = world.connect();
    let introduced = wire.call(1, &[introduce(b"client")]).ok();
    let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
    world.pass(u64::from(LEASE_S) + 1);
    wire.now = world.now;
    let late = wire.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]);
    assert_eq!(late.status(), NfsStat::StaleClientId);
}

// RFC 7862 14.1
#[test]
fn a_flag_of_minor_version_two_is_unknown_in_one() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let Args::ExchangeId(args) = introduce(b"client") else { panic!("EXCHANGE_ID") };
    let fenced = exchange_id::Args { flags: exchange_id::ExchangeFlags::SUPP_FENCE_OPS, ..args };
    assert_eq!(wire.call(1, &[Args::ExchangeId(fenced)]).status(), NfsStat::Inval);
    assert_eq!(wire.call(2, &[Args::ExchangeId(fenced)]).status(), NfsStat::Ok);
}

// RFC 8881 18.51.3
#[test]
fn nothing_is_opened_before_the_client_has_nothing_more_to_reclaim() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::before_reclaim(&mut wire, b"client", 1);
    let make = open::OpenHow::Create(open::CreateHow::Guarded(Default::default()));
    let opens = [Args::PutRootFh, lookup(EXPORT), opening(make, b"file")];
    assert_eq!(client.run(&mut wire, &opens).status(), NfsStat::Grace);
    let complete = Args::ReclaimComplete(destroy::ReclaimCompleteArgs { one_fs: false });
    client.run(&mut wire, &[complete]).ok();
    assert_eq!(client.run(&mut wire, &[complete]).status(), NfsStat::CompleteAlready);
    client.run(&mut wire, &opens).ok();
}

// RFC 8881 18.38.3, 16.2.3.1.2
#[test]
fn the_current_stateid_can_be_meant_by_free_stateid() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let make = open::OpenHow::Create(open::CreateHow::Guarded(Default::default()));
    let free = Args::FreeStateId(stateid::FreeArgs { stateid: StateId::CURRENT });
    let all = [Args::PutRootFh, lookup(EXPORT), opening(make, b"file"), free];
    assert_eq!(client.run(&mut wire, &all).status(), NfsStat::LocksHeld);
    assert_eq!(client.run(&mut wire, &[free]).status(), NfsStat::BadStateId);
}

// RFC 8881 18.16.3: it lives as long as it is open, but not over a restart, so OPEN4_RESULT_PRESERVE_UNLINKED
// is not set
#[test]
fn an_open_file_without_a_name_is_used_and_closed_by_its_handle() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, stateid) = client.create(&mut wire, b"file");
    let again = [Args::PutRootFh, lookup(EXPORT), opening(open::OpenHow::NoCreate, b"file")];
    let opened = client.run(&mut wire, &again).ok();
    let Res::Open(Ok(told)) = opened.last() else { panic!("{opened:?}") };
    assert_eq!(told.rflags, open::ResultFlags::LOCKTYPE_POSIX);
    let stateid = StateId { seqid: told.stateid.seqid, ..stateid };
    let remove = Args::Remove(names::RemoveArgs { target: b"file" });
    client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), remove]).ok();
    // Over a connection that has never seen the filehandle.
    let mut other = world.connect();
    client.on(&mut other, &file, &[writing(stateid, 0, b"still here")]).ok();
    let answer = client.on(&mut other, &file, &[reading(stateid, 0, 100)]).ok();
    assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: b"still here" })));
    client.on(&mut other, &file, &[closing(stateid)]).ok();
    let mut third = world.connect();
    assert_eq!(client.on(&mut third, &file, &[Args::GetFh]).status(), NfsStat::Stale);
}

// RFC 8881 2.10.8.3: whoever has the ID of a session can use it.
#[test]
fn nobody_can_tell_the_ids_of_others_from_their_own() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut ids = Vec::new();
    let mut sessions = Vec::new();
    for name in [b"one", b"two", b"six"] {
        let introduced = wire.call(1, &[introduce(name)]).ok();
        let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
        ids.push(known.clientid);
        for sequence in [known.sequenceid, known.sequenceid + 1] {
            let begun = wire.call(1, &[begin_session(known.clientid, sequence, CHANNEL)]).ok();
            let Res::CreateSession(Ok(made)) = begun.last() else { panic!("{begun:?}") };
            sessions.push(made.sessionid);
        }
    }
    let halves = |at: usize| ids.iter().map(move |id| id >> (32 * at) & 0xffff_ffff).collect::<Vec<_>>();
    for half in [halves(0), halves(1)] {
        assert!(half[0].abs_diff(half[1]) > 1000 && half[1].abs_diff(half[2]) > 1000, "{half:x?}");
    }
    let mut secret: Vec<[u8; 8]> = sessions.iter().map(|id| *id.first_chunk().expect("half of it")).collect();
    secret.sort_unstable();
    secret.dedup();
    assert_eq!(secret.len(), sessions.len(), "two sessions have nothing in common");
    // The other half alone leads nowhere.
    let mut guess = sessions[0];
    guess[..8].copy_from_slice(&sessions[1][..8]);
    let end = Args::DestroySession(destroy::SessionArgs { sessionid: guess });
    assert_eq!(wire.call(1, &[end]).status(), NfsStat::BadSession);
}

// RFC 8881 18.36.3, 18.35.4
#[test]
fn a_client_that_begins_anew_waits_for_nothing_that_its_old_session_still_does() {
    let (world, plan) = NfsTestServer::counted();
    let (mut wire, mut second) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, stateid) = client.create(&mut wire, b"file");
    let commit = Args::Commit(commit::Args { offset: 0, count: 0 });
    wire.begin(1, &[client.sequence(1, true), put(&file), commit]);
    plan.add(VolumeCall::Write, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let request = [client.sequence(2, true), put(&file), writing(stateid, 0, b"late")];
        let late = scope.spawn(move || second.call(1, &request).status());
        assert!(plan.wait_held(1, std::time::Duration::from_secs(20)));
        let (done, is_done) = std::sync::mpsc::channel();
        let mut third = world.connect();
        scope.spawn(move || {
            let mut introduced = introduce(b"client");
            if let Args::ExchangeId(args) = &mut introduced {
                args.clientowner.verifier = [2; 8];
            }
            let known = third.call(1, &[introduced]).ok();
            let Res::ExchangeId(Ok(known)) = known.last() else { panic!("{known:?}") };
            let begun = third.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]);
            let _ = done.send((known.clientid, begun.status()));
        });
        let told = is_done.recv_timeout(std::time::Duration::from_secs(20));
        plan.release();
        let (clientid, status) = told.expect("it does not wait");
        assert!(clientid != client.clientid && status == NfsStat::Ok);
        late.join().expect("the request that was under way ends");
    });
    assert_eq!(world.engine.open_count(), 0, "what it had open is closed");
    assert_eq!(wire.work().len(), 1, "so does the one that waited for the disk");
    assert_eq!(client.run(&mut wire, &[Args::PutRootFh]).status(), NfsStat::BadSession);
}
