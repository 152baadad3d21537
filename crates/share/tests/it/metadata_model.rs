//! The cache of names and files against the real state, while clients, the host and losses of its events
//! change everything in between: no reply is ever old.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use proptest::prelude::*;
use proptest::sample::Index;
use share::{Attributes, Basic, Disposition, Info, Open, Options, Refusal};
use volume::memory::MemoryVolume;
use volume::security::Rights;
use volume::{Actor, HostChange, HostEvent, Name, Node, NodeId, NodeKind, Note, OpenHow, Stat, Time, Volume};

const NAMES: [&str; 5] = ["x", "X", "y", "d", "D"];
/// The rights that the owner needs for every change.
const DOES: Rights = Rights::READ_DATA
    .union(Rights::WRITE_DATA)
    .union(Rights::READ_ATTRIBUTES)
    .union(Rights::WRITE_ATTRIBUTES)
    .union(Rights::WRITE_DAC)
    .union(Rights::DELETE);

/// The time from one step to the checks after it, and on to the next step. It distinguishes the changes of
/// different steps.
const STEP: Duration = Duration::from_millis(150);

/// The bytes of a record with the hidden attribute.
const HIDDEN: [u8; 6] = [1, 1, 0x22, 0, 0, 0];

/// Permission bits that leave the owner everything.
fn mode_of(is_directory: bool, which: usize) -> u32 {
    if is_directory { [0o755, 0o700, 0o711][which] } else { [0o644, 0o600, 0o755][which] }
}

/// A change by the host or a client. Directories and objects are chosen among those that exist.
#[derive(Debug, Clone)]
enum FileChange {
    MakeFile(Index, usize),
    MakeDirectory(Index, usize),
    Remove(Index),
    Rename(Index, Index, usize),
    Link(Index, Index, usize),
    Chmod(Index, usize),
    Write(Index, u64),
}

#[derive(Debug, Clone)]
enum MetadataAction {
    Host(FileChange),
    Client(FileChange),
    /// The host makes these changes, and its events are lost.
    Unheard(Vec<FileChange>),
    Hide(Index, bool),
    /// The host sets the attribute on a file that no client has open, as a restored backup does.
    HostHides(Index, bool),
    /// A client opens a file and keeps it open.
    Hold(Index),
    LetGo(Index),
    /// A client continues a listing by this many entries, or begins one of this directory.
    List(Index, usize),
    Switch(bool),
}

/// A path to check: an existing directory, a name, its case, and whether names match exactly.
#[derive(Debug, Clone)]
struct PathCheck {
    above: Index,
    name: usize,
    upper: bool,
    exact: bool,
    stranger: bool,
    /// The directory is listed too.
    list: bool,
    /// It is looked up name by name too, and by its address.
    items: bool,
}

fn deeds() -> impl Strategy<Value = FileChange> {
    let (at, name) = (any::<Index>, 0..NAMES.len());
    prop_oneof![
        3 => (at(), name.clone()).prop_map(|(above, name)| FileChange::MakeFile(above, name)),
        2 => (at(), name.clone()).prop_map(|(above, name)| FileChange::MakeDirectory(above, name)),
        2 => at().prop_map(FileChange::Remove),
        3 => (at(), at(), name.clone()).prop_map(|(what, above, name)| FileChange::Rename(what, above, name)),
        1 => (at(), at(), name).prop_map(|(what, above, name)| FileChange::Link(what, above, name)),
        2 => (at(), 0..3usize).prop_map(|(what, mode)| FileChange::Chmod(what, mode)),
        1 => (at(), 0..9u64).prop_map(|(what, size)| FileChange::Write(what, size)),
    ]
}

