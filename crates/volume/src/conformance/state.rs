//! Cases about the state of a node besides its data: times, mode, notes, attributes, streams.

use super::{content, directory, file, found, name};
use crate::{Failure, NodeKind, Note, OpenHow, Time, Times, Volume};

const NOTES: [Note; 4] = [Note::Attributes, Note::Descriptor, Note::ObjectId, Note::Reparse];

pub(super) fn times_are_kept_to_the_nanosecond(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "f");
    let born = f.stat().unwrap().born;
    let early = Time { secs: 1_234_567_890, nanos: 123_456_789 };
    let late = Time { secs: 4_000_000_000, nanos: 1 };
    f.set_times(Times { accessed: Some(early), modified: Some(late) }).unwrap();
    let stat = f.stat().unwrap();
    assert_eq!((stat.accessed, stat.modified, stat.born), (early, late, born));
    f.set_times(Times { accessed: None, modified: Some(early) }).unwrap();
    f.set_times(Times::default()).unwrap();
    let stat = found(&root, "f").unwrap().stat().unwrap();
    assert_eq!((stat.accessed, stat.modified), (early, early));
    let only = found(&root, "f").unwrap();
    only.set_times(Times { accessed: Some(late), modified: None }).unwrap();
    assert_eq!(f.stat().unwrap().accessed, late);
    let link = root.create_link(&name("l"), b"f", None).unwrap();
    link.set_times(Times { accessed: None, modified: Some(late) }).unwrap();
    assert_eq!(link.stat().unwrap().modified, late);
    assert_eq!(f.stat().unwrap().modified, early);
}

pub(super) fn mode_and_owner(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    for mode in [0o600, 0o644, 0o666, 0o777, 0o400, 0] {
        let made = root.create_file(&name("f"), mode, None).unwrap();
        assert_eq!(made.stat().unwrap().mode, mode, "{mode:o}");
        made.write(0, b"its maker may write whatever the mode says").unwrap();
        root.remove(&name("f"), false, None).unwrap();
        let made = root.create_directory(&name("d"), mode | 0o500, None).unwrap();
        assert_eq!(made.stat().unwrap().mode & 0o777, mode | 0o500, "{mode:o}");
        root.remove(&name("d"), true, None).unwrap();
    }
    let f = file(&root, "f");
    f.set_mode(0o640).unwrap();
    found(&root, "f").unwrap().set_mode(0o4751).unwrap();
    assert_eq!(f.stat().unwrap().mode, 0o4751);
    let stat = f.stat().unwrap();
    f.set_owner(None, None).unwrap();
    f.set_owner(Some(stat.uid), Some(stat.gid)).unwrap();
    let again = found(&root, "f").unwrap().stat().unwrap();
    assert_eq!((again.uid, again.gid, again.kind), (stat.uid, stat.gid, NodeKind::File));
    assert_eq!(f.set_owner(Some(u32::MAX), None), Err(Failure::Invalid));
    let link = root.create_link(&name("l"), b"f", None).unwrap();
    assert_eq!(link.set_mode(0o600), Err(Failure::NotSupported));
}

pub(super) fn notes_of_every_size_come_back(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "f");
    for note in NOTES {
        assert_eq!(f.note(note), Ok(None));
        f.set_note(note, None).unwrap();
    }
    // Larger than any file system stores with a file, and smaller again.
    for size in [16, 0, 500, 5000, 70_000, 65_536, 3, 200_000, 40] {
        for (number, note) in NOTES.into_iter().enumerate() {
            let value: Vec<u8> = (0..size).map(|n| (n * 7 + number) as u8).collect();
            f.set_note(note, Some(&value)).unwrap();
            assert_eq!(f.note(note).unwrap().as_deref(), Some(&value[..]), "{note:?} {size}");
            assert_eq!(found(&root, "f").unwrap().note(note).unwrap(), Some(value));
        }
    }
    f.set_note(Note::Reparse, Some(&[1; 80_000])).unwrap();
    f.set_note(Note::Reparse, None).unwrap();
    f.set_note(Note::ObjectId, None).unwrap();
    assert_eq!((f.note(Note::Reparse), f.note(Note::ObjectId)), (Ok(None), Ok(None)));
    assert!(f.note(Note::Attributes).unwrap().is_some());
    let link = root.create_link(&name("l"), b"f", None).unwrap();
    link.set_note(Note::Attributes, Some(b"of the link")).unwrap();
    assert_eq!(link.note(Note::Attributes).unwrap().as_deref(), Some(&b"of the link"[..]));
}

