//! The life of one connection, as one future that a worker polls. Start with [`ActiveConnection::poll`].
//!
//! Each round handles mail, receives once, runs one batch of the conversation (inline, or as a trip to the
//! blocking pool), queues its jobs and sends everything with one system call. A connection is read only while
//! its conversation is at home and its client keeps up. [`Connection`] is the part that moves between
//! workers. [`ActiveConnection`] ties it to a worker's socket and timer.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;
use wire::endpoint::{Conversation, Output, Peer, Service};
use wire::limits::{MAX_BATCH_MESSAGES, MAX_QUEUED_REPLY_BYTES, MAX_UNPROVED_REPLY_BYTES};

use crate::backlog::{BacklogEntry, BacklogHolder};
use crate::balance::ConnectionLoad;
use crate::batch::{self, BatchLimits, BatchReport, Core, OffloadGuard, OffloadedBatch, end_conversation};
use crate::busy_poll::BusyPoll;
use crate::clock;
use crate::delivery_order::ReplyBarrier;
use crate::files;
use crate::lowat;
use crate::mailbox::{ConnectionMailbox, Mail, Ticket};
use crate::offload::OffloadPolicy;
use crate::pool::Task;
use crate::receipts::{Receipts, unacknowledged};
use crate::registry::Registration;
use crate::send_method::SendMethodChoice;
use crate::sends::SendQueue;
use crate::server::ServerContext;
use crate::socket_calls::{Received, SendOutcome, ask_once, receive_once, send_once};
use crate::thread_work;
use crate::timer::Timer;
use crate::worker::Worker;

/// Rounds with work before other connections of the worker are served.
const ROUNDS: usize = 8;
/// The same in the priority lane.
const ROUNDS_IN_LANE: usize = 1;
/// Messages of an unproved client in each batch.
const UNPROVED_MESSAGES: u64 = 8;
/// Batches of an unproved client before it must wait for the next one even if it sends nothing more. A log-on
/// takes three.
const UNPROVED_BATCHES: u32 = 16;
/// Unproved clients that are served in one millisecond: enough for each to log on without waiting, and little
/// compared to the other work.
const UNPROVED_CLIENTS_EACH_MS: u64 = 8;
/// Approximate size of a queued event in bytes.
const EVENT_BYTES: usize = 128;

/// The event type of a service's conversations.
pub(crate) type EventOf<S> = <<S as Service>::Conversation as Conversation>::Event;

