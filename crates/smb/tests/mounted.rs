//! File systems that are mounted below a share, as a client sees them. Without the privilege to mount, each
//! test says that it was skipped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};

use smb_wire::fscc::{FileInfoClass, FsInfoClass};
use smb_wire::query_directory::{QueryDirectoryFlags, Request, Response};
use smb_wire::query_info::InfoType;
use smb_wire::{NtStatus, SmbCommand, Utf16, utf16};
use testkit::smb::SmbTestServer;
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;

/// A mount. The drop of this value unmounts it.
struct TestMount(PathBuf);

impl Drop for TestMount {
    fn drop(&mut self) {
        let _ = Program::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Mounts a file system at a new path. Returns `None` if that is not possible, and the test is skipped.
fn mounted(at: &Path, (kind, options): (&str, &str), input: Stdio) -> Option<TestMount> {
    std::fs::create_dir_all(at).expect("a directory");
    let mut mount = Program::new("mount");
    mount.args(["-i", "-t", kind, "-o", options, "none"]).arg(at).stdin(input).stderr(Stdio::null());
    if mount.status().is_ok_and(|status| status.success()) {
        return Some(TestMount(at.to_owned()));
    }
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: no {kind} can be mounted here");
    None
}

#[test]
fn room_is_that_of_the_file_system_that_a_file_is_on() {
    let world = SmbTestServer::on_disk();
    let top = world.root().join("m");
    let Some(_mounted) = mounted(&top, ("tmpfs", "size=256k"), Stdio::null()) else { return };
    let mut client = world.client();
    let mut total = |name: &str| {
        let open = client.open(name);
        let sizes = [FsInfoClass::SIZE, FsInfoClass::FULL_SIZE].map(|class| {
            let answer = client.query_info(open, InfoType::Filesystem, class.0, 0);
            assert_eq!(answer.status(), NtStatus::SUCCESS);
            let response = smb_wire::output::Response::parse(&answer.message).expect("an answer");
            let bytes = response.output_buffer.to_vec();
            let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            let units = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            units * u64::from(number(bytes.len() - 8)) * u64::from(number(bytes.len() - 4))
        });
        assert_eq!(sizes[0], sizes[1]);
        sizes[0]
    };
    let (own, below) = (total("own"), total("m\\f"));
    assert_eq!(below, 256 << 10);
    assert_ne!(own, below);
}

/// The process behind the mount is gone, or allows only another user.
#[test]
fn a_directory_that_the_host_lists_and_does_not_show_is_listed_as_one() {
    for user in [0, 1] {
        let world = SmbTestServer::on_disk();
        std::fs::write(world.root().join("own"), "own").expect("a file");
        let Ok(device) = std::fs::File::options().read(true).write(true).open("/dev/fuse") else {
            eprintln!("skipped: /dev/fuse cannot be opened");
            return;
        };
        let options = format!("fd=0,rootmode=40000,user_id={user},group_id={user}");
        let top = world.root().join("dead");
        let Some(_mounted) = mounted(&top, ("fuse", &options), device.into()) else { return };
        let mut client = world.client();
        let root = client.create(&OpenFile::directory("")).file_id();
        for (pattern, expected) in [("*", &["dead", "own"][..]), ("dead", &["dead"])] {
            let name = utf16::encode(pattern);
            let header = client.header_for(SmbCommand::QueryDirectory, 65_536);
            let message = whole(&header, |out| {
                Request {
                    file_information_class: FileInfoClass::DIRECTORY.0,
                    flags: QueryDirectoryFlags::REOPEN,
                    file_index: 0,
                    file_id: root,
                    file_name: Utf16::new(&name).expect("whole units"),
                    output_buffer_length: 65_536,
                }
                .write(out);
            });
            let id = client.send(message);
            let answer = client.answer(id).expect("an answer");
            assert_eq!(answer.status(), NtStatus::SUCCESS, "{pattern}");
            let listed = listed(Response::parse(&answer.message).expect("a listing").output_buffer);
            let mut names: Vec<_> = listed.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, expected);
            let is_directory =
                listed.iter().all(|(name, attributes)| (attributes & 0x10 != 0) == (name == "dead"));
            assert!(is_directory, "{listed:?}");
        }
    }
}

/// The names of FileDirectoryInformation without dots, and their attributes.
// MS-FSCC 2.4.10
fn listed(mut rest: &[u8]) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    while !rest.is_empty() {
        let length = number(&rest[60..64]) as usize;
        let name = Utf16::new(&rest[64..64 + length]).expect("whole units").to_string_lossy();
        found.push((name, number(&rest[56..60])));
        let next = number(&rest[..4]) as usize;
        rest = if next == 0 { &[] } else { &rest[next..] };
    }
    found.retain(|(name, _)| ![".", ".."].contains(&name.as_str()));
    found
}
