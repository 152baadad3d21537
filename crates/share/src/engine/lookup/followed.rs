//! Symbolic links that were followed to an open.
//!
//! A client that reads through a link wants its target. A client that removes or renames a name means the
//! name. The link itself then takes the place of the open ([`Share::with_last_link`]). [`acts_on_name`] tells
//! which requests need only the link from the beginning.

use std::sync::Arc;

use volume::security::Rights;
use volume::{Name, Node, NodeKind, OpenHow};

use crate::engine::Share;
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::lookup::walk::WalkTarget;
use crate::engine::parts::followed_links::{LastLink, LinkTrail};
use crate::engine::parts::names::directory::Directory;
use crate::{Caller, Disposition, Open, OpenRequest, Options, Refusal};

/// Rights that a link cannot serve in place of its target.
const DATA: Rights =
    Rights::READ_DATA.union(Rights::WRITE_DATA).union(Rights::APPEND_DATA).union(Rights::EXECUTE);

/// Whether a request is about the last name of its path, and not about the target of a link of that name.
// MS-FSA 2.1.5.1 (exception: FILE_OPEN_REPARSE_POINT is not needed for it)
pub(crate) fn acts_on_name(request: &OpenRequest<'_>) -> bool {
    let access = request.access.mapped();
    let is_to_go = access.contains(Rights::DELETE) || request.options.contains(Options::DELETE_ON_CLOSE);
    let looks_at_all =
        access.contains(Rights::MAXIMUM_ALLOWED) && !request.options.contains(Options::DELETE_ON_CLOSE);
    let opens =
        matches!(request.disposition, Disposition::Open | Disposition::OpenOrCreate | Disposition::Create);
    is_to_go && opens && request.stream.is_none() && !looks_at_all && !access.intersects(DATA)
}

/// Whether a request asks only for properties of a name that a link has too.
fn looks_only(request: &OpenRequest<'_>) -> bool {
    let access = request.access.mapped();
    let others = Options::DIRECTORY | Options::OPEN_LINK | Options::STOP_AT_LINKS | Options::DELETE_ON_CLOSE;
    request.disposition == Disposition::Open
        && request.stream.is_none()
        && !request.options.intersects(others)
        && !access.intersects(DATA)
}

impl Share {
    /// The target of the path of an open. A link that leads nowhere or out of the share is listed as itself,
    /// and a request that only looks at the name finds the link. Otherwise a client that asks about each
    /// listed name would believe that the link is gone.
    ///
    /// # Errors
    /// As [`Share::walk`].
    pub(crate) fn find_requested(
        &self,
        caller: &Caller<'_>,
        from: Option<&Arc<Directory>>,
        request: &OpenRequest<'_>,
        search: Search,
    ) -> Result<(WalkTarget, LinkTrail), Refusal> {
        let by_name = if acts_on_name(request) { Options::OPEN_LINK } else { Options::empty() };
        let found = self.walk(caller, from, request.path, request.options | by_name, search);
        let leads_nowhere = match &found {
            Ok((WalkTarget::Missing { .. }, trail)) => trail.last.is_some(),
            Ok(_) => false,
            Err(why) => matches!(why, Refusal::BadLink | Refusal::PathNotFound | Refusal::AccessDenied),
        };
        if !leads_nowhere || !looks_only(request) {
            return found;
        }
        let search = Search { how: OpenHow::Attributes, ..search };
        match self.walk(caller, from, request.path, request.options | Options::OPEN_LINK, search) {
            Ok(link) if link.0.kind() == Some(NodeKind::Link) => Ok(link),
            _ => found,
        }
    }

    /// The target of a link in a directory, for a request that came there by the links of `behind`. None if
    /// the target cannot be reached, or if the links form a circle.
    pub(crate) fn link_target(
        &self,
        caller: &Caller<'_>,
        here: &Arc<Directory>,
        name: &Name,
        node: &Arc<dyn Node>,
        behind: Option<&LinkTrail>,
        options: Options,
    ) -> Option<ResolvedName> {
        let mut walk = self.begin_walk(caller, Some(here), &[]).ok()?;
        walk.trail = behind.cloned().unwrap_or_default();
        walk.trail.last = Some(LastLink { parent: Arc::clone(here), name: name.clone(), id: node.id() });
        let options = options & Options::EXACT_CASE;
        let search =
            Search { exact: self.is_exact(options), how: OpenHow::Attributes, rather_missing: false };
        let found = self.follow(caller, &mut walk, here, node.as_ref(), options);
        let found = found.and_then(|()| self.walk_to_end(caller, &mut walk, options, search)).ok()?;
        match found {
            WalkTarget::There { found, .. } if !walk.trail.is_circular(found.node.id()) => Some(found),
            WalkTarget::There { .. } | WalkTarget::Root(_) | WalkTarget::Missing { .. } => None,
        }
    }

    /// Refuses to open a link itself if opening its target would be refused.
    // MS-FSA 2.1.5.1
    pub(crate) fn check_link_target(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Directory>,
        name: &Name,
        link: &Arc<dyn Node>,
        options: Options,
    ) -> Result<(), Refusal> {
        if !options.intersects(Options::DIRECTORY | Options::NOT_DIRECTORY) {
            return Ok(());
        }
        let link_target = self.link_target(caller, parent, name, link, None, options);
        let is_directory = link_target.is_some_and(|found| found.node.kind() == NodeKind::Directory);
        match is_directory {
            true if options.contains(Options::NOT_DIRECTORY) => Err(Refusal::IsADirectory),
            false if options.contains(Options::DIRECTORY) => Err(Refusal::NotADirectory),
            _ => Ok(()),
        }
    }

    /// Refuses to remove an object that was reached through a link. A client that removes a tree name by name
    /// takes a directory behind a link for a part of the tree.
    pub(crate) fn check_may_remove(&self, trail: &LinkTrail, is_own: bool) -> Result<(), Refusal> {
        let is_allowed = is_own || self.settings().delete_through_links;
        if trail.is_behind && !is_allowed { Err(Refusal::CannotDelete) } else { Ok(()) }
    }

    /// Refuses to remove an open file that was reached through a link, as [`Share::check_may_remove`].
    pub(crate) fn check_open_may_go(&self, open: &Open) -> Result<(), Refusal> {
        match open.followed.get() {
            Some(followed) => self.check_may_remove(&followed.trail, followed.is_own),
            // After a restart it is not known which link it was.
            None if open.options.contains(Options::BY_LINK) => Err(Refusal::CannotDelete),
            None => Ok(()),
        }
    }
}
