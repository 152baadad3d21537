//! A process that drives one [`Ownership`], and the server in it.

use std::collections::VecDeque;

use tenure::ownership::{EndReason, OwnershipStage};
use tenure::{Action, BootTime, NodeOwner, Ownership, OwnershipEvent, ServingTerm};

use crate::checks::Breach;
use crate::client::{ClientEvent, ClientReply, ClientRequest, RequestKind};
use crate::clock::{MILLI, SECOND, TrueTime};
use crate::storage::{Append, Contents, JournalRecord};
use crate::store::StoreCall;
use crate::world::{Defect, ProcessId, World, WorldEvent};

/// The time for which a start waits for the storage.
const START_LIMIT: u64 = 3 * SECOND;
/// The time for which a fence waits for the storage.
const FENCE_LIMIT: u64 = 2 * SECOND;

/// Something that a process hears of.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "few exist at a time")]
pub enum ProcessEvent {
    /// For the control part.
    Control(OwnershipEvent),
    /// The deadline of the control part may have come.
    Wake,
    /// Actions that a pause has delayed.
    CarryOut(Vec<Action>),
    /// The server opens its journal. It gives up at this time.
    ReadJournal(TrueTime),
    /// The server is ready to serve.
    Ready,
    /// The server announces its address, and tells the control part.
    Announce,
    /// The storage has accepted an append, or refused it.
    Appended {
        id: u64,
        is_accepted: bool,
    },
    Request(ClientRequest),
    /// A reply whose sender was paused in between.
    Send(ClientRequest, ClientReply),
}

/// A record that is under way, with the request that it is for and its reply.
type Unrecorded = (u64, JournalRecord, ClientRequest, ClientReply);

/// A process.
#[derive(Debug)]
pub struct Process {
    pub ownership: Ownership,
    pub server: Option<RunningServer>,
    /// The storage client of the last claim.
    pub storage_client: u64,
    /// The events that came while the process was paused.
    pub waiting: VecDeque<ProcessEvent>,
    wake_at: TrueTime,
    last_take: Option<BootTime>,
}

/// The server in a process, from the start on.
#[derive(Debug)]
pub struct RunningServer {
    epoch: u64,
    term: ServingTerm,
    guid: String,
    storage_client: u64,
    is_open: bool,
    is_quieting: bool,
    /// The contents that it has in memory.
    contents: Contents,
    /// The version of the last write, which may be under way.
    next_version: u64,
    /// The requests whose record is under way.
    unrecorded: VecDeque<Unrecorded>,
    /// The last attempt of each client.
    last_attempts: Vec<u64>,
}

impl World {
    /// Starts a process, unless one has the node's lock.
    pub fn start_process(&mut self, slot: u32, boot: u64) {
        let clients = self.number();
        let (now, times) = (self.now, self.times);
        let it = &mut self.slots[slot as usize];
        let node = &self.nodes[it.node as usize];
        if it.process.is_some() || !node.is_up || node.boot != boot {
            return;
        }
        if node.paused_until > now {
            return self.push(node.paused_until, WorldEvent::StartProcess { slot, boot });
        }
        it.birth += 1;
        it.paused_until = 0;
        let storage_client = if self.habits.shares_mount { node.storage_client } else { clients };
        let id = ProcessId { slot, birth: it.birth };
        let ownership = Ownership::new(node_name(it.node), times, node.clock.read(now));
        let (wake_at, waiting) = (TrueTime::MAX, VecDeque::new());
        it.process =
            Some(Process { ownership, server: None, storage_client, waiting, wake_at, last_take: None });
        self.plan_wake(id);
    }

    /// The process of this id, if it still runs.
    pub fn process(&mut self, id: ProcessId) -> Option<&mut Process> {
        let slot = &mut self.slots[id.slot as usize];
        slot.process.as_mut().filter(|_| slot.birth == id.birth)
    }

