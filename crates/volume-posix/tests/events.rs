//! Changes by others are reported, and our own changes are not.

mod common;

mod here {
    use std::time::Duration;

    use super::common::{file, files, fresh, name, others};
    use volume::{HostChange, HostEvent, NodeId, Volume};
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

    #[test]
    fn an_overflow_is_told() {
        let (volume, temp_dir) = fresh();
        if !tells(&volume) {
            return;
        }
        let limit = std::fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        if limit > 50_000 {
            crate::common::skipped(&format!("the queue holds {limit} events"));
            return;
        }
        let root = volume.root().unwrap();
        volume.watch(&*root).unwrap();
        others(&files(&temp_dir), &format!("seq {} | xargs touch", limit + 100));
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
        assert_eq!(passed, 6);
    }
}
