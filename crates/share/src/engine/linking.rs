//! Further names for a file.

use std::sync::Arc;

use volume::OpenHow;
use volume::security::Rights;

use super::Share;
use super::items::Item;
use super::look_up::Search;
use super::rename::Goal;
use crate::{Caller, ChangeFilter, ChangeKind, Open, Options, Refusal, Step};

impl Share {
    /// Gives the file that is open a further name.
    // MS-FSA 2.1.5.15.7
    pub fn link(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &[volume::Name],
        replace: bool,
    ) -> Step<()> {
        self.link_to(caller, open, Goal::Path(to), replace)
    }

    /// The same with a name in a directory that was found before, where nothing may stand yet.
    pub fn link_into(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &Item,
        name: &volume::Name,
    ) -> Step<()> {
        self.link_to(caller, open, Goal::In(to, name), false)
    }

    fn link_to(&self, caller: &Caller<'_>, open: &Arc<Open>, to: Goal<'_>, replace: bool) -> Step<()> {
        self.begin(caller.now);
        match self.link_inner(caller, open, to, replace) {
            Ok(step) => step,
            Err(why) => Step::Refused(why),
        }
    }

    fn link_inner(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: Goal<'_>,
        replace: bool,
    ) -> Result<Step<()>, Refusal> {
        if open.is_directory() {
            return Err(Refusal::IsADirectory);
        }
        self.check_writable()?;
        if open.file.state.lock().is_deleted(open.link.as_ref()) {
            return Err(Refusal::AccessDenied);
        }
        let must_be_free = matches!(to, Goal::In(..));
        let options = open.options & (Options::EXACT_CASE | Options::STOP_AT_LINKS);
        let (parent, name) = self.goal(caller, to, options)?;
        let security = self.directory_security(&parent)?;
        if !self.may(caller, &security, Rights::ADD_FILE) {
            return Err(Refusal::AccessDenied);
        }
        let search = Search { exact: self.is_exact(options), how: OpenHow::Attributes, rather_missing: true };
        let there = self.look_up(&parent, &name, search)?;
        if let Some(found) = &there {
            let (real, node) = (&found.name, &found.node);
            if node.id() == open.file.id && *real == name && !must_be_free {
                return Ok(Step::Done(()));
            }
            if !replace {
                return Err(Refusal::Exists);
            }
            if node.kind() == volume::Kind::Directory {
                return Err(Refusal::AccessDenied);
            }
            match self.check_replaceable(caller, open, &parent, real, false)? {
                Step::Done(()) => {}
                other => return Ok(other),
            }
        }
        // Who believes all names and how many there are.
        match self.require_attributes(caller, open) {
            Step::Done(()) => {}
            other => return Ok(other),
        }
        let actor = caller.identity.actor.as_ref();
        let changing = parent.change(&[&name]);
        if let Some(found) = &there {
            let real = &found.name;
            parent.node.remove(real, false, actor)?;
            parent.removed(real);
            self.forget_replaced(found.node.id(), &parent, real);
        }
        parent.node.add_name(&name, open.node.as_ref(), actor)?;
        parent.added(&name);
        self.versions.touch(open.file.id);
        drop(changing);
        self.entries_changed(&parent, &open.asker(), caller.now);
        self.tell_at(&parent, &name, None, ChangeKind::Added, ChangeFilter::FILE_NAME);
        Ok(Step::Done(()))
    }
}
