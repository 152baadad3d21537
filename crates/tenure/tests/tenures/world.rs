//! A cluster in virtual time: nodes, a tenure store, a storage with journals, and clients.
//!
//! Everything that happens is a [`WorldEvent`] at its time. [`World::run`] takes one after the other. The
//! true time is that of an outside observer. No node knows it.

use std::collections::HashSet;
use std::time::Duration;

use tenure::{BootTime, Times};
use testkit::dice::Dice;

use crate::checks::{Breach, Checks};
use crate::client::{ClientEvent, SimulatedClient};
use crate::clock::{MILLI, NodeClock, SECOND, TrueTime, nanos};
use crate::faults::FaultTurn;
use crate::process::{Process, ProcessEvent};
use crate::queue::EventQueue;
use crate::storage::FileJournal;
use crate::store::{StoreCall, StoreEntry};

/// The locks of a virtual server.
pub const LOCKS: usize = 3;

/// The size of a world.
#[derive(Debug, Clone, Copy)]
pub struct WorldShape {
    pub nodes: u32,
    pub servers: u32,
    /// The number of nodes on which a virtual server may run.
    pub candidates: u32,
    pub clients: u8,
    pub seconds: u64,
    pub term_seconds: u64,
    /// The usual time between two requests of a client.
    pub think_ms: u64,
    /// The usual time between two faults.
    pub fault_gap_ms: u64,
}

/// A mistake that is put into the world on purpose, so that its checks can be seen to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    Nothing,
    /// Replies are sent until the very end of the term.
    NoMargin,
    /// A term is counted from the store's reply.
    TermFromReply,
    /// The store keeps only the last owner to be fenced.
    FormerForgotten,
    /// No owner is fenced.
    FenceSkipped,
    /// The journal is read before the former owners are fenced.
    ReadBeforeFence,
    /// The server does not ask whether its term permits a reply.
    TermNotAsked,
    /// The server replies before its journal has the record.
    ReplyBeforeRecord,
    /// The store takes updates, releases and takes that come late.
    EpochNotCompared,
    /// The storage is mounted anew after the claim was made.
    MountedAnew,
    /// A server with another state directory serves.
    GuidNotCompared,
    /// The pauses of a node that waits are not kept.
    NoPauses,
    /// A node that waits hears of its watch only, and not of its deadline.
    DeadlineMissed,
    /// The store gives the same epoch again.
    EpochNotCounted,
    /// An owner forgets those on its own boot when it takes the tenure, before it has read the journal.
    SameBootForgotten,
    /// An owner does not restore the locks of its journal.
    LocksNotRestored,
    /// An owner misses what was written last.
    LastRecordMissed,
    /// No renewal is sent.
    RenewalsForgotten,
}

/// The habits of a store and of clients, which differ from one world to the next.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// The store ends leases so many thousandths of a term late.
    pub late_leases: u64,
    /// The length of the terms that the store grants, which is shorter than what it is asked for in some
    /// worlds.
    pub granted: Duration,
    /// The store gives the tenure to the same boot again while its lease runs.
    pub gives_own_again: bool,
    /// All servers of a node write through one storage client.
    pub shares_mount: bool,
    /// The time after which a client tries again.
    pub client_limit: u64,
    /// The time after which a node gives up a call to the store.
    pub call_limit: u64,
}

/// One process: a virtual server on a node, and how often it was started there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessId {
    pub slot: u32,
    pub birth: u32,
}

/// A node.
#[derive(Debug)]
pub struct ClusterNode {
    pub clock: NodeClock,
    pub boot: u64,
    pub is_up: bool,
    pub paused_from: Option<TrueTime>,
    pub paused_until: TrueTime,
    pub store_cut_until: TrueTime,
    pub storage_cut_until: TrueTime,
    pub loss_until: TrueTime,
    pub slow_until: TrueTime,
    pub wrong_state_until: TrueTime,
    pub fence_fails_until: TrueTime,
    pub start_fails_until: TrueTime,
    /// The storage client of the host's mount.
    pub storage_client: u64,
    pub slots: Vec<u32>,
}

