//! The delegation that OPEN grants (RFC 8881 10.4).

use std::sync::Arc;

use nfs_wire::attr::{Ace, AceFlags, AceMask, AceType};
use nfs_wire::op::open::{
    Delegation, DelegationType, ReadDelegation, ShareAccess, SpaceLimit, WhyNone, WriteDelegation,
};
use share::{AuditedOperation, Caching, Options};

use super::claim::{DelegationReclaim, is_held, take_delegation};
use super::names::{opening, step_of};
use super::states::{self, StateTarget};
use crate::compound::{Run, Stop};
use crate::state::delegated_times::DelegatedBaseline;
use crate::state::open::{Holding, Modes};
use crate::state::record::{enlist, note_again};
use crate::state::share_reservation::rights;
use crate::state::stateid::{LockingState, NewState};

/// The type of the delegation, and whether its holder keeps the times.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GrantKind {
    Read,
    Write,
    /// A write delegation with the times.
    WriteWithTimes,
}

/// The bits that name the delegation that the client wants.
const WANTED: ShareAccess = ShareAccess::from_bits_retain(nfs_wire::op::open::WANT_DELEG_MASK);

/// Whether the client wants a write delegation. The error says that it wants none.
fn wanted(asked: ShareAccess) -> Result<bool, WhyNone> {
    let writes = asked.contains(ShareAccess::WRITE);
    match asked & WANTED {
        want if want.is_empty() => Ok(writes),
        ShareAccess::WANT_READ_DELEG => Ok(false),
        ShareAccess::WANT_WRITE_DELEG => Ok(true),
        ShareAccess::WANT_ANY_DELEG => Ok(writes),
        ShareAccess::WANT_CANCEL => Err(WhyNone::Cancelled),
        _ => Err(WhyNone::NotWanted),
    }
}

/// The delegation that an OPEN grants, or the reason why it grants none. The caller holds the lock on the
/// client's states of the file.
pub fn delegate(run: &Run, target: StateTarget<'_>, asked: ShareAccess) -> Delegation<'static> {
    let StateTarget { client, export, item, .. } = target;
    let says_want = !(asked & WANTED).is_empty();
    let none = |why| if says_want { Delegation::NoneExt(why) } else { Delegation::None };
    let write = match wanted(asked) {
        Ok(write) => write,
        Err(why) => return none(why),
    };
    // An unrequested write delegation is likely to cost others more than it gains.
    if !says_want && write {
        return Delegation::None;
    }
    let known = client.delegation_of(export.id, item.id());
    // The client repeats an OPEN whose reply was lost with the server before.
    if let Some(state) = known.as_ref().filter(|state| state.is_resumed() && !state.is_settled())
        && let Some(given) = kind_of(state)
    {
        return granted(state, given);
    }
    if known.is_some() || !client.has_back_channel() {
        return none(WhyNone::Resource(false));
    }
    // A client with a READ delegation does not send new locks to the server. Linux loses a lock that is under
    // way when it returns the delegation. So a client that writes or locks gets none (RFC 8881 10.4.2 leaves
    // that to the server).
    if !write && client.writes_or_locks(export.id, item.id()) {
        return none(WhyNone::Contention(false));
    }
    // For a file that is read once and removed, a delegation is not worth its DELEGRETURN.
    if !says_want && !run.server.reopens.note(client.id, &target.handle) {
        return Delegation::None;
    }
    match grant(run, target, write, asked) {
        Some((state, write)) => {
            let times = write && asked.contains(ShareAccess::WANT_DELEG_TIMESTAMPS);
            granted(&state, with_times(run, target, &state, write, times))
        }
        None => none(WhyNone::Contention(false)),
    }
}

/// The kind of a delegation that was granted before. None if it has lost its right.
fn kind_of(state: &LockingState) -> Option<GrantKind> {
    let (holding, delegation) = (state.holding(), state.delegation()?);
    let is_write = holding.access.contains(ShareAccess::WRITE);
    is_held(&holding.open, is_write).then(|| match delegation.before() {
        Some(_) => GrantKind::WriteWithTimes,
        None if is_write => GrantKind::Write,
        None => GrantKind::Read,
    })
}

/// Hands the times over with the delegation if the client wants that. With a READ delegation the server keeps
/// them: setting the access time changes the change attribute, so every client would drop its cache of the
/// file (utimensat(2)).
// RFC 9754 5
fn with_times(
    run: &Run,
    target: StateTarget<'_>,
    state: &Arc<LockingState>,
    write: bool,
    times: bool,
) -> GrantKind {
    if !write {
        return GrantKind::Read;
    }
    let info = if times { state.export.engine.item_info(target.item).ok() } else { None };
    match (info, state.delegation()) {
        (Some(info), Some(delegation)) => {
            delegation.keep_times(DelegatedBaseline::of(&info));
            run.server.proxies.add(state);
            note_again(target.client, state, Modes::default());
            GrantKind::WriteWithTimes
        }
        _ => GrantKind::Write,
    }
}

/// The delegation that a client had before the restart, or the reason why it has none now.
///
/// # Errors
/// NFS4ERR_DELAY.
// RFC 8881 10.2.1, 18.16.3
pub fn delegate_again(
    run: &Run,
    target: StateTarget<'_>,
    had: DelegationType,
    asked: ShareAccess,
) -> Result<Delegation<'static>, Stop> {
    let StateTarget { client, export, item, .. } = target;
    let timestamps = ShareAccess::WANT_DELEG_TIMESTAMPS;
    let (write, want) = match had {
        DelegationType::Write => (true, ShareAccess::WANT_WRITE_DELEG),
        DelegationType::WriteAttrs => (true, ShareAccess::WANT_WRITE_DELEG | timestamps),
        DelegationType::Read | DelegationType::ReadAttrs => (false, ShareAccess::WANT_READ_DELEG),
        // The client may get a new delegation, as with any OPEN.
        _ if (asked & WANTED).is_empty() => return Ok(Delegation::None),
        _ => return Ok(delegate(run, target, asked)),
    };
    let known = client.delegation_of(export.id, item.id());
    let known = known.filter(|state| {
        state.holding().access.contains(ShareAccess::WRITE) == write && is_held(&state.holding().open, write)
    });
    let taken = match known {
        Some(state) => DelegationReclaim::Held(state),
        None => take_delegation(run, target, write)?,
    };
    Ok(match taken {
        DelegationReclaim::Held(state) => {
            let times = had == DelegationType::WriteAttrs;
            granted(&state, with_times(run, target, &state, write, times))
        }
        // The client would take a new delegation for the old one, and go on using its old cache.
        DelegationReclaim::Lost if (asked & WANTED).is_empty() => Delegation::None,
        DelegationReclaim::Lost => Delegation::NoneExt(WhyNone::Contention(false)),
        DelegationReclaim::Unknown => delegate(run, target, (asked - WANTED - timestamps) | want),
    })
}

