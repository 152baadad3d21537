//! A tree of files, wherever it is, with just the operations that a copy needs. Paths count from where the copy begins,
//! their parts divided by `/`; nothing is that place itself.
//!
//! Whatever is written gets a name of its own first and its final name when it is whole: [`Tree::put`] for what fits one
//! piece, [`Tree::create`] and [`Tree::finish`] for the rest, or else its directory does ([`Tree::unnamed`]).

pub(crate) mod carried;
pub(crate) mod facts;
mod holes;
pub(crate) mod inside;
pub(crate) mod like;
pub(crate) mod links;
mod local;
mod nfs;
mod smb;

use bytes::Bytes;
use client::remote::{Attributes, Entry};
use client::{ChannelStatus, Scheme, Url};
use tokio::task::JoinHandle;

use crate::Keep;
use crate::beside::{Beside, Given};
use crate::error::{Done, Error, Fault};
use crate::plan::Access;
use crate::tree::carried::Carried;
use crate::tree::facts::{Fetched, Listing, Spot};
use crate::tree::like::Like;

/// One side of a copy.
#[derive(Debug)]
pub(crate) enum Tree {
    Local(local::Local),
    Smb(Box<smb::Smb>),
    Nfs(nfs::Nfs),
}

/// A file that is open.
#[derive(Debug)]
pub(crate) enum File {
    Local(local::File),
    Smb(smb::File),
    Nfs(nfs::File),
}

/// Calls the same method of whichever side it is.
macro_rules! of_side {
    ($type:ident, $self:expr, $side:ident => $call:expr) => {
        match $self {
            $type::Local($side) => $call,
            $type::Smb($side) => $call,
            $type::Nfs($side) => $call,
        }
    };
}

impl Tree {
    /// Goes to `url`, over one connection when that is a server.
    pub(crate) async fn open(url: &Url, access: &Access) -> Result<Tree, Error> {
        Tree::open_for(url, access, None).await
    }

    /// As [`Tree::open`]. What [`Tree::split`] opens is begun at the same time as soon as `is_many` says that many small
    /// files are going to be copied.
    pub(crate) async fn open_for(
        url: &Url,
        access: &Access,
        is_many: Option<JoinHandle<bool>>,
    ) -> Result<Tree, Error> {
        Ok(match url.scheme {
            Scheme::Local | Scheme::Null => Tree::Local(local::Local::new(url.path.as_ref())),
            Scheme::Smb => Tree::Smb(Box::new(smb::Smb::open(url, access, is_many).await?)),
            Scheme::Nfs => Tree::Nfs(nfs::Nfs::open(url, access).await?),
        })
    }

    /// Whether names are those of a share, where some characters mean something and case does not count.
    pub(crate) fn is_share(&self) -> bool {
        matches!(self, Tree::Smb(_))
    }

    /// Makes the directory above the place where the copy begins its beginning, and answers the name of that.
    pub(crate) fn step_up(&mut self) -> Done<String> {
        let none = || Fault::Said("it has no name of its own".to_owned());
        of_side!(Tree, self, side => side.step_up()).ok_or_else(none)
    }

