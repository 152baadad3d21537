//! Further names for a file.

use std::sync::Arc;

use volume::security::Rights;
use volume::{Name, OpenHow};

use crate::engine::Share;
use crate::engine::lookup::item::Item;
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::operations::rename::DestinationRequest;
use crate::engine::parts::names::directory::Directory;
use crate::engine::services::audit::{AuditedPath, AuditedStep};
use crate::{
    AuditClasses, AuditedOperation, CallResult, Caller, ChangeFilter, ChangeKind, Open, Options, Refusal,
};

impl Share {
    /// Gives the open file a further name.
    // MS-FSA 2.1.5.15.7
    pub fn link(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &[volume::Name],
        replace: bool,
    ) -> CallResult<()> {
        self.link_to(caller, open, DestinationRequest::Path(to), replace)
    }

    /// Gives the open file a further name in a directory that was found before. The name must not exist yet.
    pub fn link_into(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &Item,
        name: &volume::Name,
    ) -> CallResult<()> {
        self.link_to(caller, open, DestinationRequest::In(to, name), false)
    }

    fn link_to(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: DestinationRequest<'_>,
        replace: bool,
    ) -> CallResult<()> {
        self.begin(caller.cause());
        let linked = match self.link_inner(caller, open, to, replace) {
            Ok(step) => step,
            Err(why) => CallResult::Refused(why),
        };
        if !self.audits(AuditClasses::CREATE | AuditClasses::REFUSED) {
            return linked;
        }
        let new_path = to.path(caller.identity);
        let new_path = new_path.as_deref().map(AuditedPath::Bytes);
        let step = AuditedStep { new_path, ..AuditedStep::of(AuditedOperation::Link) };
        self.audited(caller, open, step, linked)
    }

    fn link_inner(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: DestinationRequest<'_>,
        replace: bool,
    ) -> Result<CallResult<()>, Refusal> {
        if open.is_directory() {
            return Err(Refusal::IsADirectory);
        }
        self.check_writable()?;
        if open.file.is_deleted(open.link.as_ref()) {
            return Err(Refusal::AccessDenied);
        }
        let options = open.options & (Options::EXACT_CASE | Options::STOP_AT_LINKS);
        let (parent, name) = self.goal(caller, to, options)?;
        self.check_not_recycle_name(&parent, &name)?;
        self.check_link_moves(caller.identity, open, &parent)?;
        let security = self.directory_security(&parent)?;
        if !self.may(caller, &security, Rights::ADD_FILE) {
            return Err(Refusal::AccessDenied);
        }
        let search = Search { exact: self.is_exact(options), how: OpenHow::Attributes, rather_missing: true };
        let there = self.look_up(&parent, &name, search)?;
        if let Some(found) = &there {
            let (real, node) = (&found.name, &found.node);
            if !replace {
                return Err(Refusal::Exists);
            }
            if node.id() == open.file.id && *real == name {
                return Ok(CallResult::Done(()));
            }
            if node.kind() == volume::NodeKind::Directory {
                return Err(Refusal::AccessDenied);
            }
            match self.check_replaceable(caller, open, &parent, real, false)? {
                CallResult::Done(()) => {}
                other => return Ok(other),
            }
        }
        // The holders that cache all names and their number.
        match self.require_attributes(caller, open) {
            CallResult::Done(()) => {}
            other => return Ok(other),
        }
        let changing = parent.change(&[&name]);
        let cleared = match &there {
            None => {
                parent.node.add_name(&name, open.node.as_ref(), caller.identity.actor.as_ref())?;
                parent.added(&name);
                Ok(())
            }
            Some(found) => self.link_over(caller, open, &parent, &name, found)?,
        };
        self.own_changed(&open.file);
        drop(changing);
        if let (Some(found), Ok(())) = (&there, &cleared) {
            self.audit_replaced(caller, parent.entry(&name), found.node.id(), found.node.kind());
        }
        self.entries_changed(&parent, &open.requester(), caller.cause());
        self.report_at(&parent, &name, None, ChangeKind::Added, ChangeFilter::FILE_NAME);
        cleared.map(CallResult::Done)
    }

    /// Gives the file a name that another object has. That object goes only after the file has got a name
    /// beside it. The host may refuse one: on another file system, or for a file of another user. Returns
    /// whether another spelling of the name is gone. The caller holds the lock of the name.
    fn link_over(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        parent: &Arc<Directory>,
        name: &Name,
        found: &ResolvedName,
    ) -> Result<Result<(), Refusal>, Refusal> {
        let (real, id, actor) = (&found.name, found.node.id(), caller.identity.actor.as_ref());
        let is_free = id == open.file.id || self.is_replaceable_now(id, false);
        if !is_free || !parent.holds(real, id) {
            return Err(Refusal::AccessDenied);
        }
        let beside = format!(".link-{:x}-{:x}", open.id, caller.now.wall_ns);
        let beside = Name::new(beside.as_bytes()).map_err(|_| Refusal::Invalid)?;
        parent.node.add_name(&beside, open.node.as_ref(), actor)?;
        if let Err(why) = parent.node.rename(&beside, parent.node.as_ref(), name, real == name, actor) {
            let _as_it_was = parent.node.remove(&beside, false, actor);
            parent.removed(&beside);
            return Err(why.into());
        }
        // A listing may have shown it.
        parent.removed(&beside);
        parent.added(name);
        let mut cleared = Ok(());
        if real != name {
            cleared = parent.node.remove(real, false, actor).map_err(Refusal::from);
        }
        if cleared.is_ok() {
            if real != name {
                parent.removed(real);
            }
            self.forget_replaced(id, parent, real);
        }
        Ok(cleared)
    }
}
