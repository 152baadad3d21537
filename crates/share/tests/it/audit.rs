//! The events of the audit: which operation makes which event, for whom, and when there is none.

use std::sync::{Arc, Mutex};

use crate::common::{ALL, Client, READ, TestShare, WRITE, done, name, path, user};
use share::{
    AuditClasses, AuditDetail, AuditEvent, AuditSink, ClientDetails, Config, Disposition, NewItem, Options,
    ReadSender, RecycleRules, Refusal,
};
use volume::faulty::{FaultyVolume, PlannedFault, VolumeCall};
use volume::memory::MemoryVolume;
use volume::security::{Descriptor, Parts, Rights};
use volume::{MeteredVolume, Volume};

/// Events as text: operation, result, user, path, stream and new path, and the detail.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl AuditSink for Ear {
    fn on_event(&self, event: &AuditEvent<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut line = event.operation.word().to_owned();
        if let Some(why) = event.refused {
            line += &format!(" refused ({why})");
        }
        line += &format!(" {}", event.user.map_or("?", |(user, _)| user));
        if let Some(client) = event.client {
            line += &format!("@{}", client.address);
        }
        line += &format!(" {}", event.path.map_or("?".to_owned(), text));
        if let Some(stream) = event.stream {
            line += &format!(":{}", text(stream));
        }
        if let Some(new) = event.new_path {
            line += &format!(" -> {}", text(new));
        }
        match event.detail {
            AuditDetail::Moved { read, written } => line += &format!(" [{read} {written}]"),
            AuditDetail::Size(size) => line += &format!(" [{size}]"),
            AuditDetail::Mode(mode) => line += &format!(" [{mode:o}]"),
            AuditDetail::Owner(uid, gid) => line += &format!(" [{uid:?} {gid:?}]"),
            AuditDetail::Attribute(name) | AuditDetail::LinkText(name) => {
                line += &format!(" [{}]", text(name))
            }
            AuditDetail::None
            | AuditDetail::Rights(_)
            | AuditDetail::Reason(_)
            | AuditDetail::Request(..) => {}
        }
        assert_eq!(event.share, Some("docs"));
        self.0.lock().unwrap().push(line);
    }
}

/// An audited share, its events, and a client with a session.
struct Audited {
    world: TestShare,
    ear: Arc<Ear>,
}

impl Audited {
    fn new(classes: AuditClasses) -> Audited {
        Audited::with(classes, Config::default(), |memory| Arc::new(memory))
    }

    fn with(
        classes: AuditClasses,
        config: Config,
        wrap: impl FnOnce(MemoryVolume) -> Arc<dyn Volume>,
    ) -> Audited {
        let ear = Arc::new(Ear::default());
        let audit: Option<Arc<dyn AuditSink>> = Some(Arc::<Ear>::clone(&ear));
        let name = "docs".to_owned();
        let world = TestShare::over(Config { name, audit, audit_classes: classes, ..config }, wrap);
        Audited { world, ear }
    }

    /// A client with its number as user and at the end of its address.
    fn client(&self, number: u8) -> Client {
        let mut client = self.world.client_of(number.into(), user(1000 + u32::from(number)));
        client.details = Some(Arc::new(ClientDetails {
            protocol: "test",
            address: [192, 0, 2, number].into(),
            machine: String::new(),
            session: 7,
            rendered: std::sync::OnceLock::new(),
        }));
        client
    }

    /// The events since the last call.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.ear.0.lock().unwrap())
    }
}

#[test]
fn opens_first_uses_and_closes_are_told_once_each() {
    let audited = Audited::new(AuditClasses::all());
    let ann = audited.client(1);
    ann.make_directory("dir");
    let open = ann.make("dir/a");
    ann.write(&open, 0, "12345").unwrap();
    ann.write(&open, 5, "678").unwrap();
    ann.read(&open).unwrap();
    ann.read(&open).unwrap();
    ann.close(&open);
    ann.close(&ann.open("dir/a").disposition(Disposition::Overwrite).open());
    ann.close(&ann.open("dir/a").access(Rights::READ_ATTRIBUTES).open());
    assert_eq!(ann.names_in("dir"), ["a"]);
    assert_eq!(
        audited.heard(),
        [
            "mkdir user1001@192.0.2.1 dir",
            "close user1001@192.0.2.1 dir [0 0]",
            "create user1001@192.0.2.1 dir/a",
            "write user1001@192.0.2.1 dir/a",
            "read user1001@192.0.2.1 dir/a",
            "close user1001@192.0.2.1 dir/a [16 8]",
            "overwrite user1001@192.0.2.1 dir/a",
            "close user1001@192.0.2.1 dir/a [0 0]",
            "open user1001@192.0.2.1 dir/a",
            "close user1001@192.0.2.1 dir/a [0 0]",
            "open user1001@192.0.2.1 dir",
            "list user1001@192.0.2.1 dir",
            "close user1001@192.0.2.1 dir [0 0]",
        ]
    );
}

