//! The usage is exact, whatever clients do, whatever fails, and however far a scan is.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use volume::faulty::{FaultPlan, FaultyVolume, PlannedFault, VolumeCall};
use volume::memory::MemoryVolume;
use volume::metered::Scan;
use volume::{Failure, MeteredVolume, Name, Node, NodeId, NodeKind, OpenHow, Usage, Volume};

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Adds the usage below a directory, found by a plain walk.
fn walk(directory: &Arc<dyn Node>, seen: &mut HashSet<NodeId>, sum: &mut Usage) {
    let mut names = Vec::new();
    let mut take = |entry: volume::DirEntry| {
        names.push(entry.name);
        ControlFlow::Continue(())
    };
    directory.entries(0, &mut take).unwrap();
    sum.bytes += directory.streams().unwrap().iter().map(|stream| stream.size).sum::<u64>();
    for name in names {
        let node = directory.lookup(&name, OpenHow::Read).unwrap();
        match node.kind() {
            NodeKind::Directory => walk(&node, seen, sum),
            _ if !seen.insert(node.id()) => {}
            kind => {
                sum.files += 1;
                if kind == NodeKind::File {
                    sum.bytes += node.stat().unwrap().size;
                    sum.bytes += node.streams().unwrap().iter().map(|stream| stream.size).sum::<u64>();
                }
            }
        }
    }
}

fn there(memory: &MemoryVolume) -> Usage {
    let mut sum = Usage::default();
    walk(&memory.root().unwrap(), &mut HashSet::new(), &mut sum);
    sum
}

/// One operation of a client. There are few directories and names, so that the operations collide.
#[derive(Debug, Clone)]
enum ClientAction {
    Create(u8, u8),
    MakeDirectory(u8, u8),
    Open(u8, u8),
    Close(u8),
    Write(u8, u16, u16),
    Size(u8, u16),
    Allocate(u8, u16),
    Copy(u8, u8, u16, u16),
    Clone(u8, u8, u16),
    Link(u8, u8, u8),
    Remove(u8, u8),
    RemoveDirectory(u8, u8),
    Rename(u8, u8, u8, u8, bool),
    Stream(u8, u8),
    RemoveStream(u8, u8),
    RenameStream(u8, u8, u8, bool),
    PlannedFault(u8, u8),
    BeginCount,
    Count(u8),
    Quota(u16),
}

impl ClientAction {
    /// Whether the operation is about counting or about names of streams. These are not followed while
    /// nothing is counted.
    fn is_counting(&self) -> bool {
        use ClientAction::{BeginCount, Count, Quota, RemoveStream, RenameStream, Stream};
        matches!(self, BeginCount | Count(_) | Quota(_) | Stream(..) | RemoveStream(..) | RenameStream(..))
    }
}

fn actions() -> impl Strategy<Value = Vec<ClientAction>> {
    let (n, big) = (0..6_u8, 0..3000_u16);
    let one = prop_oneof![
        4 => (n.clone(), n.clone()).prop_map(|(d, f)| ClientAction::Create(d, f)),
        1 => (n.clone(), n.clone()).prop_map(|(d, f)| ClientAction::MakeDirectory(d, f)),
        3 => (n.clone(), n.clone()).prop_map(|(d, f)| ClientAction::Open(d, f)),
        2 => n.clone().prop_map(ClientAction::Close),
        8 => (n.clone(), big.clone(), big.clone()).prop_map(|(f, at, len)| ClientAction::Write(f, at, len)),
        3 => (n.clone(), big.clone()).prop_map(|(f, size)| ClientAction::Size(f, size)),
        1 => (n.clone(), big.clone()).prop_map(|(f, end)| ClientAction::Allocate(f, end)),
        2 => (n.clone(), n.clone(), big.clone(), big.clone())
            .prop_map(|(a, b, at, len)| ClientAction::Copy(a, b, at, len)),
        1 => (n.clone(), n.clone(), big.clone()).prop_map(|(a, b, len)| ClientAction::Clone(a, b, len)),
        2 => (n.clone(), n.clone(), n.clone()).prop_map(|(f, d, t)| ClientAction::Link(f, d, t)),
        4 => (n.clone(), n.clone()).prop_map(|(d, f)| ClientAction::Remove(d, f)),
        1 => (n.clone(), n.clone()).prop_map(|(d, f)| ClientAction::RemoveDirectory(d, f)),
        5 => (n.clone(), n.clone(), n.clone(), n.clone(), any::<bool>())
            .prop_map(|(d, f, e, t, over)| ClientAction::Rename(d, f, e, t, over)),
        2 => (n.clone(), n.clone()).prop_map(|(f, s)| ClientAction::Stream(f, s)),
        1 => (n.clone(), n.clone()).prop_map(|(f, s)| ClientAction::RemoveStream(f, s)),
        1 => (n.clone(), n.clone(), n.clone(), any::<bool>())
            .prop_map(|(f, s, t, over)| ClientAction::RenameStream(f, s, t, over)),
        3 => (0..7_u8, 1..4_u8).prop_map(|(call, n)| ClientAction::PlannedFault(call, n)),
        2 => Just(ClientAction::BeginCount),
        6 => n.prop_map(ClientAction::Count),
        1 => big.prop_map(ClientAction::Quota),
    ];
    proptest::collection::vec(one, 1..120)
}