    /// Ends a process, and lets it be started again if its node is up.
    pub fn end_process(&mut self, id: ProcessId, why: &str) {
        if self.process(id).is_none() {
            return;
        }
        self.checks.tally.ends += 1;
        self.checks.line(self.now, || format!("{id:?} ends: {why}"));
        let slot = &mut self.slots[id.slot as usize];
        slot.process = None;
        let boot = self.nodes[slot.node as usize].boot;
        let at = self.now + self.chance.between(50 * MILLI, 2 * SECOND);
        self.push(at, WorldEvent::StartProcess { slot: id.slot, boot });
    }

    /// Hands an event to a process. A paused one finds it later.
    pub fn process_event(&mut self, id: ProcessId, event: ProcessEvent) {
        let (now, slot) = (self.now, &self.slots[id.slot as usize]);
        let is_paused = slot.paused_until > now || self.nodes[slot.node as usize].paused_until > now;
        let Some(process) = self.process(id) else { return };
        if is_paused {
            return process.waiting.push_back(event);
        }
        match event {
            ProcessEvent::Control(event) => self.control(id, event),
            ProcessEvent::Wake => {
                process.wake_at = TrueTime::MAX;
                self.wake(id);
            }
            ProcessEvent::CarryOut(actions) => self.carry_out(id, actions),
            ProcessEvent::ReadJournal(limit) => self.open_journal(id, limit),
            ProcessEvent::Ready => self.is_ready(id),
            ProcessEvent::Announce => self.announce(id),
            ProcessEvent::Appended { id: append, is_accepted } => self.appended(id, append, is_accepted),
            ProcessEvent::Request(request) => self.request(id, request),
            ProcessEvent::Send(request, reply) => self.send(request, reply),
        }
    }

    /// A pause is over: the process finds what has come meanwhile.
    pub fn resume(&mut self, slot: u32) {
        let id = ProcessId { slot, birth: self.slots[slot as usize].birth };
        let reverses = self.chance.one_in(3);
        let Some(process) = self.process(id) else { return };
        let mut waiting = std::mem::take(&mut process.waiting);
        if reverses {
            // Other threads of it run first.
            waiting.make_contiguous().reverse();
        }
        for event in waiting {
            self.process_event(id, event);
        }
    }

    fn wake(&mut self, id: ProcessId) {
        let now = self.node_of(id).clock.read(self.now);
        let Some(process) = self.process(id) else { return };
        match process.ownership.deadline() {
            Some(due) if due <= now => self.control(id, OwnershipEvent::Woken),
            _ => self.plan_wake(id),
        }
    }

    /// Plans an event at the deadline of the control part.
    fn plan_wake(&mut self, id: ProcessId) {
        let (clock, is_deaf) = (self.node_of(id).clock, self.defect == Defect::DeadlineMissed);
        let Some(process) = self.process(id) else { return };
        let Some(due) = process.ownership.deadline() else { return };
        if is_deaf && process.last_take.is_some() && process.ownership.stage() == OwnershipStage::Waiting {
            return;
        }
        let at = clock.due(due);
        if at < process.wake_at {
            process.wake_at = at;
            self.push(at, WorldEvent::process(id, ProcessEvent::Wake));
        }
    }

    /// Lets the control part handle an event, and does what it says.
    pub fn control(&mut self, id: ProcessId, mut event: OwnershipEvent) {
        let now = self.node_of(id).clock.read(self.now);
        if self.defect == Defect::TermFromReply
            && let OwnershipEvent::Took { asked, .. } | OwnershipEvent::Renewed { asked, .. } = &mut event
        {
            *asked = now;
        }
        let Some(process) = self.process(id) else { return };
        let mut actions = process.ownership.handle(event, now);
        if self.defect == Defect::NoPauses && actions.is_empty() {
            actions = self.impatient(id, now);
        }
        if !actions.is_empty() && !self.is_calm() && self.chance.one_in(2000) {
            // The process is paused between its decision and its deed.
            self.pause_process(id);
        }
        self.process_event(id, ProcessEvent::CarryOut(actions));
        self.plan_wake(id);
    }

