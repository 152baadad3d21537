//! The metadata of links and special files for a client with the POSIX extensions, and the mode of its new
//! files.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command as Program;

use smb_wire::create::{Access, CreateOptions, Disposition};
use smb_wire::create_context::{Contexts, RequestContext};
use smb_wire::fscc::reparse::Reparse;
use smb_wire::fscc::{FileAttributes, FileInfoClass};
use smb_wire::posix::{CreateResponse, DirectoryEntry, FILE_POSIX_INFORMATION, FileInfo, FileType};
use smb_wire::query_directory::{self, QueryDirectoryFlags, Request};
use smb_wire::query_info::{self, InfoType};
use smb_wire::{FileId, NtStatus, SmbCommand, ioctl, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SmbTestServer};

/// A name with its type and permissions from the mode, and whether its attributes say directory.
type ShownFile = (String, u32, bool);

fn told(name: &str, dos_attributes: u32, posix: &CreateResponse<'_>) -> ShownFile {
    let is_directory = FileAttributes::from_bits_retain(dos_attributes).contains(FileAttributes::DIRECTORY);
    (name.to_owned(), posix.mode & !0o7777, is_directory)
}

fn listed(client: &mut Peer, directory: FileId) -> Vec<ShownFile> {
    let pattern = utf16::encode("*");
    let answer = client.call(SmbCommand::QueryDirectory, |out| {
        Request {
            file_information_class: FILE_POSIX_INFORMATION,
            flags: QueryDirectoryFlags::empty(),
            file_index: 0,
            file_id: directory,
            file_name: utf16::Utf16::new(&pattern).unwrap(),
            output_buffer_length: 65536,
        }
        .write(out);
    });
    let data = query_directory::Response::parse(&answer.message).unwrap().output_buffer;
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let next = u32::from_le_bytes(data[at..at + 4].try_into().unwrap()) as usize;
        let entry = DirectoryEntry::parse(&data[at..]).unwrap();
        let name = entry.name.to_string_lossy();
        if !name.starts_with('.') {
            found.push(told(&name, entry.info.dos_attributes, &entry.info.posix));
        }
        if next == 0 {
            return found;
        }
        at += next;
    }
}