/// The processes of one virtual server on one node, one after the other: the node's lock allows one.
#[derive(Debug)]
pub struct Slot {
    pub node: u32,
    pub server: u32,
    pub birth: u32,
    pub process: Option<Process>,
    pub paused_until: TrueTime,
}

/// A virtual server as the outside sees it.
#[derive(Debug)]
pub struct VirtualServer {
    pub guid: String,
    pub entry: StoreEntry,
    pub journal: FileJournal,
    pub slots: Vec<u32>,
    pub clients: Vec<SimulatedClient>,
    /// The process that has the address.
    pub address: Option<ProcessId>,
    /// The newest version that a client was told.
    pub told_version: u64,
    /// The clients that were told that they have a lock, and have not given it up.
    pub holders: [Option<u8>; LOCKS],
    /// The time of the last reply that a client got, and the longest time without one after the last fault.
    pub last_reply: TrueTime,
    pub longest_gap: u64,
}

/// An event of a world, which it takes at its time.
#[derive(Debug)]
pub enum WorldEvent {
    Process(ProcessId, Box<ProcessEvent>),
    Call(Box<CallUnderWay>),
    LeaseEnd {
        server: u32,
        epoch: u64,
    },
    Append {
        server: u32,
        id: u64,
    },
    /// The storage fences these clients for a node.
    Fence {
        from: ProcessId,
        clients: Vec<u64>,
        is_heard: bool,
    },
    Client {
        server: u32,
        client: u8,
        event: ClientEvent,
    },
    /// A process is started, if none runs there.
    StartProcess {
        slot: u32,
        boot: u64,
    },
    Fault,
    FaultTurn(FaultTurn),
}

impl WorldEvent {
    pub fn process(to: ProcessId, event: ProcessEvent) -> WorldEvent {
        WorldEvent::Process(to, Box::new(event))
    }

    pub fn watched(to: ProcessId) -> WorldEvent {
        WorldEvent::process(to, ProcessEvent::Control(tenure::OwnershipEvent::Woken))
    }
}

/// A call on its way to the store.
#[derive(Debug)]
pub struct CallUnderWay {
    pub server: u32,
    pub from: ProcessId,
    pub asked: BootTime,
    /// The time at which the node stops to wait for a reply. None: it has stopped.
    pub limit: Option<TrueTime>,
    pub call: StoreCall,
}

/// The cluster.
#[derive(Debug)]
pub struct World {
    pub shape: WorldShape,
    pub defect: Defect,
    pub habits: Habits,
    pub times: Times,
    pub chance: Dice,
    pub now: TrueTime,
    pub nodes: Vec<ClusterNode>,
    pub slots: Vec<Slot>,
    pub servers: Vec<VirtualServer>,
    pub store_cut_until: TrueTime,
    pub fenced: HashSet<u64>,
    pub checks: Checks,
    /// From this time on there are no faults.
    pub calm_at: TrueTime,
    /// Clocks of paused nodes stand still.
    pub clocks_stand_still: bool,
    queue: EventQueue<WorldEvent>,
    numbers: u64,
}

impl World {
    pub fn new(seed: u64, shape: WorldShape, defect: Defect) -> World {
        let mut chance = Dice::new(seed);
        let mut times = Times::of_term(Duration::from_secs(shape.term_seconds));
        if defect == Defect::NoMargin {
            times.margin = Duration::ZERO;
        }
        let limits = [SECOND, 3 * SECOND, 8 * SECOND];
        let habits = Habits {
            late_leases: [0, 0, 1, 30][chance.below(4)],
            granted: if seed % 3 == 2 { times.term * 2 / 5 } else { times.term },
            gives_own_again: chance.one_in(2),
            shares_mount: chance.one_in(2),
            client_limit: limits[chance.below(3)],
            call_limit: nanos(times.term) / [3, 6, 10][chance.below(3)],
        };
        let mut world = World {
            shape,
            defect,
            habits,
            times,
            chance,
            now: 0,
            nodes: Vec::new(),
            slots: Vec::new(),
            servers: Vec::new(),
            store_cut_until: 0,
            fenced: HashSet::new(),
            checks: Checks::default(),
            calm_at: 0,
            clocks_stand_still: false,
            queue: EventQueue::default(),
            numbers: 0,
        };
        world.calm_at = (shape.seconds * SECOND).saturating_sub(world.bound() + SECOND);
        world.people();
        world
    }

