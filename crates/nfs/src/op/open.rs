//! OPEN (RFC 8881 18.16). Start with [`run`].

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::attr::{AttrNum, Bitmap};
use nfs_wire::op::OpNum;
use nfs_wire::op::access::AccessBits;
use nfs_wire::op::open::{Args, Claim, CreateHow, Delegation, OpenHow, ResOk, ResultFlags, ShareAccess};
use nfs_wire::types::{ChangeInfo, StateId, Verifier};
use share::{
    AuditedOperation, Basic, Caching, CachingRequest, Deny, Disposition, Item, OpenResult, Options, TimeSet,
};
use volume::security::Rights;
use volume::{Name, NodeKind, Time};

use super::delegate::{delegate, delegate_again};
use super::lookup::check_directory;
use super::names::{changed, name, opening, opening_own, retry_stale_name, step_of, version};
use super::states::{self, StateTarget};
use super::{access, account_names, claim, setattr};
use crate::attributes::set::SetAttributes;
use crate::compound::current::{Current, handle_of};
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;
use crate::state::back_channel;
use crate::state::callback::CallbackRequest;
use crate::state::client::Client;
use crate::state::filehandle::Handle;
use crate::state::open::Holding;
use crate::state::record::{enlist, note_again};
use crate::state::share_reservation::{Reservation, denial, rights};
use crate::state::stateid::{LockingState, NewState};

/// The mode of a new file if the client sends none.
const DEFAULT_MODE: u32 = 0o600;
/// The bits by which a client asks for delegations.
const WANTS: ShareAccess = ShareAccess::from_bits_retain(0x0003_ff00);
/// The further bits of minor version 2 (RFC 9754).
const WANTS_IN_2: ShareAccess = ShareAccess::WANT_DELEG_TIMESTAMPS;

/// The parameters for creating a file.
struct CreateParams {
    wanted: SetAttributes,
    /// Whether the file may exist already.
    unchecked: bool,
    /// Recognises a retry.
    verifier: Option<Verifier>,
}

/// The file of an OPEN, found or created.
struct OpenTarget {
    export: Arc<Export>,
    item: Item,
    /// The engine's open, if this request has created the file.
    made: Option<OpenResult>,
    /// Whether this request has looked the file up.
    just_found: bool,
    /// Whether to truncate the file once it is open.
    cut: bool,
    cinfo: ChangeInfo,
    attrset: Bitmap,
}

/// Opens a file, and creates it if asked to.
///
/// # Errors
/// NFS4ERR_INVAL, NFS4ERR_NOENT, NFS4ERR_EXIST, NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_SHARE_DENIED,
/// NFS4ERR_ACCESS, NFS4ERR_DELAY, NFS4ERR_GRACE, NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_CONFLICT and others.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    match args.claim {
        Claim::Null(_) | Claim::DelegateCur(_) => retry_stale_name(run, |run| open(run, args)),
        _ => open(run, args),
    }
}

