//! Changes by others are reported, and our own changes are not.

mod common;

mod here {
    use std::time::Duration;

    use super::common::{file, files, fresh, name, others};
    use volume::{HostChange, HostEvent, NodeId, OpenHow, Volume};
    use volume_posix::PosixVolume;

    /// All events that can be taken, in their order.
    fn all_taken(volume: &PosixVolume) -> Vec<HostEvent> {
        let mut seen = Vec::new();
        volume.take_events(&mut |event| seen.push(event));
        seen
    }

    /// The same without those of nodes, which an unprivileged process does not get.
    fn taken(volume: &PosixVolume) -> Vec<HostEvent> {
        let mut seen = all_taken(volume);
        seen.retain(|event| !matches!(event, HostEvent::NodeChanged { .. }));
        seen
    }

    /// Whether the host reports changes. If not, the test reports that it is skipped.
    fn tells(volume: &PosixVolume) -> bool {
        if !volume.properties().tells_changes {
            crate::common::skipped(&format!(
                "this host tells nothing of changes in {}",
                volume.properties().file_system
            ));
        }
        volume.properties().tells_changes
    }

    fn changed(directory: NodeId, text: &str, is_directory: bool, change: HostChange) -> HostEvent {
        let name = (!text.is_empty()).then(|| name(text));
        HostEvent::Changed { directory, name, is_directory, change }
    }

    fn renamed(from: (NodeId, &str), to: (NodeId, &str), is_directory: bool) -> HostEvent {
        let named = |(directory, text): (NodeId, &str)| (directory, name(text));
        HostEvent::Renamed { from: named(from), to: named(to), is_directory }
    }

    #[test]
    fn names_data_and_attributes_that_others_change_are_told() {
        let (volume, temp_dir) = fresh();
        if !tells(&volume) {
            return;
        }
        file(&volume, "old").write(0, b"x").unwrap();
        let root = volume.root().unwrap();
        let d = root.create_directory(&name("d"), 0o755, None).unwrap();
        volume.watch(&*root).unwrap();
        assert!(!volume.wait_events(Duration::ZERO));
        let id = root.id();
        for (script, expected) in [
            ("mkdir new", vec![changed(id, "new", true, HostChange::Created)]),
            ("printf y >> old", vec![changed(id, "old", false, HostChange::Modified)]),
            ("chmod 600 old", vec![changed(id, "old", false, HostChange::Attributes)]),
            ("mv old older", vec![renamed((id, "old"), (id, "older"), false)]),
            ("mv new newer", vec![renamed((id, "new"), (id, "newer"), true)]),
            ("mv newer new", vec![renamed((id, "newer"), (id, "new"), true)]),
            // From and to a directory that is not watched.
            ("mv older d/older", vec![changed(id, "older", false, HostChange::RenamedFrom)]),
            ("mv d/older older", vec![changed(id, "older", false, HostChange::RenamedTo)]),
            ("rmdir new", vec![changed(id, "new", true, HostChange::Removed)]),
            ("ln older link", vec![changed(id, "link", false, HostChange::Created)]),
            ("cat older link > /dev/null; ls -l > /dev/null", vec![]),
            // In a directory that is not watched.
            ("echo > d/inside; rm d/inside", vec![]),
        ] {
            others(&files(&temp_dir), script);
            let mut seen = taken(&volume);
            // A further name is a change of the file's attributes too.
            seen.retain(|e| {
                script.starts_with("chmod")
                    || !matches!(e, HostEvent::Changed { change: HostChange::Attributes, .. })
            });
            assert_eq!(seen, expected, "{script}");
        }
        volume.watch(&*d).unwrap();
        others(&files(&temp_dir), "echo > d/inside");
        assert!(volume.wait_events(Duration::from_secs(20)));
        let seen = taken(&volume);
        assert_eq!(seen[0], changed(d.id(), "inside", false, HostChange::Created));
        assert!(
            seen.iter().all(|e| matches!(e, HostEvent::Changed { directory, .. } if *directory == d.id()))
        );
        others(&files(&temp_dir), "mv older d/moved");
        assert_eq!(taken(&volume), [renamed((id, "older"), (d.id(), "moved"), false)]);
        others(&files(&temp_dir), "chmod 700 .");
        assert_eq!(taken(&volume), [changed(id, "", true, HostChange::Attributes)]);
    }

    #[test]
    fn a_changed_file_is_told_when_its_name_leads_to_another_one() {
        let (volume, temp_dir) = fresh();
        if !tells(&volume) {
            return;
        }
        if !rustix::process::geteuid().is_root() {
            crate::common::skipped("opening a file by its handle needs root");
            return;
        }
        let root = volume.root().unwrap();
        volume.watch(&*root).unwrap();
        let node = file(&volume, "f").id();
        for (script, change) in [
            ("ln f link; echo new > link; echo other > made; mv made link", HostChange::Modified),
            ("ln f more; chmod 640 more; rm more", HostChange::Attributes),
            ("chmod 600 f", HostChange::Attributes),
        ] {
            others(&files(&temp_dir), script);
            let seen = all_taken(&volume);
            assert!(seen.contains(&HostEvent::NodeChanged { node, change }), "{script}: {seen:?}");
        }
        others(&files(&temp_dir), "echo more > f; rm f");
        assert!(!all_taken(&volume).is_empty(), "a file that is gone is told by its name alone");
    }

