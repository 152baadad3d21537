//! Operations on names: create, open, close, stat, unlink and list in one directory with many names.
//!
//! The directory `trunkline.names` has permanent names (`s…`), which are kept for the next run, and the
//! names of one run (`v…`). `create` makes and measures these; `unlink` needs them before it runs.

use std::collections::HashSet;
use std::time::Instant;

use client::remote::{Directory, Entry, OpenMode};
use client::{Bytes, join};

use super::data::noise;
use super::each_of;
use crate::args::Metadata;
use crate::engine::{CompletedOperation, Kind};
use crate::error::ErrorContext;
use crate::plan::Workload;
use crate::random::Random;
use crate::{Error, Plan};

/// The operation, and the number of names.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    kind: Metadata,
    compound: bool,
    /// Whether permanent names are requested in another case than they have.
    other_case: bool,
    /// The number of permanent names.
    files: u64,
    /// The number of names of this run that must exist before it.
    victims: u64,
    content: Bytes,
}

impl Names {
    /// The names in a plan. `None` if it is about data.
    pub(crate) fn of(plan: &Plan) -> Option<Names> {
        let Workload::Metadata { kind, files, size, compound, other_case } = plan.work else { return None };
        let victims = if kind == Metadata::Unlink { plan.operations.unwrap_or(files) } else { 0 };
        let content = noise(size as usize);
        Some(Names { kind, compound, other_case, files, victims, content })
    }

    /// The directory of the names.
    pub(crate) fn directory(plan: &Plan) -> String {
        join(&plan.target.path, "trunkline.names")
    }

    fn staying(&self, number: u64) -> String {
        format!("s{number:08}")
    }

    /// A random permanent name, as it is requested.
    fn asked_for(&self, random: &mut Random) -> String {
        let name = self.staying(random.below(self.files));
        if self.other_case { name.to_uppercase() } else { name }
    }

    fn of_run(&self, number: u64) -> String {
        format!("v{number:08}")
    }

    /// Prepares the exact content of the directory. Names of an earlier run are kept, because some
    /// servers need long to create many.
    pub(crate) async fn lay_out(&self, share: &Directory) -> Result<(), Error> {
        let left = self.sweep(share).await?;
        let staying = (0..self.files).filter(|number| !left.contains(number)).map(|it| self.staying(it));
        let missing: Vec<String> = staying.chain((0..self.victims).map(|it| self.of_run(it))).collect();
        let (share, content) = (share.clone(), self.content.clone());
        each_of(missing.len() as u64, move |number| {
            let (share, path, content) = (share.clone(), missing[number as usize].clone(), content.clone());
            async move { share.put(&path, OpenMode::Anew, &content).await.doing(|| format!("making {path}")) }
        })
        .await
    }

    /// Deletes everything but the permanent names. Returns the numbers of the complete ones.
    pub(crate) async fn sweep(&self, share: &Directory) -> Result<HashSet<u64>, Error> {
        let listed = share.list().await.doing(|| "listing".to_owned())?;
        let number_of = |name: &str| {
            let number = name.strip_prefix('s').and_then(|number| number.parse::<u64>().ok());
            number.filter(|number| *number < self.files && self.staying(*number) == name)
        };
        let (mut whole, mut surplus) = (HashSet::new(), Vec::new());
        for Entry { name, attributes } in listed {
            let name = String::from_utf8_lossy(&name).into_owned();
            match number_of(&name) {
                Some(number) if attributes.size == self.content.len() as u64 => {
                    whole.insert(number);
                }
                Some(_) => {}
                None => surplus.push(name),
            }
        }
        let share = share.clone();
        each_of(surplus.len() as u64, move |number| {
            let (share, path) = (share.clone(), surplus[number as usize].clone());
            async move { delete(&share, &path, true).await }
        })
        .await?;
        Ok(whole)
    }

    /// Runs one operation of `worker` that does not count. It deletes any file that it creates.
    pub(crate) async fn aside(
        &self,
        share: &Directory,
        worker: u64,
        random: &mut Random,
    ) -> Result<CompletedOperation, Error> {
        if self.kind != Metadata::Create {
            return self.step(share, worker, random).await;
        }
        let path = format!("w{worker:08}");
        let bytes = self.create(share, &path).await?;
        delete(share, &path, true).await?;
        Ok(CompletedOperation { kind: Kind::Metadata, bytes, begun: None })
    }

    /// Runs the operation with this number.
    pub(crate) async fn step(
        &self,
        share: &Directory,
        number: u64,
        random: &mut Random,
    ) -> Result<CompletedOperation, Error> {
        let mut done = CompletedOperation { kind: Kind::Metadata, bytes: 0, begun: None };
        match self.kind {
            Metadata::Create => done.bytes = self.create(share, &self.of_run(number)).await?,
            Metadata::Unlink => delete(share, &self.of_run(number), self.compound).await?,
            Metadata::Open => {
                let path = self.asked_for(random);
                self.open_and_close(share, &path, OpenMode::Read).await?;
            }
            Metadata::Close => {
                let path = self.asked_for(random);
                let file = share.open(&path, OpenMode::Read).await.doing(|| format!("opening {path}"))?;
                done.begun = Some(Instant::now());
                file.close().await.doing(|| format!("closing {path}"))?;
            }
            Metadata::Stat => {
                let path = self.asked_for(random);
                let size = share.stat(&path).await.doing(|| format!("asking for {path}"))?.size;
                if size != self.content.len() as u64 {
                    return Err(Error::Wrong(format!("{path} has {size} bytes")));
                }
            }
            Metadata::List => self.list(share).await?,
        }
        Ok(done)
    }

    async fn create(&self, share: &Directory, path: &str) -> Result<u64, Error> {
        let written = self.content.len() as u64;
        if self.compound {
            share.put(path, OpenMode::New, &self.content).await.doing(|| format!("making {path}"))?;
            return Ok(written);
        }
        let file = share.open(path, OpenMode::New).await.doing(|| format!("making {path}"))?;
        let count = file.write(0, &self.content).await.doing(|| format!("writing {path}"))?;
        file.close().await.doing(|| format!("closing {path}"))?;
        if u64::from(count) == written {
            Ok(written)
        } else {
            Err(Error::Wrong(format!("{path} is too short")))
        }
    }

    async fn open_and_close(&self, share: &Directory, path: &str, mode: OpenMode) -> Result<(), Error> {
        if self.compound {
            share.touch(path, mode).await.doing(|| format!("opening {path}"))?;
        } else {
            let file = share.open(path, mode).await.doing(|| format!("opening {path}"))?;
            file.close().await.doing(|| format!("closing {path}"))?;
        }
        Ok(())
    }

    async fn list(&self, share: &Directory) -> Result<(), Error> {
        let listed = share.list().await.doing(|| "listing".to_owned())?.len() as u64;
        if listed == self.files {
            return Ok(());
        }
        Err(Error::Wrong(format!("the directory lists {listed} names instead of {}", self.files)))
    }
}

/// Deletes a name. `compound` counts if the protocol has a choice.
async fn delete(share: &Directory, path: &str, compound: bool) -> Result<(), Error> {
    let deleted = if compound { share.remove(path).await } else { share.remove_stepwise(path).await };
    deleted.doing(|| format!("deleting {path}"))
}
