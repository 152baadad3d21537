//! READDIR (RFC 8881 18.23).
//!
//! The size and the times of a file are unknown while another client has a write delegation of it (RFC 8881
//! 10.4.3). The delegation is recalled. The entry gets the error in place of its attributes if the client has
//! asked for rdattr_error (5.8.1.12), as every client does that can continue without them. For other clients
//! the listing ends before the entry, and a listing that begins with it fails with NFS4ERR_DELAY. Linux'
//! knfsd does the same, but fails the whole listing then.
//!
//! A directory may be listed by the host but otherwise unusable, because the process behind a mount on it is
//! gone. It too becomes an entry with an error, or without attributes if the client has not asked for
//! rdattr_error.
//!
//! A file may have no filehandle, for example on a file system below the export whose files the host finds by
//! name alone. It becomes the same kind of entry. A client that has not asked for rdattr_error gets all
//! attributes but the filehandle.

use std::ops::ControlFlow;
use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, AttrWriter, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::readdir::{Args, EntriesWriter};
use volume::NodeKind;
use volume::security::Rights;

use super::getattr::recall_writers;
use super::names::with_open;
use crate::attributes::{self, AttributeSource, Subject};
use crate::compound::current::{handle_at, handle_of};
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;
use crate::server::Server;
use crate::state::filehandle::Handle;
use share::AuditedOperation;

/// Cookies depend on nothing that the server could forget.
const VERIFIER: [u8; 8] = [0; 8];
/// The protocol reserves smaller cookies.
const FIRST_COOKIE: u64 = 3;

/// Lists a directory.
///
/// # Errors
/// NFS4ERR_NOTDIR, NFS4ERR_TOOSMALL, NFS4ERR_BAD_COOKIE, NFS4ERR_NOT_SAME, NFS4ERR_ACCESS.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    run.current()?;
    if args.cookie == 1 || args.cookie == 2 {
        return Err(NfsStat::BadCookie.into());
    }
    if args.cookie != 0 && args.cookieverf != VERIFIER {
        return Err(NfsStat::NotSame.into());
    }
    if attributes::names_write_only(&args.attr_request, run.minor) {
        return Err(NfsStat::Inval.into());
    }
    let wanted = attributes::readable(&args.attr_request, run.minor);
    let found = run.current_item()?;
    let (server, minor) = (Arc::clone(&run.server), run.minor);
    let max = (args.maxcount as usize).min(room_left(run));
    run.writer.begin_result(OpNum::ReadDir, NfsStat::Ok);
    let mut reply = DetachedReply::of(run);
    let DetachedReply { run, out } = &mut reply;
    let mut list = DirectoryListing { server: &server, minor, wanted, args, out, max };
    match found {
        None => list.exports(run),
        Some((_, item)) if item.kind() != NodeKind::Directory => Err(NfsStat::NotDir.into()),
        Some((export, item)) => {
            let access = Rights::LIST_DIRECTORY;
            with_open(run, &export, &item, AuditedOperation::List, access, |open| {
                list.entries(run, &export, open)
            })
        }
    }
}

/// The bytes of the reply, apart from the rest of the COMPOUND. Entries are written into them directly while
/// the rest of the COMPOUND stays usable. They are put back on drop. If the operation fails, the COMPOUND
/// drops the written entries.
struct DetachedReply<'a> {
    run: &'a mut Run,
    out: Vec<u8>,
}

impl<'a> DetachedReply<'a> {
    fn of(run: &'a mut Run) -> DetachedReply<'a> {
        let out = std::mem::take(run.writer.tail());
        DetachedReply { run, out }
    }
}

impl Drop for DetachedReply<'_> {
    fn drop(&mut self) {
        *self.run.writer.tail() = std::mem::take(&mut self.out);
    }
}

/// The bytes that the session leaves for the listing.
fn room_left(run: &Run) -> usize {
    let most = run.session.as_ref().map_or(0, |session| session.fore.maxresponsesize as usize);
    most.saturating_sub(run.writer.len() + 16)
}

/// A listing in progress.
struct DirectoryListing<'a> {
    server: &'a Server,
    minor: u32,
    wanted: Bitmap,
    args: &'a Args,
    out: &'a mut Vec<u8>,
    max: usize,
}

