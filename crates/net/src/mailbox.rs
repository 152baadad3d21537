//! The mailbox of a connection. Any thread can put events in, and the connection is woken only if it sleeps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Waker;

use parking_lot::Mutex;
use wire::Frame;
use wire::endpoint::{Conversation, Mailbox};

use crate::backlog::BacklogHolder;
use crate::batch::OffloadedBatch;
use crate::delivery_order::{self, ReplyGate, WaitingSender};
use crate::unproved::Evictable;

/// The most events that may wait for one connection. One more and the connection is closed, since it does not
/// keep up.
const MAX_EVENTS: usize = 64 * 1024;

/// A queue that once grew beyond this frees its memory when it is empty.
const KEPT_EVENTS: usize = 256;

/// An entry of the mailbox.
pub(crate) enum Mail<C: Conversation> {
    /// An event that was posted from anywhere.
    Event(C::Event),
    /// The same; replies of others wait until the resulting notice is sent.
    Ahead(C::Event, Arc<ReplyGate>),
    /// The notices that this connection's replies have waited for are sent.
    Told,
    /// The result of a job.
    Done(C::Event),
    /// The bytes of a piece of a file that could not be sent directly.
    Fetched(Frame),
    /// A job ended without a result. The connection ends.
    Lost,
    /// More events arrived than can wait. The connection ends.
    Overflow,
    /// All connections hold too much, and this one most. It ends.
    CloseBacklog,
    /// Another connection needs the place of this one. It ends.
    Evict,
}

/// One connection's mailbox.
pub(crate) struct ConnectionMailbox<C: Conversation> {
    /// Whether the connection's task sleeps until it is woken.
    asleep: AtomicBool,
    /// The length of the queue, readable without the lock.
    count: AtomicUsize,
    /// Whether the conversation is back from the pool.
    back: AtomicBool,
    /// Events that the connection has collected and not yet handled.
    held: AtomicUsize,
    state: Mutex<MailboxState<C>>,
}

struct MailboxState<C: Conversation> {
    queue: VecDeque<Mail<C>>,
    /// Whether the conversation is on the pool. Its batch there takes the events.
    away: bool,
    trip: Option<Box<OffloadedBatch<C>>>,
    waker: Option<Waker>,
    gone: bool,
    overflown: bool,
}

impl<C: Conversation> ConnectionMailbox<C> {
    pub(crate) fn new() -> Arc<ConnectionMailbox<C>> {
        Arc::new(ConnectionMailbox {
            asleep: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            back: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            state: Mutex::new(MailboxState {
                queue: VecDeque::new(),
                away: false,
                trip: None,
                waker: None,
                gone: false,
                overflown: false,
            }),
        })
    }

    /// Sets the task to wake. Called once by each task that serves the connection.
    pub(crate) fn attach(&self, waker: &Waker) {
        self.state.lock().waker = Some(waker.clone());
    }

    /// The task runs, and needs no wake-up until it sleeps.
    pub(crate) fn mark_running(&self) {
        self.asleep.store(false, SeqCst);
    }

    /// The task is about to sleep, with the conversation at home or `away`. Returns false if something has
    /// arrived meanwhile: mail, or, while the conversation is away, the conversation itself.
    pub(crate) fn sleep(&self, away: bool) -> bool {
        self.asleep.store(true, SeqCst);
        let arrived = if away { self.back.load(SeqCst) } else { self.count.load(SeqCst) > 0 };
        if !arrived {
            return true;
        }
        // Either a sender has cleared the flag and woken this task (one needless round), or nobody has.
        self.asleep.store(false, SeqCst);
        false
    }

    /// Sets the number of collected events that wait, since those count against the bound too.
    pub(crate) fn set_collected(&self, events: usize) {
        if self.held.load(SeqCst) != events {
            self.held.store(events, SeqCst);
        }
    }

    /// Moves all mail into `into`, which is empty.
    pub(crate) fn collect(&self, into: &mut VecDeque<Mail<C>>) {
        if self.count.load(SeqCst) > 0 {
            if into.capacity() > KEPT_EVENTS {
                *into = VecDeque::new();
            }
            let mut state = self.state.lock();
            std::mem::swap(&mut state.queue, into);
            self.count.store(0, SeqCst);
        }
    }

    /// Moves the events to the end of `into`, and returns how many of them are results of jobs. Other mail
    /// stays for [`ConnectionMailbox::collect`]. Takes no lock if nothing was posted.
    pub(crate) fn take_events(
        &self,
        into: &mut VecDeque<C::Event>,
        gates: &mut Vec<Arc<ReplyGate>>,
    ) -> usize {
        if self.count.load(SeqCst) == 0 {
            return 0;
        }
        let mut state = self.state.lock();
        let (mut done, mut fetched) = (0, None);
        while let Some(mail) = state.queue.pop_front() {
            match mail {
                Mail::Event(event) => into.push_back(event),
                Mail::Ahead(event, gate) => {
                    gates.push(gate);
                    into.push_back(event);
                }
                // The batch looks at the queue when it ends.
                Mail::Told => {}
                Mail::Done(event) => {
                    done += 1;
                    into.push_back(event);
                }
                // The conversation does not need it. There is never more than one.
                Mail::Fetched(_) => fetched = Some(mail),
                Mail::Lost | Mail::Overflow | Mail::CloseBacklog | Mail::Evict => {
                    state.queue.push_front(mail);
                    break;
                }
            }
        }
        if let Some(mail) = fetched {
            state.queue.push_front(mail);
        }
        self.count.store(state.queue.len(), SeqCst);
        done
    }