    /// The actions of a node whose pauses are not kept: it is woken until it asks.
    fn impatient(&mut self, id: ProcessId, now: BootTime) -> Vec<Action> {
        let Some(process) = self.process(id) else { return Vec::new() };
        let due = process.ownership.deadline().unwrap_or(now);
        match process.ownership.stage() {
            OwnershipStage::Waiting => process.ownership.handle(OwnershipEvent::Woken, due.max(now)),
            _ => Vec::new(),
        }
    }

    fn carry_out(&mut self, id: ProcessId, actions: Vec<Action>) {
        for action in actions {
            let server = self.slots[id.slot as usize].server;
            if self.process(id).is_none() {
                return;
            }
            match action {
                Action::Watch(_) => self.watch(server, id),
                Action::Take { overrides_reservation } => self.ask_for(id, overrides_reservation),
                Action::Fence(former) => self.fence(id, &former),
                Action::Start { epoch, until, guid } => self.start_server(id, epoch.0, until, guid),
                Action::Extend(until) => self.extend(id, until),
                Action::Renew(_) if self.defect == Defect::RenewalsForgotten => {}
                Action::Renew(epoch) => self.call(id, StoreCall::Renew(epoch)),
                Action::Update(record) => self.call(id, StoreCall::Update(record)),
                Action::Quiet => self.quiet(id),
                Action::Release(record) => self.call(id, StoreCall::Release(record)),
                Action::End(reason) => self.ended(id, &reason),
            }
        }
    }

    fn ended(&mut self, id: ProcessId, reason: &EndReason) {
        let is_forced = matches!(reason, EndReason::TermOver(_));
        self.checks.must(!is_forced || !self.is_quite_calm(), Breach::EndedInCalm, self.now, || {
            format!("{id:?} ends: {reason:?}")
        });
        self.end_process(id, &format!("{reason:?}"));
    }

    /// Extends the term of the server, which announces its address again. A former owner that was paused may
    /// have announced it meanwhile.
    fn extend(&mut self, id: ProcessId, until: BootTime) {
        let number = self.slots[id.slot as usize].server;
        let Some(server) = self.process(id).and_then(|it| it.server.as_ref()) else { return };
        server.term.extend(until);
        if server.is_open {
            self.servers[number as usize].address = Some(id);
        }
    }

    /// Asks the store for the tenure. A storage client that was fenced is given up for a new one before.
    fn ask_for(&mut self, id: ProcessId, overrides_reservation: bool) {
        let (fresh, retry) = (self.number(), self.times.retry);
        let shares = self.habits.shares_mount;
        let node = self.slots[id.slot as usize].node;
        let now = self.node_of(id).clock.read(self.now);
        if shares && self.fenced.contains(&self.nodes[node as usize].storage_client) {
            self.nodes[node as usize].storage_client = fresh;
        }
        let mounted = self.nodes[node as usize].storage_client;
        let boot = self.nodes[node as usize].boot;
        let Some(present) = self.process(id).map(|it| it.storage_client) else { return };
        let usable = if self.fenced.contains(&present) { fresh } else { present };
        let Some(process) = self.process(id) else { return };
        process.storage_client = if shares { mounted } else { usable };
        let waited = process.last_take.is_none_or(|last| now.since(last) >= retry);
        process.last_take = Some(now);
        let storage_clients = vec![process.storage_client.to_string()];
        let (node, boot_id) = (node_name(node), format!("boot {boot}"));
        let owner = NodeOwner { node, boot_id, storage_clients, ..NodeOwner::default() };
        self.checks.must(waited, Breach::BusyLoop, self.now, || format!("{id:?} asks again at once"));
        let server = self.slots[id.slot as usize].server;
        let seen = self.servers[server as usize].entry.record.epoch;
        self.call(id, StoreCall::Take { owner, overrides_reservation, seen });
    }

    /// Whether the term of the control part still runs. Its caller looks right before a fence and a start.
    fn has_term(&mut self, id: ProcessId) -> bool {
        let now = self.node_of(id).clock.read(self.now);
        self.process(id).is_some_and(|it| it.ownership.until().is_some_and(|until| now < until))
    }

