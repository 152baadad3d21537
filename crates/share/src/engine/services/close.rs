//! Closing an open: the release of everything it held, and the removal of names that are marked for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::audit::is_denial;
use crate::caching::grants::{Need, Requester};
use crate::engine::Share;
use crate::engine::parts::file::{Deletion, File, FileState, HardLinkedName};
use crate::engine::services::audit::{AuditedParty, AuditedPath, AuditedStep};
use crate::engine::services::recycle::{RecycleResult, Removal};
use crate::engine::values::effects::Effects;
use crate::open::OpenParty;
use crate::{AuditClasses, AuditedOperation, Cause, ChangeFilter, ChangeKind, Open, Options, Refusal};

/// The objects that are removed with an open.
#[derive(Default)]
struct PendingRemoval {
    /// A name, and whether only this open removes it.
    link: Option<Arc<HardLinkedName>>,
    /// A named stream.
    stream: Option<volume::Name>,
    /// The origin of the request that marked the name.
    deleter: Option<Requester>,
    /// The user as whom the host removes it, and the client.
    deletes_as: Option<OpenParty>,
    /// Whether the close marks a name that stays while others have it open.
    marks: bool,
}

impl PendingRemoval {
    /// Whether a name or a stream is to be removed.
    fn is_something(&self) -> bool {
        self.link.is_some() || self.stream.is_some()
    }
}

impl Share {
    /// Closes an open: its byte ranges, caching right and watch end, and the objects marked for removal with
    /// it are removed. Closing again does nothing.
    ///
    /// # Errors
    /// The error of the host if a name cannot be removed. The open is closed all the same.
    // MS-FSA 2.1.5.5
    pub fn close(&self, open: &Arc<Open>, cause: impl Into<Cause>) -> Result<(), Refusal> {
        let cause = cause.into();
        let link = open.followed.get().and_then(|followed| followed.take_link());
        let closed = self.close_itself(open, cause);
        match link {
            Some(link) => closed.and(self.close_itself(&link, cause)),
            None => closed,
        }
    }

    fn close_itself(&self, open: &Arc<Open>, cause: Cause) -> Result<(), Refusal> {
        let now = cause.now;
        if open.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.open_files().count_closed();
        let fairness = self.descriptors().fairness();
        // An open without a descriptor is not counted.
        if fairness.counts() && !open.data.is_closed() {
            fairness.closed(open.client(), now);
        }
        self.forget_detached(open);
        self.report_pending(open, cause);
        self.end_watch(open);
        if open.options.contains(Options::DELETE_ON_CLOSE) {
            self.end_expired_sharers(open, cause);
        }
        let (going, effects) = self.take_out(open, cause);
        if open.is_directory() && open.file.is_deleted(open.link.as_ref()) {
            self.end_watches_of(open.file.id);
        }
        let stays = !going.is_something();
        let removed = self.remove_going(open, going, cause);
        // Only now, so that a crash before leaves an open whose close is still to come.
        self.unrecord(open);
        let mut effects = effects;
        let mut state = open.file.state.lock();
        effects.wakes.append(&mut state.waiting);
        let is_last = state.members.is_empty();
        if let Some(made) = state.made.as_ref().filter(|_| is_last) {
            made.closed(now);
        }
        drop(state);
        if is_last {
            self.open_files().leave(&open.file);
        }
        // A removed object must not take room any longer.
        if is_last && stays && self.cache().is_on() {
            self.give_back_behind(open);
        }
        self.settle(effects);
        self.audit_close(open);
        removed
    }

    /// Takes an open out of the state of its file that others see.
    fn take_out(&self, open: &Arc<Open>, cause: Cause) -> (PendingRemoval, Effects) {
        let mut effects = Effects::default();
        let mut _swept = None;
        let mut state = open.file.state.lock();
        let Some(at) = state.members.iter().position(|m| m.id == open.id) else {
            return (PendingRemoval::default(), effects);
        };
        let member = state.members.swap_remove(at);
        let stream = state.stream(&open.stream);
        effects.wakes = stream.ranges.drain_open(open.id);
        if stream.ranges.release_open(open.id) {
            effects.wakes.extend(stream.ranges.ready());
        }
        self.release_grant(&mut state, &open.stream, &open.requester());
        let going = going(&mut state, open, member.delete_on_close);
        if going.marks {
            self.note_marks(&mut state);
            // A holder that only keeps the file open is asked to close it, because it is to be deleted. A
            // close waits for no client.
            let stream = state.stream(&open.stream);
            self.require(&open.file, stream, &open.requester(), Need::CloseKept, cause, &mut effects);
        }
        if going.is_something() {
            state.removing += 1;
        } else {
            _swept = Some(state.sweep());
        }
        (going, effects)
    }

