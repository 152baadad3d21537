//! Files found by their address, whatever the host and a new process do meanwhile. The tests run as the
//! present user. If that is root, they run once more without privileges: the host then opens nothing by
//! handle, and the table of nodes finds the files.

mod common;

use volume::{Failure, Node, Volume};
use volume_posix::PosixVolume;

/// The most steps that a search may take here.
const MOST_STEPS: usize = 100;

/// The node with this address, however many steps the search for it takes.
fn find(volume: &PosixVolume, address: &[u8]) -> volume::Result<std::sync::Arc<dyn Node>> {
    let mut steps = (0..MOST_STEPS).map(|_| volume.find(address));
    steps.find(|found| !matches!(found, Err(Failure::Busy))).unwrap_or(Err(Failure::Busy))
}

/// Whether an address leads to a node with this content.
fn leads_to(volume: &PosixVolume, address: &[u8], content: &[u8]) -> bool {
    let mut out = Vec::new();
    let node = find(volume, address).and_then(|node| node.open_again(volume::OpenHow::Read));
    node.and_then(|node| node.read(0, 100, &mut out, volume::Patience::Block)).is_ok() && out == content
}

mod here {
    use super::common::{file, files, found, fresh, is_root, name, open, others};
    use super::{find, leads_to};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use volume::{Failure, NodeKind, OpenHow, Volume};

    /// How often a directory is moved while another thread looks for it.
    const MOVES: usize = 3000;

    /// A directory `d/e` with a file `f` in it, and their addresses.
    pub fn tree(volume: &volume_posix::PosixVolume) -> [Vec<u8>; 3] {
        let d = volume.root().unwrap().create_directory(&name("d"), 0o755, None).unwrap();
        let e = d.create_directory(&name("e"), 0o755, None).unwrap();
        let f = e.create_file(&name("f"), 0o644, None).unwrap();
        f.write(0, b"content").unwrap();
        [&d, &e, &f].map(|node| node.address().unwrap())
    }

    #[test]
    fn what_a_new_process_is_asked_for_is_found() {
        let (volume, temp_dir) = fresh();
        let [d, e, f] = tree(&volume);
        let root = volume.root().unwrap().address().unwrap();
        // As after a kill: nothing is dropped in order.
        std::mem::forget(volume);
        let volume = open(&temp_dir);
        assert!(leads_to(&volume, &f, b"content"));
        for (address, kind) in
            [(&root, NodeKind::Directory), (&d, NodeKind::Directory), (&e, NodeKind::Directory)]
        {
            let node = volume.find(address).unwrap();
            assert_eq!((node.kind(), node.address().as_ref()), (kind, Ok(address)));
        }
        assert_eq!(volume.find(&e).unwrap().parent_and_name().unwrap().unwrap().1, name("e"));
    }

    #[test]
    fn names_that_clients_move_are_followed() {
        let (volume, temp_dir) = fresh();
        let [_, e, f] = tree(&volume);
        let root = volume.root().unwrap();
        let d = found(&volume, "d").unwrap();
        d.rename(&name("e"), &*root, &name("other"), false, None).unwrap();
        let moved = found(&volume, "other").unwrap();
        moved.rename(&name("f"), &*d, &name("g"), false, None).unwrap();
        for volume in [&volume, &open(&temp_dir)] {
            // At once, without a search.
            assert_eq!(volume.find(&f).unwrap().kind(), NodeKind::File);
            assert_eq!(volume.find(&e).unwrap().parent_and_name().unwrap().unwrap().1, name("other"));
            assert!(leads_to(volume, &f, b"content"));
        }
    }

