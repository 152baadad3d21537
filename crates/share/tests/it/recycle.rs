//! The recycle folder: which removals are kept, who sees them, and when they go for good.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::{
    Caching, CallResult, ChangeFilter, ChangeKind, Config, Disposition, FinalRemoval, Identity, Options,
    RecycleRules, RecycleSummary, Refusal,
};
use volume::faulty::VolumeCall;
use volume::security::{Ace, AceFlags, Acl, Descriptor, Rights};
use volume::{Failure, HostChange, HostEvent, MeteredVolume, Volume};
use wire::Now;

/// The time of the volume in memory, and later.
fn later(seconds: i64) -> Now {
    Now { mono_ns: 1_000_000_000 + seconds.unsigned_abs() * 1_000_000_000, ..now() }
}

fn rules() -> RecycleRules {
    RecycleRules {
        folder: name(".recycle"),
        keep_for: None,
        most_bytes: u64::MAX,
        largest_file: u64::MAX,
        excluded: vec!["*.tmp".to_owned(), ".silly*".to_owned()],
    }
}

fn keeping(rules: RecycleRules) -> Config {
    Config { recycle: Some(Arc::new(rules)), ..Config::default() }
}

fn administrator() -> Arc<Identity> {
    let own = Identity::clone(&user(0));
    let groups = vec![volume::security::well_known::ADMINISTRATORS];
    Arc::new(Identity { administrator: true, actor: None, groups, ..own })
}

fn summary(world: &TestShare) -> RecycleSummary {
    world.share.recycle_summary().unwrap()
}

fn removed(world: &TestShare, why: FinalRemoval) -> u64 {
    let at = FinalRemoval::ALL.iter().position(|one| *one == why).unwrap();
    summary(world).removed[at]
}

#[test]
fn a_removed_file_is_found_below_its_path_in_the_folder_of_its_user_and_comes_back() {
    let world = TestShare::with(keeping(rules()));
    let client = world.client(1);
    client.make_directory("d");
    client.make_directory("d/e");
    client.make_with("d/e/f.txt", "text");
    client.remove("d/e/f.txt");
    assert_eq!(client.names_in("d/e"), [""; 0]);
    assert_eq!(client.names_in(".recycle"), ["uid-1001"]);
    let kept = client.open(".recycle/uid-1001/d/e/f.txt").open();
    assert_eq!(client.read(&kept).unwrap(), "text");
    done(client.rename(&kept, "back.txt", false)).unwrap();
    client.close(&kept);
    assert_eq!(client.names_in(".recycle/uid-1001/d/e"), [""; 0]);
    assert_eq!(client.read(&client.open("back.txt").open()).unwrap(), "text");
    assert_eq!((summary(&world).kept, removed(&world, FinalRemoval::Failed)), (1, 0));
}

#[test]
fn a_further_file_of_the_same_name_gets_the_time_of_its_removal() {
    let world = TestShare::with(keeping(rules()));
    let client = world.client(1);
    for text in ["one", "two", "three"] {
        client.make_with("F.txt", text);
        client.remove("f.TXT");
    }
    let names = ["F (2023-11-14 22-13-20 2).txt", "F (2023-11-14 22-13-20).txt", "F.txt"];
    assert_eq!(client.names_in(".recycle/uid-1001"), names);
    let text = |name: &str| client.read(&client.open(&format!(".recycle/uid-1001/{name}")).open()).unwrap();
    assert_eq!(names.map(text), ["three", "two", "one"]);
    // Where a directory was expected.
    client.make_directory("F.txt");
    client.make_with("F.txt/g", "four");
    client.remove("F.txt/g");
    assert_eq!(client.names_in(".recycle/uid-1001/F (2023-11-14 22-13-20 3).txt"), ["g"]);
}

