//! The recycle folder against a model that knows nothing of the engine's implementation: two users make,
//! link, move, remove and take back files at random, time passes, and the server purges. After each step the
//! host's own files are compared with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use proptest::prelude::*;
use proptest::sample::Index;
use share::{Config, Open, Options, RecycleRules};
use volume::security::Rights;
use volume::{Node, NodeKind, OpenHow, Patience, Time, Volume};
use wire::Now;

const USERS: [u32; 2] = [1001, 1002];
const PLACES: [&str; 6] = ["f0", "f1", "a/f0", "a/f1", "b/f0", "b/x.tmp"];
/// The storage of each file, in bytes.
const BLOCK: u64 = 4096;
const MOST_KEPT: u64 = 5;
const KEEP_FOR: i64 = 100;

#[derive(Debug, Clone)]
enum BinAction {
    Make(usize, usize),
    Link(usize, usize, usize),
    Move(usize, usize, usize),
    Remove(usize, usize),
    /// A user takes a kept file back to this place.
    TakeBack(Index, usize),
    /// A user removes a kept file for good.
    RemoveKept(Index),
    /// A user renames the directory of a kept file inside of the recycle folder.
    MoveDirectory(Index),
    /// A kept file is opened, or the last one that was opened is closed.
    Hold(Index),
    LetGo,
    /// Seconds pass.
    Wait(i64),
    Purge,
}

fn acts() -> impl Strategy<Value = Vec<BinAction>> {
    let (user, place) = (0..USERS.len(), 0..PLACES.len());
    let index = any::<Index>;
    let act = prop_oneof![
        6 => (user.clone(), place.clone()).prop_map(|(u, p)| BinAction::Make(u, p)),
        2 => (user.clone(), place.clone(), place.clone()).prop_map(|(u, p, q)| BinAction::Link(u, p, q)),
        2 => (user.clone(), place.clone(), place.clone()).prop_map(|(u, p, q)| BinAction::Move(u, p, q)),
        6 => (user, place.clone()).prop_map(|(u, p)| BinAction::Remove(u, p)),
        2 => (index(), place).prop_map(|(at, p)| BinAction::TakeBack(at, p)),
        1 => index().prop_map(BinAction::RemoveKept),
        1 => index().prop_map(BinAction::MoveDirectory),
        1 => index().prop_map(BinAction::Hold),
        1 => Just(BinAction::LetGo),
        2 => (1..60i64).prop_map(BinAction::Wait),
        2 => Just(BinAction::Purge),
    ];
    prop::collection::vec(act, 1..80)
}

/// A file that the recycle folder is to have.
#[derive(Debug, Clone)]
struct Kept {
    user: usize,
    /// Its directory in the folder of the user.
    directory: String,
    file: u32,
    removed_at: i64,
}

struct BinModel {
    world: TestShare,
    clients: Vec<Client>,
    /// The file at each place.
    live: BTreeMap<usize, u32>,
    /// The oldest first.
    kept: Vec<Kept>,
    held: Vec<(u32, Arc<Open>)>,
    files: u32,
    moved: u32,
    seconds: i64,
}

fn rules() -> RecycleRules {
    RecycleRules {
        folder: name(".recycle"),
        keep_for: Some(Duration::from_secs(KEEP_FOR.unsigned_abs())),
        most_bytes: MOST_KEPT * BLOCK,
        largest_file: u64::MAX,
        excluded: vec!["*.tmp".to_owned()],
    }
}

fn config() -> Config {
    Config { recycle: Some(Arc::new(rules())), ..Config::default() }
}