impl DirectoryListing<'_> {
    /// Lists the exports that the client may use.
    fn exports(&mut self, run: &Run) -> OpResult {
        let mut writer = EntriesWriter::begin(self.out, VERIFIER, self.max).ok_or(NfsStat::TooSmall)?;
        let exports = self.server.exports();
        let mut is_whole = true;
        for (at, export) in exports.list().iter().enumerate() {
            let cookie = at as u64 + FIRST_COOKIE;
            if cookie <= self.args.cookie || !run.credentials.may_use(export) {
                continue;
            }
            let root = export.engine.root_item();
            let (server, wanted) = (self.server, self.wanted);
            let listed =
                ListedEntry { cookie, name: export.name.as_bytes(), server, minor: self.minor, wanted };
            let handle = wanted.has(AttrNum::Filehandle.get()).then(|| handle_of(server, export, &root));
            let source = attributes::of_item(export, &root, &wanted);
            if !listed.write(&mut writer, handle, source)? {
                is_whole = false;
                break;
            }
        }
        if !is_whole && writer.count() == 0 {
            return Err(NfsStat::TooSmall.into());
        }
        writer.finish(is_whole);
        Ok(())
    }

    /// Lists a directory.
    fn entries(&mut self, run: &Run, export: &Arc<Export>, open: &Arc<share::Open>) -> OpResult {
        let identity = run.identity(export);
        let client = run.session()?.client.key;
        let caller = share::Caller {
            identity: &identity,
            client,
            waiter: None,
            now: run.now,
            origin: None,
            details: None,
        };
        let mut writer = EntriesWriter::begin(self.out, VERIFIER, self.max).ok_or(NfsStat::TooSmall)?;
        let mut is_whole = true;
        let mut failed = Ok(());
        let (server, minor, wanted) = (self.server, self.minor, self.wanted);
        export.engine.scan(&caller, open, self.args.cookie, &mut |_| true, &mut |found| {
            let (cookie, name) = (found.cookie(), found.name().as_bytes());
            let listed = ListedEntry { cookie, name, server, minor, wanted };
            let (inode, kind) = (found.inode(), found.kind());
            // For the names alone, the objects are not looked at.
            if attributes::is_in_directory(&wanted, kind) {
                let put = |out: &mut AttrWriter<'_>| attributes::write_in_directory(out, inode, kind);
                is_whole = writer.entry(cookie, name, wanted, put);
                return if is_whole { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            }
            let handle = wanted.has(AttrNum::Filehandle.get());
            let handle = handle.then(|| found.with_address(|address| handle_at(server, export, address)));
            let handle = handle.map(|made| made.unwrap_or_else(|why| Err(crate::status::of(&why))));
            let (id, is_open) = match found.id().and_then(|id| Ok((id, found.is_open()?))) {
                Ok(told) => told,
                Err(why) if found.listed_info().is_some() => {
                    is_whole = listed.write_failed(&mut writer, crate::status::of(&why));
                    return if is_whole { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
                }
                // An object that has vanished since is left out.
                Err(_) => return ControlFlow::Continue(()),
            };
            let recalled = if is_open { recall_writers(run, export, id, &wanted) } else { Ok(()) };
            let may_tell = recalled.map_err(|stop| match stop {
                Stop::Fail(status) => status,
                _ => NfsStat::Delay,
            });
            let source = may_tell.and_then(|()| {
                attributes::from_info(export, found.item_info(), || found.item(), Some(inode), &wanted)
            });
            match listed.write(&mut writer, handle, source) {
                Ok(fits) => is_whole = fits,
                // This reply holds the entries before it. The next request begins with it.
                Err(NfsStat::Delay) if writer.count() > 0 => is_whole = false,
                Err(why) => failed = Err(why),
            }
            if is_whole && failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        failed?;
        if !is_whole && writer.count() == 0 {
            return Err(NfsStat::TooSmall.into());
        }
        writer.finish(is_whole);
        Ok(())
    }
}

/// An entry, and the attributes that were asked for.
struct ListedEntry<'a> {
    cookie: u64,
    name: &'a [u8],
    server: &'a Server,
    minor: u32,
    wanted: Bitmap,
}

impl ListedEntry<'_> {
    /// Writes the entry, with its filehandle if that was asked for. Returns false if it does not fit.
    ///
    /// # Errors
    /// The error of the attributes, if the client has not asked for errors of single entries.
    fn write(
        &self,
        writer: &mut EntriesWriter<'_>,
        handle: Option<Result<Handle, NfsStat>>,
        source: Result<AttributeSource<'_>, NfsStat>,
    ) -> Result<bool, NfsStat> {
        let error = AttrNum::RdattrError.get();
        let mut told = self.wanted;
        let (handle, source) = match (source, handle.transpose()) {
            (Ok(source), Ok(handle)) => (handle, Ok(source)),
            (Ok(source), Err(NfsStat::NotSupp)) if !self.wanted.has(error) => {
                told.remove(AttrNum::Filehandle.get());
                (None, Ok(source))
            }
            (Ok(_), Err(why)) | (Err(why), _) => (None, Err(why)),
        };
        match source {
            Ok(source) => Ok(writer.entry(self.cookie, self.name, told, |attributes| {
                let (server, minor) = (self.server, self.minor);
                let subject = Subject { server, minor, handle: handle.as_ref(), source };
                attributes::write(attributes, &subject);
            })),
            // An object that has vanished since has no attributes, and is left out the next time.
            Err(why) if self.wanted.has(error) || matches!(why, NfsStat::Stale | NfsStat::NoEnt) => {
                Ok(self.write_failed(writer, why))
            }
            Err(why) => Err(why),
        }
    }

    /// Writes an entry whose attributes are not available. The error takes their place if the client has
    /// asked for that. Returns false if the entry does not fit.
    // RFC 8881 18.23.3
    fn write_failed(&self, writer: &mut EntriesWriter<'_>, why: NfsStat) -> bool {
        let error = AttrNum::RdattrError.get();
        let told = if self.wanted.has(error) { Bitmap::of(&[error]) } else { Bitmap::EMPTY };
        writer.entry(self.cookie, self.name, told, |attributes| {
            if !told.is_empty() {
                attributes.put(&Attr::RdattrError(why));
            }
        })
    }
}