#[test]
fn each_user_sees_only_the_own_folder_and_an_administrator_sees_all() {
    let world = TestShare::with(keeping(rules()));
    let (alice, bob) = (world.client(1), world.client_of(2, user(1002)));
    let admin = world.client_of(3, administrator());
    alice.make_with("open-to-all", "text");
    bob.make_with("of-bob", "text");
    alice.remove("open-to-all");
    bob.remove("of-bob");
    assert_eq!(alice.names_in(".recycle"), ["uid-1001"]);
    assert_eq!(bob.names_in(".recycle"), ["uid-1002"]);
    assert_eq!(admin.names_in(".recycle"), ["uid-1001", "uid-1002"]);
    // Its own list would let anybody read it.
    assert_eq!(alice.names_in(".recycle/uid-1001"), ["open-to-all"]);
    let reads = |client: &Client, at: &str| client.open(at).access(READ).result().map(|_| ());
    assert_eq!(reads(&bob, ".recycle/uid-1001/open-to-all"), Err(Refusal::AccessDenied));
    assert_eq!(reads(&bob, ".recycle/uid-1001"), Err(Refusal::AccessDenied));
    assert_eq!(reads(&alice, ".recycle/uid-1001/open-to-all"), Ok(()));
    assert_eq!(reads(&admin, ".recycle/uid-1002/of-bob"), Ok(()));
    // This stays so when nothing is kept any more.
    world.share.configure(Config::default());
    assert_eq!(reads(&bob, ".recycle/uid-1001/open-to-all"), Err(Refusal::AccessDenied));
    assert_eq!(reads(&alice, ".recycle/uid-1001/open-to-all"), Ok(()));
    // By one name after the other, as from a handle.
    let step = |client: &Client| {
        let root = world.share.root_item();
        client.caller(true, now(), |c| {
            let folder = world.share.item_in(c, &root, &name(".recycle"))?;
            let own = world.share.item_in(c, &folder, &name("uid-1001"))?;
            world.share.item_in(c, &own, &name("open-to-all")).map(|_| ())
        })
    };
    assert_eq!(step(&bob), Err(Refusal::AccessDenied));
    assert_eq!(step(&alice), Ok(()));
}

/// The results of another user who guesses the path `at` in the folder of a user, by each way to use a path.
fn guesses(world: &TestShare, other: &Client, at: &str) -> Vec<Result<(), Refusal>> {
    let own = other.open("of-bob").access(READ | Rights::DELETE).open();
    let opens = [READ, Rights::READ_ATTRIBUTES, Rights::DELETE, Rights::READ_CONTROL, Rights::WRITE_OWNER];
    let mut all: Vec<_> =
        opens.iter().map(|want| other.open(at).access(*want).result().map(|_| ())).collect();
    for disposition in [Disposition::Create, Disposition::OpenOrCreate, Disposition::OverwriteOrCreate] {
        all.push(other.open(at).disposition(disposition).result().map(|_| ()));
    }
    let made = other.open(at).disposition(Disposition::Create).options(Options::DIRECTORY).result();
    all.push(made.map(|_| ()));
    all.push(other.open(at).stream("s").result().map(|_| ()));
    all.push(other.open(&format!("{at}/below")).result().map(|_| ()));
    for replace in [false, true] {
        all.push(done(other.rename(&own, at, replace)));
        all.push(other.call(|c| world.share.link(c, &own, &path(at), replace)));
    }
    other.close(&own);
    all
}

