//! Cases about data.

use super::{content, directory, file, name};
use crate::{Failure, OpenHow, Patience, Volume};

const MIB: u64 = 1 << 20;

/// Bytes that show from which offset they come.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

pub(super) fn what_is_written_is_read(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let f = file(&root, "f");
    assert_eq!(f.how(), OpenHow::ReadWrite);
    let bytes = pattern(300_000);
    f.write(0, &bytes).unwrap();
    f.write(5, b"").unwrap();
    assert_eq!(content(&f), bytes);
    assert_eq!(f.stat().unwrap().size, 300_000);
    f.write(100, b"over").unwrap();
    let mut out = b"kept:".to_vec();
    assert_eq!(f.read(98, 8, &mut out, Patience::Block), Ok(8));
    assert_eq!(out[..7], *b"kept:bc");
    assert_eq!(out[7..11], *b"over");
    f.sync(true).unwrap();
    f.sync(false).unwrap();
    let read = root.lookup(&name("f"), OpenHow::Read).unwrap();
    let mut cached = Vec::new();
    // Whether or not the data is in memory: an answer is complete and always the same.
    match read.read(0, 300_000, &mut cached, Patience::Cached) {
        Ok(len) => assert_eq!((len, &cached), (300_000, &content(&f))),
        Err(why) => assert_eq!((why, cached.len()), (Failure::WouldBlock, 0)),
    }
}

pub(super) fn a_read_ends_at_the_end(volume: &dyn Volume) {
    let f = file(&volume.root().unwrap(), "f");
    f.write(0, b"0123456789").unwrap();
    for patience in [Patience::Block, Patience::Cached] {
        for (at, len, expected) in [
            (0, 10, &b"0123456789"[..]),
            (0, 11, b"0123456789"),
            (8, 100, b"89"),
            (10, 1, b""),
            (11, 1, b""),
            (1 << 62, 1, b""),
            (u64::MAX, 1, b""),
            (0, 0, b""),
        ] {
            let mut out = vec![b'x'];
            match f.read(at, len, &mut out, patience) {
                Ok(got) => assert_eq!((got, &out[1..]), (expected.len(), expected), "{at} {len}"),
                Err(why) => {
                    assert_eq!((why, patience, &out[..]), (Failure::WouldBlock, Patience::Cached, &b"x"[..]));
                }
            }
        }
    }
}

pub(super) fn a_hole_reads_as_zeros_and_is_skipped(volume: &dyn Volume) {
    let f = file(&volume.root().unwrap(), "f");
    f.write(8 * MIB, b"end").unwrap();
    assert_eq!(f.stat().unwrap().size, 8 * MIB + 3);
    let mut out = Vec::new();
    assert_eq!(f.read(8 * MIB - 3, 100, &mut out, Patience::Block), Ok(6));
    assert_eq!(out, b"\0\0\0end");
    assert!(f.stat().unwrap().allocated < MIB);
    let data = f.next_data(0).unwrap().unwrap();
    assert!(data.start > 7 * MIB && data.end == 8 * MIB + 3, "{data:?}");
    assert_eq!(f.next_data(8 * MIB + 1).unwrap(), Some(8 * MIB + 1..8 * MIB + 3));
    assert_eq!(f.next_data(8 * MIB + 3).unwrap(), None);
    assert_eq!(f.next_data(u64::MAX).unwrap(), None);
}

pub(super) fn size_cuts_and_extends(volume: &dyn Volume) {
    let f = file(&volume.root().unwrap(), "f");
    f.write(0, b"0123456789").unwrap();
    f.set_size(4).unwrap();
    assert_eq!(content(&f), b"0123");
    f.set_size(8).unwrap();
    assert_eq!(content(&f), b"0123\0\0\0\0");
    f.set_size(5 * MIB).unwrap();
    assert_eq!(f.stat().unwrap().size, 5 * MIB);
    assert_eq!(f.next_data(MIB).unwrap(), None);
    f.set_size(0).unwrap();
    assert_eq!((content(&f).len(), f.next_data(0).unwrap()), (0, None));
    assert_eq!(f.set_size(u64::MAX).err(), Some(Failure::Invalid));
}

pub(super) fn punching_leaves_the_rest(volume: &dyn Volume) {
    let f = file(&volume.root().unwrap(), "f");
    let mut expected = pattern(100_000);
    f.write(0, &expected).unwrap();
    f.punch(10_000..60_001).unwrap();
    f.punch(5..5).unwrap();
    expected[10_000..60_001].fill(0);
    assert_eq!(content(&f), expected);
    f.punch(90_000..1_000_000).unwrap();
    expected[90_000..].fill(0);
    assert_eq!(content(&f), expected);
    assert_eq!(f.stat().unwrap().size, 100_000);
}

