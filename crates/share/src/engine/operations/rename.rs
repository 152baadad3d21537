//! Renaming files, directories and streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::security::Rights;
use volume::{Failure, Name, NodeId, NodeKind, OpenHow};

use crate::caching::grants::{Asker, Need};
use crate::engine::Share;
use crate::engine::finding::item::Item;
use crate::engine::finding::look_up::Search;
use crate::engine::operations::create::MAX_ATTEMPTS;
use crate::engine::parts::file::File;
use crate::engine::parts::names::directory::{Changing, Directory, DirectoryEntry, Known};
use crate::engine::services::lapsed::is_held;
use crate::engine::values::effects::Effects;
use crate::{Attributes, Caller, ChangeFilter, ClientKey, Deny, Open, Options, Refusal, Step};

/// Where something is to go, as it was asked for.
#[derive(Clone, Copy)]
pub(crate) enum Goal<'a> {
    /// A path from the root.
    Path(&'a [Name]),
    /// A name in a directory.
    In(&'a Item, &'a Name),
}

/// A rename, as it was asked for.
#[derive(Clone, Copy)]
struct Rename<'a> {
    to: Goal<'a>,
    /// What stands there may be replaced.
    replace: bool,
    /// By the rules of POSIX: directories are replaced, too, and what is open below is in nobody's way.
    posix: bool,
}

/// Where something is to go.
struct Destination {
    parent: Arc<Directory>,
    /// The new name, as it was asked for.
    name: Name,
    /// What stands there now: its real name and what it is.
    there: Option<(Name, NodeId, NodeKind)>,
    /// The generation of the directory's names before it was looked at.
    generation: u64,
    /// [`Stream::given`](crate::engine::parts::file::Stream::given) of what moves, before others were asked to give way.
    given: u64,
}

