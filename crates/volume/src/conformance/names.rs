//! Cases about names.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::{content, directory, entries, file, found, listed, name};
use crate::{Failure, NodeKind, Note, OpenHow, Patience, Volume};

pub(super) fn a_name_is_made_once_and_found_exactly(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let made = file(&root, "Name");
    assert_eq!(root.create_file(&name("Name"), 0o600, None).err(), Some(Failure::Exists));
    assert_eq!(root.create_directory(&name("Name"), 0o700, None).err(), Some(Failure::Exists));
    assert_eq!(root.create_link(&name("Name"), b"x", None).err(), Some(Failure::Exists));
    assert_eq!(found(&root, "Name").unwrap().id(), made.id());
    assert_eq!(root.stat_name(&name("Name")).unwrap().id, made.id());
    for other in ["name", "Nam", "Name ", "Name."] {
        assert_eq!(found(&root, other).err(), Some(Failure::NotFound), "{other}");
        assert_eq!(root.stat_name(&name(other)).err(), Some(Failure::NotFound), "{other}");
    }
    // Bytes that are not text are a valid name too. So is the longest name.
    let odd = crate::Name::new(b"\xff\xfe\n").unwrap();
    let long = crate::Name::new(&[b'x'; 255]).unwrap();
    for one in [&odd, &long] {
        let made = root.create_file(one, 0o600, None).unwrap();
        assert_eq!(root.lookup(one, OpenHow::Read).unwrap().id(), made.id());
    }
    assert_eq!(entries(&root, 0).len(), 3);
}

pub(super) fn what_is_removed_is_gone_but_stays_usable_while_open(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let open = file(&root, "a");
    open.write(0, b"still here").unwrap();
    root.remove(&name("a"), false, None).unwrap();
    assert_eq!(found(&root, "a").err(), Some(Failure::NotFound));
    assert_eq!(root.remove(&name("a"), false, None), Err(Failure::NotFound));
    assert_eq!(content(&open), b"still here");
    assert_eq!(open.stat().unwrap().links, 0);
    let again = open.open_again(OpenHow::ReadWrite).unwrap();
    again.write(0, b"STILL").unwrap();
    assert_eq!(content(&open), b"STILL here");
    assert_eq!(root.add_name(&name("b"), &*open, None), Err(Failure::Stale));
    assert!(listed(&root).is_empty());
}

pub(super) fn only_the_right_kind_is_removed(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    file(&root, "f");
    let d = directory(&root, "d");
    file(&d, "inside");
    assert_eq!(root.remove(&name("f"), true, None), Err(Failure::NotADirectory));
    assert_eq!(root.remove(&name("d"), false, None), Err(Failure::IsADirectory));
    assert_eq!(root.remove(&name("d"), true, None), Err(Failure::NotEmpty));
    d.remove(&name("inside"), false, None).unwrap();
    root.remove(&name("d"), true, None).unwrap();
    root.remove(&name("f"), false, None).unwrap();
    assert!(listed(&root).is_empty());
}

pub(super) fn a_removed_directory_takes_no_names(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let d = directory(&root, "d");
    let f = file(&root, "f");
    root.remove(&name("d"), true, None).unwrap();
    assert_eq!(d.create_file(&name("x"), 0o600, None).err(), Some(Failure::Stale));
    assert_eq!(d.create_directory(&name("x"), 0o700, None).err(), Some(Failure::Stale));
    assert_eq!(d.create_link(&name("x"), b"y", None).err(), Some(Failure::Stale));
    assert_eq!(d.add_name(&name("x"), &*f, None), Err(Failure::Stale));
    assert_eq!(root.rename(&name("f"), &*d, &name("x"), false, None), Err(Failure::NotFound));
    assert_eq!(found(&d, "x").err(), Some(Failure::NotFound));
    assert!(listed(&d).is_empty());
    // The directory that held it does not move there either.
    let parent = directory(&root, "parent");
    let below = directory(&parent, "below");
    parent.remove(&name("below"), true, None).unwrap();
    assert_eq!(root.rename(&name("parent"), &*below, &name("x"), false, None), Err(Failure::NotFound));
}

