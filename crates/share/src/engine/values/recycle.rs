//! The settings of a share's recycle folder, and the names in it.

use std::time::Duration;

use volume::Name;
use wire::calendar::date;

use crate::engine::values::config::matches;

/// The longest name of a host's file in bytes.
const LONGEST_NAME: usize = 255;

/// The rules by which removed files are kept in the recycle folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecycleRules {
    /// Name of the folder at the root of the share.
    pub folder: Name,
    /// How long a file is kept. None: until its room is needed.
    pub keep_for: Option<Duration>,
    /// The most bytes of storage that the kept files take. The oldest are removed for good above it.
    pub most_bytes: u64,
    /// A file that takes more bytes of storage is removed for good at once.
    pub largest_file: u64,
    /// Files with such names are removed for good at once; `*` and `?` stand for anything.
    pub excluded: Vec<String>,
}

impl RecycleRules {
    /// Whether files of this name are never kept.
    pub(crate) fn excludes(&self, name: &Name) -> bool {
        self.excluded.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }
}

/// A name for a file of which the folder has another one already: the time of the removal and perhaps a
/// number stand before the extension. Number 1 is not shown.
pub(crate) fn versioned(name: &Name, wall_ns: i64, number: u32) -> Name {
    let bytes = name.as_bytes();
    // A leading dot begins no extension.
    let dot = bytes.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0).unwrap_or(bytes.len());
    let (mut stem, mut extension) = bytes.split_at(dot);
    let seconds = wall_ns.div_euclid(1_000_000_000);
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let counted = if number > 1 { format!(" {number}") } else { String::new() };
    let stamp = format!(" ({year:04}-{month:02}-{day:02} {hour:02}-{minute:02}-{second:02}{counted})");
    if extension.len() + stamp.len() >= LONGEST_NAME {
        extension = b"";
    }
    stem = cut(stem, LONGEST_NAME - extension.len() - stamp.len());
    Name::new(&[stem, stamp.as_bytes(), extension].concat()).unwrap_or_else(|_| name.clone())
}

/// The first bytes of a text, at most `most`, without a part of a character at the end.
fn cut(text: &[u8], most: usize) -> &[u8] {
    let mut end = text.len().min(most);
    while end < text.len() && end > 0 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stands_before_the_extension_and_the_name_stays_short_enough() {
        let versioned = |text: &str, number| {
            let name = Name::new(text.as_bytes()).unwrap();
            super::versioned(&name, 1_795_815_671_000_000_000, number).display().into_owned()
        };
        assert_eq!(versioned("a.b.txt", 1), "a.b (2026-11-27 21-41-11).txt");
        assert_eq!(versioned("plain", 2), "plain (2026-11-27 21-41-11 2)");
        assert_eq!(versioned(".profile", 1), ".profile (2026-11-27 21-41-11)");
        let long = versioned(&format!("{}.txt", "ä".repeat(125)), 1);
        assert!(long.len() <= 255 && long.ends_with("ä (2026-11-27 21-41-11).txt"), "{long}");
        let odd = versioned(&format!("a.{}", "x".repeat(250)), 1);
        assert_eq!(odd, "a (2026-11-27 21-41-11)");
    }
}
