//! READDIR (RFC 8881 18.23).
//!
//! Of a file on which another client has a delegation to write, size and times are not known until that is given back (RFC
//! 8881 10.4.3). It is recalled, and the error stands for the attributes of that one entry where the client has asked for
//! rdattr_error (5.8.1.12), as every client does that can go on without. For any other the list ends before the entry,
//! and one that begins with it is NFS4ERR_DELAY. Linux' knfsd does the same, but gives up the whole list then.
//!
//! A directory that the host only lists, since the process behind what is mounted there is gone, is an entry with an error, too, or with no
//! attributes for who has not asked for that.
//!
//! A file without a filehandle, as on a file system below the export whose files the host finds by their names alone, is the same kind of
//! entry. A client that has not asked for rdattr_error is told all of it but the filehandle.

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
use crate::attributes::{self, Subject, What};
use crate::compound::current::{handle_at, handle_of};
use crate::compound::{Done, Run, Stop};
use crate::config::Export;
use crate::server::Server;
use crate::state::filehandle::Handle;

/// Cookies do not depend on anything that the server could forget.
const VERIFIER: [u8; 8] = [0; 8];
/// Cookies below this are the protocol's own.
const FIRST_COOKIE: u64 = 3;

/// Does it.
///
/// # Errors
/// NFS4ERR_NOTDIR, NFS4ERR_TOOSMALL, NFS4ERR_BAD_COOKIE, NFS4ERR_NOT_SAME, NFS4ERR_ACCESS.
pub fn run(run: &mut Run, args: &Args) -> Done {
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
    let found = run.found()?;
    let (server, minor) = (Arc::clone(&run.server), run.minor);
    let max = (args.maxcount as usize).min(room_left(run));
    run.writer.begin_result(OpNum::ReadDir, NfsStat::Ok);
    let mut reply = Reply::of(run);
    let Reply { run, out } = &mut reply;
    let mut list = List { server: &server, minor, wanted, args, out, max };
    match found {
        None => list.exports(run),
        Some((_, item)) if item.kind() != NodeKind::Directory => Err(NfsStat::NotDir.into()),
        Some((export, item)) => {
            let access = Rights::LIST_DIRECTORY;
            with_open(run, &export, &item, access, |open| list.entries(run, &export, open))
        }
    }
}

/// The reply's bytes apart from the rest of the COMPOUND, so that entries are written straight into it while the rest is asked. They
/// are put back when it is dropped; a COMPOUND takes back what an operation that failed has written.
struct Reply<'a> {
    run: &'a mut Run,
    out: Vec<u8>,
}

impl<'a> Reply<'a> {
    fn of(run: &'a mut Run) -> Reply<'a> {
        let out = std::mem::take(run.writer.tail());
        Reply { run, out }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        *self.run.writer.tail() = std::mem::take(&mut self.out);
    }
}

/// What the session leaves for the list.
fn room_left(run: &Run) -> usize {
    let most = run.session.as_ref().map_or(0, |session| session.fore.maxresponsesize as usize);
    most.saturating_sub(run.writer.len() + 16)
}

/// A list under way.
struct List<'a> {
    server: &'a Server,
    minor: u32,
    wanted: Bitmap,
    args: &'a Args,
    out: &'a mut Vec<u8>,
    max: usize,
}

impl List<'_> {
    /// Lists the exports that the client may use.
    fn exports(&mut self, run: &Run) -> Done {
        let mut writer = EntriesWriter::begin(self.out, VERIFIER, self.max).ok_or(NfsStat::TooSmall)?;
        let exports = self.server.exports();
        let mut is_whole = true;
        for (at, export) in exports.list().iter().enumerate() {
            let cookie = at as u64 + FIRST_COOKIE;
            if cookie <= self.args.cookie || !run.who.may_use(export) {
                continue;
            }
            let root = export.engine.root_item();
            let (server, wanted) = (self.server, self.wanted);
            let listed = Listed { cookie, name: export.name.as_bytes(), server, minor: self.minor, wanted };
            let handle = wanted.has(AttrNum::Filehandle.get()).then(|| handle_of(server, export, &root));
            let what = attributes::of_item(export, &root, &wanted);
            if !listed.write(&mut writer, handle, what)? {
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
    fn entries(&mut self, run: &Run, export: &Arc<Export>, open: &Arc<share::Open>) -> Done {
        let identity = run.identity(export);
        let client = run.session()?.client.key;
        let caller = share::Caller { identity: &identity, client, waiter: None, now: run.now, origin: None };
        let mut writer = EntriesWriter::begin(self.out, VERIFIER, self.max).ok_or(NfsStat::TooSmall)?;
        let mut is_whole = true;
        let mut failed = Ok(());
        let (server, minor, wanted) = (self.server, self.minor, self.wanted);
        export.engine.scan(&caller, open, self.args.cookie, &mut |_| true, &mut |found| {
            let (cookie, name) = (found.cookie(), found.name().as_bytes());
            let listed = Listed { cookie, name, server, minor, wanted };
            let (inode, kind) = (found.inode(), found.kind());
            // Who wants names alone is told them without a look at what they lead to.
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
                // What has vanished since is not shown.
                Err(_) => return ControlFlow::Continue(()),
            };
            let recalled = if is_open { recall_writers(run, export, id, &wanted) } else { Ok(()) };
            let may_tell = recalled.map_err(|stop| match stop {
                Stop::Fail(status) => status,
                _ => NfsStat::Delay,
            });
            let what = may_tell.and_then(|()| {
                attributes::of_known(export, found.item_info(), || found.item(), Some(inode), &wanted)
            });
            match listed.write(&mut writer, handle, what) {
                Ok(fits) => is_whole = fits,
                // What comes before it is told now; the next call begins with it.
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

/// An entry that is listed, and what is wanted of it.
struct Listed<'a> {
    cookie: u64,
    name: &'a [u8],
    server: &'a Server,
    minor: u32,
    wanted: Bitmap,
}

impl Listed<'_> {
    /// Writes it, with its filehandle if that is wanted; false when it does not fit.
    ///
    /// # Errors
    /// What became of attributes that the client wants without wanting to know that of each entry.
    fn write(
        &self,
        writer: &mut EntriesWriter<'_>,
        handle: Option<Result<Handle, NfsStat>>,
        what: Result<What<'_>, NfsStat>,
    ) -> Result<bool, NfsStat> {
        let error = AttrNum::RdattrError.get();
        let mut told = self.wanted;
        let (handle, what) = match (what, handle.transpose()) {
            (Ok(what), Ok(handle)) => (handle, Ok(what)),
            (Ok(what), Err(NfsStat::NotSupp)) if !self.wanted.has(error) => {
                told.remove(AttrNum::Filehandle.get());
                (None, Ok(what))
            }
            (Ok(_), Err(why)) | (Err(why), _) => (None, Err(why)),
        };
        match what {
            Ok(what) => Ok(writer.entry(self.cookie, self.name, told, |attributes| {
                let (server, minor) = (self.server, self.minor);
                let subject = Subject { server, minor, handle: handle.as_ref(), what };
                attributes::write(attributes, &subject);
            })),
            // An entry that has vanished since has no attributes, and is not shown the next time.
            Err(why) if self.wanted.has(error) || matches!(why, NfsStat::Stale | NfsStat::NoEnt) => {
                Ok(self.write_failed(writer, why))
            }
            Err(why) => Err(why),
        }
    }

    /// Writes it where its attributes cannot be told; false when it does not fit. Where the client has asked for it, the error
    /// stands for them.
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