fn open(run: &mut Run, args: &Args<'_>) -> OpResult {
    run.current()?;
    let ask = Reservation { access: args.share_access & ShareAccess::BOTH, deny: args.share_deny };
    check(args, ask, run.minor)?;
    // RFC 8881 18.51.3
    let reclaims = matches!(args.claim, Claim::Previous(_));
    if !reclaims && !run.session()?.client.has_reclaimed() {
        return Err(NfsStat::Grace.into());
    }
    let found = match args.claim {
        Claim::Null(file) => by_name(run, args, ask, file)?,
        Claim::Fh => by_handle(run, args)?,
        Claim::Previous(_) => by_reclaim(run, args)?,
        Claim::DelegateCur(under) => {
            let state = delegation(run, &under.delegate_stateid)?;
            check_delegated(&state, by_name(run, args, ask, under.file)?)?
        }
        Claim::DelegCurFh(under) => {
            let state = delegation(run, &under)?;
            check_delegated(&state, by_handle(run, args)?)?
        }
        Claim::DelegatePrev(_) | Claim::DelegPrevFh => return Err(NfsStat::NotSupp.into()),
    };
    let (cinfo, attrset, cut) = (found.cinfo, found.attrset, found.cut);
    let mut current = match args.claim {
        Claim::Null(_) | Claim::DelegateCur(_) => Current::of_item(&found.export, found.item.clone()),
        _ => run.current()?.clone(),
    };
    let handle = current.handle(&run.server, run.now)?;
    let (export, mut item) = (Arc::clone(&found.export), found.item.clone());
    // The client may have it open since before a restart. Who reclaims has it restored in the end, and nobody
    // had a new file open.
    if !reclaims && found.made.is_none() {
        export.engine.restore_file(item.id())?;
    }
    // From the lookup of the owner's state on the file to its change.
    let server = Arc::clone(&run.server);
    let client = Arc::clone(&run.session()?.client);
    let lock = server.lock_states(&client, &export, item.id());
    let stateid = match open_for_owner(run, args, ask, handle, found) {
        Err(stop) if reclaims => return Err(claim::conflict(stop)),
        held => held?,
    };
    if cut {
        item = item.changed_since();
        current = Current::of_item(&export, item.clone());
    }
    run.current = Some(current);
    run.stateid = Some(stateid);
    let target = StateTarget { client: &client, export: &export, item: &item, handle };
    let is_under_delegation = matches!(args.claim, Claim::DelegateCur(_) | Claim::DelegCurFh(_));
    if ask.access.contains(ShareAccess::WRITE) && !is_under_delegation {
        recall_own(target, run.now);
    }
    let delegation = match args.claim {
        Claim::Previous(kind) => delegate_again(run, target, kind, args.share_access)?,
        _ => delegate(run, target, args.share_access),
    };
    drop(lock);
    let delegation = recorded(run, target, delegation);
    run.opens_to_record.add(&server, &export);
    // RFC 8881 18.16.3: not PRESERVE_UNLINKED, which promises that a file without a name survives a restart.
    // Clients that do not get this flag rename an open file instead of removing it.
    let rflags = ResultFlags::LOCKTYPE_POSIX;
    run.reply(OpNum::Open, ResOk { stateid, cinfo, rflags, attrset, delegation })
}

/// The delegation for the reply, once it is on record. A client would not learn of the loss of a delegation.
fn recorded<'a>(run: &Run, target: StateTarget<'_>, given: Delegation<'a>) -> Delegation<'a> {
    let StateTarget { client, export, item, .. } = target;
    let state = match given {
        Delegation::None | Delegation::NoneExt(_) => None,
        _ => client.delegation_of(export.id, item.id()),
    };
    let Some(state) = state.filter(|_| export.engine.keeps_opens()) else { return given };
    export.engine.write_changes();
    if !export.engine.are_records_failing() || run.server.forget_client_ids().is_ok() {
        return given;
    }
    let _lock = run.server.lock_states(client, export, item.id());
    run.server.end_delegation(client, &state, run.now);
    Delegation::None
}

/// Recalls the client's own READ delegation when it opens the file for writing outside that delegation.
/// Another mount of the client may have the file open, and its cache does not know of the writes. This
/// request does not wait for the recall.
fn recall_own(target: StateTarget<'_>, now: wire::Now) {
    let StateTarget { client, export, item, .. } = target;
    let Some(state) = client.delegation_of(export.id, item.id()) else { return };
    let Some(delegation) = state.delegation() else { return };
    let holds = state.holding();
    if holds.access.contains(ShareAccess::WRITE) || !delegation.recalled_by_own(now.mono_ns) {
        return;
    }
    let notice = share::BreakNotice {
        node: item.id(),
        client: client.key,
        key: client.cache_key(export.id, item.id()),
        keyed: true,
        from: Caching::READ | Caching::HANDLE,
        to: Caching::empty(),
        epoch: 0,
        answer: false,
        entries: false,
        by_keyed: false,
        via: None,
        origin: None,
    };
    drop(holds);
    // Without a back channel the delegation ends when the engine next needs that.
    back_channel::call(client, &CallbackRequest::recall(&state, notice));
}

