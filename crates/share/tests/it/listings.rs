//! Stored listings of directories: the calls on the volume that they save, and the events that end them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::engine::ListedEntry;
use share::{Config, Open};
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};
use volume::{Failure, HostChange, HostEvent, Node, OpenHow, Volume};

/// A directory `d` with files `f0`, `f1`, …, and a client that has it open.
struct ListedDirectory {
    world: TestShare,
    plan: Arc<FaultPlan>,
    client: Client,
    open: Arc<Open>,
    directory: Arc<dyn Node>,
    requests: u64,
}

impl ListedDirectory {
    fn new(files: usize) -> ListedDirectory {
        let (world, plan) = TestShare::planned(Config::default());
        let client = world.client(1);
        client.make_directory("d");
        let directory = world.memory.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap();
        for n in 0..files {
            directory.create_file(&name(&format!("f{n}")), 0o666, None).unwrap();
        }
        let open = client.open("d").access(READ).open();
        ListedDirectory { world, plan, client, open, directory, requests: 0 }
    }

    /// Reads entries behind a cookie. Returns the number of calls.
    fn scan(
        &mut self,
        cookie: u64,
        wants: &mut dyn FnMut(&str) -> bool,
        visit: &mut dyn FnMut(&ListedEntry<'_>) -> ControlFlow<()>,
    ) -> u64 {
        self.requests += 1;
        let now = now().plus(Duration::from_millis(self.requests));
        let before = self.plan.metadata_calls();
        self.client.caller(true, now, |c| {
            let wants = &mut |name: &volume::Name| wants(std::str::from_utf8(name.as_bytes()).unwrap());
            self.world.share.scan(c, &self.open, cookie, wants, visit).unwrap();
        });
        self.plan.metadata_calls() - before
    }

    /// At most `most` names behind a cookie, the number of calls, and the cookie to go on with.
    fn names(&mut self, mut cookie: u64, most: usize) -> (Vec<String>, u64, u64) {
        let mut names = Vec::new();
        let calls = self.scan(cookie, &mut |_| true, &mut |entry| {
            if names.len() == most {
                return ControlFlow::Break(());
            }
            names.push(entry.name().display().into_owned());
            cookie = entry.cookie();
            ControlFlow::Continue(())
        });
        (names, calls, cookie)
    }

    /// The number of calls of each page of a whole listing.
    fn pages(&mut self, files: usize, page: usize) -> Vec<u64> {
        let (mut calls, mut cookie, mut all) = (Vec::new(), 0, Vec::new());
        loop {
            let (names, taken, at) = self.names(cookie, page);
            calls.push(taken);
            if names.is_empty() {
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), files);
                return calls;
            }
            all.extend(names);
            cookie = at;
        }
    }

    /// The number of calls of a listing of the names that `wants` selects, with their stat.
    fn figures(&mut self, wants: &mut dyn FnMut(&str) -> bool) -> u64 {
        self.scan(0, wants, &mut |entry| {
            assert_eq!(entry.info().unwrap().size, 0);
            ControlFlow::Continue(())
        })
    }
}

#[test]
fn a_listing_of_names_asks_for_nothing_the_second_time() {
    for (on, expected) in [(true, [1, 0, 0]), (false, [1, 1, 1])] {
        let mut it = ListedDirectory::new(1000);
        it.world.share.set_metadata_caching(on);
        let calls = [(); 3].map(|()| {
            let (names, calls, _) = it.names(0, 1001);
            assert_eq!(names.len(), 1000);
            calls
        });
        assert_eq!(calls, expected, "on: {on}");
    }
}

