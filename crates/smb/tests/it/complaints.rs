//! The log lines about refused requests, at the default log level: they say who sent the request and why it
//! was refused. Their number is limited.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auth::{Signer, SigningAlgorithm};
use smb_wire::create::{OplockLevel, ShareAccess};
use smb_wire::create_context::{Contexts, DurableFlags, LeaseState, RequestContext};
use smb_wire::header::Flags;
use smb_wire::negotiate::Dialect;
use smb_wire::oplock_break::{self, AcknowledgedLease, Oplock};
use smb_wire::{FileId, Guid, LeaseKey, NtStatus, SmbCommand, write};
use testkit::smb::bind::Binding;
use testkit::smb::client::{OpenFile, write_first_setup};
use testkit::smb::peer::{ReceivedMessage, sign_with, whole};
use testkit::smb::{Dial, Peer, SmbTestServer};
use tracing_subscriber::fmt::MakeWriter;
use volume::journal::MemoryJournal;
use volume::memory::MemoryVolume;

/// The lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

/// Runs `act` and returns its log lines.
fn logged(act: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let lines = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(log.clone());
    tracing::subscriber::with_default(lines.finish(), act);
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

/// Checks that `act` writes one line with these words, the peer's address, the session with this id and its
/// user.
fn told(session_id: u64, act: impl FnOnce(), words: &str) {
    let lines = logged(act);
    let [line] = &lines[..] else { panic!("{words:?} in {lines:#?}") };
    for word in [words, "peer=127.0.0.1:50000", &format!("session={session_id}"), "user=\"anna\"", "INFO"] {
        assert!(line.contains(word), "{word:?} in {line}");
    }
}

fn create(peer: &mut Peer, open: &OpenFile<'_>, is_replay: bool) -> ReceivedMessage {
    let mut header = peer.header(SmbCommand::Create);
    if is_replay {
        header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
    }
    let id = peer.send(whole(&header, |out| open.write(out)));
    peer.answer(id).expect("an answer to CREATE")
}

const fn v2(flags: DurableFlags) -> RequestContext<'static> {
    RequestContext::DurableHandleRequestV2 { timeout: 0, flags, create_guid: Guid(*b"first of creates") }
}

const PLAIN: RequestContext<'static> = v2(DurableFlags::empty());
const PERSISTENT: RequestContext<'static> = v2(DurableFlags::PERSISTENT);

#[test]
fn a_stolen_session_id_is_told_of_and_one_that_was_never_given_is_not() {
    let world = SmbTestServer::in_memory();
    let main = world.client();
    let owner = main.session_id;
    let mut thief = world.peer();
    thief.negotiate_hashed(&Dial::default());
    let gone = NtStatus::USER_SESSION_DELETED;
    thief.session_id = owner;
    let opens = |thief: &mut Peer| assert_eq!(create(thief, &OpenFile::named("f"), false).status(), gone);
    told(owner, || opens(&mut thief), "Create refused: the session is one of other connections");
    // A log-on without the flag of a binding.
    let logs_on = |thief: &mut Peer| {
        assert_eq!(thief.status(SmbCommand::SessionSetup, write_first_setup), gone);
    };
    told(owner, || logs_on(&mut thief), "SessionSetup refused: the session is one of other connections");
    thief.session_id = owner ^ 1;
    assert!(logged(|| opens(&mut thief)).is_empty());
}

#[test]
fn each_refused_binding_is_told_of() {
    let dial = Dial::default();
    let world = SmbTestServer::in_memory();
    let mut main = world.dial(&dial);
    let session = main.session_id;
    let binds = |dial: &Dial, main: &Peer, status| assert_eq!(world.try_bind(dial, main).1, status);
    let bert = Dial { user: "bert".into(), ..dial.clone() };
    let words = "the session belongs to another user than bert";
    told(session, || binds(&bert, &main, NtStatus::ACCESS_DENIED), words);
    let older = Dial { signing: SigningAlgorithm::AesCmac, ..dial.clone() };
    let old = world.dial(&Dial { guid: Guid(*b"an older client!"), ..Dial::with(Dialect::Smb302) });
    let words = "the session was made with another dialect";
    told(old.session_id, || binds(&older, &old, NtStatus::INVALID_PARAMETER), words);
    let unsigned = || {
        let mut peer = world.peer();
        let preauth = peer.negotiate_hashed(&dial);
        let mut binding = Binding::new(&dial, &main, preauth);
        binding.signer = None;
        assert_eq!(binding.finish(&mut peer), NtStatus::INVALID_PARAMETER);
    };
    told(session, unsigned, "the request is not signed");
    // A session whose own log-on is under way has no user yet.
    let mut half = world.peer();
    half.negotiate_hashed(&dial);
    let under_way = half.call(SmbCommand::SessionSetup, write_first_setup).header.session_id();
    half.session_id = under_way;
    half.keys.insert(under_way, main.keys[&session].clone());
    let lines = logged(|| binds(&dial, &half, NtStatus::REQUEST_NOT_ACCEPTED));
    let words = ["the session's own log-on is not done yet".to_owned(), format!("session={under_way}")];
    assert!(matches!(&lines[..], [line] if words.iter().all(|word| line.contains(word))), "{lines:#?}");
    // The fifth channel.
    let mut others: Vec<Peer> = (0..3).map(|_| world.bind(&dial, &main)).collect();
    let words = "as many channels as max_channels lets it have";
    told(session, || binds(&dial, &main, NtStatus::INSUFFICIENT_RESOURCES), words);
    assert!(main.is_served() && others.iter_mut().all(Peer::is_served));
}