#[test]
fn nobody_reaches_by_the_folder_of_a_user_what_lies_there_or_hears_whether_it_does() {
    let world = TestShare::with(keeping(rules()));
    let (alice, bob) = (world.client(1), world.client_of(2, user(1002)));
    alice.make_directory("d");
    for at in ["f", "d/f"] {
        alice.make_with(at, "text");
        alice.remove(at);
    }
    bob.make_with("of-bob", "");
    for folder in [".recycle/uid-1001", ".RECYCLE/UID-1001", ".recycle/uid-1001/d"] {
        let (there, missing) =
            (guesses(&world, &bob, &format!("{folder}/f")), guesses(&world, &bob, &format!("{folder}/g")));
        assert!(there.iter().all(|got| *got == Err(Refusal::AccessDenied)), "{folder}: {there:?}");
        assert_eq!(there, missing, "{folder}");
    }
    // A link that the server follows leads nobody there either.
    let root = world.memory.root().unwrap();
    for (at, text) in [("file", ".recycle/uid-1001/f"), ("folder", ".recycle/uid-1001"), ("all", ".recycle")]
    {
        root.create_link(&name(at), text.as_bytes(), None).unwrap();
        let (directory, name, change) = (root.id(), Some(name(at)), HostChange::Created);
        world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
    }
    world.share.maintain(now());
    for at in ["file", "folder/f", "all/uid-1001/f"] {
        let got = bob.open(at).access(READ).result().map(|_| ());
        assert!(matches!(got, Err(Refusal::AccessDenied)), "{at}: {got:?}");
        assert_eq!(alice.read(&alice.open(at).access(READ).open()).unwrap(), "text", "{at}");
    }
    assert_eq!(alice.names_in(".recycle/uid-1001"), ["d", "f"]);
}

#[test]
fn a_removed_file_opens_to_its_remover_no_further_than_before() {
    let world = TestShare::with(keeping(rules()));
    let (alice, bob) = (world.client(1), world.client_of(2, user(1002)));
    let own = Ace::allow(user(1002).sid, Rights::ALL, AceFlags::empty());
    let only = Descriptor::new(user(1002).sid, user(1002).sid, Acl::new(vec![own]));
    bob.close(&bob.open("f").disposition(Disposition::Create).descriptor(&only).open());
    assert_eq!(alice.open("f").access(READ).refusal(), Refusal::AccessDenied);
    // The right to remove names in the directory does that, and no more.
    alice.remove("f");
    assert_eq!(alice.names_in(".recycle/uid-1001"), ["f"]);
    let refused = |want| alice.open(".recycle/uid-1001/f").access(want).refusal();
    for want in [READ, Rights::WRITE_DATA, Rights::READ_CONTROL, Rights::WRITE_DAC, Rights::WRITE_OWNER] {
        assert_eq!(refused(want), Refusal::AccessDenied, "{want:?}");
    }
}

#[test]
fn no_client_moves_removes_or_makes_the_folders_themselves() {
    let world = TestShare::with(keeping(rules()));
    let (alice, admin) = (world.client(1), world.client_of(3, administrator()));
    let make =
        |at: &str| alice.open(at).disposition(Disposition::Create).options(Options::DIRECTORY).refusal();
    assert_eq!(make(".recycle"), Refusal::AccessDenied);
    assert_eq!(make(".Recycle"), Refusal::AccessDenied);
    alice.make_with("f", "text");
    alice.remove("f");
    assert_eq!(make(".recycle/uid-1002"), Refusal::AccessDenied);
    for client in [&alice, &admin] {
        for at in [".recycle", ".recycle/uid-1001"] {
            let Ok(opened) = client.open(at).access(Rights::DELETE).result() else { continue };
            assert!(client.set_delete(&opened.open, true).is_err(), "{at}");
            assert_eq!(done(client.rename(&opened.open, "elsewhere", true)), Err(Refusal::AccessDenied));
            client.close(&opened.open);
        }
        client.make_directory("x");
        let other = client.open("x").open();
        assert_eq!(done(client.rename(&other, ".recycle/uid-1009", true)), Err(Refusal::AccessDenied));
        client.set_delete(&other, true).unwrap();
        client.close(&other);
    }
    assert_eq!(alice.names_in(".recycle/uid-1001"), ["f"]);
}

