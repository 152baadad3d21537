//! Files that were on the server before, one of which is read where nothing may be written: the largest that may be.

use std::collections::VecDeque;
use std::time::Duration;

use client::join;
use client::remote::{Directory, OpenMode};

use crate::facts::{Stage, Stopped};
use crate::patient::Patient;
use crate::protocol;

/// Directories that are listed at most to find a file that may be read, and how far below the first.
pub(crate) const LISTED: usize = 64;
pub(crate) const DEEP: u32 = 4;
/// Where there is none.
pub(crate) const NOTHING: &str = "there is no file to read in this directory, nor near below it";
/// Files that are tried.
const TRIED: usize = 16;

/// A file that was there before, which is only read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Existing {
    /// Where it is, from the target's directory.
    pub(crate) directory: String,
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// The largest files of those that were seen, the largest first.
#[derive(Debug, Default)]
struct Largest(Vec<Existing>);

impl Largest {
    fn add(&mut self, file: Existing) {
        // Of equal ones the first that was seen.
        let at = self.0.partition_point(|it| it.size >= file.size);
        self.0.insert(at, file);
        self.0.truncate(TRIED);
    }
}

/// The largest files of at least `least` bytes in a directory and in those below it: directories nearer to it first, until one is
/// found of `enough` bytes, so many were listed, or patience is over.
async fn largest(root: &Directory, [least, enough]: [u64; 2], patience: Duration) -> Vec<Existing> {
    let mut found = Largest::default();
    let looking = async {
        let mut next = VecDeque::from([(String::new(), 0)]);
        for _ in 0..LISTED {
            let Some((directory, depth)) = next.pop_front() else { return };
            let Ok(place) = root.directory(&directory).await else { continue };
            // What may not be listed is passed by.
            let Ok(entries) = place.list().await else { continue };
            for entry in entries {
                let (name, size) = (String::from_utf8_lossy(&entry.name).into_owned(), entry.attributes.size);
                // Behind a junction or a link of a share there may be files too.
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
    // What was found until then is good enough.
    let _whole = tokio::time::timeout(patience, looking).await;
    found.0
}

/// The largest file that may be read, of at least so many bytes; one of `enough` is as good as any larger one. Where there is none
/// it is said why.
pub(crate) async fn readable(
    patient: &Patient<'_>,
    root: &Directory,
    [least, enough]: [u64; 2],
) -> Result<Result<Existing, String>, Stopped> {
    let mut reason = NOTHING.to_owned();
    for file in largest(root, [least, enough], patient.course.stall).await {
        let trying = async {
            let open = root.directory(&file.directory).await?.open(&file.name, OpenMode::Read).await?;
            // A lock of somebody else is met only now.
            let read = open.read(0, 1).await;
            open.close().await?;
            read
        };
        let tried = tokio::time::timeout(patient.course.stall, trying).await;
        match tried.map_err(|_| patient.silent(Stage::Data, "opening a file"))? {
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
