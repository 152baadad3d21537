//! A file of lines. It is put aside when it has reached its size or age, and the oldest one is deleted.
//!
//! The file is looked for at its path before each write. If another program has renamed or removed it, a new
//! one is begun, so logrotate needs no signal.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::target::{LineTarget, line_start};

/// When a file is put aside, and how many such files stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The largest size in bytes.
    pub max_bytes: u64,
    /// The greatest age; none: it does not count.
    pub max_age: Option<Duration>,
    /// The number of old files.
    pub keep: u32,
}

/// A file of lines.
pub struct LineFile {
    path: PathBuf,
    rotation: Rotation,
    file: Option<OpenLog>,
    /// A file that could not be put aside goes on, and is not tried again for every line.
    is_stuck: bool,
}

/// The file that is open.
struct OpenLog {
    file: File,
    identity: (u64, u64),
    /// None for a pipe or a terminal, which is never put aside.
    len: Option<u64>,
    begun: SystemTime,
}

impl LineFile {
    /// Opens the file, which may have lines already.
    ///
    /// # Errors
    /// The host's error.
    pub fn open(path: &Path, rotation: Rotation) -> std::io::Result<LineFile> {
        let file = Some(open(path)?);
        Ok(LineFile { path: path.to_owned(), rotation, file, is_stuck: false })
    }

    /// The open file, if it still has its path; else a new one. Also returns whether it is the one of before.
    fn current(&mut self) -> std::io::Result<(&mut OpenLog, bool)> {
        let there = std::fs::metadata(&self.path).ok().map(|found| identity(&found));
        let known = self.file.take().filter(|log| there == Some(log.identity));
        let is_same = known.is_some();
        let log = match known {
            Some(log) => log,
            None => {
                self.is_stuck = false;
                open(&self.path)?
            }
        };
        Ok((self.file.insert(log), is_same))
    }

    /// Puts the file aside and begins a new one.
    fn turn(&mut self) -> std::io::Result<()> {
        for number in (1..self.rotation.keep).rev() {
            // Some of them may not exist yet.
            let _ = std::fs::rename(self.aside(number), self.aside(number + 1));
        }
        if self.rotation.keep == 0 {
            std::fs::remove_file(&self.path)?;
        } else {
            std::fs::rename(&self.path, self.aside(1))?;
        }
        self.file = Some(open(&self.path)?);
        Ok(())
    }