    fn fence(&mut self, id: ProcessId, former: &[NodeOwner]) {
        if !self.has_term(id) {
            return self.control(id, OwnershipEvent::Woken);
        }
        if self.defect == Defect::FenceSkipped {
            return self.control(id, OwnershipEvent::Fenced(Ok(())));
        }
        let node = self.node_of(id);
        let is_cut = node.storage_cut_until > self.now || node.fence_fails_until > self.now;
        let clients = former.iter().flat_map(|it| &it.storage_clients);
        let clients = clients.map(|it| it.parse().expect("a number")).collect();
        if is_cut {
            self.checks.tally.failed_fences += 1;
            let event = OwnershipEvent::Fenced(Err("the storage cannot be asked".to_owned()));
            let at = self.now + self.chance.between(100 * MILLI, FENCE_LIMIT);
            self.push(at, WorldEvent::process(id, ProcessEvent::Control(event)));
            if self.chance.one_in(2) {
                // It was done all the same.
                self.push(at, WorldEvent::Fence { from: id, clients, is_heard: false });
            }
            return;
        }
        let at = self.now + self.chance.between(20 * MILLI, FENCE_LIMIT / 2);
        if self.defect == Defect::ReadBeforeFence {
            self.control(id, OwnershipEvent::Fenced(Ok(())));
        }
        self.push(at, WorldEvent::Fence { from: id, clients, is_heard: true });
    }

    /// The storage fences. The node may have given up meanwhile.
    pub fn fence_is_due(&mut self, from: ProcessId, clients: &[u64], is_heard: bool) {
        self.checks.tally.fences += 1;
        self.checks.line(self.now, || format!("{from:?} fences {clients:?}"));
        self.fenced.extend(clients);
        if !is_heard {
            return;
        }
        let at = self.now + self.chance.between(MILLI, 200 * MILLI);
        let mut event = OwnershipEvent::Fenced(Ok(()));
        if !self.is_calm() && self.chance.one_in(20) {
            self.checks.tally.failed_fences += 1;
            event = OwnershipEvent::Fenced(Err("the reply was lost".to_owned()));
        }
        self.push(at, WorldEvent::process(from, ProcessEvent::Control(event)));
    }

    fn start_server(&mut self, id: ProcessId, epoch: u64, until: BootTime, guid: String) {
        if !self.has_term(id) {
            return self.control(id, OwnershipEvent::Woken);
        }
        let (clients, fresh) = (usize::from(self.shape.clients), self.number());
        let is_new = self.defect == Defect::MountedAnew;
        let Some(process) = self.process(id) else { return };
        let storage_client = if is_new { fresh } else { process.storage_client };
        process.server = Some(RunningServer {
            epoch,
            term: ServingTerm::new(until),
            guid,
            storage_client,
            is_open: false,
            is_quieting: false,
            contents: Contents::default(),
            next_version: 0,
            unrecorded: VecDeque::new(),
            last_attempts: vec![0; clients],
        });
        let limit = self.now + START_LIMIT;
        let at = self.now + self.chance.between(5 * MILLI, 300 * MILLI);
        self.push(at, WorldEvent::process(id, ProcessEvent::ReadJournal(limit)));
    }