    /// The time within which everything is served again after the last fault.
    ///
    /// The lease of a dead owner runs out, and the call that took it was lost with its node. The next node
    /// hears of neither, and wakes a term later. It finds a reservation for a node that pauses after a failed
    /// start. It fences, starts, and the client that was cut off tries again.
    pub fn bound(&self) -> u64 {
        let term = nanos(self.times.term);
        let waits = 2 * self.habits.call_limit + self.habits.client_limit + 2 * self.shape.think_ms * MILLI;
        4 * term + nanos(self.times.pause) + waits + 8 * SECOND
    }

    /// Makes nodes, virtual servers and clients, and their first events.
    fn people(&mut self) {
        let shape = self.shape;
        for _ in 0..shape.nodes {
            let (clock, storage_client) = (NodeClock::new(0, &mut self.chance), self.number());
            self.nodes.push(ClusterNode {
                clock,
                boot: 1,
                is_up: true,
                paused_from: None,
                paused_until: 0,
                store_cut_until: 0,
                storage_cut_until: 0,
                loss_until: 0,
                slow_until: 0,
                wrong_state_until: 0,
                fence_fails_until: 0,
                start_fails_until: 0,
                storage_client,
                slots: Vec::new(),
            });
        }
        for server in 0..shape.servers {
            let mut slots = Vec::new();
            for candidate in 0..shape.candidates {
                // Neighbours share some servers and not others.
                let node = (server + candidate * (1 + server % 7)) % shape.nodes;
                let slot = u32::try_from(self.slots.len()).expect("there are fewer");
                if self.nodes[node as usize]
                    .slots
                    .last()
                    .is_some_and(|it| self.slots[*it as usize].server == server)
                {
                    continue;
                }
                self.slots.push(Slot { node, server, birth: 0, process: None, paused_until: 0 });
                self.nodes[node as usize].slots.push(slot);
                slots.push(slot);
                let at = self.chance.between(0, SECOND);
                self.push(at, WorldEvent::StartProcess { slot, boot: 1 });
            }
            self.servers.push(VirtualServer {
                guid: format!("guid of {server}"),
                entry: StoreEntry::default(),
                journal: FileJournal::default(),
                slots,
                clients: vec![SimulatedClient::default(); usize::from(shape.clients)],
                address: None,
                told_version: 0,
                holders: [None; LOCKS],
                last_reply: 0,
                longest_gap: 0,
            });
            for client in 0..shape.clients {
                let at = self.chance.between(0, 2 * SECOND);
                self.push(at, WorldEvent::Client { server, client, event: ClientEvent::Think });
            }
        }
        let first = self.chance.between(5 * SECOND, 20 * SECOND);
        self.push(first, WorldEvent::Fault);
    }

    pub fn push(&mut self, at: TrueTime, event: WorldEvent) {
        self.queue.push(at.max(self.now), event);
    }

    /// A number that nobody else has.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Less than a millisecond.
    pub fn jitter(&mut self) -> u64 {
        self.chance.between(10_000, MILLI)
    }

    /// The delay of a message. It is long now and then.
    pub fn delay(&mut self) -> u64 {
        match self.chance.roll() % 400 {
            0 if !self.is_calm() => self.chance.between(MILLI, 2 * self.habits.call_limit),
            1..8 => self.chance.between(MILLI, 300 * MILLI),
            _ => self.chance.between(MILLI / 5, 3 * MILLI),
        }
    }

    pub fn is_calm(&self) -> bool {
        self.now >= self.calm_at
    }

    /// Whether the last fault is so long ago that no term ends from it any more.
    pub fn is_quite_calm(&self) -> bool {
        self.now >= self.calm_at + self.bound() / 2
    }

    pub fn node_of(&self, process: ProcessId) -> &ClusterNode {
        &self.nodes[self.slots[process.slot as usize].node as usize]
    }

    pub fn is_cut_from_store(&self, process: ProcessId) -> bool {
        self.store_cut_until > self.now || self.node_of(process).store_cut_until > self.now
    }