    /// What is known of `path`, if it is there.
    pub(crate) async fn stat(&self, path: &str) -> Done<Option<Attributes>> {
        let known = of_side!(Tree, self, side => side.stat(path).await);
        match known {
            Ok(facts) => Ok(Some(facts)),
            Err(fault) if fault.is_missing() => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// What the directory `path` holds.
    pub(crate) async fn list(&self, path: &str) -> Done<Listing> {
        let mut listing = Listing::default();
        for Entry { name, attributes } in of_side!(Tree, self, side => side.list(path).await)? {
            listing.add(&name, attributes);
        }
        Ok(listing)
    }

    /// Makes the directory `path`, which will be made as `like` says. False when it was there, which is as good.
    pub(crate) async fn make_directory(&self, path: &str, like: &Like) -> Done<bool> {
        match of_side!(Tree, self, side => side.make_directory(path, like).await) {
            Err(fault) if fault.is_taken() => Ok(false),
            made => made.map(|()| true),
        }
    }

    /// Makes the directory in which the copy begins, and those above it that are missing.
    pub(crate) async fn make_root(&self) -> Done<()> {
        of_side!(Tree, self, side => side.make_root().await)
    }

    /// The path that the directory `path` has until it gets its name, where that makes small files in it quicker. What is
    /// beside the place where the copy begins begins with `../`.
    pub(crate) fn unnamed(&self, path: &str) -> Option<String> {
        match self {
            Tree::Smb(side) => side.unnamed(path),
            Tree::Local(_) | Tree::Nfs(_) => None,
        }
    }

    /// Makes what is missing above the place where the copy begins.
    pub(crate) async fn make_above_root(&self) -> Done<()> {
        match self {
            Tree::Smb(side) => side.make_above_root().await,
            Tree::Local(_) | Tree::Nfs(_) => Err(Fault::all_named()),
        }
    }

    /// Gives the directory at `path` the path `new_path`, which nothing may have, and makes it as `like` says. False when
    /// only the former was done.
    pub(crate) async fn rename_directory(&self, path: &str, new_path: &str, like: &Like) -> Done<bool> {
        match self {
            Tree::Smb(side) => side.rename_directory(path, new_path, like).await,
            Tree::Local(_) | Tree::Nfs(_) => Err(Fault::all_named()),
        }
    }

    /// Gives the file `path` the path `new_path`, in the place of another there may be.
    pub(crate) async fn replace(&self, path: &str, new_path: &str) -> Done<()> {
        match self {
            Tree::Smb(side) => side.replace(path, new_path).await,
            Tree::Local(_) | Tree::Nfs(_) => Err(Fault::all_named()),
        }
    }

    /// Makes the directory `path` as `like` says.
    pub(crate) async fn settle_directory(&self, path: &str, like: &Like) -> Done<()> {
        of_side!(Tree, self, side => side.settle_directory(path, like).await)
    }

    /// Takes a file away.
    pub(crate) async fn remove(&self, path: &str) -> Done<()> {
        of_side!(Tree, self, side => side.remove(path).await)
    }

    /// Takes an empty directory away.
    pub(crate) async fn remove_directory(&self, path: &str) -> Done<()> {
        of_side!(Tree, self, side => side.remove_directory(path).await)
    }

    /// The whole of a file that has `size` bytes. One that has grown brings a byte more.
    pub(crate) async fn fetch(&self, path: &str, size: u64) -> Done<Fetched> {
        of_side!(Tree, self, side => side.fetch(path, size as u32 + 1).await)
    }

    /// Makes the file `path` of `content`, by way of `part` beside it, as `like` says.
    pub(crate) async fn put(
        &self,
        path: &str,
        part: &str,
        content: &Bytes,
        like: &Like,
        spot: Spot,
    ) -> Done<()> {
        if let Tree::Smb(side) = self {
            let is_done = match spot {
                Spot::Taken => false,
                Spot::Free => side.put_new(path, Some(part), content, like).await?,
                Spot::Unseen => side.put_new(path, None, content, like).await?,
            };
            if is_done {
                return Ok(());
            }
        }
        of_side!(Tree, self, side => side.put(path, part, content, like).await)
    }

    /// Opens a file to be read.
    pub(crate) async fn open_file(&self, path: &str) -> Done<File> {
        Ok(match self {
            Tree::Local(side) => File::Local(side.open_file(path).await?),
            Tree::Smb(side) => File::Smb(side.open_file(path).await?),
            Tree::Nfs(side) => File::Nfs(side.open_file(path).await?),
        })
    }

    /// Opens `part` to be written, as it is or empty. It will be made as `like` says.
    pub(crate) async fn create(&self, part: &str, as_it_is: bool, like: &Like) -> Done<File> {
        Ok(match self {
            Tree::Local(side) => File::Local(side.create(part, as_it_is, like).await?),
            Tree::Smb(side) => File::Smb(side.create(part, as_it_is).await?),
            Tree::Nfs(side) => File::Nfs(side.create(part, as_it_is, like).await?),
        })
    }

    /// Makes the open file `part` as `like` says, and gives it the name `path`.
    pub(crate) async fn finish(&self, file: File, part: &str, path: &str, like: &Like) -> Done<()> {
        match (self, file) {
            (Tree::Local(side), File::Local(file)) => side.finish(file, part, path, like).await,
            (Tree::Smb(side), File::Smb(file)) => side.finish(file, part, path, like).await,
            (Tree::Nfs(side), File::Nfs(file)) => side.finish(file, part, path, like).await,
            _ => Err(Fault::Said("a file of the other side".to_owned())),
        }
    }

    /// What the directory `path` has beside what is in it.
    pub(crate) async fn beside(&self, path: &str, keep: &Keep) -> Done<Beside> {
        of_side!(Tree, self, side => side.beside(path, keep).await)
    }

    /// Gives that to the directory `path`.
    pub(crate) async fn set_beside(&self, path: &str, found: &Beside, keep: &Keep) -> Done<Given> {
        of_side!(Tree, self, side => side.set_beside(path, found, keep).await)
    }

    /// Opens the named stream `name` of a file or directory to be read.
    pub(crate) async fn open_stream(&self, path: &str, name: &str) -> Done<File> {
        match self {
            Tree::Smb(side) => Ok(File::Smb(side.open_stream(path, name).await?)),
            Tree::Local(_) | Tree::Nfs(_) => Err(Fault::no_streams()),
        }
    }

    /// Makes the named stream `name` of a file or directory, empty.
    pub(crate) async fn create_stream(&self, path: &str, name: &str) -> Done<File> {
        match self {
            Tree::Smb(side) => Ok(File::Smb(side.create_stream(path, name).await?)),
            Tree::Local(_) | Tree::Nfs(_) => Err(Fault::no_streams()),
        }
    }

    /// Tries to reach a server again that may be gone.
    pub(crate) async fn revive(&self) -> Done<()> {
        match self {
            Tree::Smb(side) => side.revive().await,
            // An NFS client does so by itself, as long as it has patience.
            Tree::Local(_) | Tree::Nfs(_) => Ok(()),
        }
    }

    /// Whether no connection to the server is left.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Tree::Local(_) => false,
            Tree::Smb(side) => side.is_lost(),
            Tree::Nfs(side) => side.is_lost(),
        }
    }