#[test]
fn what_is_not_kept_is_counted_by_its_reason() {
    let most = RecycleRules { largest_file: 4096, ..rules() };
    let world = TestShare::with(keeping(most));
    let client = world.client(1);
    for at in ["a.tmp", ".silly01", "large", "linked"] {
        client.make_with(at, "text");
    }
    let large = client.open("large").open();
    client.write(&large, 0, &"x".repeat(100_000)).unwrap();
    client.close(&large);
    let linked = client.open("linked").open();
    client.call(|c| world.share.link(c, &linked, &path("second"), false)).unwrap();
    client.close(&linked);
    for at in ["a.tmp", ".silly01", "large", "linked"] {
        client.remove(at);
    }
    assert_eq!(client.names_in(""), ["second"]);
    let counted = [FinalRemoval::Excluded, FinalRemoval::TooLarge, FinalRemoval::Linked];
    assert_eq!(counted.map(|why| removed(&world, why)), [2, 1, 1]);
    // The last name of it is kept.
    client.remove("second");
    assert_eq!((client.names_in(".recycle/uid-1001"), summary(&world).kept), (vec!["second".into()], 1));
}

#[test]
fn a_removal_in_the_folder_is_final_and_a_replaced_file_is_not_kept() {
    let world = TestShare::with(keeping(rules()));
    let client = world.client(1);
    client.make_with("f", "text");
    client.remove("f");
    client.remove(".recycle/uid-1001/f");
    assert_eq!(client.names_in(".recycle/uid-1001"), [""; 0]);
    assert_eq!((summary(&world).kept, summary(&world).files, summary(&world).bytes), (1, 0, 0));
    client.make_with("old", "old");
    client.make_with("new", "new");
    let open = client.open("new").open();
    done(client.rename(&open, "old", true)).unwrap();
    client.close(&open);
    assert_eq!(client.names_in(".recycle/uid-1001"), [""; 0]);
}

#[test]
fn whoever_has_a_removed_file_open_goes_on_with_it() {
    let world = TestShare::with(keeping(rules()));
    let (client, other) = (world.client(1), world.client(2));
    client.make_with("f", "text");
    let held = other.open("f").open();
    let open = client.open("f").access(Rights::DELETE).open();
    client.call(|c| world.share.set_delete_at_once(c, &open)).unwrap();
    client.close(&open);
    assert_eq!(client.open("f").refusal(), Refusal::NotFound);
    other.write(&held, 4, " more").unwrap();
    other.close(&held);
    let kept = client.open(".recycle/uid-1001/f").open();
    assert_eq!(client.read(&kept).unwrap(), "text more");
}

#[test]
fn others_hear_of_a_removal() {
    let world = TestShare::with(keeping(rules()));
    let (client, other) = (world.client(1), world.client(2));
    client.make_with("first", "");
    client.remove("first");
    client.make_with("f", "text");
    let caches = Caching::READ | Caching::HANDLE;
    let kept = other.open("f").access(READ).keyed(7, caches).open();
    let watched = |at: &str| {
        let open = other.open(at).access(READ).open();
        world.share.watch(&open, ChangeFilter::all(), false, 1 << 20).unwrap();
        open
    };
    let (above, folder) = (watched(""), watched(".recycle/uid-1001"));
    let open = client.open("f").access(Rights::DELETE).open();
    let marked = client.caller(true, now(), |c| world.share.set_delete(c, &open, true, false, false));
    assert!(matches!(marked, CallResult::Wait(_)), "{marked:?}");
    assert_eq!(other.breaks(), [(caches, Caching::READ, true)]);
    other.acknowledge(7, true, Caching::READ).unwrap();
    other.close(&kept);
    client.set_delete(&open, true).unwrap();
    client.close(&open);
    let changes = |open| done(world.share.take_changes(open, None)).unwrap();
    let seen = |changes: Vec<share::Change>| -> Vec<_> {
        changes.into_iter().map(|change| (change.kind, change.path)).collect()
    };
    assert!(seen(changes(&above)).contains(&(ChangeKind::Removed, path("f"))));
    assert_eq!(seen(changes(&folder)), [(ChangeKind::Added, path("f"))]);
}

