//! Clients that cache as their rights permit, against the truth: no cached value is ever old.
//!
//! Each client knows of its rights only what replies and notices told it. It caches the text of a file and
//! the list of a directory as long as it believes to have READ on them, and writes back late as long as it
//! believes to have WRITE. After every step, each cached value must be current, and each client's belief must
//! be what the engine knows.
//!
//! The last client is of another kind. It has one key for each file and holds nothing on directories. It asks
//! for rights that are released as a whole, and releases them with a request and not with an acknowledgment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::common::*;
use proptest::prelude::*;
use share::{
    Attributes, Basic, BreakNotice, Caching, CallResult, Caller, Deny, Disposition, Open, OpenResult,
    Options, Outcome, Refusal, Share,
};
use volume::NodeId;
use volume::security::Rights;

const CLIENTS: usize = 4;
/// The client that releases its rights as a whole.
const WHOLE: usize = 3;
const NAMES: [&str; 3] = ["d/a", "d/b", "d/c"];
/// The key of a client's right on the directory.
fn directory_key(who: usize) -> u128 {
    100 + who as u128
}

/// The holder of a right: client, key, and whether opens share it.
type RightKey = (usize, u128, bool);

/// A client's belief about a right, and the value cached under it.
#[derive(Debug, Default)]
struct Belief {
    state: Caching,
    epoch: u16,
    opens: u32,
    kept: Option<String>,
    /// `kept` is still to be written through this open.
    dirty: Option<Arc<Open>>,
}

#[derive(Debug, Clone)]
struct OpenAttempt {
    who: usize,
    name: usize,
    /// None, one of two keys of the client, or the open itself.
    key: u8,
    want: u8,
    names_parent: bool,
    access: u8,
    deny: u8,
    disposition: u8,
}

