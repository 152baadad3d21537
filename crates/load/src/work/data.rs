//! Reading and writing blocks of files.
//!
//! As with fio every job has files of its own, named after it, that are made before anything is measured and
//! left there for the next run. All operations of a job that are under way at once share its position.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::Bytes;

use super::{Random, each_of};
use crate::args::Pattern;
use crate::error::Doing;
use crate::measure::Kind;
use crate::peer::{File, How, Share};
use crate::{Error, Plan};

/// How much is written at once while files are made.
const LAY_OUT_STEP: u64 = 1024 * 1024;

/// What all jobs of a plan do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) pattern: Pattern,
    pub(crate) files: u32,
    pub(crate) file_size: u64,
}

fn name(job: u64, file: u64) -> String {
    format!("trunkline.{job}.{file}")
}

/// Makes the files of all jobs as large as they must be.
pub(crate) async fn lay_out(share: &Share, plan: &Plan, shape: Shape) -> Result<(), Error> {
    let content = Bytes::from(noise(LAY_OUT_STEP as usize));
    for job in 0..u64::from(plan.jobs) {
        for number in 0..u64::from(shape.files) {
            let path = name(job, number);
            let file = Arc::new(share.open(&path, How::Make).await.doing(|| format!("opening {path}"))?);
            if file.size() < shape.file_size {
                let (written, content) = (Arc::clone(&file), content.clone());
                let size = shape.file_size;
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
            if let Some(file) = Arc::into_inner(file) {
                file.close().await.doing(|| format!("closing {path}"))?;
            }
        }
    }
    Ok(())
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

/// Bytes that do not compress.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut random = Random::new(7);
    let mut bytes: Vec<u8> =
        (0..length.div_ceil(8)).flat_map(|_| random.below(u64::MAX).to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// The open files of one job on one connection.
#[derive(Debug)]
pub(crate) struct Job {
    files: Vec<File>,
    shape: Shape,
    block: u32,
    blocks_per_file: u64,
    /// The next block of a sequential job; shared by all connections that work for it.
    position: Arc<AtomicU64>,
    content: Bytes,
}

impl Job {
    pub(crate) async fn open(
        share: &Share,
        plan: &Plan,
        shape: Shape,
        job: u64,
        position: Arc<AtomicU64>,
    ) -> Result<Job, Error> {
        let mut files = Vec::new();
        for number in 0..u64::from(shape.files) {
            let path = name(job, number);
            let how = if shape.pattern.writes() { How::Write } else { How::Read };
            files.push(share.open(&path, how).await.doing(|| format!("opening {path}"))?);
        }
        let blocks_per_file = shape.file_size / u64::from(plan.block);
        let content = Bytes::from(noise(plan.block as usize));
        Ok(Job { files, shape, block: plan.block, blocks_per_file, position, content })
    }

    /// Reads or writes the next block.
    pub(crate) async fn step(&self, random: &mut Random) -> Result<(Kind, u64), Error> {
        let blocks = self.blocks_per_file * self.files.len() as u64;
        let block = match self.shape.pattern.is_random() {
            true => random.below(blocks),
            false => self.position.fetch_add(1, Ordering::Relaxed) % blocks,
        };
        let file = &self.files[(block / self.blocks_per_file) as usize];
        let offset = block % self.blocks_per_file * u64::from(self.block);
        let writes = match self.shape.pattern {
            Pattern::Read | Pattern::RandRead => false,
            Pattern::Write | Pattern::RandWrite => true,
            Pattern::Rw | Pattern::RandRw => random.below(2) == 1,
        };
        let (kind, done) = if writes {
            (Kind::Write, file.write(offset, &self.content).await.doing(|| "writing".to_owned())?)
        } else {
            let data = file.read(offset, self.block).await.doing(|| "reading".to_owned())?;
            (Kind::Read, data.len() as u32)
        };
        if done != self.block {
            let text = format!("the server answered {done} bytes instead of {} at {offset}", self.block);
            return Err(Error::Wrong(text));
        }
        Ok((kind, u64::from(done)))
    }

    pub(crate) async fn close(self) -> Result<(), Error> {
        for file in self.files {
            file.close().await.doing(|| "closing a file".to_owned())?;
        }
        Ok(())
    }
}