#[test]
fn a_watch_hears_nothing_of_the_folders_of_others() {
    let world = TestShare::with(keeping(rules()));
    let (alice, bob) = (world.client(1), world.client_of(2, user(1002)));
    let admin = world.client_of(3, administrator());
    alice.make_directory("d");
    alice.make_with("first", "");
    bob.make_with("of-bob", "");
    bob.remove("of-bob");
    let watched = |client: &Client, at: &str| {
        let open = client.open(at).access(READ).open();
        world.share.watch(&open, ChangeFilter::all(), true, 1 << 20).unwrap();
        open
    };
    let seen = |open| -> Vec<String> {
        let changes = match world.share.take_changes(open, None) {
            CallResult::Done(changes) => changes,
            other => panic!("{other:?}"),
        };
        let shown = |change: &share::Change| {
            change.path.iter().map(|name| name.display().into_owned()).collect::<Vec<_>>().join("/")
        };
        changes.iter().map(shown).collect()
    };
    let [above, inside] = ["", ".recycle"].map(|at| watched(&bob, at));
    let [own, all] = [&alice, &admin].map(|client| watched(client, ""));
    alice.make_with("d/secret", "text");
    alice.remove("first");
    alice.remove("d/secret");
    alice.make_with("end", "");
    bob.make_with("end-of-bob", "");
    bob.remove("end-of-bob");
    let by_bob = seen(&above);
    let of_alice = by_bob.iter().filter(|path| path.contains("uid-1001"));
    assert_eq!(of_alice.collect::<Vec<_>>(), [""; 0], "{by_bob:?}");
    assert!(
        by_bob.contains(&"d/secret".to_owned())
            && by_bob.contains(&".recycle/uid-1002/end-of-bob".to_owned())
    );
    assert_eq!(seen(&inside), ["uid-1002/end-of-bob"]);
    for open in [&own, &all] {
        assert!(seen(open).contains(&".recycle/uid-1001/d/secret".to_owned()));
    }
    // The purge is no secret to the user alone.
    world.share.configure(keeping(RecycleRules { most_bytes: 1, ..rules() }));
    world.share.purge_recycled(later(0), 1000);
    alice.make_with("at-last", "");
    assert!(seen(&above).iter().all(|path| !path.contains("uid-1001")));
    assert!(seen(&own).contains(&".recycle/uid-1001/d/secret".to_owned()));
}

#[test]
fn the_folders_themselves_become_no_reparse_points_and_no_links() {
    let world = TestShare::with(keeping(rules()));
    let client = world.client(1);
    client.make_with("f", "text");
    client.remove("f");
    client.remove(".recycle/uid-1001/f");
    let open = client.open(".recycle/uid-1001").access(Rights::WRITE_ATTRIBUTES | READ).open();
    let point = [0x19, 0, 0, 0x80, 4, 0, 0, 0, 1, 2, 3, 4];
    client.caller(true, now(), |c| {
        assert_eq!(world.share.set_reparse(c, &open, &point), Err(Refusal::AccessDenied));
        assert_eq!(world.share.make_link(c, &open, b"elsewhere"), Err(Refusal::AccessDenied));
    });
    client.close(&open);
    client.make_with("f", "text");
    client.remove("f");
    assert_eq!(client.names_in(".recycle/uid-1001"), ["f"]);
}

