//! The audit over both protocols: the same work makes the same events.

use std::sync::{Arc, Mutex};

use nfs_wire::NfsStat;
use nfs_wire::attr::Attr;
use nfs_wire::op::{Args, Res, access, create, open};
use nfs_wire::types::StateId;
use share::{AuditClasses, AuditDetail, AuditEvent, AuditSink, Config};
use smb_wire::NtStatus;
use smb_wire::create::{Access, CreateOptions, Disposition};
use testkit::nfs::{EXPORT, closing, lookup, opening, reading, writing};
use testkit::smb::client::OpenFile;

use super::Both;

/// Events as text: protocol, operation, result, path, new path, and bytes moved.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl AuditSink for Ear {
    fn on_event(&self, event: &AuditEvent<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let client = event.client.expect("the engine knows the client of each event");
        let family = &client.protocol[..3];
        let result = if event.refused.is_some() { " refused" } else { "" };
        let mut line =
            format!("{family} {}{result} {}", event.operation.word(), event.path.map_or("?".into(), text));
        if let Some(new) = event.new_path {
            line += &format!(" -> {}", text(new));
        }
        if let AuditDetail::Moved { read, written } = event.detail {
            line += &format!(" [{read} {written}]");
        }
        self.0.lock().expect("no panic").push(line);
    }
}

impl Ear {
    /// Turns the audit of the share on.
    fn on(both: &Both, audit_classes: AuditClasses) -> Arc<Ear> {
        let ear = Arc::new(Ear::default());
        let audit: Option<Arc<dyn AuditSink>> = Some(Arc::<Ear>::clone(&ear));
        let config = both.world.engine.config();
        both.world.engine.configure(Config { audit, audit_classes, ..(*config).clone() });
        ear
    }

