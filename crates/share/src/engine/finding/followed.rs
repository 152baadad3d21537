//! Symbolic links that were followed to what is open.
//!
//! Somebody who reads through a link wants what it leads to. Somebody who removes or renames a name means the name: the
//! link itself then takes the place of what is open ([`Share::with_last_link`]). [`acts_on_name`] tells which requests
//! need nothing but the link from the beginning.

use std::sync::Arc;

use volume::security::Rights;
use volume::{Name, Node, NodeKind, OpenHow};

use crate::engine::Share;
use crate::engine::finding::look_up::{Named, Search};
use crate::engine::finding::walk::{Found, Walk};
use crate::engine::parts::names::directory::Directory;
use crate::engine::parts::trail::{LastLink, Trail};
use crate::{Caller, Disposition, Open, OpenRequest, Options, Refusal};

/// Rights for which a link is no good in the place of what it leads to.
const DATA: Rights =
    Rights::READ_DATA.union(Rights::WRITE_DATA).union(Rights::APPEND_DATA).union(Rights::EXECUTE);

/// Whether a request is about the name that its path ends with and not about what a link of that name leads to.
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

/// Whether a request asks what a name is, and for nothing that a link could not give.
fn looks_only(request: &OpenRequest<'_>) -> bool {
    let access = request.access.mapped();
    let others = Options::DIRECTORY | Options::OPEN_LINK | Options::STOP_AT_LINKS | Options::DELETE_ON_CLOSE;
    request.disposition == Disposition::Open
        && request.stream.is_none()
        && !request.options.intersects(others)
        && !access.intersects(DATA)
}

impl Share {
    /// What the path of an open leads to. A link that leads nowhere, or out of the share, is listed as itself, and who only looks
    /// at the name finds the link: a client that asks about each name that it has seen would take it for one that is gone.
    ///
    /// # Errors
    /// As [`Share::walk`].
    pub(crate) fn find_asked(
        &self,
        caller: &Caller<'_>,
        from: Option<&Arc<Directory>>,
        request: &OpenRequest<'_>,
        search: Search,
    ) -> Result<(Found, Trail), Refusal> {
        let by_name = if acts_on_name(request) { Options::OPEN_LINK } else { Options::empty() };
        let found = self.walk(caller, from, request.path, request.options | by_name, search);
        let leads_nowhere = match &found {
            Ok((Found::Missing { .. }, trail)) => trail.last.is_some(),
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

    /// What a link in a directory leads to, for somebody who came there by these links; none when that cannot be had, or
    /// leads round in a circle.
    pub(crate) fn led_to(
        &self,
        caller: &Caller<'_>,
        here: &Arc<Directory>,
        name: &Name,
        node: &Arc<dyn Node>,
        behind: Option<&Trail>,
        options: Options,
    ) -> Option<Named> {
        let mut walk = Walk::from(here, &[]);
        walk.trail = behind.cloned().unwrap_or_default();
        walk.trail.last = Some(LastLink { parent: Arc::clone(here), name: name.clone(), id: node.id() });
        let options = options & Options::EXACT_CASE;
        let search =
            Search { exact: self.is_exact(options), how: OpenHow::Attributes, rather_missing: false };
        let found = self.follow(&mut walk, here, node.as_ref(), options);
        let found = found.and_then(|()| self.go(caller, &mut walk, options, search)).ok()?;
        match found {
            Found::There { found, .. } if !walk.trail.leads_round(found.node.id()) => Some(found),
            Found::There { .. } | Found::Root(_) | Found::Missing { .. } => None,
        }
    }

    /// Refuses for a link that is opened itself what would be refused for what it leads to.
    // MS-FSA 2.1.5.1
    pub(crate) fn check_led_to(
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
        let led_to = self.led_to(caller, parent, name, link, None, options);
        let is_directory = led_to.is_some_and(|found| found.node.kind() == NodeKind::Directory);
        match is_directory {
            true if options.contains(Options::NOT_DIRECTORY) => Err(Refusal::IsADirectory),
            false if options.contains(Options::DIRECTORY) => Err(Refusal::NotADirectory),
            _ => Ok(()),
        }
    }

    /// Refuses to remove through a link what stands behind it: somebody who removes a tree name by name takes a directory that
    /// a link leads to for a part of the tree.
    pub(crate) fn check_may_remove(&self, trail: &Trail, is_own: bool) -> Result<(), Refusal> {
        let is_allowed = is_own || self.settings().delete_through_links;
        if trail.is_behind && !is_allowed { Err(Refusal::CannotDelete) } else { Ok(()) }
    }

    /// The same for what is open.
    pub(crate) fn check_open_may_go(&self, open: &Open) -> Result<(), Refusal> {
        match open.followed.get() {
            Some(followed) => self.check_may_remove(&followed.trail, followed.is_own),
            // After a restart nobody knows any more which link it was.
            None if open.options.contains(Options::BY_LINK) => Err(Refusal::CannotDelete),
            None => Ok(()),
        }
    }
}
