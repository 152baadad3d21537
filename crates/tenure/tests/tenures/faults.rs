//! The faults of a world, and their ends.

use tenure::OwnershipEvent;

use crate::clock::{MILLI, NodeClock, SECOND, TrueTime, nanos};
use crate::process::node_name;
use crate::world::{ProcessId, World, WorldEvent};

/// A change in a fault that is more than a time to compare with.
#[derive(Debug, Clone, Copy)]
pub enum FaultTurn {
    /// A process goes on.
    Slot(u32),
    /// A machine goes on.
    Node(u32),
    /// A machine boots after its death.
    Boot(u32),
    /// The store has a quorum again.
    Store,
    /// A node is cut off from the store.
    Cut(u32),
}

/// In a cluster of five nodes, one of so many faults strikes more than one node.
const ONE_OF_THEM: u64 = 12;

impl World {
    /// Something goes wrong, and the next fault is planned.
    pub fn fault(&mut self) {
        if self.is_calm() {
            return;
        }
        self.checks.tally.faults += 1;
        match self.chance.one_in(ONE_OF_THEM * u64::from(self.shape.nodes) / 5) {
            true => self.wide_fault(),
            false => self.fault_of_a_node(),
        }
        let gap = self.shape.fault_gap_ms * MILLI;
        let at = self.now + self.chance.between(gap / 10, 2 * gap);
        self.push(at, WorldEvent::Fault);
    }

    /// The end of a fault: before the calm at the end.
    fn fault_end(&mut self) -> TrueTime {
        let term = nanos(self.times.term);
        let length = match self.chance.below(3) {
            0 => self.chance.between(10 * MILLI, term / 3),
            1 => self.chance.between(term / 2, 3 * term / 2),
            _ => self.chance.between(term, 4 * term),
        };
        (self.now + length).min(self.calm_at)
    }

    fn wide_fault(&mut self) {
        let (until, kind) = (self.fault_end(), self.chance.below(4));
        self.checks.line(self.now, || format!("wide fault {kind} until {until}"));
        if kind == 0 {
            self.store_cut_until = self.store_cut_until.max(until);
            return self.push(until, WorldEvent::FaultTurn(FaultTurn::Store));
        }
        for node in 0..self.nodes.len() {
            if !self.chance.one_in(2) {
                continue;
            }
            let it = &mut self.nodes[node];
            if kind != 2 {
                it.store_cut_until = it.store_cut_until.max(until);
            }
            if kind != 1 {
                it.storage_cut_until = it.storage_cut_until.max(until);
            }
        }
    }

    /// A process, more often than not one that serves.
    fn pick(&mut self) -> ProcessId {
        let server = self.chance.below(self.servers.len());
        let it = &self.servers[server];
        let slot = it.slots[self.chance.below(it.slots.len())];
        match it.address {
            Some(serving) if !self.chance.one_in(3) => serving,
            _ => ProcessId { slot, birth: self.slots[slot as usize].birth },
        }
    }

    fn fault_of_a_node(&mut self) {
        let (id, until, kind) = (self.pick(), self.fault_end(), self.chance.below(17));
        let node = self.slots[id.slot as usize].node;
        self.checks.line(self.now, || format!("fault {kind} of {id:?} on node {node} until {until}"));
        let it = &mut self.nodes[node as usize];
        match kind {
            0 => it.store_cut_until = it.store_cut_until.max(until),
            1 => it.storage_cut_until = it.storage_cut_until.max(until),
            2 => {
                it.store_cut_until = it.store_cut_until.max(until);
                it.storage_cut_until = it.storage_cut_until.max(until);
            }
            3 => it.loss_until = it.loss_until.max(until),
            4 => {
                // The replies of the store take long, and then there are none.
                it.slow_until = it.slow_until.max(until);
                self.push(until, WorldEvent::FaultTurn(FaultTurn::Cut(node)));
            }
            5 => it.wrong_state_until = it.wrong_state_until.max(until),
            6 => it.fence_fails_until = it.fence_fails_until.max(until),
            7 => it.start_fails_until = it.start_fails_until.max(until),
            8 | 9 => self.pause_process(id),
            10 => self.pause_node(node, until),
            11 | 12 => self.end_process(id, "it is killed"),
            13 => self.machine_dies(node, until),
            // A move, also to a node that is dead, and away from one that owns nothing.
            _ => self.leave(id),
        }
    }