/// The reason why a connection leaves its worker.
pub(crate) enum End {
    /// It ends at once: because of the client or the network, or because it deserves no more.
    Closed(&'static str),
    /// It ends after its last reply, which should reach the client.
    Ended(&'static str),
    /// It moves to another worker.
    Move(usize),
}

/// The outcome of a round.
enum Flow {
    Again,
    Wait,
    End(End),
}

impl Flow {
    const fn closed(why: &'static str) -> Flow {
        Flow::End(End::Closed(why))
    }

    const fn ended(why: &'static str) -> Flow {
        Flow::End(End::Ended(why))
    }
}

/// A connection without its socket.
pub(crate) struct Connection<S: Service> {
    /// The conversation. None while it is away on the pool.
    core: Option<Box<Core<S::Conversation>>>,
    post: Arc<ConnectionMailbox<S::Conversation>>,
    shared: Arc<ServerContext<S>>,
    registration: Registration,
    peer: Peer,
    sends: SendQueue,
    receipts: Receipts,
    /// The gates that the replies wait for.
    barrier: ReplyBarrier,
    mail: VecDeque<Mail<S::Conversation>>,
    /// Tasks that found the queue of the pool full.
    deferred: VecDeque<Task>,
    /// Jobs without a result yet.
    outstanding: usize,
    offload: OffloadPolicy,
    share: ConnectionLoad,
    /// The method by which the data of large reads is sent.
    send_method: SendMethodChoice,
    /// The worker to move to, until the move.
    target: Option<usize>,
    placed: bool,
    /// Send the queued replies, then close.
    closing: bool,
    /// The connection is not read at present, since the client or the pool does not keep up.
    held_back: bool,
    /// Data arrived that was read completely, and nothing was sent since.
    heard: bool,
    /// The time since when the socket takes nothing (monotonic ns).
    stalled_since: Option<u64>,
    /// The number of bytes at which the socket wakes its task.
    wakes_at: lowat::LowWatermark,
    /// The client has proved itself as its protocol requires.
    proved: bool,
    /// Batches that it has run as an unproved client.
    unproved_batches: u32,
    /// The memory held for a client that does not read.
    debt: BacklogEntry,
    /// Whether to poll for the next request before sleeping.
    busy_poll: BusyPoll,
}

impl<S: Service> Connection<S> {
    /// Starts a conversation. None if the service refuses it.
    pub(crate) fn accept(
        shared: &Arc<ServerContext<S>>,
        registration: Registration,
        peer: Peer,
    ) -> Option<Box<Connection<S>>> {
        let post = ConnectionMailbox::new();
        let debt = BacklogEntry::new(&shared.config.backlog);
        let conversation = shared.service.accept(peer, Arc::clone(&post) as _, clock::now())?;
        let (proved, mut registration) = (conversation.is_proved(), registration);
        registration.set_proved(proved);
        let evictable: Weak<ConnectionMailbox<S::Conversation>> = Arc::downgrade(&post);
        registration.notify_on_eviction(evictable);
        let slow_call = u64::try_from(shared.config.slow_call.as_nanos()).unwrap_or(u64::MAX);
        Some(Box::new(Connection {
            core: Some(Box::new(Core::new(conversation))),
            post,
            shared: Arc::clone(shared),
            registration,
            peer,
            sends: SendQueue::default(),
            receipts: Receipts::default(),
            barrier: ReplyBarrier::default(),
            mail: VecDeque::new(),
            deferred: VecDeque::new(),
            outstanding: 0,
            offload: OffloadPolicy::new(slow_call),
            share: ConnectionLoad::default(),
            send_method: SendMethodChoice::default(),
            target: None,
            placed: false,
            closing: false,
            held_back: false,
            heard: false,
            stalled_since: None,
            wakes_at: lowat::LowWatermark::default(),
            proved,
            unproved_batches: 0,
            debt,
            busy_poll: BusyPoll::new(shared.config.busy_poll),
        }))
    }

    /// Its mailbox, to wake it.
    pub(crate) fn post(&self) -> &Arc<ConnectionMailbox<S::Conversation>> {
        &self.post
    }

    /// The addresses of both ends.
    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// Whether no work is in progress. A worker that ends waits for this.
    fn is_at_rest(&self) -> bool {
        self.outstanding == 0
            && self.deferred.is_empty()
            && self.sends.is_empty()
            && self.core.as_ref().is_some_and(|core| core.events.is_empty())
    }

    /// The next deadline even if nothing arrives (monotonic ns).
    fn next_deadline(&self) -> Option<u64> {
        let config = &self.shared.config;
        let stall = self.stalled_since.map(|at| later(at, config.write_stall));
        let core = self.core.as_ref().filter(|_| !self.closing);
        let own = core.and_then(|core| core.conversation.deadline());
        let record = core
            .filter(|_| !self.held_back)
            .and_then(|core| core.inbound.incomplete_since())
            .map(|at| later(at, config.record_time));
        let receipt = core.and_then(|_| self.receipts.next());
        [stall, own, record, receipt, self.barrier.deadline()].into_iter().flatten().min()
    }

    /// Whether the client does not take its replies.
    fn is_choked(&self) -> bool {
        let is_narrow = !self.proved || self.shared.config.backlog.is_tight();
        let most = if is_narrow { MAX_UNPROVED_REPLY_BYTES } else { MAX_QUEUED_REPLY_BYTES };
        self.sends.held() > most || self.sends.bytes() > MAX_QUEUED_REPLY_BYTES
    }

    /// Updates the backlog at the end of a round.
    fn note_debt(&mut self) {
        let mut held = self.sends.held();
        if let Some(core) = &self.core {
            let events = core.events.iter();
            held += events.map(|event| EVENT_BYTES + core.conversation.event_bytes(event)).sum::<usize>();
            held += core.conversation.holds();
            // The message that a known client is sending does not count.
            held += if self.proved { 0 } else { core.inbound.held() };
        }
        let post = &self.post;
        self.debt.set(held, || Arc::clone(post) as Arc<dyn BacklogHolder>);
    }

    /// Whether an unproved client wants more than a log-on needs: messages wait after a batch, or it has had
    /// many batches.
    fn must_rest(&self) -> bool {
        let waits = || self.core.as_ref().is_some_and(|core| core.inbound.waiting());
        !self.proved && (self.unproved_batches > UNPROVED_BATCHES || waits())
    }

    /// Whether the client or the pool does not keep up.
    fn must_hold_back(&self) -> bool {
        self.is_choked()
            || !self.deferred.is_empty()
            || self.outstanding >= self.shared.config.jobs_per_connection
    }
}

impl<S: Service> Connection<S> {
    /// Ends the conversation, once. Nothing more comes in.
    pub(crate) fn leave(&mut self) {
        let (uncollected, trip) = self.post.close();
        if let Some(trip) = trip {
            self.core = Some(trip.core);
        }
        // If the conversation is away, the pool ends it when it finds the mailbox closed.
        if let Some(mut core) = self.core.take() {
            end_conversation(&mut core.conversation);
        }
        // Unhandled events are dropped after the conversation has ended, since they may notify others.
        drop(uncollected);
        self.mail.clear();
    }
}

impl<S: Service> Drop for Connection<S> {
    fn drop(&mut self) {
        self.leave();
    }
}

fn later(at_ns: u64, by: Duration) -> u64 {
    at_ns.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX))
}