impl Share {
    /// Renames what is open, or the stream that is open when `to_stream` is given. A symbolic link that was followed to it
    /// is renamed in its place.
    // MS-FSA 2.1.5.15.12
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &[Name],
        to_stream: Option<&Name>,
        replace: bool,
        posix: bool,
    ) -> Step<()> {
        if let Some(name) = to_stream {
            return self.rename_stream(open, name, replace).into();
        }
        self.rename_to(caller, open, Rename { to: Goal::Path(to), replace, posix })
    }

    /// Gives what is open a name in a directory that was found before. What stands there is replaced, as far
    /// as the host's own rules go; who has it open goes on with a file without a name, unless they said that
    /// nobody may delete it.
    pub fn rename_into(&self, caller: &Caller<'_>, open: &Arc<Open>, to: &Item, name: &Name) -> Step<()> {
        self.rename_to(caller, open, Rename { to: Goal::In(to, name), replace: true, posix: true })
    }

    fn rename_to(&self, caller: &Caller<'_>, open: &Arc<Open>, asked: Rename<'_>) -> Step<()> {
        self.begin(caller.cause());
        if open.options.contains(Options::BY_LINK) && open.followed.get().is_none() {
            // After a restart nobody knows any more which link it was.
            return Step::Refused(Refusal::AccessDenied);
        }
        self.with_last_link(caller, open, |open| self.rename_name(caller, open, asked))
    }

    fn rename_name(&self, caller: &Caller<'_>, open: &Arc<Open>, asked: Rename<'_>) -> Step<()> {
        let prepare = || match self.prepare_rename(caller, open, asked) {
            Ok(step) => step,
            Err(why) => Step::Refused(why),
        };
        // What stands there, or below, may be open.
        let is_in_the_way = |why: &Refusal| is_held(why) || *why == Refusal::AccessDenied;
        let files = || self.files_in_the_way(caller, open, asked.to);
        for _ in 0..MAX_ATTEMPTS {
            let destination = match self.past_lapsed(caller, files, is_in_the_way, prepare) {
                Step::Done(destination) => destination,
                Step::Wait(ticket) => return Step::Wait(ticket),
                Step::Refused(why) => return Step::Refused(why),
            };
            match self.rename_now(caller, open, &destination, asked) {
                Ok(true) => return Step::Done(()),
                Ok(false) => {}
                Err(why) => return Step::Refused(why),
            }
        }
        Step::Refused(Refusal::Busy)
    }

    /// Files through which somebody may be in the way of a rename: this one, what is below it, where it goes to.
    fn files_in_the_way(&self, caller: &Caller<'_>, open: &Open, to: Goal<'_>) -> Vec<NodeId> {
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
    ) -> Result<Step<Destination>, Refusal> {
        let Rename { to, replace, posix } = asked;
        if !open.granted.contains(Rights::DELETE) {
            return Err(Refusal::AccessDenied);
        }
        self.check_writable()?;
        let link = open.link.as_ref().ok_or(Refusal::AccessDenied)?;
        if open.file.is_deleted(Some(link)) {
            return Err(Refusal::AccessDenied);
        }
        let destination = self.destination(caller, open, to)?;
        self.check_link_moves(open, &destination.parent)?;
        self.check_may_go(caller, open, &destination)?;
        match self.check_stays(caller, open, &destination.parent) {
            Step::Done(()) => {}
            Step::Wait(ticket) => return Ok(Step::Wait(ticket)),
            Step::Refused(why) => return Err(why),
        }
        match self.require_for(caller, open, Need::Rename) {
            Step::Done(()) => {}
            Step::Wait(ticket) => return Ok(Step::Wait(ticket)),
            Step::Refused(why) => return Err(why),
        }
        if open.file.any_member(|m| m.stream.is_named) {
            return Err(Refusal::AccessDenied);
        }
        if open.is_directory() {
            match self.check_nothing_open_below(caller, open, posix) {
                Step::Done(()) => {}
                Step::Wait(ticket) => return Ok(Step::Wait(ticket)),
                Step::Refused(why) => return Err(why),
            }
        }
        let Some((real, id, kind)) = destination.there.clone() else {
            return Ok(Step::Done(destination));
        };
        let (parent, own_name) = link.place();
        let is_itself = id == open.file.id && parent.id == destination.parent.id && real == own_name;
        if is_itself {
            return Ok(Step::Done(destination));
        }
        if !replace {
            return Err(Refusal::Exists);
        }
        if kind == NodeKind::Directory && !(posix && open.is_directory()) {
            return Err(Refusal::AccessDenied);
        }
        Ok(self.check_replaceable(caller, open, &destination.parent, &real, posix)?.map(|()| destination))
    }

    /// The directory of a goal, and the name in it.
    ///
    /// # Errors
    /// As the walk to it says.
    pub(crate) fn goal(
        &self,
        caller: &Caller<'_>,
        to: Goal<'_>,
        options: Options,
    ) -> Result<(Arc<Directory>, Name), Refusal> {
        match to {
            Goal::Path(path) => self.walk_to_parent(caller, path, options),
            Goal::In(above, name) => Ok((self.start(caller, above)?, name.clone())),
        }
    }

    fn destination(&self, caller: &Caller<'_>, open: &Open, to: Goal<'_>) -> Result<Destination, Refusal> {
        let options = open.options & (Options::EXACT_CASE | Options::STOP_AT_LINKS);
        let (parent, name) = self.goal(caller, to, options)?;
        let generation = parent.generation();
        let search = Search { exact: self.is_exact(options), how: OpenHow::Attributes, rather_missing: true };
        let found = self.look_up(&parent, &name, search)?;
        let there = found.map(|found| (found.name, found.node.id(), found.node.kind()));
        Ok(Destination { parent, name, there, generation, given: open.stream.given() })
    }

    /// Whether the caller may put the open's file into another directory.
    fn check_may_go(&self, caller: &Caller<'_>, open: &Open, to: &Destination) -> Result<(), Refusal> {
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

    /// Refuses while somebody may delete the directory that is to get the name, once those are asked to
    /// close who only keep it open: a rename opens it to add a name, and lets nobody delete it meanwhile.
    // MS-FSA 2.1.5.15.12
    fn check_stays(&self, caller: &Caller<'_>, open: &Open, directory: &Arc<Directory>) -> Step<()> {
        let Some(file) = self.open_files().get(directory.id) else {
            return Step::Done(());
        };
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        let stream = state.enter_stream(None);
        if state.shares(&stream, Rights::ADD_FILE, Deny::DELETE) {
            return Step::Done(());
        }
        let asker = Asker { key: None, parent: None, ..open.asker() };
        let entry = state.stream(&stream);
        let wait = self.require(&file, entry, &asker, Need::CloseKept, caller.cause(), &mut effects);
        let step = if wait {
            self.park(caller, &file, &mut state, Refusal::SharingConflict)
        } else {
            Step::Refused(Refusal::SharingConflict)
        };
        drop(state);
        self.settle(effects);
        step
    }

    /// Refuses to move a directory below which something is open, once those are asked to close who
    /// only keep it open. By the rules of POSIX only who lets nobody delete a file is in the way, and nothing is that the
    /// client of an open with [`Options::MOVES_BESIDE_OWN`] has open itself.
    // MS-FSA 2.1.4.2
    fn check_nothing_open_below(&self, caller: &Caller<'_>, open: &Arc<Open>, posix: bool) -> Step<()> {
        let spared = open.options.contains(Options::MOVES_BESIDE_OWN).then(|| open.client());
        for file in self.open_files().all() {
            let is_in_the_way = || !spared.is_some_and(|client| is_open_by_one(&file, client));
            if is_below(&file, open.file.id) && (!posix || is_held_fast(&file)) && is_in_the_way() {
                match self.ask_to_close(caller, open, &file, false) {
                    Step::Done(()) => {}
                    other => return other,
                }
            }
        }
        Step::Done(())
    }

    /// Asks those who only keep a file open to close it; when others have it open, `spares_others` lets them keep it,
    /// and it is refused otherwise.
    fn ask_to_close(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        file: &Arc<File>,
        spares_others: bool,
    ) -> Step<()> {
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        let mut wait = false;
        for stream in &mut state.streams {
            wait |= self.require(file, stream, &open.asker(), Need::Rename, caller.cause(), &mut effects);
        }
        let step = if wait {
            self.park(caller, file, &mut state, Refusal::AccessDenied)
        } else if spares_others || state.members.is_empty() {
            Step::Done(())
        } else {
            Step::Refused(Refusal::AccessDenied)
        };
        drop(state);
        self.settle(effects);
        step
    }

    /// Whether what stands at the new name may be replaced.
    pub(crate) fn check_replaceable(
        &self,
        caller: &Caller<'_>,
        open: &Open,
        parent: &Arc<Directory>,
        real: &Name,
        posix: bool,
    ) -> Result<Step<()>, Refusal> {
        let node = parent.node.lookup(real, OpenHow::Attributes)?;
        let file = self.open_files().enter(node.id(), node.kind());
        let facts = self.facts(&file, node.as_ref(), None, None);
        let checked = facts.and_then(|facts| {
            if facts.record.bits(&facts.stat).contains(Attributes::READ_ONLY) && !posix {
                return Err(Refusal::AccessDenied);
            }
            self.rights_on(caller, &facts.security, Some(parent), Rights::DELETE, Options::empty())
        });
        let is_same_file = file.id == open.file.id;
        match checked {
            Err(why) => Err(why),
            Ok(_) if is_same_file => Ok(Step::Done(())),
            Ok(_) => Ok(self.ask_to_close(caller, open, &file, posix && !is_held_fast(&file))),
        }
    }

    /// Moves the name; false when things are no longer as they were found.
    fn rename_now(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        to: &Destination,
        Rename { replace, posix, .. }: Rename<'_>,
    ) -> Result<bool, Refusal> {
        let link = open.link.as_ref().ok_or(Refusal::AccessDenied)?;
        let (from, name) = link.place();
        if from.id == to.parent.id && name == to.name {
            return Ok(true);
        }
        let (old, new) = (from.entry(&name), to.parent.entry(&to.name));
        let locks = both(old, new);
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
        // Another spelling of the new name would stay beside it. What holds data goes only when the move has succeeded.
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
        let lasting = self.lasting_through(&open.file, link);
        let [old_path, new_path] = [old, new].map(|entry| entry.parent.path_to(entry.name));
        self.note_places(&lasting, &[old_path.clone(), new_path.clone()]);
        let moves = self.directories().moves();
        let moved = from.node.rename(&name, to.parent.node.as_ref(), &to.name, replace, actor);
        self.note_places(&lasting, &[if moved.is_ok() { new_path } else { old_path }]);
        moved?;
        let cleared = clear(false);
        from.removed(&name);
        to.parent.added(&to.name);
        if let (Some((real, id, _)), Ok(())) = (stands, &cleared) {
            self.forget_replaced(*id, &to.parent, real);
        }
        link.set_place(Arc::clone(&to.parent), to.name.clone());
        // MS-SMB2 3.3.5.21.1
        self.rights().keys().set_goes(&open.asker(), &open.stream, false);
        if open.file.is_directory {
            self.directories().note_renamed(open.file.id, new, moves);
        }
        // Only now: whoever removes either name next must know where this one is, and what it has replaced.
        drop(locks);
        self.tell_renamed(old, new, open.file.is_directory, &open.asker(), caller.cause());
        if !open.file.is_directory {
            // A file counts as changed, which is told when it is closed.
            // MS-FSA 2.1.5.15.12
            self.mark_archive(open)?;
            open.untold.fetch_or(ChangeFilter::ATTRIBUTES.bits(), Ordering::Relaxed);
        }
        cleared.map(|()| true)
    }

    /// Whether only what was found has the new name in any spelling: since the search, another thread may have made one that
    /// differs only in case.
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
        let Known::Names(names) = self.directories().known(&to.parent, &to.name)? else { return Ok(true) };
        let is_expected = |real: &Name| {
            (from.parent.id == to.parent.id && real == from.name)
                || stands.is_some_and(|found| found.0 == *real)
        };
        Ok(names.iter().all(is_expected))
    }

    /// Whether the name that moves stands where it did and is not to go, nobody was given a right to believe it since, and what
    /// it replaces is what was looked at, which nobody has opened. Both names are locked: who opens what stands there from now on waits, and looks again.
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
        let is_free = |id: NodeId| {
            id == open.file.id || self.open_files().get(id).is_none_or(|file| may_be_replaced(&file, posix))
        };
        is_here && !is_given && is_unchanged && stands.is_none_or(|(_, id, _)| is_free(*id))
    }

    /// Marks the name of a file that was replaced as gone for whoever still has it open.
    pub(crate) fn forget_replaced(&self, id: NodeId, parent: &Arc<Directory>, real: &Name) {
        if let Some(file) = self.open_files().get(id) {
            for entry in &mut file.state.lock().links {
                entry.removed |= entry.link.is_at(parent.id, real);
            }
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
            self.tell_stream_renamed(link, from, to.clone());
        }
        Ok(())
    }
}