#[test]
fn the_first_use_of_an_open_is_told_with_its_sender() {
    let audited = Audited::new(AuditClasses::READ | AuditClasses::WRITE);
    let (ann, bob) = (audited.client(1), audited.client(2));
    ann.make_with("a", "text");
    audited.heard();
    let open = ann.open("a").access(READ | WRITE).open();
    assert!(audited.world.share.tells_next_read(&open));
    let audited_as = Some((&*bob.identity, &**bob.details.as_ref().unwrap()));
    let reader = ReadSender { owner: ann.owner(&open), audited_as };
    let mut out = Vec::new();
    audited.world.share.read(&open, reader, 0, 4, &mut out, volume::Patience::Block).unwrap();
    assert!(!audited.world.share.tells_next_read(&open));
    ann.read(&open).unwrap();
    bob.write(&open, 0, "1").unwrap();
    ann.write(&open, 0, "2").unwrap();
    ann.close(&open);
    assert_eq!(audited.heard(), ["read user1002@192.0.2.2 a", "write user1002@192.0.2.2 a"]);
}

#[test]
fn names_are_told_with_both_paths_and_removals_by_who_asked() {
    let audited = Audited::new(AuditClasses::RENAME | AuditClasses::DELETE | AuditClasses::CREATE);
    let (ann, bob) = (audited.client(1), audited.client(2));
    ann.make_with("a", "text");
    ann.make_with("b", "text");
    ann.make_directory("dir");
    audited.heard();
    let open = ann.open("a").open();
    done(ann.rename(&open, "dir/c", false)).unwrap();
    ann.call(|caller| audited.world.share.link(caller, &open, &path("dir/d"), false)).unwrap();
    ann.close(&open);
    let open = ann.open("dir/c").open();
    done(ann.rename(&open, "b", true)).unwrap();
    ann.close(&open);
    assert_eq!(
        audited.heard(),
        [
            "rename user1001@192.0.2.1 a -> dir/c",
            "link user1001@192.0.2.1 dir/c -> dir/d",
            "unlink user1001@192.0.2.1 b",
            "rename user1001@192.0.2.1 dir/c -> b",
        ]
    );
    // The first marks the file, the second closes it last.
    let shared = ann.open("b").open();
    let other = bob.open("b").access(Rights::READ_ATTRIBUTES).open();
    ann.set_delete(&shared, true).unwrap();
    ann.close(&shared);
    assert_eq!(audited.heard(), [] as [String; 0], "it is not removed yet");
    bob.close(&other);
    assert_eq!(audited.heard(), ["unlink user1001@192.0.2.1 b"]);
    let last = ann.open("dir/d").options(Options::DELETE_ON_CLOSE).open();
    ann.close(&last);
    ann.close(&ann.open("dir").options(Options::DELETE_ON_CLOSE | Options::DIRECTORY).open());
    assert_eq!(audited.heard(), ["unlink user1001@192.0.2.1 dir/d", "rmdir user1001@192.0.2.1 dir"]);
}

#[test]
fn streams_are_told_with_their_file() {
    let audited = Audited::new(AuditClasses::CREATE | AuditClasses::DELETE | AuditClasses::RENAME);
    let ann = audited.client(1);
    ann.make_with("a", "");
    let stream = ann.open("a").stream("s").disposition(Disposition::Create).open();
    let share = &audited.world.share;
    ann.call(|caller| share.rename(caller, &stream, &[], Some(&name("t")), false, false)).unwrap();
    ann.set_delete(&stream, true).unwrap();
    ann.close(&stream);
    assert_eq!(
        audited.heard(),
        [
            "create user1001@192.0.2.1 a",
            "create user1001@192.0.2.1 a:s",
            "rename user1001@192.0.2.1 a:t -> t",
            "unlink user1001@192.0.2.1 a:t",
        ]
    );
}