    #[test]
    fn where_a_directory_stands_is_found_while_the_host_moves_it() {
        let (volume, temp_dir) = fresh();
        tree(&volume);
        let e = found(&volume, "d").unwrap().lookup(&name("e"), OpenHow::Read).unwrap();
        std::fs::create_dir(files(&temp_dir).join("x")).unwrap();
        let paths = ["d/e", "x/other"].map(|path| files(&temp_dir).join(path));
        let turn = std::sync::Barrier::new(2);
        let mut lost = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..MOVES {
                    turn.wait();
                    std::fs::rename(&paths[number % 2], &paths[(number + 1) % 2]).unwrap();
                }
            });
            for _ in 0..MOVES {
                turn.wait();
                lost += usize::from(e.parent_and_name().is_err());
            }
        });
        assert_eq!(lost, 0);
    }

    #[test]
    fn who_may_not_see_where_a_directory_stands_is_not_told_that_it_is_gone() {
        let (volume, temp_dir) = fresh();
        tree(&volume);
        let e = found(&volume, "d").unwrap().lookup(&name("e"), OpenHow::Read).unwrap();
        let d = files(&temp_dir).join("d");
        let set = |mode| std::fs::set_permissions(&d, Permissions::from_mode(mode)).unwrap();
        set(0o000);
        let told = e.parent_and_name().map(|found| found.map(|(_, name)| name));
        set(0o755);
        let expected = if is_root() { Ok(Some(name("e"))) } else { Err(Failure::Denied) };
        assert_eq!(told, expected);
        std::fs::remove_dir_all(&d).unwrap();
        assert_eq!(e.parent_and_name().err(), Some(Failure::Stale));
    }

    #[test]
    fn names_that_the_host_moves_are_found() {
        let (volume, temp_dir) = fresh();
        let [d, e, f] = tree(&volume);
        for (script, content) in [
            ("mv d/e/f d/e/g", b"content"),
            ("mv d/e/g g", b"content"),
            ("mkdir -p x/y; mv g x/y/f", b"content"),
            ("mv x d/e/f; rm -f d/e/f/none", b"content"),
            ("mv d z", b"content"),
            ("mv z/e .; mv e/f/y/f z/e", b"content"),
        ] {
            others(&files(&temp_dir), script);
            for volume in [&volume, &open(&temp_dir)] {
                assert!(leads_to(volume, &f, content), "{script}");
                assert!(find(volume, &d).is_ok() && find(volume, &e).is_ok(), "{script}");
            }
        }
    }

    #[test]
    fn what_is_gone_is_stale_and_nothing_else_has_its_address() {
        let (volume, temp_dir) = fresh();
        let [d, e, f] = tree(&volume);
        let (g, h) = (file(&volume, "g"), file(&volume, "h"));
        let [g, h] = [g, h].map(|node| node.address().unwrap());
        // By a client, by a replacement, and by the host.
        volume.root().unwrap().remove(&name("g"), false, None).unwrap();
        volume.root().unwrap().create_file(&name("i"), 0o644, None).unwrap();
        volume.root().unwrap().rename(&name("i"), &*volume.root().unwrap(), &name("h"), true, None).unwrap();
        others(&files(&temp_dir), "rm -r d; mkdir -p d/e; echo no >d/e/f; echo no >g");
        for volume in [&volume, &open(&temp_dir)] {
            for (number, address) in [&d, &e, &f, &g, &h].into_iter().enumerate() {
                assert_eq!(find(volume, address).err(), Some(Failure::Stale), "{number}");
                assert_eq!(volume.find(address).err(), Some(Failure::Stale), "{number}");
            }
        }
    }

    #[test]
    fn a_file_lives_as_long_as_any_of_its_names() {
        let (volume, temp_dir) = fresh();
        let root = volume.root().unwrap();
        let f = file(&volume, "f");
        f.write(0, b"content").unwrap();
        let address = f.address().unwrap();
        for (text, is_by_host) in [("g", false), ("h", true)] {
            root.add_name(&name(text), &*f, None).unwrap();
            let last = if text == "g" { "f" } else { "g" };
            if is_by_host {
                others(&files(&temp_dir), &format!("rm {last}"));
            } else {
                root.remove(&name(last), false, None).unwrap();
            }
            assert!(leads_to(&volume, &address, b"content"));
            assert!(leads_to(&open(&temp_dir), &address, b"content"));
        }
        root.remove(&name("h"), false, None).unwrap();
        assert_eq!(find(&volume, &address).err(), Some(Failure::Stale));
    }

    #[test]
    fn an_address_made_of_anything_leads_nowhere() {
        let (volume, _place) = fresh();
        let [.., f] = tree(&volume);
        for at in 0..f.len() {
            for bit in 0..8 {
                let mut changed = f.clone();
                changed[at] ^= 1 << bit;
                let found = volume.find(&changed).map(|node| node.address().unwrap());
                // Some file systems leave bits of their handles unused.
                assert!(found.is_err() || found == Ok(changed) || found.as_ref() == Ok(&f), "{at} {bit}");
            }
            assert!(volume.find(&f[..at]).is_err());
        }
    }

    #[test]
    fn deep_and_odd_names_are_found() {
        let (volume, temp_dir) = fresh();
        let odd = ["a (deleted)", "a\nb", "\u{e4}\u{1f600}", "\\x41", " ", "..."];
        let mut at = volume.root().unwrap();
        let mut addresses = Vec::new();
        // Much deeper than a path may be long.
        for depth in 0..60 {
            let long = format!("{}{}", odd[depth % odd.len()], "x".repeat(100));
            at = at.create_directory(&name(&long), 0o755, None).unwrap();
            addresses.push((long, at.address().unwrap()));
        }
        let f = at.create_file(&name("f (deleted)"), 0o644, None).unwrap();
        f.write(0, b"content").unwrap();
        let address = f.address().unwrap();
        drop((at, f));
        let volume = open(&temp_dir);
        assert!(leads_to(&volume, &address, b"content"));
        for (long, address) in addresses {
            let node = find(&volume, &address).unwrap();
            assert_eq!(node.address().unwrap(), address, "{long}");
        }
    }
}

