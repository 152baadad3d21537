//! What is kept of directories is bounded, and never older than a change.

use volume::memory::MemoryVolume;

use super::super::cache::Descriptors;
use super::*;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Two directories with ten names each.
fn two() -> (Directories, [Arc<Directory>; 2]) {
    let volume: Arc<dyn Volume> = Arc::new(MemoryVolume::new(1));
    let cache = Arc::new(Cache::new(1 << 20, &Descriptors::new(9), true));
    let root = Directory::root(&volume, volume.root().unwrap(), &cache);
    let directories = Directories::new(Arc::clone(&root), &cache);
    let two = ["a", "b"].map(|text| {
        let own = name(text);
        let node = root.node.create_directory(&own, 0o755, None).unwrap();
        (0..10).for_each(|n| drop(node.create_file(&name(&format!("f{n}")), 0o644, None).unwrap()));
        directories.enter(&volume, &root, (&own, &own), node, None)
    });
    (directories, two)
}

#[test]
fn a_directory_that_is_found_after_others_were_moved_is_known_to_stand_where_it_was_found() {
    let (directories, [a, _]) = two();
    let (root, volume): (_, Arc<dyn Volume>) =
        (Arc::clone(&directories.root), Arc::new(MemoryVolume::new(1)));
    let find = |parent: &Arc<Directory>, text: &str, is_looked_up: bool, happens: &dyn Fn()| {
        let own = name(text);
        let generation = parent.generation();
        let node = parent.node.create_directory(&own, 0o755, None).unwrap();
        happens();
        let generation = is_looked_up.then_some(generation);
        directories.is_placed(&directories.enter(&volume, parent, (&own, &own), node, generation))
    };
    let is_moved = || {
        directories.note_moved();
        root.seen_gone(&name("other"));
    };
    assert!(find(&root, "c", true, &|| ()));
    assert!(directories.is_placed(&a));
    directories.note_moved();
    assert!(!directories.is_placed(&a));
    for is_looked_up in [true, false] {
        assert!(find(&root, &format!("d{is_looked_up}"), is_looked_up, &|| ()));
        assert!(!find(&a, &format!("e{is_looked_up}"), is_looked_up, &|| ()), "the one above is not known");
    }
    directories.note_placed(&a, directories.moved());
    assert!(find(&a, "f", true, &|| ()));
    // What happened since it was looked up may have moved it.
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
    a.note_told(generation, own_changes);
    assert!(!a.is_as_told());
    a.note_told(a.generation(), a.own_changes());
    assert!(a.is_as_told());
    a.added(&name("more"));
    assert!(!a.is_as_told());
}
