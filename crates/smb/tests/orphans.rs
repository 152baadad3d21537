//! Persistent handles that their client has forgotten. It closed them while the server was away, or the
//! response to their CREATE was lost with the server. Linux's client of 6.12 does both: deferred closes run
//! out during an outage, and a CREATE is replayed once and then given up. It reconnects to all others as
//! soon as it has its session and share again.
//!
//! `SIMULATED_KILLS=seed+count` sets another number of kills.

use std::time::Duration;

use smb_wire::create::{Access, CreateOptions, Disposition, OplockLevel};
use smb_wire::create_context::{
    Contexts, DurableFlags, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext,
};
use smb_wire::fscc::FileInfoClass;
use smb_wire::header::Flags;
use smb_wire::{FileId, Guid, LeaseKey, NtStatus, SmbCommand, query_info, set_info};
use testkit::dice::{Dice, wanted_seeds};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::{ReceivedMessage, whole};
use testkit::smb::{Dial, Peer, SmbTestServer, Store};

const SECOND: Duration = Duration::from_secs(1);
/// How long after a client's return its forgotten handles may conflict with its own requests.
const IN_THE_WAY: Duration = SECOND;
const ALL: LeaseState =
    LeaseState::READ_CACHING.union(LeaseState::WRITE_CACHING).union(LeaseState::HANDLE_CACHING);
const PERSISTENT: DurableFlags = DurableFlags::PERSISTENT;

/// An open file with the parameters of its CREATE.
#[derive(Clone)]
struct OpenedFile {
    name: String,
    number: u64,
    id: FileId,
}

fn guid(number: u64) -> Guid {
    Guid((u128::from(number) << 64 | 7).to_le_bytes())
}

fn lease(number: u64) -> RequestContext<'static> {
    let v2 = Some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch: 0 });
    let key = LeaseKey((u128::from(number) << 64 | 9).to_le_bytes());
    RequestContext::Lease(Lease { key, state: ALL, flags: LeaseFlags::empty(), v2 })
}

fn asked(number: u64) -> [RequestContext<'static>; 2] {
    let durable =
        RequestContext::DurableHandleRequestV2 { timeout: 0, flags: PERSISTENT, create_guid: guid(number) };
    [durable, lease(number)]
}

fn leased<'a>(name: &'a str, contexts: &'a [RequestContext<'a>]) -> OpenFile<'a> {
    OpenFile { oplock: OplockLevel::Lease, contexts: Contexts::Requests(contexts), ..OpenFile::named(name) }
}

/// Opens or creates a file as Linux does.
fn open(client: &mut Peer, name: &str, number: u64) -> OpenedFile {
    let id = client.create(&leased(name, &asked(number))).file_id();
    OpenedFile { name: name.to_owned(), number, id }
}

/// Repeats the CREATE whose response was lost.
fn replay(client: &mut Peer, name: &str, number: u64) -> ReceivedMessage {
    let mut header = client.header(SmbCommand::Create);
    header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
    let contexts = asked(number);
    let id = client.send(whole(&header, |out| leased(name, &contexts).write(out)));
    client.answer(id).expect("an answer to CREATE")
}

/// Reconnects to a file.
fn take_up(client: &mut Peer, held: &OpenedFile) -> ReceivedMessage {
    let back = RequestContext::DurableHandleReconnectV2 {
        file_id: held.id,
        create_guid: guid(held.number),
        flags: PERSISTENT,
    };
    client.create(&leased(&held.name, &[back, lease(held.number)]))
}

/// Removes a name as Linux does, by an open without other effects. `meanwhile` runs while that waits.
fn remove_meanwhile(
    client: &mut Peer,
    name: &str,
    is_directory: bool,
    mut meanwhile: impl FnMut(),
) -> NtStatus {
    let kind = if is_directory { CreateOptions::DIRECTORY_FILE } else { CreateOptions::NON_DIRECTORY_FILE };
    let answer = client.create(&OpenFile {
        access: Access::DELETE,
        disposition: Disposition::Open,
        options: kind,
        ..OpenFile::named(name)
    });
    if answer.status() != NtStatus::SUCCESS {
        return answer.status();
    }
    let id = answer.file_id();
    let asked = client.start(SmbCommand::SetInfo, |out| {
        set_info::Request {
            info_type: query_info::InfoType::File,
            file_info_class: FileInfoClass::DISPOSITION.0,
            additional_information: 0,
            file_id: id,
            buffer: &[1],
        }
        .write(out);
    });
    // It waits without an interim response.
    let status = loop {
        match client.answer(asked).map(|answer| answer.status()) {
            None | Some(NtStatus::PENDING) => meanwhile(),
            Some(status) => break status,
        }
        client.turn();
    };
    assert_eq!(client.close(id), NtStatus::SUCCESS);
    status
}