/// The client's delegation under which a file is opened.
fn delegation(run: &Run, id: &StateId) -> Result<Arc<LockingState>, NfsStat> {
    let state = run.server.state(run.session()?.client.id, id)?;
    if state.delegation().is_some() { Ok(state.share()) } else { Err(NfsStat::BadStateId) }
}

/// Checks that the delegation is for this file.
fn check_delegated(state: &LockingState, found: OpenTarget) -> Result<OpenTarget, NfsStat> {
    let is_its_file = (state.export.id, state.node) == (found.export.id, found.item.id());
    if is_its_file { Ok(found) } else { Err(NfsStat::BadStateId) }
}

fn check(args: &Args<'_>, ask: Reservation, minor: u32) -> Result<(), NfsStat> {
    let more = if minor >= 2 { WANTS_IN_2 } else { ShareAccess::empty() };
    let known = ShareAccess::BOTH | WANTS | more;
    if ask.access.is_empty() || !known.contains(args.share_access) {
        return Err(NfsStat::Inval);
    }
    denial(ask.deny)?;
    let creates = matches!(args.openhow, OpenHow::Create(_));
    if creates && !matches!(args.claim, Claim::Null(_)) {
        return Err(NfsStat::Inval);
    }
    Ok(())
}

/// Checks that an item can be opened.
// RFC 8881 18.16.4
fn check_kind(item: &Item) -> Result<(), NfsStat> {
    match item.kind() {
        NodeKind::File => Ok(()),
        NodeKind::Directory => Err(NfsStat::IsDir),
        NodeKind::Link => Err(NfsStat::Symlink),
        _ => Err(NfsStat::WrongType),
    }
}

fn create_params(run: &Run, args: &Args<'_>, export: &Export) -> Result<Option<CreateParams>, Stop> {
    let read = |given| account_names::read_for_new(run, export, given);
    let OpenHow::Create(how) = &args.openhow else { return Ok(None) };
    let made = match how {
        CreateHow::Unchecked(attributes) => {
            CreateParams { wanted: read(attributes)?, unchecked: true, verifier: None }
        }
        CreateHow::Guarded(attributes) => {
            CreateParams { wanted: read(attributes)?, unchecked: false, verifier: None }
        }
        CreateHow::Exclusive(verifier) => {
            CreateParams { wanted: SetAttributes::default(), unchecked: false, verifier: Some(*verifier) }
        }
        CreateHow::Exclusive41(given) => {
            let wanted = read(&given.attrs)?;
            // The verifier is stored in the times (RFC 8881 18.16.3).
            if wanted.accessed.is_some() || wanted.modified.is_some() {
                return Err(NfsStat::Inval.into());
            }
            CreateParams { wanted, unchecked: false, verifier: Some(given.verf) }
        }
    };
    Ok(Some(made))
}

fn by_handle(run: &mut Run, args: &Args<'_>) -> Result<OpenTarget, Stop> {
    debug_assert!(matches!(args.openhow, OpenHow::NoCreate), "looked at before");
    let (export, item) = run.item(NfsStat::IsDir)?;
    check_kind(&item)?;
    if matches!(args.claim, Claim::Fh) {
        check_grace(run, &export, &item)?;
    }
    let cinfo = ChangeInfo::default();
    let attrset = Bitmap::EMPTY;
    Ok(OpenTarget { export, item, made: None, just_found: false, cut: false, cinfo, attrset })
}

/// Finds a file that the client had open before the restart.
fn by_reclaim(run: &mut Run, args: &Args<'_>) -> Result<OpenTarget, Stop> {
    claim::check(run)?;
    by_handle(run, args)
}