#[test]
fn properties_are_told_with_their_new_values() {
    let audited = Audited::new(AuditClasses::WRITE | AuditClasses::CHANGE | AuditClasses::SECURITY);
    let ann = audited.client(1);
    let share = &audited.world.share;
    let open = ann.open("a").access(ALL).disposition(Disposition::Create).open();
    let basic = share::Basic { attributes: Some(share::Attributes::HIDDEN), ..share::Basic::default() };
    ann.call(|caller| share.set_size(caller, &open, 10)).unwrap();
    ann.call(|caller| share.set_basic(caller, &open, basic)).unwrap();
    ann.call(|caller| share.set_attribute(caller, &open, b"note", Some(b"x"), None)).unwrap();
    ann.call(|caller| share.set_mode(caller, &open, 0o640)).unwrap();
    ann.call(|caller| share.set_owner(caller, &open, Some(1001), None)).unwrap();
    let list = share.descriptor(&open).unwrap();
    let given = Descriptor { dacl: list.dacl.clone(), ..list };
    ann.call(|caller| share.set_descriptor(caller, &open, Parts::DACL, &given)).unwrap();
    assert_eq!(
        audited.heard(),
        [
            "truncate user1001@192.0.2.1 a [10]",
            "setattr user1001@192.0.2.1 a",
            "setxattr user1001@192.0.2.1 a [note]",
            "chmod user1001@192.0.2.1 a [640]",
            "chown user1001@192.0.2.1 a [Some(1001) None]",
            "set_acl user1001@192.0.2.1 a",
        ]
    );
}

#[test]
fn who_is_refused_is_told_with_the_path_that_was_asked_for() {
    let audited = Audited::new(AuditClasses::REFUSED);
    let (ann, eve) = (audited.client(1), audited.client(2));
    let share = &audited.world.share;
    ann.make_directory("dir");
    ann.close(&ann.open("dir/a").disposition(Disposition::Create).mode(0o600).open());
    ann.call(|caller| {
        let root = share.root_item();
        share.make_in(caller, &root, &name("link"), &NewItem::Link(b"dir"))
    })
    .unwrap();
    assert_eq!(audited.heard(), [] as [String; 0]);
    assert_eq!(eve.open("dir/a").access(READ).refusal(), Refusal::AccessDenied);
    assert_eq!(eve.open("dir/b").disposition(Disposition::Create).refusal(), Refusal::AccessDenied);
    assert_eq!(eve.open("none").access(WRITE).refusal(), Refusal::NotFound);
    let reading = ann.open("dir/a").access(READ).open();
    assert_eq!(done(ann.rename(&reading, "x", false)), Err(Refusal::AccessDenied));
    assert_eq!(ann.set_delete(&reading, true), Err(Refusal::AccessDenied));
    assert_eq!(ann.call(|caller| share.set_size(caller, &reading, 0)), Err(Refusal::AccessDenied));
    let looking = eve.open("dir/a").access(Rights::READ_ATTRIBUTES).open();
    assert_eq!(eve.call(|caller| share.set_mode(caller, &looking, 0o666)), Err(Refusal::AccessDenied));
    assert_eq!(
        audited.heard(),
        [
            "open refused (access denied) user1002@192.0.2.2 dir/a",
            "create refused (access denied) user1002@192.0.2.2 dir/b",
            "rename refused (access denied) user1001@192.0.2.1 dir/a -> x",
            "unlink refused (access denied) user1001@192.0.2.1 dir/a",
            "truncate refused (access denied) user1001@192.0.2.1 dir/a [0]",
            "chmod refused (access denied) user1002@192.0.2.2 dir/a [666]",
        ]
    );
}

