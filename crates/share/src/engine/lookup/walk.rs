//! The walk along a path to its target: component by component, never out of the share.

use std::sync::Arc;

use volume::{Name, Node, NodeId, NodeKind, OpenHow};

use crate::engine::Share;
use crate::engine::lookup::item::Item;
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::parts::followed_links::{LastLink, LinkTrail};
use crate::engine::parts::names::directory::Directory;
use crate::{Caller, Options, Refusal};
use volume::security::Rights;

/// The most symbolic links on one path.
const MAX_HOPS: usize = 40;
/// The most components in one call, those of links included.
const MAX_STEPS: usize = 4096;

/// The target of a path.
pub(crate) enum WalkTarget {
    /// The root of the share.
    Root(Arc<Directory>),
    /// A name that exists.
    There { parent: Arc<Directory>, found: ResolvedName },
    /// A name that does not exist, in a directory that does.
    Missing { parent: Arc<Directory>, name: Name },
}

/// One step of a walk.
#[derive(Clone)]
enum WalkStep {
    Down(Name),
    Up,
}

/// A walk in progress.
pub(crate) struct Walk {
    /// The directories down to the current one; the root first.
    stack: Vec<Arc<Directory>>,
    /// The remaining steps, the next one last.
    left: Vec<WalkStep>,
    hops: usize,
    steps: usize,
    pub(crate) trail: LinkTrail,
}

impl Share {
    /// Whether names match exactly in this request.
    pub(crate) fn is_exact(&self, options: Options) -> bool {
        options.contains(Options::EXACT_CASE)
            || self.settings().case_sensitive
            || self.volume().properties().folds_case
    }

    /// Finds the target of `path`, from a directory or from the root.
    ///
    /// # Errors
    /// [`Refusal::PathNotFound`], [`Refusal::StoppedAtLink`], [`Refusal::BadLink`],
    /// [`Refusal::AccessDenied`].
    // MS-FSA 2.1.5.1
    pub(crate) fn walk(
        &self,
        caller: &Caller<'_>,
        from: Option<&Arc<Directory>>,
        path: &[Name],
        options: Options,
        search: Search,
    ) -> Result<(WalkTarget, LinkTrail), Refusal> {
        let mut walk = Walk::from(from.unwrap_or(self.root()), path);
        let found = self.walk_to_end(caller, &mut walk, options, search)?;
        let found = self.unless_circular(&walk.trail, found, options, search)?;
        Ok((found, walk.trail))
    }

    /// Whether a path leads to an existing object, for a request that will be refused in any case. Nothing is
    /// opened. A link at the end of the path is an object.
    ///
    /// # Errors
    /// [`Refusal::PathNotFound`], [`Refusal::StoppedAtLink`], [`Refusal::StoppedAtReparse`],
    /// [`Refusal::BadLink`], [`Refusal::AccessDenied`].
    // MS-FSA 2.1.5.1
    pub fn exists(&self, caller: &Caller<'_>, path: &[Name], options: Options) -> Result<bool, Refusal> {
        self.begin(caller.cause());
        let exact = self.is_exact(options);
        let search = Search { exact, how: OpenHow::Attributes, rather_missing: false };
        let (found, _) = self.walk(caller, None, path, options | Options::OPEN_LINK, search)?;
        Ok(!matches!(found, WalkTarget::Missing { .. }))
    }