/// Refuses a new open on a file that other clients may reclaim.
// RFC 8881 8.4.2.1
fn check_grace(run: &Run, export: &Export, item: &Item) -> Result<(), Stop> {
    if run.server.covers(&export.engine, item.id())? { Err(NfsStat::Grace.into()) } else { Ok(()) }
}

fn by_name(run: &mut Run, args: &Args<'_>, ask: Reservation, file: &[u8]) -> Result<OpenTarget, Stop> {
    let takes_any = matches!(args.openhow, OpenHow::Create(CreateHow::Unchecked(_)));
    match find_or_create(run, args, ask, file) {
        // Another request has created the file since the lookup.
        Err(Stop::Fail(NfsStat::Exist)) if takes_any => find_or_create(run, args, ask, file),
        other => other,
    }
}

fn find_or_create(run: &mut Run, args: &Args<'_>, ask: Reservation, file: &[u8]) -> Result<OpenTarget, Stop> {
    let found = run.current_item()?;
    let file = name(file)?;
    let Some((export, above)) = found else {
        return Err(if run.server.exports().named(file.as_bytes()).is_some() {
            NfsStat::IsDir.into()
        } else if matches!(args.openhow, OpenHow::NoCreate) {
            NfsStat::NoEnt.into()
        } else {
            NfsStat::RoFs.into()
        });
    };
    check_directory(above.kind())?;
    let making = create_params(run, args, &export)?;
    let before = version(&export, &above)?;
    // A file that must not exist is only looked up.
    let access = match &making {
        Some(making) if !making.unchecked => Rights::empty(),
        _ => rights(ask.access),
    };
    let there = run.ask_now(&export, |engine, caller| engine.item_in_for(caller, &above, &file, access));
    let is_new = matches!(args.claim, Claim::Null(_));
    match &there {
        Ok(item) if is_new => check_grace(run, &export, item)?,
        // The lost end of the records may have been about any file.
        Err(_) if run.server.grace.covers_all() => return Err(NfsStat::Grace.into()),
        _ => {}
    }
    let mut cut = false;
    let (item, made, attrset) = match (there, making) {
        (Ok(item), None) => (item, None, Bitmap::EMPTY),
        (Ok(item), Some(making)) => {
            let attrset = take_existing(run, &export, &item, &making)?;
            // RFC 8881 18.16.3: of the attributes only a size of zero counts.
            cut = making.unchecked && attrset.has(AttrNum::Size.get());
            (item, None, attrset)
        }
        (Err(Stop::Fail(NfsStat::NoEnt)), Some(making)) => {
            let (opened, attrset) = create(run, &export, &above, ask, &file, &making)?;
            (export.engine.item_of(&opened.open), Some(opened), attrset)
        }
        (Err(stop), _) => return Err(stop),
    };
    if made.is_none() {
        check_kind(&item)?;
    }
    // If nothing was created, the directory did not change.
    let cinfo = match &made {
        Some(_) => changed(&export, &above, before)?,
        None => ChangeInfo { atomic: false, before, after: before },
    };
    Ok(OpenTarget { export, item, made, just_found: true, cut, cinfo, attrset })
}

/// Whether a create request may use an existing file. Returns the attributes that it sets. The file is
/// truncated once it is open.
fn take_existing(
    run: &Run,
    export: &Arc<Export>,
    item: &Item,
    making: &CreateParams,
) -> Result<Bitmap, Stop> {
    if let Some(verifier) = &making.verifier {
        let info = export.engine.item_info(item)?;
        let is_retry = item.kind() == NodeKind::File && (info.accessed, info.modified) == times_of(verifier);
        return if is_retry { Ok(set_by(making)) } else { Err(NfsStat::Exist.into()) };
    }
    if !making.unchecked {
        return Err(NfsStat::Exist.into());
    }
    check_kind(item)?;
    if making.wanted.size != Some(0) {
        return Ok(Bitmap::EMPTY);
    }
    run.check_writable(export)?;
    Ok(Bitmap::of(&[AttrNum::Size.get()]))
}

