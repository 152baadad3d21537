//! Opening: the target of a path is opened, replaced or created.
//!
//! There are three steps. [`Share::walk`] finds the target. `existing` or `new_object` decides, and reserves
//! the open among the others. Only then anything is changed. A request that has to wait has changed nothing.

use std::cell::Cell;
use std::sync::Arc;

use volume::security::Rights;
use volume::{NodeId, NodeKind, OpenHow};

use crate::engine::Share;
use crate::engine::lookup::item::{Item, LookupTime};
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::lookup::walk::WalkTarget;
use crate::engine::operations::reservation::{Attempt, OpenCandidate};
use crate::engine::parts::followed_links::{FollowedLinks, LinkTrail};
use crate::engine::services::expiry::is_conflict;
use crate::engine::services::freshness::LookupCounters;
use crate::memory::OPEN_BYTES;
use crate::{AuditClasses, CallResult, Caller, Disposition, OpenRequest, OpenResult, Options, Refusal};

/// How often a request starts again because names changed during it.
pub(crate) const MAX_ATTEMPTS: usize = 16;

impl Share {
    /// Opens, replaces or creates the target of a path.
    // MS-FSA 2.1.5.1
    pub fn create(&self, caller: &Caller<'_>, request: &OpenRequest<'_>) -> CallResult<OpenResult> {
        self.create_at(caller, None, request)
    }

    /// As [`Share::create`], from an item that was found before; none: from the root.
    pub(crate) fn create_at(
        &self,
        caller: &Caller<'_>,
        from: Option<(&Item, LookupTime)>,
        request: &OpenRequest<'_>,
    ) -> CallResult<OpenResult> {
        let met = Cell::new(None);
        let files = || Vec::from_iter(met.get());
        let ask = || self.create_now(caller, from, request, &met);
        let result = self.retry_past_expired(caller, files, is_conflict, ask);
        if self.audits(AuditClasses::all()) {
            self.audit_create(caller, from.map(|(item, _)| item), request, &result);
        }
        result
    }

    fn create_now(
        &self,
        caller: &Caller<'_>,
        from: Option<(&Item, LookupTime)>,
        request: &OpenRequest<'_>,
        met: &Cell<Option<NodeId>>,
    ) -> CallResult<OpenResult> {
        self.begin(caller.cause());
        if let Some(caching) = &request.caching
            && let Err(why) = self.restore_holder(&(caller.client, caching.key, caching.keyed))
        {
            return CallResult::Refused(why);
        }
        let checked = match self.check_request(request) {
            Err(Refusal::Exhausted) if self.relieve(caller.now) => self.check_request(request),
            other => other,
        };
        let checked = checked.and_then(|()| self.check_memory(caller, OPEN_BYTES));
        if let Err(why) = checked.and_then(|()| self.check_fairness(caller)) {
            return CallResult::Refused(why);
        }
        let (mut from, mut made_room) = (from, 0);
        for _ in 0..MAX_ATTEMPTS {
            match self.past_shortage(caller.now, || self.attempt(caller, from, request, met)) {
                Ok(Attempt::Done(opened)) => return CallResult::Done(*opened),
                // The open in conflict may have gone when it was asked.
                Ok(Attempt::Wait(ticket)) if self.waits().is_over(ticket) => {}
                Ok(Attempt::Wait(ticket)) => return CallResult::Wait(ticket),
                Ok(Attempt::Again) => {}
                Err(Refusal::NoSpace)
                    if self.make_recycle_room(
                        met.get().unwrap_or(self.root().id),
                        request.allocation,
                        made_room,
                        caller.cause(),
                    ) =>
                {
                    made_room += 1;
                }
                Err(Refusal::HostKeeps) => return self.try_later(caller),
                Err(why) => return CallResult::Refused(why),
            }
            // Time has passed: the name by which an item was found may lead to another object now.
            from = from.map(|(item, _)| (item, LookupTime::Before));
        }
        CallResult::Refused(Refusal::Busy)
    }

    // MS-FSA 2.1.5.1
    fn check_request(&self, request: &OpenRequest<'_>) -> Result<(), Refusal> {
        let options = request.options;
        if options.contains(Options::DIRECTORY | Options::NOT_DIRECTORY) {
            return Err(Refusal::Invalid);
        }
        if options.contains(Options::DELETE_ON_CLOSE)
            && !request.access.mapped().intersects(Rights::DELETE | Rights::MAXIMUM_ALLOWED)
        {
            return Err(Refusal::Invalid);
        }
        if options.contains(Options::DIRECTORY) {
            let makes_only = [Disposition::Create, Disposition::Open, Disposition::OpenOrCreate];
            if !makes_only.contains(&request.disposition) {
                return Err(Refusal::Invalid);
            }
            if request.stream.is_some() {
                return Err(Refusal::NotADirectory);
            }
        }
        if request.stream.is_some() && !self.settings().streams {
            return Err(Refusal::BadName);
        }
        if self.open_count() >= self.settings().max_opens {
            return Err(Refusal::Exhausted);
        }
        Ok(())
    }

