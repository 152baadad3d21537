//! A restart: the clients that may reclaim, the requests that wait meanwhile, and the end of the grace period
//! (RFC 8881 8.4.2).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::open::{self, DelegationType, ShareAccess, ShareDeny};
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::op::{Args, Res, destroy, exchange_id, lock};
use nfs_wire::types::*;
use share::{CallResult, Caller, Deny, Disposition, OpenRequest, Options};
use testkit::nfs::*;
use volume::Failure;
use volume::faulty::VolumeCall;
use volume::journal::Journal;
use volume::security::Rights;

use crate::delegation_scenario::{DelegationScenario, bind_back};

pub const READ: ShareAccess = ShareAccess::READ;
pub const BOTH: ShareAccess = ShareAccess::BOTH;
pub const NONE: ShareDeny = ShareDeny::empty();
pub const COMPLETE: Args<'static> = Args::ReclaimComplete(destroy::ReclaimCompleteArgs { one_fs: false });

/// A server with one client that has a file open and its first ten bytes locked.
struct RestartScenario {
    world: NfsTestServer,
    handle: Vec<u8>,
    client: Client,
}

impl RestartScenario {
    fn new() -> RestartScenario {
        let world = NfsTestServer::with_stable_storage();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let (handle, stateid) = client.create(&mut wire, b"file");
        let taken = client.on(&mut wire, &handle, &[locking(stateid, b"locker", (0, 10), false)]);
        taken.ok();
        RestartScenario { world, handle, client }
    }

    /// Restarts the server. The client is not back yet.
    fn restart(mut self) -> RestartScenario {
        self.world = self.world.restarted();
        self
    }

    /// Gives the client a new session.
    fn come_back(&mut self, wire: &mut Wire) {
        self.client = Client::before_reclaim(wire, b"client", 1);
    }
}

pub fn claiming(access: ShareAccess, deny: ShareDeny, had: DelegationType) -> Args<'static> {
    claiming_as(b"owner", access, deny, had)
}

fn claiming_as(
    owner: &'static [u8],
    share_access: ShareAccess,
    share_deny: ShareDeny,
    had: DelegationType,
) -> Args<'static> {
    Args::Open(open::Args {
        seqid: 0,
        share_access,
        share_deny,
        owner: StateOwner { clientid: 0, owner: Identity(owner) },
        openhow: open::OpenHow::NoCreate,
        claim: open::Claim::Previous(had),
    })
}

/// OPEN by handle.
pub fn anew(share_access: ShareAccess, share_deny: ShareDeny) -> Args<'static> {
    Args::Open(open::Args {
        seqid: 0,
        share_access,
        share_deny,
        owner: StateOwner { clientid: 0, owner: Identity(b"another owner") },
        openhow: open::OpenHow::NoCreate,
        claim: open::Claim::Fh,
    })
}

pub fn locking(
    open_stateid: StateId,
    owner: &'static [u8],
    (offset, length): (u64, u64),
    reclaim: bool,
) -> Args<'static> {
    let lock_owner = StateOwner { clientid: 0, owner: Identity(owner) };
    let locker =
        lock::Locker::New(lock::OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner });
    Args::Lock(lock::Args { locktype: LockType::Write, reclaim, offset, length, locker })
}

pub fn opened(answer: &ReceivedCompound) -> StateId {
    match answer.last() {
        Res::Open(Ok(open)) => open.stateid,
        other => panic!("{other:?}"),
    }
}

pub fn flags(answer: &ReceivedCompound) -> StatusFlags {
    match answer.results()[0] {
        Res::Sequence(Ok(sequence)) => sequence.status_flags,
        other => panic!("{other:?}"),
    }
}

fn claim(client: &mut Client, wire: &mut Wire, handle: &[u8]) -> StateId {
    opened(&client.on(wire, handle, &[claiming(BOTH, NONE, DelegationType::None)]).ok())
}

