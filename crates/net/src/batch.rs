//! One batch of a conversation: some messages, the events that are posted meanwhile, and its deadline. It
//! touches no socket, so it can run on the worker's thread or, as an [`OffloadedBatch`], on the blocking
//! pool. Start with [`run`].
//!
//! Events are taken between messages. The notices that one message causes therefore leave after the reply to
//! that message and before the next reply.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use wire::Now;
use wire::endpoint::{Conversation, Output, Service};
use wire::limits::{MAX_BATCH_BYTES, MAX_BATCH_HELD};

use crate::clock;
use crate::delivery_order::{BatchScope, LaterPosts, ReplyGate, WaitingSender};
use crate::inbound::{Inbound, Next};
use crate::mailbox::ConnectionMailbox;
use crate::pool::reason;
use crate::receipts::ReceiptResult;
use crate::thread_work::ThreadWork;

/// The part of a connection that moves to the pool and back: the conversation, and the input that waits for
/// it.
pub(crate) struct Core<C: Conversation> {
    pub(crate) conversation: C,
    pub(crate) inbound: Inbound,
    pub(crate) events: VecDeque<C::Event>,
    pub(crate) receipts: VecDeque<ReceiptResult>,
    /// Gates of other connections, whose replies wait until the notices of this batch are sent.
    pub(crate) gates: Vec<Arc<ReplyGate>>,
    /// The gate that the replies of the last batch wait for.
    pub(crate) reply_gate: Option<Weak<ReplyGate>>,
    /// Events for others that leave after the replies of the last batch.
    pub(crate) later_posts: LaterPosts,
    /// Number of events at the front that are known not to be urgent, while only urgent ones are taken.
    pub(crate) passed_over: usize,
}

impl<C: Conversation> Core<C> {
    /// A conversation that has received nothing yet.
    pub(crate) fn new(conversation: C) -> Core<C> {
        Core {
            conversation,
            inbound: Inbound::new(),
            events: VecDeque::new(),
            receipts: VecDeque::new(),
            gates: Vec::new(),
            reply_gate: None,
            later_posts: LaterPosts::default(),
            passed_over: 0,
        }
    }

    /// Whether an urgent event waits, which is taken even while the client takes no replies.
    pub(crate) fn has_urgent(&mut self) -> bool {
        find_urgent(&self.conversation, &self.events, &mut self.passed_over)
    }
}

/// Whether there is an urgent event after the first `passed_over`, which is advanced up to it.
fn find_urgent<C: Conversation>(
    conversation: &C,
    events: &VecDeque<C::Event>,
    passed_over: &mut usize,
) -> bool {
    while let Some(event) = events.get(*passed_over) {
        if conversation.is_urgent(event) {
            return true;
        }
        *passed_over += 1;
    }
    false
}

/// The work of a batch.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct BatchReport {
    pub(crate) messages: u64,
    pub(crate) events: u64,
    /// Events from the mailbox that are results of jobs.
    pub(crate) jobs_done: usize,
    /// Calls of the conversation.
    pub(crate) calls: u64,
    /// Bytes of the messages received and of the frames sent.
    pub(crate) bytes: u64,
    pub(crate) took_ns: u64,
    /// The work of the thread meanwhile, if it was measured.
    pub(crate) thread_work: Option<ThreadWork>,
    /// The time of its end (monotonic ns).
    pub(crate) ended_ns: u64,
    /// All complete messages are answered. The rest has to wait for more bytes.
    pub(crate) drained: bool,
    /// The client sent bytes that are not of the protocol.
    pub(crate) hostile: bool,
    /// The conversation panicked and must not be called any more.
    pub(crate) panicked: bool,
}

/// The parameters of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimits {
    /// The most messages to answer. With zero they wait.
    pub(crate) messages: u64,
    /// Whether the client does not take its replies, so that only urgent events are taken.
    pub(crate) choked: bool,
    /// Whether to measure the thread's work, which takes six system calls.
    pub(crate) measures: bool,
}

/// Runs one batch, bounded by messages and bytes. A panic is caught and reported in the result.
pub(crate) fn run<S: Service>(
    service: &S,
    post: &Arc<ConnectionMailbox<S::Conversation>>,
    core: &mut Core<S::Conversation>,
    out: &mut Output<<S::Conversation as Conversation>::Event>,
    now: Now,
    BatchLimits { messages: most, choked, measures }: BatchLimits,
) -> BatchReport {
    let mut report = BatchReport::default();
    let before = measures.then(ThreadWork::now);
    let scope = BatchScope::begin(Arc::as_ptr(post).addr());
    let answered = catch_unwind(AssertUnwindSafe(|| {
        let Core { conversation, inbound, events, receipts, passed_over, gates, .. } = core;
        let (report, queued) = (&mut report, Queued::default());
        let mut batch =
            Batch { conversation, post, events, gates, passed_over, choked, out, now, report, queued };
        batch.answer_receipts(receipts);
        batch.answer_events();
        batch.answer_messages(service, inbound, most);
        batch.answer_deadline();
        batch.conversation.before_sending();
        batch.queued.count(batch.out);
        batch.report.bytes += batch.queued.bytes as u64;
    }));
    if let Err(panic) = answered {
        tracing::error!(reason = reason(&*panic), "a conversation panicked");
        report.panicked = true;
    }
    let (gate, later_posts) = scope.end(|| Arc::clone(post) as Arc<dyn WaitingSender>);
    core.reply_gate = gate;
    core.later_posts.append(later_posts);
    report.ended_ns = clock::mono_ns();
    report.took_ns = report.ended_ns.saturating_sub(now.mono_ns);
    report.thread_work = before.map(|before| ThreadWork::now().since(before));
    report
}