    /// Goes to the end of a walk.
    ///
    /// # Errors
    /// As [`Share::walk`].
    pub(crate) fn walk_to_end(
        &self,
        caller: &Caller<'_>,
        walk: &mut Walk,
        options: Options,
        search: Search,
    ) -> Result<WalkTarget, Refusal> {
        while let Some(walk_to_end) = walk.left.pop() {
            walk.steps += 1;
            if walk.steps > MAX_STEPS {
                return Err(Refusal::BadLink);
            }
            let name = match walk_to_end {
                WalkStep::Up if walk.stack.len() > 1 => {
                    walk.stack.pop();
                    continue;
                }
                WalkStep::Up => return Err(Refusal::BadLink),
                WalkStep::Down(name) => name,
            };
            let here = walk.here(self.root());
            let found = if walk.left.is_empty() {
                self.last_step(walk, &here, &name, options, search)?
            } else {
                self.step(caller, walk, &here, &name, options, search.exact)?
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let at = walk.here(self.root());
        match at.parent_and_name() {
            None => Ok(WalkTarget::Root(at)),
            Some((parent, name)) => {
                let found = ResolvedName::of(name, at.node.open_again(search.how)?);
                Ok(WalkTarget::There { parent, found })
            }
        }
    }

    /// Takes a component that is not the last: goes down, or replaces a link by its text.
    fn step(
        &self,
        caller: &Caller<'_>,
        walk: &mut Walk,
        here: &Arc<Directory>,
        name: &Name,
        options: Options,
        exact: bool,
    ) -> Result<Option<WalkTarget>, Refusal> {
        if let Some(child) = self.known_child(here, name, exact) {
            self.check_passes(&child, walk)?;
            self.check_traverse(caller, &child)?;
            self.directories().touch(&child);
            walk.stack.push(child);
            return Ok(None);
        }
        let generation = here.generation();
        let search = Search { exact, how: OpenHow::Attributes, rather_missing: false };
        let ResolvedName { name: real, node, .. } =
            self.look_up(here, name, search)?.ok_or(Refusal::PathNotFound)?;
        match node.kind() {
            NodeKind::Directory => {
                let names = (name, &real);
                let child = self.directories().enter(here, names, node, Some(generation));
                self.check_passes(&child, walk)?;
                self.check_traverse(caller, &child)?;
                walk.stack.push(child);
                Ok(None)
            }
            NodeKind::Link => {
                walk.trail.is_behind |= walk.trail.last.is_none();
                self.follow(walk, here, node.as_ref(), options).map(|()| None)
            }
            _ => {
                self.check_no_reparse(node.as_ref(), walk)?;
                Err(Refusal::PathNotFound)
            }
        }
    }

    /// Refuses to pass a directory that a client has made a reparse point: its contents are elsewhere.
    // MS-FSA 2.1.5.1
    fn check_passes(&self, directory: &Directory, walk: &Walk) -> Result<(), Refusal> {
        let is_reparse = match directory.known_reparse() {
            Some(known) => known,
            None => {
                let own_changes = directory.own_changes();
                let has_reparse = self.has_reparse(directory.node.as_ref())?;
                directory.note_reparse(has_reparse, own_changes);
                has_reparse
            }
        };
        if is_reparse { self.check_no_reparse(directory.node.as_ref(), walk) } else { Ok(()) }
    }

    fn check_no_reparse(&self, node: &dyn Node, walk: &Walk) -> Result<(), Refusal> {
        self.stop_at_reparse(node, walk.left.len()).map_err(|why| match why {
            // The error counts the remaining components of the requested path. Inside the text of a link that
            // is impossible.
            Refusal::StoppedAtReparse { .. } if walk.hops > 0 => Refusal::BadLink,
            why => why,
        })
    }

    /// Takes the last component: its node, unless it is a link to be followed.
    fn last_step(
        &self,
        walk: &mut Walk,
        here: &Arc<Directory>,
        name: &Name,
        options: Options,
        search: Search,
    ) -> Result<Option<WalkTarget>, Refusal> {
        let parent = Arc::clone(here);
        let Some(found) = self.look_up(here, name, search)? else {
            return Ok(Some(WalkTarget::Missing { parent, name: name.clone() }));
        };
        if found.node.kind() == NodeKind::Link && !options.contains(Options::OPEN_LINK) {
            if walk.trail.last.is_none() {
                let ResolvedName { name, node, .. } = &found;
                walk.trail.last = Some(LastLink { parent, name: name.clone(), id: node.id() });
            }
            self.follow(walk, here, found.node.as_ref(), options)?;
            return Ok(None);
        }
        Ok(Some(WalkTarget::There { parent, found }))
    }

    /// A cached subdirectory, if it can be trusted to be still there.
    pub(crate) fn known_child(
        &self,
        here: &Arc<Directory>,
        name: &Name,
        exact: bool,
    ) -> Option<Arc<Directory>> {
        if !here.settle(name) {
            return None;
        }
        let (real, child) = here.child(name, exact)?;
        // If the volume itself folds case, an event reports only one of many spellings.
        if here.reports_changes() && !self.volume().properties().folds_case {
            return Some(child);
        }
        let is_there = here.holds(&real, child.id);
        is_there.then_some(child)
    }

    /// The link at the end of a path, if its target was passed on the path to it. A client that lists a tree
    /// sees a link there and stops. A client that asks for a directory by name gets the directory.
    fn unless_circular(
        &self,
        trail: &LinkTrail,
        found: WalkTarget,
        options: Options,
        search: Search,
    ) -> Result<WalkTarget, Refusal> {
        let Some(last) = trail.last.as_ref().filter(|_| !options.contains(Options::DIRECTORY)) else {
            return Ok(found);
        };
        if !found.id().is_some_and(|id| trail.is_circular(id)) {
            return Ok(found);
        }
        let search = Search { exact: true, how: OpenHow::Attributes, ..search };
        let link = self.look_up(&last.parent, &last.name, search)?.ok_or(Refusal::NotFound)?;
        Ok(WalkTarget::There { parent: Arc::clone(&last.parent), found: link })
    }

    /// Puts the text of a link before the rest of the path.
    pub(crate) fn follow(
        &self,
        walk: &mut Walk,
        here: &Arc<Directory>,
        link: &dyn Node,
        options: Options,
    ) -> Result<(), Refusal> {
        walk.trail.holders.push(Arc::clone(here));
        let text = link.link_text()?;
        if options.contains(Options::STOP_AT_LINKS) {
            return Err(Refusal::StoppedAtLink { text, left: walk.left.len() });
        }
        walk.hops += 1;
        if walk.hops > MAX_HOPS {
            return Err(Refusal::BadLink);
        }
        let relative = if text.first() == Some(&b'/') {
            let inside = self.settings().inside(&text).ok_or(Refusal::BadLink)?;
            walk.stack.truncate(1);
            inside
        } else {
            &text[..]
        };
        let mut steps = Vec::new();
        for part in relative.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => steps.push(WalkStep::Up),
                name => steps.push(WalkStep::Down(Name::new(name).map_err(|_| Refusal::BadLink)?)),
            }
        }
        walk.left.extend(steps.into_iter().rev());
        Ok(())
    }