// RFC 8881 18.35.4
#[test]
fn who_uses_the_name_of_a_client_that_may_still_claim_takes_nothing_from_it() {
    let mut scene = RestartScenario::new().restart();
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    scene.come_back(&mut first);
    second.uid = 77;
    let stranger = second.call(1, &[introduce(b"client")]);
    assert_eq!(stranger.status(), NfsStat::ClidInUse);
    claim(&mut scene.client, &mut first, &scene.handle);
}

// RFC 8881 8.4.2
#[test]
fn an_open_and_its_lock_are_taken_up_and_nobody_gets_between() {
    let mut scene = RestartScenario::new().restart();
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    let mut other = Client::new(&mut second, b"other", 1);
    // Files without kept state do not have to wait.
    let (free, open) = other.create(&mut second, b"free");
    other.on(&mut second, &free, &[locking(open, b"locker", (0, 1), false)]).ok();
    assert_eq!(other.on(&mut second, &scene.handle, &[anew(READ, NONE)]).status(), NfsStat::Grace);
    let by_name = [Args::PutRootFh, lookup(EXPORT), opening(open::OpenHow::NoCreate, b"file")];
    assert_eq!(other.run(&mut second, &by_name).status(), NfsStat::Grace);

    scene.come_back(&mut first);
    let stateid = claim(&mut scene.client, &mut first, &scene.handle);
    scene.client.on(&mut first, &scene.handle, &[locking(stateid, b"locker", (0, 10), true)]).ok();
    scene.client.on(&mut first, &scene.handle, &[writing(stateid, 0, b"on")]).ok();
    assert!(scene.world.server.grace.is_on());
    scene.client.run(&mut first, &[COMPLETE]).ok();
    assert!(!scene.world.server.grace.is_on(), "the last one has said so");

    let theirs = opened(&other.on(&mut second, &scene.handle, &[anew(BOTH, NONE)]).ok());
    let held = other.on(&mut second, &scene.handle, &[locking(theirs, b"locker", (9, 1), false)]);
    assert_eq!(held.status(), NfsStat::Denied);
    other.on(&mut second, &scene.handle, &[locking(theirs, b"locker", (10, 1), false)]).ok();
}

// RFC 8881 2.10.6.1, 8.2.4, 18.36.3
#[test]
fn what_a_client_that_reclaims_has_of_the_server_before_leads_nowhere() {
    let mut scene = RestartScenario::new();
    let (mut before, old) = (scene.world.connect(), scene.client.clientid);
    let stateid = opened(&scene.client.on(&mut before, &scene.handle, &[anew(READ, NONE)]).ok());
    let mut scene = scene.restart();
    let mut wire = scene.world.connect();
    assert_eq!(scene.client.run(&mut wire, &[Args::PutRootFh]).status(), NfsStat::BadSession);
    let introduced = wire.call(1, &[introduce(b"client")]).ok();
    assert_eq!(wire.call(1, &[begin_session(old, 2, CHANNEL)]).status(), NfsStat::StaleClientId);
    let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
    assert!(known.clientid != old && !known.flags.contains(exchange_id::ExchangeFlags::CONFIRMED_R));
    scene.come_back(&mut wire);
    let answer = scene.client.on(&mut wire, &scene.handle, &[reading(stateid, 0, 1)]);
    assert_eq!(answer.status(), NfsStat::BadStateId);
    let again = wire.call(1, &[introduce(b"client")]).ok();
    let Res::ExchangeId(Ok(known)) = again.last() else { panic!("{again:?}") };
    assert!(known.flags.contains(exchange_id::ExchangeFlags::CONFIRMED_R), "it has a session now");
}