/// Asks the engine for the right, with an open of its own that outlives the client's open.
fn grant(
    run: &Run,
    target: StateTarget<'_>,
    write: bool,
    asked: ShareAccess,
) -> Option<(Arc<LockingState>, bool)> {
    let StateTarget { client, export, item, handle } = target;
    let wants = |write: bool| {
        let right = Caching::READ | Caching::HANDLE;
        if write { right | Caching::WRITE } else { right }
    };
    let access = if write { asked | ShareAccess::READ } else { ShareAccess::READ };
    let mut request = step_of(AuditedOperation::Open, opening(&[], rights(access)));
    request.options |= Options::UNSHARED_METADATA | Options::NO_WAIT_FOR_BREAK;
    request.caching = Some(client.caching(export.id, item.id(), wants(write)));
    let opened = run.ask(export, |engine, caller| engine.create_from(caller, item, &request)).ok()?;
    let given = opened.granted.map_or(Caching::empty(), |grant| grant.state);
    let has_write = given.contains(wants(true));
    let is_enough = if write { has_write } else { given.contains(wants(false)) };
    let key = if is_enough { states::reserve_charged(run, client, export, &[]) } else { None };
    let Some(key) = key else {
        // The open removes no name when it is closed.
        let _ = export.engine.close(&opened.open, run.now);
        return None;
    };
    let (instance, export, node) = (run.server.config().instance, Arc::clone(export), item.id());
    let new_state = NewState { instance, key, client: client.id, export, handle, node };
    let holding =
        Holding::new(opened.open, access & ShareAccess::BOTH, nfs_wire::op::open::ShareDeny::empty());
    let state = run.server.add_state(LockingState::delegated(new_state, &client.revoked, holding));
    states::finish_adding(run, &state, client.add_delegation(&state)).ok()?;
    // A break that came before the state was added here found no delegation.
    let held = state.holding().open.caching();
    if !held.is_some_and(|grant| grant.breaking.is_none() && grant.state.contains(wants(write))) {
        run.server.end_delegation(client, &state, run.now);
        return None;
    }
    if !enlist(client, &state, Modes::default()) {
        run.server.forget_client_id(client);
    }
    Some((state, write))
}

/// The delegation for the reply.
fn granted(state: &LockingState, given: GrantKind) -> Delegation<'static> {
    let stateid = state.id();
    // Every open is checked by the server: the client alone lets nobody in.
    let permissions = Ace {
        ace_type: AceType::Denied,
        flag: AceFlags::empty(),
        access_mask: AceMask::empty(),
        who: b"EVERYONE@",
    };
    let space_limit = SpaceLimit::Size(u64::MAX);
    let write = WriteDelegation { stateid, recall: false, space_limit, permissions };
    match given {
        GrantKind::Read => Delegation::Read(ReadDelegation { stateid, recall: false, permissions }),
        GrantKind::Write => Delegation::Write(write),
        GrantKind::WriteWithTimes => Delegation::WriteAttrs(write),
    }
}
