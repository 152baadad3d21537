//! SETATTR (RFC 8881 18.30).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::op::setattr::{Args, Res};
use share::{AuditedOperation, Basic, Info, Open, TimeSet};
use volume::Time;
use volume::security::Rights;

use super::account_names;
use super::io::{check_data, io_open, resolve_stateid};
use super::names::with_open;
use crate::attributes::set::{DelegatedTimes, SetAttributes, TimeToSet};
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;

/// Sets attributes.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL, NFS4ERR_BADOWNER, NFS4ERR_PERM, NFS4ERR_ACCESS, NFS4ERR_ROFS; for the
/// size the errors of WRITE.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    run.current()?;
    let mut set = Bitmap::EMPTY;
    let status = match apply(run, args, &mut set) {
        Ok(()) => NfsStat::Ok,
        Err(stop @ (Stop::Work | Stop::Hold)) => return Err(stop),
        Err(Stop::Fail(status) | Stop::Written(status)) => status,
    };
    run.writer.put(OpNum::SetAttr, &Res { status, attrsset: set });
    if status.is_ok() { Ok(()) } else { Err(Stop::Written(status)) }
}

fn apply(run: &mut Run, args: &Args<'_>, set: &mut Bitmap) -> Result<(), Stop> {
    let (export, item) = run.item(NfsStat::RoFs)?;
    let wanted = account_names::read(run, &export, &args.obj_attributes)?;
    // RFC 8275 4.2: it is for new objects only.
    if wanted.umask.is_some() {
        return Err(NfsStat::Inval.into());
    }
    run.check_writable(&export)?;
    if let Some(size) = wanted.size {
        check_data(item.kind()).map_err(|why| if why == NfsStat::Symlink { NfsStat::Inval } else { why })?;
        let to = io_open(run, &args.stateid, ShareAccess::WRITE)?;
        let done = run.ask(&export, |engine, caller| engine.set_size(caller, to.open(), size));
        to.end(run);
        done?;
        set.insert(AttrNum::Size.get());
    }
    if !wanted.delegated.is_empty() {
        take_delegated_times(run, args, &export, wanted.delegated)?;
        for (number, time) in [
            (AttrNum::TimeDelegAccess, wanted.delegated.accessed),
            (AttrNum::TimeDelegModify, wanted.delegated.modified),
        ] {
            if time.is_some() {
                set.insert(number.get());
            }
        }
    }
    let rest = SetAttributes { size: None, delegated: DelegatedTimes::default(), ..wanted };
    if rest == (SetAttributes { mask: rest.mask, ..SetAttributes::default() }) {
        return Ok(());
    }
    let info = export.engine.item_info(&item)?;
    check_times(run, &export, &info, &rest)?;
    let for_times = if says_when(&rest) { Rights::WRITE_ATTRIBUTES } else { Rights::empty() };
    let for_list = if rest.list.is_some() { Rights::WRITE_DAC } else { Rights::empty() };
    let access = Rights::READ_ATTRIBUTES | for_times | for_list;
    let done = with_open(run, &export, &item, operation_of(&rest), access, |open| {
        apply_to(run, &export, open, &rest)
    });
    if rest.list.is_some() {
        done.map_err(owner_only)?
    } else {
        done?
    }
    *set = set.or(&rest.mask);
    Ok(())
}

/// The first of the changes, for the audit.
fn operation_of(wanted: &SetAttributes) -> AuditedOperation {
    if wanted.uid.is_some() || wanted.gid.is_some() {
        AuditedOperation::SetOwner
    } else if wanted.mode.is_some() {
        AuditedOperation::SetMode
    } else if wanted.list.is_some() {
        AuditedOperation::SetDescriptor
    } else {
        AuditedOperation::SetAttributes
    }
}

/// Takes over the times that a client has kept under its delegation, as far as they are plausible.
///
/// # Errors
/// NFS4ERR_BAD_STATEID without such a delegation of the file, NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED.
// RFC 9754 5
fn take_delegated_times(
    run: &mut Run,
    args: &Args<'_>,
    export: &Arc<Export>,
    kept: DelegatedTimes,
) -> Result<(), Stop> {
    let handle = run.handle()?;
    let id = resolve_stateid(run, &args.stateid)?;
    let client = run.session()?.client.id;
    let server = Arc::clone(&run.server);
    let (state, _lock) = server.locked_state(client, &id)?;
    let before = state.delegation().and_then(|delegation| delegation.before());
    let before = before.filter(|_| state.handle == handle).ok_or(NfsStat::BadStateId)?;
    let (accessed, modified) =
        (before.accessed(kept.accessed, run.now), before.modified(kept.modified, run.now));
    if accessed.is_some() || modified.is_some() {
        let open = Arc::clone(&state.holding().open);
        run.ask_now(export, |engine, caller| engine.set_recorded_times(caller, &open, accessed, modified))?;
    }
    Ok(())
}

/// Maps a denied access to NFS4ERR_PERM. Only the owner has the right, unless an access list grants it.
fn owner_only(stop: Stop) -> Stop {
    match stop {
        Stop::Fail(NfsStat::Access) => Stop::Fail(NfsStat::Perm),
        other => other,
    }
}

/// Whether a time is set to a value of the client.
fn says_when(wanted: &SetAttributes) -> bool {
    [wanted.accessed, wanted.modified].iter().any(|when| matches!(when, Some(TimeToSet::At(_))))
}

/// Only the owner may set a time of a file freely. A user who may write the file may set it to the present.
fn check_times(run: &Run, export: &Arc<Export>, info: &Info, wanted: &SetAttributes) -> Result<(), NfsStat> {
    let identity = run.identity(export);
    if says_when(wanted) && identity.uid != info.uid && !identity.unbound {
        return Err(NfsStat::Perm);
    }
    Ok(())
}

/// Sets all attributes through an open with the rights for them. For the size, the open needs the right to
/// write data.
///
/// # Errors
/// The status of the engine's error; NFS4ERR_PERM if only the owner may.
pub fn apply_to(
    run: &Run,
    export: &Arc<Export>,
    open: &Arc<Open>,
    wanted: &SetAttributes,
) -> Result<(), Stop> {
    if let Some(size) = wanted.size {
        run.ask(export, |engine, caller| engine.set_size(caller, open, size))?;
    }
    if wanted.uid.is_some() || wanted.gid.is_some() {
        run.ask(export, |engine, caller| engine.set_owner(caller, open, wanted.uid, wanted.gid))
            .map_err(owner_only)?;
    }
    if let Some(mode) = wanted.mode {
        run.ask(export, |engine, caller| engine.set_mode(caller, open, mode)).map_err(owner_only)?;
    }
    // RFC 8881 6.4.1.3: the mode comes first.
    if let Some(list) = &wanted.list {
        let now = export.engine.descriptor(open)?;
        let accounts = Arc::clone(&export.engine.config().accounts);
        let (given, parts) = list.descriptor(&now, open.is_directory(), accounts.as_ref())?;
        run.ask(export, |engine, caller| engine.set_descriptor(caller, open, parts, &given))
            .map_err(owner_only)?;
    }
    let (accessed, modified) = (wanted.accessed, wanted.modified);
    if accessed.is_some() || modified.is_some() {
        let time = |when: Option<TimeToSet>| {
            when.map(|when| match when {
                TimeToSet::At(time) => time,
                TimeToSet::Now => Time::from_wall_ns(run.now.wall_ns),
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