    fn attempt(
        &self,
        caller: &Caller<'_>,
        from: Option<(&Item, LookupTime)>,
        request: &OpenRequest<'_>,
        met: &Cell<Option<NodeId>>,
    ) -> Result<Attempt, Refusal> {
        let existing = |target: OpenCandidate| {
            met.set(Some(target.node.id()));
            self.open_existing(caller, request, target)
        };
        let from = match from {
            Some((item, seen)) if request.path.is_empty() => {
                return existing(self.target_of(item, seen, how_for(request))?);
            }
            Some((item, _)) => Some(self.start(caller, item)?),
            None => None,
        };
        let search = Search {
            exact: self.is_exact(request.options),
            how: how_for(request),
            rather_missing: request.disposition == Disposition::Create
                || matches!(request.disposition, Disposition::OverwriteOrCreate | Disposition::Supersede),
        };
        let since = self.lookup_counters();
        let (found, trail) = self.find_requested(caller, from.as_ref(), request, search)?;
        let is_link = found.kind() == Some(NodeKind::Link);
        if trail.holders.is_empty() && !is_link {
            return self.attempt_on(caller, request, found, since, met);
        }
        self.attempt_by_link(caller, request, found, trail, since, met)
    }

    /// Opens the target, or creates it.
    fn attempt_on(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        found: WalkTarget,
        since: LookupCounters,
        met: &Cell<Option<NodeId>>,
    ) -> Result<Attempt, Refusal> {
        let existing = |target: OpenCandidate| {
            met.set(Some(target.node.id()));
            self.open_existing(caller, request, target)
        };
        match found {
            WalkTarget::Root(root) => {
                let node = root.node.open_again(OpenHow::Read)?;
                existing(OpenCandidate::of(None, node, false))
            }
            WalkTarget::There { parent, found } => {
                let ResolvedName { name, node, seen, is_from_memory, .. } = found;
                let target = OpenCandidate::of(Some((parent, name)), node, false);
                existing(OpenCandidate { seen, is_from_memory, since, ..target })
            }
            WalkTarget::Missing { .. }
                if matches!(request.disposition, Disposition::Open | Disposition::Overwrite) =>
            {
                Err(Refusal::NotFound)
            }
            WalkTarget::Missing { parent, name } => {
                met.set(Some(parent.id));
                self.open_new(caller, request, &parent, &name)
            }
        }
    }

    /// Opens a link, or a target that was found through links. With delete on close, the last name of the
    /// path is the one that is removed.
    fn attempt_by_link(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        found: WalkTarget,
        mut trail: LinkTrail,
        since: LookupCounters,
        met: &Cell<Option<NodeId>>,
    ) -> Result<Attempt, Refusal> {
        let mut inner = request.clone();
        if let WalkTarget::There { parent, found } = &found
            && found.node.kind() == NodeKind::Link
            && !request.options.contains(Options::STOP_AT_LINKS)
        {
            // A request for the link itself may name a link of either kind.
            let is_asked_for = request.options.contains(Options::OPEN_LINK);
            let either = if is_asked_for { Options::NOT_DIRECTORY } else { Options::empty() };
            self.check_link_target(caller, parent, &found.name, &found.node, request.options - either)?;
            inner.options -= Options::DIRECTORY | Options::NOT_DIRECTORY;
            trail.last = None;
        }
        let goes = request.options.contains(Options::DELETE_ON_CLOSE) && found.kind().is_some();
        if goes {
            self.check_may_remove(&trail, false)?;
        }
        let link_goes = goes && trail.last.is_some();
        inner
            .options
            .set(Options::DELETE_ON_CLOSE, inner.options.contains(Options::DELETE_ON_CLOSE) && !link_goes);
        inner.options.set(Options::BY_LINK, !trail.holders.is_empty());
        let opened = match self.attempt_on(caller, &inner, found, since, met)? {
            Attempt::Done(opened) => opened,
            other => return Ok(other),
        };
        if !trail.holders.is_empty() {
            let _ = opened.open.followed.set(FollowedLinks::of(trail, opened.outcome));
        }
        if !link_goes {
            return Ok(Attempt::Done(opened));
        }
        let at_once = request.options.contains(Options::DELETE_AT_ONCE);
        let marked = self.set_delete(caller, &opened.open, true, at_once, false);
        if !matches!(marked, CallResult::Done(())) {
            let _nothing_goes = self.close(&opened.open, caller.cause());
        }
        match marked {
            CallResult::Done(()) => Ok(Attempt::Done(opened)),
            CallResult::Wait(ticket) => Ok(Attempt::Wait(ticket)),
            CallResult::Refused(why) => Err(why),
        }
    }

    /// The target of a request that opens the item itself.
    pub(crate) fn target_of(
        &self,
        item: &Item,
        seen: LookupTime,
        how: OpenHow,
    ) -> Result<OpenCandidate, Refusal> {
        let node = if item.node.how() >= how { Arc::clone(&item.node) } else { item.node.open_again(how)? };
        let first = if seen == LookupTime::JustNow && item.is_asked { item.node.first_stat() } else { None };
        let is_from_memory = seen == LookupTime::JustNow && item.is_from_memory;
        let since = if seen == LookupTime::JustNow { item.since } else { self.lookup_counters() };
        let target = OpenCandidate::found_before(item.place_if(seen), node);
        Ok(OpenCandidate { seen: first, is_from_memory, since, ..target })
    }
}

/// The access for the last component: data only if the requested rights need it.
fn how_for(request: &OpenRequest<'_>) -> OpenHow {
    let access = request.access.mapped();
    let replaces = matches!(
        request.disposition,
        Disposition::Supersede | Disposition::Overwrite | Disposition::OverwriteOrCreate
    );
    if request.stream.is_some() {
        OpenHow::Attributes
    } else if replaces || access.intersects(Rights::WRITE_DATA | Rights::APPEND_DATA) {
        OpenHow::ReadWrite
    } else if access.intersects(Rights::READ_DATA | Rights::EXECUTE) {
        OpenHow::Read
    } else {
        OpenHow::Attributes
    }
}
