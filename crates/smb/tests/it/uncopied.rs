//! READs without a copy of the data: the responses are the same, and the path is used only if nothing
//! protects them.

use smb_wire::{FileId, NtStatus, SmbCommand, lock, read};
use testkit::smb::{Dial, Peer, SmbTestServer};
use volume::{Name, OpenHow, Volume};
use volume_posix::PosixVolume;
use wire::SendFile;

const MIB: usize = 1 << 20;

fn content() -> Vec<u8> {
    (0..MIB + 1000).map(|at| (at % 253) as u8).collect()
}

fn plain() -> Dial {
    Dial { requires_signing: false, ..Dial::default() }
}

fn configure(world: &SmbTestServer, send_file: SendFile) {
    world.engine.configure(share::Config { send_file, ..share::Config::clone(&world.engine.config()) });
}

/// A client with an open file of slightly more than a MiB.
fn opened(world: &SmbTestServer, dial: &Dial) -> (Peer, FileId) {
    let mut client = world.dial(dial);
    client.make("large", &content());
    let id = client.open("large");
    (client, id)
}

/// Whether the host reports that the file is in memory. It does since Linux 6.5.
fn host_tells(world: &SmbTestServer) -> bool {
    let volume = PosixVolume::open(&world.root(), &world.outside()).expect("it can be served");
    let root = volume.root().expect("the root");
    let file = root.lookup(&Name::new(b"large").expect("a name"), OpenHow::Read).expect("the file");
    file.range(0, MIB).expect("it may be read").is_some()
}

#[test]
fn a_large_plain_read_is_not_copied_and_says_the_same() {
    let world = SmbTestServer::on_disk();
    configure(&world, SendFile::Always);
    let (mut client, id) = opened(&world, &plain());
    let tells = host_tells(&world);
    let content = content();
    for (at, len) in [(0, MIB), (1, MIB), (500, 200_000), (MIB - 200_000, 300_000), (MIB, 5000), (7, 4096)] {
        let before = client.uncopied;
        let there = &content[at..content.len().min(at + len)];
        assert!(client.read(id, at as u64, len as u32).data() == there, "{len} at {at}");
        assert_eq!(
            client.uncopied - before,
            usize::from(tells && there.len() >= 128 * 1024),
            "{len} at {at}"
        );
    }
    let behind = client.read(id, 2 * MIB as u64, MIB as u32);
    assert_eq!(behind.status(), NtStatus::END_OF_FILE);
}

#[test]
fn what_is_signed_sealed_or_one_of_several_answers_is_copied() {
    let world = SmbTestServer::on_disk();
    configure(&world, SendFile::Always);
    for dial in [Dial::default(), Dial { seals: true, ..Dial::default() }] {
        let (mut client, id) = opened(&world, &dial);
        assert!(client.read(id, 0, MIB as u32).data() == &content()[..MIB]);
        assert_eq!(client.uncopied, 0);
    }
    let (mut client, id) = opened(&world, &plain());
    let wanted = 200_000;
    let mut messages = Vec::new();
    for _ in 0..2 {
        let header = client.header_for(SmbCommand::Read, wanted);
        messages.push(testkit::smb::peer::whole(&header, |out| {
            read::Request::new(id, 0, wanted as u32).write(out)
        }));
    }
    let frame = client.compound(messages, false);
    client.deliver(frame);
    for _ in 0..2 {
        assert!(client.next().expect("an answer").data() == &content()[..wanted]);
    }
    assert_eq!(client.uncopied, 0);
}

#[test]
fn a_share_may_ask_for_copies_and_the_transport_is_not_asked_then() {
    let world = SmbTestServer::on_disk();
    configure(&world, SendFile::Never);
    let (mut client, id) = opened(&world, &plain());
    client.transfer().set_uncopied(true);
    assert!(client.read(id, 0, MIB as u32).data() == &content()[..MIB]);
    assert_eq!((client.uncopied, client.transfer().take_chosen()), (0, 0));
}

#[test]
fn large_reads_leave_as_the_transport_says_unless_the_share_says_how() {
    let world = SmbTestServer::on_disk();
    let (mut client, id) = opened(&world, &plain());
    let tells = host_tells(&world);
    for uncopied in [false, true, false] {
        client.transfer().set_uncopied(uncopied);
        let before = client.uncopied;
        assert!(client.read(id, 0, MIB as u32).data() == &content()[..MIB]);
        client.read(id, 0, 4096);
        assert_eq!(client.uncopied - before, usize::from(tells && uncopied), "{uncopied}");
        assert_eq!(client.transfer().take_chosen(), MIB as u64, "the small one is no choice");
    }
}

#[test]
fn a_byte_range_of_another_open_is_in_the_way_of_a_large_read_too() {
    let world = SmbTestServer::on_disk();
    let (mut client, id) = opened(&world, &plain());
    let mut other = world.dial(&Dial { guid: smb_wire::Guid(*b"a second machine"), ..plain() });
    let theirs = other.open("large");
    let element = lock::LockElement {
        offset: 1000,
        length: 1,
        flags: lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY,
    };
    let locked = other.status(SmbCommand::Lock, |out| {
        lock::Request {
            lock_sequence_number: 0,
            lock_sequence_index: 0,
            file_id: theirs,
            locks: smb_wire::WireList::Values(&[element]),
        }
        .write(out);
    });
    assert_eq!(locked, NtStatus::SUCCESS);
    assert_eq!(client.read(id, 0, MIB as u32).status(), NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(client.read(id, 1001, MIB as u32).status(), NtStatus::SUCCESS);
}