/// Creates the file and opens it.
fn create(
    run: &Run,
    export: &Arc<Export>,
    above: &Item,
    ask: Reservation,
    file: &Name,
    making: &CreateParams,
) -> Result<(OpenResult, Bitmap), Stop> {
    run.check_writable(export)?;
    let path = std::slice::from_ref(file);
    let for_list = if making.wanted.list.is_some() { Rights::WRITE_DAC } else { Rights::empty() };
    let mut request = opening(path, rights(ask.access) | Rights::WRITE_ATTRIBUTES | for_list);
    request.deny = denial(ask.deny)?;
    request.disposition = Disposition::Create;
    let (mode, how) = making.wanted.mode_below(export, above, DEFAULT_MODE);
    request.mode = mode;
    request.options |= how;
    let client = Arc::clone(&run.session()?.client);
    let key = client.new_key();
    let want = Caching::empty();
    request.caching =
        Some(CachingRequest { key, want, keyed: true, parent: None, epoch: None, whole: true, via: 0 });
    client.attach(export);
    let opened = run.ask(export, |engine, caller| engine.create_from(caller, above, &request))?;
    client.remember_key(export.id, opened.open.node_id(), key);
    let size = making.wanted.size.filter(|size| *size > 0);
    let rest = SetAttributes { mode: None, umask: None, size, ..making.wanted.clone() };
    let furnished =
        setattr::apply_to(run, export, &opened.open, &rest).and_then(|()| match &making.verifier {
            Some(verifier) => store_verifier(run, export, &opened, verifier),
            None => Ok(()),
        });
    if let Err(stop) = furnished {
        remove_new_file(run, export, &opened);
        return Err(stop);
    }
    Ok((opened, set_by(making)))
}

/// Removes a new file that its client cannot get, so that a second attempt creates it again. The file stays
/// if another client has opened it meanwhile.
fn remove_new_file(run: &Run, export: &Arc<Export>, made: &OpenResult) {
    let engine = &export.engine;
    let item = engine.item_of(&made.open);
    let _ = engine.close(&made.open, run.now);
    if let Ok(session) = run.session() {
        session.client.forget_key(export.id, item.id());
    }
    if let Ok(handle) = handle_of(&run.server, export, &item) {
        run.server.forget_item(&handle);
    }
    let mut request = step_of(AuditedOperation::Remove, opening(&[], Rights::DELETE));
    request.deny = Deny::READ | Deny::WRITE | Deny::DELETE;
    request.options |= Options::DELETE_ON_CLOSE;
    if let Ok(going) = run.ask(export, |engine, caller| engine.create_from(caller, &item, &request)) {
        let _ = engine.close(&going.open, run.now);
    }
}

/// The attributes that a request has set. For an exclusive one they include those that the client should set
/// itself now.
// RFC 8881 18.16.3
fn set_by(making: &CreateParams) -> Bitmap {
    let mut set = making.wanted.mask;
    if making.verifier.is_some() {
        set.insert(AttrNum::TimeAccess.get());
        set.insert(AttrNum::TimeModify.get());
    }
    set
}

/// The times that store a verifier.
fn times_of(verifier: &Verifier) -> (Time, Time) {
    let (low, high) = verifier.split_at(4);
    let seconds =
        |half: &[u8]| half.iter().fold(0, |sum, byte| sum << 8 | i64::from(*byte) & 0xff) & 0x7fff_ffff;
    (Time { secs: seconds(low), nanos: 0 }, Time { secs: seconds(high), nanos: 0 })
}