    fn leave(&mut self, id: ProcessId) {
        let server = self.slots[id.slot as usize].server;
        let slots = &self.servers[server as usize].slots;
        let target = slots[self.chance.below(slots.len())];
        let to = (!self.chance.one_in(4)).then(|| node_name(self.slots[target as usize].node));
        self.push(
            self.now,
            WorldEvent::process(id, crate::process::ProcessEvent::Control(OwnershipEvent::Leave { to })),
        );
    }

    pub fn pause_process(&mut self, id: ProcessId) {
        let until = self.fault_end();
        let slot = &mut self.slots[id.slot as usize];
        slot.paused_until = slot.paused_until.max(until);
        self.checks.line(self.now, || format!("{id:?} is paused until {until}"));
        self.push(until, WorldEvent::FaultTurn(FaultTurn::Slot(id.slot)));
    }

    pub fn pause_node(&mut self, node: u32, until: TrueTime) {
        let now = self.now;
        let it = &mut self.nodes[node as usize];
        it.paused_from = it.paused_from.or(Some(now));
        it.paused_until = it.paused_until.max(until);
        self.push(until, WorldEvent::FaultTurn(FaultTurn::Node(node)));
    }

    fn machine_dies(&mut self, node: u32, until: TrueTime) {
        if !self.nodes[node as usize].is_up {
            return;
        }
        self.nodes[node as usize].is_up = false;
        for slot in self.nodes[node as usize].slots.clone() {
            let server = self.slots[slot as usize].server;
            self.forget_unsent(server, node);
            self.slots[slot as usize].process = None;
        }
        self.push(until, WorldEvent::FaultTurn(FaultTurn::Boot(node)));
    }

    pub fn turn(&mut self, turn: FaultTurn) {
        let now = self.now;
        match turn {
            FaultTurn::Slot(slot) => {
                let it = &self.slots[slot as usize];
                if it.paused_until <= now && self.nodes[it.node as usize].paused_until <= now {
                    self.resume(slot);
                }
            }
            FaultTurn::Node(node) => self.node_goes_on(node),
            FaultTurn::Boot(node) => self.boot(node),
            FaultTurn::Store if self.store_cut_until <= now => self.store_is_back(),
            FaultTurn::Store => {}
            FaultTurn::Cut(node) => {
                let until = self.fault_end();
                let it = &mut self.nodes[node as usize];
                it.store_cut_until = it.store_cut_until.max(until);
            }
        }
    }

    fn node_goes_on(&mut self, node: u32) {
        let (now, stand_still) = (self.now, self.clocks_stand_still);
        let it = &mut self.nodes[node as usize];
        if it.paused_until > now || !it.is_up {
            return;
        }
        let paused_from = it.paused_from.take().filter(|_| stand_still);
        if let Some(from) = paused_from {
            it.clock.stand_still(from, now);
        }
        for slot in it.slots.clone() {
            if self.slots[slot as usize].paused_until <= now {
                self.resume(slot);
            }
        }
    }

    fn boot(&mut self, node: u32) {
        let storage_client = self.number();
        let clock = NodeClock::new(self.now, &mut self.chance);
        let it = &mut self.nodes[node as usize];
        it.boot += 1;
        it.is_up = true;
        it.paused_from = None;
        it.paused_until = 0;
        it.clock = clock;
        it.storage_client = storage_client;
        let boot = it.boot;
        for slot in it.slots.clone() {
            let at = self.now + self.chance.between(0, SECOND);
            self.push(at, WorldEvent::StartProcess { slot, boot });
        }
    }
}
