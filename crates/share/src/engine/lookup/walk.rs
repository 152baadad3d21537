//! The walk along a path to its target: component by component, never out of the share, and never out of the
//! user's home ([`crate::Identity::home`]).

use std::sync::Arc;

use volume::{Name, Node, NodeId, NodeKind, OpenHow};

use crate::engine::Share;
use crate::engine::lookup::item::Item;
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::parts::followed_links::{LastLink, LinkTrail};
use crate::engine::parts::names::directory::Directory;
use crate::{Caller, Identity, Open, Options, Refusal};
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
    /// How many directories of the stack are never left: the root, and with it the user's home.
    floor: usize,
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

    /// Finds the target of `path`, from a directory or from the top of what the caller can reach.
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
        let mut walk = self.begin_walk(caller, from, path)?;
        let found = self.walk_to_end(caller, &mut walk, options, search)?;
        let found = self.unless_circular(&walk.trail, found, options, search)?;
        Ok((found, walk.trail))
    }

    /// A walk along a path, from a directory or from the top of what the caller can reach.
    ///
    /// # Errors
    /// As [`Share::walk`] for the user's home.
    pub(crate) fn begin_walk(
        &self,
        caller: &Caller<'_>,
        from: Option<&Arc<Directory>>,
        path: &[Name],
    ) -> Result<Walk, Refusal> {
        let Some(home) = &caller.identity.home else {
            return Ok(Walk::from(from.unwrap_or(self.root()), path));
        };
        let mut walk = match from {
            Some(from) => Walk::from(from, path),
            None => Walk::from(&self.home_directory(caller, home)?, path),
        };
        let is_home = |directory: &Arc<Directory>| {
            let at = directory.parent_and_name();
            at.is_some_and(|(parent, name)| self.is_home(caller.identity, &parent, &name))
        };
        // A directory that a program of the host has moved out of the home is itself the limit.
        walk.floor = if walk.stack.get(1).is_some_and(is_home) { 2 } else { walk.stack.len() };
        Ok(walk)
    }

    /// The home of the caller. It must be a directory in the root itself: whoever can make a link of it could
    /// lead the user elsewhere.
    fn home_directory(&self, caller: &Caller<'_>, home: &Name) -> Result<Arc<Directory>, Refusal> {
        let mut walk = Walk::from(self.root(), &[]);
        match self.step(caller, &mut walk, self.root(), home, Options::STOP_AT_LINKS, true) {
            Err(Refusal::StoppedAtLink { .. } | Refusal::StoppedAtReparse { .. }) => {
                Err(Refusal::PathNotFound)
            }
            other => other.map(|_| walk.here(self.root())),
        }
    }

    /// Whether a name is that of the user's home.
    pub(crate) fn is_home(&self, identity: &Identity, parent: &Directory, name: &Name) -> bool {
        identity.home.as_ref() == Some(name) && parent.id == self.root().id
    }

    /// Refuses to give the home of the user that opened it another name, or to put a link in its place.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], as for the root of a share.
    pub(crate) fn check_not_home(&self, identity: &Identity, open: &Open) -> Result<(), Refusal> {
        let is_home = |(parent, name): (Arc<Directory>, Name)| self.is_home(identity, &parent, &name);
        if open.parent_and_name().is_some_and(is_home) { Err(Refusal::AccessDenied) } else { Ok(()) }
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
                WalkStep::Up if walk.stack.len() > walk.floor => {
                    walk.stack.pop();
                    continue;
                }
                WalkStep::Up => return Err(Refusal::BadLink),
                WalkStep::Down(name) => name,
            };
            let here = walk.here(self.root());
            let found = if walk.left.is_empty() {
                self.last_step(caller, walk, &here, &name, options, search)?
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
                self.follow(caller, walk, here, node.as_ref(), options).map(|()| None)
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
        caller: &Caller<'_>,
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
            self.follow(caller, walk, here, found.node.as_ref(), options)?;
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
        caller: &Caller<'_>,
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
            let inside = self.inside_home(caller.identity, walk, &text).ok_or(Refusal::BadLink)?;
            walk.stack.truncate(walk.floor);
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

    /// The part of an absolute path of the host below the directory that the walk never leaves.
    fn inside_home<'t>(&self, identity: &Identity, walk: &Walk, text: &'t [u8]) -> Option<&'t [u8]> {
        let inside = self.settings().inside(text)?;
        match &identity.home {
            None => Some(inside),
            Some(home) if walk.floor == 2 => below(inside, home),
            Some(_) => None,
        }
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
    /// anyone who knows a path may use it. The host's own permission bits do. A descriptor that guards
    /// the path is an exception: the folders of users in the recycle folder have one.
    pub(crate) fn check_traverse(
        &self,
        caller: &Caller<'_>,
        directory: &Arc<Directory>,
    ) -> Result<(), Refusal> {
        let security = self.directory_security(directory)?;
        let is_passed = security.is_stored && !security.descriptor.guards_path();
        if is_passed || self.may(caller, &security, Rights::TRAVERSE) {
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
            floor: 1,
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

/// The part of a path below its first component, if that is `home`.
pub(crate) fn below<'p>(path: &'p [u8], home: &Name) -> Option<&'p [u8]> {
    let start = path.iter().position(|byte| *byte != b'/')?;
    let rest = path[start..].strip_prefix(home.as_bytes())?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}
