//! Listings of large directories with patterns that match few names. They take their time in slices, and the
//! connection handles other messages between them.

use smb_wire::cancel;
use smb_wire::query_directory::{QueryDirectoryFlags, Request, Response};
use smb_wire::{FileId, Header, NtStatus, SmbCommand, Utf16, utf16};
use testkit::smb::{Peer, SmbTestServer};

use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;

const FILES: usize = 9000;

fn directory() -> (SmbTestServer, Peer, FileId) {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = client.create(&OpenFile::directory("d")).file_id();
    for at in 0..FILES {
        let file = client.open(&format!("d\\{}{at:06}", "ab".repeat(20)));
        assert_eq!(client.close(file), NtStatus::SUCCESS);
    }
    (world, client, id)
}

fn list(client: &mut Peer, file_id: FileId, pattern: &str, flags: QueryDirectoryFlags) -> u64 {
    let name = utf16::encode(pattern);
    let header = client.header_for(SmbCommand::QueryDirectory, 65_536);
    let message = whole(&header, |out| {
        Request {
            file_information_class: smb_wire::fscc::FileInfoClass::NAMES.0,
            flags,
            file_index: 0,
            file_id,
            file_name: Utf16::new(&name).expect("whole units"),
            output_buffer_length: 65_536,
        }
        .write(out);
    });
    client.send(message)
}

/// The statuses of all replies to a request. The second one is the last.
fn statuses(client: &mut Peer, id: u64) -> Vec<NtStatus> {
    std::iter::from_fn(|| client.answer(id)).map(|answer| answer.status()).collect()
}

// MS-FSA 2.1.5.6.3
#[test]
fn a_pattern_that_selects_nothing_is_answered_after_slices_and_can_be_cancelled() {
    let (_world, mut client, id) = directory();
    let evil = "*a".repeat(200) + "x";
    let asked = list(&mut client, id, &evil, QueryDirectoryFlags::empty());
    assert_eq!(statuses(&mut client, asked), [NtStatus::PENDING, NtStatus::NO_SUCH_FILE]);
    let asked = list(&mut client, id, "", QueryDirectoryFlags::empty());
    assert_eq!(statuses(&mut client, asked), [NtStatus::NO_MORE_FILES]);
    // The last of all names is found after several slices, also with a new scan.
    let last = format!("*{:06}", FILES - 1);
    for flags in [QueryDirectoryFlags::RESTART_SCANS, QueryDirectoryFlags::REOPEN] {
        let asked = list(&mut client, id, &last, flags);
        assert_eq!(statuses(&mut client, asked), [NtStatus::PENDING, NtStatus::SUCCESS]);
        let asked = list(&mut client, id, &last, QueryDirectoryFlags::empty());
        assert_eq!(statuses(&mut client, asked), [NtStatus::NO_MORE_FILES]);
    }
    client.holds_events = true;
    let asked = list(&mut client, id, &evil, QueryDirectoryFlags::RESTART_SCANS);
    let pending = client.answer(asked).expect("an answer");
    assert_eq!(pending.status(), NtStatus::PENDING);
    let mut header = Header::request(SmbCommand::Cancel, asked);
    header.set_session_id(client.session_id);
    header.set_async_id(pending.header.async_id());
    let message = whole(&header, |out| cancel::Request.write(out));
    client.send(message);
    assert_eq!(statuses(&mut client, asked), [NtStatus::CANCELLED]);
    client.holds_events = false;
    assert!(client.is_served());
}

// MS-FSA 2.1.4.4
#[test]
fn a_name_with_a_last_dot_is_found_as_it_was_made() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let id = client.create(&OpenFile::directory("d")).file_id();
    client.make("d\\x.", b"dot");
    client.make("d\\x ", b"space");
    client.make("d\\x", b"neither");
    assert!(world.root().join("d/x.").exists());
    let mut found = |pattern: &str| {
        let asked = list(&mut client, id, pattern, QueryDirectoryFlags::REOPEN);
        let answer = client.answer(asked).expect("an answer");
        if answer.status() == NtStatus::NO_SUCH_FILE {
            return Vec::new();
        }
        let response = Response::parse(&answer.message).expect("a listing");
        let mut names = Vec::new();
        let mut rest = response.output_buffer;
        // FileNamesInformation
        while let Some(length) = rest.get(8..12) {
            let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
            names.push(Utf16::new(&rest[12..12 + length]).expect("whole units").to_string_lossy());
            let next = u32::from_le_bytes(rest[..4].try_into().expect("four bytes")) as usize;
            rest = if next == 0 { &[] } else { &rest[next..] };
        }
        names.retain(|name| ![".", ".."].contains(&name.as_str()));
        names
    };
    let (dot, space) = ("x\u{f029}", "x\u{f028}");
    for (pattern, names) in [
        ("x.", [dot].as_slice()),
        ("X.", &[dot]),
        (dot, &[dot]),
        ("*.", &[dot]),
        ("?.", &[dot]),
        ("x.*", &[dot]),
        ("x ", &[space]),
        ("* ", &[space]),
        (space, &[space]),
        ("x", &["x"]),
        ("x..", &[]),
        ("y.", &[]),
    ] {
        assert_eq!(found(pattern), names, "{pattern:?}");
    }
    assert_eq!(found("x*").len(), 3);
    // The listed name leads there too.
    for name in ["d\\x.", "d\\x\u{f029}"] {
        let file = client.open(name);
        assert_eq!(client.read(file, 0, 9).data(), b"dot");
    }
}