#[test]
fn a_wrong_or_missing_signature_is_told_of() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let session = client.session_id;
    let sends = |client: &mut Peer, sign: &dyn Fn(&mut [u8])| {
        let nowhere = FileId { persistent: 1, volatile: 1 };
        let body = |out: &mut Vec<u8>| write::Request::new(nowhere, 0, b"x").write(out);
        let mut message = client.message(SmbCommand::Write, body);
        sign(&mut message);
        client.deliver(message);
        assert_eq!(client.next().expect("an answer").status(), NtStatus::ACCESS_DENIED);
    };
    let other = Signer::new(SigningAlgorithm::AesGmac, &[7; 16]);
    let wrong = || sends(&mut client, &|message| sign_with(&other, message));
    told(session, wrong, "Write refused: its signature is wrong");
    told(session, || sends(&mut client, &|_| ()), "Write refused: it is not signed");
}

#[test]
fn an_acknowledgement_for_what_one_does_not_hold_is_told_of() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let (session, file) = (client.session_id, client.open("f"));
    let mut answers = |request: oplock_break::Request, status| {
        assert_eq!(client.status(SmbCommand::OplockBreak, |out| request.write(out)), status);
    };
    let lease = AcknowledgedLease { key: LeaseKey([7; 16]), state: LeaseState::empty() };
    let of_lease = || answers(oplock_break::Request::Lease(lease), NtStatus::OBJECT_NAME_NOT_FOUND);
    told(session, of_lease, "acknowledgement refused: no break of a lease");
    let oplock = Oplock { oplock_level: OplockLevel::None, file_id: file };
    let of_oplock = || answers(oplock_break::Request::Oplock(oplock), NtStatus::INVALID_DEVICE_STATE);
    told(session, of_oplock, "acknowledgement refused: no break of an oplock");
}

#[test]
fn a_replay_that_is_refused_is_told_of() {
    let (memory, journal) = (MemoryVolume::new(1), Arc::new(MemoryJournal::default()));
    let world = SmbTestServer::persistent(&memory, &journal);
    let mut client = world.client();
    let (plain, persistent) = ([PLAIN], [PERSISTENT]);
    let open = OpenFile { contexts: Contexts::Requests(&persistent), ..OpenFile::named("f") };
    let weaker = OpenFile { contexts: Contexts::Requests(&plain), ..OpenFile::named("f") };
    let file = create(&mut client, &open, false).file_id();
    let sends = |peer: &mut Peer, open: &OpenFile<'_>, is_replay, status, words: &str| {
        let session = peer.session_id;
        told(session, || assert_eq!(create(peer, open, is_replay).status(), status), words);
    };
    let duplicate = NtStatus::DUPLICATE_OBJECTID;
    sends(&mut client, &open, false, duplicate, "CREATE refused: another of its client has its CreateGuid");
    sends(&mut world.client(), &open, true, duplicate, "CREATE refused: what it made is another session's");
    sends(&mut client, &weaker, true, NtStatus::INVALID_PARAMETER, "does not ask for a persistent handle");
    assert_eq!(client.write(file, 0, b"text"), NtStatus::SUCCESS);
    sends(&mut client, &open, true, NtStatus::FILE_NOT_AVAILABLE, "the handle that it made is in use");
    client.hang_up();
    let other = OpenFile { share: ShareAccess::READ, ..open };
    let words = "CREATE refused: it asks for something else than at first";
    sends(&mut world.client(), &other, true, NtStatus::CONTEXT_MISMATCH, words);
}

#[test]
fn what_comes_late_over_a_lost_channel_is_told_of() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let (session, file) = (client.session_id, client.open("f"));
    let mut writes = |sequence: u16, status| {
        let mut header = client.header(SmbCommand::Write);
        header.set_channel_sequence(sequence);
        let id = client.send(whole(&header, |out| write::Request::new(file, 0, b"x").write(out)));
        assert_eq!(client.answer(id).expect("an answer").status(), status);
    };
    assert!(logged(|| writes(1, NtStatus::SUCCESS)).is_empty());
    let late = || writes(0, NtStatus::FILE_NOT_AVAILABLE);
    told(session, late, "Write refused: its ChannelSequence is an older one");
}

#[test]
fn who_asks_without_pause_does_not_fill_the_log() {
    let world = SmbTestServer::in_memory();
    let main = world.client();
    let dial = Dial { password: "wrong".into(), ..Dial::default() };
    // Each time over another connection.
    let ask = || drop(world.try_bind(&dial, &main));
    let refused =
        |lines: Vec<String>| lines.into_iter().filter(|line| line.contains("channel refused")).count();
    assert_eq!(refused(logged(|| (0..30).for_each(|_| ask()))), 10);
    world.advance(Duration::from_secs(61));
    let lines = logged(ask);
    assert!(lines.iter().any(|line| line.contains("left_out=20")), "{lines:#?}");
}
