//! SETATTR (RFC 8881 18.30).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::op::setattr::{Args, Res};
use share::{Basic, Info, Open, TimeSet};
use volume::Time;
use volume::security::Rights;

use super::io::{check_data, meant, through};
use super::names::with_open;
use crate::attributes::set::{Delegated, Wanted, When};
use crate::compound::{Done, Run, Stop};
use crate::config::Export;

/// Does it.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL, NFS4ERR_BADOWNER, NFS4ERR_PERM, NFS4ERR_ACCESS, NFS4ERR_ROFS; for the size as
/// WRITE.
pub fn run(run: &mut Run, args: &Args<'_>) -> Done {
    run.current()?;
    let mut set = Bitmap::EMPTY;
    let status = match apply(run, args, &mut set) {
        Ok(()) => NfsStat::Ok,
        Err(stop @ (Stop::Work | Stop::Hold)) => return Err(stop),
        Err(Stop::Fail(status) | Stop::Told(status)) => status,
    };
    run.writer.put(OpNum::SetAttr, &Res { status, attrsset: set });
    if status.is_ok() { Ok(()) } else { Err(Stop::Told(status)) }
}

fn apply(run: &mut Run, args: &Args<'_>, set: &mut Bitmap) -> Result<(), Stop> {
    let (export, item) = run.item(NfsStat::RoFs)?;
    let wanted = Wanted::read(&args.obj_attributes, run.minor, export.engine.config().accounts.as_ref())?;
    // RFC 8275 4.2: it is for what is made.
    if wanted.umask.is_some() {
        return Err(NfsStat::Inval.into());
    }
    run.check_writable(&export)?;
    if let Some(size) = wanted.size {
        check_data(item.kind()).map_err(|why| if why == NfsStat::Symlink { NfsStat::Inval } else { why })?;
        let to = through(run, &args.stateid, ShareAccess::WRITE)?;
        let done = run.ask(&export, |engine, caller| engine.set_size(caller, to.open(), size));
        to.end(run);
        done?;
        set.insert(AttrNum::Size.get());
    }
    if !wanted.delegated.is_empty() {
        keep(run, args, &export, wanted.delegated)?;
        for (number, time) in [
            (AttrNum::TimeDelegAccess, wanted.delegated.accessed),
            (AttrNum::TimeDelegModify, wanted.delegated.modified),
        ] {
            if time.is_some() {
                set.insert(number.get());
            }
        }
    }
    let rest = Wanted { size: None, delegated: Delegated::default(), ..wanted };
    if rest == (Wanted { mask: rest.mask, ..Wanted::default() }) {
        return Ok(());
    }
    let info = export.engine.item_info(&item)?;
    check_times(run, &export, &info, &rest)?;
    let for_times = if says_when(&rest) { Rights::WRITE_ATTRIBUTES } else { Rights::empty() };
    let for_list = if rest.list.is_some() { Rights::WRITE_DAC } else { Rights::empty() };
    let access = Rights::READ_ATTRIBUTES | for_times | for_list;
    let done = with_open(run, &export, &item, access, |open| apply_to(run, &export, open, &rest));
    if rest.list.is_some() {
        done.map_err(owners)?
    } else {
        done?
    }
    *set = set.or(&rest.mask);
    Ok(())
}

/// Takes in the times that a client has kept with its delegation, as far as they can be true.
///
/// # Errors
/// NFS4ERR_BAD_STATEID without such a delegation of the file, NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED.
// RFC 9754 5
fn keep(run: &mut Run, args: &Args<'_>, export: &Arc<Export>, kept: Delegated) -> Result<(), Stop> {
    let handle = run.handle()?;
    let id = meant(run, &args.stateid)?;
    let client = run.session()?.client.id;
    let server = Arc::clone(&run.server);
    let (state, _turn) = server.state_in_turn(client, &id)?;
    let before = state.delegation().and_then(|delegation| delegation.before());
    let before = before.filter(|_| state.handle == handle).ok_or(NfsStat::BadStateId)?;
    let (accessed, modified) =
        (before.accessed(kept.accessed, run.now), before.modified(kept.modified, run.now));
    if accessed.is_some() || modified.is_some() {
        let open = Arc::clone(&state.holding().open);
        run.tell(export, |engine, caller| engine.set_recorded_times(caller, &open, accessed, modified))?;
    }
    Ok(())
}

/// NFS4ERR_PERM for a caller who may not: only the owner may, unless a list says otherwise.
fn owners(stop: Stop) -> Stop {
    match stop {
        Stop::Fail(NfsStat::Access) => Stop::Fail(NfsStat::Perm),
        other => other,
    }
}

/// Whether a time is to be another one than that of the server.
fn says_when(wanted: &Wanted) -> bool {
    [wanted.accessed, wanted.modified].iter().any(|when| matches!(when, Some(When::At(_))))
}

/// Only its owner says at which time a file was used; whoever may write it may say that it is now.
fn check_times(run: &Run, export: &Arc<Export>, info: &Info, wanted: &Wanted) -> Result<(), NfsStat> {
    let identity = run.identity(export);
    if says_when(wanted) && identity.uid != info.uid && !identity.unbound {
        return Err(NfsStat::Perm);
    }
    Ok(())
}

/// Sets everything through an open that has the right to; for the size one of a file's data.
///
/// # Errors
/// As the engine says; NFS4ERR_PERM where only the owner may.
pub fn apply_to(run: &Run, export: &Arc<Export>, open: &Arc<Open>, wanted: &Wanted) -> Result<(), Stop> {
    if let Some(size) = wanted.size {
        run.ask(export, |engine, caller| engine.set_size(caller, open, size))?;
    }
    if wanted.uid.is_some() || wanted.gid.is_some() {
        run.ask(export, |engine, caller| engine.set_owner(caller, open, wanted.uid, wanted.gid))
            .map_err(owners)?;
    }
    if let Some(mode) = wanted.mode {
        run.ask(export, |engine, caller| engine.set_mode(caller, open, mode)).map_err(owners)?;
    }
    // RFC 8881 6.4.1.3: the mode comes first.
    if let Some(list) = &wanted.list {
        let now = export.engine.descriptor(open)?;
        let accounts = Arc::clone(&export.engine.config().accounts);
        let (given, parts) = list.descriptor(&now, open.is_directory(), accounts.as_ref())?;
        run.ask(export, |engine, caller| engine.set_descriptor(caller, open, parts, &given))
            .map_err(owners)?;
    }
    let (accessed, modified) = (wanted.accessed, wanted.modified);
    if accessed.is_some() || modified.is_some() {
        let time = |when: Option<When>| {
            when.map(|when| match when {
                When::At(time) => time,
                When::Now => Time::from_wall_ns(run.now.wall_ns),
            })
        };
        let (accessed, modified) = (time(accessed), time(modified));
        if says_when(wanted) {
            let (accessed, modified) = (accessed.map(TimeSet::Set), modified.map(TimeSet::Set));
            let basic = Basic { accessed, modified, ..Basic::default() };
            run.ask(export, |engine, caller| engine.set_basic(caller, open, basic))?;
        } else {
            run.ask(export, |engine, caller| engine.touch(caller, open, accessed, modified))?;
        }
    }
    Ok(())
}