// RFC 8881 18.46.3, 18.51.3
#[test]
fn a_client_is_told_to_claim_until_it_says_that_it_is_done() {
    let mut scene = RestartScenario::new().restart();
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    let mut other = Client::before_reclaim(&mut second, b"other", 1);
    assert!(!flags(&other.run(&mut second, &[]).ok()).contains(StatusFlags::RESTART_RECLAIM_NEEDED));
    scene.come_back(&mut first);
    assert!(flags(&scene.client.run(&mut first, &[]).ok()).contains(StatusFlags::RESTART_RECLAIM_NEEDED));
    // No new state before that.
    let free =
        other.run(&mut second, &[Args::PutRootFh, lookup(EXPORT), opening(open::OpenHow::NoCreate, b"x")]);
    assert_eq!(free.status(), NfsStat::Grace);
    let stateid = claim(&mut scene.client, &mut first, &scene.handle);
    let new = scene.client.on(&mut first, &scene.handle, &[locking(stateid, b"locker", (50, 1), false)]);
    assert_eq!(new.status(), NfsStat::Grace);
    scene.client.run(&mut first, &[COMPLETE]).ok();
    assert!(!flags(&scene.client.run(&mut first, &[]).ok()).contains(StatusFlags::RESTART_RECLAIM_NEEDED));
    assert_eq!(scene.client.run(&mut first, &[COMPLETE]).status(), NfsStat::CompleteAlready);
    let late = scene.client.on(&mut first, &scene.handle, &[claiming(READ, NONE, DelegationType::None)]);
    assert_eq!(late.status(), NfsStat::NoGrace);
    let late = scene.client.on(&mut first, &scene.handle, &[locking(stateid, b"locker", (0, 10), true)]);
    assert_eq!(late.status(), NfsStat::NoGrace);
}

// RFC 8881 8.4.2.1
#[test]
fn what_is_not_claimed_is_given_back_when_the_client_is_done() {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, stateid) = client.create(&mut wire, b"file");
    for range in [(0, 10), (20, 10)] {
        client.on(&mut wire, &handle, &[locking(stateid, b"locker", range, false)]).ok();
    }
    client.on(&mut wire, &handle, &[anew(READ, ShareDeny::WRITE)]).status();
    let (other_handle, _) = client.create(&mut wire, b"never claimed");

    let world = world.restarted();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut client = Client::before_reclaim(&mut first, b"client", 1);
    // Of reading and writing only reading, of two ranges only one, of two files only one.
    let answer = client.on(&mut first, &handle, &[claiming(READ, NONE, DelegationType::None)]).ok();
    let stateid = opened(&answer);
    let lock = client.on(&mut first, &handle, &[locking(stateid, b"locker", (20, 10), true)]);
    assert_eq!(lock.status(), NfsStat::OpenMode, "not for writing");
    let stateid = claim(&mut client, &mut first, &handle);
    client.on(&mut first, &handle, &[locking(stateid, b"locker", (20, 10), true)]).ok();
    client.run(&mut first, &[COMPLETE]).ok();

    let mut other = Client::new(&mut second, b"other", 1);
    let theirs = opened(&other.on(&mut second, &handle, &[anew(BOTH, NONE)]).ok());
    let status = |client: &mut Client, wire: &mut Wire, range| {
        client.on(wire, &handle, &[locking(theirs, b"locker", range, false)]).status()
    };
    assert_eq!(status(&mut other, &mut second, (25, 1)), NfsStat::Denied);
    assert_eq!(status(&mut other, &mut second, (0, 10)), NfsStat::Ok);
    other.on(&mut second, &other_handle, &[anew(BOTH, ShareDeny::BOTH)]).ok();
}

#[test]
fn an_open_is_as_narrow_as_what_was_claimed_of_it() {
    let mut scene = RestartScenario::new().restart();
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    scene.come_back(&mut first);
    scene.client.on(&mut first, &scene.handle, &[claiming(READ, NONE, DelegationType::None)]).ok();
    scene.client.run(&mut first, &[COMPLETE]).ok();
    let mut other = Client::new(&mut second, b"other", 1);
    // Nobody has the file open for writing any more.
    other.on(&mut second, &scene.handle, &[anew(READ, ShareDeny::WRITE)]).ok();
}

