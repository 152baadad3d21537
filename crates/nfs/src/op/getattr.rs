//! GETATTR (RFC 8881 18.7).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, AttrWriter, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::getattr::Args;
use share::Item;

use crate::attributes::{self, Subject, What};
use crate::compound::{Done, Run, Stop};
use crate::config::Export;

/// Does it.
///
/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set; NFS4ERR_STALE; as the engine says.
pub fn run(run: &mut Run, args: &Args) -> Done {
    run.current()?;
    if attributes::names_write_only(&args.attr_request, run.minor) {
        return Err(NfsStat::Inval.into());
    }
    let wanted = attributes::readable(&args.attr_request, run.minor);
    let found = run.found()?;
    if let Some((export, item)) = &found {
        recall_writers(run, export, item, &wanted)?;
    }
    let handle = if wanted.has(AttrNum::Filehandle.get()) { Some(run.handle()?) } else { None };
    let server = Arc::clone(&run.server);
    let what = match &found {
        Some((export, item)) => attributes::of_item(export, item, &wanted)?,
        None => What::Root,
    };
    let out = run.writer.begin_result(OpNum::GetAttr, NfsStat::Ok);
    let mut writer = AttrWriter::begin(out, wanted);
    attributes::write(
        &mut writer,
        &Subject { server: &server, minor: run.minor, handle: handle.as_ref(), what },
    );
    writer.finish();
    Ok(())
}

/// Has another client's delegation to write recalled before anybody is told what changes with the data.
///
/// # Errors
/// NFS4ERR_DELAY until it is given back.
// RFC 8881 10.4.3
pub fn recall_writers(run: &Run, export: &Arc<Export>, item: &Item, wanted: &Bitmap) -> Result<(), Stop> {
    if !attributes::changes_with_data(wanted) {
        return Ok(());
    }
    let key = run.session()?.client.cache_key(export.id, item.id());
    run.ask(export, |engine, caller| engine.settle_item(caller, item, Some(key)))
}