pub(super) fn a_name_moves(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let (d, f) = (directory(&root, "d"), file(&root, "f"));
    d.set_note(Note::Reparse, Some(&[2; 70_000])).unwrap();
    root.rename(&name("f"), &*d, &name("g"), false, None).unwrap();
    assert_eq!(found(&root, "f").err(), Some(Failure::NotFound));
    assert_eq!(found(&d, "g").unwrap().id(), f.id());
    d.rename(&name("g"), &*d, &name("G"), false, None).unwrap();
    assert_eq!(listed(&d), ["G"]);
    f.set_note(Note::Reparse, Some(&[1; 70_000])).unwrap();
    for replace in [false, true] {
        d.rename(&name("G"), &*d, &name("G"), replace, None).unwrap();
        root.rename(&name("d"), &*root, &name("d"), replace, None).unwrap();
    }
    assert_eq!(f.note(Note::Reparse).unwrap(), Some(vec![1; 70_000]));
    assert_eq!(d.note(Note::Reparse).unwrap(), Some(vec![2; 70_000]));
    assert_eq!(d.rename(&name("g"), &*d, &name("g"), false, None), Err(Failure::NotFound));
    assert_eq!(d.rename(&name("none"), &*root, &name("x"), true, None), Err(Failure::NotFound));
    assert_eq!(f.stat().unwrap().links, 1);
}

pub(super) fn a_name_replaces_only_when_asked_to(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let (a, b) = (file(&root, "a"), file(&root, "b"));
    a.write(0, b"a").unwrap();
    b.write(0, b"b").unwrap();
    assert_eq!(root.rename(&name("a"), &*root, &name("b"), false, None), Err(Failure::Exists));
    assert_eq!(listed(&root), ["a", "b"]);
    root.rename(&name("a"), &*root, &name("b"), true, None).unwrap();
    assert_eq!(listed(&root), ["b"]);
    assert_eq!(found(&root, "b").unwrap().id(), a.id());
    assert_eq!((content(&b), b.stat().unwrap().links), (b"b".to_vec(), 0));
}

pub(super) fn a_directory_is_replaced_only_while_empty(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let (a, b) = (directory(&root, "a"), directory(&root, "b"));
    file(&root, "f");
    file(&b, "inside");
    assert_eq!(root.rename(&name("a"), &*root, &name("b"), true, None), Err(Failure::NotEmpty));
    assert_eq!(root.rename(&name("a"), &*root, &name("f"), true, None), Err(Failure::NotADirectory));
    assert_eq!(root.rename(&name("f"), &*root, &name("a"), true, None), Err(Failure::IsADirectory));
    b.remove(&name("inside"), false, None).unwrap();
    root.rename(&name("a"), &*root, &name("b"), true, None).unwrap();
    assert_eq!(found(&root, "b").unwrap().id(), a.id());
    assert_eq!(listed(&root), ["b", "f"]);
}

pub(super) fn a_directory_does_not_move_below_itself(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let a = directory(&root, "a");
    let b = directory(&a, "b");
    assert_eq!(root.rename(&name("a"), &*b, &name("c"), false, None), Err(Failure::Invalid));
    assert_eq!(root.rename(&name("a"), &*a, &name("c"), true, None), Err(Failure::Invalid));
    // Nor can a rename replace a directory that contains the source.
    file(&b, "f");
    assert_eq!(b.rename(&name("f"), &*root, &name("a"), true, None), Err(Failure::NotEmpty));
    b.remove(&name("f"), false, None).unwrap();
    a.rename(&name("b"), &*root, &name("b"), false, None).unwrap();
    root.rename(&name("a"), &*b, &name("a"), false, None).unwrap();
    assert_eq!((listed(&root), listed(&b)), (vec!["b".to_owned()], vec!["a".to_owned()]));
}

pub(super) fn two_names_of_one_file_become_one(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "a");
    root.add_name(&name("b"), &*f, None).unwrap();
    root.rename(&name("a"), &*root, &name("b"), true, None).unwrap();
    assert_eq!(listed(&root), ["b"]);
    assert_eq!(f.stat().unwrap().links, 1);
}

pub(super) fn a_file_has_several_names(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let (d, f) = (directory(&root, "d"), file(&root, "f"));
    d.add_name(&name("g"), &*f, None).unwrap();
    assert_eq!(d.add_name(&name("g"), &*f, None), Err(Failure::Exists));
    assert_eq!(root.add_name(&name("e"), &*d, None), Err(Failure::IsADirectory));
    assert_eq!(f.stat().unwrap().links, 2);
    f.write(0, b"one file").unwrap();
    let other = d.lookup(&name("g"), OpenHow::Read).unwrap();
    assert_eq!((other.id(), content(&other)), (f.id(), b"one file".to_vec()));
    root.remove(&name("f"), false, None).unwrap();
    assert_eq!(other.stat().unwrap().links, 1);
    let only_attributes = found(&d, "g").unwrap();
    root.add_name(&name("h"), &*only_attributes, None).unwrap();
    assert_eq!(other.stat().unwrap().links, 2);
}

