//! The assigned numbers of file systems without a number of their own, in one small file of the store:
//!
//! ```text
//! <number> <key>
//! …
//! sum <CRC-32 of all before>
//! ```
//!
//! When a number is assigned, a new file is written and replaces the old one.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use volume::{Failure, Result};

use super::mixed;
use crate::bytes::write_all;
use crate::errno::call;
use crate::open::open_below;
use crate::stat::stat_fd;
use crate::sys;

const FILE: &str = "file-systems";
const UNFINISHED: &str = "file-systems.new";
const DAMAGED: &str = "file-systems.damaged";
/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// The assigned numbers.
pub(super) struct AssignedNumbers {
    store: OwnedFd,
    /// Whether the file could be read and belongs to the volume. Otherwise it is not overwritten.
    may_write: bool,
    numbers: BTreeMap<Vec<u8>, u64>,
}

impl AssignedNumbers {
    /// Reads the numbers in the store. A damaged file is set aside, and numbers are assigned again. Nothing
    /// is written if the caller does not own the store.
    pub(super) fn open(store: OwnedFd, owns_store: bool) -> AssignedNumbers {
        let (mut may_write, found) = (owns_store, read(&store));
        let numbers = match found {
            Ok(None) => BTreeMap::new(),
            Ok(Some(bytes)) => parsed(&bytes).unwrap_or_else(|| {
                tracing::warn!(
                    file = DAMAGED,
                    "the numbers of file systems below a share are damaged: \
                     the sidecar data of their files may be lost"
                );
                if owns_store {
                    let _ = rustix::fs::renameat(&store, FILE, &store, DAMAGED);
                }
                BTreeMap::new()
            }),
            Err(why) => {
                tracing::warn!(%why, "cannot read the numbers of file systems below a share");
                may_write = false;
                BTreeMap::new()
            }
        };
        AssignedNumbers { store, may_write, numbers }
    }

    /// The number that was assigned to a key.
    pub(super) fn given(&self, key: &[u8]) -> Option<u64> {
        self.numbers.get(key).copied()
    }

    /// The number of a file system with these keys, the best one first. It is the number that any of them
    /// has, or else the first of `rather` that is not assigned, or else one derived from the key. None of
    /// `taken` is assigned.
    pub(super) fn number(&mut self, keys: &[Vec<u8>], rather: &[u64], taken: &[u64]) -> u64 {
        let Some(key) = keys.first() else { return 0 };
        if let Some(given) = self.given(key) {
            return given;
        }
        if let Some(given) = keys.iter().find_map(|key| self.numbers.remove(key)) {
            self.keep(key, given);
            return given;
        }
        let is_free =
            |number: &u64| !taken.contains(number) && self.numbers.values().all(|one| one != number);
        let made = (0_u8..=u8::MAX).map(|turn| mixed(&[&key[..], &[turn]].concat()));
        let number = rather.iter().copied().chain(made).find(is_free).unwrap_or(mixed(key));
        self.keep(key, number);
        number
    }

    fn keep(&mut self, key: &[u8], number: u64) {
        self.numbers.insert(key.to_vec(), number);
        if let Err(why) = self.write() {
            tracing::warn!(%why, "cannot store the number of a file system below a share");
        }
    }

    fn write(&self) -> Result<()> {
        let bytes = written(&self.numbers);
        if !self.may_write || bytes.len() as u64 > LARGEST {
            return Err(Failure::NoSpace);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = open_below(self.store.as_fd(), UNFINISHED.as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
        write_all(file.as_fd(), 0, &bytes)?;
        call(|| rustix::fs::fdatasync(&file))?;
        call(|| rustix::fs::renameat(&self.store, UNFINISHED, &self.store, FILE))?;
        call(|| rustix::fs::fsync(&self.store))
    }
}

fn read(store: &OwnedFd) -> Result<Option<Vec<u8>>> {
    let file = match open_below(store.as_fd(), FILE.as_bytes(), OFlags::RDONLY, Mode::empty()) {
        Err(Failure::NotFound) => return Ok(None),
        other => other?,
    };
    let size = stat_fd(&file)?.size;
    if size > LARGEST {
        return Ok(Some(Vec::new()));
    }
    let mut out = Vec::with_capacity(size as usize);
    while (out.len() as u64) < size {
        let at = out.len();
        if call(|| sys::read_append(file.as_fd(), at as u64, size as usize - at, &mut out, false))? == 0 {
            break;
        }
    }
    Ok(Some(out))
}

fn written(numbers: &BTreeMap<Vec<u8>, u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, number) in numbers {
        out.extend_from_slice(format!("{number:016x} ").as_bytes());
        out.extend_from_slice(key);
        out.push(b'\n');
    }
    let sum = crc32fast::hash(&out);
    out.extend_from_slice(format!("sum {sum:08x}\n").as_bytes());
    out
}

/// The stored numbers. `None` if the file is incomplete.
fn parsed(bytes: &[u8]) -> Option<BTreeMap<Vec<u8>, u64>> {
    let mut numbers = BTreeMap::new();
    for line in bytes.strip_suffix(b"\n")?.split(|byte| *byte == b'\n') {
        let at = line.iter().position(|byte| *byte == b' ')?;
        if &line[..at] != b"sum" {
            let number = u64::from_str_radix(std::str::from_utf8(&line[..at]).ok()?, 16).ok()?;
            numbers.insert(line[at + 1..].to_vec(), number);
        }
    }
    (written(&numbers) == bytes).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(temp_dir: &tempfile::TempDir) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(temp_dir.path(), flags, Mode::empty()).unwrap()
    }

