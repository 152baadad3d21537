//! A share over SMB.

use client::smb::{ChannelOptions, Connection, OpenOptions, Session, Tree};
use client::{Bytes, ChannelStatus, join};
use smb_wire::create::{Access, CreateOptions, Disposition};

use super::How;
use crate::channel::Security;
use crate::error::Doing;
use crate::plan::Smb;
use crate::{Error, Plan};

/// A logged-on connection.
#[derive(Debug)]
pub(super) struct Line {
    connection: Connection,
    session: Session,
}

/// A directory of a share.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    tree: Tree,
    directory: String,
    /// What opens for data say of caches.
    caching: CreateOptions,
}

impl Line {
    pub(super) async fn open(plan: &Plan, wanted: &Smb) -> Result<(Line, Share), Error> {
        let target = &plan.target;
        let place = || format!("connecting to {} port {}", target.host, target.port);
        let address = (target.host.as_str(), target.port);
        let connection = Connection::connect(address, &target.host, &wanted.options).await.doing(place)?;
        let negotiated = connection.negotiated();
        if wanted.signing.is_some_and(|signing| signing != negotiated.signing) {
            let (dialect, got) = (negotiated.dialect, negotiated.signing);
            let text = format!("--signing: with {dialect:?} this server signs by {got:?}; see --dialect");
            return Err(Error::Wrong(text));
        }
        let session = Session::log_on(&connection, &wanted.credentials, wanted.encrypt)
            .await
            .doing(|| format!("logging on as {}", target.user))?;
        open_channels(plan, &session).await?;
        let tree =
            session.connect(&target.share).await.doing(|| format!("connecting to share {}", target.share))?;
        let most = negotiated.max_read_size.min(negotiated.max_write_size);
        if plan.block > most {
            return Err(Error::Wrong(format!("--bs: this server takes at most {most} bytes at once")));
        }
        let mut caching = CreateOptions::default();
        if plan.direct {
            caching |= CreateOptions::NO_INTERMEDIATE_BUFFERING;
        }
        if plan.sync {
            caching |= CreateOptions::WRITE_THROUGH;
        }
        Ok((Line { connection, session }, Share { tree, directory: String::new(), caching }))
    }

    /// Logs off.
    pub(super) async fn close(self) -> Result<(), Error> {
        self.session.log_off().await.doing(|| "logging off".to_owned())
    }

    pub(super) fn channels(&self) -> Vec<ChannelStatus> {
        self.session.channels()
    }

    pub(super) fn security(&self) -> Security {
        let negotiated = self.connection.negotiated();
        let dialect = negotiated.dialect.get();
        let last = match dialect & 0xff {
            0x10 | 0x00 => String::new(),
            0x11 => ".1".to_owned(),
            last => format!(".{last}"),
        };
        let minor = if dialect & 0xff >= 0x10 { 1 } else { 0 };
        let off = || "off".to_owned();
        let cipher = negotiated.cipher.filter(|_| self.session.seals());
        Security {
            protocol: "SMB".to_owned(),
            dialect: format!("{}.{minor}{last}", dialect >> 8),
            signing: if self.session.signs() { format!("{:?}", negotiated.signing) } else { off() },
            encryption: cipher.map_or_else(off, |cipher| format!("{cipher:?}")),
        }
    }
}

/// Gives the session as many channels as the plan says, or fails.
async fn open_channels(plan: &Plan, session: &Session) -> Result<(), Error> {
    if plan.channels > 1 {
        let options = ChannelOptions { channels: plan.channels as usize, ..ChannelOptions::default() };
        let opened = session.open_channels(&options).await.doing(|| "opening channels".to_owned())?;
        if let Some(why) = opened.failure {
            return Err(Error::Wrong(format!("--channels: only {}, since {why}", opened.channels)));
        }
    }
    if let Some(rate) = plan.slow_rate() {
        session.pace(plan.channels as usize - 1, Some(rate));
    }
    Ok(())
}

impl Share {
    fn path(&self, name: &str) -> String {
        join(&self.directory, name)
    }

    pub(super) fn directory(&self, path: &str) -> Share {
        Share { directory: self.path(path), ..self.clone() }
    }

    pub(super) async fn make_directory(&self, path: &str) -> client::Result<()> {
        let how = OpenOptions::directory(Disposition::OpenIf);
        self.tree.open(&self.path(path), &how).await?.close().await
    }

    pub(super) async fn open(&self, name: &str, how: How) -> client::Result<client::smb::File> {
        let plain = options(how);
        let how = OpenOptions { options: plain.options | self.caching, ..plain };
        self.tree.open(&self.path(name), &how).await
    }

    pub(super) async fn touch(&self, name: &str, how: How) -> client::Result<()> {
        self.tree.touch(&self.path(name), &options(how)).await
    }

    pub(super) async fn put(&self, name: &str, how: How, content: &Bytes) -> client::Result<()> {
        self.tree.put(&self.path(name), &options(how), content).await
    }

    pub(super) async fn delete(&self, name: &str, compound: bool) -> client::Result<()> {
        let (path, how) = (self.path(name), OpenOptions::delete());
        if compound {
            return self.tree.touch(&path, &how).await;
        }
        self.tree.open(&path, &how).await?.close().await
    }

    pub(super) async fn size_of(&self, name: &str) -> client::Result<u64> {
        Ok(self.tree.stat(&self.path(name)).await?.end_of_file)
    }

    pub(super) async fn list(&self) -> client::Result<Vec<(String, u64)>> {
        let directory = self.tree.open(&self.directory, &OpenOptions::directory(Disposition::Open)).await?;
        let listed = directory.list("*").await?;
        directory.close().await?;
        Ok(listed.into_iter().map(|it| (it.name, it.entry.end_of_file)).collect())
    }
}

fn options(how: How) -> OpenOptions {
    match how {
        How::Read => OpenOptions::read(),
        How::Write => OpenOptions::file(Disposition::Open),
        How::Make => OpenOptions::file(Disposition::OpenIf),
        How::New => OpenOptions {
            access: Access::FILE_GENERIC_WRITE,
            options: CreateOptions::NON_DIRECTORY_FILE,
            ..OpenOptions::file(Disposition::Create)
        },
        How::Anew => OpenOptions::file(Disposition::OverwriteIf),
    }
}
