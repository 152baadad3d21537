//! Symbolic links that were followed to what is open.
//!
//! Somebody who reads through a link wants what it leads to. Somebody who removes or renames a name means the name: the
//! link itself then takes the place of what is open ([`Share::with_last_link`]). [`acts_on_name`] tells which requests
//! need nothing but the link from the beginning.

use std::sync::Arc;

use volume::security::Rights;
use volume::{Kind, Name, Node, NodeId, OpenHow};

use super::Share;
use super::look_up::{Named, Search};
use super::names::directory::Directory;
use super::walk::{Found, Walk};
use crate::ranked::{Mutex, Rank};
use crate::{Caller, Deny, Disposition, Open, OpenRequest, Opened, Options, Outcome, Refusal, Step};

/// Rights for which a link is no good in the place of what it leads to.
const DATA: Rights =
    Rights::READ_DATA.union(Rights::WRITE_DATA).union(Rights::APPEND_DATA).union(Rights::EXECUTE);

/// A link by its name.
#[derive(Clone)]
pub(super) struct LastLink {
    pub parent: Arc<Directory>,
    pub name: Name,
    pub id: NodeId,
}

/// The links that one walk has followed.
#[derive(Clone, Default)]
pub(super) struct Trail {
    /// The directories that hold them, the first link first.
    pub holders: Vec<Arc<Directory>>,
    /// The one that the path ends with.
    pub last: Option<LastLink>,
    /// The name that the path ends with stands behind a link.
    pub is_behind: bool,
}

impl Trail {
    /// Whether who goes on from a directory can come by the same link again.
    pub fn leads_round(&self, to: NodeId) -> bool {
        self.holders.iter().any(|holder| holder.is_within(to))
    }
}

/// The links by which an open came to what it is of.
pub(crate) struct Followed {
    pub(super) trail: Trail,
    /// Its file was made by it.
    is_own: bool,
    /// The last link, once it was opened to go or to move.
    itself: Mutex<Option<Arc<Open>>>,
}

impl Followed {
    /// None when there was no link.
    pub(super) fn of(trail: Trail, outcome: Outcome) -> Box<Followed> {
        Box::new(Followed {
            trail,
            is_own: outcome == Outcome::Created,
            itself: Mutex::of_default(Rank::LastLink),
        })
    }
}

/// Whether a request is about the name that its path ends with and not about what a link of that name leads to.
// MS-FSA 2.1.5.1 (exception: FILE_OPEN_REPARSE_POINT is not needed for it)
pub(super) fn acts_on_name(request: &OpenRequest<'_>) -> bool {
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
    pub(super) fn find_asked(
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
            Ok(link) if link.0.kind() == Some(Kind::Link) => Ok(link),
            _ => found,
        }
    }

    /// What a link in a directory leads to, for somebody who came there by these links; none when that cannot be had, or
    /// leads round in a circle.
    pub(super) fn led_to(
        &self,
        caller: &Caller<'_>,
        (here, name, node): (&Arc<Directory>, &Name, &Arc<dyn Node>),
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
    pub(super) fn check_led_to(
        &self,
        caller: &Caller<'_>,
        link: (&Arc<Directory>, &Name, &Arc<dyn Node>),
        options: Options,
    ) -> Result<(), Refusal> {
        if !options.intersects(Options::DIRECTORY | Options::NOT_DIRECTORY) {
            return Ok(());
        }
        let led_to = self.led_to(caller, link, None, options);
        let is_directory = led_to.is_some_and(|found| found.node.kind() == Kind::Directory);
        match is_directory {
            true if options.contains(Options::NOT_DIRECTORY) => Err(Refusal::IsADirectory),
            false if options.contains(Options::DIRECTORY) => Err(Refusal::NotADirectory),
            _ => Ok(()),
        }
    }

    /// Refuses to remove through a link what stands behind it: somebody who removes a tree name by name takes a directory that
    /// a link leads to for a part of the tree.
    pub(super) fn check_may_remove(&self, trail: &Trail, is_own: bool) -> Result<(), Refusal> {
        let is_allowed = is_own || self.settings().delete_through_links;
        if trail.is_behind && !is_allowed { Err(Refusal::CannotDelete) } else { Ok(()) }
    }

    /// The same for what is open.
    pub(super) fn check_open_may_go(&self, open: &Open) -> Result<(), Refusal> {
        match open.followed.get() {
            Some(followed) => self.check_may_remove(&followed.trail, followed.is_own),
            // After a restart nobody knows any more which link it was.
            None if open.options.contains(Options::BY_LINK) => Err(Refusal::CannotDelete),
            None => Ok(()),
        }
    }

    /// Does something to the name by which a client has opened something: to the link itself if its path ended with one.
    pub(super) fn with_last_link(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        act: impl FnOnce(&Arc<Open>) -> Step<()>,
    ) -> Step<()> {
        match self.last_link(caller, open) {
            Some(Step::Done(link)) => act(&link),
            Some(Step::Wait(ticket)) => Step::Wait(ticket),
            Some(Step::Refused(why)) => Step::Refused(why),
            None => act(open),
        }
    }

    /// The link that the path of an open ended with, opened itself to be removed or renamed.
    fn last_link(&self, caller: &Caller<'_>, open: &Arc<Open>) -> Option<Step<Arc<Open>>> {
        let followed = open.followed.get().filter(|_| !open.stream.is_named)?;
        let last = followed.trail.last.as_ref()?;
        if !open.granted.contains(Rights::DELETE) {
            return Some(Step::Refused(Refusal::AccessDenied));
        }
        if let Some(opened) = followed.itself.lock().clone() {
            return Some(Step::Done(opened));
        }
        Some(self.open_link(caller, last).map(|opened| {
            let link = opened.open;
            let mut itself = followed.itself.lock();
            match &*itself {
                Some(first) => {
                    let first = Arc::clone(first);
                    drop(itself);
                    let _nothing_goes = self.close(&link, caller.cause());
                    first
                }
                None => {
                    *itself = Some(Arc::clone(&link));
                    link
                }
            }
        }))
    }

    fn open_link(&self, caller: &Caller<'_>, last: &LastLink) -> Step<Opened> {
        let mut path = last.parent.path();
        path.push(last.name.clone());
        let request = OpenRequest {
            path: &path,
            stream: None,
            access: Rights::DELETE | Rights::READ_ATTRIBUTES,
            deny: Deny::empty(),
            disposition: Disposition::Open,
            options: Options::OPEN_LINK | Options::EXACT_CASE,
            attributes: crate::Attributes::empty(),
            mode: None,
            descriptor: None,
            extended: &[],
            allocation: 0,
            caching: None,
        };
        let opened = match self.create(caller, &request) {
            Step::Done(opened) => opened,
            other => return other,
        };
        if opened.open.file.id == last.id {
            return Step::Done(opened);
        }
        // Another thing has got the name since.
        let _nothing_goes = self.close(&opened.open, caller.cause());
        Step::Refused(Refusal::Gone)
    }

    /// The link that was opened for an open, to be closed with it.
    pub(super) fn take_last_link(open: &Open) -> Option<Arc<Open>> {
        open.followed.get()?.itself.lock().take()
    }

    /// Whether the link by which something was opened goes when that is closed.
    pub(super) fn goes_by_link(&self, open: &Open) -> bool {
        let link = open.followed.get().and_then(|followed| followed.itself.lock().clone());
        link.is_some_and(|link| self.goes_when_closed(&link))
    }
}