#[test]
fn an_audit_that_is_turned_on_later_tells_of_opens_from_before() {
    let audited = Audited::new(AuditClasses::empty());
    let ann = audited.client(1);
    let open = ann.make("a");
    ann.write(&open, 0, "12345").unwrap();
    assert_eq!(audited.heard(), [] as [String; 0]);
    let config = audited.world.share.config();
    audited.world.share.configure(Config { audit_classes: AuditClasses::all(), ..(*config).clone() });
    ann.write(&open, 0, "123").unwrap();
    ann.close(&open);
    let wanted = ["write user1001@192.0.2.1 a", "close user1001@192.0.2.1 a [0 3]"];
    assert_eq!(audited.heard(), wanted, "bytes count from then on");
}

#[test]
fn paths_of_a_user_with_a_home_are_told_from_the_root() {
    let audited = Audited::new(AuditClasses::all());
    audited.world.client(1).make_directory("ann");
    let mut client = audited.client(1);
    client.identity = Arc::new(share::Identity { home: Some(name("ann")), ..(*client.identity).clone() });
    client.close(&client.make("file"));
    let open = client.open("file").access(READ | Rights::DELETE).open();
    done(client.rename(&open, "new", false)).unwrap();
    client.close(&open);
    let open = client.open("new").access(READ).open();
    done(client.rename(&open, "none", false)).unwrap_err();
    client.close(&open);
    let heard = audited.heard().join("\n");
    for wanted in ["create user1001@192.0.2.1 ann/file", " ann/file -> ann/new", " ann/new -> ann/none"] {
        assert!(heard.contains(wanted), "{heard}");
    }
}

/// A share that keeps removed files.
fn keeping() -> Config {
    let rules = RecycleRules {
        folder: name(".recycle"),
        keep_for: None,
        most_bytes: u64::MAX,
        largest_file: u64::MAX,
        excluded: vec!["*.tmp".to_owned()],
    };
    Config { recycle: Some(Arc::new(rules)), ..Config::default() }
}

#[test]
fn a_removed_file_is_told_with_its_path_in_the_recycle_folder_and_its_purge_too() {
    let audited = Audited::with(AuditClasses::DELETE, keeping(), |memory| {
        Arc::new(MeteredVolume::new(Arc::new(memory), None, None))
    });
    let ann = audited.client(1);
    ann.make_directory("d");
    for at in ["d/f", "d/x.tmp"] {
        ann.make_with(at, &"x".repeat(40_000));
        ann.close(&ann.open(at).options(Options::DELETE_ON_CLOSE).open());
    }
    assert_eq!(
        audited.heard(),
        ["unlink user1001@192.0.2.1 d/f -> .recycle/uid-1001/d/f", "unlink user1001@192.0.2.1 d/x.tmp",]
    );
    let share = &audited.world.share;
    share.set_quota(Some(share.usage().unwrap().bytes)).unwrap();
    ann.make_with("other", &"y".repeat(40_000));
    assert_eq!(audited.heard(), ["purge ? .recycle/uid-1001/d/f"]);
}

#[test]
fn a_name_that_two_remove_at_the_same_moment_makes_one_event() {
    let mut plan = None;
    let audited = Audited::with(AuditClasses::DELETE, keeping(), |memory| {
        let faulty = FaultyVolume::new(Arc::new(memory));
        plan = Some(Arc::clone(faulty.plan()));
        Arc::new(faulty)
    });
    let plan = plan.unwrap();
    let (ann, bob) = (audited.client(1), audited.client(1));
    ann.make_with("first", "");
    ann.close(&ann.open("first").options(Options::DELETE_ON_CLOSE).open());
    ann.make_with("f", "text");
    let first = ann.open("f").open();
    let second = bob.open("f").open();
    ann.call(|c| audited.world.share.set_delete_at_once(c, &first)).unwrap();
    audited.heard();
    plan.add(VolumeCall::Rename, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| ann.close(&first));
        assert!(plan.wait_held(1, std::time::Duration::from_secs(20)));
        let asked = plan.count(VolumeCall::Stat);
        let two = scope.spawn(|| bob.close(&second));
        while plan.count(VolumeCall::Stat) < asked + 2 && !two.is_finished() {
            std::thread::yield_now();
        }
        plan.release();
        one.join().unwrap();
        two.join().unwrap();
    });
    assert_eq!(audited.heard(), ["unlink user1001@192.0.2.1 f -> .recycle/uid-1001/f"]);
    let summary = audited.world.share.recycle_summary().unwrap();
    assert_eq!((summary.kept, summary.removed.iter().sum::<u64>()), (2, 0));
}