pub(super) fn allocation_keeps_the_size(volume: &dyn Volume) {
    let f = file(&volume.root().unwrap(), "f");
    f.write(0, b"abc").unwrap();
    match f.allocate(0..MIB) {
        Ok(()) => assert!(f.stat().unwrap().allocated >= MIB),
        Err(why) => assert_eq!(why, Failure::NotSupported),
    }
    assert_eq!((f.stat().unwrap().size, content(&f)), (3, b"abc".to_vec()));
}

pub(super) fn copies_also_within_one_file(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let (a, b) = (file(&root, "a"), file(&root, "b"));
    let bytes = pattern(700_000);
    a.write(0, &bytes).unwrap();
    assert_eq!(a.copy_range(10, &*b, 3, 600_000), Ok(600_000));
    assert_eq!(content(&b)[3..], bytes[10..600_010]);
    assert_eq!(a.copy_range(699_990, &*b, 0, 100), Ok(10));
    assert_eq!(content(&b)[..10], bytes[699_990..]);
    assert_eq!(a.copy_range(700_000, &*b, 0, 100), Ok(0));
    // Ranges that overlap in either direction, that reach beyond the end, and that have the end between
    // them.
    for (from, to, len) in [
        (400_000, 700_001, 300_001),
        (0, 1000, 600_000),
        (1000, 0, 600_000),
        (5, 5, 100),
        (600_000, 650_000, 400_000),
    ] {
        let mut expected = content(&a);
        let there = len.min(expected.len() - from);
        let source = expected[from..from + there].to_vec();
        expected.resize(expected.len().max(to + there), 0);
        expected[to..to + there].copy_from_slice(&source);
        let copied = a.copy_range(from as u64, &*a, to as u64, len as u64);
        assert_eq!(copied, Ok(there as u64), "{from} {to} {len}");
        assert!(content(&a) == expected, "{from} {to} {len}");
    }
    assert_eq!(a.copy_range(u64::MAX, &*b, 0, 2), Err(Failure::Invalid));
    if volume.properties().clones {
        let size = b.stat().unwrap().size;
        b.clone_range(0, &*a, 0, 65_536).unwrap();
        assert_eq!(content(&a)[..65_536], content(&b)[..65_536]);
        assert_eq!(b.clone_range(0, &*a, 0, size.next_multiple_of(65_536) * 2), Err(Failure::Invalid));
    }
}

pub(super) fn offsets_have_an_end(volume: &dyn Volume) {
    let f = file(&volume.root().unwrap(), "f");
    assert_eq!(f.write(i64::MAX as u64, b"xy"), Err(Failure::TooLarge));
    assert_eq!(f.write(u64::MAX, b"xy"), Err(Failure::TooLarge));
    assert_eq!(f.stat().unwrap().size, 0);
}

pub(super) fn a_node_does_only_what_it_is_open_for(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    file(&root, "f").write(0, b"abc").unwrap();
    let read = root.lookup(&name("f"), OpenHow::Read).unwrap();
    assert_eq!(content(&read), b"abc");
    assert_eq!(read.write(0, b"x"), Err(Failure::Denied));
    assert_eq!(read.set_size(0), Err(Failure::Denied));
    assert_eq!(read.punch(0..1), Err(Failure::Denied));
    assert_eq!(read.allocate(0..1), Err(Failure::Denied));
    read.sync(false).unwrap();
    let only = root.lookup(&name("f"), OpenHow::Attributes).unwrap();
    assert_eq!(only.read(0, 1, &mut Vec::new(), Patience::Block), Err(Failure::Denied));
    assert_eq!(only.write(0, b"x"), Err(Failure::Denied));
    assert_eq!(only.next_data(0), Err(Failure::Denied));
    only.sync(true).unwrap();
    assert_eq!(read.copy_range(0, &*read, 1, 1), Err(Failure::Denied));
    assert_eq!(content(&read), b"abc");
    directory(&root, "d").sync(false).unwrap();
    root.lookup(&name("d"), OpenHow::Attributes).unwrap().sync(true).unwrap();
}

pub(super) fn more_is_opened_again(volume: &dyn Volume) {
    let root = volume.root().unwrap();
    let made = file(&root, "f");
    made.write(0, b"abc").unwrap();
    let only = root.lookup(&name("f"), OpenHow::Attributes).unwrap();
    // The call opens the same node, even if its name has moved and another node has that name now.
    root.rename(&name("f"), &*root, &name("g"), false, None).unwrap();
    file(&root, "f");
    let read = only.open_again(OpenHow::Read).unwrap();
    let write = read.open_again(OpenHow::ReadWrite).unwrap();
    assert_eq!((read.id(), write.id(), write.how()), (made.id(), made.id(), OpenHow::ReadWrite));
    write.write(3, b"def").unwrap();
    assert_eq!(content(&read), b"abcdef");
    let d = directory(&root, "d");
    file(&d, "inside");
    let d = root.lookup(&name("d"), OpenHow::Attributes).unwrap();
    let again = d.open_again(OpenHow::ReadWrite).unwrap();
    assert_eq!(super::listed(&again), ["inside"]);
    assert_eq!(super::listed(&d), ["inside"]);
}