/// A connection on its worker.
pub(crate) struct ActiveConnection<S: Service> {
    pub(crate) connection: Box<Connection<S>>,
    pub(crate) stream: TcpStream,
    worker: Rc<Worker<S>>,
    timer: Timer,
    attached: bool,
    /// An unproved client waits until then for its next batch (monotonic ns).
    rests_until: u64,
}

impl<S: Service> ActiveConnection<S> {
    pub(crate) fn new(connection: Box<Connection<S>>, stream: TcpStream, worker: Rc<Worker<S>>) -> Self {
        ActiveConnection { connection, stream, worker, timer: Timer::new(), attached: false, rests_until: 0 }
    }

    /// Serves until the connection leaves this worker.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let worker = Rc::clone(&self.worker);
        if !worker.is_lane() {
            return self.serve(cx);
        }
        let standing = self.connection.registration.standing().map(Arc::clone);
        worker.charge(standing.as_ref(), || self.serve(cx))
    }

    fn serve(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if !self.attached {
            self.attached = true;
            self.connection.post.attach(cx.waker());
        }
        let now_ns = clock::mono_ns();
        if let Some(target) = self.change_lane(now_ns) {
            return Poll::Ready(End::Move(target));
        }
        if self.rests_until > now_ns && !self.worker.is_finishing() {
            return Poll::Pending;
        }
        self.connection.post.mark_running();
        let before_ns = self.connection.send_method.measures().then(thread_work::cpu_ns);
        let polled = self.rounds(cx);
        let connection = &mut *self.connection;
        if connection.core.is_none() || connection.outstanding > 0 {
            connection.send_method.disturb();
        }
        if let Some(transfer) = connection.core.as_ref().and_then(|core| core.conversation.transfer()) {
            let cpu_ns = before_ns.map_or(0, |before_ns| thread_work::cpu_ns().saturating_sub(before_ns));
            connection.send_method.note(transfer, cpu_ns, now_ns);
        }
        polled
    }

    /// Runs rounds until other connections are to be served.
    fn rounds(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut due = self.timer.rang();
        if due && let Some(why) = self.overdue() {
            return Poll::Ready(End::Closed(why));
        }
        let is_lane = self.worker.is_lane();
        for _ in 0..if is_lane { ROUNDS_IN_LANE } else { ROUNDS } {
            match self.round(cx, std::mem::take(&mut due)) {
                Flow::End(end) => return Poll::Ready(end),
                Flow::Again if self.connection.must_rest() => break,
                Flow::Again => {}
                Flow::Wait if self.asks_again() => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Flow::Wait => {
                    self.timer.arm(cx, self.connection.next_deadline());
                    if self.connection.post.sleep(self.connection.core.is_none()) {
                        return Poll::Pending;
                    }
                }
            }
        }
        // The few rounds in the lane do not show how much a client wants.
        let goes_on = self.connection.proved || is_lane && !self.connection.must_rest();
        match goes_on {
            true => cx.waker().wake_by_ref(),
            false => self.rest(cx),
        }
        Poll::Pending
    }

    /// Whether to poll for the next request once more rather than sleep.
    fn asks_again(&mut self) -> bool {
        let connection = &mut *self.connection;
        let poll = &mut connection.busy_poll;
        let is_free = connection.core.is_some() && connection.outstanding == 0 && !connection.closing;
        if !is_free || connection.offload.uses_pool() || self.worker.is_lane() || self.worker.is_finishing() {
            poll.stop(clock::mono_ns);
        } else if poll.keeps_polling(clock::mono_ns) {
            return true;
        }
        self.worker.polled_busily(poll.take_spent_ns());
        false
    }

    /// The worker to move to before the batch, because the priority lane now admits the connection or no
    /// longer does.
    fn change_lane(&mut self, now_ns: u64) -> Option<usize> {
        let connection = &mut *self.connection;
        let stays = connection.core.is_none() || connection.target.is_some() || self.worker.is_finishing();
        if stays { None } else { connection.registration.change_lane(now_ns) }
    }

    /// Makes an unproved client that sends too fast wait for its next batch. The wait grows with the number
    /// of such clients.
    fn rest(&mut self, cx: &mut Context<'_>) {
        let others = self.connection.shared.registry.unproved() as u64;
        self.rests_until =
            clock::mono_ns().saturating_add((1 + others / UNPROVED_CLIENTS_EACH_MS) * 1_000_000);
        self.timer.set(cx, self.rests_until);
    }

    fn round(&mut self, cx: &mut Context<'_>, due: bool) -> Flow {
        if let Some(end) = self.take_mail() {
            return end;
        }
        let received = match self.receive(cx) {
            Ok(received) => received,
            Err(why) => return Flow::closed(why),
        };
        if received == Received::End {
            // Ready replies are offered once. The client may be gone already.
            self.connection.barrier = ReplyBarrier::default();
            let _gone = self.flush(cx);
            return Flow::closed("the client closed it");
        }
        if let Some(end) = self.run_batch(due) {
            return end;
        }
        self.submit_deferred(cx);
        let before = self.connection.sends.taken();
        if let Err(why) = self.flush(cx) {
            return Flow::closed(why);
        }
        let connection = &mut *self.connection;
        if let Some(core) = &mut connection.core {
            core.later_posts.deliver();
        }
        connection.heard |= matches!(received, Received::Some(_));
        connection.heard &= connection.sends.taken() == before;
        self.acknowledge();
        self.conclude(received)
    }

    /// Has the host acknowledge received data at once if all of it ends inside a record and no reply has
    /// carried the acknowledgement. A client with Nagle's algorithm holds the rest back until then, and the
    /// host would delay the acknowledgement by 40 ms (RFC 9293, section 3.8.6.3, allows that).
    fn acknowledge(&mut self) {
        let connection = &mut *self.connection;
        // While the conversation is away, the end of the received records is not known.
        let Some(core) = connection.core.as_mut().filter(|_| connection.heard) else { return };
        connection.heard = false;
        if !core.inbound.waiting() && core.inbound.wants_acknowledgement() {
            self.worker.counters().ack_calls.add(1);
            // If the host refuses, it acknowledges later, which does no other harm.
            let _asked = rustix::net::sockopt::set_tcp_quickack(&self.stream, true);
        }
    }

    /// Decides what follows the round.
    fn conclude(&mut self, received: Received) -> Flow {
        let connection = &mut *self.connection;
        connection.note_debt();
        if connection.closing && connection.sends.is_empty() {
            return Flow::ended("the server closed it");
        }
        if self.worker.is_finishing() && connection.is_at_rest() {
            return Flow::ended("the server ends");
        }
        let choked = connection.is_choked();
        let Some(core) = &mut connection.core else {
            return Flow::Wait;
        };
        let answerable = if choked { core.has_urgent() } else { !core.events.is_empty() };
        connection.post.set_collected(core.events.len());
        if let Some(target) = connection.target.take() {
            return Flow::End(End::Move(target));
        }
        // A socket may be left alone only if it is being waited for. Any other has to be asked again.
        let readable =
            received != Received::Waiting && !connection.must_hold_back() && !self.worker.is_finishing();
        if (readable || answerable) && !connection.closing { Flow::Again } else { Flow::Wait }
    }

    /// Takes the conversation back from the pool, and sorts the mail. While the conversation is away, its
    /// batch there takes the mail.
    fn take_mail(&mut self) -> Option<Flow> {
        if self.connection.core.is_none() {
            let OffloadedBatch { core, mut out, report } = *self.connection.post.take_back()?;
            self.connection.core = Some(core);
            self.worker.counters().hops.add(1);
            let end = self.absorb(&mut out, report);
            self.worker.give_spare(out);
            if end.is_some() {
                return end;
            }
        }
        let connection = &mut *self.connection;
        let core = connection.core.as_mut()?;
        connection.post.collect(&mut connection.mail);
        while let Some(mail) = connection.mail.pop_front() {
            match mail {
                Mail::Event(event) => core.events.push_back(event),
                Mail::Ahead(event, gate) => {
                    core.gates.push(gate);
                    core.events.push_back(event);
                }
                Mail::Told => {}
                Mail::Done(event) => {
                    connection.outstanding -= 1;
                    core.events.push_back(event);
                }
                Mail::Fetched(bytes) => connection.sends.put_back(bytes),
                Mail::Lost => {
                    self.worker.counters().panics.add(1);
                    return Some(Flow::closed("a job gave no result"));
                }
                Mail::Overflow => return Some(Flow::closed("it does not keep up with its events")),
                Mail::CloseBacklog => {
                    let remote = connection.peer.remote;
                    tracing::warn!(%remote, "closes the connection whose client leaves most unread");
                    return Some(Flow::closed("too much is held for clients that do not read"));
                }
                // The client may have proved itself meanwhile.
                Mail::Evict if connection.proved => {}
                Mail::Evict => {
                    return Some(Flow::closed("another needs its place, and it has proved nothing"));
                }
            }
        }
        None
    }

    /// Receives at most once.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<Received, &'static str> {
        let connection = &mut *self.connection;
        if connection.closing || self.worker.is_finishing() {
            return Ok(Received::NotAsked);
        }
        let hold_back = connection.must_hold_back();
        let Some(core) = &mut connection.core else {
            return Ok(Received::NotAsked);
        };
        if hold_back || core.inbound.waiting() {
            connection.held_back |= hold_back;
            return Ok(Received::NotAsked);
        }
        if std::mem::take(&mut connection.held_back) {
            core.inbound.restart_clock(clock::mono_ns());
        }
        let asks = match self.stream.poll_read_ready(cx) {
            Poll::Pending if connection.busy_poll.is_on() => true,
            Poll::Pending => {
                // If this many bytes have arrived by now, this raises the event that is being waited for.
                connection.wakes_at.set(&self.stream, core.inbound.worth_waking());
                return Ok(Received::Waiting);
            }
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(_)) => return Err("it cannot be waited for"),
        };
        let buffers = &mut *self.worker.buffers();
        let stream = &self.stream;
        let counters = self.worker.counters();
        let received = core.inbound.fill(buffers, |slices, room| match asks {
            true => ask_once(stream, slices, room),
            false => receive_once(stream, slices, room),
        });
        let still_asks = asks && received == Received::Empty;
        counters.busy_polls.add(u64::from(still_asks));
        counters.recv_calls.add(u64::from(received != Received::Unready && !still_asks));
        counters.recv_empty.add(u64::from(received == Received::Empty && !still_asks));
        if connection.busy_poll.is_on() && !matches!(received, Received::Empty | Received::Unready) {
            connection.busy_poll.hit(clock::mono_ns);
            self.worker.polled_busily(connection.busy_poll.take_spent_ns());
        }
        if let Received::Some(count) | Received::All(count) = received {
            counters.bytes_received.add(count as u64);
        }
        if !core.inbound.waiting() {
            let copied = core.inbound.settle(&*connection.shared.service, buffers, clock::mono_ns());
            counters.bytes_copied.add(copied as u64);
        }
        if core.inbound.is_starved() {
            return Err("there is no memory for its message");
        }
        match received {
            Received::Failed => Err("the network failed"),
            _ if still_asks => Ok(Received::Waiting),
            received => Ok(received),
        }
    }

    /// Runs one batch of the conversation if there is work for it, or sends it on a trip.
    fn run_batch(&mut self, due: bool) -> Option<Flow> {
        let connection = &mut *self.connection;
        if connection.closing {
            return None;
        }
        let takes_messages = !connection.must_hold_back() && !self.worker.is_finishing();
        let messages = match takes_messages {
            true if connection.proved && !self.worker.is_lane() => MAX_BATCH_MESSAGES as u64,
            true => UNPROVED_MESSAGES,
            false => 0,
        };
        let choked = connection.is_choked();
        let core = connection.core.as_mut()?;
        if due && connection.receipts.next().is_some() {
            // If the host cannot be asked, the bytes count as arrived. Silence then shows a lost client.
            let missing = unacknowledged(&self.stream).unwrap_or(0);
            let arrived = connection.sends.taken().saturating_sub(missing);
            connection.receipts.answer(clock::mono_ns(), arrived, &mut core.receipts);
        }
        let due = due && core.conversation.deadline().is_some_and(|at| at <= clock::mono_ns());
        let events = if choked { core.has_urgent() } else { !core.events.is_empty() };
        let wanted = due || !core.receipts.is_empty() || core.inbound.waiting() && takes_messages || events;
        if !wanted {
            return None;
        }
        if connection.offload.uses_pool() {
            // Check before the next trip: the conversation may be away at every later poll.
            if let Some(target) = self.change_lane(clock::mono_ns()) {
                self.connection.target = Some(target);
            }
            let connection = &mut *self.connection;
            if connection.target.is_some() {
                return None;
            }
            let core = connection.core.take()?;
            let trip = OffloadGuard::new(&connection.post, core, self.worker.take_spare());
            let service = Arc::clone(&connection.shared.service);
            connection.deferred.push_back(Box::new(move || trip.run(&*service, messages, choked)));
            return None;
        }
        let worker = Rc::clone(&self.worker);
        let out = &mut *worker.output();
        let how = BatchLimits { messages, choked, measures: connection.offload.measures() };
        let report = batch::run(&*connection.shared.service, &connection.post, core, out, clock::now(), how);
        let end = self.absorb(out, report);
        let connection = &mut *self.connection;
        if let Some(target) = worker.counted(&mut connection.share, report.took_ns, report.ended_ns)
            && end.is_none()
            && connection.target.is_none()
        {
            connection.registration.move_to(target);
            connection.target = Some(target);
        }
        end
    }

    /// Handles the output of a batch.
    fn absorb(&mut self, out: &mut Output<EventOf<S>>, report: BatchReport) -> Option<Flow> {
        let connection = &mut *self.connection;
        let counters = self.worker.counters();
        counters.records.add(report.messages);
        counters.batches.add(u64::from(report.messages > 0));
        counters.events.add(report.events);
        counters.jobs.add(out.jobs.len() as u64);
        if let Some(work) = report.thread_work {
            counters.effort_reads.add(work.reads);
            counters.effort_bytes.add(work.read_bytes);
        }
        connection.outstanding -= report.jobs_done;
        connection.unproved_batches += u32::from(!connection.proved && report.messages > 0);
        let placement = out.placement.take();
        connection.closing |= std::mem::take(&mut out.close) || report.hostile;
        if report.panicked {
            counters.panics.add(1);
            out.jobs.clear();
            out.receipts.clear();
            for frame in out.frames.drain(..) {
                out.pool.give_back(frame);
            }
            return Some(Flow::closed("its conversation panicked"));
        }
        if report.hostile {
            tracing::info!(remote = %connection.peer.remote, "bytes of another protocol");
        }
        connection.receipts.ask(&mut out.receipts, &out.frames, connection.sends.end());
        connection.sends.append(&mut out.frames);
        for job in out.jobs.drain(..) {
            let ticket = Ticket::new(&connection.post);
            connection.outstanding += 1;
            connection.deferred.push_back(Box::new(move || ticket.done(job.0())));
        }
        connection.offload.note(&report);
        connection.busy_poll.answered(report.messages);
        if let Some(core) = &mut connection.core {
            if let Some(gate) = core.reply_gate.take() {
                connection.barrier.add(gate, later(report.ended_ns, connection.shared.config.tell_first));
            }
            core.conversation.batch_ended(report.ended_ns, connection.sends.end());
            if let Some(principal) = core.conversation.principal() {
                connection.registration.set_principal(principal);
            }
            if core.conversation.is_proved() != connection.proved {
                connection.proved = !connection.proved;
                connection.registration.set_proved(connection.proved);
            }
        }
        if let Some(core) = &mut connection.core
            && (report.drained || !core.inbound.waiting())
        {
            let buffers = &mut *self.worker.buffers();
            let copied = core.inbound.settle(&*connection.shared.service, buffers, report.ended_ns);
            counters.bytes_copied.add(copied as u64);
            if core.inbound.is_starved() {
                return Some(Flow::closed("there is no memory for its message"));
            }
        }
        if let Some(key) = placement
            && !std::mem::replace(&mut connection.placed, true)
        {
            let target = connection.registration.choose(key);
            connection.target = (target != self.worker.index()).then_some(target);
        }
        None
    }

    /// Hands tasks to the pool until it is full.
    fn submit_deferred(&mut self, cx: &Context<'_>) {
        let connection = &mut *self.connection;
        let from = connection.peer.remote.ip().to_canonical();
        while let Some(task) = connection.deferred.pop_front() {
            if let Err(task) = connection.shared.pool.submit(from, task, cx.waker()) {
                connection.deferred.push_front(task);
                return;
            }
        }
    }

    /// Sends queued replies, as far as the socket takes them.
    fn flush(&mut self, cx: &mut Context<'_>) -> Result<(), &'static str> {
        if self.waits_behind() {
            return Ok(());
        }
        let before = self.connection.sends.taken();
        let flushed = self.send_queued(cx);
        let connection = &mut *self.connection;
        // A reply that its client does not take delays nobody.
        if let Some(core) = connection.core.as_mut().filter(|core| core.events.is_empty()) {
            core.gates.clear();
        }
        let taken = connection.sends.taken();
        if taken != before
            && let Some(core) = &mut connection.core
        {
            core.conversation.sent(taken, clock::mono_ns());
        }
        flushed
    }

    /// Whether replies wait for notices to others. A connection that others wait for does not wait itself.
    fn waits_behind(&mut self) -> bool {
        let connection = &mut *self.connection;
        let is_awaited = connection.core.as_ref().is_some_and(|core| !core.gates.is_empty());
        let is_ending = connection.closing || self.worker.is_finishing();
        connection.barrier.waits(is_awaited || is_ending, clock::mono_ns)
    }

    fn send_queued(&mut self, cx: &mut Context<'_>) -> Result<(), &'static str> {
        let connection = &mut *self.connection;
        while connection.sends.is_ready() {
            if !connection.shared.config.term.permits(clock::boot_time) {
                return Err("the term of this node is over");
            }
            let sent = match connection.sends.left_page_cache() {
                true => SendOutcome::Withheld,
                false => connection.sends.gather(|piece| send_once(&self.stream, piece)),
            };
            let counters = self.worker.counters();
            counters.writev_calls.add(u64::from(!matches!(sent, SendOutcome::Unready)));
            match sent {
                SendOutcome::Bytes(count) => {
                    counters.bytes_sent.add(count as u64);
                    connection.stalled_since = None;
                    self.worker.give_back(&mut connection.sends, count, connection.offload.uses_pool());
                }
                SendOutcome::Nothing | SendOutcome::Unready => match self.stream.poll_write_ready(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Err("it cannot be waited for"),
                    Poll::Pending => {
                        connection.sends.mark_blocked();
                        connection.stalled_since.get_or_insert_with(clock::mono_ns);
                        return Ok(());
                    }
                },
                SendOutcome::Withheld => {
                    self.fetch(cx);
                    return Ok(());
                }
                SendOutcome::Failed => return Err("the network failed"),
            }
        }
        Ok(())
    }

    /// Has the next piece of a file read on the blocking pool. The replies after it wait.
    fn fetch(&mut self, cx: &Context<'_>) {
        let connection = &mut *self.connection;
        let Some(range) = self.worker.take_file(&mut connection.sends) else { return };
        connection.stalled_since = None;
        let ticket = Ticket::new(&connection.post);
        connection.deferred.push_back(Box::new(move || match files::read(&range) {
            Ok(bytes) => ticket.fetched(bytes),
            Err(error) => tracing::warn!(%error, "the data of a reply could not be read"),
        }));
        self.submit_deferred(cx);
    }

    /// The reason to end the connection if one of the transport's own deadlines has passed.
    fn overdue(&self) -> Option<&'static str> {
        let connection = &*self.connection;
        let config = &connection.shared.config;
        let now = clock::mono_ns();
        if connection.stalled_since.is_some_and(|at| later(at, config.write_stall) <= now) {
            return Some("the client does not take its replies");
        }
        let since = connection.core.as_ref().and_then(|core| core.inbound.incomplete_since());
        if !connection.held_back && since.is_some_and(|at| later(at, config.record_time) <= now) {
            return Some("the client did not complete a record in time");
        }
        None
    }
}