/// Removes a name without a wait.
fn remove(client: &mut Peer, name: &str, is_directory: bool) -> NtStatus {
    remove_meanwhile(client, name, is_directory, || panic!("{name} is waited for"))
}

#[test]
fn what_its_client_does_not_take_up_is_not_in_the_way_of_anybody_for_long() {
    let mut store = Store::new();
    let mut client = store.serve().client();
    client.create(&OpenFile::directory("d"));
    let known = open(&mut client, "d\\known", 1);
    // It is closed while the server is away.
    let unknown = open(&mut client, "d\\unknown", 2);
    // Four restarts. Its time could start again after each.
    for _ in 0..3 {
        store.serve().advance(20 * SECOND);
    }
    let world = store.serve();
    world.advance(20 * SECOND);
    let mut client = world.client();
    let id = take_up(&mut client, &known).file_id();
    assert_eq!(remove(&mut client, "d\\unknown", false), NtStatus::FILE_NOT_AVAILABLE);
    world.advance(IN_THE_WAY - Duration::from_millis(1));
    assert_eq!(remove(&mut client, "d\\unknown", false), NtStatus::FILE_NOT_AVAILABLE);
    world.advance(Duration::from_millis(1));
    assert_eq!(remove(&mut client, "d\\unknown", false), NtStatus::SUCCESS);
    assert_eq!(client.close(id), NtStatus::SUCCESS);
    assert_eq!(remove(&mut client, "d\\known", false), NtStatus::SUCCESS);
    assert_eq!(remove(&mut client, "d", true), NtStatus::SUCCESS);
    assert_eq!(take_up(&mut client, &unknown).status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0));
}

#[test]
fn a_name_that_went_with_it_does_not_keep_a_directory() {
    let mut store = Store::new();
    let mut client = store.serve().client();
    client.create(&OpenFile::directory("d"));
    let held = open(&mut client, "d\\f", 1);
    // The same as an unlink by Linux: the name is removed with the last open, whose CLOSE is never sent.
    mark(&mut client, &held);
    let world = store.serve();
    let mut client = world.client();
    // Another client gets its status at once. The handle's own client waits until it is clear that it does
    // not reconnect to the file.
    assert_eq!(remove(&mut world.dial(&Dial::elsewhere()), "d", true), NtStatus::DIRECTORY_NOT_EMPTY);
    let mut seconds = 0;
    let removed = remove_meanwhile(&mut client, "d", true, || {
        world.advance(SECOND);
        seconds += 1;
    });
    assert_eq!((removed, seconds), (NtStatus::SUCCESS, 1));
    assert_eq!(world.engine.open_count(), 0);
}

