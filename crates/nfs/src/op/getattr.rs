//! GETATTR (RFC 8881 18.7).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, AttrWriter, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::getattr::Args;
use share::Item;
use volume::{NodeId, Time};

use super::account_names;
use crate::attributes::{self, AttributeSource, Subject};
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;
use crate::state::back_channel;
use crate::state::callback::CallbackRequest;
use crate::state::delegated_times::{DelegatedBaseline, HolderAttributes};

/// Reads attributes.
///
/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set; NFS4ERR_STALE, or the status of the engine's error.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    run.current()?;
    if attributes::names_write_only(&args.attr_request, run.minor) {
        return Err(NfsStat::Inval.into());
    }
    let wanted = attributes::readable(&args.attr_request, run.minor);
    let found = run.current_item()?;
    let mut kept = None;
    if let Some((export, item)) = &found {
        account_names::look_up_shown(run, export, item, &wanted)?;
        kept = query_holder(run, export, item, &wanted)?;
        if kept.is_none() {
            recall_writers(run, export, item.id(), &wanted)?;
        }
    }
    let handle = if wanted.has(AttrNum::Filehandle.get()) { Some(run.handle()?) } else { None };
    let server = Arc::clone(&run.server);
    let mut source = match &found {
        Some((export, item)) => attributes::of_item(export, item, &wanted)?,
        None => AttributeSource::PseudoRoot,
    };
    if let (AttributeSource::Object { info, .. }, Some(HolderReport { told, before, is_news })) =
        (&mut source, kept)
    {
        told.amend(info, &before, is_news, run.now);
    }
    let out = run.writer.begin_result(OpNum::GetAttr, NfsStat::Ok);
    let mut writer = AttrWriter::begin(out, wanted);
    attributes::write(
        &mut writer,
        &Subject { server: &server, minor: run.minor, handle: handle.as_ref(), source },
    );
    writer.finish();
    Ok(())
}

/// The report of another client that keeps the times of a file.
struct HolderReport {
    told: HolderAttributes,
    before: DelegatedBaseline,
    /// The client has modified data that the server has not received yet.
    is_news: bool,
}

/// Queries the client that keeps the times of a file, if that is another client. None if it cannot be asked,
/// or has reported nothing.
///
/// # Errors
/// [`Stop::Hold`] until it has replied.
// RFC 9754 5, RFC 8881 10.4.3
fn query_holder(
    run: &mut Run,
    export: &Arc<Export>,
    item: &Item,
    wanted: &Bitmap,
) -> Result<Option<HolderReport>, Stop> {
    let asked = run.query.take();
    if !attributes::may_be_delegated(wanted) {
        return Ok(None);
    }
    let Some(state) = run.server.proxies.of(export.id, item.id()) else { return Ok(None) };
    let before = state.delegation().and_then(|delegation| delegation.before()).copied();
    let Some(before) =
        before.filter(|_| run.session().is_ok_and(|session| session.client.id != state.client))
    else {
        return Ok(None);
    };
    let told = match asked.filter(|query| Arc::ptr_eq(&query.state, &state)) {
        Some(query) => query.answered().flatten(),
        None => {
            let Some(waiter) = run.waiter() else { return Ok(None) };
            let query = run.server.proxies.query(Arc::clone(&state), waiter, run.now);
            run.query = Some(Arc::clone(&query));
            match run.server.clients.get(state.client) {
                Some(holder) => back_channel::call(&holder, &CallbackRequest::ask(&query)),
                None => query.answer(None),
            }
            return Err(Stop::Hold);
        }
    };
    let Some(told) = told else { return Ok(None) };
    let is_news = told.is_news(&before, &export.engine.item_info(item)?);
    if is_news {
        // The change attribute advances, and the modification time too if the client has reported it. The
        // values of this reply therefore remain valid.
        let modified = told.modified(&before, run.now).unwrap_or(Time::from_wall_ns(run.now.wall_ns));
        let open = Arc::clone(&state.holding().open);
        let kept = run
            .ask_now(export, |engine, caller| engine.set_recorded_times(caller, &open, None, Some(modified)));
        // The client has just returned the delegation.
        if kept.is_err() {
            return Ok(None);
        }
    }
    Ok(Some(HolderReport { told, before, is_news }))
}

/// Recalls another client's write delegation before attributes are reported that change with the data.
///
/// # Errors
/// NFS4ERR_DELAY until it is returned.
// RFC 8881 10.4.3
pub fn recall_writers(run: &Run, export: &Arc<Export>, item: NodeId, wanted: &Bitmap) -> Result<(), Stop> {
    if !attributes::changes_with_data(wanted) {
        return Ok(());
    }
    let key = run.session()?.client.cache_key(export.id, item);
    run.ask(export, |engine, caller| engine.recall_for_attributes(caller, item, Some(key)))
}