/// A client and its open files.
struct Client {
    memory: MemoryVolume,
    volume: MeteredVolume,
    plan: Arc<FaultPlan>,
    directories: Vec<Arc<dyn Node>>,
    open: Vec<Arc<dyn Node>>,
    scan: Option<Scan>,
}

/// The largest number of open nodes.
const OPEN: usize = 6;

impl Client {
    fn new(quota: Option<u64>) -> Client {
        let memory = MemoryVolume::new(1);
        let faulty = FaultyVolume::new(Arc::new(memory.clone()));
        let plan = Arc::clone(faulty.plan());
        let volume = match quota {
            Some(_) => MeteredVolume::new(Arc::new(faulty), quota, Some(Usage::default())),
            None => MeteredVolume::asleep(Arc::new(faulty)),
        };
        let root = volume.root().unwrap();
        Client { memory, volume, plan, directories: vec![root], open: Vec::new(), scan: None }
    }

    fn directory(&self, at: u8) -> Arc<dyn Node> {
        Arc::clone(&self.directories[usize::from(at) % self.directories.len()])
    }

    fn file(&self, at: u8) -> Option<Arc<dyn Node>> {
        (!self.open.is_empty()).then(|| Arc::clone(&self.open[usize::from(at) % self.open.len()]))
    }

    fn keep(&mut self, node: Arc<dyn Node>) {
        if self.open.len() == OPEN {
            self.open.remove(0);
        }
        self.open.push(node);
    }

    /// Runs an operation. The test does not look at whether it succeeded.
    fn act(&mut self, action: &ClientAction) -> volume::Result<()> {
        let named = |at: u8| name(&format!("n{at}"));
        match *action {
            ClientAction::Create(d, f) => {
                let node = self.directory(d).create_file(&named(f), 0o600, None)?;
                self.keep(node);
            }
            ClientAction::MakeDirectory(d, f) => {
                let node = self.directory(d).create_directory(&named(f), 0o700, None)?;
                self.directories.push(node);
            }
            ClientAction::Open(d, f) => {
                let node = self.directory(d).lookup(&named(f), OpenHow::ReadWrite)?;
                self.keep(node);
            }
            ClientAction::Close(f) if !self.open.is_empty() => {
                drop(self.open.remove(usize::from(f) % self.open.len()))
            }
            ClientAction::Close(_) => {}
            ClientAction::PlannedFault(call, n) => self.fail(call, n),
            ClientAction::BeginCount => self.scan = self.scan.take().map_or_else(|| self.recount(), Some),
            ClientAction::Count(n) => {
                let done = self.scan.as_mut().map(|scan| scan.step(usize::from(n)));
                if done.is_some_and(|done| done != Ok(false)) {
                    self.scan = None;
                }
            }
            ClientAction::Quota(quota) => {
                let _maybe_refused = self.volume.meter().unwrap().set_quota(Some(quota.into()));
            }
            ClientAction::Link(f, d, to) => {
                let file = self.file(f).ok_or(Failure::NotFound)?;
                self.directory(d).add_name(&named(to), &*file, None)?;
            }
            ClientAction::Remove(d, f) => self.directory(d).remove(&named(f), false, None)?,
            ClientAction::RemoveDirectory(d, f) => self.directory(d).remove(&named(f), true, None)?,
            ClientAction::Rename(d, f, e, to, over) => {
                self.directory(d).rename(&named(f), &*self.directory(e), &named(to), over, None)?;
            }
            _ => self.change(action)?,
        }
        Ok(())
    }