fn acts() -> impl Strategy<Value = Vec<(MetadataAction, Vec<PathCheck>)>> {
    let at = any::<Index>;
    let act = prop_oneof![
        8 => deeds().prop_map(MetadataAction::Host),
        8 => deeds().prop_map(MetadataAction::Client),
        1 => prop::collection::vec(deeds(), 1..4).prop_map(MetadataAction::Unheard),
        2 => (at(), any::<bool>()).prop_map(|(what, on)| MetadataAction::Hide(what, on)),
        2 => (at(), any::<bool>()).prop_map(|(what, on)| MetadataAction::HostHides(what, on)),
        1 => at().prop_map(MetadataAction::Hold),
        1 => at().prop_map(MetadataAction::LetGo),
        4 => (at(), 1..4usize).prop_map(|(of, count)| MetadataAction::List(of, count)),
        1 => prop::bool::weighted(0.8).prop_map(MetadataAction::Switch),
    ];
    let rarely = || prop::bool::weighted(0.3);
    let look = (at(), 0..NAMES.len(), any::<bool>(), rarely(), rarely(), rarely(), any::<bool>()).prop_map(
        |(above, name, upper, exact, stranger, list, items)| PathCheck {
            above,
            name,
            upper,
            exact,
            stranger,
            list,
            items,
        },
    );
    prop::collection::vec((act, prop::collection::vec(look, 0..5)), 1..60)
}

/// A directory and its path.
#[derive(Clone)]
struct ModelDirectory {
    path: Vec<Name>,
    node: Arc<dyn Node>,
}

/// An existing name.
#[derive(Clone)]
struct ModelEntry {
    above: ModelDirectory,
    name: Name,
    stat: Stat,
}

impl ModelEntry {
    fn path(&self) -> String {
        shown(&self.above.path, &self.name)
    }

    fn node(&self, how: OpenHow) -> Arc<dyn Node> {
        self.above.node.lookup(&self.name, how).unwrap()
    }
}

fn shown(above: &[Name], name: &Name) -> String {
    let names: Vec<_> = above.iter().chain([name]).map(|name| name.display().into_owned()).collect();
    names.join("/")
}

