//! A change of the rights of an open and of the access that it denies to others. It stays the same open.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use volume::security::Rights;

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::engine::operations::reservation::how_for_rights;
use crate::engine::parts::file::{FileState, counted, only_looks};
use crate::engine::services::audit::AuditedStep;
use crate::engine::values::effects::Effects;
use crate::ranked::{Mutex, Rank, RwLock};
use crate::{AuditDetail, AuditedOperation, CallResult, Caller, Deny, Open, Refusal};

impl Share {
    /// Replaces the rights and denials of an open of a file's own data. The returned open takes the place of
    /// `open`, which must not be used for anything new any more. Its byte ranges, caching right and name are
    /// the same.
    pub fn change_access(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        access: Rights,
        deny: Deny,
    ) -> CallResult<Arc<Open>> {
        let changed = self.retry_past_expired_at(open.file.id, caller, || {
            self.change_access_now(caller, open, access, deny)
        });
        if open.granted.contains(access) {
            return changed;
        }
        let step = AuditedStep::with(AuditedOperation::Open, AuditDetail::Rights(access));
        self.audited(caller, open, step, changed)
    }

    fn change_access_now(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        access: Rights,
        deny: Deny,
    ) -> CallResult<Arc<Open>> {
        match self.check_amendment(caller, open, access) {
            Ok(()) => {}
            Err(why) => return CallResult::Refused(why),
        }
        let how = how_for_rights(access);
        let node = match self.with_room(|| self.shared_node(&open.file, &open.node, how)) {
            Ok(node) => node,
            Err(why) => return CallResult::Refused(why),
        };
        let adds = access - open.granted;
        let mut effects = Effects::default();
        let mut state = open.file.state.lock();
        // More rights need the same checks as opening the file. Giving rights up is always possible.
        let goes =
            open.link.as_ref().and_then(|link| state.link(link)).is_some_and(|entry| entry.delete.is_some());
        if !adds.is_empty() && goes {
            return CallResult::Refused(Refusal::DeletePending);
        }
        let shares = |state: &FileState| {
            state.shares_but_for(open.id, &open.stream, counted(access, open.options), deny)
        };
        let is_shared = shares(&state);
        let writes = adds.intersects(Rights::WRITE_DATA | Rights::APPEND_DATA);
        let need = match (is_shared, writes) {
            (false, _) => Need::CloseKept,
            (true, true) => Need::OpenToWrite,
            (true, false) => Need::Open,
        };
        let asks = !is_shared || !adds.is_empty();
        let entry = state.stream(&open.stream);
        let step = if asks
            && self.require(&open.file, entry, &open.requester(), need, caller.cause(), &mut effects)
        {
            self.park(caller, &open.file, &mut state, Refusal::SharingConflict)
        } else if !is_shared {
            CallResult::Refused(Refusal::SharingConflict)
        } else {
            let new = Arc::new(successor(open, node, access, deny));
            if let Some(member) = state.members.iter_mut().find(|member| member.id == open.id) {
                member.access = counted(access, open.options);
                member.looks = only_looks(access, open.options);
                member.deny = deny;
                member.open = Arc::downgrade(&new);
            }
            // Requests that waited for a lower denial may go on.
            effects.wakes.append(&mut state.waiting);
            CallResult::Done(new)
        };
        drop(state);
        self.settle(effects);
        step
    }

    fn check_amendment(&self, caller: &Caller<'_>, open: &Open, access: Rights) -> Result<(), Refusal> {
        if open.is_closed() {
            return Err(Refusal::Gone);
        }
        if open.stream.is_named || open.is_directory() {
            return Err(Refusal::Invalid);
        }
        let adds = access - open.granted;
        if adds.is_empty() {
            return Ok(());
        }
        let properties = self.properties(&open.file, open.node.as_ref(), None, None)?;
        let parent = open.link.as_ref().map(|link| link.parent_and_name().0);
        self.rights_on(caller, &properties.security, parent.as_ref(), adds, open.options).map(|_| ())
    }
}

/// The same open with other rights.
fn successor(open: &Open, node: Arc<dyn volume::Node>, granted: Rights, deny: Deny) -> Open {
    let party = open.party.read().clone();
    Open {
        id: open.id,
        file: Arc::clone(&open.file),
        stream: Arc::clone(&open.stream),
        data: Arc::clone(&node),
        node: node.into(),
        link: open.link.clone(),
        granted,
        deny,
        options: open.options,
        party: RwLock::new(Rank::Party, party),
        opened_at: open.opened_at,
        closed: AtomicBool::new(false),
        detached: AtomicBool::new(open.is_detached()),
        persistent: AtomicBool::new(open.is_persistent()),
        claimed: AtomicBool::new(open.claimed.load(Ordering::Relaxed)),
        fixed_times: AtomicU8::new(open.fixed_times.load(Ordering::Relaxed)),
        unreported: AtomicU32::new(open.unreported.swap(0, Ordering::AcqRel)),
        told_failures: AtomicU64::new(open.told_failures.load(Ordering::Acquire)),
        followed: OnceLock::new(),
        watch: Mutex::new(Rank::OpenWatch, open.watch.lock().take()),
        charge: Mutex::new(Rank::OpenCharge, open.charge.lock().clone()),
        audited: open.audited.hand_over(),
    }
}