    #[test]
    fn our_own_changes_are_not_told() {
        let (volume, temp_dir) = fresh();
        if !tells(&volume) {
            return;
        }
        let root = volume.root().unwrap();
        volume.watch(&*root).unwrap();
        let f = file(&volume, "f");
        f.write(0, b"x").unwrap();
        f.set_mode(0o600).unwrap();
        root.rename(&name("f"), &*root, &name("g"), false, None).unwrap();
        std::thread::spawn(move || f.set_size(0).unwrap()).join().unwrap();
        assert_eq!(taken(&volume), []);
        others(&files(&temp_dir), "rm g");
        let seen = taken(&volume);
        assert_eq!(seen.last(), Some(&changed(root.id(), "g", false, HostChange::Removed)));
    }

    #[test]
    fn watches_are_counted() {
        let (volume, temp_dir) = fresh();
        if !tells(&volume) {
            return;
        }
        let root = volume.root().unwrap();
        volume.watch(&*root).unwrap();
        volume.watch(&*root).unwrap();
        volume.unwatch(root.id());
        others(&files(&temp_dir), "echo > a");
        assert!(!taken(&volume).is_empty());
        volume.unwatch(root.id());
        others(&files(&temp_dir), "echo > b");
        assert_eq!(taken(&volume), []);
        volume.unwatch(root.id());
        volume.watch(&*root).unwrap();
        others(&files(&temp_dir), "rm b");
        assert_eq!(taken(&volume), [changed(root.id(), "b", false, HostChange::Removed)]);
    }

    /// The queues of fanotify that this process has open.
    fn groups() -> usize {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        // A descriptor of another test may be closed meanwhile.
        let leads = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        leads.filter(|to| to.as_os_str() == "anon_inode:[fanotify]").count()
    }

    #[test]
    fn many_volumes_share_one_group() {
        // More than the host's bound on groups, which is 128 as a rule.
        let volumes: Vec<_> = (0..200).map(|_| fresh()).collect();
        if !tells(&volumes[0].0) {
            return;
        }
        for (volume, _) in &volumes {
            assert!(volume.properties().tells_changes && volume.missing_events().is_none());
            volume.watch(&*volume.root().unwrap()).unwrap();
        }
        assert_eq!(groups(), 1);
        let (last, temp_dir) = &volumes[199];
        others(&files(temp_dir), "mkdir new");
        let id = last.root().unwrap().id();
        assert_eq!(taken(last), [changed(id, "new", true, HostChange::Created)]);
        assert!(volumes[..199].iter().all(|(volume, _)| taken(volume).is_empty()));
    }

    #[test]
    fn a_change_is_told_to_every_volume_whose_directory_it_is_in() {
        let (whole, temp_dir) = fresh();
        if !tells(&whole) {
            return;
        }
        let below = whole.root().unwrap().create_directory(&name("below"), 0o755, None).unwrap();
        let part = PosixVolume::open(&files(&temp_dir).join("below"), &temp_dir.path().join("part")).unwrap();
        let (top, id) = (whole.root().unwrap(), below.id());
        whole.watch(&*top).unwrap();
        whole.watch(&*below).unwrap();
        part.watch(&*part.root().unwrap()).unwrap();
        for (script, by_whole, by_part) in [
            (
                "mkdir below/a",
                vec![changed(id, "a", true, HostChange::Created)],
                vec![changed(id, "a", true, HostChange::Created)],
            ),
            ("mkdir b", vec![changed(top.id(), "b", true, HostChange::Created)], vec![]),
            (
                "mv below/a c",
                vec![renamed((id, "a"), (top.id(), "c"), true)],
                vec![changed(id, "a", true, HostChange::RenamedFrom)],
            ),
            (
                "chmod 700 below",
                vec![changed(id, "", true, HostChange::Attributes)],
                vec![changed(id, "", true, HostChange::Attributes)],
            ),
        ] {
            others(&files(&temp_dir), script);
            assert_eq!((taken(&whole), taken(&part)), (by_whole, by_part), "{script}");
        }
        whole.unwatch(id);
        others(&files(&temp_dir), "rmdir c b; mkdir below/d");
        assert_eq!(taken(&part), [changed(id, "d", true, HostChange::Created)]);
        assert_eq!(taken(&whole).len(), 2);
        drop(part);
        whole.watch(&*top.lookup(&name("below"), OpenHow::Read).unwrap()).unwrap();
        others(&files(&temp_dir), "rmdir below/d");
        assert_eq!(taken(&whole), [changed(id, "d", true, HostChange::Removed)]);
    }

    #[test]
    fn an_overflow_is_told() {
        let (volume, temp_dir) = fresh();
        if !tells(&volume) {
            return;
        }
        let root = volume.root().unwrap();
        volume.watch(&*root).unwrap();
        // The volume keeps 2 MiB of events until it takes them. Each has its name.
        let long = "x".repeat(200);
        others(&files(&temp_dir), &format!("echo > 1; seq -f {long}%.0f 12000 | xargs mkdir"));
        let seen = taken(&volume);
        assert_eq!(seen.iter().filter(|e| **e == HostEvent::Overflow).count(), 1);
        others(&files(&temp_dir), "rm 1");
        assert_eq!(taken(&volume), [changed(root.id(), "1", false, HostChange::Removed)]);
    }

    #[test]
    fn several_threads_may_take() {
        let (volume, temp_dir) = fresh();
        if !tells(&volume) {
            return;
        }
        let root = volume.root().unwrap();
        volume.watch(&*root).unwrap();
        let count = std::sync::atomic::AtomicUsize::new(0);
        others(&files(&temp_dir), "seq 1000 | xargs mkdir");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    volume.take_events(&mut |_| {
                        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    });
                });
            }
        });
        assert_eq!(count.into_inner(), 1000);
    }
}

#[test]
fn the_same_without_privileges() {
    if let Some(passed) = common::again_as_nobody("here::") {
        assert_eq!(passed, 8);
    }
}
