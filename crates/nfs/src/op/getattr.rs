//! GETATTR (RFC 8881 18.7).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, AttrWriter, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::getattr::Args;
use share::Item;
use volume::{NodeId, Time};

use crate::attributes::{self, Subject, What};
use crate::compound::{Done, Run, Stop};
use crate::config::Export;
use crate::state::back_channel;
use crate::state::callback::Errand;
use crate::state::delegated_times::{Before, Told};

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
    let mut kept = None;
    if let Some((export, item)) = &found {
        kept = ask_keeper(run, export, item, &wanted)?;
        if kept.is_none() {
            recall_writers(run, export, item.id(), &wanted)?;
        }
    }
    let handle = if wanted.has(AttrNum::Filehandle.get()) { Some(run.handle()?) } else { None };
    let server = Arc::clone(&run.server);
    let mut what = match &found {
        Some((export, item)) => attributes::of_item(export, item, &wanted)?,
        None => What::Root,
    };
    if let (What::Of { info, .. }, Some(Kept { told, before, is_news })) = (&mut what, kept) {
        told.amend(info, &before, is_news, run.now);
    }
    let out = run.writer.begin_result(OpNum::GetAttr, NfsStat::Ok);
    let mut writer = AttrWriter::begin(out, wanted);
    attributes::write(
        &mut writer,
        &Subject { server: &server, minor: run.minor, handle: handle.as_ref(), what },
    );
    writer.finish();
    Ok(())
}

/// What another client has told that keeps the times of a file.
struct Kept {
    told: Told,
    before: Before,
    /// It has data that is not here yet.
    is_news: bool,
}

/// Asks the client that keeps the times of a file, if it is another one, for what it has; none when nobody can be asked, or
/// has told nothing.
///
/// # Errors
/// [`Stop::Hold`] until it has answered.
// RFC 9754 5, RFC 8881 10.4.3
fn ask_keeper(
    run: &mut Run,
    export: &Arc<Export>,
    item: &Item,
    wanted: &Bitmap,
) -> Result<Option<Kept>, Stop> {
    let asked = run.question.take();
    if !attributes::are_kept(wanted) {
        return Ok(None);
    }
    let Some(state) = run.server.proxies.of(export.id, item.id()) else { return Ok(None) };
    let before = state.delegation().and_then(|delegation| delegation.before()).copied();
    let Some(before) =
        before.filter(|_| run.session().is_ok_and(|session| session.client.id != state.client))
    else {
        return Ok(None);
    };
    let told = match asked.filter(|question| Arc::ptr_eq(&question.state, &state)) {
        Some(question) => question.answered().flatten(),
        None => {
            let Some(waiter) = run.waiter() else { return Ok(None) };
            let question = run.server.proxies.question(Arc::clone(&state), waiter, run.now);
            run.question = Some(Arc::clone(&question));
            match run.server.clients.get(state.client) {
                Some(holder) => back_channel::call(&holder, &Errand::ask(&question)),
                None => question.answer(None),
            }
            return Err(Stop::Hold);
        }
    };
    let Some(told) = told else { return Ok(None) };
    let is_news = told.is_news(&before, &export.engine.item_info(item)?);
    if is_news {
        // The change attribute moves, and with it the time where the client has said it: what is told now holds also later.
        let modified = told.modified(&before, run.now).unwrap_or(Time::from_wall_ns(run.now.wall_ns));
        let open = Arc::clone(&state.holding().open);
        let kept =
            run.tell(export, |engine, caller| engine.set_recorded_times(caller, &open, None, Some(modified)));
        // It was given back at this moment.
        if kept.is_err() {
            return Ok(None);
        }
    }
    Ok(Some(Kept { told, before, is_news }))
}

/// Has another client's delegation to write recalled before anybody is told what changes with the data.
///
/// # Errors
/// NFS4ERR_DELAY until it is given back.
// RFC 8881 10.4.3
pub fn recall_writers(run: &Run, export: &Arc<Export>, item: NodeId, wanted: &Bitmap) -> Result<(), Stop> {
    if !attributes::changes_with_data(wanted) {
        return Ok(());
    }
    let key = run.session()?.client.cache_key(export.id, item);
    run.ask(export, |engine, caller| engine.settle_item(caller, item, Some(key)))
}
