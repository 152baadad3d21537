//! The properties of a device in `/sys/class/net`.

use std::path::PathBuf;

/// The directory of the device `name`. None for a name that would lead elsewhere.
fn directory(name: &str) -> Option<PathBuf> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    plain.then(|| PathBuf::from("/sys/class/net").join(name))
}

/// The speed of the link in bit/s. None if the device reports none, or nonsense as virtual ones do.
pub fn link_speed_bps(name: &str) -> Option<u64> {
    // Reading fails with EINVAL while the link is down.
    megabits(&std::fs::read_to_string(directory(name)?.join("speed")).ok()?)
}

/// The kernel writes Mbit/s, and -1 (or that as an unsigned number) for an unknown speed.
fn megabits(text: &str) -> Option<u64> {
    let megabits: i64 = text.trim().parse().ok()?;
    let known = megabits > 0 && megabits < i64::from(u32::MAX);
    known.then(|| megabits.unsigned_abs() * 1_000_000)
}

/// The number of receive queues in use. One if that is not known.
pub fn receive_queues(name: &str) -> u32 {
    let entries = directory(name).and_then(|dir| std::fs::read_dir(dir.join("queues")).ok());
    let receive = entries.into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(b"rx-")
    });
    u32::try_from(receive.count()).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_megabits_or_unknown() {
        assert_eq!(megabits("10000\n"), Some(10_000_000_000));
        for unknown in ["-1\n", "4294967295\n", "0\n", "", "fast\n"] {
            assert_eq!(megabits(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_has_one_queue_and_no_speed() {
        for name in ["", "..", "../../etc", "no-such-device"] {
            assert_eq!((link_speed_bps(name), receive_queues(name)), (None, 1), "{name:?}");
        }
        assert!(receive_queues("lo") >= 1);
    }
}