#[test]
fn of_many_pages_the_first_two_are_scanned() {
    let mut it = ListedDirectory::new(1000);
    assert_eq!(it.pages(1000, 100), [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(it.pages(1000, 10).iter().sum::<u64>(), 0);
    it.world.share.set_metadata_caching(false);
    assert_eq!(it.pages(1000, 100), [1; 11]);
    // Turned on again, it begins anew.
    it.world.share.set_metadata_caching(true);
    assert_eq!(it.pages(1000, 500), [1, 1, 0]);
}

#[test]
fn figures_are_asked_for_each_time_and_only_those_that_are_wanted() {
    const FILES: u64 = 1000;
    let mut it = ListedDirectory::new(1000);
    // The scan, each file, and its sidecar data; then each file.
    let all = &mut |_: &str| true;
    assert_eq!([(); 3].map(|()| it.figures(all)), [1 + 2 * FILES, FILES, FILES]);
    let mut many = ListedDirectory::new(10_000);
    let one = &mut |name: &str| name == "f7777";
    assert_eq!([(); 3].map(|()| many.figures(one)), [3, 1, 1]);
    many.world.share.set_metadata_caching(false);
    assert_eq!(many.figures(one), 3);
}

#[test]
fn a_change_of_any_name_is_seen_and_what_was_listed_is_scanned_again() {
    let mut it = ListedDirectory::new(3);
    let tell = |it: &ListedDirectory, text: &str, change| {
        let (directory, name) = (it.directory.id(), Some(name(text)));
        it.world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
    };
    let check = |it: &mut ListedDirectory, expected: &[&str], calls: u64| {
        let (mut names, taken, _) = it.names(0, 99);
        names.sort_unstable();
        assert_eq!((names.iter().map(String::as_str).collect::<Vec<_>>(), taken), (expected.to_vec(), calls));
        assert_eq!(it.names(0, 99).1, 0);
    };
    check(&mut it, &["f0", "f1", "f2"], 1);
    it.client.make_with("d/made", "");
    check(&mut it, &["f0", "f1", "f2", "made"], 1);
    it.directory.remove(&name("f1"), false, None).unwrap();
    tell(&it, "f1", HostChange::Removed);
    // The effect of an event may need a call, too.
    let (names, ..) = it.names(0, 99);
    assert!(!names.contains(&"f1".to_owned()), "{names:?}");
    it.directory.rename(&name("f2"), it.directory.as_ref(), &name("moved"), false, None).unwrap();
    it.world.memory.tell(HostEvent::Overflow);
    let (mut names, ..) = it.names(0, 99);
    names.sort_unstable();
    assert_eq!(names, ["f0", "made", "moved"]);
}

#[test]
fn a_listing_under_way_goes_on_where_it_was_while_names_come_and_go() {
    let mut it = ListedDirectory::new(100);
    let (first, _, cookie) = it.names(0, 40);
    let (_, _, far) = it.names(cookie, 40);
    assert_eq!(it.names(far, 5).1, 0, "it is remembered by now");
    it.client.make_with("d/new", "");
    it.directory.remove(&name(&first[39]), false, None).unwrap();
    it.world.memory.tell(HostEvent::Overflow);
    // The entry of the cookie is gone, and the one behind it is not.
    for _ in 0..2 {
        let (rest, ..) = it.names(cookie, 99);
        let expected: Vec<String> = (40..100).map(|n| format!("f{n}")).chain(["new".to_owned()]).collect();
        assert_eq!(rest, expected);
        // The second time the directory is known again, without that cookie.
        assert_eq!(it.names(0, 101).0.len(), 100);
    }
}

#[test]
fn a_scan_that_fails_is_not_believed() {
    let mut it = ListedDirectory::new(10);
    it.plan.add(VolumeCall::Entries, 1, PlannedFault::Fail(Failure::Io));
    let failed = it.client.caller(true, now(), |c| {
        it.world.share.scan(c, &it.open, 0, &mut |_| true, &mut |_| ControlFlow::Continue(()))
    });
    assert!(failed.is_err());
    assert_eq!((it.names(0, 99).0.len(), it.names(0, 99).1), (10, 0));
}

#[test]
fn what_is_too_large_is_scanned_each_time() {
    const FILES: usize = (1 << 16) + 1;
    let mut it = ListedDirectory::new(FILES);
    assert_eq!([(); 2].map(|()| it.names(0, FILES + 1).1), [1, 1]);
    assert_eq!(it.pages(FILES, 30_000), [1, 1, 1, 1], "that it is too large is known by now");
    it.directory.remove(&name("f5"), false, None).unwrap();
    it.world.memory.tell(HostEvent::Overflow);
    assert_eq!([(); 2].map(|()| it.names(0, FILES).1), [1, 0], "it fits by now");
}

#[test]
fn that_a_directory_is_too_large_is_found_out_once() {
    const FILES: usize = (1 << 16) + 1;
    let mut it = ListedDirectory::new(FILES);
    assert_eq!([(); 2].map(|()| it.pages(FILES, 30_000)), [[1, 2, 1, 1], [1, 1, 1, 1]]);
    // One more name makes no directory smaller; a removed one may have.
    for (change, scans) in [(HostChange::Created, [1, 1, 1]), (HostChange::Removed, [2, 1, 1])] {
        let (directory, name) = (it.directory.id(), Some(name("f5")));
        it.world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
        assert_eq!(it.pages(FILES, 30_000)[1..], scans, "{change:?}");
    }
}

#[test]
fn a_change_of_a_file_is_no_change_of_the_names_that_were_listed() {
    let mut it = ListedDirectory::new(3);
    assert_eq!(it.names(0, 99).1, 1);
    for (change, content) in [(HostChange::Attributes, b"more".as_slice()), (HostChange::Modified, b"longer")]
    {
        let (directory, name) = (it.directory.id(), Some(name("f1")));
        it.world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
        it.directory
            .lookup(&volume::Name::new(b"f1").unwrap(), OpenHow::ReadWrite)
            .unwrap()
            .write(0, content)
            .unwrap();
        let scans = it.plan.count(VolumeCall::Entries);
        let mut sizes = Vec::new();
        it.scan(0, &mut |_| true, &mut |entry| {
            sizes.push(entry.info().unwrap().size);
            ControlFlow::Continue(())
        });
        assert_eq!(
            (sizes, it.plan.count(VolumeCall::Entries) - scans),
            (vec![0, content.len() as u64, 0], 0)
        );
    }
}