// RFC 8881 8.4.2.1
#[test]
fn the_grace_ends_after_a_lease_and_nothing_waits_for_who_did_not_come() {
    let mut scene = RestartScenario::new().restart();
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    let mut other = Client::new(&mut second, b"other", 1);
    scene.world.pass(u64::from(LEASE_S) - 1);
    assert_eq!(other.on(&mut second, &scene.handle, &[anew(BOTH, NONE)]).status(), NfsStat::Grace);
    scene.world.pass(2);
    (first.now, second.now) = (scene.world.now, scene.world.now);
    other.run(&mut second, &[]).ok();
    let stateid = opened(&other.on(&mut second, &scene.handle, &[anew(BOTH, ShareDeny::BOTH)]).ok());
    other.on(&mut second, &scene.handle, &[locking(stateid, b"locker", (0, 10), false)]).ok();
    scene.come_back(&mut first);
    let late = scene.client.on(&mut first, &scene.handle, &[claiming(BOTH, NONE, DelegationType::None)]);
    assert_eq!(late.status(), NfsStat::NoGrace);
    // Not after another restart either: the file is the other client's then.
    let mut scene = scene.restart();
    let mut first = scene.world.connect();
    scene.come_back(&mut first);
    let conflicts = scene.client.on(&mut first, &scene.handle, &[claiming(BOTH, NONE, DelegationType::None)]);
    assert_eq!(conflicts.status(), NfsStat::ReclaimConflict);
}

#[test]
fn the_grace_is_stretched_for_who_is_claiming_and_no_further() {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let names: Vec<_> = (0..70).map(|n| format!("file {n}")).collect();
    let handles: Vec<_> = names.iter().map(|name| client.create(&mut wire, name.as_bytes()).0).collect();
    let mut world = world.restarted();
    let mut wire = world.connect();
    world.pass(u64::from(LEASE_S) - 1);
    wire.now = world.now;
    let mut client = Client::before_reclaim(&mut wire, b"client", 1);
    let mut in_time = 0;
    for handle in &handles {
        let claimed = client.on(&mut wire, handle, &[claiming(BOTH, NONE, DelegationType::None)]).status();
        if claimed != NfsStat::Ok {
            assert_eq!(claimed, NfsStat::NoGrace);
            break;
        }
        in_time += 1;
        world.pass(1);
        wire.now = world.now;
    }
    assert_eq!(in_time, LEASE_S + 1, "a second lease at most");
}

// RFC 8881 8.4.2.1, 2.4.3
#[test]
fn only_who_was_there_may_claim() {
    let mut scene = RestartScenario::new().restart();
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    let mut stranger = Client::before_reclaim(&mut second, b"stranger", 1);
    let refused = stranger.on(&mut second, &scene.handle, &[claiming(READ, NONE, DelegationType::None)]);
    assert_eq!(refused.status(), NfsStat::NoGrace);
    // A client that has restarted itself has no state any more, and requests that waited for it continue.
    let Args::ExchangeId(args) = introduce(b"client") else { panic!("EXCHANGE_ID") };
    let clientowner = exchange_id::ClientOwner { verifier: [9; 8], ownerid: Identity(b"client") };
    let introduced = first.call(1, &[Args::ExchangeId(exchange_id::Args { clientowner, ..args })]).ok();
    let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
    assert!(scene.world.server.grace.is_on());
    first.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]).ok();
    assert!(!scene.world.server.grace.is_on());
    stranger.run(&mut second, &[COMPLETE]).ok();
    stranger.on(&mut second, &scene.handle, &[anew(BOTH, ShareDeny::BOTH)]).ok();
    scene = scene.restart();
    let mut first = scene.world.connect();
    scene.come_back(&mut first);
    let refused = scene.client.on(&mut first, &scene.handle, &[claiming(READ, NONE, DelegationType::None)]);
    assert_eq!(refused.status(), NfsStat::NoGrace, "with its old verifier it is nobody");
}