#[test]
fn what_may_still_be_asked_for_is_kept() {
    let mut store = Store::new();
    let mut client = store.serve().client();
    let held: Vec<OpenedFile> = (0..5).map(|n| open(&mut client, &format!("f{n}"), n)).collect();
    let bert = Dial { user: "bert".into(), ..Dial::default() };
    let of_bert = open(&mut store.serve().dial(&bert), "b", 9);
    // While a client goes on reconnecting, none of its handles ends, even after the time.
    let world = store.serve();
    let mut client = world.client();
    for held in &held[..4] {
        world.advance(9 * SECOND);
        assert_eq!(take_up(&mut client, held).status(), NtStatus::SUCCESS, "{}", held.name);
    }
    assert_eq!(world.server.opens.len(), 6);
    // Its last one and another user's are still to come. None conflicts with another.
    world.advance(9 * SECOND);
    assert_eq!(world.server.opens.len(), 6);
    world.advance(SECOND);
    assert_eq!(world.server.opens.len(), 5);
    assert_eq!(take_up(&mut client, &held[4]).status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    let mut bert = world.dial(&bert);
    assert_eq!(take_up(&mut bert, &of_bert).status(), NtStatus::SUCCESS);
    // A handle whose client returns late has its whole time. The return of another client does not count.
    let world = store.serve();
    let _other = world.dial(&Dial::elsewhere());
    world.advance(59 * SECOND);
    assert_eq!(world.server.opens.len(), 5);
}

/// Marks a name for deletion with its own lease key. It is removed with the last open.
fn mark(client: &mut Peer, held: &OpenedFile) {
    let contexts = [lease(held.number)];
    let unlinking = OpenFile {
        access: Access::DELETE,
        disposition: Disposition::Open,
        options: CreateOptions::DELETE_ON_CLOSE,
        ..leased(&held.name, &contexts)
    };
    let id = client.create(&unlinking).file_id();
    assert_eq!(client.close(id), NtStatus::SUCCESS);
}

/// The objects that a client has made in the directory `d` when the server is killed.
#[derive(Default)]
struct ClientObjects {
    names: Vec<String>,
    /// Its Opens that it knows of.
    known: Vec<OpenedFile>,
    /// A CREATE whose response was lost.
    lost: Option<(String, u64)>,
    /// A name with a delete on close whose open was closed while the server was away.
    going: Option<String>,
}

/// Makes objects at random. `number` counts the opens.
fn make(client: &mut Peer, dice: &mut Dice, number: &mut u64) -> ClientObjects {
    client.create(&OpenFile::directory("d"));
    let mut made = ClientObjects::default();
    let mut next = || {
        *number += 1;
        *number
    };
    for at in 0..1 + dice.below(4) {
        let name = format!("d\\{at}");
        made.known.push(open(client, &name, next()));
        made.names.push(name);
    }
    if dice.chance(1, 2) {
        let (name, number) = (format!("d\\lost{}", dice.below(2)), next());
        open(client, &name, number);
        made.lost = Some((name, number));
    }
    if dice.chance(1, 3) {
        let held = made.known.remove(dice.below(made.known.len()));
        assert_eq!(client.close(held.id), NtStatus::SUCCESS);
    }
    if dice.chance(1, 3) && !made.known.is_empty() {
        let held = made.known.remove(dice.below(made.known.len()));
        mark(client, &held);
        made.going = Some(held.name);
    }
    // Closed while the server is away.
    made.known.retain(|_| dice.chance(1, 2));
    made
}

/// Reconnects to all known Opens and removes all objects. Returns whether that succeeded.
fn clear(client: &mut Peer, world: &SmbTestServer, dice: &mut Dice, made: &ClientObjects) -> bool {
    let is_closed = |client: &mut Peer, answer: ReceivedMessage| {
        answer.status() == NtStatus::SUCCESS && client.close(answer.file_id()) == NtStatus::SUCCESS
    };
    let mut is_right = true;
    for held in &made.known {
        let answer = take_up(client, held);
        is_right &= is_closed(client, answer);
    }
    // A client gives a CREATE up if it gets no response twice.
    if let Some((name, number)) = made.lost.as_ref().filter(|_| dice.chance(1, 2)) {
        let answer = replay(client, name, *number);
        is_right &= is_closed(client, answer);
    }
    let is_alone = made.names.len() == 1 && made.going.is_some() && made.lost.is_none();
    // Otherwise the directory is removed at once, and that waits.
    if !is_alone {
        world.advance(IN_THE_WAY);
        for name in made.names.iter().map(String::as_str).chain(["d\\lost0", "d\\lost1"]) {
            let gone = [NtStatus::SUCCESS, NtStatus::OBJECT_NAME_NOT_FOUND];
            is_right &= gone.contains(&remove(client, name, false));
        }
    }
    let removed = remove_meanwhile(client, "d", true, || world.advance(SECOND));
    is_right && removed == NtStatus::SUCCESS && world.engine.open_count() == 0
}

/// Kills the server again and again. Returns how many times the client could not do its work.
fn kills(seed: u64, count: u64) -> u64 {
    let (mut store, mut dice, mut number) = (Store::new(), Dice::new(seed), 0);
    let mut client = store.serve().client();
    let mut failures = 0;
    for kill in 0..count {
        let made = make(&mut client, &mut dice, &mut number);
        let mut world = store.serve();
        while dice.chance(1, 4) {
            world.advance(SECOND * dice.below(30) as u32);
            world = store.serve();
        }
        world.advance(SECOND * dice.below(20) as u32);
        client = world.client();
        if !clear(&mut client, &world, &mut dice, &made) {
            failures += 1;
            println!("seed {seed}, kill {kill}: the directory could not be removed");
            // The rest ends then.
            world.advance(300 * SECOND);
        }
    }
    failures
}

#[test]
fn a_client_that_is_back_removes_what_it_has_left() {
    let told = wanted_seeds("SIMULATED_KILLS").unwrap_or(1..201);
    assert_eq!(kills(told.start, told.end - told.start), 0);
}