    /// Sends a call to the store. The node hears of its outcome, or that none has come.
    pub fn call(&mut self, from: ProcessId, call: StoreCall) {
        let server = self.slots[from.slot as usize].server;
        let node = self.node_of(from);
        let (asked, is_slow) = (node.clock.read(self.now), node.slow_until > self.now);
        let is_lost = self.is_cut_from_store(from) || node.loss_until > self.now && self.chance.one_in(4);
        let limit = self.now + self.habits.call_limit;
        let under_way = |limit, call| Box::new(CallUnderWay { server, from, asked, limit, call });
        if is_lost {
            self.push(limit, WorldEvent::process(from, ProcessEvent::Control(call.unheard().event(asked))));
            if self.chance.one_in(4) {
                // It is sent again by the network when nobody waits for it any more.
                let at = limit + self.chance.between(0, 2 * nanos(self.times.term));
                self.push(at, WorldEvent::Call(under_way(None, call)));
            }
            return;
        }
        let slowness = if is_slow { self.chance.between(0, self.habits.call_limit) } else { 0 };
        let at = self.now + self.delay() + slowness;
        self.push(at, WorldEvent::Call(under_way(Some(limit), call)));
    }

    fn call_arrives(&mut self, mut under_way: CallUnderWay) {
        if self.store_cut_until > self.now {
            if let Some(limit) = under_way.limit.take() {
                let unheard = under_way.call.unheard().event(under_way.asked);
                self.push(limit, WorldEvent::process(under_way.from, ProcessEvent::Control(unheard)));
            }
            if self.chance.one_in(2) {
                let at = self.store_cut_until + self.jitter();
                self.push(at, WorldEvent::Call(Box::new(under_way)));
            }
            return;
        }
        let CallUnderWay { server, from, asked, limit, call } = under_way;
        let unheard = call.unheard().event(asked);
        let reply = self.at_store(server, from, call);
        let Some(limit) = limit else {
            self.checks.tally.unheard += 1;
            return;
        };
        let node = self.node_of(from);
        let is_slow = node.slow_until > self.now;
        let is_lost = self.is_cut_from_store(from) || node.loss_until > self.now && self.chance.one_in(4);
        let slowness = if is_slow { self.chance.between(0, self.habits.call_limit) } else { 0 };
        let at = self.now + self.delay() + slowness;
        let (at, event) = match is_lost || at > limit {
            true => {
                self.checks.tally.unheard += 1;
                (limit, unheard)
            }
            false => (at, reply.event(asked)),
        };
        self.push(at, WorldEvent::process(from, ProcessEvent::Control(event)));
    }

    /// Runs the world to its end, or to its first breach.
    pub fn run(&mut self) {
        let end = self.shape.seconds * SECOND;
        while let Some((at, event)) = self.queue.pop() {
            if at >= end || !self.checks.breaches.is_empty() {
                break;
            }
            self.now = at;
            self.checks.tally.events += 1;
            match event {
                WorldEvent::Process(to, event) => self.process_event(to, *event),
                WorldEvent::Call(under_way) => self.call_arrives(*under_way),
                WorldEvent::LeaseEnd { server, epoch } => self.lease_may_be_over(server, epoch),
                WorldEvent::Append { server, id } => self.append_arrives(server, id),
                WorldEvent::Fence { from, clients, is_heard } => self.fence_is_due(from, &clients, is_heard),
                WorldEvent::Client { server, client, event } => self.client_event(server, client, event),
                WorldEvent::StartProcess { slot, boot } => self.start_process(slot, boot),
                WorldEvent::Fault => self.fault(),
                WorldEvent::FaultTurn(turn) => self.turn(turn),
            }
        }
        self.checks.tally.worlds = 1;
        if self.checks.breaches.is_empty() {
            self.now = end;
            self.all_are_served();
        }
    }

    fn all_are_served(&mut self) {
        let (bound, calm_at, now) = (self.bound(), self.calm_at, self.now);
        for (number, server) in self.servers.iter().enumerate() {
            let gap = server.longest_gap.max(now - server.last_reply.max(calm_at));
            self.checks.must(gap <= bound, Breach::NotServed, now, || {
                format!("server {number}: {gap} ns without a reply, at most {bound}; {:?}", server.entry)
            });
            self.checks.tally.longest_ns = self.checks.tally.longest_ns.max(gap);
        }
    }
}