    fn remove_going(&self, open: &Arc<Open>, going: PendingRemoval, cause: Cause) -> Result<(), Refusal> {
        let mut result = Ok(());
        let mut is_removed = false;
        if let Some(name) = &going.stream {
            result = open.node.remove_stream(name).map_err(Refusal::from);
            if let Some(link) = &open.link {
                self.report(link, Some(name.clone()), ChangeKind::StreamRemoved, ChangeFilter::STREAM_NAME);
            }
            if result.is_ok() && self.audits(AuditClasses::DELETE) {
                let by = open.party();
                let step = AuditedStep::of(AuditedOperation::Remove);
                self.tell_by(AuditedParty::owner(&by), open, step, None);
            }
        }
        if let Some(link) = &going.link {
            // The last close spares its own rights on the directory only if it also deletes the name.
            let own = open.requester();
            let is_deleter =
                going.deleter.is_some_and(|by| (by.client, by.parent) == (own.client, own.parent));
            let requester = if is_deleter { own } else { Requester { parent: None, ..own } };
            let by = going.deletes_as.clone().unwrap_or_else(|| open.party());
            result = self.remove_name(open, link, &requester, &by, cause);
            if result == Err(Refusal::NotEmpty)
                && self.end_unclaimed_in(open.file.id, open.requester().client, cause)
            {
                result = self.remove_name(open, link, &requester, &by, cause);
            }
            if let Err(why) = &result
                && self.audits(AuditClasses::REFUSED)
                && is_denial(why)
            {
                self.tell_by(AuditedParty::owner(&by), open, AuditedStep::of(removal_of(open)), Some(why));
            }
            is_removed = result.is_ok();
            // A directory that has got entries stays. A name that the host removed is gone anyway.
            // MS-FSA 2.1.5.5
            if matches!(result, Err(Refusal::NotEmpty | Refusal::NotFound)) {
                result = Ok(());
            }
        }
        if going.is_something() {
            let _swept;
            let mut state = open.file.state.lock();
            state.removing -= 1;
            if let Some(link) = going.link.as_ref().and_then(|link| state.link(link)) {
                // A name that could not be removed is there for others again.
                link.removed = is_removed;
                (link.delete, link.deletes_as) = (None, None);
            }
            _swept = state.sweep();
        }
        result
    }

    /// Removes a name from its directory on behalf of a client, and notifies others. A name that another file
    /// was put under is gone already. If the share keeps removed files, a file moves to the recycle folder.
    fn remove_name(
        &self,
        open: &Open,
        link: &Arc<HardLinkedName>,
        requester: &Requester,
        by: &OpenParty,
        cause: Cause,
    ) -> Result<(), Refusal> {
        let is_directory = open.file.is_directory;
        let last_names = if is_directory { None } else { self.link_removal(open) };
        let removal = Removal {
            open,
            link,
            identity: &by.identity,
            has_other_names: last_names.is_some(),
            now: cause.now,
        };
        if !is_directory && self.recycle_instead(removal, requester, by, cause) {
            return Ok(());
        }
        let (mut parent, mut name) = link.parent_and_name();
        let mut changing = parent.change(&[&name]);
        // It may have been renamed during the wait.
        while !link.is_at(parent.id, &name) {
            drop(changing);
            (parent, name) = link.parent_and_name();
            changing = parent.change(&[&name]);
        }
        if open.file.state.lock().link(link).is_some_and(|entry| entry.removed) {
            return Ok(());
        }
        parent.node.remove(&name, is_directory, by.identity.actor.as_ref())?;
        parent.removed(&name);
        drop((changing, last_names));
        if is_directory {
            self.directories().forget(open.file.id);
        }
        self.entries_changed(&parent, requester, cause);
        let what = if is_directory { ChangeFilter::DIR_NAME } else { ChangeFilter::FILE_NAME };
        self.report(link, None, ChangeKind::Removed, what);
        self.end_watches_of(open.file.id);
        if self.audits(AuditClasses::DELETE) {
            let path = Some(AuditedPath::In(&parent, &name));
            self.tell_by(
                AuditedParty::owner(by),
                open,
                AuditedStep { path, ..AuditedStep::of(removal_of(open)) },
                None,
            );
        }
        Ok(())
    }