#[test]
fn a_client_that_has_gone_for_good_is_not_waited_for() {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let client = Client::new(&mut wire, b"client", 1);
    wire.call(1, &[Args::DestroySession(destroy::SessionArgs { sessionid: client.session })]).ok();
    wire.call(1, &[Args::DestroyClientId(destroy::ClientIdArgs { clientid: client.clientid })]).ok();
    assert!(!world.restarted().server.grace.is_on());
}

// RFC 8881 8.4.2.1, 15.1.9.4
#[test]
fn a_claim_that_is_not_on_record_is_granted_when_nothing_is_in_the_way() {
    let mut scene = RestartScenario::new();
    let mut wire = scene.world.connect();
    let mut other = Client::new(&mut wire, b"other", 1);
    let (denied, _) = other.create(&mut wire, b"denied");
    let deny = open::Args {
        share_deny: ShareDeny::WRITE,
        ..match anew(READ, NONE) {
            Args::Open(args) => args,
            _ => unreachable!(),
        }
    };
    // The open that denies writing belongs to another client.
    let opened_so = other.on(&mut wire, &denied, &[Args::Open(deny)]).status();
    assert_eq!(opened_so, NfsStat::ShareDenied);
    let scene_handle = scene.handle.clone();
    scene = scene.restart();
    let mut wire = scene.world.connect();
    scene.come_back(&mut wire);
    // As if it had been opened under a delegation.
    let by_another = claiming_as(b"untold", READ, NONE, DelegationType::None);
    scene.client.on(&mut wire, &scene_handle, &[by_another]).ok();
    // An open that another client may reclaim conflicts with the denial.
    let conflicts = claiming(READ, ShareDeny::WRITE, DelegationType::None);
    assert_eq!(scene.client.on(&mut wire, &denied, &[conflicts]).status(), NfsStat::ReclaimConflict);
    let stateid = claim(&mut scene.client, &mut wire, &scene_handle);
    scene.client.on(&mut wire, &scene_handle, &[locking(stateid, b"locker", (500, 1), true)]).ok();
}

#[test]
fn a_second_restart_before_the_end_loses_nothing() {
    let mut scene = RestartScenario::new();
    let mut wire = scene.world.connect();
    let mut late = Client::new(&mut wire, b"late", 1);
    let (theirs, _) = late.create(&mut wire, b"theirs");
    scene = scene.restart();
    let mut wire = scene.world.connect();
    scene.come_back(&mut wire);
    let stateid = claim(&mut scene.client, &mut wire, &scene.handle);
    scene.client.on(&mut wire, &scene.handle, &[locking(stateid, b"locker", (0, 10), true)]).ok();
    scene.client.run(&mut wire, &[COMPLETE]).ok();
    scene = scene.restart();
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    let mut late = Client::before_reclaim(&mut second, b"late", 1);
    claim(&mut late, &mut second, &theirs);
    let stateid =
        opened(&late.on(&mut second, &scene.handle, &[claiming(BOTH, NONE, DelegationType::None)]).ok());
    let taken = late.on(&mut second, &scene.handle, &[locking(stateid, b"locker", (0, 10), true)]);
    assert_eq!(taken.status(), NfsStat::ReclaimConflict, "it is the other client's");
    late.run(&mut second, &[COMPLETE]).ok();
    scene.come_back(&mut first);
    let stateid = claim(&mut scene.client, &mut first, &scene.handle);
    scene.client.on(&mut first, &scene.handle, &[locking(stateid, b"locker", (0, 10), true)]).ok();
    scene.client.run(&mut first, &[COMPLETE]).ok();
    assert!(!scene.world.server.grace.is_on());
}

// RFC 8881 8.4.2.1
#[test]
fn nothing_new_is_safe_after_the_host_began_anew_or_records_were_lost() {
    let scene = RestartScenario::new();
    let handle = scene.handle.clone();
    nothing_new_is_opened_until_all_are_back(scene.world.on_a_new_host(), &handle);
    let scene = RestartScenario::new().restart();
    scene.world.server.mark_records_incomplete();
    nothing_new_is_opened_until_all_are_back(scene.world, &scene.handle);
}