    /// Runs an operation on an open file.
    fn change(&mut self, action: &ClientAction) -> volume::Result<()> {
        let named = |at: u8| name(&format!("s{at}"));
        let open = |at: u8| self.file(at).ok_or(Failure::NotFound);
        match *action {
            ClientAction::Write(f, at, len) => open(f)?.write(at.into(), &vec![1; len.into()])?,
            ClientAction::Size(f, size) => open(f)?.set_size(size.into())?,
            ClientAction::Allocate(f, end) => open(f)?.allocate(0..u64::from(end) + 1)?,
            ClientAction::Copy(a, b, at, len) => {
                open(a)?.copy_range(at.into(), &*open(b)?, (at / 2).into(), len.into())?;
            }
            ClientAction::Clone(a, b, len) => open(a)?.clone_range(0, &*open(b)?, 0, u64::from(len) + 1)?,
            ClientAction::Stream(f, s) => {
                let stream = open(f)?.open_stream(&named(s), true, false)?;
                self.keep(stream);
            }
            ClientAction::RemoveStream(f, s) => open(f)?.remove_stream(&named(s))?,
            ClientAction::RenameStream(f, s, to, over) => {
                open(f)?.rename_stream(&named(s), &named(to), over)?
            }
            _ => unreachable!("{action:?}"),
        }
        Ok(())
    }

    fn fail(&self, call: u8, n: u8) {
        let calls = [
            (VolumeCall::Write, PlannedFault::Half(Failure::NoSpace)),
            (VolumeCall::Write, PlannedFault::Fail(Failure::Io)),
            (VolumeCall::Resize, PlannedFault::Fail(Failure::NoSpace)),
            (VolumeCall::Create, PlannedFault::Fail(Failure::NoSpace)),
            (VolumeCall::Remove, PlannedFault::Fail(Failure::Busy)),
            (VolumeCall::Rename, PlannedFault::Fail(Failure::Denied)),
            (VolumeCall::Copy, PlannedFault::Fail(Failure::NoSpace)),
        ];
        let (call, fault) = calls[usize::from(call)];
        self.plan.add(call, n.into(), fault);
    }

