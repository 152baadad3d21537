//! CREATE (RFC 8881 18.4).

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::create::{Args, CreateType, ResOk};
use nfs_wire::types::SpecData;
use share::{AuditedOperation, Disposition, NewItem, Options};
use volume::NodeKind;
use volume::security::Rights;

use super::account_names;
use super::lookup::check_directory;
use super::names::{changed, name, opening, step_of, version, with_open};
use super::setattr;
use crate::attributes::set::SetAttributes;
use crate::compound::current::Current;
use crate::compound::{OpResult, Run, Stop};
use crate::limits::MAX_LINK_TEXT;

/// The mode of a new object if the client sends none.
const DEFAULT_MODE: u32 = 0o700;

/// Creates a directory, a link or a special file.
///
/// # Errors
/// NFS4ERR_BADTYPE, NFS4ERR_EXIST, NFS4ERR_NOTDIR, NFS4ERR_ACCESS, NFS4ERR_ROFS and others.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    if matches!(args.objtype, CreateType::Other(_)) {
        run.current()?;
        return Err(NfsStat::BadType.into());
    }
    let (export, above) = run.item(NfsStat::RoFs)?;
    check_directory(above.kind())?;
    let name = name(args.objname)?;
    let wanted = account_names::read_for_new(run, &export, &args.createattrs)?;
    if wanted.size.is_some() {
        return Err(NfsStat::Inval.into());
    }
    run.check_writable(&export)?;
    let (mode_below, how) = wanted.mode_below(&export, &above, DEFAULT_MODE);
    let mode = mode_below.unwrap_or(DEFAULT_MODE);
    let before = version(&export, &above)?;
    let device = |data: SpecData| u64::from(data.specdata1) << 32 | u64::from(data.specdata2);
    let fresh = match args.objtype {
        CreateType::Dir => None,
        CreateType::Lnk(text) => Some(NewItem::Link(link_text(text)?)),
        CreateType::Sock => Some(NewItem::Special { kind: NodeKind::Socket, mode, rdev: 0 }),
        CreateType::Fifo => Some(NewItem::Special { kind: NodeKind::Pipe, mode, rdev: 0 }),
        CreateType::Blk(data) => {
            Some(NewItem::Special { kind: NodeKind::BlockDevice, mode, rdev: device(data) })
        }
        CreateType::Chr(data) => {
            Some(NewItem::Special { kind: NodeKind::CharDevice, mode, rdev: device(data) })
        }
        CreateType::Other(_) => return Err(NfsStat::BadType.into()),
    };
    let item = match fresh {
        Some(fresh) => run.ask(&export, |engine, caller| engine.make_in(caller, &above, &name, &fresh))?,
        None => {
            let path = std::slice::from_ref(&name);
            let mut request =
                step_of(AuditedOperation::MakeDirectory, opening(path, Rights::READ_ATTRIBUTES));
            request.disposition = Disposition::Create;
            request.options |= Options::DIRECTORY | Options::UNSHARED_METADATA | how;
            request.mode = mode_below;
            let opened = run.ask(&export, |engine, caller| engine.create_from(caller, &above, &request))?;
            let item = export.engine.item_of(&opened.open);
            export.engine.close(&opened.open, run.now)?;
            item
        }
    };
    let mut set = wanted.mask;
    let rest = SetAttributes { mode: None, umask: None, ..wanted };
    if rest != (SetAttributes { mask: rest.mask, ..SetAttributes::default() }) {
        let for_list = if rest.list.is_some() { Rights::WRITE_DAC } else { Rights::empty() };
        let access = Rights::READ_ATTRIBUTES | Rights::WRITE_ATTRIBUTES | for_list;
        let done = with_open(run, &export, &item, AuditedOperation::SetAttributes, access, |open| {
            setattr::apply_to(run, &export, open, &rest)
        });
        match done {
            Ok(()) => {}
            // The object exists. The result tells the client which of its attributes are set.
            Err(Stop::Fail(_) | Stop::Written(_)) => {
                set = set.and(&Bitmap::of(&[AttrNum::Mode.get(), AttrNum::ModeUmask.get()]));
            }
            Err(stop @ (Stop::Work | Stop::Hold)) => return Err(stop),
        }
    }
    let cinfo = changed(&export, &above, before)?;
    run.current = Some(Current::of_item(&export, item));
    run.stateid = None;
    run.reply(OpNum::Create, ResOk { cinfo, attrset: set })
}

/// Checks the text of a new symbolic link.
///
/// # Errors
/// NFS4ERR_INVAL, NFS4ERR_NAMETOOLONG, NFS4ERR_BADCHAR.
fn link_text(text: &[u8]) -> Result<&[u8], NfsStat> {
    if text.is_empty() {
        return Err(NfsStat::Inval);
    }
    if text.len() > MAX_LINK_TEXT {
        return Err(NfsStat::NameTooLong);
    }
    if text.contains(&0) { Err(NfsStat::BadChar) } else { Ok(text) }
}