fn store_verifier(
    run: &Run,
    export: &Arc<Export>,
    opened: &OpenResult,
    verifier: &Verifier,
) -> Result<(), Stop> {
    let (accessed, modified) = times_of(verifier);
    let basic = Basic {
        accessed: Some(TimeSet::Set(accessed)),
        modified: Some(TimeSet::Set(modified)),
        ..Basic::default()
    };
    run.ask_now(export, |engine, caller| engine.set_first_basic(caller, &opened.open, basic))?;
    // Writes through the open change the times again.
    let thaw = Basic { accessed: Some(TimeSet::Thaw), modified: Some(TimeSet::Thaw), ..Basic::default() };
    run.ask_now(export, |engine, caller| engine.set_first_basic(caller, &opened.open, thaw))
}

/// Opens the file for the open-owner, or extends the owner's open.
fn open_for_owner(
    run: &Run,
    args: &Args<'_>,
    ask: Reservation,
    handle: Handle,
    found: OpenTarget,
) -> Result<StateId, Stop> {
    let client = Arc::clone(&run.session()?.client);
    let owner = args.owner.owner.0;
    let target = StateTarget { client: &client, export: &found.export, item: &found.item, handle };
    let of = target.of(owner);
    if let Some(state) = client.open_of(of) {
        if let Some(made) = &found.made {
            // The file of the owner's old open had the same inode number.
            let _ = found.export.engine.close(&made.open, run.now);
        }
        return extend_open(run, &client, ask, found.cut, &state);
    }
    let reclaims = matches!(args.claim, Claim::Previous(_));
    if reclaims && let Some(state) = claim::take_open(run, target, owner, ask)? {
        return Ok(state.id());
    }
    client.attach(&found.export);
    let Some(key) = states::reserve_charged(run, &client, &found.export, owner) else {
        if let Some(made) = &found.made {
            remove_new_file(run, &found.export, made);
        }
        return Err(NfsStat::Delay.into());
    };
    let opened = match found.made {
        Some(made) => Ok(made),
        None => open_existing(run, &found, ask),
    };
    let opened = opened.inspect_err(|_| run.server.forget_key(key))?;
    let new_state = NewState {
        instance: run.server.config().instance,
        key,
        client: client.id,
        export: Arc::clone(&found.export),
        handle,
        node: opened.open.node_id(),
    };
    let holding = Holding::new(opened.open, ask.access, ask.deny);
    let state = run.server.add_state(LockingState::open(new_state, owner, holding));
    states::finish_adding(run, &state, client.add_open(of, &state))?;
    let modes = state.opened().map(|open| *open.changing.lock()).unwrap_or_default();
    if !enlist(&client, &state, modes) {
        run.server.forget_client_id(&client);
    }
    if reclaims {
        run.server.grace.claimed(client.key, &state, run.now);
    }
    Ok(state.id())
}

fn open_existing(run: &Run, found: &OpenTarget, ask: Reservation) -> Result<OpenResult, Stop> {
    let (export, item) = (&found.export, &found.item);
    if ask.access.contains(ShareAccess::WRITE) {
        run.check_writable(export)?;
    }
    let (access, deny) = (rights(ask.access), denial(ask.deny)?);
    let wider = access | if found.cut { Rights::WRITE_DATA } else { Rights::empty() };
    let open = |access| {
        let mut request = opening_own(run, export, item.id(), &[], access)?;
        request.deny = deny;
        run.ask(export, |engine, caller| match found.just_found {
            true => engine.create_found(caller, item, &request),
            false => engine.create_from(caller, item, &request),
        })
    };
    let mut opened = match open(wider) {
        Err(Stop::Fail(NfsStat::Access))
            if wider == rights(ShareAccess::READ) && may_run(run, export, item)? =>
        {
            open(Rights::EXECUTE)?
        }
        other => other?,
    };
    if found.cut {
        let done = truncate(run, export, &opened.open).and_then(|()| {
            if wider != access {
                opened.open = amend_rights(run, export, &opened.open, access, deny)?;
            }
            Ok(())
        });
        if let Err(stop) = done {
            let _ = export.engine.close(&opened.open, run.now);
            return Err(stop);
        }
    }
    Ok(opened)
}

