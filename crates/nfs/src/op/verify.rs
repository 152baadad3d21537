//! VERIFY and NVERIFY: comparison of attributes (RFC 8881 18.31 and 18.15).

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, AttrWriter, Fattr};
use nfs_wire::op::OpNum;
use nfs_wire::op::getattr::VerifyArgs;
use nfs_wire::xdr::Decode;
use wire::Cursor;

use super::getattr::recall_writers;
use crate::attributes::{self, AttributeSource, Subject};
use crate::compound::{OpResult, Run, Stop};

/// Continues if all attributes are equal.
///
/// # Errors
/// NFS4ERR_NOT_SAME; and the errors of [`is_same`].
pub fn run(run: &mut Run, args: &VerifyArgs<'_>) -> OpResult {
    if !is_same(run, args)? {
        return Err(NfsStat::NotSame.into());
    }
    run.reply_status(OpNum::Verify)
}

/// Continues if an attribute differs.
///
/// # Errors
/// NFS4ERR_SAME; and the errors of [`is_same`].
pub fn run_nverify(run: &mut Run, args: &VerifyArgs<'_>) -> OpResult {
    if is_same(run, args)? {
        return Err(NfsStat::Same.into());
    }
    run.reply_status(OpNum::NVerify)
}

/// Whether the current object has these attributes.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL for attributes that cannot be compared, NFS4ERR_BADXDR, NFS4ERR_DELAY,
/// or the status of the engine's error.
fn is_same(run: &mut Run, args: &VerifyArgs<'_>) -> Result<bool, Stop> {
    let given = &args.obj_attributes;
    let found = run.current_item()?;
    if given.mask.has(AttrNum::RdattrError.get()) || attributes::names_write_only(&given.mask, run.minor) {
        return Err(NfsStat::Inval.into());
    }
    if given.mask.beyond() || !given.mask.without(&attributes::supported(run.minor)).is_empty() {
        return Err(NfsStat::AttrNotSupp.into());
    }
    if given.iter().any(|attribute| attribute.is_err()) {
        return Err(NfsStat::BadXdr.into());
    }
    if let Some((export, item)) = &found {
        recall_writers(run, export, item.id(), &given.mask)?;
    }
    let source = match &found {
        Some((export, item)) => attributes::of_item(export, item, &given.mask)?,
        None => AttributeSource::PseudoRoot,
    };
    let handle = run.handle()?;
    let mut own = Vec::new();
    let mut writer = AttrWriter::begin(&mut own, given.mask);
    let subject = Subject { server: &run.server, minor: run.minor, handle: Some(&handle), source };
    attributes::write(&mut writer, &subject);
    writer.finish();
    let own = Fattr::decode(&mut Cursor::new(&own)).map_err(|_| NfsStat::ServerFault)?;
    Ok(own.mask == given.mask && own.iter().eq(given.iter()))
}
