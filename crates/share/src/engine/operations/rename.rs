//! Renames of files, directories and streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Failure, Name, NodeId, NodeKind, OpenHow};

use crate::caching::grants::{Need, Requester};
use crate::engine::Share;
use crate::engine::lookup::item::Item;
use crate::engine::lookup::name::Search;
use crate::engine::operations::create::MAX_ATTEMPTS;
use crate::engine::parts::file::File;
use crate::engine::parts::names::directory::{Directory, DirectoryEntry, KnownName, change_both};
use crate::engine::services::audit::{AuditedPath, AuditedStep, path_below};
use crate::engine::services::expiry::is_conflict;
use crate::engine::values::effects::Effects;
use crate::{
    Attributes, AuditClasses, AuditedOperation, CallResult, Caller, ChangeFilter, ClientKey, Deny, Identity,
    Open, Options, Refusal,
};

/// The requested destination.
#[derive(Clone, Copy)]
pub(crate) enum DestinationRequest<'a> {
    /// A path from the root.
    Path(&'a [Name]),
    /// A name in a directory.
    In(&'a Item, &'a Name),
}

impl DestinationRequest<'_> {
    /// The path that was asked for; none if the directory's own is not known.
    pub(crate) fn path(self, user: &Identity) -> Option<Vec<u8>> {
        match self {
            DestinationRequest::Path(path) => path_below(user, None, path),
            DestinationRequest::In(above, name) => path_below(user, Some(above), std::slice::from_ref(name)),
        }
    }
}

/// The parameters of a rename.
#[derive(Clone, Copy)]
struct Rename<'a> {
    to: DestinationRequest<'a>,
    /// An existing object at the new name may be replaced.
    replace: bool,
    /// The rules of POSIX apply: directories are replaced too, and opens below do not conflict.
    posix: bool,
}

/// The resolved destination.
struct Destination {
    parent: Arc<Directory>,
    /// The requested new name.
    name: Name,
    /// The object that has the name now: its real name, identity and kind.
    there: Option<(Name, NodeId, NodeKind)>,
    /// The generation of the directory's names before the lookup.
    generation: u64,
    /// [`Stream::given`](crate::engine::parts::file::Stream::given) of the file that moves, before others
    /// were asked to yield.
    given: u64,
}

