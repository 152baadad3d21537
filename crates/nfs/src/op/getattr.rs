//! GETATTR (RFC 8881 18.7).

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, AttrWriter};
use nfs_wire::op::OpNum;
use nfs_wire::op::getattr::Args;

use crate::attributes::{self, Subject, What};
use crate::compound::{Done, Run};

/// Does it.
///
/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set; NFS4ERR_STALE; as the engine says.
pub fn run(run: &mut Run, args: &Args) -> Done {
    run.current()?;
    if attributes::names_write_only(&args.attr_request) {
        return Err(NfsStat::Inval.into());
    }
    let wanted = attributes::readable(&args.attr_request, run.minor);
    let found = run.found()?;
    if let Some((export, item)) = &found
        && attributes::changes_with_data(&wanted)
    {
        let key = run.session()?.client.cache_key(export.id, item.id());
        run.ask(export, |engine, caller| engine.settle_item(caller, item, Some(key)))?;
    }
    let handle = if wanted.has(AttrNum::Filehandle.get()) { Some(run.handle()?) } else { None };
    let server = std::sync::Arc::clone(&run.server);
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