    fn aside(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

impl LineTarget for LineFile {
    fn write(&mut self, lines: &[u8], done: usize) -> std::io::Result<usize> {
        let Rotation { max_bytes, max_age, .. } = self.rotation;
        let start = line_start(lines, done);
        let (log, is_same) = self.current()?;
        if start < done {
            // A full disk has cut a line off. Its rest belongs to the same file.
            if !is_same {
                return Ok(start);
            }
            let end =
                lines[done..].iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| done + at + 1);
            let taken = log.file.write(&lines[done..end])?;
            log.len = log.len.map(|len| len + taken as u64);
            return Ok(done + taken);
        }
        let lines = &lines[done..];
        let is_old = max_age.is_some_and(|most| log.begun.elapsed().is_ok_and(|age| age >= most));
        let first = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |end| end + 1);
        let is_due = log.len.is_some_and(|len| len > 0 && (is_old || len + first as u64 > max_bytes));
        if is_due
            && !self.is_stuck
            && let Err(error) = self.turn()
        {
            self.is_stuck = true;
            let path = self.path.display();
            tracing::warn!(%error, "{path} cannot be put aside and grows on");
        }
        let is_stuck = self.is_stuck;
        let (log, _) = self.current()?;
        let room = log.len.filter(|_| !is_stuck).map(|len| max_bytes.saturating_sub(len));
        let taken = log.file.write(&lines[..room.map_or(lines.len(), |room| whole_lines(lines, room))])?;
        log.len = log.len.map(|len| len + taken as u64);
        Ok(done + taken)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The bytes of the whole lines that fit into `room`; at least one line.
fn whole_lines(lines: &[u8], room: u64) -> usize {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if lines.len() <= room {
        return lines.len();
    }
    let fitting = lines[..room].iter().rposition(|byte| *byte == b'\n');
    let first = || lines.iter().position(|byte| *byte == b'\n');
    fitting.or_else(first).map_or(lines.len(), |end| end + 1)
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Opens the file, or creates one that only its owner can read. A last line without an end gets one.
fn open(path: &Path) -> std::io::Result<OpenLog> {
    // A link may lead anywhere, and whoever may write to the directory can put one there. Those of /dev are
    // the host's.
    let is_device = path.starts_with("/dev");
    let flags = if is_device { 0 } else { rustix::fs::OFlags::NOFOLLOW.bits().cast_signed() };
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let mut len = found.is_file().then_some(found.len());
    if len.is_some_and(|len| len > 0) && last_byte(path)? != b'\n' {
        file.write_all(b"\n")?;
        len = len.map(|len| len + 1);
    }
    let begun = found.created().or_else(|_| found.modified()).unwrap_or_else(|_| SystemTime::now());
    Ok(OpenLog { file, identity: identity(&found), len, begun })
}

fn last_byte(path: &Path) -> std::io::Result<u8> {
    let (mut file, mut last) = (File::open(path)?, [0]);
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(max_bytes: u64, keep: u32) -> Rotation {
        Rotation { max_bytes, max_age: None, keep }
    }

    fn put(file: &mut LineFile, text: &str) {
        let mut done = 0;
        while done < text.len() {
            done = file.write(text.as_bytes(), done).unwrap();
        }
    }

    fn read(path: &Path, suffix: &str) -> String {
        std::fs::read_to_string(format!("{}{suffix}", path.display())).unwrap_or_default()
    }

    #[test]
    fn files_are_put_aside_at_their_size_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let mut file = LineFile::open(&path, rotation(10, 4)).unwrap();
        put(&mut file, "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nlonger than a file\n");
        let all = ["", ".1", ".2", ".3", ".4", ".5"].map(|suffix| read(&path, suffix));
        let wanted = ["longer than a file\n", "nine\n", "eight\n", "six\nseven\n", "four\nfive\n", ""];
        assert_eq!(all, wanted);
        drop(file);
        let mut again = LineFile::open(&path, rotation(100, 4)).unwrap();
        put(&mut again, "more\n");
        assert_eq!(read(&path, ""), "longer than a file\nmore\n", "a file that is there is gone on with");
    }

    #[test]
    fn an_old_file_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let mut file = LineFile::open(&path, rotation(1000, 1)).unwrap();
        put(&mut file, "one\n");
        file.rotation.max_age = Some(Duration::ZERO);
        put(&mut file, "two\n");
        assert_eq!((read(&path, ""), read(&path, ".1")), ("two\n".into(), "one\n".into()));
    }

    #[test]
    fn a_file_that_others_rename_or_remove_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let mut file = LineFile::open(&path, rotation(1000, 1)).unwrap();
        put(&mut file, "one\n");
        std::fs::rename(&path, dir.path().join("r-1")).unwrap();
        put(&mut file, "two\n");
        assert_eq!((read(&path, ""), read(&path, "-1")), ("two\n".into(), "one\n".into()));
        std::fs::remove_file(&path).unwrap();
        put(&mut file, "three\n");
        assert_eq!(read(&path, ""), "three\n");
    }

    #[test]
    fn a_line_of_which_a_part_is_written_ends_in_its_file_or_begins_anew_in_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let mut file = LineFile::open(&path, rotation(1000, 1)).unwrap();
        // A full disk has taken three bytes of the second line.
        assert_eq!(file.write(b"one\n", 0).unwrap(), 4);
        file.current().unwrap().0.file.write_all(b"two").unwrap();
        assert_eq!(file.write(b"one\ntwo-two\nthree\n", 7).unwrap(), 12, "the rest of that line alone");
        file.current().unwrap().0.file.write_all(b"thr").unwrap();
        std::fs::rename(&path, dir.path().join("r-1")).unwrap();
        let (lines, mut done) = (b"three-three\nfour\n", 3);
        while done < lines.len() {
            done = file.write(lines, done).unwrap();
        }
        assert_eq!(read(&path, "-1"), "one\ntwo-two\nthr");
        assert_eq!(read(&path, ""), "three-three\nfour\n");
    }

    #[test]
    fn a_line_that_was_cut_off_is_ended_before_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        std::fs::write(&path, "one\ncut o").unwrap();
        put(&mut LineFile::open(&path, rotation(1000, 1)).unwrap(), "two\n");
        assert_eq!(read(&path, ""), "one\ncut o\ntwo\n");
    }

    #[test]
    fn a_file_that_cannot_be_put_aside_grows_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let mut file = LineFile::open(&path, rotation(5, 1)).unwrap();
        // A directory with something in it stands in the way.
        std::fs::create_dir_all(dir.path().join("r.1/x")).unwrap();
        put(&mut file, "one\ntwo\nthree\n");
        assert_eq!(read(&path, ""), "one\ntwo\nthree\n");
    }
}