pub(super) fn notes_do_not_show_as_attributes(volume: &dyn Volume) {
    let f = file(&volume.root().unwrap(), "f");
    for note in NOTES {
        f.set_note(note, Some(b"ours")).unwrap();
    }
    assert_eq!(f.attributes(), Ok(vec![]));
}

pub(super) fn attributes_are_listed_set_and_removed(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    if !volume.properties().extended_attributes {
        return;
    }
    let f = file(&root, "f");
    let sorted = || {
        let mut all = f.attributes().unwrap();
        all.sort();
        all
    };
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    f.set_attribute(b"Colour", Some(b"red")).unwrap();
    found(&root, "f").unwrap().set_attribute(b"empty", Some(b"")).unwrap();
    f.set_attribute(b"colour", Some(&[0xff; 1500])).unwrap();
    assert_eq!(sorted(), [pair(b"Colour", b"red"), pair(b"colour", &[0xff; 1500]), pair(b"empty", b"")]);
    assert_eq!(found(&root, "f").unwrap().attributes().unwrap().len(), 3);
    f.set_attribute(b"Colour", Some(b"blue")).unwrap();
    f.set_attribute(b"colour", None).unwrap();
    f.set_attribute(b"never there", None).unwrap();
    assert_eq!(sorted(), [pair(b"Colour", b"blue"), pair(b"empty", b"")]);
    // Notes make room for the attributes of users.
    f.set_note(Note::Descriptor, Some(&[1; 2500])).unwrap();
    f.set_attribute(b"roomy", Some(&[2; 2500])).unwrap();
    assert_eq!(f.note(Note::Descriptor).unwrap(), Some(vec![1; 2500]));
    f.set_attribute(b"roomy", None).unwrap();
    assert_eq!(f.set_attribute(b"", Some(b"x")), Err(Failure::Invalid));
    assert_eq!(f.set_attribute(b"a\0b", Some(b"x")), Err(Failure::Invalid));
    assert_eq!(f.set_attribute(&[b'n'; 251], Some(b"x")), Err(Failure::NameTooLong));
    assert_eq!(f.set_attribute(b"large", Some(&[0; 70_000])), Err(Failure::TooLarge));
    let link = root.create_link(&name("l"), b"f", None).unwrap();
    assert_eq!(link.set_attribute(b"a", Some(b"b")), Err(Failure::NotSupported));
}

pub(super) fn streams_are_made_listed_and_removed(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "f");
    assert_eq!(f.streams(), Ok(vec![]));
    assert_eq!(f.open_stream(&name("s"), false, false).err(), Some(Failure::NotFound));
    let s = f.open_stream(&name("s"), true, true).unwrap();
    assert_eq!(f.open_stream(&name("s"), true, true).err(), Some(Failure::Exists));
    s.write(0, b"stream").unwrap();
    f.open_stream(&name("S"), true, false).unwrap();
    let long = crate::Name::new(&[b'l'; 255]).unwrap();
    f.open_stream(&long, true, false).unwrap().write(0, &[7; 100_000]).unwrap();
    let again = found(&root, "f").unwrap();
    let mut seen: Vec<_> = again.streams().unwrap().into_iter().map(|s| (s.name, s.size)).collect();
    seen.sort();
    assert_eq!(seen, [(name("S"), 0), (long.clone(), 100_000), (name("s"), 6)]);
    assert_eq!(content(&again.open_stream(&name("s"), false, false).unwrap()), b"stream");
    f.remove_stream(&name("S")).unwrap();
    assert_eq!(f.remove_stream(&name("S")), Err(Failure::NotFound));
    f.remove_stream(&long).unwrap();
    f.remove_stream(&name("s")).unwrap();
    assert_eq!((f.streams(), f.remove_stream(&name("s"))), (Ok(vec![]), Err(Failure::NotFound)));
    assert_eq!(content(&s), b"stream");
}