/// Whether the user may execute the file and may therefore read it. It could not be executed otherwise.
// RFC 8881 6.2.1.3.1
fn may_run(run: &Run, export: &Arc<Export>, item: &Item) -> Result<bool, Stop> {
    Ok(access::granted(run, export, item)?.contains(AccessBits::EXECUTE))
}

/// Truncates the open file. Only now is it certain that the request succeeds.
fn truncate(run: &Run, export: &Arc<Export>, open: &Arc<share::Open>) -> Result<(), Stop> {
    run.ask(export, |engine, caller| engine.set_size(caller, open, 0))
}

/// The same open with these rights and denials.
fn amend_rights(
    run: &Run,
    export: &Arc<Export>,
    open: &Arc<share::Open>,
    access: Rights,
    deny: Deny,
) -> Result<Arc<share::Open>, Stop> {
    run.ask(export, |engine, caller| engine.change_access(caller, open, access, deny))
}

/// Extends an owner's open, and truncates the file if asked to.
fn extend_open(
    run: &Run,
    client: &Client,
    ask: Reservation,
    cuts: bool,
    state: &Arc<LockingState>,
) -> Result<StateId, Stop> {
    let open = state.opened().ok_or(NfsStat::ServerFault)?;
    let mut modes = open.changing.lock();
    let holding = state.holding();
    let (access, deny) = (holding.access | ask.access, holding.deny | ask.deny);
    let (export, before) = (&state.export, &holding.open);
    // Read access may rest on the right to execute the file, so it is not requested again.
    let reads_again = ask.access == ShareAccess::READ && holding.access.contains(ShareAccess::READ);
    let adds = if reads_again { Rights::empty() } else { rights(ask.access) };
    let (mut wanted, denied) = (adds | before.granted(), denial(deny)?);
    let wider = wanted | if cuts { Rights::WRITE_DATA } else { Rights::empty() };
    let is_more = (access, deny) != (holding.access, holding.deny);
    let mut amended = Arc::clone(before);
    if is_more || wider != wanted {
        if access.contains(ShareAccess::WRITE) {
            run.check_writable(export)?;
        }
        amended = match amend_rights(run, export, before, wider, denied) {
            Err(Stop::Fail(NfsStat::Access))
                if adds == rights(ShareAccess::READ)
                    && may_run(run, export, &export.engine.item_of(before))? =>
            {
                wanted = before.granted() | Rights::EXECUTE;
                amend_rights(run, export, before, wanted, denied)?
            }
            other => other?,
        };
    }
    if cuts && let Err(stop) = truncate(run, export, &amended) {
        // Restore the open. Releasing what was added conflicts with nobody.
        if !Arc::ptr_eq(&amended, before) {
            let back =
                amend_rights(run, export, &amended, before.granted(), before.deny()).unwrap_or(amended);
            open.hold(Holding::new(back, holding.access, holding.deny));
        }
        return Err(stop);
    }
    if wider != wanted {
        amended = amend_rights(run, export, &amended, wanted, denied).unwrap_or(amended);
    }
    if !Arc::ptr_eq(&amended, before) {
        open.hold(Holding::new(amended, access, deny));
    }
    modes.add(ask.access, ask.deny);
    let id = if !is_more && state.awaits_repeat() {
        state.settle(true);
        state.id()
    } else {
        client.note_opened(state);
        state.next_id()
    };
    // The client must not miss a stateid after a restart, so an OPEN that changes nothing else counts too.
    match is_more {
        // What a client has reclaimed so far is not all that it had.
        false if !client.has_reclaimed() => {}
        false => note_again(client, state, *modes),
        true if enlist(client, state, *modes) => {}
        true => run.server.forget_client_id(client),
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_is_kept_in_two_times_that_every_file_system_holds() {
        let (first, second) = times_of(&[0x12, 0x34, 0x56, 0x78, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!((first.secs, second.secs), (0x1234_5678, 0x7fff_ffff));
        assert_eq!((first.nanos, second.nanos), (0, 0));
    }
}