fn folder_of(place: &str) -> &str {
    place.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Each file below a directory of the host: the directory's path, the file's name, and its content.
fn files_below(node: &Arc<dyn Node>, at: &str, out: &mut Vec<(String, String, u32)>) {
    let mut names = Vec::new();
    node.entries(0, &mut |entry| {
        names.push(entry.name);
        ControlFlow::Continue(())
    })
    .unwrap();
    for name in names {
        let shown = name.display().into_owned();
        let below = node.lookup(&name, OpenHow::Read).unwrap();
        if below.kind() == NodeKind::Directory {
            files_below(&below, &if at.is_empty() { shown } else { format!("{at}/{shown}") }, out);
        } else {
            let mut text = Vec::new();
            below.read(0, 100, &mut text, Patience::Block).unwrap();
            out.push((at.to_owned(), shown, String::from_utf8(text).unwrap().parse().unwrap()));
        }
    }
}

impl BinModel {
    fn new() -> BinModel {
        let world = TestShare::with(config());
        let root = world.memory.root().unwrap();
        for directory in ["a", "b"] {
            root.create_directory(&name(directory), 0o777, None).unwrap().set_mode(0o777).unwrap();
        }
        let clients = (1..).zip(USERS).map(|(n, uid)| world.client_of(n, user(uid))).collect();
        let (live, kept, held) = (BTreeMap::new(), Vec::new(), Vec::new());
        let model = BinModel { world, clients, live, kept, held, files: 0, moved: 0, seconds: 1_700_000_000 };
        model.set_clock();
        model
    }

    fn set_clock(&self) {
        self.world.memory.set_clock(Time { secs: self.seconds, nanos: 0 });
    }

    fn names_of(&self, file: u32) -> usize {
        self.live.values().filter(|one| **one == file).count()
    }

    fn open(&self, user: usize, at: &str, options: Options) -> Arc<Open> {
        self.clients[user].open(at).access(Rights::DELETE).options(options).open()
    }

    fn remove(&mut self, user: usize, place: usize) {
        let Some(&file) = self.live.get(&place) else { return };
        let open = self.open(user, PLACES[place], Options::DELETE_ON_CLOSE);
        self.clients[user].close(&open);
        let is_last = self.names_of(file) == 1;
        self.live.remove(&place);
        if is_last && !PLACES[place].ends_with(".tmp") {
            let directory = folder_of(PLACES[place]).to_owned();
            self.kept.push(Kept { user, directory, file, removed_at: self.seconds });
        }
    }

    fn rename(&mut self, user: usize, from: usize, to: usize) {
        if self.live.contains_key(&to) {
            return;
        }
        let Some(file) = self.live.remove(&from) else { return };
        let open = self.open(user, PLACES[from], Options::empty());
        done(self.clients[user].rename(&open, PLACES[to], false)).unwrap();
        self.clients[user].close(&open);
        self.live.insert(to, file);
    }

    fn link(&mut self, user: usize, from: usize, to: usize) {
        if self.live.contains_key(&to) {
            return;
        }
        let Some(&file) = self.live.get(&from) else { return };
        let open = self.clients[user].open(PLACES[from]).access(Rights::READ_ATTRIBUTES).open();
        let client = &self.clients[user];
        client.call(|c| self.world.share.link(c, &open, &path(PLACES[to]), false)).unwrap();
        client.close(&open);
        self.live.insert(to, file);
    }

    /// A kept file that no client has open, and its path from the root.
    fn chosen(&self, at: Index) -> Option<(usize, String)> {
        let free: Vec<usize> =
            (0..self.kept.len()).filter(|one| !self.is_held(self.kept[*one].file)).collect();
        let which = *free.get(at.index(free.len().max(1)))?;
        let kept = &self.kept[which];
        let own = format!(".recycle/uid-{}", USERS[kept.user]);
        let found = self.on_host().into_iter().find(|(_, _, file)| *file == kept.file);
        let (directory, name, _) = found.expect("it is kept");
        assert!(directory.starts_with(&own));
        Some((which, format!("{directory}/{name}")))
    }

    fn is_held(&self, file: u32) -> bool {
        self.held.iter().any(|(one, _)| *one == file)
    }

    fn act(&mut self, act: &BinAction) {
        match *act {
            BinAction::Make(user, place) => {
                if !self.live.contains_key(&place) {
                    self.files += 1;
                    self.clients[user].make_with(PLACES[place], &self.files.to_string());
                    self.live.insert(place, self.files);
                }
            }
            BinAction::Link(user, from, to) => self.link(user, from, to),
            BinAction::Move(user, from, to) => self.rename(user, from, to),
            BinAction::Remove(user, place) => self.remove(user, place),
            BinAction::TakeBack(at, place) => {
                if let Some((which, at)) = self.chosen(at).filter(|_| !self.live.contains_key(&place)) {
                    let Kept { user, file, .. } = self.kept.remove(which);
                    let open = self.open(user, &at, Options::empty());
                    done(self.clients[user].rename(&open, PLACES[place], false)).unwrap();
                    self.clients[user].close(&open);
                    self.live.insert(place, file);
                }
            }
            BinAction::RemoveKept(at) => {
                if let Some((which, at)) = self.chosen(at) {
                    let user = self.kept.remove(which).user;
                    let open = self.open(user, &at, Options::DELETE_ON_CLOSE);
                    self.clients[user].close(&open);
                }
            }
            BinAction::MoveDirectory(at) => self.move_directory(at),
            BinAction::Hold(at) => {
                if let Some((which, at)) = self.chosen(at) {
                    let Kept { user, file, .. } = self.kept[which];
                    self.held.push((file, self.clients[user].open(&at).access(READ).open()));
                }
            }
            BinAction::LetGo => {
                if let Some((_, open)) = self.held.pop() {
                    self.world.share.close(&open, now()).unwrap();
                }
            }
            BinAction::Wait(seconds) => {
                self.seconds += seconds;
                self.set_clock();
            }
            BinAction::Purge => self.purge(),
        }
    }

    fn move_directory(&mut self, at: Index) {
        let Some((which, _)) = self.chosen(at) else { return };
        let Kept { user, directory, .. } = self.kept[which].clone();
        let is_there = |kept: &Kept| kept.user == user && kept.directory == directory;
        if directory.is_empty() || self.kept.iter().any(|kept| is_there(kept) && self.is_held(kept.file)) {
            return;
        }
        self.moved += 1;
        let to = format!("moved-{}", self.moved);
        let own = format!(".recycle/uid-{}", USERS[user]);
        let open = self.open(user, &format!("{own}/{directory}"), Options::DIRECTORY);
        done(self.clients[user].rename(&open, &format!("{own}/{to}"), false)).unwrap();
        self.clients[user].close(&open);
        for kept in self.kept.iter_mut().filter(|kept| is_there(kept)) {
            kept.directory.clone_from(&to);
        }
    }

    /// The server searches the whole folder, in steps of a few entries.
    fn purge(&mut self) {
        self.world.share.configure(config());
        let now = Now { mono_ns: 1_000_000_000, wall_ns: self.seconds * 1_000_000_000 };
        for _ in 0..60 {
            self.world.share.purge_recycled(now, 3);
        }
        let held: BTreeSet<u32> = self.held.iter().map(|(file, _)| *file).collect();
        let is_young = |kept: &Kept| self.seconds - kept.removed_at < KEEP_FOR;
        self.kept.retain(|kept| is_young(kept) || held.contains(&kept.file));
        while self.kept.len() as u64 > MOST_KEPT
            && let Some(oldest) = self.kept.iter().position(|kept| !held.contains(&kept.file))
        {
            self.kept.remove(oldest);
        }
        let summary = self.world.share.recycle_summary().unwrap();
        assert_eq!((summary.files, summary.bytes), (self.kept.len() as u64, self.kept.len() as u64 * BLOCK));
    }

    fn on_host(&self) -> Vec<(String, String, u32)> {
        let mut out = Vec::new();
        files_below(&self.world.memory.root().unwrap(), "", &mut out);
        out
    }

    /// Compares what the host has with the model.
    fn check(&self) {
        let (mut live, mut kept) = (BTreeSet::new(), BTreeSet::new());
        for (directory, name, file) in self.on_host() {
            if directory.starts_with(".recycle") {
                kept.insert((directory, file));
            } else {
                live.insert((if directory.is_empty() { name } else { format!("{directory}/{name}") }, file));
            }
        }
        let wanted = self.live.iter().map(|(place, file)| (PLACES[*place].to_owned(), *file));
        assert_eq!(live, wanted.collect::<BTreeSet<_>>());
        let wanted = self.kept.iter().map(|kept| {
            let own = format!(".recycle/uid-{}", USERS[kept.user]);
            let directory = &kept.directory;
            (if directory.is_empty() { own } else { format!("{own}/{directory}") }, kept.file)
        });
        assert_eq!(kept, wanted.collect::<BTreeSet<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_recycle_folder_has_what_was_removed_and_nothing_else(acts in acts()) {
        let mut model = BinModel::new();
        for act in &acts {
            model.act(act);
            model.check();
        }
    }
}