fn nothing_new_is_opened_until_all_are_back(mut world: NfsTestServer, handle: &[u8]) {
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut other = Client::new(&mut second, b"other", 1);
    let make = open::OpenHow::Create(open::CreateHow::Unchecked(Default::default()));
    let new = [Args::PutRootFh, lookup(EXPORT), opening(make, b"new")];
    assert_eq!(other.run(&mut second, &new).status(), NfsStat::Grace);
    let mut client = Client::before_reclaim(&mut first, b"client", 1);
    claim(&mut client, &mut first, handle);
    client.run(&mut first, &[COMPLETE]).ok();
    world.pass(1);
    other.run(&mut second, &new).ok();
}

#[test]
fn who_can_wait_waits_for_what_is_kept_and_goes_on_when_it_is_given_back() {
    struct Woken(std::sync::atomic::AtomicBool);
    impl share::Wake for Woken {
        fn wake(&self, _: u64) {
            self.0.store(true, std::sync::atomic::Ordering::Release);
        }
    }
    let mut scene = RestartScenario::new().restart();
    let mut wire = scene.world.connect();
    let woken = Arc::new(Woken(Default::default()));
    let waiter = share::Waiter { wake: woken.clone(), token: 1 };
    let identity = share::Identity {
        name: "somebody".into(),
        sid: volume::security::Sid::unix_user(0),
        groups: Vec::new(),
        uid: 0,
        gid: 0,
        host_groups: Vec::new(),
        actor: None,
        administrator: true,
        unbound: true,
        limit: Rights::ALL,
        home: None,
    };
    let identity = Arc::new(identity);
    let caller = Caller {
        identity: &identity,
        client: share::ClientKey(99),
        waiter: Some(&waiter),
        now: scene.world.now,
        origin: None,
        details: None,
    };
    let path = [volume::Name::new(b"file").unwrap()];
    let request = OpenRequest {
        path: &path,
        stream: None,
        access: Rights::READ_DATA,
        deny: Deny::WRITE,
        disposition: Disposition::Open,
        options: Options::empty(),
        attributes: Default::default(),
        mode: None,
        descriptor: None,
        extended: &[],
        allocation: 0,
        caching: None,
        step_of: None,
    };
    let CallResult::Wait(_) = scene.world.engine.create(&caller, &request) else { panic!("it should wait") };
    assert!(!woken.0.load(std::sync::atomic::Ordering::Acquire));
    // The client reclaims nothing.
    scene.come_back(&mut wire);
    scene.client.run(&mut wire, &[COMPLETE]).ok();
    assert!(woken.0.load(std::sync::atomic::Ordering::Acquire));
    let CallResult::Done(_) = scene.world.engine.create(&caller, &request) else {
        panic!("nobody is in the way")
    };
}

// RFC 8881 10.2.1
#[test]
fn a_delegation_is_taken_up_and_recalled_as_before() {
    let DelegationScenario { world, handle, .. } = DelegationScenario::with_a_delegation();
    let world = world.restarted();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut client = Client::before_reclaim(&mut first, b"client", 1);
    bind_back(&mut first, &client);
    let again = claiming_as(b"another owner", READ, NONE, DelegationType::Read);
    let given = client.on(&mut first, &handle, &[again]).ok();
    let Res::Open(Ok(open)) = given.last() else { panic!("{given:?}") };
    let open::Delegation::Read(read) = open.delegation else { panic!("{open:?}") };
    client.run(&mut first, &[COMPLETE]).ok();
    let mut maker = Client::before_reclaim(&mut second, b"maker", 1);
    maker.run(&mut second, &[COMPLETE]).ok();
    assert!(!world.server.grace.is_on());
    assert!(first.called().is_empty());
    assert_eq!(maker.on(&mut second, &handle, &[anew(BOTH, NONE)]).status(), NfsStat::Delay);
    assert_eq!(first.called().len(), 1, "recalled");
    let back = nfs_wire::op::delegation::ReturnArgs { deleg_stateid: read.stateid };
    client.on(&mut first, &handle, &[Args::DelegReturn(back)]).ok();
    maker.on(&mut second, &handle, &[anew(BOTH, NONE)]).ok();
}