    /// The events since the last call.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

/// The events of one protocol without its name.
fn of(family: &str, events: &[String]) -> Vec<String> {
    let own = events.iter().map(|event| event.strip_prefix(family).expect("one protocol alone"));
    own.map(|event| event.trim().to_owned()).collect()
}

#[test]
fn a_file_is_made_read_and_closed_in_the_same_words() {
    let mut both = Both::new();
    let ear = Ear::on(&both, AuditClasses::all() - AuditClasses::CONNECT);
    both.smb.make("file", b"text");
    let id = both.smb.open("file");
    assert_eq!(both.smb.read(id, 0, 4).status(), NtStatus::SUCCESS);
    assert_eq!(both.smb.read(id, 0, 2).status(), NtStatus::SUCCESS);
    both.smb.close(id);
    let gone = OpenFile { options: CreateOptions::DELETE_ON_CLOSE, ..OpenFile::named("file") };
    let id = both.smb.create(&OpenFile { access: Access::DELETE, ..gone }).file_id();
    both.smb.close(id);
    let over_smb = of("SMB", &ear.heard());

    let made = open::OpenHow::Create(open::CreateHow::Guarded(nfs_wire::attr::Fattr::default()));
    let asked = [Args::PutRootFh, lookup(EXPORT), opening(made, b"file"), Args::GetFh];
    let done = both.nfs.run(&mut both.wire, &asked).ok();
    let results = done.results();
    let (Res::Open(Ok(opened)), Res::GetFh(Ok(handle))) = (results[3], results[4]) else {
        panic!("{results:?}")
    };
    let (handle, stateid) = (handle.object.0.to_vec(), opened.stateid);
    assert_eq!(both.on(&handle, writing(stateid, 0, b"text")), NfsStat::Ok);
    assert_eq!(both.on(&handle, closing(stateid)), NfsStat::Ok);
    let (handle, stateid, _) = both.open("file", super::BOTH, super::NONE);
    assert_eq!(both.on(&handle, reading(stateid, 0, 4)), NfsStat::Ok);
    assert_eq!(both.on(&handle, reading(stateid, 0, 2)), NfsStat::Ok);
    assert_eq!(both.on(&handle, closing(stateid)), NfsStat::Ok);
    assert_eq!(both.remove("file"), NfsStat::Ok);
    let over_nfs = of("NFS", &ear.heard());

    let words = [
        "create file",
        "write file",
        "close file [0 4]",
        "open file",
        "read file",
        "close file [6 0]",
        "unlink file",
    ];
    assert_eq!(over_nfs, words);
    // A client of SMB removes through an open of its own.
    let removal = ["open file", "unlink file", "close file [0 0]"];
    assert_eq!(over_smb, [&words[..6], &removal[..]].concat());
}

#[test]
fn names_and_properties_are_changed_in_the_same_words() {
    let mut both = Both::new();
    both.smb.make("a", b"text");
    both.smb.make("b", b"text");
    let changes = AuditClasses::all() - AuditClasses::CONNECT - AuditClasses::OPEN - AuditClasses::LOOK;
    let ear = Ear::on(&both, changes);
    assert_eq!(both.rename("a", "c"), NfsStat::Ok);
    assert_eq!(both.rename("c", "b"), NfsStat::Ok);
    assert_eq!(both.set("b", &[Attr::Mode(0o600)]), NfsStat::Ok);
    assert_eq!(both.set("b", &[Attr::Size(2)]), NfsStat::Ok);
    let text = create::CreateType::Lnk(b"target");
    let createattrs = nfs_wire::attr::Fattr::default();
    let link = Args::Create(create::Args { objtype: text, objname: b"link", createattrs });
    assert_eq!(both.in_root(&[link]), NfsStat::Ok);
    let createattrs = nfs_wire::attr::Fattr::default();
    let made = Args::Create(create::Args { objtype: create::CreateType::Dir, objname: b"dir", createattrs });
    assert_eq!(both.in_root(&[made]), NfsStat::Ok);
    assert_eq!(both.remove("dir"), NfsStat::Ok);
    let wanted = [
        "rename a -> c",
        "unlink b",
        "rename c -> b",
        "chmod b",
        "truncate ?",
        "symlink link",
        "mkdir dir",
        "rmdir dir",
    ];
    let heard = of("NFS", &ear.heard());
    assert_eq!(heard.len(), wanted.len(), "{heard:?}");
    for (event, wanted) in heard.iter().zip(wanted) {
        let word = |text: &str| text.split(' ').next().map(str::to_owned);
        assert_eq!(word(event), word(wanted), "{heard:?}");
    }
    let directory = OpenFile { disposition: Disposition::Create, ..OpenFile::directory("dir") };
    let id = both.smb.create(&directory).file_id();
    both.smb.close(id);
    let gone = CreateOptions::DELETE_ON_CLOSE | CreateOptions::DIRECTORY_FILE;
    let gone = OpenFile { options: gone, access: Access::DELETE, ..OpenFile::directory("dir") };
    let id = both.smb.create(&OpenFile { disposition: Disposition::Open, ..gone }).file_id();
    both.smb.close(id);
    assert_eq!(of("SMB", &ear.heard()), ["mkdir dir", "rmdir dir"]);
}

#[test]
fn io_without_an_open_and_a_question_for_rights_are_told() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let (handle, stateid, _) = both.open("file", super::READ, super::NONE);
    assert_eq!(both.on(&handle, closing(stateid)), NfsStat::Ok);
    let ear = Ear::on(&both, AuditClasses::all() - AuditClasses::CONNECT);
    assert_eq!(both.on(&handle, reading(StateId::ANONYMOUS, 0, 4)), NfsStat::Ok);
    assert_eq!(both.on(&handle, writing(StateId::ANONYMOUS, 0, b"x")), NfsStat::Ok);
    let heard = of("NFS", &ear.heard());
    let words: Vec<_> = heard.iter().map(|event| event.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(words, ["read", "write"], "no open and no close: {heard:?}");
    let asked = access::AccessBits::READ | access::AccessBits::MODIFY;
    assert_eq!(both.on(&handle, Args::Access(access::Args { access: asked })), NfsStat::Ok);
    assert_eq!(ear.heard(), [] as [String; 0], "who has rights is not told");
}
