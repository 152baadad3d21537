//! The number of calls on the volume about names and attributes that requests take, with a cache of names
//! and files and without. It is the cost if each such call goes to a remote store. `nfs/tests/it/calls.rs`
//! counts the same over NFS.

use std::sync::Arc;

use smb_wire::create::{Access, CreateOptions, Disposition};
use smb_wire::fscc::FileInfoClass;
use smb_wire::query_directory::{QueryDirectoryFlags, Request};
use smb_wire::query_info::InfoType;
use smb_wire::{FileId, NtStatus, SmbCommand, Utf16, utf16};
use testkit::smb::SmbTestServer;
use testkit::smb::client::OpenFile;
use testkit::smb::peer::Peer;
use volume::faulty::{FaultPlan, VolumeCall};

/// A client that counts the calls of its requests.
struct CallCountingClient {
    _world: SmbTestServer,
    plan: Arc<FaultPlan>,
    client: Peer,
}

impl CallCountingClient {
    fn begin(remembers: bool) -> CallCountingClient {
        let (world, plan) = SmbTestServer::faulty();
        world.engine.set_metadata_caching(remembers);
        let client = world.client();
        CallCountingClient { _world: world, plan, client }
    }

    fn count<T>(&mut self, ask: impl FnOnce(&mut Peer) -> T) -> (u64, T) {
        let before = self.plan.metadata_calls();
        let answer = ask(&mut self.client);
        (self.plan.metadata_calls() - before, answer)
    }

    /// The calls of an open with these parameters, and of its close.
    fn open_and_close(&mut self, open: &OpenFile<'_>) -> (u64, u64) {
        let (opening, answer) = self.count(|client| client.create(open));
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        let (closing, status) = self.count(|client| client.close(answer.file_id()));
        assert_eq!(status, NtStatus::SUCCESS);
        (opening, closing)
    }

    fn create(&mut self, name: &str) -> (u64, u64) {
        self.open_and_close(&OpenFile { disposition: Disposition::Create, ..OpenFile::named(name) })
    }

    fn open(&mut self, name: &str) -> (u64, u64) {
        let access = Access::READ_ATTRIBUTES | Access::READ_DATA;
        self.open_and_close(&OpenFile { disposition: Disposition::Open, access, ..OpenFile::named(name) })
    }

    /// The steps of clients that look at a file: open it for its attributes, query them and close it.
    fn stat(&mut self, name: &str) -> u64 {
        let access = Access::READ_ATTRIBUTES;
        let open = OpenFile { disposition: Disposition::Open, access, ..OpenFile::named(name) };
        let (calls, ()) = self.count(|client| {
            let id = client.create(&open).file_id();
            let class = FileInfoClass::ALL.0;
            assert_eq!(client.query_info(id, InfoType::File, class, 0).status(), NtStatus::SUCCESS);
            assert_eq!(client.close(id), NtStatus::SUCCESS);
        });
        calls
    }

    fn unlink(&mut self, name: &str) -> u64 {
        let (access, options) = (Access::DELETE, CreateOptions::DELETE_ON_CLOSE);
        let open = OpenFile { disposition: Disposition::Open, access, options, ..OpenFile::named(name) };
        let (opening, closing) = self.open_and_close(&open);
        opening + closing
    }

    /// The calls of listing a directory with all fields of Explorer, and the names.
    fn list(&mut self, directory: &str) -> (u64, usize) {
        let open = OpenFile::directory(directory);
        self.count(|client| {
            let id = client.create(&open).file_id();
            let mut names = 0;
            loop {
                let answer = query_directory(client, id);
                if answer.status() == NtStatus::NO_MORE_FILES {
                    break;
                }
                assert_eq!(answer.status(), NtStatus::SUCCESS);
                names += 1;
            }
            assert_eq!(client.close(id), NtStatus::SUCCESS);
            names
        })
    }
}

fn query_directory(client: &mut Peer, file_id: FileId) -> testkit::smb::peer::ReceivedMessage {
    let pattern = utf16::encode("*");
    client.call(SmbCommand::QueryDirectory, |out| {
        Request {
            file_information_class: FileInfoClass::ID_BOTH_DIRECTORY.0,
            flags: QueryDirectoryFlags::empty(),
            file_index: 0,
            file_id,
            file_name: Utf16::new(&pattern).expect("whole units"),
            output_buffer_length: 65_536,
        }
        .write(out);
    })
}

#[test]
fn what_is_remembered_saves_calls() {
    for (remembers, expected) in [(true, [4, 1, 1, 0, 3, 4]), (false, [7, 1, 4, 1, 6, 6])] {
        let mut it = CallCountingClient::begin(remembers);
        it.create("first");
        let (made, closed) = it.create("one");
        it.open("one");
        let (opened, closed_again) = it.open("one");
        let looked = it.stat("one");
        let removed = it.unlink("one");
        assert_eq!([made, closed, opened, closed_again, looked, removed], expected, "remembers: {remembers}");
    }
}

#[test]
fn a_name_more_in_a_listing_takes_so_many_calls() {
    for (remembers, for_each) in [(true, 1), (false, 2)] {
        let counts = [10, 110].map(|files| {
            let mut it = CallCountingClient::begin(remembers);
            it.client.create(&OpenFile::directory("d"));
            for at in 0..files {
                it.create(&format!("d\\{at}"));
            }
            it.list("d");
            it.list("d").0
        });
        assert_eq!(counts[1] - counts[0], 100 * for_each, "remembers: {remembers}: {counts:?}");
    }
}

#[test]
fn listing_reads_the_directory_once() {
    let mut it = CallCountingClient::begin(false);
    it.client.create(&OpenFile::directory("d"));
    for at in 0..100 {
        it.create(&format!("d\\{at}"));
    }
    let before = it.plan.count(VolumeCall::Entries);
    it.list("d");
    assert_eq!(it.plan.count(VolumeCall::Entries) - before, 1);
}