pub(super) fn a_link_keeps_its_text_and_is_not_followed(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    file(&root, "target");
    for (link, text) in [("a", &b"target"[..]), ("b", b"/etc/passwd"), ("c", b"../.."), ("d", &[b'x'; 1000])]
    {
        let made = root.create_link(&name(link), text, None).unwrap();
        assert_eq!((made.kind(), made.link_text().unwrap()), (NodeKind::Link, text.to_vec()));
        for how in [OpenHow::Attributes, OpenHow::Read, OpenHow::ReadWrite] {
            let seen = root.lookup(&name(link), how).unwrap();
            assert_eq!((seen.kind(), seen.how()), (NodeKind::Link, OpenHow::Attributes));
            assert_eq!(seen.link_text().unwrap(), text);
            assert_eq!(seen.read(0, 1, &mut Vec::new(), Patience::Block), Err(Failure::Invalid));
            assert_eq!(seen.lookup(&name("x"), how).err(), Some(Failure::NotADirectory));
        }
        let stat = root.stat_name(&name(link)).unwrap();
        assert_eq!((stat.kind, stat.size, stat.id), (NodeKind::Link, text.len() as u64, made.id()));
    }
    assert_eq!(root.create_link(&name("e"), b"", None).err(), Some(Failure::Invalid));
    assert_eq!(root.create_link(&name("e"), b"a\0b", None).err(), Some(Failure::Invalid));
    assert_eq!(root.link_text(), Err(Failure::Invalid));
    assert_eq!(found(&root, "target").unwrap().link_text(), Err(Failure::Invalid));
    root.remove(&name("a"), false, None).unwrap();
    assert!(found(&root, "target").is_ok());
}

pub(super) fn only_directories_hold_names(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "f");
    let x = name("x");
    assert_eq!(f.lookup(&x, OpenHow::Read).err(), Some(Failure::NotADirectory));
    assert_eq!(f.stat_name(&x).err(), Some(Failure::NotADirectory));
    assert_eq!(f.create_file(&x, 0o600, None).err(), Some(Failure::NotADirectory));
    assert_eq!(f.remove(&x, false, None), Err(Failure::NotADirectory));
    assert_eq!(root.rename(&name("f"), &*f, &x, false, None), Err(Failure::NotADirectory));
    assert_eq!(f.entries(0, &mut |_| ControlFlow::Break(())), Err(Failure::NotADirectory));
    assert_eq!(root.read(0, 1, &mut Vec::new(), Patience::Block), Err(Failure::IsADirectory));
    assert_eq!(root.write(0, b"x"), Err(Failure::IsADirectory));
    assert_eq!(root.lookup(&name("f"), OpenHow::ReadWrite).unwrap().how(), OpenHow::ReadWrite);
    let d = directory(&root, "d");
    assert_eq!(d.kind(), NodeKind::Directory);
    assert_eq!(root.lookup(&name("d"), OpenHow::ReadWrite).unwrap().how(), OpenHow::Read);
}

pub(super) fn every_entry_is_shown_once(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    for number in 0..300 {
        file(&root, &format!("file-{number}"));
    }
    directory(&root, "d");
    root.create_link(&name("l"), b"x", None).unwrap();
    let seen = entries(&root, 0);
    assert_eq!(seen.len(), 302);
    assert_eq!(seen.iter().map(|e| &e.name).collect::<BTreeSet<_>>().len(), 302);
    for entry in &seen {
        let stat = root.stat_name(&entry.name).unwrap();
        assert_eq!(entry.inode, stat.id.inode);
        assert!(entry.kind.is_none_or(|kind| kind == stat.kind));
    }
    let last = seen.last().unwrap().cookie;
    assert!(entries(&root, last).is_empty());
}

