//! Properties of a directory of a host: concurrent changes by others, links out of it, special files, a
//! sidecar store, and a page cache that has only a part of the data.

mod common;

mod here {
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::common::{file, files, found, fresh, name, open, others};
    use volume::{Failure, Name, NodeKind, Note, OpenHow, Patience, Volume};
    use volume_posix::{OpenError, PosixVolume};

    #[test]
    fn links_out_of_the_directory_are_not_followed_while_others_swap_them_in() {
        let (volume, temp_dir) = fresh();
        let outside = temp_dir.path().join("outside");
        std::fs::create_dir_all(outside.join("d")).unwrap();
        std::fs::write(outside.join("secret"), "secret").unwrap();
        std::fs::write(outside.join("d/secret"), "secret").unwrap();
        let inside = files(&temp_dir);
        let is_done = Arc::new(AtomicBool::new(false));
        let swaps = Arc::new(AtomicUsize::new(0));
        let swapping = {
            let (is_done, swaps, outside) = (Arc::clone(&is_done), Arc::clone(&swaps), outside.clone());
            std::thread::spawn(move || {
                let (one, two) = (inside.join("d"), inside.join("f"));
                while !is_done.load(Ordering::Relaxed) {
                    let _ = std::fs::create_dir(&one);
                    let _ = std::fs::write(&two, "inside");
                    let _ = std::fs::remove_dir(&one);
                    let _ = std::fs::remove_file(&two);
                    let _ = symlink(&outside, &one);
                    let _ = symlink(outside.join("secret"), &two);
                    let _ = std::fs::remove_file(&one);
                    let _ = std::fs::remove_file(&two);
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let root = volume.root().unwrap();
        let mut reached = 0;
        // Until both sides have run often enough, however the machine schedules them.
        while reached < 10 || swaps.load(Ordering::Relaxed) < 200 {
            if let Ok(d) = root.lookup(&name("d"), OpenHow::Read) {
                assert!(d.lookup(&name("secret"), OpenHow::Read).is_err());
                assert!(d.stat_name(&name("secret")).is_err());
                let _ = d.create_file(&name("planted"), 0o600, None);
                let _ = d.remove(&name("planted"), false, None);
                let _ = d.remove(&name("secret"), false, None);
                reached += usize::from(d.kind() == NodeKind::Directory);
            }
            if let Ok(f) = root.lookup(&name("f"), OpenHow::ReadWrite) {
                let mut out = Vec::new();
                if f.read(0, 100, &mut out, Patience::Block).is_ok() {
                    assert_ne!(out, b"secret");
                    let _ = f.write(0, b"broken");
                }
            }
            let _ = root.create_file(&name("f"), 0o600, None);
        }
        is_done.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
        assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"secret");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 2);
    }

    #[test]
    fn no_name_climbs() {
        for bytes in [&b".."[..], b".", b"", b"a/b", b"/", b"../x", b"a\0"] {
            assert!(Name::new(bytes).is_err(), "{bytes:?}");
        }
        let (volume, temp_dir) = fresh();
        std::fs::write(temp_dir.path().join("above"), "x").unwrap();
        // These texts look like a path upwards elsewhere. Here they are plain names.
        for text in ["..\\above", "%2e%2e", "...", ".. "] {
            assert_eq!(found(&volume, text).err(), Some(Failure::NotFound), "{text}");
        }
    }

    #[test]
    fn pipes_and_sockets_are_seen_but_never_opened() {
        let (volume, temp_dir) = fresh();
        others(&files(&temp_dir), "mkfifo pipe");
        let _socket = std::os::unix::net::UnixListener::bind(files(&temp_dir).join("socket")).unwrap();
        for (text, kind) in [("pipe", NodeKind::Pipe), ("socket", NodeKind::Socket)] {
            for how in [OpenHow::Attributes, OpenHow::Read, OpenHow::ReadWrite] {
                let node = volume.root().unwrap().lookup(&name(text), how).unwrap();
                assert_eq!((node.kind(), node.how()), (kind, OpenHow::Attributes));
                let again = node.open_again(OpenHow::ReadWrite).unwrap();
                assert_eq!(again.how(), OpenHow::Attributes);
                assert_eq!(again.read(0, 1, &mut Vec::new(), Patience::Block), Err(Failure::Invalid));
                assert_eq!(again.write(0, b"x"), Err(Failure::Invalid));
                again.set_mode(0o600).unwrap();
                again.set_note(Note::Attributes, Some(b"kept")).unwrap();
                assert_eq!(again.note(Note::Attributes).unwrap().as_deref(), Some(&b"kept"[..]));
            }
        }
        assert!(std::fs::metadata(files(&temp_dir).join("pipe")).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_directory_that_vanished_is_said_to_be_gone() {
        let (volume, temp_dir) = fresh();
        let root = volume.root().unwrap();
        std::fs::remove_dir(files(&temp_dir)).unwrap();
        assert_eq!(volume.root().err(), Some(Failure::Stale));
        assert_eq!(root.create_file(&name("x"), 0o600, None).err(), Some(Failure::Stale));
        // Another directory of the same name is another directory.
        std::fs::create_dir(files(&temp_dir)).unwrap();
        assert_eq!(volume.root().err(), Some(Failure::Stale));
        assert!(open(&temp_dir).root().is_ok());
    }

    #[test]
    fn what_cannot_be_served_is_said_plainly() {
        let temp_dir = tempfile::tempdir().unwrap();
        let (missing, plain) = (temp_dir.path().join("missing"), temp_dir.path().join("plain"));
        std::fs::write(&plain, "").unwrap();
        let beside = temp_dir.path().join("beside");
        let wrong = PosixVolume::open(&missing, &beside).unwrap_err();
        assert_eq!(wrong, OpenError::Directory { path: missing, why: Failure::NotFound });
        let wrong = PosixVolume::open(&plain, &beside).unwrap_err();
        assert_eq!(wrong, OpenError::NotADirectory(plain.clone()));
        let wrong = PosixVolume::open(temp_dir.path(), &plain.join("below")).unwrap_err();
        assert!(matches!(wrong, OpenError::Sidecar { why: Failure::NotADirectory, .. }), "{wrong}");
    }

    #[test]
    fn streams_and_large_notes_are_there_again_after_a_restart() {
        let (volume, temp_dir) = fresh();
        let f = file(&volume, "f");
        f.open_stream(&name("s"), true, true).unwrap().write(0, b"stream").unwrap();
        f.set_note(Note::Descriptor, Some(&[5; 100_000])).unwrap();
        f.set_note(Note::Attributes, Some(b"small")).unwrap();
        let serial = volume.properties().serial;
        drop((f, volume));
        let volume = open(&temp_dir);
        let f = found(&volume, "f").unwrap();
        assert_eq!(f.streams().unwrap()[0].size, 6);
        assert_eq!(f.note(Note::Descriptor).unwrap(), Some(vec![5; 100_000]));
        assert_eq!(f.note(Note::Attributes).unwrap().as_deref(), Some(&b"small"[..]));
        assert_eq!(volume.properties().serial, serial);
        volume.root().unwrap().remove(&name("f"), false, None).unwrap();
        assert_eq!(std::fs::read_dir(temp_dir.path().join("beside")).unwrap().count(), 0);
    }

    #[test]
    fn attributes_that_fill_a_file_are_told_apart_from_one_that_no_file_has_room_for() {
        let (volume, _place) = fresh();
        let f = file(&volume, "f");
        assert_eq!(f.set_attribute(b"huge", Some(&[0; 65_537])), Err(Failure::TooLarge));
        // Some file systems have space for all of them.
        let set = |n: u32| f.set_attribute(format!("number {n}").as_bytes(), Some(&[7; 1000]));
        let first = (0..100).map(set).find(Result::is_err);
        assert!(matches!(first, None | Some(Err(Failure::NoSpace))), "{first:?}");
    }

    #[test]
    fn a_removed_file_whose_notes_leave_no_room_has_no_space_for_attributes() {
        let (volume, _place) = fresh();
        let f = file(&volume, "f");
        f.set_note(Note::Attributes, Some(&[1; 3897])).unwrap();
        volume.root().unwrap().remove(&name("f"), false, None).unwrap();
        // Some file systems have space for both.
        let set = f.set_attribute(b"a", Some(&[7; 105]));
        assert!(matches!(set, Ok(()) | Err(Failure::NoSpace)), "{set:?}");
        assert_eq!(f.note(Note::Attributes).unwrap(), Some(vec![1; 3897]));
    }

    #[test]
    fn nothing_stays_beside_when_nothing_is_kept() {
        let (volume, temp_dir) = fresh();
        let beside = temp_dir.path().join("beside");
        let count = || std::fs::read_dir(&beside).unwrap().count();
        let f = file(&volume, "f");
        f.open_stream(&name("s"), true, true).unwrap();
        f.set_note(Note::Reparse, Some(&[1; 70_000])).unwrap();
        assert_eq!(count(), 1);
        f.remove_stream(&name("s")).unwrap();
        assert_eq!(count(), 1);
        f.set_note(Note::Reparse, Some(&[1; 10])).unwrap();
        assert_eq!(count(), 0);
        assert_eq!(f.note(Note::Reparse).unwrap(), Some(vec![1; 10]));
    }

    #[test]
    fn what_lies_beside_never_outgrows_its_room() {
        const BLOCK: u64 = 4096;
        let (volume, temp_dir) = fresh();
        let f = file(&volume, "f");
        let stream = f.open_stream(&name("s"), true, true).unwrap();
        stream.write(0, &vec![1; 3 * BLOCK as usize]).unwrap();
        f.set_note(Note::Reparse, Some(&[1; 70_000])).unwrap();
        drop((stream, f, volume));
        // After a restart: four blocks for the stream, nineteen for the note, ten are left.
        let volume = open(&temp_dir);
        volume.set_sidecar_quota(33 * BLOCK);
        let f = found(&volume, "f").unwrap();
        let stream = f.open_stream(&name("s"), false, false).unwrap();
        stream.write(12 * BLOCK, &[1; BLOCK as usize]).unwrap();
        let full = Err(Failure::NoSpace);
        assert_eq!(stream.write(13 * BLOCK, b"1"), full);
        assert_eq!(stream.set_size(13 * BLOCK + 1), full);
        assert_eq!(f.open_stream(&name("t"), true, true).err(), Some(Failure::NoSpace));
        assert_eq!(f.set_note(Note::Descriptor, Some(&[1; 70_000])), full);
        let other = file(&volume, "g");
        assert_eq!(other.set_note(Note::Descriptor, Some(&[1; 70_000])), full);
        other.write(0, &[7; 1000]).unwrap();
        assert_eq!(other.copy_range(0, stream.as_ref(), 13 * BLOCK, 1000), Err(Failure::NoSpace));
        // Overwriting needs no space, and an allocation alone does not count.
        stream.write(0, &vec![2; 13 * BLOCK as usize]).unwrap();
        stream.allocate(0..1 << 30).unwrap();
        assert!(stream.stat().unwrap().allocated <= 14 * BLOCK);
        // Each way of releasing space frees the same amount.
        stream.set_size(0).unwrap();
        stream.write(0, &vec![1; 13 * BLOCK as usize]).unwrap();
        f.set_note(Note::Reparse, None).unwrap();
        f.open_stream(&name("t"), true, true).unwrap().set_size(18 * BLOCK).unwrap();
        assert_eq!(f.open_stream(&name("u"), true, true).err(), Some(Failure::NoSpace));
        f.rename_stream(&name("t"), &name("s"), true).unwrap();
        f.open_stream(&name("u"), true, true).unwrap().set_size(13 * BLOCK).unwrap();
        volume.root().unwrap().remove(&name("f"), false, None).unwrap();
        other.open_stream(&name("s"), true, true).unwrap().set_size(32 * BLOCK).unwrap();
    }

    #[test]
    fn a_cached_read_answers_from_memory_or_not_at_all() {
        let (volume, _place) = fresh();
        let f = file(&volume, "f");
        f.write(0, &vec![7; 1 << 20]).unwrap();
        f.sync(false).unwrap();
        let host = std::fs::File::open(files(&_place).join("f")).unwrap();
        rustix::fs::fadvise(&host, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut out = b"before".to_vec();
        let seen = f.read(0, 1 << 20, &mut out, Patience::Cached);
        if volume.properties().file_system == "tmpfs" {
            assert_eq!(seen, Ok(1 << 20));
            return;
        }
        assert_eq!((seen, &out[..]), (Err(Failure::WouldBlock), &b"before"[..]));
        assert_eq!(f.read(0, 1 << 20, &mut out, Patience::Block), Ok(1 << 20));
        out.clear();
        assert_eq!(f.read(0, 1 << 20, &mut out, Patience::Cached), Ok(1 << 20));
        assert_eq!(f.read((1 << 20) - 3, 100, &mut out, Patience::Cached), Ok(3));
        assert_eq!(f.read(1 << 20, 100, &mut out, Patience::Cached), Ok(0));
    }

    #[test]
    fn a_piece_of_a_file_is_handed_out_only_while_it_is_in_memory() {
        let (volume, temp_dir) = fresh();
        let f = file(&volume, "f");
        f.write(0, &vec![7; 1 << 20]).unwrap();
        f.sync(false).unwrap();
        let seen = |at, len| Arc::clone(&f).range(at, len).unwrap().map(|range| (range.at, range.len));
        // A host that does not tell which data is in memory never hands out a range.
        if seen(0, 1 << 20).is_none() {
            return;
        }
        assert_eq!(seen(0, 1 << 20), Some((0, 1 << 20)));
        assert_eq!(seen(100_001, 300_000), Some((100_001, 300_000)));
        assert_eq!(seen((1 << 20) - 3, 100), Some(((1 << 20) - 3, 3)), "it ends with the file");
        for (at, len) in [(1 << 20, 100), (1 << 21, 1), (u64::MAX, 10), (0, 0)] {
            assert_eq!(seen(at, len), None, "{at} {len}");
        }
        let range = Arc::clone(&f).range(5, 10).unwrap().unwrap();
        let mut bytes = [0; 10];
        assert_eq!(rustix::io::pread(range.file.fd(), &mut bytes, range.at), Ok(10));
        assert_eq!(bytes, [7; 10]);
        if volume.properties().file_system != "tmpfs" {
            let host = std::fs::File::open(files(&temp_dir).join("f")).unwrap();
            rustix::fs::fadvise(&host, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            assert_eq!(seen(0, 1 << 20), None);
            assert!(!range.file.is_cached(range.at, range.len));
        }
        let closed = volume.root().unwrap().lookup(&name("f"), OpenHow::Attributes).unwrap();
        assert_eq!(closed.range(0, 10).map(|range| range.is_some()), Err(Failure::Denied));
    }

    #[test]
    fn a_file_made_on_the_host_is_simply_there() {
        let (volume, temp_dir) = fresh();
        others(&files(&temp_dir), "mkdir d; echo hello > d/f; ln d/f g; ln -s f d/l");
        let d = volume.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap();
        let f = d.lookup(&name("f"), OpenHow::Read).unwrap();
        let mut out = Vec::new();
        assert_eq!(f.read(0, 100, &mut out, Patience::Block), Ok(6));
        assert_eq!(f.stat().unwrap().links, 2);
        assert_eq!(f.id(), found(&volume, "g").unwrap().id());
        assert_eq!(d.lookup(&name("l"), OpenHow::Read).unwrap().link_text().unwrap(), b"f");
        assert_eq!((f.note(Note::Descriptor), f.streams()), (Ok(None), Ok(vec![])));
    }

    #[test]
    fn names_of_one_volume_do_not_reach_another() {
        let ((one, _a), (two, _b)) = (fresh(), fresh());
        let f = file(&one, "f");
        let (here, there) = (one.root().unwrap(), two.root().unwrap());
        assert_eq!(there.add_name(&name("g"), &*f, None), Err(Failure::CrossDevice));
        assert_eq!(here.rename(&name("f"), &*there, &name("g"), false, None), Err(Failure::CrossDevice));
        let memory = volume::memory::MemoryVolume::new(1).root().unwrap();
        assert_eq!(here.rename(&name("f"), &*memory, &name("g"), false, None), Err(Failure::CrossDevice));
        assert_eq!(one.watch(&*memory), Err(Failure::CrossDevice));
        // Data may be copied from wherever it can be read.
        f.write(0, b"data").unwrap();
        assert_eq!(f.copy_range(0, &*file(&two, "f"), 0, 10), Ok(4));
    }

    /// Holds a lease on the given file until its input ends, as programs that cache a file do.
    const KEEPER: &str = "
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], 'r+')
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('kept', flush=True)
sys.stdin.read()
";

    #[test]
    fn a_file_that_a_program_keeps_for_itself_is_opened_when_it_lets_go() {
        use std::io::Read;
        use std::process::{Command, Stdio};
        let (volume, temp_dir) = fresh();
        let path = files(&temp_dir).join("f");
        std::fs::write(&path, "text").unwrap();
        let mut keeper = Command::new("python3");
        keeper.args(["-c", KEEPER]).arg(&path);
        let mut said = [0; 4];
        let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
        let child = keeper.stdin(stdin).stdout(stdout).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child.and_then(|mut child| {
            child.stdout.as_mut().expect("a pipe").read_exact(&mut said).map(|()| child)
        }) else {
            eprintln!("SKIPPED a_file_that_a_program_keeps_for_itself: no python3, or no leases here");
            return;
        };
        let root = volume.root().unwrap();
        for how in [OpenHow::Read, OpenHow::ReadWrite, OpenHow::Read] {
            assert_eq!(root.lookup(&name("f"), how).err(), Some(Failure::HostKeeps));
        }
        let seen = root.lookup(&name("f"), OpenHow::Attributes).unwrap();
        assert_eq!(seen.open_again(OpenHow::Read).err(), Some(Failure::HostKeeps));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(root.lookup(&name("f"), OpenHow::ReadWrite).is_ok());
    }
}

#[test]
fn the_same_without_privileges() {
    if let Some(passed) = common::again_as_nobody("here::") {
        assert!(passed >= 9, "{passed}");
    }
}