    fn open_journal(&mut self, id: ProcessId, limit: TrueTime) {
        let now = self.now;
        let number = self.slots[id.slot as usize].server;
        let node_number = self.slots[id.slot as usize].node;
        let node = &self.nodes[node_number as usize];
        let (is_cut, fails) = (node.storage_cut_until > now, node.start_fails_until > now);
        let is_wrong = node.wrong_state_until > now;
        let compares = self.defect != Defect::GuidNotCompared;
        let Some(server) = self.process(id).and_then(|it| it.server.as_ref()) else { return };
        let (epoch, storage_client, guid) = (server.epoch, server.storage_client, server.guid.clone());
        let failure = if is_cut && now < limit {
            let at = now + self.chance.between(50 * MILLI, 300 * MILLI);
            return self.push(at, WorldEvent::process(id, ProcessEvent::ReadJournal(limit)));
        } else if is_cut {
            Some("the storage does not reply")
        } else if self.fenced.contains(&storage_client) {
            Some("this host is fenced")
        } else if is_wrong && compares && !guid.is_empty() {
            Some("the state directory is another")
        } else {
            fails.then_some("it crashed")
        };
        if let Some(why) = failure {
            if let Some(process) = self.process(id) {
                process.server = None;
            }
            return self.control(id, OwnershipEvent::Started(Err(why.to_owned())));
        }
        let is_right = !is_wrong || guid.is_empty();
        self.checks.must(is_right, Breach::WrongState, now, || format!("{id:?} opens another directory"));
        let contents = self.read_journal(number, node_number, epoch);
        let forgets_locks = self.defect == Defect::LocksNotRestored;
        let at = now + self.chance.between(MILLI, 300 * MILLI);
        let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) else { return };
        server.next_version = contents.version;
        server.contents = contents;
        if forgets_locks {
            server.contents.locks = Default::default();
        }
        self.push(at, WorldEvent::process(id, ProcessEvent::Ready));
    }

    /// The server may take its address.
    fn is_ready(&mut self, id: ProcessId) {
        let (clock, now) = (self.node_of(id).clock, self.now);
        let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) else { return };
        // A node whose term is over takes the address from nobody.
        if !server.term.permits(|| clock.read(now)) {
            // The control part may have a longer term by now, of which the server has not heard.
            if let Some(process) = self.process(id) {
                process.server = None;
            }
            let why = "the term ended before the address was up".to_owned();
            return self.control(id, OwnershipEvent::Started(Err(why)));
        }
        server.is_open = true;
        if !self.is_calm() && self.chance.one_in(50) {
            // The process is paused between its look at the clock and the announcement.
            self.pause_process(id);
        }
        self.process_event(id, ProcessEvent::Announce);
    }

    fn announce(&mut self, id: ProcessId) {
        let number = self.slots[id.slot as usize].server;
        let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) else { return };
        let epoch = server.epoch;
        self.checks.line(self.now, || format!("server {number}: {id:?} serves epoch {epoch}"));
        self.servers[number as usize].address = Some(id);
        self.reset_clients(number);
        let guid = self.servers[number as usize].guid.clone();
        self.control(id, OwnershipEvent::Started(Ok(guid)));
    }

    fn quiet(&mut self, id: ProcessId) {
        let number = self.slots[id.slot as usize].server;
        let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) else { return };
        server.is_open = false;
        server.is_quieting = true;
        server.term.end();
        self.checks.tally.moves += 1;
        let address = &mut self.servers[number as usize].address;
        *address = address.filter(|it| *it != id);
        self.may_be_quiet(id);
    }

    fn may_be_quiet(&mut self, id: ProcessId) {
        let Some(server) = self.process(id).and_then(|it| it.server.as_ref()) else { return };
        if server.is_quieting && server.unrecorded.is_empty() {
            let at = self.now + self.jitter();
            self.push(at, WorldEvent::process(id, ProcessEvent::Control(OwnershipEvent::Quiet)));
        }
    }

    /// A client's request: read from memory, or write a record first.
    fn request(&mut self, id: ProcessId, request: ClientRequest) {
        let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) else { return };
        let last = &mut server.last_attempts[usize::from(request.client)];
        if !server.is_open || request.attempt < *last {
            return;
        }
        *last = request.attempt;
        let client = request.client;
        let (record, reply) = match request.kind {
            RequestKind::Read => (None, ClientReply::Version(server.contents.version)),
            RequestKind::Write => {
                server.next_version += 1;
                let version = server.next_version;
                (Some(JournalRecord::Version(version)), ClientReply::Version(version))
            }
            RequestKind::Lock(lock) => match server.contents.locks[lock] {
                Some(other) if other != client => (None, ClientReply::Denied),
                _ => {
                    server.contents.locks[lock] = Some(client);
                    (Some(JournalRecord::Locked(lock, client)), ClientReply::Granted(lock))
                }
            },
            RequestKind::Unlock(lock) if server.contents.locks[lock] == Some(client) => {
                (Some(JournalRecord::Unlocked(lock)), ClientReply::Unlocked)
            }
            RequestKind::Unlock(_) => (None, ClientReply::Unlocked),
        };
        let Some(record) = record else { return self.reply(id, request, reply) };
        let (epoch, storage_client) = (server.epoch, server.storage_client);
        let append = self.number();
        if let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) {
            server.unrecorded.push_back((append, record, request, reply));
        }
        let Slotted { node, boot, number } = self.slotted(id);
        self.append(number, Append { id: append, writer: id, node, boot, storage_client, epoch, record });
        if self.defect == Defect::ReplyBeforeRecord {
            self.reply(id, request, reply);
        }
    }

    fn slotted(&self, id: ProcessId) -> Slotted {
        let slot = &self.slots[id.slot as usize];
        Slotted { node: slot.node, boot: self.nodes[slot.node as usize].boot, number: slot.server }
    }

    fn appended(&mut self, id: ProcessId, append: u64, is_accepted: bool) {
        if !is_accepted {
            return self.end_process(id, "it has lost its storage");
        }
        // The journal is in order: what was sent before is recorded too.
        loop {
            let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) else { return };
            let Some(recorded) = server.unrecorded.pop_front_if(|it| it.0 <= append) else { break };
            self.recorded(id, recorded);
        }
        self.may_be_quiet(id);
    }

    fn recorded(&mut self, id: ProcessId, (append, record, request, reply): Unrecorded) {
        let has_replied = self.defect == Defect::ReplyBeforeRecord;
        let Some(server) = self.process(id).and_then(|it| it.server.as_mut()) else { return };
        match record {
            JournalRecord::Version(version) => server.contents.version = version,
            JournalRecord::Locked(..) => {}
            // After the first of two attempts was recorded somebody may have locked it again.
            JournalRecord::Unlocked(lock) => {
                let locks_later = |it: &Unrecorded| {
                    it.0 > append && matches!(it.1, JournalRecord::Locked(other, _) if other == lock)
                };
                let is_last = !server.unrecorded.iter().any(locks_later);
                if is_last && server.contents.locks[lock] == Some(request.client) {
                    server.contents.locks[lock] = None;
                }
            }
        }
        if !has_replied {
            self.reply(id, request, reply);
        }
    }

    /// Asks right before a send whether the term permits it.
    fn reply(&mut self, id: ProcessId, request: ClientRequest, reply: ClientReply) {
        let number = self.slots[id.slot as usize].server;
        let (clock, true_now) = (self.node_of(id).clock, self.now);
        let asks = self.defect != Defect::TermNotAsked;
        let Some(server) = self.process(id).and_then(|it| it.server.as_ref()) else { return };
        if asks && !server.term.permits(|| clock.read(true_now)) {
            self.checks.tally.withheld += 1;
            return;
        }
        let epoch = server.epoch;
        let it = &self.servers[number as usize];
        let is_owner = it.entry.is_owner(epoch, true_now) && it.journal.read_by <= epoch;
        let may_be_stale = self.clocks_stand_still;
        self.checks.must(is_owner || may_be_stale, Breach::ReplyAfterTerm, true_now, || {
            format!("server {number}: {id:?} of epoch {epoch} replies {reply:?}; {:?}", it.entry)
        });
        self.checks.tally.replies += 1;
        if !self.is_calm() && self.chance.one_in(1000) {
            // The process is paused between its look at the clock and the send.
            self.checks.tally.paused_in_send += 1;
            self.pause_process(id);
        }
        self.process_event(id, ProcessEvent::Send(request, reply));
    }

    fn send(&mut self, request: ClientRequest, reply: ClientReply) {
        let at = self.now + self.jitter();
        let event = ClientEvent::Reply { attempt: request.attempt, reply };
        self.push(at, WorldEvent::Client { server: request.server, client: request.client, event });
    }
}

/// The node and the virtual server of a process.
struct Slotted {
    node: u32,
    boot: u64,
    number: u32,
}

pub fn node_name(node: u32) -> String {
    format!("n{node}")
}