    fn recount(&self) -> Option<Scan> {
        self.volume.meter().unwrap().recount().ok()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_known_is_what_lies_there(
        actions in actions(),
        quota in 1000_u64..20_000,
        asleep in 0..80_usize,
    ) {
        // In some runs nothing is counted at first, and the volume gets its quota when it has content.
        let asleep = asleep.saturating_sub(40).min(actions.len());
        let mut client = Client::new((asleep == 0).then_some(quota));
        let meter = Arc::clone(client.volume.meter().unwrap());
        let (before, actions) = actions.split_at(asleep);
        for act in before.iter().filter(|act| !act.is_counting()) {
            let _done_or_refused = client.act(act);
        }
        if asleep > 0 {
            prop_assert_eq!(meter.usage(), Usage::default());
            meter.wake();
            let mut scan = meter.recount().unwrap();
            while !scan.step(7).unwrap() {}
            prop_assert_eq!(meter.usage(), there(&client.memory), "counted when it was woken");
            meter.set_quota(Some(quota.max(meter.usage().bytes))).unwrap();
        }
        for act in actions {
            let _done_or_refused = client.act(act);
            // A file that lost its name while nothing was counted is found when it is written to.
            let bytes = if asleep > 0 { meter.to_keep().unwrap() } else { meter.usage() }.bytes;
            let bound = meter.quota().unwrap();
            prop_assert!(bytes <= bound, "{bytes} of {bound} after {act:?}");
            // A stream that was removed while it is open is in neither number.
            prop_assert_eq!(meter.to_keep().unwrap(), there(&client.memory), "after {:?}", act);
        }
        client.open.clear();
        client.directories.clear();
        prop_assert_eq!(meter.usage(), there(&client.memory), "all is closed");
        client.scan = None;
        let mut scan = meter.recount().unwrap();
        while !scan.step(7).unwrap() {}
        prop_assert_eq!(meter.usage(), there(&client.memory), "counted anew");
    }
}

/// A small generator, so that the threads do different things and each does the same in every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// The quota of all threads together.
const QUOTA: u64 = 60_000;

/// A client among others that creates, grows, truncates, moves and removes files.
fn busy(volume: &MeteredVolume, seed: u64) {
    let mut state = seed + 1;
    let root = volume.root().unwrap();
    let shared = root.lookup(&name("shared"), OpenHow::ReadWrite).unwrap();
    for _ in 0..2000 {
        let [what, from, to, size] = [(); 4].map(|()| next(&mut state));
        let directory = |at: u64| root.lookup(&name(&format!("d{}", at % 4)), OpenHow::Read).ok();
        let (Some(from), Some(into)) = (directory(from), directory(to)) else { continue };
        let (one, other) = (name(&format!("f{}", size % 5)), name(&format!("f{}", to % 7)));
        // Any call may fail, because the other threads do the same.
        let _done_or_refused = match what % 8 {
            0 | 1 => from
                .create_file(&one, 0o600, None)
                .and_then(|file| file.write(0, &vec![1; size as usize % 9000])),
            2 => shared.write(size % 30_000, &[1; 700]),
            3 => shared.set_size(size % 30_000),
            4 => from.remove(&one, false, None),
            5 => from.rename(&one, &*into, &other, true, None),
            6 => from.lookup(&one, OpenHow::ReadWrite).and_then(|file| file.write(size % 9000, &[1; 500])),
            _ => {
                let directory = name(&format!("d{}", size % 4));
                let back = into.rename(&directory, &*root, &directory, false, None);
                back.or_else(|_| root.rename(&directory, &*into, &directory, false, None))
            }
        };
        let used = volume.meter().unwrap().usage().bytes;
        assert!(used <= QUOTA, "{used}");
    }
}

#[test]
fn many_at_once_never_pass_the_bound_together_and_a_count_meanwhile_is_exact() {
    let memory = MemoryVolume::new(1);
    let volume = MeteredVolume::new(Arc::new(memory.clone()), Some(QUOTA), None);
    let meter = volume.meter().unwrap();
    let root = volume.root().unwrap();
    for directory in 0..4 {
        root.create_directory(&name(&format!("d{directory}")), 0o700, None).unwrap();
    }
    root.create_file(&name("shared"), 0o600, None).unwrap();
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            while !stopped.load(Ordering::Acquire) {
                let mut scan = meter.recount().unwrap();
                while matches!(scan.step(3), Ok(false)) {}
            }
        });
        let volume = &volume;
        let clients: Vec<_> = (0..4).map(|seed| scope.spawn(move || busy(volume, seed))).collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        stopped.store(true, Ordering::Release);
        counting.join().unwrap();
        assert!(ended.iter().all(|ended| ended.is_ok()));
    });
    drop(root);
    assert!(meter.counting().finished > 0);
    assert_eq!(meter.usage(), there(&memory));
}

/// No scan runs meanwhile that could repair the count.
#[test]
fn what_a_name_leads_to_is_the_same_for_all_who_change_it() {
    let memory = MemoryVolume::new(1);
    let volume = MeteredVolume::new(Arc::new(memory.clone()), Some(QUOTA), Some(Usage::default()));
    let root = volume.root().unwrap();
    let change = |seed: u64| {
        let mut state = seed;
        for _ in 0..20_000 {
            let [what, from, to] = [(); 3].map(|()| next(&mut state));
            let [from, to] = [from, to].map(|at| name(&format!("f{}", at % 3)));
            // Any call may fail, because the other threads do the same.
            let _done_or_refused = match what % 4 {
                0 => root.create_file(&from, 0o600, None).map(drop),
                1 => root.remove(&from, false, None),
                2 => root.rename(&from, &*root, &to, true, None),
                _ => {
                    root.lookup(&from, OpenHow::Attributes).and_then(|file| root.add_name(&to, &*file, None))
                }
            };
        }
    };
    std::thread::scope(|scope| {
        let change = &change;
        (1..5).for_each(|seed| drop(scope.spawn(move || change(seed))));
    });
    drop(root);
    assert_eq!(volume.meter().unwrap().usage(), there(&memory));
}