#[test]
fn a_folder_of_others_is_not_used_and_its_contents_stay() {
    let world = TestShare::with(Config::default());
    let client = world.client(1);
    client.make_directory(".recycle");
    client.make_with(".recycle/own", "text");
    client.make_with("f", "text");
    world.share.configure(keeping(rules()));
    client.remove("f");
    assert_eq!(removed(&world, FinalRemoval::ForeignFolder), 1);
    world.share.purge_recycled(later(0), 1000);
    assert_eq!(client.names_in(".recycle"), ["own"]);
    // Nor is a link or a file.
    let root = world.memory.root().unwrap();
    root.rename(&name(".recycle"), root.as_ref(), &name("moved"), false, None).unwrap();
    root.create_link(&name(".recycle"), b"moved", None).unwrap();
    client.make_with("f", "text");
    client.remove("f");
    assert_eq!(removed(&world, FinalRemoval::ForeignFolder), 2);
    assert_eq!(client.names_in("moved"), ["own"]);
    root.remove(&name(".recycle"), false, None).unwrap();
    client.make_with("f", "text");
    client.remove("f");
    assert_eq!(client.names_in(".recycle/uid-1001"), ["f"]);
}

#[test]
fn a_removal_succeeds_whatever_call_fails_for_the_folder() {
    use VolumeCall::{Create, Note, Rename, SetAttributes, SetNote};
    for call in [Create, SetAttributes, SetNote, Rename, Note] {
        for failure in [Failure::NoSpace, Failure::Quota, Failure::Io] {
            let (world, plan) = TestShare::planned(keeping(rules()));
            let client = world.client(1);
            client.make_directory("d");
            client.make_with("d/f", "text");
            let open = client.open("d/f").access(Rights::DELETE).open();
            client.set_delete(&open, true).unwrap();
            plan.always(call, Some(failure));
            client.close(&open);
            plan.always(call, None);
            assert_eq!(client.open("d/f").refusal(), Refusal::NotFound, "{call:?} {failure:?}");
            assert_eq!(summary(&world).kept + summary(&world).removed.iter().sum::<u64>(), 1);
            // When the disk is sound again, files are kept again and nothing half made is left.
            client.make_with("d/f", "text");
            client.remove("d/f");
            assert_eq!(client.names_in(".recycle/uid-1001/d"), ["f"], "{call:?} {failure:?}");
            assert_eq!(client.names_in(""), [".recycle", "d"]);
        }
    }
}

#[test]
fn the_oldest_go_when_there_is_too_much_and_all_go_when_their_time_is_over() {
    let bounded = RecycleRules { most_bytes: 3 * 4096, ..rules() };
    let world = TestShare::with(keeping(bounded));
    let client = world.client(1);
    client.make_directory("d");
    for n in 0..6 {
        client.make_with(&format!("d/f{n}"), "text");
        client.remove(&format!("d/f{n}"));
    }
    for _ in 0..100 {
        world.share.purge_recycled(later(0), 2);
    }
    let left = client.names_in(".recycle/uid-1001/d");
    assert!(left.contains(&"f5".to_owned()) && !left.contains(&"f0".to_owned()), "{left:?}");
    let after = summary(&world);
    assert!(after.bytes <= 3 * 4096 && after.purged + after.files == 6, "{after:?}");
    assert_eq!(after.files, left.len() as u64);
    // An hour later the next search finds that their time is over.
    let aged = RecycleRules { keep_for: Some(Duration::from_secs(86_400)), ..rules() };
    world.share.configure(keeping(aged));
    world.share.purge_recycled(later(0), 1000);
    assert_eq!((summary(&world).files, client.names_in(".recycle/uid-1001/d").len()), (0, 0));
    // And the next one finds the empty directory.
    world.share.purge_recycled(later(3600), 1000);
    assert_eq!(client.names_in(".recycle/uid-1001"), [""; 0]);
}

#[test]
fn a_file_that_is_open_is_not_purged() {
    let bounded = RecycleRules { most_bytes: 1, largest_file: u64::MAX, ..rules() };
    let world = TestShare::with(keeping(RecycleRules { most_bytes: u64::MAX, ..bounded.clone() }));
    let client = world.client(1);
    client.make_with("f", "text");
    client.remove("f");
    let held = client.open(".recycle/uid-1001/f").open();
    world.share.configure(keeping(bounded));
    world.share.purge_recycled(later(0), 1000);
    assert_eq!(client.names_in(".recycle/uid-1001"), ["f"]);
    client.close(&held);
    world.share.purge_recycled(later(0), 1000);
    assert_eq!(client.names_in(".recycle/uid-1001"), [""; 0]);
}

