//! Opening: what a path leads to is opened, replaced or made.
//!
//! Three steps: [`Share::walk`] finds the place, `existing` or `fresh` decides and reserves the open
//! among the others, and only then anything is changed. A request that has to wait has changed nothing.

use std::cell::Cell;
use std::sync::Arc;

use volume::security::Rights;
use volume::{NodeId, NodeKind, OpenHow};

use crate::engine::Share;
use crate::engine::finding::item::{Item, Seen};
use crate::engine::finding::look_up::{Named, Search};
use crate::engine::finding::walk::Found;
use crate::engine::operations::reserved::{Attempt, Target};
use crate::engine::parts::trail::{Followed, Trail};
use crate::engine::services::lapsed::is_held;
use crate::engine::services::since::Since;
use crate::memory::OPEN_BYTES;
use crate::{Caller, Disposition, OpenRequest, Opened, Options, Refusal, Step};

/// How often a request is begun again because names changed under it.
pub(crate) const MAX_ATTEMPTS: usize = 16;

impl Share {
    /// Opens, replaces or makes what a path leads to.
    // MS-FSA 2.1.5.1
    pub fn create(&self, caller: &Caller<'_>, request: &OpenRequest<'_>) -> Step<Opened> {
        self.create_at(caller, None, request)
    }

    /// The same from a place that was found before; none: from the root.
    pub(crate) fn create_at(
        &self,
        caller: &Caller<'_>,
        from: Option<(&Item, Seen)>,
        request: &OpenRequest<'_>,
    ) -> Step<Opened> {
        let met = Cell::new(None);
        let files = || Vec::from_iter(met.get());
        self.past_lapsed(caller, files, is_held, || self.create_now(caller, from, request, &met))
    }

    fn create_now(
        &self,
        caller: &Caller<'_>,
        from: Option<(&Item, Seen)>,
        request: &OpenRequest<'_>,
        met: &Cell<Option<NodeId>>,
    ) -> Step<Opened> {
        self.begin(caller.cause());
        let checked = match self.check_request(request) {
            Err(Refusal::Exhausted) if self.relieve(caller.now) => self.check_request(request),
            other => other,
        };
        let checked = checked.and_then(|()| self.check_memory(caller, OPEN_BYTES));
        if let Err(why) = checked.and_then(|()| self.check_fairness(caller)) {
            return Step::Refused(why);
        }
        let mut from = from;
        for _ in 0..MAX_ATTEMPTS {
            match self.past_shortage(caller.now, || self.attempt(caller, from, request, met)) {
                Ok(Attempt::Done(opened)) => return Step::Done(*opened),
                // Who was in the way may have gone when it was asked.
                Ok(Attempt::Wait(ticket)) if self.waits().is_over(ticket) => {}
                Ok(Attempt::Wait(ticket)) => return Step::Wait(ticket),
                Ok(Attempt::Again) => {}
                Err(Refusal::HostKeeps) => return self.try_later(caller),
                Err(why) => return Step::Refused(why),
            }
            // Time has gone by: the name that an item was found by may lead to something else now.
            from = from.map(|(item, _)| (item, Seen::Before));
        }
        Step::Refused(Refusal::Busy)
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
        from: Option<(&Item, Seen)>,
        request: &OpenRequest<'_>,
        met: &Cell<Option<NodeId>>,
    ) -> Result<Attempt, Refusal> {
        let existing = |target: Target| {
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
        let since = self.since_now();
        let (found, trail) = self.find_asked(caller, from.as_ref(), request, search)?;
        let is_link = found.kind() == Some(NodeKind::Link);
        if trail.holders.is_empty() && !is_link {
            return self.attempt_on(caller, request, found, since, met);
        }
        self.attempt_by_link(caller, request, found, trail, since, met)
    }

    /// Opens what was found, or makes it.
    fn attempt_on(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        found: Found,
        since: Since,
        met: &Cell<Option<NodeId>>,
    ) -> Result<Attempt, Refusal> {
        let existing = |target: Target| {
            met.set(Some(target.node.id()));
            self.open_existing(caller, request, target)
        };
        match found {
            Found::Root(root) => {
                let node = root.node.open_again(OpenHow::Read)?;
                existing(Target::of(None, node, false))
            }
            Found::There { parent, found } => {
                let Named { name, node, seen, is_from_memory, .. } = found;
                let target = Target::of(Some((parent, name)), node, false);
                existing(Target { seen, is_from_memory, since, ..target })
            }
            Found::Missing { .. }
                if matches!(request.disposition, Disposition::Open | Disposition::Overwrite) =>
            {
                Err(Refusal::NotFound)
            }
            Found::Missing { parent, name } => {
                met.set(Some(parent.id));
                self.open_new(caller, request, &parent, &name)
            }
        }
    }

    /// The same for a link, and for what was found by way of links: what is to go when it is closed is the name that the
    /// path ends with.
    fn attempt_by_link(
        &self,
        caller: &Caller<'_>,
        request: &OpenRequest<'_>,
        found: Found,
        mut trail: Trail,
        since: Since,
        met: &Cell<Option<NodeId>>,
    ) -> Result<Attempt, Refusal> {
        let mut inner = request.clone();
        if let Found::There { parent, found } = &found
            && found.node.kind() == NodeKind::Link
            && !request.options.contains(Options::STOP_AT_LINKS)
        {
            // Who asks for the link itself may call it either.
            let is_asked_for = request.options.contains(Options::OPEN_LINK);
            let either = if is_asked_for { Options::NOT_DIRECTORY } else { Options::empty() };
            self.check_led_to(caller, parent, &found.name, &found.node, request.options - either)?;
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
            let _ = opened.open.followed.set(Followed::of(trail, opened.outcome));
        }
        if !link_goes {
            return Ok(Attempt::Done(opened));
        }
        let at_once = request.options.contains(Options::DELETE_AT_ONCE);
        let marked = self.set_delete(caller, &opened.open, true, at_once, false);
        if !matches!(marked, Step::Done(())) {
            let _nothing_goes = self.close(&opened.open, caller.cause());
        }
        match marked {
            Step::Done(()) => Ok(Attempt::Done(opened)),
            Step::Wait(ticket) => Ok(Attempt::Wait(ticket)),
            Step::Refused(why) => Err(why),
        }
    }

    /// What is opened when the item itself is.
    pub(crate) fn target_of(&self, item: &Item, seen: Seen, how: OpenHow) -> Result<Target, Refusal> {
        let node = if item.node.how() >= how { Arc::clone(&item.node) } else { item.node.open_again(how)? };
        let first = if seen == Seen::JustNow && item.is_asked { item.node.first_stat() } else { None };
        let is_from_memory = seen == Seen::JustNow && item.is_from_memory;
        let since = if seen == Seen::JustNow { item.since } else { self.since_now() };
        let target = Target::found_before(item.place_if(seen), node);
        Ok(Target { seen: first, is_from_memory, since, ..target })
    }
}

/// What the last component is opened for: data only where the rights asked for it.
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