    /// The conversation leaves for the pool. Until it is back, mail does not wake the task.
    pub(crate) fn conversation_left(&self) {
        self.state.lock().away = true;
    }

    /// Brings the conversation back from the pool. Returns it if the connection is gone.
    pub(crate) fn bring_back(&self, trip: Box<OffloadedBatch<C>>) -> Result<(), Box<OffloadedBatch<C>>> {
        let mut state = self.state.lock();
        if state.gone {
            return Err(trip);
        }
        state.away = false;
        state.trip = Some(trip);
        self.back.store(true, SeqCst);
        self.wake_if_asleep(state);
        Ok(())
    }

    /// Takes the conversation that is back from the pool.
    pub(crate) fn take_back(&self) -> Option<Box<OffloadedBatch<C>>> {
        if !self.back.swap(false, SeqCst) {
            return None;
        }
        self.state.lock().trip.take()
    }

    /// Queues `mail`. Returns it if the connection is gone or about to be.
    pub(crate) fn send(&self, mail: Mail<C>) -> Result<(), Mail<C>> {
        let mut state = self.state.lock();
        if state.gone {
            return Err(mail);
        }
        if matches!(mail, Mail::Event(_) | Mail::Ahead(..))
            && state.queue.len() + self.held.load(SeqCst) >= MAX_EVENTS
        {
            if !std::mem::replace(&mut state.overflown, true) {
                state.queue.push_back(Mail::Overflow);
                self.arrived(state);
            }
            return Err(mail);
        }
        state.queue.push_back(mail);
        self.arrived(state);
        Ok(())
    }

    /// Handles the growth of the queue.
    fn arrived(&self, state: parking_lot::MutexGuard<'_, MailboxState<C>>) {
        self.count.store(state.queue.len(), SeqCst);
        if !state.away {
            self.wake_if_asleep(state);
        }
    }

    /// Wakes the task if it sleeps.
    pub(crate) fn wake(&self) {
        self.wake_if_asleep(self.state.lock());
    }

    fn wake_if_asleep(&self, state: parking_lot::MutexGuard<'_, MailboxState<C>>) {
        if self.asleep.swap(false, SeqCst)
            && let Some(waker) = state.waker.clone()
        {
            drop(state);
            waker.wake();
        }
    }

    /// Closes the mailbox, because the connection is gone. Returns everything that nobody has collected.
    pub(crate) fn close(&self) -> (VecDeque<Mail<C>>, Option<Box<OffloadedBatch<C>>>) {
        let mut state = self.state.lock();
        state.gone = true;
        state.waker = None;
        self.count.store(0, SeqCst);
        self.back.store(false, SeqCst);
        (std::mem::take(&mut state.queue), state.trip.take())
    }
}

impl<C: Conversation> BacklogHolder for ConnectionMailbox<C> {
    fn give_up(&self) {
        let _gone = self.send(Mail::CloseBacklog);
    }
}

impl<C: Conversation> Evictable for ConnectionMailbox<C> {
    fn evict(&self) {
        let _gone = self.send(Mail::Evict);
    }
}

impl<C: Conversation> Mailbox<C::Event> for ConnectionMailbox<C> {
    fn post(&self, event: C::Event) -> bool {
        self.send(Mail::Event(event)).is_ok()
    }

    fn post_ahead(&self, event: C::Event) -> bool {
        let mail = match delivery_order::gate() {
            Some(gate) => Mail::Ahead(event, gate),
            None => Mail::Event(event),
        };
        self.send(mail).is_ok()
    }

    fn post_behind(self: Arc<Self>, event: C::Event) {
        let sender = Arc::as_ptr(&self).addr();
        delivery_order::after_replies(sender, move || {
            let _gone = self.send(Mail::Event(event));
        });
    }
}

impl<C: Conversation> WaitingSender for ConnectionMailbox<C> {
    fn release(&self) {
        let _gone = self.send(Mail::Told);
    }
}

/// The right of a job to deliver one result. If the ticket is dropped without one, the connection learns that
/// none will come.
pub(crate) struct Ticket<C: Conversation>(Option<Arc<ConnectionMailbox<C>>>);

impl<C: Conversation> Ticket<C> {
    pub(crate) fn new(post: &Arc<ConnectionMailbox<C>>) -> Ticket<C> {
        Ticket(Some(Arc::clone(post)))
    }

    /// Delivers the result of the job. It is dropped if the connection is gone.
    pub(crate) fn done(self, event: C::Event) {
        self.deliver(Mail::Done(event));
    }

    /// Delivers the bytes that were read from a file.
    pub(crate) fn fetched(self, bytes: Frame) {
        self.deliver(Mail::Fetched(bytes));
    }

    fn deliver(mut self, mail: Mail<C>) {
        if let Some(post) = self.0.take() {
            let _gone = post.send(mail);
        }
    }
}

impl<C: Conversation> Drop for Ticket<C> {
    fn drop(&mut self) {
        if let Some(post) = self.0.take() {
            let _gone = post.send(Mail::Lost);
        }
    }
}
