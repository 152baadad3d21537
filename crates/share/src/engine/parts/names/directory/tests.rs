//! The state that is kept of directories is bounded, and never older than a change.

use volume::faulty::{FaultyVolume, VolumeCall};
use volume::memory::MemoryVolume;

use super::location::MoveCounts;
use super::*;
use crate::engine::values::descriptors::Descriptors;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Two directories with ten names each.
fn two() -> (Directories, [Arc<Directory>; 2]) {
    let volume: Arc<dyn Volume> = Arc::new(MemoryVolume::new(1));
    let cache = Arc::new(Cache::new(1 << 20, &Descriptors::new(9), true));
    let root = Directory::root(&volume, volume.root().unwrap(), &cache);
    let directories = Directories::new(&volume, &root, &cache);
    let two = ["a", "b"].map(|text| {
        let own = name(text);
        let node = root.node.create_directory(&own, 0o755, None).unwrap();
        (0..10).for_each(|n| drop(node.create_file(&name(&format!("f{n}")), 0o644, None).unwrap()));
        directories.enter(&root, (&own, &own), node, None)
    });
    (directories, two)
}

/// Records that the host has given this location of a directory, when these moves were counted.
fn stands(
    directories: &Directories,
    it: &Directory,
    (parent, text): (&Arc<Directory>, &str),
    moves: MoveCounts,
) {
    let node = Arc::clone(&it.node);
    directories.enter_as(parent.entry(&name(text)), node, Evidence::Told(moves));
}

/// The recorded location, and whether it is known to be right.
fn location_of(directories: &Directories, it: &Directory) -> (NodeId, Name, bool) {
    let (parent, name) = it.parent_and_name().unwrap();
    (parent.id, name, directories.is_placed(it))
}

#[test]
fn a_place_that_is_noted_late_does_not_take_the_one_of_a_move_since() {
    let (directories, [a, b]) = two();
    let root = Arc::clone(&directories.root);
    for by_client in [true, false] {
        let old = name(if by_client { "c" } else { "d" });
        let generation = root.generation();
        let node = root.node.create_directory(&old, 0o755, None).unwrap();
        let c = directories.enter(&root, (&old, &old), Arc::clone(&node), Some(generation));
        // One thread asks for the location, another looks the directory up, and then it is moved.
        let (early, generation) = (directories.moves(), root.generation());
        root.node.rename(&old, a.node.as_ref(), &old, false, None).unwrap();
        root.removed(&old);
        a.added(&old);
        match by_client {
            true => directories.note_renamed(c.id, a.entry(&old), early),
            false => directories.note_moved(),
        }
        if !by_client {
            stands(&directories, &a, (&root, "a"), directories.moves());
            stands(&directories, &c, (&a, str::from_utf8(old.as_bytes()).unwrap()), directories.moves());
        }
        let new = (a.id, old.clone(), true);
        assert_eq!(location_of(&directories, &c), new, "{by_client}");
        directories.enter_as(root.entry(&old), Arc::clone(&node), Evidence::Told(early));
        assert_eq!(location_of(&directories, &c), new, "{by_client}: as the host said before");
        for generation in [Some(generation), None] {
            directories.enter(&root, (&old, &old), Arc::clone(&node), generation);
            assert_eq!(location_of(&directories, &c), new, "{by_client}: as it was found at {generation:?}");
        }
        // The next move was not reported yet, and the location of the directory above is not known to be
        // right.
        a.node.rename(&old, b.node.as_ref(), &old, false, None).unwrap();
        directories.note_moved();
        directories.enter(&b, (&old, &old), Arc::clone(&node), Some(b.generation()));
        assert_eq!(location_of(&directories, &c), (b.id, old.clone(), false), "{by_client}");
    }
}

#[test]
fn a_directory_that_nobody_knew_when_a_client_moved_it_is_asked_for_its_place_again() {
    let (directories, [a, b]) = two();
    let root = Arc::clone(&directories.root);
    let [c, d] = ["c", "d"].map(|text| {
        let cache = &directories.cache;
        let volume: Arc<dyn Volume> = Arc::new(MemoryVolume::new(1));
        let node = root.node.create_directory(&name(text), 0o755, None).unwrap();
        Directory::new(&volume, node, Some((Arc::clone(&root), name(text))), cache)
    });
    let early = directories.moves();
    directories.note_renamed(c.id, a.entry(&name("c")), early);
    for (it, text) in [(&c, "c"), (&d, "d")] {
        stands(&directories, it, (&root, text), early);
        assert!(!directories.is_placed(&directories.get(it.id).unwrap()), "{text}");
        // The same holds for those below it.
        let below = it.node.create_directory(&name("below"), 0o755, None).unwrap();
        let known = directories.get(it.id).unwrap();
        let below = directories.enter_as(known.entry(&name("below")), below, Evidence::Told(early));
        assert!(!directories.is_placed(&below), "{text}");
        stands(&directories, it, (&root, text), directories.moves());
        assert!(directories.is_placed(&directories.get(it.id).unwrap()), "{text}");
    }
    assert!(directories.is_placed(&a) && directories.is_placed(&b));
}