#[test]
fn a_full_share_takes_the_room_of_the_oldest_removed_files() {
    let config = keeping(rules());
    let world = TestShare::over(config, |memory| Arc::new(MeteredVolume::new(Arc::new(memory), None, None)));
    let client = world.client(1);
    let text = "x".repeat(40_000);
    for at in ["a", "b", "c"] {
        client.make_with(at, &text);
        client.remove(at);
    }
    let used = world.share.usage().unwrap().bytes;
    world.share.set_quota(Some(used)).unwrap();
    // Nothing has searched the folder yet. A further file takes the room of all that are found.
    client.make_with("d", &text);
    assert_eq!(client.read(&client.open("d").open()).unwrap(), text);
    assert_eq!(
        (summary(&world).purged, client.names_in(".recycle/uid-1001")),
        (1, vec!["b".into(), "c".into()])
    );
    // Without any, the request is refused as ever.
    let open = client.open("d").open();
    let full = client.write(&open, 40_000, &"y".repeat(200_000));
    assert_eq!(full, Err(Refusal::NoSpace));
}

#[test]
fn a_directory_that_was_taken_back_keeps_its_files_and_later_removals_make_room() {
    let config = keeping(rules());
    let world = TestShare::over(config, |memory| Arc::new(MeteredVolume::new(Arc::new(memory), None, None)));
    let client = world.client(1);
    let text = "x".repeat(40_000);
    client.make_directory("d");
    client.make_with("other", "text");
    for at in ["d/a", "d/b"] {
        client.make_with(at, &text);
        client.remove(at);
    }
    // Now the search knows both, with their directory.
    world.share.purge_recycled(later(0), 1000);
    let directory =
        client.open(".recycle/uid-1001/d").access(Rights::DELETE).options(Options::DIRECTORY).open();
    done(client.rename(&directory, "back", false)).unwrap();
    client.close(&directory);
    world.share.set_quota(Some(world.share.usage().unwrap().bytes)).unwrap();
    let open = client.open("other").open();
    assert_eq!(client.write(&open, 0, &text), Err(Refusal::NoSpace));
    assert_eq!((client.names_in("back"), summary(&world).purged), (vec!["a".to_owned(), "b".to_owned()], 0));
    // A file that is removed after the search makes room at once.
    client.remove("back/a");
    client.write(&open, 0, &text).unwrap();
    assert_eq!((client.names_in("back"), summary(&world).purged), (vec!["b".to_owned()], 1));
}

#[test]
fn two_clients_that_make_and_remove_one_name_lose_no_file() {
    let world = TestShare::with(keeping(rules()));
    let rounds = 5000;
    let run = |n: u128| {
        let client = world.client(n);
        let mut removed = 0;
        for _ in 0..rounds {
            let made = client
                .open("f")
                .disposition(Disposition::OpenOrCreate)
                .options(Options::DELETE_ON_CLOSE)
                .without_waiting()
                .result();
            if let Ok(opened) = made {
                client.close(&opened.open);
                removed += 1;
            }
        }
        removed
    };
    let total: u64 = std::thread::scope(|scope| {
        let both = [1, 2].map(|n| scope.spawn(move || run(n)));
        both.map(|one| one.join().unwrap()).iter().sum()
    });
    let numbers = summary(&world);
    assert!(numbers.kept <= total && numbers.kept > 0);
    let client = world.client(3);
    assert_eq!(client.names_in(".recycle/uid-1001").len() as u64, numbers.kept);
    assert_eq!(client.names_in(""), [".recycle"]);
}
