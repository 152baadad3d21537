//! Reading and writing blocks of files.
//!
//! As in fio, every job has its own files, named after it. They are created before the measurement and
//! kept for the next run. As in diskspd, the files can be named instead, and each has its own jobs. All
//! concurrent operations of a job share its position.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::Bytes;
use client::remote::OpenMode;
use client::remote::local::ALIGNMENT;

use super::each_of;
use crate::engine::{CompletedOperation, Kind};
use crate::error::ErrorContext;
use crate::peer::{File, TargetDirectory};
use crate::plan::{BlockPattern, Content, Files};
use crate::random::Random;
use crate::{Error, Plan};

/// Bytes of one write while files are created.
const LAY_OUT_STEP: u64 = 1024 * 1024;

/// The names of the files that a job works on.
pub(crate) fn names(shape: &BlockPattern, job: u32) -> Vec<String> {
    match &shape.files {
        Files::Own { count, .. } => (0..*count).map(|file| format!("trunkline.{job}.{file}")).collect(),
        Files::Named { paths, jobs, .. } => vec![paths[(job / jobs) as usize].clone()],
    }
}

/// The position counter that a job uses.
pub(crate) fn position_of(shape: &BlockPattern, job: u32) -> u32 {
    match &shape.files {
        Files::Named { jobs, .. } if shape.interlocked => job / jobs * jobs,
        _ => job,
    }
}

/// Creates the files of all jobs with the necessary size, and checks that the other files exist.
pub(crate) async fn lay_out(share: &TargetDirectory, plan: &Plan, shape: &BlockPattern) -> Result<(), Error> {
    match &shape.files {
        Files::Own { size, .. } => {
            for job in 0..plan.jobs {
                for path in names(shape, job) {
                    make(share, &path, *size).await?;
                }
            }
        }
        Files::Named { paths, size: Some(size), .. } => {
            for path in paths.iter() {
                make(share, path, *size).await?;
            }
        }
        Files::Named { paths, size: None, .. } => {
            for path in paths.iter() {
                let file = share.open(path, OpenMode::Read).await;
                let what =
                    || format!("opening {path}, which must be there unless -cSIZE or --filesize makes it");
                let file = file.doing(what)?;
                let size = file.size();
                file.close().await.doing(|| format!("closing {path}"))?;
                if size < u64::from(plan.block) {
                    let text = format!(
                        "{path} has {size} bytes, less than one operation; -cSIZE or --filesize makes it \
                         larger"
                    );
                    return Err(Error::Wrong(text));
                }
            }
        }
    }
    Ok(())
}

/// Creates a file with at least this size.
async fn make(share: &TargetDirectory, path: &str, size: u64) -> Result<(), Error> {
    let content = noise(LAY_OUT_STEP as usize);
    let file = Arc::new(share.open(path, OpenMode::Make).await.doing(|| format!("opening {path}"))?);
    if file.size() < size {
        let written = Arc::clone(&file);
        each_of(size.div_ceil(LAY_OUT_STEP), move |step| {
            let (file, content) = (Arc::clone(&written), content.clone());
            async move {
                let from = step * LAY_OUT_STEP;
                let length = (size - from).min(LAY_OUT_STEP) as usize;
                write_all(&file, from, content.slice(..length)).await
            }
        })
        .await?;
    }
    match Arc::into_inner(file) {
        Some(file) => file.close().await.doing(|| format!("closing {path}")),
        None => Ok(()),
    }
}

async fn write_all(file: &File, mut at: u64, mut data: Bytes) -> Result<(), Error> {
    while !data.is_empty() {
        let count = file.write(at, &data).await.doing(|| "writing the files to be read".to_owned())?;
        if count == 0 {
            return Err(Error::Wrong("the server wrote nothing of a WRITE and said so".to_owned()));
        }
        data = data.slice(count as usize..);
        at += u64::from(count);
    }
    Ok(())
}