#[test]
fn a_move_into_a_directory_that_others_may_have_moved_has_all_asked_again() {
    let (directories, [a, b]) = two();
    let root = Arc::clone(&directories.root);
    directories.note_moved();
    stands(&directories, &b, (&root, "b"), directories.moves());
    let below = name("below");
    let node = b.node.create_directory(&below, 0o755, None).unwrap();
    let below = directories.enter(&b, (&below, &below), node, Some(b.generation()));
    let are_placed = || [&b, &below].map(|it| directories.is_placed(it));
    assert_eq!(are_placed(), [true, true]);
    directories.note_renamed(b.id, root.entry(&name("new")), directories.moves());
    assert_eq!(are_placed(), [true, true]);
    // A directory below it goes with the one above, wherever that is.
    directories.note_renamed(b.id, a.entry(&name("new")), directories.moves());
    assert_eq!(are_placed(), [false, false]);
    stands(&directories, &b, (&a, "new"), directories.moves());
    assert_eq!(are_placed(), [false, false], "nobody has asked for the one above");
    stands(&directories, &a, (&root, "a"), directories.moves());
    stands(&directories, &b, (&a, "new"), directories.moves());
    assert_eq!(are_placed(), [true, false]);
}

#[test]
fn what_the_host_has_said_is_not_asked_again() {
    let faulty = FaultyVolume::new(Arc::new(MemoryVolume::new(1)));
    let plan = Arc::clone(faulty.plan());
    let volume: Arc<dyn Volume> = Arc::new(faulty);
    let cache = Arc::new(Cache::new(1 << 20, &Descriptors::new(9), true));
    let root = Directory::root(&volume, volume.root().unwrap(), &cache);
    let directories = Directories::new(&volume, &root, &cache);
    let nodes = ["a", "b", "c"].map(|text| root.node.create_directory(&name(text), 0o755, None).unwrap());
    directories.note_moved();
    let asked = || plan.count(VolumeCall::Stat);
    let before = asked();
    let moves = directories.moves();
    let [a, b, c] = nodes;
    let a = directories.enter_as(root.entry(&name("a")), a, Evidence::Told(moves));
    assert_eq!((directories.is_placed(&a), asked() - before), (true, 0));
    let b = directories.enter(&root, (&name("b"), &name("b")), b, None);
    assert_eq!((directories.is_placed(&b), asked() - before), (true, 1));
    // The location of the directory above is not known to be right.
    directories.note_moved();
    let c = directories.enter(&a, (&name("c"), &name("c")), c, None);
    assert_eq!((directories.is_placed(&c), asked() - before), (false, 1));
}

#[test]
fn a_directory_that_is_found_after_others_were_moved_is_known_to_stand_where_it_was_found() {
    let (directories, [a, _]) = two();
    let root = Arc::clone(&directories.root);
    let find = |parent: &Arc<Directory>, text: &str, is_looked_up: bool, happens: &dyn Fn()| {
        let own = name(text);
        let generation = parent.generation();
        let node = parent.node.create_directory(&own, 0o755, None).unwrap();
        happens();
        let generation = is_looked_up.then_some(generation);
        directories.is_placed(&directories.enter(parent, (&own, &own), node, generation))
    };
    let is_moved = || {
        directories.note_moved();
        root.note_missing(&name("other"));
    };
    assert!(find(&root, "c", true, &|| ()));
    assert!(directories.is_placed(&a));
    directories.note_moved();
    assert!(!directories.is_placed(&a));
    for is_looked_up in [true, false] {
        assert!(find(&root, &format!("d{is_looked_up}"), is_looked_up, &|| ()));
        assert!(!find(&a, &format!("e{is_looked_up}"), is_looked_up, &|| ()), "the one above is not known");
    }
    stands(&directories, &a, (&root, "a"), directories.moves());
    assert!(find(&a, "f", true, &|| ()));
    // A move since the lookup may have moved it.
    assert!(!find(&root, "g", true, &is_moved));
    assert!(!find(&root, "h", false, &|| {
        directories.note_moved();
        root.node.rename(&name("h"), root.node.as_ref(), &name("i"), false, None).unwrap();
    }));
}

#[test]
fn indexes_are_bounded_together_and_what_is_dropped_counts_no_more() {
    let (directories, [a, b]) = two();
    let names = || directories.names.load(Ordering::Relaxed);
    let find = |directory: &Directory| directories.spellings(directory, &name("F5")).unwrap().len();
    assert_eq!((find(&a), find(&b), names()), (1, 1, 20));
    a.added(&name("more"));
    b.removed(&name("f1"));
    b.removed(&name("f2"));
    assert_eq!(names(), 19);
    for _ in 0..3 {
        a.forget_names();
        assert_eq!((find(&a), names()), (1, 18));
    }
    // Others have as many as there may be.
    directories.names.fetch_add(MAX_NAMES, Ordering::Relaxed);
    [&a, &b].iter().for_each(|directory| directory.misses.store(5, Ordering::Relaxed));
    a.added(&name("more"));
    assert_eq!((names(), a.misses.load(Ordering::Relaxed)), (MAX_NAMES + 8, 0));
    assert_eq!((find(&a), names(), b.misses.load(Ordering::Relaxed)), (1, MAX_NAMES + 10, 0));
}

#[test]
fn what_was_seen_of_a_directory_before_it_was_changed_is_not_noted_after_it() {
    let (_, [a, _]) = two();
    let (generation, own_changes) = (a.generation(), a.own_changes());
    a.own_changed();
    a.note_version_issued(generation, own_changes);
    assert!(!a.is_version_current());
    a.note_version_issued(a.generation(), a.own_changes());
    assert!(a.is_version_current());
    a.added(&name("more"));
    assert!(!a.is_version_current());
}
