//! Changes that are still under way when their session has ended. None of them takes effect after the
//! requests of the returned client (MS-SMB2 3.3.5.5.3, 3.3.5.6, 3.3.5.9.7, 3.3.5.9.12, 3.3.5.9.13, 3.3.7.1).
//! The tests also cover a late read of a file.

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use smb_wire::create::{Access, CreateOptions, Disposition, OplockLevel, ShareAccess};
use smb_wire::create_context::{Contexts, DurableFlags, RequestContext};
use smb_wire::fscc::FileInfoClass;
use smb_wire::header::Flags;
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::lock::{self, LockElement};
use smb_wire::query_info::{self, InfoType};
use smb_wire::{
    FileId, Guid, Header, NtStatus, SmbCommand, WireList, cancel, close, flush, logoff, set_info, write,
};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, SmbTestServer};
use volume::faulty::{FaultPlan, FaultyVolume, PlannedFault, VolumeCall};
use volume::journal::MemoryJournal;
use volume::memory::MemoryVolume;

const MINUTE: Duration = Duration::from_secs(60);
const CREATE: Guid = Guid(*b"first of creates");
const APPLICATION: Guid = Guid(*b"the application.");
const DURABLE: RequestContext<'static> = RequestContext::DurableHandleRequest;
const PERSISTENT: RequestContext<'static> = RequestContext::DurableHandleRequestV2 {
    timeout: 0,
    flags: DurableFlags::PERSISTENT,
    create_guid: CREATE,
};

/// A call that is stuck in the volume, on a thread of its own. It goes on when this value is dropped, also
/// by a failing test.
struct StuckCall<'s> {
    plan: &'s FaultPlan,
    thread: Option<ScopedJoinHandle<'s, ()>>,
}

impl<'s> StuckCall<'s> {
    fn new<'e>(
        scope: &'s Scope<'s, 'e>,
        plan: &'s FaultPlan,
        call: VolumeCall,
        delivery: impl FnOnce() + Send + 's,
    ) -> StuckCall<'s> {
        plan.add(call, 1, PlannedFault::Hold);
        let stuck = StuckCall { plan, thread: Some(scope.spawn(delivery)) };
        assert!(plan.wait_held(1, MINUTE), "the change has begun");
        stuck
    }

    /// Ends the call.
    fn ends(mut self) {
        self.plan.release();
        self.thread.take().expect("it ends once").join().expect("the server does not panic");
    }
}

impl Drop for StuckCall<'_> {
    fn drop(&mut self) {
        self.plan.release();
    }
}

