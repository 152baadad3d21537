//! Marks names and streams for deletion.

use std::sync::Arc;

use volume::security::Rights;

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::engine::lookup::removal::check_empty;
use crate::engine::parts::file::Deletion;
use crate::engine::services::audit::AuditedStep;
use crate::engine::services::close::removal_of;
use crate::{Attributes, CallResult, Caller, Open, Refusal};

/// The terms on which a name is marked.
#[derive(Clone, Copy)]
struct DeletionTerms {
    /// Whether the mark is set or cleared.
    on: bool,
    /// The name is removed when this very open is closed.
    posix: bool,
    /// READ_ONLY does not prevent it.
    ignore_read_only: bool,
    /// The client that marks the name gets the result of the close. READ_ONLY does not prevent it then.
    close_tells: bool,
}

impl Share {
    /// Marks the open object for deletion with its last open, or clears the mark. With `posix` the name is
    /// removed when this very open is closed, even if others have the file open. If a symbolic link was
    /// followed to the open, the link is removed in its place.
    // MS-FSA 2.1.5.15.3
    // MS-FSA 2.1.5.15.4
    pub fn set_delete(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        on: bool,
        posix: bool,
        ignore_read_only: bool,
    ) -> CallResult<()> {
        if on && let Err(why) = self.check_open_may_go(open) {
            return CallResult::Refused(why);
        }
        let marking = DeletionTerms { on, posix, ignore_read_only, close_tells: false };
        self.with_last_link(caller, open, |open| self.mark_for_deletion(caller, open, marking))
    }

    /// Marks the name of an open for removal with the close that the same request does next. That close
    /// reports a refusal by the host.
    // RFC 8881 18.25
    pub fn set_delete_at_once(&self, caller: &Caller<'_>, open: &Arc<Open>) -> CallResult<()> {
        if let Err(why) = self.check_open_may_go(open) {
            return CallResult::Refused(why);
        }
        let marking = DeletionTerms { on: true, posix: true, ignore_read_only: true, close_tells: true };
        self.mark_for_deletion(caller, open, marking)
    }

    fn mark_for_deletion(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        marking: DeletionTerms,
    ) -> CallResult<()> {
        let marked = self.mark_now(caller, open, marking);
        // The removal itself is told when it is done.
        if matches!(marked, CallResult::Done(())) {
            return marked;
        }
        self.audited(caller, open, AuditedStep::of(removal_of(open)), marked)
    }

    fn mark_now(&self, caller: &Caller<'_>, open: &Arc<Open>, marking: DeletionTerms) -> CallResult<()> {
        let DeletionTerms { on, posix, .. } = marking;
        if on {
            match self.check_deletable(caller, open, marking) {
                Err(Refusal::NotEmpty) => match self.wait_for_unclaimed_in(caller, open) {
                    CallResult::Done(()) => {}
                    other => return other,
                },
                Err(why) => return CallResult::Refused(why),
                Ok(()) => {}
            }
            match self.require_for(caller, open, Need::CloseKept) {
                CallResult::Done(()) => {}
                other => return other,
            }
            self.end_expired_sharers(open, caller.cause());
        } else if !open.granted.contains(Rights::DELETE) {
            return CallResult::Refused(Refusal::AccessDenied);
        }
        let mut state = open.file.state.lock();
        if open.stream.is_named {
            state.stream(&open.stream).delete = on;
        } else if let Some(entry) = open.link.as_ref().and_then(|link| state.link(link)) {
            entry.delete = match (on, posix) {
                (false, _) => None,
                (true, false) => Some(Deletion::WithLast),
                (true, true) => Some(Deletion::WithOpen(open.id)),
            };
            entry.deleter = open.requester();
            entry.deletes_as = on.then(|| open.party());
        }
        self.note_marks(&mut state);
        drop(state);
        // MS-SMB2 3.3.5.21.1
        self.rights().keys().set_goes(&open.requester(), &open.stream, true);
        self.write_changes();
        if on && open.is_directory() {
            self.end_watches_of(open.file.id);
        }
        if on {
            self.end_unclaimed_removed(open, caller.cause());
        }
        CallResult::Done(())
    }

    fn check_deletable(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        marking: DeletionTerms,
    ) -> Result<(), Refusal> {
        if !open.granted.contains(Rights::DELETE) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        let Some(link) = &open.link else {
            return Err(Refusal::CannotDelete);
        };
        if !marking.close_tells {
            let stat = open.node.stat()?;
            if stat.fixed {
                return Err(Refusal::AccessDenied);
            }
            if !marking.ignore_read_only && self.record_of(open)?.bits(&stat).contains(Attributes::READ_ONLY)
            {
                return Err(Refusal::CannotDelete);
            }
        }
        if !open.stream.is_named {
            self.check_removal(caller, &link.parent_and_name())?;
        }
        if open.is_directory() { check_empty(open) } else { Ok(()) }
    }

    /// Names in a directory may belong to opens of which the client itself knows nothing any more and that
    /// are to be deleted. Waits until they have gone.
    fn wait_for_unclaimed_in(&self, caller: &Caller<'_>, directory: &Open) -> CallResult<()> {
        match self.restore_below(|| directory.path()) {
            Ok(true) => {}
            Ok(false) => return self.try_later(caller),
            Err(why) => return CallResult::Refused(why),
        }
        if self.end_unclaimed_in(directory.file.id, Some(caller.client), caller.cause())
            && check_empty(directory).is_ok()
        {
            return CallResult::Done(());
        }
        let until_ns = self.unclaimed_names_end(directory.file.id, (caller.client, caller.identity.sid));
        match caller.waiter.zip(until_ns) {
            Some((waiter, at)) if at > caller.now.mono_ns => {
                CallResult::Wait(self.waits().add_later(waiter, at))
            }
            _ => CallResult::Refused(Refusal::NotEmpty),
        }
    }
}