pub(super) fn a_stream_has_data_of_its_own(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "f");
    f.write(0, b"main data").unwrap();
    let s = f.open_stream(&name("s"), true, false).unwrap();
    s.write(10, b"x").unwrap();
    let (own, owners) = (s.stat().unwrap(), f.stat().unwrap());
    assert_eq!((own.size, own.id, own.mode, own.born), (11, owners.id, owners.mode, owners.born));
    assert_eq!((s.id(), s.kind(), s.how()), (f.id(), NodeKind::File, OpenHow::ReadWrite));
    assert_eq!((content(&f), owners.size), (b"main data".to_vec(), 9));
    s.set_size(2).unwrap();
    assert_eq!(content(&s), b"\0\0");
    assert_eq!(f.copy_range(0, &*s, 0, 4), Ok(4));
    assert_eq!(content(&s.open_again(OpenHow::Read).unwrap()), b"main");
    let read = s.open_again(OpenHow::Read).unwrap();
    assert_eq!(read.write(0, b"x"), Err(Failure::Denied));
    // The state that is not data belongs to the file.
    s.set_mode(0o600).unwrap();
    s.set_note(Note::Attributes, Some(b"note")).unwrap();
    assert_eq!(f.stat().unwrap().mode, 0o600);
    assert_eq!(f.note(Note::Attributes).unwrap().as_deref(), Some(&b"note"[..]));
    assert_eq!(s.lookup(&name("x"), OpenHow::Read).err(), Some(Failure::NotADirectory));
    assert_eq!(root.add_name(&name("y"), &*s, None), Err(Failure::Invalid));
}

pub(super) fn streams_move_and_go_with_their_file(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "f");
    for (stream, text) in [("a", b"a"), ("b", b"b")] {
        f.open_stream(&name(stream), true, false).unwrap().write(0, text).unwrap();
    }
    assert_eq!(f.rename_stream(&name("a"), &name("b"), false), Err(Failure::Exists));
    f.rename_stream(&name("a"), &name("c"), false).unwrap();
    f.rename_stream(&name("c"), &name("c"), false).unwrap();
    f.rename_stream(&name("c"), &name("b"), true).unwrap();
    assert_eq!(f.rename_stream(&name("a"), &name("x"), true), Err(Failure::NotFound));
    assert_eq!(f.streams().unwrap().len(), 1);
    assert_eq!(content(&f.open_stream(&name("b"), false, false).unwrap()), b"a");
    // Streams follow the file, not its name. They exist until the file loses its last name.
    root.rename(&name("f"), &*root, &name("g"), false, None).unwrap();
    root.add_name(&name("h"), &*f, None).unwrap();
    root.remove(&name("g"), false, None).unwrap();
    assert_eq!(found(&root, "h").unwrap().streams().unwrap().len(), 1);
    let other = file(&root, "other");
    root.rename(&name("other"), &*root, &name("h"), true, None).unwrap();
    assert_eq!((f.streams(), other.streams()), (Ok(vec![]), Ok(vec![])));
    assert_eq!(f.open_stream(&name("b"), true, false).err(), Some(Failure::Stale));
    root.remove(&name("h"), false, None).unwrap();
    for _ in 0..20 {
        assert_eq!(file(&root, "new").streams(), Ok(vec![]));
        root.remove(&name("new"), false, None).unwrap();
    }
}

pub(super) fn directories_have_streams_and_notes_too(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let d = directory(&root, "d");
    let s = d.open_stream(&name("s"), true, true).unwrap();
    s.write(0, b"of a directory").unwrap();
    assert_eq!((s.kind(), s.stat().unwrap().size), (NodeKind::File, 14));
    assert_eq!(content(&s), b"of a directory");
    d.set_note(Note::Descriptor, Some(&[9; 90_000])).unwrap();
    assert_eq!(found(&root, "d").unwrap().note(Note::Descriptor).unwrap(), Some(vec![9; 90_000]));
    assert!(super::listed(&d).is_empty());
    root.remove(&name("d"), true, None).unwrap();
    let again = directory(&root, "d");
    assert_eq!((again.streams(), again.note(Note::Descriptor)), (Ok(vec![]), Ok(None)));
    let link = root.create_link(&name("l"), b"d", None).unwrap();
    assert_eq!(link.open_stream(&name("s"), true, false).err(), Some(Failure::NotSupported));
}

pub(super) fn facts_and_room_are_sound(volume: &dyn Volume) {
    let facts = volume.properties();
    assert!(!facts.file_system.is_empty() && facts.name_max >= 1 && !facts.read_only);
    let space = volume.space().unwrap();
    assert!(space.total >= space.free && space.free >= space.available && space.block >= 512);
    let root = volume.root().unwrap();
    assert_eq!((root.kind(), root.how()), (NodeKind::Directory, OpenHow::Read));
    assert_eq!(volume.root().unwrap().id(), root.id());
    if facts.tells_changes {
        volume.watch(&*root).unwrap();
        volume.watch(&*root).unwrap();
        file(&root, "made by ourselves").write(0, b"x").unwrap();
        volume.take_events(&mut |event| panic!("our own change was told: {event:?}"));
        volume.unwatch(root.id());
        volume.unwatch(root.id());
        volume.unwatch(root.id());
    }
    assert!(volume.watch(&*file(&root, "no directory")).is_err());
}