fn things_in(model_directory: &ModelDirectory) -> Vec<ModelEntry> {
    let mut names = Vec::new();
    model_directory
        .node
        .entries(0, &mut |entry| {
            names.push(entry.name);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    let thing = |name: Name| {
        let stat = model_directory.node.stat_name(&name).unwrap();
        ModelEntry { above: model_directory.clone(), name, stat }
    };
    names.into_iter().map(thing).collect()
}

/// The whole state: directories, the root first, and names.
fn survey(memory: &MemoryVolume) -> (Vec<ModelDirectory>, Vec<ModelEntry>) {
    let mut places = vec![ModelDirectory { path: Vec::new(), node: memory.root().unwrap() }];
    let (mut things, mut at) = (Vec::new(), 0);
    while at < places.len() {
        for thing in things_in(&places[at]) {
            if thing.stat.kind == NodeKind::Directory {
                let mut path = thing.above.path.clone();
                path.push(thing.name.clone());
                places.push(ModelDirectory { path, node: thing.node(OpenHow::Read) });
            }
            things.push(thing);
        }
        at += 1;
    }
    (places, things)
}

/// The possible targets of a path: of spellings that differ in case the exact one, else any. The flag tells
/// whether one of several was chosen on the way, which may be one that leads nowhere.
fn resolve(memory: &MemoryVolume, path: &[Name], exact: bool) -> (Vec<ModelEntry>, bool) {
    let mut above = vec![ModelDirectory { path: Vec::new(), node: memory.root().unwrap() }];
    let (mut found, mut is_choice): (Vec<ModelEntry>, bool) = (Vec::new(), false);
    for name in path {
        is_choice |= found.len() > 1;
        found.clear();
        for model_directory in &above {
            let things = things_in(model_directory);
            let is_exact = |thing: &&ModelEntry| thing.name == *name;
            let folds = |thing: &&ModelEntry| thing.name.as_bytes().eq_ignore_ascii_case(name.as_bytes());
            match things.iter().find(is_exact) {
                Some(thing) => found.push(thing.clone()),
                None if exact => {}
                None => found.extend(things.iter().filter(folds).cloned()),
            }
        }
        let directories = found.iter().filter(|thing| thing.stat.kind == NodeKind::Directory);
        let enter = |thing: &ModelEntry| {
            let mut path = thing.above.path.clone();
            path.push(thing.name.clone());
            ModelDirectory { path, node: thing.node(OpenHow::Read) }
        };
        above = directories.map(enter).collect();
    }
    (found, is_choice)
}

/// A listing that goes on while names change.
struct RunningListing {
    open: Arc<Open>,
    cookie: u64,
    shown: Vec<Name>,
    /// The names that existed all the time, and those that existed at any.
    always: HashSet<(Name, NodeId)>,
    ever: HashSet<Name>,
}

impl RunningListing {
    /// Records the names after a possible change.
    fn note(&mut self, memory: &MemoryVolume) {
        let now = names_in(memory, self.open.node_id());
        self.always.retain(|(name, id)| now.get(name).is_some_and(|stat| stat.id == *id));
        self.ever.extend(now.into_keys());
    }

    /// Checks that every name was listed.
    fn check(&self) -> Result<(), TestCaseError> {
        for (name, _) in &self.always {
            let count = self.shown.iter().filter(|shown| *shown == name).count();
            prop_assert_eq!(count, 1, "{}, which was there all the time", name.display());
        }
        prop_assert!(self.shown.iter().all(|name| self.ever.contains(name)), "{:?}", self.shown);
        Ok(())
    }
}

/// The names in a directory, which may be gone.
fn names_in(memory: &MemoryVolume, id: NodeId) -> HashMap<Name, Stat> {
    let model_directory =
        survey(memory).0.into_iter().find(|model_directory| model_directory.node.id() == id);
    let things = model_directory.as_ref().map(things_in).unwrap_or_default();
    things.into_iter().map(|thing| (thing.name, thing.stat)).collect()
}

struct CacheModel {
    world: TestShare,
    owner: Client,
    stranger: Client,
    hidden: HashMap<NodeId, bool>,
    held: Vec<Arc<Open>>,
    listing: Option<RunningListing>,
    clock: u32,
}

impl CacheModel {
    fn new() -> CacheModel {
        let world = TestShare::new();
        let (owner, stranger) = (world.client(1), world.client_of(2, user(1002)));
        CacheModel {
            world,
            owner,
            stranger,
            hidden: HashMap::new(),
            held: Vec::new(),
            listing: None,
            clock: 0,
        }
    }

    fn now(&self) -> wire::Now {
        now().plus(STEP * self.clock)
    }

    /// Lets time pass, on the host too.
    fn step(&mut self) {
        self.clock += 1;
        self.world.memory.set_clock(Time::from_wall_ns(self.now().wall_ns));
    }

    fn tell(&self, above: &ModelDirectory, text: &Name, is_directory: bool, change: HostChange) {
        let (directory, name) = (above.node.id(), Some(text.clone()));
        self.world.memory.tell(HostEvent::Changed { directory, name, is_directory, change });
    }

    /// Makes a change by the host, which it reports unless `silent`.
    fn host(&self, deed: &FileChange, silent: bool) {
        let (places, things) = survey(&self.world.memory);
        let tell = |above: &ModelDirectory, text: &Name, is_directory: bool, change| {
            if !silent {
                self.tell(above, text, is_directory, change);
            }
        };
        let actor = Actor { uid: 1001, gid: 1001, groups: Vec::new() };
        let thing = |at: &Index| (!things.is_empty()).then(|| at.get(&things));
        match deed {
            FileChange::MakeFile(above, new) => {
                let (above, new) = (above.get(&places), name(NAMES[*new]));
                if above.node.create_file(&new, 0o644, Some(&actor)).is_ok() {
                    tell(above, &new, false, HostChange::Created);
                }
            }
            FileChange::MakeDirectory(above, new) => {
                let (above, new) = (above.get(&places), name(NAMES[*new]));
                if above.path.len() < 3 && above.node.create_directory(&new, 0o755, Some(&actor)).is_ok() {
                    tell(above, &new, true, HostChange::Created);
                }
            }
            FileChange::Remove(what) => {
                let Some(what) = thing(what) else { return };
                let is_directory = what.stat.kind == NodeKind::Directory;
                if what.above.node.remove(&what.name, is_directory, None).is_ok() {
                    tell(&what.above, &what.name, is_directory, HostChange::Removed);
                }
            }
            FileChange::Rename(what, to, new) => {
                let Some(what) = thing(what) else { return };
                let (to, new) = (to.get(&places), name(NAMES[*new]));
                let is_directory = what.stat.kind == NodeKind::Directory;
                if what.above.node.rename(&what.name, to.node.as_ref(), &new, true, None).is_ok() && !silent {
                    let (from, to) = ((what.above.node.id(), what.name.clone()), (to.node.id(), new));
                    self.world.memory.tell(HostEvent::Renamed { from, to, is_directory });
                }
            }
            FileChange::Link(what, to, new) => {
                let Some(what) = thing(what).filter(|what| what.stat.kind == NodeKind::File) else { return };
                let (to, new) = (to.get(&places), name(NAMES[*new]));
                if to.node.add_name(&new, what.node(OpenHow::Attributes).as_ref(), None).is_ok() {
                    tell(to, &new, false, HostChange::Created);
                }
            }
            FileChange::Chmod(what, mode) => {
                let Some(what) = thing(what) else { return };
                let is_directory = what.stat.kind == NodeKind::Directory;
                what.node(OpenHow::Attributes).set_mode(mode_of(is_directory, *mode)).unwrap();
                tell(&what.above, &what.name, is_directory, HostChange::Attributes);
                if is_directory && !silent {
                    let (directory, name, change) = (what.stat.id, None, HostChange::Attributes);
                    self.world.memory.tell(HostEvent::Changed { directory, name, is_directory, change });
                }
            }
            FileChange::Write(what, size) => {
                let Some(what) = thing(what).filter(|what| what.stat.kind == NodeKind::File) else { return };
                what.node(OpenHow::ReadWrite).set_size(*size).unwrap();
                tell(&what.above, &what.name, false, HostChange::Modified);
            }
        }
    }

    fn open(&self, at: &str, access: Rights) -> Option<Arc<Open>> {
        let ask = self.owner.open(at).access(access).options(Options::EXACT_CASE).at(self.now());
        ask.result().ok().map(|opened| opened.open)
    }

    /// Makes a change by a client, if it may.
    fn client(&self, deed: &FileChange) {
        let (places, things) = survey(&self.world.memory);
        let (share, now) = (&self.world.share, self.now());
        let thing = |at: &Index| (!things.is_empty()).then(|| at.get(&things).path());
        let at = |above: &Index, new: usize| {
            let above = above.get(&places);
            (above.path.len(), shown(&above.path, &name(NAMES[new])))
        };
        let on = |what: &Index, access: Rights, act: &mut dyn FnMut(&Arc<Open>)| {
            if let Some(open) = thing(what).and_then(|path| self.open(&path, access)) {
                act(&open);
                share.close(&open, now).unwrap();
            }
        };
        let make = |above: &Index, new: usize, options: Options| {
            let (depth, path) = at(above, new);
            let ask = self.owner.open(&path).disposition(Disposition::Create).options(options).at(now);
            if depth < 3
                && let Ok(made) = ask.result()
            {
                share.close(&made.open, now).unwrap();
            }
        };
        match deed {
            FileChange::MakeFile(above, new) => make(above, *new, Options::empty()),
            FileChange::MakeDirectory(above, new) => make(above, *new, Options::DIRECTORY),
            FileChange::Remove(what) => on(what, DOES, &mut |open| {
                let _may_hold_something =
                    self.owner.caller(true, now, |c| share.set_delete(c, open, true, false, true));
            }),
            FileChange::Rename(what, above, new) => {
                let to = path(&at(above, *new).1);
                on(what, DOES, &mut |open| {
                    let _may_be_in_the_way =
                        self.owner.caller(true, now, |c| share.rename(c, open, &to, None, true, true));
                });
            }
            FileChange::Link(what, above, new) => {
                let to = path(&at(above, *new).1);
                on(what, DOES, &mut |open| {
                    let _may_be_taken = self.owner.caller(true, now, |c| share.link(c, open, &to, false));
                });
            }
            FileChange::Chmod(what, mode) => on(what, DOES, &mut |open| {
                let mode = mode_of(open.is_directory(), *mode);
                done(self.owner.caller(true, now, |c| share.set_mode(c, open, mode))).unwrap();
            }),
            FileChange::Write(what, size) => on(what, DOES, &mut |open| {
                if !open.is_directory() {
                    done(self.owner.caller(true, now, |c| share.set_size(c, open, *size))).unwrap();
                }
            }),
        }
    }

    /// Continues a listing. Each entry must exist and be as listed.
    fn list_on(&mut self, of: &Index, count: usize) -> Result<(), TestCaseError> {
        let mut listing = match self.listing.take() {
            Some(listing) => listing,
            None => {
                let places = survey(&self.world.memory).0;
                let text: Vec<_> =
                    of.get(&places).path.iter().map(|name| name.display().into_owned()).collect();
                let Some(open) = self.open(&text.join("/"), READ) else { return Ok(()) };
                let there = names_in(&self.world.memory, open.node_id());
                let always = there.iter().map(|(name, stat)| (name.clone(), stat.id)).collect();
                let ever = there.into_keys().collect();
                RunningListing { open, cookie: 0, shown: Vec::new(), always, ever }
            }
        };
        let there = names_in(&self.world.memory, listing.open.node_id());
        let (mut page, mut is_done) = (Vec::new(), true);
        let shown = self.owner.caller(true, self.now(), |c| {
            self.world.share.scan(c, &listing.open, listing.cookie, &mut |_| true, &mut |entry| {
                if page.len() == count {
                    is_done = false;
                    return std::ops::ControlFlow::Break(());
                }
                listing.cookie = entry.cookie();
                page.push((entry.name().clone(), entry.inode(), entry.kind()));
                std::ops::ControlFlow::Continue(())
            })
        });
        prop_assert_eq!(shown, Ok(()));
        for (name, inode, kind) in page {
            let stat = there.get(&name);
            let fits = stat.is_some_and(|stat| (stat.id.inode, Some(stat.kind)) == (inode, kind));
            prop_assert!(fits, "{} is listed as {inode}, {kind:?}, and is {stat:?}", name.display());
            listing.shown.push(name);
        }
        if is_done {
            listing.check()?;
            let _closed = self.world.share.close(&listing.open, self.now());
        } else {
            self.listing = Some(listing);
        }
        Ok(())
    }

    fn note_names(&mut self) {
        if let Some(listing) = &mut self.listing {
            listing.note(&self.world.memory);
        }
    }

    fn act(&mut self, act: &MetadataAction) -> Result<(), TestCaseError> {
        let things = survey(&self.world.memory).1;
        let thing = |at: &Index| (!things.is_empty()).then(|| at.get(&things));
        match act {
            MetadataAction::Host(deed) => self.host(deed, false),
            MetadataAction::Client(deed) => self.client(deed),
            MetadataAction::Unheard(deeds) => {
                for deed in deeds {
                    self.host(deed, true);
                    self.note_names();
                }
                self.world.memory.tell(HostEvent::Overflow);
            }
            MetadataAction::Hide(what, on) => {
                let Some(what) = thing(what) else { return Ok(()) };
                let attributes = if *on { Attributes::HIDDEN } else { Attributes::empty() };
                let basic = Basic { attributes: Some(attributes), ..Basic::default() };
                let Some(open) = self.open(&what.path(), DOES) else { return Ok(()) };
                let share = &self.world.share;
                done(self.owner.caller(true, self.now(), |c| share.set_basic(c, &open, basic))).unwrap();
                self.world.share.close(&open, self.now()).unwrap();
                self.hidden.insert(what.stat.id, *on);
            }
            MetadataAction::HostHides(what, on) => {
                let Some(what) = thing(what).filter(|what| what.stat.kind == NodeKind::File) else {
                    return Ok(());
                };
                if self.held.iter().all(|open| open.node_id() != what.stat.id) {
                    let record = on.then_some(&HIDDEN[..]);
                    what.node(OpenHow::Attributes).set_note(Note::Attributes, record).unwrap();
                    self.tell(&what.above, &what.name, false, HostChange::Attributes);
                    self.hidden.insert(what.stat.id, *on);
                }
            }
            MetadataAction::Hold(what) if self.held.len() < 3 => {
                if let Some(open) = thing(what).and_then(|what| self.open(&what.path(), READ)) {
                    self.held.push(open);
                }
            }
            MetadataAction::LetGo(at) if !self.held.is_empty() => {
                let open = self.held.swap_remove(at.index(self.held.len()));
                // A name that is removed with it may be another file's by now, whose removal the host
                // refuses.
                let _closed = self.world.share.close(&open, self.now());
            }
            MetadataAction::List(of, count) => self.list_on(of, *count)?,
            MetadataAction::Switch(on) => self.world.share.set_metadata_caching(*on),
            MetadataAction::Hold(_) | MetadataAction::LetGo(_) => {}
        }
        self.note_names();
        Ok(())
    }

    /// Whether a reply is right for one of these.
    fn fits(&self, info: &Info, things: &[ModelEntry]) -> bool {
        things.iter().any(|ModelEntry { stat, .. }| {
            let hidden = self.hidden.get(&stat.id).copied().unwrap_or(false);
            (info.id, info.kind, info.size, info.links, info.mode)
                == (stat.id, stat.kind, stat.size, stat.links, stat.mode)
                && info.attributes.contains(Attributes::HIDDEN) == hidden
        })
    }

    fn look(&self, look: &PathCheck) -> Result<(), TestCaseError> {
        let (places, _) = survey(&self.world.memory);
        let above = look.above.get(&places);
        let text = shown(&above.path, &name(NAMES[look.name]));
        let text = if look.upper && !look.exact { text.to_uppercase() } else { text };
        let (expected, is_choice) = resolve(&self.world.memory, &path(&text), look.exact);
        let options = if look.exact { Options::EXACT_CASE } else { Options::empty() };
        let ask = self.owner.open(&text).access(Rights::READ_ATTRIBUTES).options(options).at(self.now());
        match ask.result() {
            Ok(opened) => {
                self.world.share.close(&opened.open, self.now()).unwrap();
                prop_assert!(self.fits(&opened.info, &expected), "{text}: {:?}", opened.info);
            }
            Err(Refusal::DeletePending) => {
                let listed = self.listing.iter().map(|listing| &listing.open);
                let held: HashSet<NodeId> =
                    self.held.iter().chain(listed).map(|open| open.node_id()).collect();
                let is_held = |thing: &ModelEntry| held.contains(&thing.stat.id);
                prop_assert!(expected.iter().any(is_held), "{text} goes, and nobody has it open");
            }
            Err(why) => prop_assert!(expected.is_empty() || is_choice, "{text}: {why}, but it is there"),
        }
        if look.list {
            self.list(above)?;
        }
        if look.items {
            self.look_by_items(above, &name(NAMES[look.name]))?;
        }
        if look.stranger && expected.len() == 1 && !is_choice {
            self.look_as_stranger(&text, options, &expected[0])?;
        }
        Ok(())
    }

    /// Looks names up one by one, and by address. Both lead to the real objects.
    fn look_by_items(&self, above: &ModelDirectory, last: &Name) -> Result<(), TestCaseError> {
        let share = &self.world.share;
        let names: Vec<Name> = above.path.iter().chain([last]).cloned().collect();
        let text = shown(&above.path, last);
        let (expected, _) = resolve(&self.world.memory, &names, true);
        let found = names.iter().try_fold(share.root_item(), |at, name| {
            self.owner.caller(true, self.now(), |c| share.item_in(c, &at, name))
        });
        let item = match found {
            Ok(item) => item,
            Err(why) => {
                prop_assert!(
                    why == Refusal::NotFound && expected.is_empty(),
                    "{text}: {why}, but it is there"
                );
                return Ok(());
            }
        };
        let info = share.item_info(&item);
        prop_assert!(info.as_ref().is_ok_and(|info| self.fits(info, &expected)), "{text}: {info:?}");
        let again = item.address().and_then(|address| share.item(&address));
        let info = again.and_then(|again| share.item_info(&again));
        prop_assert!(
            info.as_ref().is_ok_and(|info| self.fits(info, &expected)),
            "{text}, by address: {info:?}"
        );
        Ok(())
    }

    /// Checks that a directory lists its contents as they are.
    fn list(&self, above: &ModelDirectory) -> Result<(), TestCaseError> {
        let text: Vec<_> = above.path.iter().map(|name| name.display().into_owned()).collect();
        // A directory marked for deletion cannot be opened any more.
        let Some(open) = self.open(&text.join("/"), READ) else { return Ok(()) };
        let mut listed = Vec::new();
        let shown = self.owner.caller(true, self.now(), |c| {
            self.world.share.scan(c, &open, 0, &mut |_| true, &mut |entry| {
                listed.push((entry.name().clone(), entry.info()));
                std::ops::ControlFlow::Continue(())
            })
        });
        self.world.share.close(&open, self.now()).unwrap();
        prop_assert_eq!(shown, Ok(()));
        let things = things_in(above);
        prop_assert_eq!(listed.len(), things.len());
        for (name, info) in listed {
            let thing: Vec<ModelEntry> = things.iter().filter(|thing| thing.name == name).cloned().collect();
            let fits = info.as_ref().is_ok_and(|info| self.fits(info, &thing));
            prop_assert!(fits, "{} is listed as {info:?}", name.display());
        }
        Ok(())
    }

    /// Checks that another user may read as the current permission bits say.
    fn look_as_stranger(
        &self,
        text: &str,
        options: Options,
        thing: &ModelEntry,
    ) -> Result<(), TestCaseError> {
        let ask = self.stranger.open(text).access(Rights::READ_DATA).options(options).at(self.now());
        let result = ask.result().map(|opened| self.world.share.close(&opened.open, self.now()).unwrap());
        let mut may = thing.stat.mode & 0o004 != 0;
        let mut at = self.world.memory.root().unwrap();
        for name in &thing.above.path {
            at = at.lookup(name, OpenHow::Read).unwrap();
            may &= at.stat().unwrap().mode & 0o001 != 0;
        }
        if result != Err(Refusal::DeletePending) {
            prop_assert_eq!(result, if may { Ok(()) } else { Err(Refusal::AccessDenied) }, "{}", text);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_is_old_whatever_host_and_clients_do_in_between(acts in acts()) {
        let mut test = CacheModel::new();
        for (act, looks) in acts {
            test.step();
            test.act(&act)?;
            test.step();
            for look in &looks {
                test.look(look)?;
            }
        }
        for open in test.held.drain(..).chain(test.listing.map(|listing| listing.open)) {
            let _closed = test.world.share.close(&open, now());
        }
        prop_assert_eq!(test.world.share.open_count(), 0);
    }
}
