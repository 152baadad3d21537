//! An SMB client that watches a directory in which an NFS client works.

use smb_wire::change_notify;

use super::*;

/// Watches a directory, of which the next change is the answer to this request.
fn watch(client: &mut Peer, file_id: FileId) -> u64 {
    let completion_filter =
        change_notify::CompletionFilter::FILE_NAME | change_notify::CompletionFilter::LAST_WRITE;
    let flags = change_notify::ChangeNotifyFlags::empty();
    let id = client.start(SmbCommand::ChangeNotify, |out| {
        change_notify::Request { flags, output_buffer_length: 1024, file_id, completion_filter }.write(out);
    });
    assert_eq!(client.answer(id).expect("an interim answer").status(), NtStatus::PENDING);
    id
}

#[test]
fn whoever_watches_a_directory_over_smb_is_told_of_changes_over_nfs() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    both.smb.make("one", b"1");
    // Who may delete a directory keeps others from renaming in it.
    let root = OpenFile { access: Access::READ_DATA, ..OpenFile::directory("") };
    let root = both.smb.create(&root).file_id();
    let (handle, stateid, _) = both.open("file", WRITE, NONE);
    let changes: [fn(&mut Both) -> NfsStat; 2] =
        [|both| both.remove("file"), |both| both.rename("one", "uno")];
    let told = watch(&mut both.smb, root);
    assert_eq!(both.on(&handle, writing(stateid, 0, b"new")), NfsStat::Ok);
    assert_eq!(both.on(&handle, closing(stateid)), NfsStat::Ok);
    assert_eq!(both.smb.answer(told).expect("the write is told").status(), NtStatus::SUCCESS);
    for change in changes {
        let told = watch(&mut both.smb, root);
        assert_eq!(change(&mut both), NfsStat::Ok);
        assert_eq!(both.smb.answer(told).expect("a change is told").status(), NtStatus::SUCCESS);
    }
}