    #[test]
    fn a_number_that_was_given_stays_whatever_the_device_is_later() {
        let temp_dir = tempfile::tempdir().unwrap();
        let mut records = AssignedNumbers::open(store(&temp_dir), true);
        assert_eq!(records.number(&[b"fuse a / x".to_vec()], &[0x2f], &[]), 0x2f);
        // The stored number wins, in a later process too.
        assert_eq!(records.number(&[b"fuse a / x".to_vec()], &[0x30], &[]), 0x2f);
        let mut later = AssignedNumbers::open(store(&temp_dir), true);
        assert_eq!(later.number(&[b"fuse a / x".to_vec()], &[0x31], &[]), 0x2f);
    }

    #[test]
    fn a_uuid_takes_over_the_number_of_where_it_was_mounted() {
        let temp_dir = tempfile::tempdir().unwrap();
        let [by_place, by_uuid] = [b"xfs /dev/sda1 / .".to_vec(), b"uuid 07".to_vec()];
        let mut records = AssignedNumbers::open(store(&temp_dir), true);
        assert_eq!(records.number(std::slice::from_ref(&by_place), &[0x801], &[]), 0x801);
        assert_eq!(records.number(&[by_uuid.clone(), by_place.clone()], &[0x801], &[]), 0x801);
        let mut later = AssignedNumbers::open(store(&temp_dir), true);
        assert_eq!((later.given(&by_uuid), later.given(&by_place)), (Some(0x801), None));
        assert_ne!(later.number(&[by_place], &[0x801], &[]), 0x801);
    }

    #[test]
    fn what_cannot_be_read_is_not_written_over() {
        let temp_dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp_dir.path().join(FILE)).unwrap();
        let mut records = AssignedNumbers::open(store(&temp_dir), true);
        records.number(&[b"fuse a / x".to_vec()], &[0x2f], &[]);
        assert!(temp_dir.path().join(FILE).is_dir() && !temp_dir.path().join(UNFINISHED).exists());
    }

    #[test]
    fn no_two_keys_have_one_number() {
        let temp_dir = tempfile::tempdir().unwrap();
        let mut records = AssignedNumbers::open(store(&temp_dir), true);
        let first = records.number(&[b"fuse a / x".to_vec()], &[0x2f], &[7]);
        let second = records.number(&[b"fuse b / y".to_vec()], &[0x2f], &[7]);
        let third = records.number(&[b"fuse c / z".to_vec()], &[7], &[7]);
        assert!(first != second && second != third && third != 7 && first == 0x2f);
        // A number that is derived from a key needs no record.
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(
            AssignedNumbers::open(store(&elsewhere), true).number(&[b"fuse b / y".to_vec()], &[], &[]),
            second
        );
    }

    #[test]
    fn what_is_damaged_is_put_aside() {
        let temp_dir = tempfile::tempdir().unwrap();
        AssignedNumbers::open(store(&temp_dir), true).number(&[b"fuse a / x".to_vec()], &[0x2f], &[]);
        let file = temp_dir.path().join(FILE);
        let whole = std::fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            for bytes in [&changed[..], &whole[..at]] {
                std::fs::write(&file, bytes).unwrap();
                assert!(AssignedNumbers::open(store(&temp_dir), true).numbers.is_empty(), "{at}");
                assert_eq!(std::fs::read(temp_dir.path().join(DAMAGED)).unwrap(), bytes, "{at}");
                assert!(!file.exists());
            }
        }
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(
            AssignedNumbers::open(store(&temp_dir), true).number(&[b"fuse a / x".to_vec()], &[1], &[]),
            0x2f
        );
    }
}
