//! Existing files on the server. If nothing may be written, the largest readable one is read.

use std::collections::VecDeque;
use std::time::Duration;

use client::join;
use client::remote::{Directory, OpenMode};

use crate::examination::Examination;
use crate::measurements::{Stage, Stopped};
use crate::protocol;

/// The most directories that are listed to find a readable file, and their greatest depth.
pub(crate) const LISTED: usize = 64;
pub(crate) const DEEP: u32 = 4;
/// The message if there is none.
pub(crate) const NOTHING: &str = "there is no file to read in this directory, nor near below it";
/// The number of files that are tried.
const TRIED: usize = 16;

/// An existing file, which is only read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Existing {
    /// Its directory, relative to the target's directory.
    pub(crate) directory: String,
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// The largest files that were seen, the largest first.
#[derive(Debug, Default)]
struct Largest(Vec<Existing>);

impl Largest {
    fn add(&mut self, file: Existing) {
        // Of equal files, the one that was seen first.
        let at = self.0.partition_point(|it| it.size >= file.size);
        self.0.insert(at, file);
        self.0.truncate(TRIED);
    }
}

/// The largest files with at least `least` bytes in a directory and below it. Nearer directories are
/// searched first, until a file has `enough` bytes, the limit of directories is reached, or the time is
/// over.
async fn largest(root: &Directory, [least, enough]: [u64; 2], patience: Duration) -> Vec<Existing> {
    let mut found = Largest::default();
    let looking = async {
        let mut next = VecDeque::from([(String::new(), 0)]);
        for _ in 0..LISTED {
            let Some((directory, depth)) = next.pop_front() else { return };
            let Ok(listed) = root.directory(&directory).await else { continue };
            // A directory that may not be listed is skipped.
            let Ok(entries) = listed.list().await else { continue };
            for entry in entries {
                let (name, size) = (String::from_utf8_lossy(&entry.name).into_owned(), entry.attributes.size);
                // A junction or a link of a share may lead to files too.
                let is_directory = entry.attributes.may_be_listed;
                if is_directory && depth < DEEP && next.len() < LISTED {
                    next.push_back((join(&directory, &name), depth + 1));
                }
                if !is_directory && size >= least {
                    let directory = directory.clone();
                    found.add(Existing { directory, name, size });
                }
            }
            if found.0.first().is_some_and(|it| it.size >= enough) {
                return;
            }
        }
    };
    // The files that were found until then are good enough.
    let _whole = tokio::time::timeout(patience, looking).await;
    found.0
}

/// The largest readable file with at least `least` bytes. One with `enough` bytes is as good as any
/// larger one. If there is none, the reason is returned.
pub(crate) async fn readable(
    exam: &Examination<'_>,
    root: &Directory,
    [least, enough]: [u64; 2],
) -> Result<Result<Existing, String>, Stopped> {
    let mut reason = NOTHING.to_owned();
    for file in largest(root, [least, enough], exam.course.stall).await {
        let trying = async {
            let open = root.directory(&file.directory).await?.open(&file.name, OpenMode::Read).await?;
            // A lock of another client shows only now.
            let read = open.read(0, 1).await;
            open.close().await?;
            read
        };
        let tried = tokio::time::timeout(exam.course.stall, trying).await;
        match tried.map_err(|_| exam.silent(Stage::Data, "opening a file"))? {
            Ok(_) => return Ok(Ok(file)),
            Err(why) if why.is_loss() => return Err(protocol::stopped(Stage::Data, &why)),
            Err(why) => reason = format!("none of the largest files may be read: {}: {why}", file.name),
        }
    }
    Ok(Err(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first_and_the_smallest_are_forgotten() {
        let mut found = Largest::default();
        for size in (0..40).chain([39]) {
            let name = format!("f{size}");
            found.add(Existing { directory: String::new(), name, size });
        }
        let sizes: Vec<u64> = found.0.iter().map(|it| it.size).collect();
        assert_eq!((sizes.len(), &sizes[..4]), (TRIED, &[39, 39, 38, 37][..]));
    }
}