    /// The most bytes of one READ or WRITE.
    pub(crate) fn max_io(&self) -> u32 {
        of_side!(Tree, self, side => side.max_io())
    }

    /// Opens connections to the server until there are so many, or it wants no more. Answers how many there are; none is
    /// needed for this host.
    pub(crate) async fn widen(&self, channels: usize) -> usize {
        match self {
            Tree::Local(_) => 0,
            Tree::Smb(side) => side.widen(channels).await,
            Tree::Nfs(side) => side.widen(channels).await,
        }
    }

    /// Opens what makes many small files quicker, where there is such a thing.
    pub(crate) async fn split(&self) {
        match self {
            Tree::Smb(side) => side.split().await,
            // One NFS session is as good as several.
            Tree::Local(_) | Tree::Nfs(_) => {}
        }
    }

    /// Gives up connections until there are so many.
    pub(crate) fn narrow(&self, channels: usize) {
        match self {
            Tree::Local(_) => {}
            Tree::Smb(side) => side.narrow(channels),
            Tree::Nfs(side) => side.narrow(channels),
        }
    }

    /// The connections to the server, and what they have carried.
    pub(crate) fn channels(&self) -> Vec<ChannelStatus> {
        match self {
            Tree::Local(_) => Vec::new(),
            Tree::Smb(side) => side.channels(),
            Tree::Nfs(side) => side.channels(),
        }
    }