pub(super) fn a_scan_resumes_by_cookie_while_names_come_and_go(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    for number in 0..400 {
        file(&root, &format!("stays-{number}"));
        file(&root, &format!("goes-{number}"));
    }
    let mut seen = Vec::new();
    let (mut cookie, mut round) = (0, 0);
    loop {
        let (mut count, behind) = (0, cookie);
        let mut take = |entry: crate::DirEntry| {
            cookie = entry.cookie;
            seen.push(entry.name.display().into_owned());
            count += 1;
            if count == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        root.entries(behind, &mut take).unwrap();
        if count == 0 {
            break;
        }
        if round < 400 {
            root.remove(&name(&format!("goes-{round}")), false, None).unwrap();
            file(&root, &format!("comes-{round}"));
        }
        round += 1;
    }
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "a name was shown twice");
    let stayed = seen.iter().filter(|n| n.starts_with("stays-")).count();
    assert_eq!(stayed, 400, "a name that stood all the time was not shown");
}

pub(super) fn scans_do_not_disturb_each_other(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    for number in 0..100 {
        file(&root, &format!("{number}"));
    }
    let whole = entries(&root, 0);
    let mut outer = Vec::new();
    let mut take = |entry| {
        assert_eq!(entries(&root, 0), whole);
        outer.push(entry);
        ControlFlow::Continue(())
    };
    root.entries(0, &mut take).unwrap();
    assert_eq!(outer, whole);
}

pub(super) fn a_node_is_found_by_its_address(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let d = directory(&root, "d");
    let f = file(&d, "f");
    let link = d.create_link(&name("l"), b"f", None).unwrap();
    if f.address().is_ok_and(|address| volume.find(&address).err() == Some(Failure::Denied)) {
        return;
    }
    for node in [&root, &d, &f, &link] {
        let address = node.address().unwrap();
        assert!(address.len() <= crate::ADDRESS_MAX);
        let again = volume.find(&address).unwrap();
        assert_eq!((again.id(), again.kind()), (node.id(), node.kind()));
    }
    // The address stays the same when the file is renamed. It is gone with the last name.
    let address = f.address().unwrap();
    d.rename(&name("f"), &*root, &name("g"), false, None).unwrap();
    let again = volume.find(&address).unwrap();
    again.open_again(OpenHow::ReadWrite).unwrap().write(0, b"x").unwrap();
    assert_eq!(content(&f), b"x");
    root.remove(&name("g"), false, None).unwrap();
    assert_eq!(volume.find(&address).err(), Some(Failure::Stale));
    for wrong in [&b""[..], b"x", &[0; crate::ADDRESS_MAX]] {
        assert_eq!(volume.find(wrong).err(), Some(Failure::Stale));
    }
}

pub(super) fn a_directory_knows_its_place(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let d = directory(&root, "d");
    let inner = directory(&d, "inner");
    assert!(root.parent_and_name().unwrap().is_none());
    let (above, own) = inner.parent_and_name().unwrap().unwrap();
    assert_eq!((above.id(), own), (d.id(), name("inner")));
    d.rename(&name("inner"), &*root, &name("moved"), false, None).unwrap();
    let (above, own) = inner.parent_and_name().unwrap().unwrap();
    assert_eq!((above.id(), own), (root.id(), name("moved")));
    assert!(above.lookup(&name("d"), OpenHow::Read).is_ok());
    root.remove(&name("moved"), true, None).unwrap();
    assert_eq!(inner.parent_and_name().err(), Some(Failure::Stale));
    assert_eq!(file(&root, "f").parent_and_name().err(), Some(Failure::NotADirectory));
}

pub(super) fn special_files_are_made(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    for (text, kind) in [("pipe", NodeKind::Pipe), ("socket", NodeKind::Socket)] {
        let made = root.create_special(&name(text), kind, 0o620, 0, None).unwrap();
        let stat = root.stat_name(&name(text)).unwrap();
        assert_eq!((made.kind(), stat.kind, stat.mode, stat.rdev), (kind, kind, 0o620, 0));
        assert_eq!(root.create_special(&name(text), kind, 0o620, 0, None).err(), Some(Failure::Exists));
    }
    match root.create_special(&name("null"), NodeKind::CharDevice, 0o600, 1 << 32 | 3, None) {
        Ok(made) => assert_eq!(made.stat().unwrap().rdev, 1 << 32 | 3),
        Err(why) => assert_eq!(why, Failure::Denied),
    }
    assert_eq!(root.create_special(&name("f"), NodeKind::File, 0o600, 0, None).err(), Some(Failure::Invalid));
}