#[test]
fn links_and_special_files_have_their_type_in_the_mode() {
    let world = SmbTestServer::on_disk();
    let root = world.root();
    std::fs::create_dir(root.join("directory")).unwrap();
    std::fs::write(root.join("file"), "text").unwrap();
    symlink("file", root.join("to file")).unwrap();
    symlink("directory", root.join("to directory")).unwrap();
    symlink("/etc/passwd", root.join("to elsewhere")).unwrap();
    assert!(Program::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
    let wanted = |name: &str, kind: FileType, is_directory| (name.to_owned(), kind.bits(), is_directory);
    let wanted = vec![
        // Clients without types add the type from the attributes to these bits.
        wanted("directory", FileType::File, true),
        wanted("file", FileType::File, false),
        wanted("pipe", FileType::Fifo, false),
        wanted("to directory", FileType::SymbolicLink, false),
        wanted("to elsewhere", FileType::SymbolicLink, false),
        wanted("to file", FileType::SymbolicLink, false),
    ];
    let mut client = world.dial(&Dial { posix: true, ..Dial::default() });
    let contexts = [RequestContext::Posix { mode: 0 }];
    let of = |name| OpenFile {
        access: Access::READ_ATTRIBUTES | Access::READ_DATA,
        disposition: Disposition::Open,
        contexts: Contexts::Requests(&contexts),
        ..OpenFile::named(name)
    };
    let directory = client.create(&of("")).file_id();
    let mut found = listed(&mut client, directory);
    found.sort();
    assert_eq!(found, wanted);
    for want in &wanted {
        let name = &want.0;
        let options = CreateOptions::OPEN_REPARSE_POINT;
        let file =
            client.create(&OpenFile { options, access: Access::READ_ATTRIBUTES, ..of(name) }).file_id();
        let answer = client.query_info(file, InfoType::File, FileInfoClass::POSIX.0, 0);
        let info =
            FileInfo::parse(query_info::Response::parse(&answer.message).unwrap().output_buffer).unwrap();
        assert_eq!(told(name, info.dos_attributes, &info.posix), *want);
    }
}

#[test]
fn all_bits_of_a_mode_are_no_mode_when_something_is_made() {
    let world = SmbTestServer::on_disk();
    let mut client = world.dial(&Dial { posix: true, ..Dial::default() });
    let plain = client.create(&OpenFile::named("plain")).file_id();
    assert_eq!(client.close(plain), NtStatus::SUCCESS);
    // The mode that Linux 6.12 sends with the empty file that it turns into a link or a special file.
    let contexts = [RequestContext::Posix { mode: 0o7777 }];
    let made = OpenFile { contexts: Contexts::Requests(&contexts), ..OpenFile::named("made") };
    let file = client.create(&made).file_id();
    assert_eq!(client.close(file), NtStatus::SUCCESS);
    let mode = |name| std::fs::metadata(world.root().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("made"), mode("plain"));
}

#[test]
fn a_link_that_a_posix_client_makes_may_have_slashes_in_its_text() {
    let world = SmbTestServer::on_disk();
    let contexts = [RequestContext::Posix { mode: 0o7777 }];
    let make = |client: &mut Peer, name, text: &str| {
        let open = OpenFile { contexts: Contexts::Requests(&contexts), ..OpenFile::named(name) };
        let file = client.create(&open).file_id();
        let text = utf16::encode(text);
        let text = utf16::Utf16::new(&text).unwrap();
        let mut link = Vec::new();
        Reparse::Symlink { substitute_name: text, print_name: text, relative: true }.write(&mut link);
        let status = client.status(SmbCommand::Ioctl, |out| {
            ioctl::Request::fsctl(ioctl::CtlCode::SetReparsePoint, file, &link, 0).write(out);
        });
        assert_eq!((status, client.close(file)), (NtStatus::SUCCESS, NtStatus::SUCCESS));
    };
    let mut client = world.dial(&Dial { posix: true, ..Dial::default() });
    make(&mut client, "slashes", "directory/file");
    make(&mut client, "backslashes", "directory\\file");
    for name in ["slashes", "backslashes"] {
        assert_eq!(
            std::fs::read_link(world.root().join(name)).unwrap(),
            Path::new("directory/file"),
            "{name}"
        );
    }
    // In a link of other clients a slash is not a separator, and the target stays as they wrote it.
    let mut other = world.dial(&Dial::elsewhere());
    make(&mut other, "other", "directory/file");
    assert!(std::fs::read_link(world.root().join("other")).is_err());
}

#[test]
fn a_posix_client_is_told_a_links_text_as_it_stands_and_others_with_backslashes() {
    let world = SmbTestServer::on_disk();
    std::fs::create_dir(world.root().join("directory")).unwrap();
    symlink("directory/file", world.root().join("link")).unwrap();
    let contexts = [RequestContext::Posix { mode: 0 }];
    for (posix, text) in [(true, "directory/file"), (false, "directory\\file")] {
        let mut client = world.dial(&Dial { posix, ..Dial::elsewhere() });
        let contexts = if posix { Contexts::Requests(&contexts) } else { Contexts::EMPTY };
        let open = OpenFile {
            disposition: Disposition::Open,
            access: Access::READ_DATA,
            contexts,
            ..OpenFile::named("link")
        };
        let text = utf16::encode(text);
        let times_in = |message: &[u8]| message.windows(text.len()).filter(|part| *part == text).count();
        // For the other clients the server follows links.
        if posix {
            let stopped = client.create(&open);
            assert_eq!(stopped.status(), NtStatus::STOPPED_ON_SYMLINK);
            assert_eq!(times_in(&stopped.message), 2);
        }
        let options = CreateOptions::OPEN_REPARSE_POINT;
        let file = client.create(&OpenFile { options, ..open }).file_id();
        let answer = client.call(SmbCommand::Ioctl, |out| {
            ioctl::Request::fsctl(ioctl::CtlCode::GetReparsePoint, file, &[], 4096).write(out);
        });
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        assert_eq!(times_in(&answer.message), 2, "posix: {posix}");
    }
}