/// Incompressible bytes, at an address that direct I/O accepts.
#[must_use]
pub fn noise(length: usize) -> Bytes {
    let mut random = Random::new(7);
    let mut bytes = Vec::with_capacity(length + ALIGNMENT + 8);
    while bytes.len() < length + ALIGNMENT {
        bytes.extend_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    aligned(Bytes::from(bytes), length)
}

fn aligned(bytes: Bytes, length: usize) -> Bytes {
    let at = bytes.as_ptr().align_offset(ALIGNMENT);
    bytes.slice(at..at + length)
}

/// The data for all writes of a plan.
pub(crate) fn content(plan: &Plan, shape: &BlockPattern) -> Bytes {
    let block = plan.block as usize;
    match shape.content {
        _ if shape.write_percent == 0 => Bytes::new(),
        Content::Block => noise(block),
        Content::Zeros => aligned(Bytes::from(vec![0; block + ALIGNMENT]), block),
        Content::Pieces(bytes) => noise(bytes as usize),
    }
}

/// The open files of one job on one connection.
#[derive(Debug)]
pub(crate) struct Job {
    files: Vec<File>,
    shape: BlockPattern,
    block: u32,
    /// The number of positions in each file at which an operation may begin.
    places: u64,
    /// The next position of a sequential job. All connections that work for the job share it.
    position: Arc<AtomicU64>,
    content: Bytes,
}

impl Job {
    pub(crate) async fn open(
        share: &TargetDirectory,
        plan: &Plan,
        shape: &BlockPattern,
        job: u32,
        position: Arc<AtomicU64>,
        content: Bytes,
    ) -> Result<Job, Error> {
        let how = if shape.write_percent > 0 { OpenMode::Write } else { OpenMode::Read };
        let mut files = Vec::new();
        for path in names(shape, job) {
            files.push(share.open(&path, how).await.doing(|| format!("opening {path}"))?);
        }
        let size = match shape.files {
            Files::Own { size, .. } | Files::Named { size: Some(size), .. } => size,
            Files::Named { size: None, .. } => files.first().map_or(0, File::size),
        };
        let room = size.checked_sub(plan.block.into());
        let room =
            room.ok_or_else(|| Error::Wrong("a file has become shorter than one operation".to_owned()))?;
        Ok(Job {
            files,
            shape: shape.clone(),
            block: plan.block,
            places: room / shape.step + 1,
            position,
            content,
        })
    }

    /// Reads or writes the next block.
    pub(crate) async fn step(&self, random: &mut Random) -> Result<CompletedOperation, Error> {
        let places = self.places * self.files.len() as u64;
        let block_number = match self.shape.random {
            true => random.below(places),
            false => self.position.fetch_add(1, Ordering::Relaxed) % places,
        };
        let file = &self.files[(block_number / self.places) as usize];
        let offset = block_number % self.places * self.shape.step;
        let writes = match self.shape.write_percent {
            0 => false,
            100 => true,
            percent => random.below(100) < u64::from(percent),
        };
        let (kind, done) = if writes {
            (Kind::Write, file.write(offset, &self.piece(random)).await.doing(|| "writing".to_owned())?)
        } else {
            let length = file.read(offset, self.block).await.doing(|| "reading".to_owned())?;
            (Kind::Read, length as u32)
        };
        if done != self.block {
            let text = format!("{done} bytes were moved instead of {} at {offset}", self.block);
            return Err(Error::Wrong(text));
        }
        Ok(CompletedOperation { kind, bytes: u64::from(done), begun: None })
    }

    /// The data of the next write.
    fn piece(&self, random: &mut Random) -> Bytes {
        let spare = (self.content.len() - self.block as usize) / ALIGNMENT;
        let at = if spare == 0 { 0 } else { random.below(spare as u64 + 1) as usize * ALIGNMENT };
        self.content.slice(at..at + self.block as usize)
    }

    pub(crate) async fn close(self) -> Result<(), Error> {
        for file in self.files {
            file.close().await.doing(|| "closing a file".to_owned())?;
        }
        Ok(())
    }
}