/// Sums the frames as they are queued, each only once.
#[derive(Default)]
struct Queued {
    frames: usize,
    /// Bytes to be sent.
    bytes: usize,
    /// Bytes of memory.
    held: usize,
}

impl Queued {
    /// Adds the frames since the last call, and frees the memory that they leave unused.
    fn count<E>(&mut self, out: &mut Output<E>) {
        for frame in out.frames.iter_mut().skip(self.frames) {
            out.pool.fit(frame);
            self.bytes += frame.len();
            self.held += frame.held();
        }
        self.frames = out.frames.len();
    }
}

/// The state of a running batch.
struct Batch<'a, C: Conversation> {
    conversation: &'a mut C,
    post: &'a ConnectionMailbox<C>,
    events: &'a mut VecDeque<C::Event>,
    gates: &'a mut Vec<Arc<ReplyGate>>,
    passed_over: &'a mut usize,
    choked: bool,
    out: &'a mut Output<C::Event>,
    now: Now,
    report: &'a mut BatchReport,
    queued: Queued,
}

impl<C: Conversation> Batch<'_, C> {
    fn answer_messages<S: Service<Conversation = C>>(
        &mut self,
        service: &S,
        inbound: &mut Inbound,
        most: u64,
    ) {
        while self.report.messages < most && self.has_room() {
            let vouches = |head: &[u8]| self.conversation.vouches_for(head);
            match inbound.next(service, self.conversation.max_message(), vouches) {
                Next::Message(message) => {
                    if self.report.messages == 0 {
                        service.before_batch(self.now);
                        self.answer_events();
                        if self.out.close {
                            return;
                        }
                    }
                    self.report.messages += 1;
                    self.report.calls += 1;
                    self.report.bytes += message.len() as u64;
                    self.conversation.on_message(message, self.now, self.out);
                }
                Next::Nothing => {
                    self.report.drained = true;
                    return;
                }
                Next::Hostile => {
                    self.report.hostile = true;
                    return;
                }
            }
            self.answer_events();
        }
    }

    fn answer_receipts(&mut self, receipts: &mut VecDeque<ReceiptResult>) {
        while !self.out.close
            && let Some(ReceiptResult { token, arrived }) = receipts.pop_front()
        {
            self.report.calls += 1;
            self.conversation.on_receipt(token, arrived, self.now, self.out);
        }
    }

    /// Takes the events that were posted until now, and handles as many as there is room for.
    fn answer_events(&mut self) {
        self.report.jobs_done += self.post.take_events(self.events, self.gates);
        while self.has_room()
            && let Some(event) = self.next_event()
        {
            self.report.events += 1;
            self.report.calls += 1;
            self.conversation.on_event(event, self.now, self.out);
        }
    }

    fn next_event(&mut self) -> Option<C::Event> {
        if self.choked {
            let found = find_urgent(self.conversation, self.events, self.passed_over);
            return found.then(|| self.events.remove(*self.passed_over)).flatten();
        }
        *self.passed_over = 0;
        self.events.pop_front()
    }

    fn answer_deadline(&mut self) {
        if !self.out.close && self.conversation.deadline().is_some_and(|at| at <= self.now.mono_ns) {
            self.report.calls += 1;
            self.conversation.on_deadline(self.now, self.out);
            self.answer_events();
        }
    }

    /// Whether the connection continues and more replies may be queued.
    fn has_room(&mut self) -> bool {
        self.queued.count(self.out);
        let most_held = if self.conversation.is_proved() { MAX_BATCH_HELD } else { MAX_BATCH_BYTES };
        !self.out.close && self.queued.bytes < MAX_BATCH_BYTES && self.queued.held < most_held
    }
}

/// A batch that runs on the blocking pool. Everything it needs goes along and comes back.
pub(crate) struct OffloadedBatch<C: Conversation> {
    pub(crate) core: Box<Core<C>>,
    pub(crate) out: Output<C::Event>,
    pub(crate) report: BatchReport,
}

/// Returns the batch to its connection, however its task ends. A task that never ran counts as panicked.
pub(crate) struct OffloadGuard<C: Conversation> {
    post: Arc<ConnectionMailbox<C>>,
    trip: Option<Box<OffloadedBatch<C>>>,
}

impl<C: Conversation> OffloadGuard<C> {
    pub(crate) fn new(
        post: &Arc<ConnectionMailbox<C>>,
        core: Box<Core<C>>,
        out: Output<C::Event>,
    ) -> OffloadGuard<C> {
        let report = BatchReport { panicked: true, ..BatchReport::default() };
        post.conversation_left();
        OffloadGuard { post: Arc::clone(post), trip: Some(Box::new(OffloadedBatch { core, out, report })) }
    }

    /// Runs the batch, on the pool's thread.
    pub(crate) fn run<S: Service<Conversation = C>>(mut self, service: &S, messages: u64, choked: bool) {
        if let Some(trip) = &mut self.trip {
            let how = BatchLimits { messages, choked, measures: true };
            trip.report = run(service, &self.post, &mut trip.core, &mut trip.out, clock::now(), how);
        }
    }
}

impl<C: Conversation> Drop for OffloadGuard<C> {
    fn drop(&mut self) {
        if let Some(trip) = self.trip.take()
            && let Err(mut trip) = self.post.bring_back(trip)
        {
            end_conversation(&mut trip.core.conversation);
        }
    }
}

/// Tells a conversation that its connection is gone.
pub(crate) fn end_conversation<C: Conversation>(conversation: &mut C) {
    let told = catch_unwind(AssertUnwindSafe(|| conversation.on_close(clock::now())));
    if let Err(panic) = told {
        tracing::error!(reason = reason(&*panic), "a conversation panicked while it was closed");
    }
}