/// Whether somebody has a file open and lets nobody delete it meanwhile.
fn is_held_fast(file: &File) -> bool {
    file.any_member(|m| !m.access.is_empty() && m.deny.contains(Deny::DELETE))
}

/// Whether every open of a file is the client's.
fn is_open_by_one(file: &File, client: ClientKey) -> bool {
    !file.any_member(|member| member.asker.client != Some(client))
}

/// Whether a file may lose its name to another one, whoever has it open: by the rules of POSIX unless they let nobody
/// delete it.
pub(crate) fn may_be_replaced(file: &File, posix: bool) -> bool {
    if posix { !is_held_fast(file) } else { !file.has_members() }
}

/// Locks the names of two directories, in one order everywhere.
fn both<'a>(a: DirectoryEntry<'a>, b: DirectoryEntry<'a>) -> (Changing<'a>, Option<Changing<'a>>) {
    if Arc::ptr_eq(a.parent, b.parent) {
        return (a.parent.change(&[a.name, b.name]), None);
    }
    let (first, second) = if Arc::as_ptr(a.parent) < Arc::as_ptr(b.parent) { (a, b) } else { (b, a) };
    (first.parent.change(&[first.name]), Some(second.parent.change(&[second.name])))
}

/// Whether a file that is open has a name below a directory.
fn is_below(file: &File, directory: NodeId) -> bool {
    if file.id == directory {
        return false;
    }
    let state = file.state.lock();
    let links: Vec<_> = state.links.iter().filter(|l| !l.removed).map(|l| Arc::clone(&l.link)).collect();
    drop(state);
    links.iter().any(|link| link.place().0.is_within(directory))
}