    /// What the connections to the server have carried.
    pub(crate) fn carried(&self) -> Carried {
        Carried::by(&self.channels())
    }

    /// Leaves the server.
    pub(crate) async fn close(&self) {
        match self {
            // All that was opened is closed, and a session ends with its last connection: saying so would only take time.
            Tree::Local(_) | Tree::Smb(_) => {}
            Tree::Nfs(side) => side.close().await,
        }
    }
}

impl File {
    /// Up to `length` bytes at `offset`; fewer only at the end.
    pub(crate) async fn read(&self, offset: u64, length: u32) -> Done<Bytes> {
        of_side!(File, self, file => file.read(offset, length).await)
    }

    /// Writes all of `data` at `offset`.
    pub(crate) async fn write(&self, offset: u64, data: &Bytes) -> Done<()> {
        let mut rest = data.clone();
        let mut at = offset;
        while !rest.is_empty() {
            let count = of_side!(File, self, file => file.write(at, &rest).await)?;
            if count == 0 {
                return Err(Fault::Said("a write wrote nothing and succeeded".to_owned()));
            }
            rest = rest.slice(count as usize..);
            at += u64::from(count);
        }
        Ok(())
    }

    /// The first byte at or behind `offset` that is not in a hole, as far as that can be known. A server is asked for many
    /// pieces of `piece` bytes at once, so offsets should be whole pieces apart.
    pub(crate) async fn data_from(&self, offset: u64, piece: u64) -> Done<u64> {
        match self {
            File::Local(file) => file.data_from(offset).await,
            File::Smb(file) => file.data_from(offset).await,
            File::Nfs(file) => file.data_from(offset, piece).await,
        }
    }

    /// Has holes kept, and answers whether what is not written can be left out.
    pub(crate) async fn keeps_holes(&self) -> Done<bool> {
        match self {
            File::Smb(file) => file.keeps_holes().await,
            // Neither has to be asked for it: what is not written reads as zeros.
            File::Local(_) | File::Nfs(_) => Ok(true),
        }
    }

    /// What was known of it when it was opened.
    pub(crate) async fn opened(&self) -> Done<Attributes> {
        match self {
            File::Smb(file) => Ok(file.opened()),
            // The one has no need to ask a server, and the other has not been told.
            File::Local(_) | File::Nfs(_) => self.facts().await,
        }
    }

    /// What is known of it now.
    pub(crate) async fn facts(&self) -> Done<Attributes> {
        of_side!(File, self, file => file.facts().await)
    }

    /// What it has beside its data.
    pub(crate) async fn beside(&self, keep: &Keep) -> Done<Beside> {
        of_side!(File, self, file => file.beside(keep).await)
    }

    /// Gives that to it.
    pub(crate) async fn set_beside(&self, found: &Beside, keep: &Keep) -> Done<Given> {
        of_side!(File, self, file => file.set_beside(found, keep).await)
    }

    pub(crate) async fn set_length(&self, length: u64) -> Done<()> {
        of_side!(File, self, file => file.set_length(length).await)
    }

    /// Whether what was written may be lost until [`File::settle_data`] has made sure of it.
    pub(crate) fn may_lose(&self) -> bool {
        // RFC 8881 18.32.3
        matches!(self, File::Nfs(_))
    }

    /// Makes sure of what was written as far as the protocol asks for it; with `sync` waits for the store.
    pub(crate) async fn settle_data(&self, sync: bool) -> Done<()> {
        match self {
            File::Local(file) if sync => file.sync().await,
            File::Smb(file) if sync => file.sync().await,
            File::Nfs(file) => file.commit().await,
            File::Local(_) | File::Smb(_) => Ok(()),
        }
    }

    pub(crate) async fn close(self) -> Done<()> {
        match self {
            File::Local(_) => Ok(()),
            File::Smb(file) => file.close().await,
            File::Nfs(file) => file.close().await,
        }
    }
}