    /// Moves a file that is to be removed into the recycle folder, if the share has one. False: it is still
    /// there.
    fn recycle_instead(
        &self,
        removal: Removal<'_>,
        requester: &Requester,
        by: &OpenParty,
        cause: Cause,
    ) -> bool {
        let settings = self.settings();
        let Some(rules) = settings.recycle.as_deref() else { return false };
        let (open, mut told) = (removal.open, Vec::new());
        let result = self.recycle(rules, removal, &mut told);
        self.report_names(&told, requester, cause);
        if let RecycleResult::Kept(kept) = &result
            && self.audits(AuditClasses::DELETE)
        {
            let (parent, name) = removal.link.parent_and_name();
            let path = Some(AuditedPath::In(&parent, &name));
            let new_path = Some(AuditedPath::In(&kept.folder, &kept.name));
            let step = AuditedStep { path, new_path, ..AuditedStep::of(removal_of(open)) };
            self.tell_by(AuditedParty::owner(by), open, step, None);
        }
        !matches!(result, RecycleResult::Final)
    }

    /// Undoes a reservation that did not become an open.
    pub(crate) fn abandon(&self, file: &Arc<File>, id: u64) {
        let _swept;
        let mut state = file.state.lock();
        if let Some(at) = state.members.iter().position(|m| m.id == id) {
            let member = state.members.swap_remove(at);
            self.release_grant(&mut state, &member.stream, &member.requester);
        }
        _swept = state.sweep();
        let wakes = std::mem::take(&mut state.waiting);
        drop(state);
        self.open_files().leave(file);
        self.wake_all(wakes);
    }

    /// A name that is to be removed with the last open. That may be one whose client does not come back.
    pub(crate) fn end_expired_sharers(&self, open: &Open, cause: Cause) {
        let is_shared = open.file.state.lock().members.len() > 1;
        if is_shared {
            self.end_expired_at(&[open.file.id], open.requester().client, cause);
        }
    }
}

/// The removal of the object of an open.
pub(crate) fn removal_of(open: &Open) -> AuditedOperation {
    if open.is_directory() { AuditedOperation::RemoveDirectory } else { AuditedOperation::Remove }
}

/// The objects to remove now that this open is out.
// MS-FSA 2.1.5.5
fn going(state: &mut FileState, open: &Arc<Open>, delete_on_close: Option<Deletion>) -> PendingRemoval {
    let mut out = PendingRemoval::default();
    if open.stream.is_named {
        let is_last = !state.members.iter().any(|m| Arc::ptr_eq(&m.stream, &open.stream));
        let stream = state.stream(&open.stream);
        stream.delete |= delete_on_close.is_some();
        if stream.delete && is_last {
            out.stream = open.stream.name();
        }
    }
    let Some(link) = &open.link else {
        return out;
    };
    let is_last =
        !state.members.iter().any(|m| m.link.as_ref().is_some_and(|other| Arc::ptr_eq(other, link)));
    let Some(entry) = state.link(link) else {
        return out;
    };
    if let Some(how) = delete_on_close
        && !open.stream.is_named
        && !entry.removed
        && (entry.delete.is_none() || how != Deletion::WithLast)
    {
        out.marks = entry.delete.is_none();
        (entry.delete, entry.deleter) = (Some(how), open.requester());
        entry.deletes_as = Some(open.party());
    }
    let goes = match entry.delete {
        Some(Deletion::WithOpen(id)) => is_last || id == open.id,
        Some(Deletion::WithLast) => is_last,
        None => false,
    };
    if goes && !entry.removed {
        out.link = Some(Arc::clone(link));
        (out.deleter, out.marks) = (Some(entry.deleter), false);
        out.deletes_as = entry.deletes_as.clone();
        // The contents of the streams are deleted with the file.
        out.stream = None;
    }
    out
}