// RFC 8881 10.2.1
#[test]
fn a_delegation_that_was_being_recalled_is_recalled_again_after_a_restart() {
    let mut scene = DelegationScenario::with_a_delegation();
    assert_eq!(scene.open_by_maker(), NfsStat::Delay);
    assert_eq!(scene.first.called().len(), 1);
    let (world, handle) = (scene.world.restarted(), scene.handle);
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut client = Client::before_reclaim(&mut first, b"client", 1);
    bind_back(&mut first, &client);
    let again = claiming_as(b"another owner", READ, NONE, DelegationType::Read);
    let given = client.on(&mut first, &handle, &[again]).ok();
    let Res::Open(Ok(open)) = given.last() else { panic!("{given:?}") };
    assert!(matches!(open.delegation, open::Delegation::Read(_)), "{open:?}");
    client.run(&mut first, &[COMPLETE]).ok();
    let mut maker = Client::before_reclaim(&mut second, b"maker", 1);
    maker.run(&mut second, &[COMPLETE]).ok();
    assert_eq!(maker.on(&mut second, &handle, &[anew(BOTH, NONE)]).status(), NfsStat::Delay);
    assert_eq!(first.called().len(), 1, "recalled");
}

// RFC 8881 10.2.1
#[test]
fn a_delegation_that_was_taken_away_is_not_taken_up() {
    let mut scene = DelegationScenario::with_a_delegation();
    scene.lose_delegation();
    let (world, handle) = (scene.world.restarted(), scene.handle);
    let mut first = world.connect();
    let mut client = Client::before_reclaim(&mut first, b"client", 1);
    bind_back(&mut first, &client);
    let again = claiming_as(b"another owner", READ, NONE, DelegationType::Read);
    let given = client.on(&mut first, &handle, &[again]).ok();
    let Res::Open(Ok(open)) = given.last() else { panic!("{given:?}") };
    assert!(matches!(open.delegation, open::Delegation::None), "{open:?}");
}

/// A server that records opens, and a client that has created a file and closed it.
fn with_a_closed_file() -> (NfsTestServer, Wire, Client, Vec<u8>) {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, stateid) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[closing(stateid)]).ok();
    (world, wire, client, handle)
}

#[test]
fn an_open_costs_one_append_and_so_does_its_close() {
    let (world, mut wire, mut client, handle) = with_a_closed_file();
    let appended = || world.stable_storage().opens.records().len();
    let before = appended();
    let stateid = opened(&client.on(&mut wire, &handle, &[anew(BOTH, NONE)]).ok());
    assert_eq!(appended(), before + 1);
    client.on(&mut wire, &handle, &[closing(stateid)]).ok();
    assert_eq!(appended(), before + 2);
    world.engine.write_noted();
    assert_eq!(appended(), before + 2);
    assert!(world.stable_storage().client_records.size() > 0);
}

#[test]
fn opens_of_a_batch_are_recorded_at_once_before_its_answers_leave() {
    let (world, mut wire, mut client, first) = with_a_closed_file();
    let others = [&b"second"[..], b"third"].map(|name| {
        let (handle, stateid) = client.create(&mut wire, name);
        client.on(&mut wire, &handle, &[closing(stateid)]).ok();
        handle
    });
    world.engine.write_noted();
    let appended = || world.stable_storage().opens.records().len();
    let before = appended();
    for (slot, handle) in (0..).zip([&first, &others[0], &others[1]]) {
        let operations = [client.sequence(slot, false), put(handle), anew(READ, NONE)];
        wire.begin(1, &operations);
    }
    assert_eq!(appended(), before);
    assert_eq!(wire.work().len(), 3);
    assert_eq!(appended(), before + 1);
}

