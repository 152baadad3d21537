//! The use of a lease key: for one file by its name, until that file is to be deleted (MS-SMB2 3.3.5.9.8,
//! 3.3.5.9.11).

use smb_wire::create::{self, CreateOptions, OplockLevel};
use smb_wire::create_context::{Contexts, Lease, LeaseFlags, LeaseState, RequestContext, ResponseContext};
use smb_wire::fscc::FileInfoClass;
use smb_wire::oplock_break;
use smb_wire::{FileId, LeaseKey, NtStatus, SmbCommand, query_info, set_info, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::ReceivedMessage;
use testkit::smb::{Dial, Peer, SmbTestServer};

const KEY: LeaseKey = LeaseKey(*b"the client's key");
const KEPT: LeaseState = LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING);

/// Opens a file with the key, one more context and these options.
fn open_with(
    client: &mut Peer,
    name: &str,
    options: CreateOptions,
    more: Option<RequestContext<'static>>,
) -> ReceivedMessage {
    let lease = Lease { key: KEY, state: KEPT, flags: LeaseFlags::empty(), v2: None };
    let asked: Vec<_> = more.into_iter().chain([RequestContext::Lease(lease)]).collect();
    let contexts = Contexts::Requests(&asked);
    client.create(&OpenFile { oplock: OplockLevel::Lease, contexts, options, ..OpenFile::named(name) })
}

fn open(client: &mut Peer, name: &str) -> ReceivedMessage {
    open_with(client, name, CreateOptions::empty(), None)
}

/// The granted part of the lease in a response.
fn granted(answer: &ReceivedMessage) -> LeaseState {
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    let response = create::Response::parse(&answer.message).unwrap();
    let mut contexts = response.contexts.responses();
    contexts
        .find_map(|context| match context.unwrap() {
            ResponseContext::Lease(lease) if lease.key == KEY => Some(lease.state),
            _ => None,
        })
        .expect("an answer on the lease")
}

fn set(client: &mut Peer, id: FileId, class: FileInfoClass, buffer: &[u8]) -> NtStatus {
    client.status(SmbCommand::SetInfo, |out| {
        let info_type = query_info::InfoType::File;
        set_info::Request {
            info_type,
            file_info_class: class.0,
            additional_information: 0,
            file_id: id,
            buffer,
        }
        .write(out);
    })
}

fn rename(client: &mut Peer, id: FileId, name: &str) -> NtStatus {
    let name = utf16::encode(name);
    let mut buffer = vec![0; 16];
    buffer.extend((name.len() as u32).to_le_bytes());
    buffer.extend(&name);
    set(client, id, FileInfoClass::RENAME, &buffer)
}

#[test]
fn a_key_is_for_one_file_until_that_is_to_go() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    for (dies, options) in
        [("disposition", CreateOptions::empty()), ("close", CreateOptions::DELETE_ON_CLOSE)]
    {
        client.make("other", b"");
        let first = open(&mut client, dies);
        assert_eq!(granted(&first), KEPT);
        assert_eq!(open(&mut client, "other").status(), NtStatus::INVALID_PARAMETER);
        assert_eq!(open(&mut client, "new").status(), NtStatus::INVALID_PARAMETER);
        let second = open_with(&mut client, dies, options, None);
        if options.is_empty() {
            assert_eq!(
                set(&mut client, first.file_id(), FileInfoClass::DISPOSITION, &[1]),
                NtStatus::SUCCESS
            );
        }
        // The key still has the first file, so it gives no caching rights on another.
        for name in ["other", "new"] {
            let answer = open(&mut client, name);
            assert_eq!(granted(&answer), LeaseState::empty());
            assert_eq!(client.close(answer.file_id()), NtStatus::SUCCESS);
        }
        // Its right is still on the first.
        assert!(client.notice().is_none());
        let given = oplock_break::AcknowledgedLease { key: KEY, state: LeaseState::empty() };
        let status =
            client.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Lease(given).write(out));
        assert_eq!(status, NtStatus::UNSUCCESSFUL);
        assert_eq!(client.close(second.file_id()), NtStatus::SUCCESS);
        assert_eq!(client.close(first.file_id()), NtStatus::SUCCESS);
        let free = open(&mut client, "other");
        assert_eq!(granted(&free), KEPT);
        assert_eq!(open(&mut client, dies).status(), NtStatus::INVALID_PARAMETER);
        assert_eq!(client.close(free.file_id()), NtStatus::SUCCESS);
    }
}

// MS-SMB2 3.3.5.21.1
#[test]
fn a_file_that_got_another_name_counts_by_that_again() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let first = open_with(&mut client, "first", CreateOptions::DELETE_ON_CLOSE, None).file_id();
    let new = open(&mut client, "new");
    assert_eq!(client.close(new.file_id()), NtStatus::SUCCESS);
    assert_eq!(rename(&mut client, first, "second"), NtStatus::SUCCESS);
    assert_eq!(open(&mut client, "new").status(), NtStatus::INVALID_PARAMETER);
    assert_eq!(granted(&open(&mut client, "second")), KEPT);
}

// MS-SMB2 3.3.5.9.7
#[test]
fn a_handle_whose_file_is_to_go_comes_back_under_any_name() {
    for marked in [false, true] {
        let world = SmbTestServer::in_memory();
        let mut client = world.client();
        let durable = Some(RequestContext::DurableHandleRequest);
        let id = open_with(&mut client, "f", CreateOptions::empty(), durable).file_id();
        if marked {
            assert_eq!(set(&mut client, id, FileInfoClass::DISPOSITION, &[1]), NtStatus::SUCCESS);
        }
        client.hang_up();
        let mut client = world.dial(&Dial::default());
        let back = Some(RequestContext::DurableHandleReconnect(id));
        let expected = if marked { NtStatus::SUCCESS } else { NtStatus::INVALID_PARAMETER };
        assert_eq!(open_with(&mut client, "g", CreateOptions::empty(), back).status(), expected);
    }
}

// MS-SMB2 3.3.4.7
// MS-SMB2 3.3.5.22.2
#[test]
fn a_late_answer_to_an_earlier_break_does_not_keep_the_next_notice_back() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = open(&mut client, "f").file_id();
    let mut other = world.dial(&Dial::elsewhere());
    let theirs = other.open("f");
    // This breaks the lease. An acknowledgment of an earlier break comes before the notice is sent.
    assert_eq!(other.write(theirs, 0, b"new"), NtStatus::SUCCESS);
    let given = oplock_break::AcknowledgedLease { key: KEY, state: LeaseState::empty() };
    let acknowledge = |client: &mut Peer| {
        client.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Lease(given).write(out))
    };
    assert_eq!(acknowledge(&mut client), NtStatus::SUCCESS);
    assert!(client.notice().is_some(), "the client does not know yet that it holds nothing");
    assert_eq!(acknowledge(&mut client), NtStatus::UNSUCCESSFUL);
    assert!(client.notice().is_none());
    assert_eq!(client.close(id), NtStatus::SUCCESS);
}
