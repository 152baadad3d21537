//! diskspd's flags: `-b64K -t8 -o8 -r -w100 -d60 -W5 -C5 -L -Sh -Z1G -c2G`.
//!
//! Each value directly follows its letter, which is not so for any other option of the program. So
//! [`spell_out`] can mark the flags before the command line is read. A flag is understood as a whole, or
//! refused by name.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use client::written::size;

use crate::Error;

/// The values of the flags, with diskspd's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flags {
    /// -b: bytes of one read or write.
    pub(crate) block: u64,
    /// -t: threads for each file.
    pub(crate) threads: u32,
    /// -o: operations that each thread keeps under way.
    pub(crate) depth: u32,
    /// -w: percentage of operations that write.
    pub(crate) write_percent: u32,
    /// -r: random offsets instead of sequential ones.
    pub(crate) random: bool,
    /// -r or -s: the unit of offsets, if it is not a block.
    pub(crate) step: Option<u64>,
    /// -si: the threads of a file share one position.
    pub(crate) interlocked: bool,
    /// -d, -W and -C: the measured time, the time before it, the time after it.
    pub(crate) duration: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) cool_down: Duration,
    /// -S: bypass the caches; wait for the storage.
    pub(crate) direct: bool,
    pub(crate) sync: bool,
    /// -Z: write zeros.
    pub(crate) zeros: bool,
    /// -Z with a size: write parts of random data of this size.
    pub(crate) source: Option<u64>,
    /// -c: create the files with this size.
    pub(crate) create: Option<u64>,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            block: 64 * 1024,
            threads: 1,
            depth: 2,
            write_percent: 0,
            random: false,
            step: None,
            interlocked: false,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(5),
            cool_down: Duration::ZERO,
            direct: false,
            sync: false,
            zeros: false,
            source: None,
            create: None,
        }
    }
}

/// Marks diskspd's flags in the words of a command line, which begins with the program and `load`.
pub fn spell_out(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = words.into_iter().collect();
    if all.get(1).is_none_or(|command| command != "load") {
        return all;
    }
    for word in all.iter_mut().skip(2).take_while(|word| *word != "--") {
        if is_flag(word) {
            let mut marked = OsString::from("--diskspd=");
            marked.push(&*word);
            *word = marked;
        }
    }
    all
}

/// Whether a word is a dash and a letter, but not help.
fn is_flag(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    matches!(bytes, [b'-', letter, ..] if letter.is_ascii_alphabetic()) && word != "-h"
}

impl Flags {
    /// Reads all flags.
    ///
    /// # Errors
    /// [`Error::Usage`] names the unknown flag.
    pub(crate) fn read(words: &[String]) -> Result<Flags, Error> {
        let mut flags = Flags::default();
        for word in words {
            flags.take(word).map_err(|why| Error::Usage(format!("{word}: {why}")))?;
        }
        Ok(flags)
    }

    fn take(&mut self, word: &str) -> Result<(), String> {
        let (letter, value) = word.split_at_checked(2).ok_or("no flag of diskspd")?;
        match letter {
            "-b" => self.block = bytes(value)?,
            "-t" => self.threads = count(value, 1..=1024)?,
            "-o" => self.depth = count(value, 1..=4096)?,
            "-w" if value.is_empty() => self.write_percent = 0,
            "-w" => self.write_percent = count(value, 0..=100)?,
            "-r" => {
                self.random = true;
                self.step = optional(value)?;
            }
            "-s" => {
                self.random = false;
                self.interlocked = value.starts_with('i');
                self.step = optional(value.trim_start_matches('i'))?;
            }
            "-d" => self.duration = seconds(value, 1)?,
            "-W" => self.warm_up = seconds(value, 0)?,
            "-C" => self.cool_down = seconds(value, 0)?,
            // Latencies are always measured.
            "-L" if value.is_empty() => {}
            "-S" => self.caching(value)?,
            "-Z" if value.is_empty() => self.zeros = true,
            "-Z" => self.source = Some(bytes(value)?),
            "-c" => self.create = Some(bytes(value)?),
            _ => return Err(format!("this flag is not understood; of diskspd's there are {UNDERSTOOD}")),
        }
        Ok(())
    }