/// Opens the file exclusively.
fn create<'a>(asked: &'a [RequestContext<'a>]) -> OpenFile<'a> {
    let contexts = Contexts::Requests(asked);
    let oplock = OplockLevel::Batch;
    OpenFile { share: ShareAccess::empty(), oplock, contexts, ..OpenFile::named("file") }
}

fn a_write(peer: &mut Peer, file: FileId) -> Vec<u8> {
    peer.message(SmbCommand::Write, |out| write::Request::new(file, 0, b"late").write(out))
}

fn a_truncation(peer: &mut Peer, file_id: FileId) -> Vec<u8> {
    peer.message(SmbCommand::SetInfo, |out| {
        set_info::Request::of_file(FileInfoClass::END_OF_FILE, file_id, &[0; 8]).write(out);
    })
}

fn zeroes(peer: &mut Peer, file: FileId) -> Vec<u8> {
    let range: Vec<u8> = [0u64, 4].iter().flat_map(|number| number.to_le_bytes()).collect();
    peer.message(SmbCommand::Ioctl, |out| {
        ioctl::Request::fsctl(CtlCode::SetZeroData, file, &range, 0).write(out);
    })
}

/// A new session of the client that replaces the previous one.
fn log_on_again(world: &SmbTestServer, previous_session_id: u64) -> Peer {
    world.dial(&Dial { previous_session_id, ..Dial::default() })
}

/// Opens a file and has to wait.
fn waits(peer: &mut Peer, open: &OpenFile<'_>) -> u64 {
    let id = peer.start(SmbCommand::Create, |out| open.write(out));
    assert_eq!(peer.answer(id).expect("an interim answer").status(), NtStatus::PENDING);
    assert!(peer.answer(id).is_none());
    id
}

/// The client goes on with the opened file, which shows nothing of the late change.
fn goes_on(peer: &mut Peer, create: u64) {
    let file = peer.answer(create).expect("nothing to wait for any more").file_id();
    assert_eq!(peer.write(file, 0, b"newer"), NtStatus::SUCCESS);
    assert_eq!(peer.read(file, 0, 100).data(), b"newer");
}

#[test]
fn a_handle_is_taken_up_behind_what_its_ended_session_still_changes() {
    type Change = fn(&mut Peer, FileId) -> Vec<u8>;
    let changes: [(VolumeCall, Change); 3] =
        [(VolumeCall::Write, a_write), (VolumeCall::Resize, a_truncation), (VolumeCall::Resize, zeroes)];
    for (call, change) in changes {
        let (world, plan) = SmbTestServer::faulty();
        let mut old = world.client();
        let file = old.create(&create(&[DURABLE])).file_id();
        assert_eq!(old.write(file, 0, b"first"), NtStatus::SUCCESS);
        let (previous, late) = (old.session_id, change(&mut old, file));
        let late = old.compound(vec![late], false);
        std::thread::scope(|scope| {
            let stuck = StuckCall::new(scope, &plan, call, old.delivery(late));
            let mut new = log_on_again(&world, previous);
            let back = [RequestContext::DurableHandleReconnect(file)];
            let back = waits(&mut new, &create(&back));
            stuck.ends();
            goes_on(&mut new, back);
        });
    }
}

#[test]
fn what_stands_behind_a_late_change_is_not_begun() {
    let (world, plan) = SmbTestServer::faulty();
    let mut old = world.client();
    let file = old.create(&create(&[DURABLE])).file_id();
    let (previous, both) = (old.session_id, vec![a_write(&mut old, file), a_truncation(&mut old, file)]);
    let [first, second] = [0, 1].map(|at| Header::parse(&both[at]).expect("a header").message_id());
    let both = old.compound(both, false);
    std::thread::scope(|scope| {
        let stuck = StuckCall::new(scope, &plan, VolumeCall::Write, old.delivery(both));
        let mut new = log_on_again(&world, previous);
        let back = [RequestContext::DurableHandleReconnect(file)];
        let back = waits(&mut new, &create(&back));
        stuck.ends();
        goes_on(&mut new, back);
    });
    assert_eq!(old.answer(first).expect("it was done").status(), NtStatus::SUCCESS);
    assert_eq!(old.answer(second).expect("an answer").status(), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn whoever_comes_back_is_told_to_try_again_when_a_late_change_does_not_end() {
    let (world, plan) = SmbTestServer::faulty();
    let mut old = world.client();
    let file = old.create(&create(&[DURABLE])).file_id();
    let (previous, late) = (old.session_id, a_write(&mut old, file));
    let late = old.compound(vec![late], false);
    std::thread::scope(|scope| {
        let stuck = StuckCall::new(scope, &plan, VolumeCall::Write, old.delivery(late));
        let mut new = log_on_again(&world, previous);
        let back = [RequestContext::DurableHandleReconnect(file)];
        let back = create(&back);
        let first = waits(&mut new, &back);
        world.advance(Duration::from_secs(9));
        assert!(new.answer(first).is_none());
        world.advance(Duration::from_secs(1));
        assert_eq!(new.answer(first).expect("it waits no longer").status(), NtStatus::FILE_NOT_AVAILABLE);
        // A cancelled one is not waited for either.
        let second = new.start(SmbCommand::Create, |out| back.write(out));
        let told = new.answer(second).expect("an interim answer");
        let mut header = new.header(SmbCommand::Cancel);
        header.set_async_id(told.header.async_id());
        new.send(whole(&header, |out| cancel::Request.write(out)));
        assert_eq!(new.answer(second).expect("taken back").status(), NtStatus::CANCELLED);
        let third = waits(&mut new, &back);
        stuck.ends();
        goes_on(&mut new, third);
    });
}

/// A world with handles that can outlive the server, and a plan for its volume.
fn lasting() -> (SmbTestServer, Arc<FaultPlan>) {
    let volume = FaultyVolume::new(Arc::new(MemoryVolume::new(1)));
    let plan = Arc::clone(volume.plan());
    let journal = Arc::new(MemoryJournal::default());
    (SmbTestServer::persistent_over(Arc::new(volume), journal, &[]), plan)
}

// MS-SMB2 3.3.5.9
#[test]
fn a_replayed_create_takes_its_handle_up_behind_a_late_change() {
    let (world, plan) = lasting();
    let mut old = world.client();
    let file = old.create(&create(&[PERSISTENT])).file_id();
    assert_eq!(old.write(file, 0, b"first"), NtStatus::SUCCESS);
    let (previous, late) = (old.session_id, a_write(&mut old, file));
    let late = old.compound(vec![late], false);
    std::thread::scope(|scope| {
        let stuck = StuckCall::new(scope, &plan, VolumeCall::Write, old.delivery(late));
        let mut new = log_on_again(&world, previous);
        let mut header = new.header(SmbCommand::Create);
        header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
        let again = new.send(whole(&header, |out| create(&[PERSISTENT]).write(out)));
        assert_eq!(new.answer(again).expect("an interim answer").status(), NtStatus::PENDING);
        stuck.ends();
        goes_on(&mut new, again);
    });
}

// MS-SMB2 3.3.5.14
#[test]
fn a_lock_may_be_taken_back_until_it_lasts_and_its_handle_is_not_taken_up_before() {
    let (world, _) = lasting();
    let mut old = world.client();
    let file_id = old.create(&create(&[PERSISTENT])).file_id();
    old.holds_jobs = true;
    let flags = lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY;
    let elements = [LockElement { offset: 0, length: 5, flags }];
    old.start(SmbCommand::Lock, |out| {
        let locks = WireList::Values(&elements);
        lock::Request { lock_sequence_number: 1, lock_sequence_index: 1, file_id, locks }.write(out);
    });
    assert_eq!(old.held_jobs(), 1);
    let work = old.take_jobs();
    old.hang_up();
    let mut new = world.client();
    let flags = DurableFlags::PERSISTENT;
    let back = [RequestContext::DurableHandleReconnectV2 { file_id, create_guid: CREATE, flags }];
    let back = waits(&mut new, &create(&back));
    work();
    goes_on(&mut new, back);
}

// MS-SMB2 3.3.5.9.13
#[test]
fn the_next_instance_of_an_application_waits_for_what_the_one_before_still_changes() {
    let (world, plan) = SmbTestServer::faulty();
    let (mut old, mut new) = (world.client(), world.dial(&Dial::elsewhere()));
    let v2 = |create_guid| RequestContext::DurableHandleRequestV2 {
        timeout: 0,
        flags: DurableFlags::empty(),
        create_guid,
    };
    let asked = [v2(CREATE), RequestContext::AppInstanceId(APPLICATION)];
    let file = old.create(&create(&asked)).file_id();
    let late = a_write(&mut old, file);
    let late = old.compound(vec![late], false);
    std::thread::scope(|scope| {
        let stuck = StuckCall::new(scope, &plan, VolumeCall::Write, old.delivery(late));
        let takes = waits(&mut new, &create(&asked));
        stuck.ends();
        goes_on(&mut new, takes);
    });
    assert_eq!(old.write(file, 0, b"closed"), NtStatus::FILE_CLOSED);
}

// MS-SMB2 3.3.5.6
#[test]
fn a_file_is_opened_anew_behind_what_the_clients_ended_session_still_changes() {
    let (world, plan) = SmbTestServer::faulty();
    let mut old = world.client();
    let mut second = world.bind(&Dial::default(), &old);
    let mut other = world.dial(&Dial::elsewhere());
    let file = old.open("file");
    let late = a_write(&mut old, file);
    let late = old.compound(vec![late], false);
    std::thread::scope(|scope| {
        let stuck = StuckCall::new(scope, &plan, VolumeCall::Write, old.delivery(late));
        assert_eq!(second.status(SmbCommand::Logoff, |out| logoff::Request.write(out)), NtStatus::SUCCESS);
        let mut new = world.client();
        let late = waits(&mut new, &OpenFile::named("FILE"));
        // Other files and other clients are not affected.
        assert_eq!(new.create(&OpenFile::named("another")).status(), NtStatus::SUCCESS);
        let theirs = other.open("file");
        assert_eq!(other.close(theirs), NtStatus::SUCCESS);
        world.advance(Duration::from_secs(10));
        assert_eq!(new.answer(late).expect("it waits no longer").status(), NtStatus::FILE_NOT_AVAILABLE);
        let again = waits(&mut new, &OpenFile::named("file"));
        stuck.ends();
        goes_on(&mut new, again);
        // It is forgotten.
        assert_eq!(new.create(&OpenFile::named("file")).status(), NtStatus::SUCCESS);
    });
}

// MS-SMB2 3.3.5.2.10
#[test]
fn work_of_an_ended_session_does_not_count_among_that_of_the_next() {
    let world = SmbTestServer::in_memory();
    let mut old = world.client();
    let file = old.create(&create(&[DURABLE])).file_id();
    let flush = |peer: &mut Peer, file_id| {
        peer.holds_jobs = true;
        let id = peer.start(SmbCommand::Flush, |out| flush::Request { reserved1: 0, file_id }.write(out));
        assert!(peer.answer(id).is_none());
    };
    flush(&mut old, file);
    let work = old.take_jobs();
    old.hang_up();
    let mut new = world.client();
    let file = new.create(&create(&[RequestContext::DurableHandleReconnect(file)])).file_id();
    flush(&mut new, file);
    work();
    let mut header = new.header(SmbCommand::Write);
    header.set_channel_sequence(1);
    header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
    let replay = new.send(whole(&header, |out| write::Request::new(file, 0, b"replayed").write(out)));
    assert_eq!(new.answer(replay).expect("an answer").status(), NtStatus::FILE_NOT_AVAILABLE);
}

/// A frame that reads the file: CREATE, QUERY_INFO and CLOSE.
fn a_look(peer: &mut Peer, look: &OpenFile<'_>) -> Vec<u8> {
    let query = query_info::Request {
        info_type: InfoType::File,
        file_info_class: FileInfoClass::STREAM.0,
        output_buffer_length: 4096,
        additional_information: 0,
        flags: query_info::QueryInfoFlags::empty(),
        file_id: FileId::RELATED,
        input_buffer: &[],
    };
    let close = close::Request { flags: close::CloseFlags::empty(), file_id: FileId::RELATED };
    let messages = vec![
        peer.message(SmbCommand::Create, |out| look.write(out)),
        peer.message(SmbCommand::QueryInfo, |out| query.write(out)),
        peer.message(SmbCommand::Close, |out| close.write(out)),
    ];
    peer.compound(messages, true)
}

// MS-SMB2 3.3.5.2.10 (requests without a FileId are exempt, so a CREATE is never late)
#[test]
fn a_look_that_a_client_has_repeated_keeps_a_name_until_it_is_over_and_no_longer() {
    let (world, plan) = SmbTestServer::faulty();
    let mut lost = world.client();
    let mut kept = world.bind(&Dial::default(), &lost);
    kept.make("file", b"");
    let look = OpenFile {
        access: Access::READ_ATTRIBUTES,
        disposition: Disposition::Open,
        ..OpenFile::named("file")
    };
    let delete = OpenFile { access: Access::DELETE, options: CreateOptions::DELETE_ON_CLOSE, ..look };
    let late = a_look(&mut lost, &look);
    std::thread::scope(|scope| {
        let stuck = StuckCall::new(scope, &plan, VolumeCall::Streams, lost.delivery(late));
        // The client has noticed the loss, and repeats the frame on its remaining channel.
        let again = kept.create(&look).file_id();
        assert_eq!(kept.close(again), NtStatus::SUCCESS);
        let going = kept.create(&delete).file_id();
        assert_eq!(kept.close(going), NtStatus::SUCCESS);
        assert_eq!(kept.create(&look).status(), NtStatus::DELETE_PENDING);
        stuck.ends();
        assert_eq!(kept.create(&look).status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    });
}
