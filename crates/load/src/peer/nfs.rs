//! An export over NFSv4.1.

use client::nfs::{
    Client, Creation, Directory, File, NfsStat, OpenOptions, Options, StableHow,
};
use client::{Bytes, Error as ClientError};

use super::How;
use crate::channel::Security;
use crate::error::Doing;
use crate::{Error, Plan};

/// A directory of an export.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    directory: Directory,
    /// How each write waits.
    stable: StableHow,
}

/// Permission bits of what is made: the next user of the directory must be able to use it.
const FILE: u32 = 0o666;
const DIRECTORY: u32 = 0o777;

/// Connects as the plan says, with as many connections.
pub(super) async fn open(plan: &Plan, options: &Options) -> Result<(Client, Share), Error> {
    let target = &plan.target;
    let place = || format!("connecting to {} port {}", target.host, target.port);
    let options = Options { connections: plan.channels as usize, ..options.clone() };
    let client = Client::connect((target.host.as_str(), target.port), options).await.doing(place)?;
    if let Some(rate) = plan.slow_rate() {
        client.pace(plan.channels as usize - 1, Some(rate));
    }
    let most = client.max_io();
    if plan.block > most {
        return Err(Error::Wrong(format!("--bs: this server takes at most {most} bytes at once")));
    }
    let directory = client.directory(&target.share).await;
    let directory = directory.doing(|| format!("looking for the export /{}", target.share))?;
    let stable = if plan.sync { StableHow::FileSync } else { StableHow::Unstable };
    Ok((client, Share { directory, stable }))
}

pub(super) fn security() -> Security {
    let off = || "off".to_owned();
    Security { protocol: "NFS".to_owned(), dialect: "4.1".to_owned(), signing: off(), encryption: off() }
}

impl Share {
    pub(super) async fn directory(&self, path: &str) -> client::Result<Share> {
        Ok(Share { directory: self.directory.directory(path).await?, stable: self.stable })
    }

    pub(super) fn stable(&self) -> StableHow {
        self.stable
    }

    pub(super) async fn make_directory(&self, path: &str) -> client::Result<()> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let made = self.directory.directory(above).await?.make_directory(name, DIRECTORY).await;
        match made.as_ref().err().and_then(ClientError::nfs_status) {
            Some(NfsStat::Exist) => Ok(()),
            _ => made,
        }
    }

    pub(super) async fn open(&self, name: &str, how: How) -> client::Result<File> {
        // A file that is named by its user may lie deeper.
        match name.rsplit_once('/') {
            None => self.directory.open(name, &options(how)).await,
            Some((above, name)) => self.directory.directory(above).await?.open(name, &options(how)).await,
        }
    }

    pub(super) async fn touch(&self, name: &str, how: How) -> client::Result<()> {
        self.directory.touch(name, &options(how)).await
    }

    pub(super) async fn put(&self, name: &str, how: How, content: &Bytes) -> client::Result<()> {
        self.directory.put(name, &options(how), content).await
    }

    pub(super) async fn delete(&self, name: &str) -> client::Result<()> {
        self.directory.remove(name).await
    }

    pub(super) async fn size_of(&self, name: &str) -> client::Result<u64> {
        Ok(self.directory.stat(name).await?.size)
    }

    pub(super) async fn list(&self) -> client::Result<Vec<(String, u64)>> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        Ok(self.directory.list().await?.into_iter().map(|it| (text(&it.name), it.attributes.size)).collect())
    }
}

fn options(how: How) -> OpenOptions {
    match how {
        How::Read => OpenOptions::read(),
        How::Write => OpenOptions::write(Creation::Never),
        How::Make => OpenOptions::write(Creation::IfMissing(FILE)),
        How::New => OpenOptions { read: false, write: true, creation: Creation::Always(FILE) },
        How::Anew => OpenOptions { read: false, write: true, creation: Creation::Anew(FILE) },
    }
}
