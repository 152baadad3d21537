//! Work with names: create, open, stat, unlink and list in one directory that holds many.
//!
//! The directory `trunkline.names` holds the names that stay (`s…`), which are left for the next run, and
//! those of this run (`v…`): made and measured by create, made before and measured by unlink.

use std::collections::HashSet;

use client::{OpenOptions, Tree};
use smb_wire::create::{Access, CreateOptions, Disposition};

use super::data::noise;
use super::{Random, each_of, join, make_directories};
use crate::args::Metadata;
use crate::error::Doing;
use crate::{Error, Plan};

/// What is done, and to how many names.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    kind: Metadata,
    compound: bool,
    directory: String,
    /// Names that stay.
    files: u64,
    /// Names of this run that are there before it.
    victims: u64,
    content: Vec<u8>,
}

impl Names {
    pub(crate) fn new(plan: &Plan, kind: Metadata, files: u64, compound: bool) -> Names {
        let victims = if kind == Metadata::Unlink { plan.operations.unwrap_or(files) } else { 0 };
        let directory = join(&plan.target.directory, "trunkline.names");
        Names { kind, compound, directory, files, victims, content: noise(plan.block as usize) }
    }

    fn staying(&self, number: u64) -> String {
        format!("{}/s{number:08}", self.directory)
    }

    fn of_run(&self, number: u64) -> String {
        format!("{}/v{number:08}", self.directory)
    }

    /// Makes the directory hold exactly what it must. Names that an earlier run has left are kept: some
    /// servers need long to make many.
    pub(crate) async fn lay_out(&self, tree: &Tree) -> Result<(), Error> {
        make_directories(tree, &self.directory).await?;
        let left = self.sweep(tree).await?;
        let staying = (0..self.files).filter(|number| !left.contains(number)).map(|it| self.staying(it));
        let missing: Vec<String> = staying.chain((0..self.victims).map(|it| self.of_run(it))).collect();
        let (tree_of_all, content) = (tree.clone(), self.content.clone());
        each_of(missing.len() as u64, move |number| {
            let (tree, path, content) =
                (tree_of_all.clone(), missing[number as usize].clone(), content.clone());
            async move {
                let how = OpenOptions::file(Disposition::OverwriteIf);
                tree.put(&path, &how, &content).await.doing(|| format!("making {path}"))
            }
        })
        .await
    }

    /// Deletes everything but the names that stay; answers the numbers of those that are whole.
    pub(crate) async fn sweep(&self, tree: &Tree) -> Result<HashSet<u64>, Error> {
        let path = &self.directory;
        let directory = tree.open(path, &OpenOptions::directory(Disposition::Open)).await;
        let directory = directory.doing(|| format!("opening {path}"))?;
        let listed = directory.list("*").await.doing(|| format!("listing {path}"))?;
        directory.close().await.doing(|| format!("closing {path}"))?;
        let number_of = |name: &str| {
            let number = name.strip_prefix('s').and_then(|number| number.parse::<u64>().ok());
            number.filter(|number| *number < self.files && self.staying(*number).ends_with(name))
        };
        let (mut whole, mut surplus) = (HashSet::new(), Vec::new());
        for found in listed {
            match number_of(&found.name) {
                Some(number) if found.entry.end_of_file == self.content.len() as u64 => {
                    whole.insert(number);
                }
                Some(_) => {}
                None => surplus.push(join(path, &found.name)),
            }
        }
        let tree = tree.clone();
        each_of(surplus.len() as u64, move |number| {
            let (tree, path) = (tree.clone(), surplus[number as usize].clone());
            async move { delete(&tree, &path).await }
        })
        .await?;
        Ok(whole)
    }

    /// One operation of `worker` that does not count. What it makes it deletes again.
    pub(crate) async fn warm_up(&self, tree: &Tree, worker: u64, random: &mut Random) -> Result<u64, Error> {
        if self.kind != Metadata::Create {
            return self.step(tree, worker, random).await;
        }
        let path = format!("{}/w{worker:08}", self.directory);
        let written = self.create(tree, &path).await?;
        delete(tree, &path).await?;
        Ok(written)
    }

    /// One operation, the `number`th of the run; answers how many bytes of data it moved.
    pub(crate) async fn step(&self, tree: &Tree, number: u64, random: &mut Random) -> Result<u64, Error> {
        match self.kind {
            Metadata::Create => self.create(tree, &self.of_run(number)).await,
            Metadata::Unlink => {
                let path = self.of_run(number);
                self.open_and_close(tree, &path, &OpenOptions::delete()).await
            }
            Metadata::Open => {
                let path = self.staying(random.below(self.files));
                self.open_and_close(tree, &path, &OpenOptions::read()).await
            }
            Metadata::Stat => {
                let path = self.staying(random.below(self.files));
                let info = tree.stat(&path).await.doing(|| format!("asking for {path}"))?;
                match info.end_of_file == self.content.len() as u64 {
                    true => Ok(0),
                    false => Err(Error::Wrong(format!("{path} has {} bytes", info.end_of_file))),
                }
            }
            Metadata::List => self.list(tree).await,
        }
    }

    async fn create(&self, tree: &Tree, path: &str) -> Result<u64, Error> {
        let how = OpenOptions {
            access: Access::FILE_GENERIC_WRITE,
            options: CreateOptions::NON_DIRECTORY_FILE,
            ..OpenOptions::file(Disposition::Create)
        };
        let written = self.content.len() as u64;
        if self.compound {
            tree.put(path, &how, &self.content).await.doing(|| format!("making {path}"))?;
            return Ok(written);
        }
        let file = tree.open(path, &how).await.doing(|| format!("making {path}"))?;
        let count = file.write(0, &self.content).await.doing(|| format!("writing {path}"))?;
        file.close().await.doing(|| format!("closing {path}"))?;
        if u64::from(count) == written {
            Ok(written)
        } else {
            Err(Error::Wrong(format!("{path} is too short")))
        }
    }

    async fn open_and_close(&self, tree: &Tree, path: &str, how: &OpenOptions) -> Result<u64, Error> {
        if self.compound {
            tree.touch(path, how).await.doing(|| format!("opening {path}"))?;
        } else {
            let file = tree.open(path, how).await.doing(|| format!("opening {path}"))?;
            file.close().await.doing(|| format!("closing {path}"))?;
        }
        Ok(0)
    }

    async fn list(&self, tree: &Tree) -> Result<u64, Error> {
        let path = &self.directory;
        let directory = tree.open(path, &OpenOptions::directory(Disposition::Open)).await;
        let directory = directory.doing(|| format!("opening {path}"))?;
        let listed = directory.list("*").await.doing(|| format!("listing {path}"))?.len() as u64;
        directory.close().await.doing(|| format!("closing {path}"))?;
        if listed == self.files {
            return Ok(0);
        }
        Err(Error::Wrong(format!("{path} lists {listed} names instead of {}", self.files)))
    }
}

async fn delete(tree: &Tree, path: &str) -> Result<(), Error> {
    tree.touch(path, &OpenOptions::delete()).await.doing(|| format!("deleting {path}"))
}