    /// The directory that all but the last component of a path lead to, and the last component.
    ///
    /// # Errors
    /// [`Refusal::BadName`] for the root; as [`Share::walk`].
    pub(crate) fn walk_to_parent(
        &self,
        caller: &Caller<'_>,
        path: &[Name],
        options: Options,
    ) -> Result<(Arc<Directory>, Name), Refusal> {
        let (last, above) = path.split_last().ok_or(Refusal::BadName)?;
        let search =
            Search { exact: self.is_exact(options), how: OpenHow::Attributes, rather_missing: false };
        let parent = match self
            .walk(caller, None, above, (options - Options::OPEN_LINK) | Options::DIRECTORY, search)?
            .0
        {
            WalkTarget::Root(root) => root,
            WalkTarget::There { parent, found } if found.node.kind() == NodeKind::Directory => {
                let name = &found.name;
                self.directories().enter(&parent, (name, name), found.node, None)
            }
            WalkTarget::There { .. } | WalkTarget::Missing { .. } => return Err(Refusal::PathNotFound),
        };
        self.check_passes(&parent, &Walk::from(self.root(), &path[..1]))?;
        self.check_traverse(caller, &parent)?;
        Ok((parent, last.clone()))
    }

    /// Whether the caller may pass through a directory. A stored descriptor does not decide that, because
    /// anyone who knows a path may use it. The host's own permission bits do.
    pub(crate) fn check_traverse(
        &self,
        caller: &Caller<'_>,
        directory: &Arc<Directory>,
    ) -> Result<(), Refusal> {
        let security = self.directory_security(directory)?;
        if security.is_stored || self.may(caller, &security, Rights::TRAVERSE) {
            Ok(())
        } else {
            Err(Refusal::AccessDenied)
        }
    }

    /// Whether the caller may use a name in a directory that it has reached itself, one name at a time. Here
    /// a stored descriptor decides too.
    // RFC 8881 6.2.1.3.1 (EXECUTE)
    pub(crate) fn check_search(
        &self,
        caller: &Caller<'_>,
        directory: &Arc<Directory>,
    ) -> Result<(), Refusal> {
        let security = self.directory_security(directory)?;
        if self.may(caller, &security, Rights::TRAVERSE) { Ok(()) } else { Err(Refusal::AccessDenied) }
    }

    /// The directory in which a walk from `item` begins.
    pub(crate) fn start(&self, caller: &Caller<'_>, item: &Item) -> Result<Arc<Directory>, Refusal> {
        let directory = item.directory()?;
        self.check_search(caller, directory)?;
        Ok(Arc::clone(directory))
    }
}

impl WalkTarget {
    /// The kind of the target, if it exists.
    pub(crate) fn kind(&self) -> Option<NodeKind> {
        match self {
            WalkTarget::Root(_) => Some(NodeKind::Directory),
            WalkTarget::There { found, .. } => Some(found.node.kind()),
            WalkTarget::Missing { .. } => None,
        }
    }

    /// The identity of the target, if it exists.
    fn id(&self) -> Option<NodeId> {
        match self {
            WalkTarget::Root(root) => Some(root.id),
            WalkTarget::There { found, .. } => Some(found.node.id()),
            WalkTarget::Missing { .. } => None,
        }
    }
}

impl Walk {
    /// A walk along a path from a directory.
    pub(crate) fn from(from: &Arc<Directory>, path: &[Name]) -> Walk {
        let above = from.ancestors();
        let mut stack = Vec::with_capacity(above.len() + 1 + path.len());
        stack.extend(above.into_iter().rev().map(|(directory, _)| directory));
        stack.push(Arc::clone(from));
        Walk {
            stack,
            left: path.iter().rev().cloned().map(WalkStep::Down).collect(),
            hops: 0,
            steps: 0,
            trail: LinkTrail::default(),
        }
    }

    fn here(&self, root: &Arc<Directory>) -> Arc<Directory> {
        Arc::clone(self.stack.last().unwrap_or(root))
    }
}