mod by_table {
    use super::common::{file, files, fresh, is_root, name, open, others, skipped};
    use super::{MOST_STEPS, find, leads_to};
    use volume::{Failure, Volume};

    #[test]
    fn no_link_leads_out_of_the_volume() {
        if is_root() {
            return skipped("by handle the host opens what is outside, and the engine asks where it stands");
        }
        let (volume, temp_dir) = fresh();
        let [d, e, f] = super::here::tree(&volume);
        let root = files(&temp_dir);
        others(&root, "mv d ../out; ln -s ../out d");
        for address in [&d, &e, &f] {
            assert_eq!(find(&volume, address).err(), Some(Failure::Stale));
        }
    }

    #[test]
    fn a_search_goes_on_in_steps_and_tells_who_asks_to_come_again() {
        if is_root() {
            return skipped("the host opens files by handle");
        }
        let (volume, temp_dir) = fresh();
        let (f, g) = (file(&volume, "f"), file(&volume, "g"));
        f.write(0, b"content").unwrap();
        let [f, g] = [f, g].map(|node| node.address().unwrap());
        // 20,000 names in 100 directories.
        for directory in 0..100 {
            let directory = files(&temp_dir).join(format!("{directory}"));
            std::fs::create_dir_all(directory.join("x")).unwrap();
            std::os::unix::fs::symlink("nowhere", directory.join("l")).unwrap();
            for number in 0..200 {
                std::fs::File::create(directory.join(format!("{number}"))).unwrap();
            }
        }
        others(&files(&temp_dir), "mkdir z; mv f z/f; rm g");
        let mut steps = (0..MOST_STEPS).take_while(|_| volume.find(&f).err() == Some(Failure::Busy)).count();
        assert!((0..10).contains(&steps), "{steps}");
        assert!(leads_to(&volume, &f, b"content"));
        steps = (0..MOST_STEPS).take_while(|_| volume.find(&g).err() == Some(Failure::Busy)).count();
        assert!((1..10).contains(&steps), "{steps}");
        assert_eq!(volume.find(&g).err(), Some(Failure::Stale));
    }

    #[test]
    fn a_table_that_lost_records_is_made_up_for_by_searching() {
        if is_root() {
            return skipped("the host opens files by handle");
        }
        let (volume, temp_dir) = fresh();
        let d = volume.root().unwrap().create_directory(&name("d"), 0o755, None).unwrap();
        let f = d.create_file(&name("f"), 0o644, None).unwrap();
        f.write(0, b"content").unwrap();
        let g = d.create_file(&name("g"), 0o644, None).unwrap();
        let [f, g] = [f, g].map(|node| node.address().unwrap());
        drop(volume);
        others(&files(&temp_dir), "rm d/g");
        let table = temp_dir.path().join("beside/nodes");
        let whole = std::fs::read(&table).unwrap();
        for number in 0..5 {
            let mut bytes = whole.clone();
            match number {
                0 => bytes.truncate(whole.len() / 2),
                // Written in another boot of the host, and without the records.
                1 => {
                    bytes.truncate(45);
                    bytes[10] ^= 1;
                }
                2 => bytes[50] ^= 1,
                3 => bytes.clear(),
                _ => bytes[0] ^= 1,
            }
            std::fs::write(&table, bytes).unwrap();
            for _ in 0..2 {
                let volume = open(&temp_dir);
                assert!(leads_to(&volume, &f, b"content"), "{number}");
                assert_eq!(find(&volume, &g).err(), Some(Failure::Stale), "{number}");
                // A lookup makes them known again.
                assert!(volume.find(&f).unwrap().address().is_ok());
            }
        }
    }

    #[test]
    fn looking_after_them_finds_what_the_host_moved_and_forgets_what_it_removed() {
        if is_root() {
            return skipped("the host opens files by handle");
        }
        let (volume, temp_dir) = fresh();
        let addresses: Vec<_> =
            (0..20).map(|number| file(&volume, &format!("{number}")).address().unwrap()).collect();
        others(&files(&temp_dir), "mkdir d; mv 1 3 5 7 9 d; rm 2 4 6 8 10");
        for _ in 0..4 {
            // These files have no sidecar data, so the result is about the table.
            let _ = volume.collect_orphans(7);
        }
        // The found node is at its place again. No search runs that would end the search for the others.
        for (number, address) in addresses.iter().enumerate() {
            let is_gone = (2..=10).contains(&number) && number % 2 == 0;
            assert_eq!(volume.find(address).is_ok(), !is_gone, "{number}");
        }
    }
}

#[test]
fn the_same_again_without_privileges() {
    for (filter, count) in [("here::", 9), ("by_table::", 4)] {
        if let Some(passed) = common::again_as_nobody(filter) {
            assert_eq!(passed, count, "{filter}");
        }
    }
}
