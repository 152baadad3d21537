//! One turn of a conversation: a batch of messages, its deadline, then events. It touches no socket, so
//! that it can run on the worker's thread or, as a [`Trip`], on the blocking pool.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wire::endpoint::{Conversation, Output, Service};
use wire::limits::{MAX_BATCH_BYTES, MAX_BATCH_MESSAGES};
use wire::{Frame, Now};

use crate::clock;
use crate::inbound::{Inbound, Next};
use crate::mailbox::{Mail, Post};
use crate::pool::reason;

/// What moves to the pool and back: the conversation and what waits for it.
pub(crate) struct Core<C: Conversation> {
    pub(crate) conversation: C,
    pub(crate) inbound: Inbound,
    pub(crate) events: VecDeque<C::Event>,
}

/// What a turn did.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) messages: u64,
    pub(crate) events: u64,
    /// Calls of the conversation.
    pub(crate) calls: u64,
    pub(crate) took_ns: u64,
    /// When it ended (monotonic ns).
    pub(crate) ended_ns: u64,
    /// All whole messages are answered; what is left has to wait for more bytes.
    pub(crate) drained: bool,
    /// The client sent bytes that are not the protocol.
    pub(crate) hostile: bool,
    /// The conversation panicked; it must not be asked anything any more.
    pub(crate) panicked: bool,
}

/// Runs one turn, bounded by messages and bytes; without `messages` those wait. A panic is caught, and told in the answer.
pub(crate) fn run<S: Service>(
    service: &S,
    core: &mut Core<S::Conversation>,
    out: &mut Output<<S::Conversation as Conversation>::Event>,
    now: Now,
    messages: bool,
) -> Turn {
    let mut turn = Turn::default();
    let answered = catch_unwind(AssertUnwindSafe(|| {
        if messages {
            answer_messages(service, core, out, now, &mut turn);
        }
        if !out.close && core.conversation.deadline().is_some_and(|at| at <= now.mono_ns) {
            turn.calls += 1;
            core.conversation.on_deadline(now, out);
        }
        answer_events(core, out, now, &mut turn);
    }));
    if let Err(panic) = answered {
        tracing::error!(reason = reason(&*panic), "a conversation panicked");
        turn.panicked = true;
    }
    turn.ended_ns = clock::mono_ns();
    turn.took_ns = turn.ended_ns.saturating_sub(now.mono_ns);
    turn
}

/// Sums frames as they are queued, each only once.
#[derive(Default)]
struct Queued {
    frames: usize,
    bytes: usize,
}

impl Queued {
    fn is_full(&mut self, frames: &[Frame]) -> bool {
        let fresh = frames.get(self.frames..).unwrap_or(&[]);
        self.bytes += fresh.iter().map(Frame::len).sum::<usize>();
        self.frames = frames.len();
        self.bytes >= MAX_BATCH_BYTES
    }
}

fn answer_messages<S: Service>(
    service: &S,
    core: &mut Core<S::Conversation>,
    out: &mut Output<<S::Conversation as Conversation>::Event>,
    now: Now,
    turn: &mut Turn,
) {
    let mut queued = Queued::default();
    while turn.messages < MAX_BATCH_MESSAGES as u64 && !out.close && !queued.is_full(&out.frames) {
        match core.inbound.next(service, core.conversation.max_message()) {
            Next::Message(message) => {
                if turn.messages == 0 {
                    service.before_batch(now);
                }
                turn.messages += 1;
                turn.calls += 1;
                core.conversation.on_message(message, now, out);
            }
            Next::Nothing => {
                turn.drained = true;
                return;
            }
            Next::Hostile => {
                turn.hostile = true;
                return;
            }
        }
    }
}

fn answer_events<C: Conversation>(core: &mut Core<C>, out: &mut Output<C::Event>, now: Now, turn: &mut Turn) {
    let mut queued = Queued::default();
    while !out.close
        && !queued.is_full(&out.frames)
        && let Some(event) = core.events.pop_front()
    {
        turn.events += 1;
        turn.calls += 1;
        core.conversation.on_event(event, now, out);
    }
}

/// A turn that runs on the blocking pool: everything it needs goes along and comes back.
pub(crate) struct Trip<C: Conversation> {
    pub(crate) core: Box<Core<C>>,
    pub(crate) out: Output<C::Event>,
    pub(crate) turn: Turn,
}

/// Brings a trip home however its task ends; a task that never ran comes home as panicked.
pub(crate) struct Homeward<C: Conversation> {
    post: Arc<Post<C>>,
    trip: Option<Box<Trip<C>>>,
}

impl<C: Conversation> Homeward<C> {
    pub(crate) fn new(post: &Arc<Post<C>>, core: Box<Core<C>>, out: Output<C::Event>) -> Homeward<C> {
        let turn = Turn { panicked: true, ..Turn::default() };
        Homeward { post: Arc::clone(post), trip: Some(Box::new(Trip { core, out, turn })) }
    }

    /// Runs the turn; on the pool's thread.
    pub(crate) fn run<S: Service<Conversation = C>>(mut self, service: &S, messages: bool) {
        if let Some(trip) = &mut self.trip {
            trip.turn = run(service, &mut trip.core, &mut trip.out, clock::now(), messages);
        }
    }
}

impl<C: Conversation> Drop for Homeward<C> {
    fn drop(&mut self) {
        if let Some(trip) = self.trip.take()
            && let Err(Mail::Back(mut trip)) = self.post.send(Mail::Back(trip))
        {
            say_goodbye(&mut trip.core.conversation);
        }
    }
}

/// Tells a conversation that its connection is gone.
pub(crate) fn say_goodbye<C: Conversation>(conversation: &mut C) {
    let told = catch_unwind(AssertUnwindSafe(|| conversation.on_close(clock::now())));
    if let Err(panic) = told {
        tracing::error!(reason = reason(&*panic), "a conversation panicked while it was closed");
    }
}