impl Share {
    /// Renames the open object, or with `to_stream` the open stream. If a symbolic link was followed to it,
    /// the link is renamed in its place.
    // MS-FSA 2.1.5.15.12
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &[Name],
        to_stream: Option<&Name>,
        replace: bool,
        posix: bool,
    ) -> CallResult<()> {
        if let Some(name) = to_stream {
            let renamed = self.rename_stream(open, name, replace);
            let new_path = Some(AuditedPath::Bytes(name.as_bytes()));
            let step = AuditedStep { new_path, ..AuditedStep::of(AuditedOperation::Rename) };
            return self.audited_now(caller, open, step, renamed).into();
        }
        self.rename_to(caller, open, Rename { to: DestinationRequest::Path(to), replace, posix })
    }

    /// Gives the open object a name in a directory that was found before. An existing object there is
    /// replaced, as far as the host's own rules permit. Its opens go on with a file without a name, unless
    /// one of them denies deletion.
    pub fn rename_into(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &Item,
        name: &Name,
    ) -> CallResult<()> {
        self.rename_to(
            caller,
            open,
            Rename { to: DestinationRequest::In(to, name), replace: true, posix: true },
        )
    }

    fn rename_to(&self, caller: &Caller<'_>, open: &Arc<Open>, asked: Rename<'_>) -> CallResult<()> {
        self.begin(caller.cause());
        if open.options.contains(Options::BY_LINK) && open.followed.get().is_none() {
            // After a restart it is not known which link it was.
            return CallResult::Refused(Refusal::AccessDenied);
        }
        self.with_last_link(caller, open, |open| {
            let before = self.path_before(open, AuditedOperation::Rename);
            let renamed = self.rename_name(caller, open, asked);
            match before {
                Some(before) => self.audit_rename(caller, open, &before, asked.to, renamed),
                None => renamed,
            }
        })
    }

    /// Tells of a rename, or of its refusal with the path that was asked for.
    #[cold]
    fn audit_rename(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        before: &[u8],
        to: DestinationRequest<'_>,
        renamed: CallResult<()>,
    ) -> CallResult<()> {
        let asked = to.path(caller.identity);
        let new_path = match &renamed {
            CallResult::Done(()) => Some(AuditedPath::Link(open.link.as_deref())),
            _ => asked.as_deref().map(AuditedPath::Bytes),
        };
        let path = Some(AuditedPath::Bytes(before));
        let step = AuditedStep { path, new_path, ..AuditedStep::of(AuditedOperation::Rename) };
        self.audited(caller, open, step, renamed)
    }

    fn rename_name(&self, caller: &Caller<'_>, open: &Arc<Open>, asked: Rename<'_>) -> CallResult<()> {
        // Opens below it are found by their paths.
        match if open.is_directory() { self.restore_below(|| open.path()) } else { Ok(true) } {
            Ok(true) => {}
            Ok(false) => return self.try_later(caller),
            Err(why) => return CallResult::Refused(why),
        }
        let prepare = || match self.prepare_rename(caller, open, asked) {
            Ok(step) => step,
            Err(why) => CallResult::Refused(why),
        };
        // The object at the new name, or one below, may be open.
        let is_in_the_way = |why: &Refusal| is_conflict(why) || *why == Refusal::AccessDenied;
        let files = || self.conflicting_files(caller, open, asked.to);
        for _ in 0..MAX_ATTEMPTS {
            let destination = match self.retry_past_expired(caller, files, is_in_the_way, prepare) {
                CallResult::Done(destination) => destination,
                CallResult::Wait(ticket) => return CallResult::Wait(ticket),
                CallResult::Refused(why) => return CallResult::Refused(why),
            };
            match self.rename_now(caller, open, &destination, asked) {
                Ok(true) => return CallResult::Done(()),
                Ok(false) => {}
                Err(why) => return CallResult::Refused(why),
            }
        }
        CallResult::Refused(Refusal::Busy)
    }

    /// Files with opens that may conflict with a rename: this one, those below it, and the destination.
    fn conflicting_files(&self, caller: &Caller<'_>, open: &Open, to: DestinationRequest<'_>) -> Vec<NodeId> {
        let mut files = vec![open.file.id];
        if let Ok(destination) = self.destination(caller, open, to) {
            files.push(destination.parent.id);
            files.extend(destination.there.map(|(_, id, _)| id));
        }
        if open.is_directory() {
            let all = self.open_files().all();
            files.extend(all.iter().filter(|file| is_below(file, open.file.id)).map(|file| file.id));
        }
        files
    }

    fn prepare_rename(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        asked: Rename<'_>,
    ) -> Result<CallResult<Destination>, Refusal> {
        let Rename { to, replace, posix } = asked;
        if !open.granted.contains(Rights::DELETE) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        self.check_not_home(caller.identity, open)?;
        let link = open.link.as_ref().ok_or(Refusal::AccessDenied)?;
        if open.file.is_deleted(Some(link)) {
            return Err(Refusal::AccessDenied);
        }
        let destination = self.destination(caller, open, to)?;
        let (from, own_name) = link.parent_and_name();
        self.check_not_recycle_name(&from, &own_name)?;
        self.check_not_recycle_name(&destination.parent, &destination.name)?;
        self.check_link_moves(caller.identity, open, &destination.parent)?;
        self.check_may_move(caller, open, &destination)?;
        match self.check_not_deletable(caller, open, &destination.parent) {
            CallResult::Done(()) => {}
            CallResult::Wait(ticket) => return Ok(CallResult::Wait(ticket)),
            CallResult::Refused(why) => return Err(why),
        }
        match self.require_for(caller, open, Need::Rename) {
            CallResult::Done(()) => {}
            CallResult::Wait(ticket) => return Ok(CallResult::Wait(ticket)),
            CallResult::Refused(why) => return Err(why),
        }
        if open.file.any_member(|m| m.stream.is_named) {
            return Err(Refusal::AccessDenied);
        }
        if open.is_directory() {
            match self.check_nothing_open_below(caller, open, posix) {
                CallResult::Done(()) => {}
                CallResult::Wait(ticket) => return Ok(CallResult::Wait(ticket)),
                CallResult::Refused(why) => return Err(why),
            }
        }
        let Some((real, id, kind)) = destination.there.clone() else {
            return Ok(CallResult::Done(destination));
        };
        let is_itself = id == open.file.id && from.id == destination.parent.id && real == own_name;
        if is_itself {
            return Ok(CallResult::Done(destination));
        }
        if !replace {
            return Err(Refusal::Exists);
        }
        if kind == NodeKind::Directory && !(posix && open.is_directory()) {
            return Err(Refusal::AccessDenied);
        }
        Ok(self.check_replaceable(caller, open, &destination.parent, &real, posix)?.map(|()| destination))
    }

    /// The directory of a destination, and the name in it.
    ///
    /// # Errors
    /// As the walk to it says.
    pub(crate) fn goal(
        &self,
        caller: &Caller<'_>,
        to: DestinationRequest<'_>,
        options: Options,
    ) -> Result<(Arc<Directory>, Name), Refusal> {
        match to {
            DestinationRequest::Path(path) => self.walk_to_parent(caller, path, options),
            DestinationRequest::In(above, name) => Ok((self.start(caller, above)?, name.clone())),
        }
    }

    fn destination(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        to: DestinationRequest<'_>,
    ) -> Result<Destination, Refusal> {
        let options = open.options & (Options::EXACT_CASE | Options::STOP_AT_LINKS);
        let (parent, name) = self.goal(caller, to, options)?;
        let generation = parent.generation();
        let search = Search { exact: self.is_exact(options), how: OpenHow::Attributes, rather_missing: true };
        let found = self.look_up(&parent, &name, search)?;
        let there = found.map(|found| (found.name, found.node.id(), found.node.kind()));
        Ok(Destination { parent, name, there, generation, given: open.stream.given() })
    }

    /// Whether the caller may put the open's file into another directory.
    fn check_may_move(&self, caller: &Caller<'_>, open: &Open, to: &Destination) -> Result<(), Refusal> {
        if open.file.is_directory && to.parent.is_within(open.file.id) {
            return Err(Refusal::Invalid);
        }
        let adds = if open.file.is_directory { Rights::ADD_SUBDIRECTORY } else { Rights::ADD_FILE };
        let security = self.directory_security(&to.parent)?;
        if !self.may(caller, &security, adds) {
            return Err(Refusal::AccessDenied);
        }
        if self.open_files().is_going(to.parent.id) {
            return Err(Refusal::DeletePending);
        }
        Ok(())
    }

    /// Refuses while a client may delete the directory that is to get the name. Holders that only keep it
    /// open are asked to close it first. A rename opens the directory to add a name, and lets no client
    /// delete it meanwhile.
    // MS-FSA 2.1.5.15.12
    fn check_not_deletable(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        directory: &Arc<Directory>,
    ) -> CallResult<()> {
        let Some(file) = self.open_files().get(directory.id) else {
            return CallResult::Done(());
        };
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        let stream = state.enter_stream(None);
        if state.shares(&stream, Rights::ADD_FILE, Deny::DELETE) {
            return CallResult::Done(());
        }
        let requester = Requester { key: None, parent: None, ..open.requester() };
        let entry = state.stream(&stream);
        let wait = self.require(&file, entry, &requester, Need::CloseKept, caller.cause(), &mut effects);
        let step = if wait {
            self.park(caller, &file, &mut state, Refusal::SharingConflict)
        } else {
            CallResult::Refused(Refusal::SharingConflict)
        };
        drop(state);
        self.settle(effects);
        step
    }

    /// Refuses to move a directory below which a file is open. Holders that only keep a file open are asked
    /// to close it first. By the rules of POSIX only an open that denies deletion conflicts. With
    /// [`Options::MOVES_BESIDE_OWN`] the other opens of the same client do not conflict.
    // MS-FSA 2.1.4.2
    fn check_nothing_open_below(&self, caller: &Caller<'_>, open: &Arc<Open>, posix: bool) -> CallResult<()> {
        let spared = open.options.contains(Options::MOVES_BESIDE_OWN).then(|| open.client());
        for file in self.open_files().all() {
            let is_in_the_way = || !spared.is_some_and(|client| is_open_by_one(&file, client));
            if is_below(&file, open.file.id) && (!posix || denies_deletion(&file)) && is_in_the_way() {
                match self.ask_to_close(caller, open, &file, false) {
                    CallResult::Done(()) => {}
                    other => return other,
                }
            }
        }
        CallResult::Done(())
    }

    /// Asks holders that only keep a file open to close it. If others have it open, they may keep it with
    /// `spares_others`; otherwise the request is refused.
    fn ask_to_close(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        file: &Arc<File>,
        spares_others: bool,
    ) -> CallResult<()> {
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        let mut wait = false;
        for stream in &mut state.streams {
            wait |= self.require(file, stream, &open.requester(), Need::Rename, caller.cause(), &mut effects);
        }
        let step = if wait {
            self.park(caller, file, &mut state, Refusal::AccessDenied)
        } else if spares_others || state.members.is_empty() {
            CallResult::Done(())
        } else {
            CallResult::Refused(Refusal::AccessDenied)
        };
        drop(state);
        self.settle(effects);
        step
    }

    /// Whether the object at the new name may be replaced.
    pub(crate) fn check_replaceable(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        parent: &Arc<Directory>,
        real: &Name,
        posix: bool,
    ) -> Result<CallResult<()>, Refusal> {
        let node = parent.node.lookup(real, OpenHow::Attributes)?;
        self.restore_file(node.id())?;
        let file = self.open_files().enter(node.id(), node.kind());
        let properties = self.properties(&file, node.as_ref(), None, None);
        let checked = properties.and_then(|properties| {
            if properties.record.bits(&properties.stat).contains(Attributes::READ_ONLY) && !posix {
                return Err(Refusal::AccessDenied);
            }
            self.rights_on(caller, &properties.security, Some(parent), Rights::DELETE, Options::empty())
        });
        let is_same_file = file.id == open.file.id;
        match checked {
            Err(why) => Err(why),
            Ok(_) if is_same_file => Ok(CallResult::Done(())),
            Ok(_) => Ok(self.ask_to_close(caller, open, &file, posix && !denies_deletion(&file))),
        }
    }

    /// Moves the name. Returns false if the objects are no longer as they were found.
    fn rename_now(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &Destination,
        Rename { replace, posix, .. }: Rename<'_>,
    ) -> Result<bool, Refusal> {
        let link = open.link.as_ref().ok_or(Refusal::AccessDenied)?;
        let (from, name) = link.parent_and_name();
        if from.id == to.parent.id && name == to.name {
            return Ok(true);
        }
        let (old, new) = (from.entry(&name), to.parent.entry(&to.name));
        let moves_tree = open.file.is_directory && self.settings().recycle.is_some();
        let no_purge = moves_tree.then(|| self.recycle_bin().hold_purges());
        let locks = change_both(old, new);
        let stands = to
            .there
            .as_ref()
            .filter(|(real, id, _)| !(*id == open.file.id && from.id == to.parent.id && *real == name));
        let actor = caller.identity.actor.as_ref();
        if !self.has_no_other_spelling(open, old, to, stands)? {
            return Err(Refusal::Exists);
        }
        if !self.is_as_found(open, old, to, stands, posix) {
            return Ok(false);
        }
        // Another spelling of the new name would stay beside it. An object with data is removed only after
        // the move has succeeded.
        let other = stands.filter(|(real, ..)| *real != to.name);
        let clear = |is_directory: bool| match other {
            Some((real, _, kind)) if (*kind == NodeKind::Directory) == is_directory => {
                to.parent.node.remove(real, is_directory, actor)?;
                to.parent.removed(real);
                Ok(())
            }
            _ => Ok::<(), Refusal>(()),
        };
        clear(true)?;
        let persistent = self.persistent_through(&open.file, link);
        let [old_path, new_path] = [old, new].map(|entry| entry.parent.path_to(entry.name));
        self.note_places(&persistent, &[old_path.clone(), new_path.clone()]);
        let moves = self.directories().moves();
        let moved = from.node.rename(&name, to.parent.node.as_ref(), &to.name, replace, actor);
        self.note_places(&persistent, &[if moved.is_ok() { new_path } else { old_path }]);
        moved?;
        let cleared = clear(false);
        from.removed(&name);
        to.parent.added(&to.name);
        if let (Some((real, id, _)), Ok(())) = (stands, &cleared) {
            self.forget_replaced(*id, &to.parent, real);
        }
        link.set_place(Arc::clone(&to.parent), to.name.clone());
        // MS-SMB2 3.3.5.21.1
        self.rights().keys().set_goes(&open.requester(), &open.stream, false);
        if open.file.is_directory {
            self.directories().note_renamed(open.file.id, new, moves);
        }
        // Only now: a request that removes either name next must know where this one is, and what it has
        // replaced.
        drop((locks, no_purge));
        self.note_recycled_moved(open, &from, &to.parent);
        if let (Some((_, id, kind)), Ok(())) = (stands, &cleared) {
            self.audit_replaced(caller, new, *id, *kind);
        }
        self.report_rename(old, new, open.file.is_directory, &open.requester(), caller.cause());
        if !open.file.is_directory {
            // A file counts as changed. That is reported when it is closed.
            // MS-FSA 2.1.5.15.12
            self.mark_archive(open)?;
            open.unreported.fetch_or(ChangeFilter::ATTRIBUTES.bits(), Ordering::Relaxed);
        }
        cleared.map(|()| true)
    }

    /// Whether only the found object has the new name in any spelling. Since the search, another thread may
    /// have created one that differs only in case.
    fn has_no_other_spelling(
        &self,
        open: &Open,
        from: DirectoryEntry<'_>,
        to: &Destination,
        stands: Option<&(Name, NodeId, NodeKind)>,
    ) -> Result<bool, Refusal> {
        if self.is_exact(open.options) {
            return Ok(true);
        }
        let KnownName::Names(names) = self.directories().known(&to.parent, &to.name)? else {
            return Ok(true);
        };
        let is_expected = |real: &Name| {
            (from.parent.id == to.parent.id && real == from.name)
                || stands.is_some_and(|found| found.0 == *real)
        };
        Ok(names.iter().all(is_expected))
    }

    /// Whether nothing has changed since the checks. The name that moves must lead to the same file and must
    /// not be marked for deletion. No client may have got a right to cache it since. The replaced object must
    /// be the one that was checked, and must not be open. Both names are locked: a request that opens one of
    /// them from now on waits, and looks again.
    fn is_as_found(
        &self,
        open: &Open,
        from: DirectoryEntry<'_>,
        to: &Destination,
        stands: Option<&(Name, NodeId, NodeKind)>,
        posix: bool,
    ) -> bool {
        let is_here = open
            .link
            .as_ref()
            .is_some_and(|link| link.is_at(from.parent.id, from.name) && !open.file.is_deleted(Some(link)));
        let is_given = open.stream.given() != to.given;
        let is_unchanged = to.parent.generation() == to.generation
            || match stands {
                Some((real, id, _)) => to.parent.holds(real, *id),
                None => match to.parent.node.stat_name(&to.name) {
                    Ok(stat) => stat.id == open.file.id,
                    Err(why) => why == Failure::NotFound,
                },
            };
        let is_free = |id: NodeId| id == open.file.id || self.is_replaceable_now(id, posix);
        is_here && !is_given && is_unchanged && stands.is_none_or(|(_, id, _)| is_free(*id))
    }

    /// Whether no open keeps this object from being replaced.
    pub(crate) fn is_replaceable_now(&self, id: NodeId, posix: bool) -> bool {
        !self.persistence().unrestored().has_file(id.inode)
            && self.open_files().get(id).is_none_or(|file| may_be_replaced(&file, posix))
    }

    /// Tells that an object has lost its name to another one.
    pub(crate) fn audit_replaced(
        &self,
        caller: &Caller<'_>,
        at: DirectoryEntry<'_>,
        id: NodeId,
        kind: NodeKind,
    ) {
        if self.audits(AuditClasses::DELETE) {
            let operation = match kind {
                NodeKind::Directory => AuditedOperation::RemoveDirectory,
                _ => AuditedOperation::Remove,
            };
            let path = Some(AuditedPath::In(at.parent, at.name));
            self.audit_name(caller, AuditedStep { path, ..AuditedStep::of(operation) }, Some(id), None);
        }
    }

    /// Marks the name of a replaced file as gone for those that still have it open.
    pub(crate) fn forget_replaced(&self, id: NodeId, parent: &Arc<Directory>, real: &Name) {
        if let Some(file) = self.open_files().get(id) {
            file.note_removed(parent.id, real);
        }
        self.directories().forget(id);
    }

    // MS-FSA 2.1.5.15.12.1
    fn rename_stream(&self, open: &Arc<Open>, to: &Name, replace: bool) -> Result<(), Refusal> {
        if !open.granted.contains(Rights::DELETE) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        let from = open.stream().ok_or(Refusal::Invalid)?;
        if from == *to {
            return Ok(());
        }
        let is_open = open.file.any_member(|m| m.stream.name().as_ref() == Some(to));
        if is_open {
            return Err(Refusal::AccessDenied);
        }
        match open.node.rename_stream(&from, to, replace) {
            Ok(()) => {}
            Err(Failure::Exists) => return Err(Refusal::Exists),
            Err(failure) => return Err(failure.into()),
        }
        open.stream.set_name(to.clone());
        self.record_again(open)?;
        if let Some(link) = &open.link {
            self.report_stream_rename(link, from, to.clone());
        }
        Ok(())
    }
}

/// Whether an open of a file denies deletion.
fn denies_deletion(file: &File) -> bool {
    file.any_member(|m| !m.access.is_empty() && m.deny.contains(Deny::DELETE))
}

/// Whether every open of a file belongs to the client.
fn is_open_by_one(file: &File, client: ClientKey) -> bool {
    !file.any_member(|member| member.requester.client != Some(client))
}

/// Whether another file may take the name of a file that may be open. By the rules of POSIX it may, unless an
/// open denies deletion.
fn may_be_replaced(file: &File, posix: bool) -> bool {
    if posix { !denies_deletion(file) } else { !file.has_members() }
}

/// Whether an open file has a name below a directory.
fn is_below(file: &File, directory: NodeId) -> bool {
    if file.id == directory {
        return false;
    }
    let state = file.state.lock();
    let links: Vec<_> = state.links.iter().filter(|l| !l.removed).map(|l| Arc::clone(&l.link)).collect();
    drop(state);
    links.iter().any(|link| link.parent_and_name().0.is_within(directory))
}