// RFC 8881 8.4.2
#[test]
fn ten_thousand_opens_do_not_delay_the_first_answer() {
    const OPENS: usize = 10_000;
    // A store that is far away takes 1.8 ms for each call about names and attributes.
    const MOST_CALLS: u64 = 30;
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let mut handles = Vec::new();
    for number in 0..OPENS {
        let (handle, stateid) = client.create(&mut wire, format!("f{number}").as_bytes());
        if number % 10 == 0 {
            client.on(&mut wire, &handle, &[locking(stateid, b"locker", (0, 10), false)]).ok();
        }
        handles.push(handle);
    }
    let (world, plan) = world.restarted_counting();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut other = Client::new(&mut second, b"other", 1);
    other.create(&mut second, b"new");
    let calls = plan.metadata_calls();
    assert!(calls <= MOST_CALLS, "the first answer took {calls} calls of the store");
    // The first request for a file finds its open, whoever asks.
    assert_eq!(other.on(&mut second, &handles[10], &[anew(READ, NONE)]).status(), NfsStat::Grace);
    let mut client = Client::before_reclaim(&mut first, b"client", 1);
    let before = plan.metadata_calls();
    let stateid = claim(&mut client, &mut first, &handles[20]);
    client.on(&mut first, &handles[20], &[locking(stateid, b"locker", (0, 10), true)]).ok();
    let calls = plan.metadata_calls() - before;
    assert!(calls <= MOST_CALLS, "a claim took {calls} calls of the store");
    assert_eq!(world.engine.restored_count(), 3, "nothing else was restored");
    assert_eq!(world.engine.open_count(), OPENS + 1, "the others count all the same");
    // What the client has not claimed is closed, if not now, then as soon as it is restored.
    client.run(&mut first, &[COMPLETE]).ok();
    assert_eq!(world.engine.restored_count(), 2);
    for handle in [&handles[10], &handles[30]] {
        other.on(&mut second, handle, &[anew(BOTH, ShareDeny::WRITE)]).ok();
    }
    assert_eq!(world.engine.restored_count(), 4);
}

// RFC 8881 8.4.2.1, 15.1.1.3
#[test]
fn a_claim_of_a_file_that_the_disk_fails_to_open_is_to_be_sent_again() {
    let mut scene = RestartScenario::new();
    let (world, plan) = scene.world.restarted_counting();
    scene.world = world;
    plan.always(VolumeCall::OpenAgain, Some(Failure::Io));
    let (mut first, mut second) = (scene.world.connect(), scene.world.connect());
    let handle = scene.handle.clone();
    scene.come_back(&mut first);
    let mut other = Client::new(&mut second, b"other", 1);
    let claiming = [claiming(BOTH, NONE, DelegationType::None)];
    // The grace period lasts as long as it may, since the client could not do more.
    for seconds in [0, u64::from(LEASE_S) - 1, 2, u64::from(LEASE_S) - 3] {
        scene.world.pass(seconds);
        (first.now, second.now) = (scene.world.now, scene.world.now);
        assert_eq!(scene.client.on(&mut first, &handle, &claiming).status(), NfsStat::Delay, "{seconds}");
        assert_eq!(other.on(&mut second, &handle, &[anew(READ, NONE)]).status(), NfsStat::Io, "{seconds}");
    }
    plan.always(VolumeCall::OpenAgain, None);
    let stateid = claim(&mut scene.client, &mut first, &handle);
    scene.client.on(&mut first, &handle, &[locking(stateid, b"locker", (0, 10), true)]).ok();
    assert_eq!(other.on(&mut second, &handle, &[anew(READ, NONE)]).status(), NfsStat::Grace);
}