    /// `-S` and the letters behind it.
    fn caching(&mut self, letters: &str) -> Result<(), String> {
        (self.direct, self.sync) = match letters {
            "" | "u" => (true, self.sync),
            "w" => (self.direct, true),
            "h" | "uw" | "wu" => (true, true),
            "b" => (false, self.sync),
            _ => return Err(
                "of -S there are -Su (past the caches), -Sw (write-through), -Sh (both) and -Sb (neither)"
                    .to_owned(),
            ),
        };
        Ok(())
    }
}

const UNDERSTOOD: &str = "-b -t -o -w -r -s -d -W -C -L -S -Z and -c";

/// A number of bytes with K, M, G or T behind it. Unlike in diskspd a number without a letter is bytes,
/// not blocks of 512.
fn bytes(value: &str) -> Result<u64, String> {
    match value {
        "" => Err("a size must stand right behind it, such as 64K".to_owned()),
        _ => size(value),
    }
}

fn optional(value: &str) -> Result<Option<u64>, String> {
    if value.is_empty() { Ok(None) } else { size(value).map(Some) }
}

fn count(value: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32, String> {
    let (least, most) = (range.start(), range.end());
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a number from {least} to {most} must stand right behind it"))
}

fn seconds(value: &str, least: u64) -> Result<Duration, String> {
    let number = value.parse().ok().filter(|number| (least..=10_000_000).contains(number));
    let number =
        number.ok_or_else(|| format!("a number of seconds from {least} on must stand right behind it"))?;
    Ok(Duration::from_secs(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Flags, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Flags::read(&words).map_err(|why| why.to_string())
    }

    #[test]
    fn the_line_that_users_measure_multichannel_with_is_understood() {
        let flags = read("-W300 -C5 -r -w100 -b4k -t8 -o8 -Sh -d60 -L -c2G -Z1G").unwrap();
        let wanted = Flags {
            block: 4096,
            threads: 8,
            depth: 8,
            write_percent: 100,
            random: true,
            duration: Duration::from_secs(60),
            warm_up: Duration::from_secs(300),
            cool_down: Duration::from_secs(5),
            direct: true,
            sync: true,
            source: Some(1 << 30),
            create: Some(2 << 30),
            ..Flags::default()
        };
        assert_eq!(flags, wanted);
        assert_eq!(read("").unwrap(), Flags::default());
    }

    #[test]
    fn positions_and_caching_have_letters_of_their_own() {
        let flags = read("-si128K -Sb -Sw -Z").unwrap();
        assert!(flags.interlocked && !flags.random && flags.sync && !flags.direct && flags.zeros);
        assert_eq!(flags.step, Some(128 << 10));
        assert_eq!(read("-r512").unwrap().step, Some(512));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for wrong in [
            "-x",
            "-F4",
            "-g100",
            "-Rxml",
            "-Sr",
            "-Shm",
            "-Zr",
            "-Z1M,file",
            "-b",
            "-t0",
            "-w101",
            "-d0",
            "-rs50",
            "-L5",
            "-Wx",
        ] {
            let said = read(wrong).unwrap_err();
            assert!(said.starts_with(&format!("{wrong}: ")), "{said}");
        }
    }

    #[test]
    fn only_flags_of_load_are_marked() {
        let spell = |line: &str| {
            let words = spell_out(line.split(' ').map(OsString::from));
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(spell("t load -b4k --bs 4k x -h"), "t load --diskspd=-b4k --bs 4k x -h");
        assert_eq!(spell("t load -- -b4k"), "t load -- -b4k");
        assert_eq!(spell("t serve -b4k"), "t serve -b4k");
    }
}