#[derive(Debug, Clone)]
enum CachingAction {
    Open(OpenAttempt),
    OpenDirectory(usize, bool),
    Close(prop::sample::Index),
    Write(prop::sample::Index, u8),
    Cut(prop::sample::Index, u8),
    Hide(prop::sample::Index),
    Rename(prop::sample::Index, usize),
    Delete(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<CachingAction>> {
    let index = any::<prop::sample::Index>;
    let opening = (0..CLIENTS, 0..NAMES.len(), 0..4u8, 0..8u8, any::<bool>(), 0..4u8, 0..8u8, 0..8u8)
        .prop_map(|(who, name, key, want, names_parent, access, deny, disposition)| {
            CachingAction::Open(OpenAttempt { who, name, key, want, names_parent, access, deny, disposition })
        });
    let act = prop_oneof![
        6 => opening,
        2 => (0..WHOLE, any::<bool>())
            .prop_map(|(who, rather_less)| CachingAction::OpenDirectory(who, rather_less)),
        3 => index().prop_map(CachingAction::Close),
        4 => (index(), any::<u8>()).prop_map(|(at, with)| CachingAction::Write(at, with)),
        1 => (index(), any::<u8>()).prop_map(|(at, to)| CachingAction::Cut(at, to % 8)),
        1 => index().prop_map(CachingAction::Hide),
        1 => (index(), 0..NAMES.len()).prop_map(|(at, to)| CachingAction::Rename(at, to)),
        1 => index().prop_map(CachingAction::Delete),
    ];
    prop::collection::vec(act, 1..60)
}

struct CachedOpen {
    open: Arc<Open>,
    who: usize,
    holder: Option<RightKey>,
    names_parent: bool,
}

struct Model {
    world: TestShare,
    clients: Vec<Client>,
    beliefs: HashMap<RightKey, Belief>,
    held: Vec<CachedOpen>,
    truth: BTreeMap<NodeId, String>,
    /// The client that has marked a file for deletion.
    marked: HashMap<NodeId, usize>,
    singles: u128,
}

impl Model {
    fn new() -> Model {
        let world = TestShare::new();
        let clients: Vec<_> = (0..CLIENTS).map(|n| world.client(n as u128)).collect();
        clients[0].make_directory("d");
        Model {
            world,
            clients,
            beliefs: HashMap::new(),
            held: Vec::new(),
            truth: BTreeMap::new(),
            marked: HashMap::new(),
            singles: 1000,
        }
    }

    /// Repeats a request until it gets a reply. Clients obey their notices meanwhile.
    fn repeat_until_done<T>(&mut self, mut ask: impl FnMut(&Model) -> CallResult<T>) -> Result<T, Refusal> {
        for _ in 0..12 {
            match ask(self) {
                CallResult::Done(done) => return Ok(done),
                CallResult::Refused(why) => return Err(why),
                CallResult::Wait(_) => self.give_way(),
            }
        }
        panic!("waits for ever: {:?}", self.beliefs);
    }

    /// Every client obeys its notices, until there are none.
    fn give_way(&mut self) {
        loop {
            let notices: Vec<(usize, BreakNotice)> = (0..CLIENTS)
                .flat_map(|who| {
                    let told = std::mem::take(&mut *self.clients[who].ears.notices.lock().unwrap());
                    told.into_iter().map(move |notice| (who, notice))
                })
                .collect();
            if notices.is_empty() {
                return;
            }
            for (who, notice) in notices {
                self.obey(who, &notice);
            }
        }
    }

    /// The time of opens: a second for each, so that files get no right for a while and not for good.
    fn time(&self) -> wire::Now {
        now().plus(std::time::Duration::from_secs(self.singles as u64))
    }

    fn obey(&mut self, who: usize, notice: &BreakNotice) {
        let belief = self.beliefs.get_mut(&(who, notice.key.0, notice.keyed)).expect("a right that is held");
        assert_eq!(belief.state, notice.from, "{notice:?}");
        assert!(notice.from.contains(notice.to) && notice.from != notice.to, "{notice:?}");
        if notice.keyed {
            let steps = notice.epoch.wrapping_sub(belief.epoch);
            assert!(steps <= 1, "epoch {} after {}", notice.epoch, belief.epoch);
        }
        let late = belief.dirty.take_if(|_| !notice.to.contains(Caching::WRITE));
        let text = belief.kept.clone();
        (belief.state, belief.epoch) = (notice.to, notice.epoch);
        if !notice.to.contains(Caching::READ) {
            belief.kept = None;
        }
        if let Some(open) = late {
            self.put(who, &open, &text.expect("what is to be written"));
        }
        if who == WHOLE {
            assert!(notice.to.is_empty() && notice.answer, "given back as a whole: {notice:?}");
            self.world.share.release_key(self.clients[who].key, notice.key, true, self.time());
        } else if notice.answer {
            let answered = self.clients[who].acknowledge(notice.key.0, notice.keyed, notice.to);
            assert_eq!(answered, Ok(()), "{notice:?}");
        }
    }

    /// Makes `text` the whole text, visible to all.
    fn put(&mut self, who: usize, open: &Arc<Open>, text: &str) {
        let share = Arc::clone(&self.world.share);
        if self.clients[who].read(open).unwrap().len() > text.len() {
            let size = text.len() as u64;
            self.repeat_until_done(|m| m.clients[who].caller(true, now(), |c| share.set_size(c, open, size)))
                .unwrap();
        }
        let owner = self.clients[who].owner(open);
        let at = share::WriteAt::Offset(0);
        self.repeat_until_done(|m| {
            m.clients[who].caller(true, now(), |c| share.write(c, open, owner, at, text.as_bytes(), false))
        })
        .unwrap();
        share.flush(open, false, now()).unwrap();
        let knows =
            self.held.iter().find(|held| Arc::ptr_eq(&held.open, open)).is_none_or(|h| h.names_parent);
        self.know_directory(who, knows);
    }

    /// A client that names its key for the directory knows its own changes there.
    fn know_directory(&mut self, who: usize, knows: bool) {
        let now = self.listing();
        let own = self.beliefs.get_mut(&(who, directory_key(who), true));
        if let Some(own) = own.filter(|own| knows && own.state.contains(Caching::READ)) {
            own.kept = Some(now);
        }
    }

    /// The directory as a client without rights sees it.
    fn listing(&self) -> String {
        let client = &self.clients[0];
        let open = client.open("d").access(READ).open();
        let mut lines = Vec::new();
        client
            .caller(true, now(), |c| {
                self.world.share.scan(c, &open, 0, &mut |_| true, &mut |entry| {
                    let info = entry.info().unwrap();
                    lines.push(format!("{} {} {:?}", entry.name().display(), info.size, info.attributes));
                    std::ops::ControlFlow::Continue(())
                })
            })
            .unwrap();
        client.close(&open);
        lines.sort();
        lines.join("\n")
    }

    /// The holder of a new open. Nothing is granted under a key that is still in use for a file marked for
    /// deletion.
    fn belongs(&self, holder: Option<RightKey>, opened: &OpenResult) -> Option<RightKey> {
        let here = opened.open.node_id();
        let is_elsewhere = |held: &CachedOpen| held.holder == holder && held.open.node_id() != here;
        let holder = holder.filter(|_| !self.held.iter().any(is_elsewhere));
        assert_eq!(holder.is_some(), opened.granted.is_some());
        holder
    }

    fn entered(&mut self, held: CachedOpen, opened: &OpenResult, is_directory: bool) {
        if let (Some(holder), Some(grant)) = (held.holder, opened.granted) {
            let belief = self.beliefs.entry(holder).or_default();
            let first = belief.opens == 0;
            assert!(first || grant.state.contains(belief.state), "{belief:?} {grant:?}");
            assert_eq!(grant.breaking, None);
            if let (false, Some(epoch)) = (first, grant.epoch) {
                let raised = u16::from(grant.state != belief.state);
                assert_eq!(epoch, belief.epoch.wrapping_add(raised), "{belief:?} {grant:?}");
            }
            belief.opens += 1;
            (belief.state, belief.epoch) = (grant.state, grant.epoch.unwrap_or(0));
            if grant.state.contains(Caching::READ) && belief.kept.is_none() {
                let now =
                    if is_directory { self.listing() } else { self.truth[&held.open.node_id()].clone() };
                self.beliefs.get_mut(&holder).expect("just entered").kept = Some(now);
            }
        }
        self.held.push(held);
    }

    fn open(&mut self, asked: &OpenAttempt) {
        let OpenAttempt { who, name, key, want, names_parent, .. } = *asked;
        self.singles += 1;
        let (want, single) = (Caching::from_bits_truncate(want), self.singles);
        let holder = match key {
            _ if who == WHOLE => Some((who, 900 + name as u128, true)),
            0 => None,
            3 => Some((who, single, false)),
            _ => Some((who, (who * 10 + name * 2) as u128 + u128::from(key) + 1, true)),
        };
        let disposition = match asked.disposition {
            0 => Disposition::Overwrite,
            1 => Disposition::Create,
            _ => Disposition::OpenOrCreate,
        };
        let writes = if asked.access & 1 == 0 { Rights::empty() } else { WRITE };
        let deletes = if asked.access & 2 == 0 { Rights::empty() } else { Rights::DELETE };
        let deny = if asked.deny == 7 { Deny::WRITE } else { Deny::empty() };
        let options = match asked.disposition {
            7 if !deletes.is_empty() => Options::DELETE_ON_CLOSE,
            _ => Options::empty(),
        };
        let names_parent = names_parent && holder.is_some() && who != WHOLE;
        let want = if who == WHOLE { whole_right(want) } else { want };
        let result = self.repeat_until_done(|m| {
            let ask = m.clients[who].open(NAMES[name]).access(READ | writes | deletes).deny(deny);
            let mut ask = ask.disposition(disposition).options(options);
            if let Some((_, key, keyed)) = holder {
                ask = if keyed { ask.keyed(key, want) } else { ask.single(key, whole_level(want)) };
            }
            if names_parent {
                ask = ask.parent(directory_key(who));
            }
            if who == WHOLE {
                ask = ask.whole();
            }
            ask.at(m.time()).step()
        });
        let Ok(opened) = result else {
            return;
        };
        let id = opened.open.node_id();
        match opened.outcome {
            Outcome::Opened => {}
            Outcome::Created => {
                self.marked.remove(&id);
                self.truth.insert(id, String::new());
            }
            _ => drop(self.truth.insert(id, String::new())),
        }
        // The host's text is the truth as soon as another client may look at it.
        let is_shared =
            holder.is_none_or(|holder| self.beliefs.get(&holder).is_none_or(|b| b.dirty.is_none()));
        if is_shared {
            assert_eq!(self.clients[who].read(&opened.open).as_ref(), Ok(&self.truth[&id]));
        }
        let holder = self.belongs(holder, &opened);
        // A client that discards data knows that it is gone.
        if let Some(own) = holder.and_then(|holder| self.beliefs.get_mut(&holder))
            && opened.outcome != Outcome::Opened
        {
            (own.kept, own.dirty) = (own.kept.take().map(|_| String::new()), None);
        }
        let open = Arc::clone(&opened.open);
        self.entered(CachedOpen { open, who, holder, names_parent }, &opened, false);
        self.know_directory(who, names_parent);
    }

    fn open_directory(&mut self, who: usize, rather_less: bool) {
        let want = if rather_less { Caching::READ } else { Caching::READ | Caching::HANDLE };
        let key = directory_key(who);
        let result =
            self.repeat_until_done(|m| m.clients[who].open("d").access(READ).keyed(key, want).step());
        let opened = result.unwrap();
        let open = Arc::clone(&opened.open);
        let holder = Some((who, key, true));
        self.entered(CachedOpen { open, who, holder, names_parent: false }, &opened, true);
    }

    fn close(&mut self, at: usize) {
        if let Some(belief) = self.held[at].holder.and_then(|holder| self.beliefs.get_mut(&holder)) {
            let text = belief.kept.clone();
            if let Some(open) = belief.dirty.take() {
                self.put(self.held[at].who, &open, &text.expect("what is to be written"));
                self.give_way();
            }
        }
        let CachedOpen { open, who, holder, names_parent } = self.held.swap_remove(at);
        if let Some(holder) = holder {
            let belief = self.beliefs.get_mut(&holder).expect("a right that was asked for");
            belief.opens -= 1;
            if belief.opens == 0 {
                self.beliefs.remove(&holder);
            }
        }
        self.clients[who].close(&open);
        if open.options().contains(Options::DELETE_ON_CLOSE) {
            self.marked.entry(open.node_id()).or_insert(who);
        }
        // A removal by the close that another client marked is news.
        let is_own = self.marked.get(&open.node_id()).is_none_or(|by| *by == who);
        self.know_directory(who, names_parent && is_own);
    }

    fn write(&mut self, at: usize, text: String) {
        let CachedOpen { open, who, holder, .. } = &self.held[at];
        let (open, who, holder) = (Arc::clone(open), *who, *holder);
        if !open.granted().contains(Rights::WRITE_DATA) {
            return;
        }
        self.truth.insert(open.node_id(), text.clone());
        let own = holder.and_then(|holder| self.beliefs.get_mut(&holder));
        match own {
            Some(own) if own.state.contains(Caching::WRITE) => {
                (own.kept, own.dirty) = (Some(text), Some(open));
            }
            _ => {
                // Under no key, the holder's own change also ends its right to read.
                if let Some(own) = own.filter(|_| holder.is_some_and(|(.., keyed)| keyed)) {
                    own.kept = own.kept.take().map(|_| text.clone());
                }
                self.put(who, &open, &text);
            }
        }
    }

    /// Tries a change that may be refused. Returns whether it was done.
    fn change(&mut self, at: usize, act: impl Fn(&Share, &Caller<'_>, &Arc<Open>) -> CallResult<()>) -> bool {
        let CachedOpen { open, who, names_parent, .. } = &self.held[at];
        let (open, who, names_parent) = (Arc::clone(open), *who, *names_parent);
        let share = Arc::clone(&self.world.share);
        let done = self.repeat_until_done(|m| m.clients[who].caller(true, now(), |c| act(&share, c, &open)));
        self.know_directory(who, names_parent);
        done.is_ok()
    }

    fn run(&mut self, act: CachingAction) {
        let files = self.held.iter().filter(|held| !held.open.is_directory()).count();
        let pick = |m: &Model, at: prop::sample::Index| {
            let nth = at.index(files);
            (0..m.held.len()).filter(|at| !m.held[*at].open.is_directory()).nth(nth).expect("one of them")
        };
        match act {
            CachingAction::Open(opening) => self.open(&opening),
            CachingAction::OpenDirectory(who, rather_less) => self.open_directory(who, rather_less),
            CachingAction::Close(at) if !self.held.is_empty() => self.close(at.index(self.held.len())),
            CachingAction::Write(at, with) if files > 0 => self.write(pick(self, at), format!("{with}")),
            CachingAction::Cut(at, to) if files > 0 => {
                let at = pick(self, at);
                let mut text = self.truth[&self.held[at].open.node_id()].clone();
                text.truncate(usize::from(to));
                self.write(at, text);
            }
            CachingAction::Hide(at) if files > 0 => {
                let attributes = Some(Attributes::HIDDEN);
                let basic = Basic { attributes, ..Basic::default() };
                self.change(pick(self, at), |share, c, open| share.set_basic(c, open, basic));
            }
            CachingAction::Rename(at, to) if files > 0 => {
                self.change(pick(self, at), |share, c, open| {
                    share.rename(c, open, &path(NAMES[to]), None, true, false)
                });
            }
            CachingAction::Delete(at) if files > 0 => {
                let at = pick(self, at);
                let (id, who) = (self.held[at].open.node_id(), self.held[at].who);
                if self.change(at, |share, c, open| share.set_delete(c, open, true, false, false)) {
                    self.marked.insert(id, who);
                }
            }
            _ => {}
        }
        self.give_way();
    }

    /// Beside a right that is released as a whole no other client has the file open for writing. Beside one
    /// to write later, none has it open for reading.
    fn check_alone(&self, holder: &CachedOpen, state: Caching) {
        let writes = state.contains(Caching::WRITE);
        let out = if writes { READ | Rights::WRITE_DATA } else { Rights::WRITE_DATA };
        let out = out & (Rights::READ_DATA | Rights::WRITE_DATA);
        let id = holder.open.node_id();
        let others = self.held.iter().filter(|held| held.who != WHOLE && held.open.node_id() == id);
        for other in others {
            assert!(!other.open.granted().intersects(out), "{state:?} beside {:?}", other.open.granted());
        }
    }

    fn check(&self) {
        let listing = self.listing();
        for held in &self.held {
            let Some((holder, belief)) = held.holder.map(|holder| (holder, &self.beliefs[&holder])) else {
                continue;
            };
            let known = held.open.caching().map(|grant| (grant.state, grant.breaking));
            assert_eq!(known.unwrap_or_default(), (belief.state, None), "{holder:?}");
            let now = if held.open.is_directory() { &listing } else { &self.truth[&held.open.node_id()] };
            assert_eq!(belief.kept.is_some(), belief.state.contains(Caching::READ), "{holder:?} {belief:?}");
            if held.who == WHOLE && !belief.state.is_empty() {
                self.check_alone(held, belief.state);
            }
            assert!(
                belief.kept.as_ref().is_none_or(|kept| kept == now),
                "{holder:?} {belief:?}, not {now:?}"
            );
        }
    }
}

/// A right that is released as a whole is the right to read, with or without the right to write.
fn whole_right(want: Caching) -> Caching {
    match want.bits() % 3 {
        0 => Caching::empty(),
        1 => Caching::READ | Caching::HANDLE,
        _ => Caching::all(),
    }
}

/// Under no key only whole levels exist.
fn whole_level(want: Caching) -> Caching {
    match want.bits() % 3 {
        0 => Caching::READ,
        1 => Caching::READ | Caching::WRITE,
        _ => Caching::all(),
    }
}

/// Plays all steps and closes the remaining opens. Checks everything after each step.
fn play(acts: Vec<CachingAction>) {
    let mut model = Model::new();
    for act in acts {
        model.run(act);
        model.check();
    }
    while !model.held.is_empty() {
        model.close(0);
        model.give_way();
        model.check();
    }
    assert_eq!(model.world.share.open_count(), 0);
    assert!(model.world.share.opens().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_clients_keep_is_never_old(acts in acts()) {
        play(acts);
    }
}

/// An open that only reads.
fn reading(who: usize, key: u8, want: u8) -> OpenAttempt {
    let (name, names_parent, access, deny, disposition) = (1, false, 0, 0, 2);
    OpenAttempt { who, name, key, want, names_parent, access, deny, disposition }
}

#[test]
fn what_is_given_back_as_a_whole_is_never_the_bare_right_to_read() {
    // Beside a right under no key only READ was left of it. The writer did not wait for its release.
    play(vec![
        CachingAction::Open(OpenAttempt { access: 2, disposition: 1, ..reading(0, 3, 0) }),
        CachingAction::Open(reading(WHOLE, 0, 1)),
        CachingAction::Open(OpenAttempt { access: 1, ..reading(0, 0, 0) }),
    ]);
}
