//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 8.4).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::xattr::{Changed, GetResOk, ListArgs, ListResOk, NameArgs, SetArgs, SetOption};
use nfs_wire::types::ChangeInfo;
use nfs_wire::xdr::{List, padding};
use share::{AuditedOperation, Item, Open};
use volume::NodeKind;
use volume::security::Rights;

use super::names::{changed, version, with_open};
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;

/// The longest name in bytes, without the namespace that the host puts in front.
const MAX_NAME: usize = 250;
/// Bytes of a LISTXATTRS4resok without names.
const LIST_AROUND: usize = 16;

/// Reads a value.
///
/// # Errors
/// NFS4ERR_NOXATTR, NFS4ERR_ACCESS, NFS4ERR_WRONG_TYPE.
pub fn run_get(run: &mut Run, args: &NameArgs<'_>) -> OpResult {
    check_name(args.name)?;
    let (export, item) = subject(run)?;
    let value = with_open(run, &export, &item, AuditedOperation::Open, Rights::READ_EA, |open| {
        Ok(export.engine.attribute(open, args.name)?)
    })?;
    run.reply(OpNum::GetXattr, GetResOk { value: &value })
}

/// Sets a value.
///
/// # Errors
/// NFS4ERR_EXIST, NFS4ERR_NOXATTR, NFS4ERR_XATTR2BIG, NFS4ERR_ACCESS, NFS4ERR_ROFS, NFS4ERR_WRONG_TYPE.
pub fn run_set(run: &mut Run, args: &SetArgs<'_>) -> OpResult {
    check_name(args.key)?;
    let present = match args.option {
        SetOption::Either => None,
        SetOption::Create => Some(false),
        SetOption::Replace => Some(true),
        SetOption::Unknown(_) => return Err(NfsStat::Inval.into()),
    };
    let info = change(run, |run, export, open| {
        run.ask(export, |engine, caller| {
            engine.set_attribute(caller, open, args.key, Some(args.value), present)
        })
    })?;
    run.reply(OpNum::SetXattr, Changed { info })
}

/// Removes an attribute.
///
/// # Errors
/// NFS4ERR_NOXATTR, NFS4ERR_ACCESS, NFS4ERR_ROFS, NFS4ERR_WRONG_TYPE.
pub fn run_remove(run: &mut Run, args: &NameArgs<'_>) -> OpResult {
    check_name(args.name)?;
    let info = change(run, |run, export, open| {
        run.ask(export, |engine, caller| engine.set_attribute(caller, open, args.name, None, Some(true)))
    })?;
    run.reply(OpNum::RemoveXattr, Changed { info })
}

/// Lists the names, beginning with the one whose index is the cookie.
///
/// # Errors
/// NFS4ERR_TOOSMALL if no name fits, NFS4ERR_ACCESS, NFS4ERR_WRONG_TYPE.
pub fn run_list(run: &mut Run, args: &ListArgs) -> OpResult {
    let (export, item) = subject(run)?;
    let all = with_open(run, &export, &item, AuditedOperation::Open, Rights::READ_EA, |open| {
        Ok(export.engine.extended(open)?)
    })?;
    let mut names: Vec<&[u8]> = all.iter().map(|(name, _)| name.as_slice()).collect();
    names.sort_unstable();
    let begin = usize::try_from(args.cookie).unwrap_or(usize::MAX).min(names.len());
    let mut room = (args.maxcount as usize).checked_sub(LIST_AROUND).ok_or(NfsStat::TooSmall)?;
    let fits = names[begin..].iter().take_while(|name| {
        let need = 4 + name.len() + padding(name.len());
        let is_room = need <= room;
        room = room.saturating_sub(need);
        is_room
    });
    let end = begin + fits.count();
    if end == begin && end < names.len() {
        return Err(NfsStat::TooSmall.into());
    }
    let told = ListResOk { cookie: end as u64, names: List::of(&names[begin..end]), eof: end == names.len() };
    run.reply(OpNum::ListXattrs, told)
}

/// The current object, if it has extended attributes: a file or directory of an export that supports them.
fn subject(run: &mut Run) -> Result<(Arc<Export>, Item), Stop> {
    let (export, item) = run.item(NfsStat::NotSupp)?;
    if !matches!(item.kind(), NodeKind::File | NodeKind::Directory) {
        return Err(NfsStat::WrongType.into());
    }
    if !export.engine.volume().properties().extended_attributes {
        return Err(NfsStat::NotSupp.into());
    }
    Ok((export, item))
}

/// Changes an attribute. Returns the change_info4 of the object.
fn change(
    run: &mut Run,
    act: impl FnOnce(&Run, &Arc<Export>, &Arc<Open>) -> Result<(), Stop>,
) -> Result<ChangeInfo, Stop> {
    let (export, item) = subject(run)?;
    run.check_writable(&export)?;
    let before = version(&export, &item)?;
    with_open(run, &export, &item, AuditedOperation::SetExtended, Rights::WRITE_EA, |open| {
        act(run, &export, open)
    })?;
    changed(&export, &item, before)
}

// RFC 8276 8.4.1
fn check_name(name: &[u8]) -> Result<(), NfsStat> {
    match name {
        [] => Err(NfsStat::Inval),
        name if std::str::from_utf8(name).is_err() => Err(NfsStat::Inval),
        name if name.contains(&0) => Err(NfsStat::BadChar),
        name if name.len() > MAX_NAME => Err(NfsStat::NameTooLong),
        _ => Ok(()),
    }
}
