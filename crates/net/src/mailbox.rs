//! The way into a connection from any thread: a queue, and a wake-up only when the connection sleeps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Waker;

use parking_lot::Mutex;
use wire::Frame;
use wire::endpoint::{Conversation, Mailbox};

use crate::backlog::Debtor;
use crate::behind::{self, Asker, Gate};
use crate::crowd::Seated;
use crate::turn::Trip;

/// Events that may wait for one connection; one more and it is given up, since it does not keep up.
const MAX_EVENTS: usize = 64 * 1024;

/// A queue that once grew beyond this gives its memory back when it is empty.
const KEPT_EVENTS: usize = 256;

/// What arrives, besides the conversation itself.
pub(crate) enum Mail<C: Conversation> {
    /// Posted by anyone.
    Event(C::Event),
    /// The same; others' answers wait until what comes of it is sent.
    Ahead(C::Event, Arc<Gate>),
    /// The notices that this connection's answers have waited for are sent.
    Told,
    /// The result of a job.
    Done(C::Event),
    /// The bytes of a piece of a file that could not be sent from there.
    Fetched(Frame),
    /// A job ended without a result: the connection ends.
    Lost,
    /// More events came than are kept: the connection ends.
    Overflow,
    /// All connections hold too much, and this one most: it ends.
    GiveUp,
    /// Another needs its place: it ends.
    MakeWay,
}

/// One connection's mailbox.
pub(crate) struct Post<C: Conversation> {
    /// The connection's task waits for its waker.
    asleep: AtomicBool,
    /// Length of the queue, to look at without the lock.
    count: AtomicUsize,
    /// The conversation is back from the pool.
    back: AtomicBool,
    /// Events that the connection has collected and not yet taken in.
    held: AtomicUsize,
    inner: Mutex<Inner<C>>,
}

struct Inner<C: Conversation> {
    queue: VecDeque<Mail<C>>,
    /// The conversation is on the pool, and its turn there takes what is posted.
    away: bool,
    trip: Option<Box<Trip<C>>>,
    waker: Option<Waker>,
    gone: bool,
    overflown: bool,
}

impl<C: Conversation> Post<C> {
    pub(crate) fn new() -> Arc<Post<C>> {
        Arc::new(Post {
            asleep: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            back: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            inner: Mutex::new(Inner {
                queue: VecDeque::new(),
                away: false,
                trip: None,
                waker: None,
                gone: false,
                overflown: false,
            }),
        })
    }

    /// Names the task to wake; once for each task that serves the connection.
    pub(crate) fn attach(&self, waker: &Waker) {
        self.inner.lock().waker = Some(waker.clone());
    }

    /// The task runs: no wake-ups are needed until it sleeps.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, SeqCst);
    }

    /// The task is about to sleep, with the conversation at home or `away`. False when something has
    /// arrived meanwhile: mail, or, as long as it is away, the conversation itself.
    pub(crate) fn sleep(&self, away: bool) -> bool {
        self.asleep.store(true, SeqCst);
        let arrived = if away { self.back.load(SeqCst) } else { self.count.load(SeqCst) > 0 };
        if !arrived {
            return true;
        }
        // Either a sender has cleared the mark and woken us (one needless turn), or nobody has.
        self.asleep.store(false, SeqCst);
        false
    }

    /// Says how many collected events wait, since those count against the bound too.
    pub(crate) fn hold(&self, events: usize) {
        if self.held.load(SeqCst) != events {
            self.held.store(events, SeqCst);
        }
    }

    /// Moves what has arrived into `into`, which is empty.
    pub(crate) fn collect(&self, into: &mut VecDeque<Mail<C>>) {
        if self.count.load(SeqCst) > 0 {
            if into.capacity() > KEPT_EVENTS {
                *into = VecDeque::new();
            }
            let mut inner = self.inner.lock();
            std::mem::swap(&mut inner.queue, into);
            self.count.store(0, SeqCst);
        }
    }

    /// Moves the events that have arrived to the end of `into`, and says how many of them are results of
    /// jobs. What is not for the conversation stays for [`Post::collect`]. Takes no lock while nothing was posted.
    pub(crate) fn take_events(&self, into: &mut VecDeque<C::Event>, gates: &mut Vec<Arc<Gate>>) -> usize {
        if self.count.load(SeqCst) == 0 {
            return 0;
        }
        let mut inner = self.inner.lock();
        let (mut done, mut fetched) = (0, None);
        while let Some(mail) = inner.queue.pop_front() {
            match mail {
                Mail::Event(event) => into.push_back(event),
                Mail::Ahead(event, gate) => {
                    gates.push(gate);
                    into.push_back(event);
                }
                // The turn looks at the queue when it ends.
                Mail::Told => {}
                Mail::Done(event) => {
                    done += 1;
                    into.push_back(event);
                }
                // Of no concern to the conversation; there is never more than one.
                Mail::Fetched(_) => fetched = Some(mail),
                Mail::Lost | Mail::Overflow | Mail::GiveUp | Mail::MakeWay => {
                    inner.queue.push_front(mail);
                    break;
                }
            }
        }
        if let Some(mail) = fetched {
            inner.queue.push_front(mail);
        }
        self.count.store(inner.queue.len(), SeqCst);
        done
    }

    /// The conversation leaves for the pool: until it is back, mail is no reason to wake the task.
    pub(crate) fn depart(&self) {
        self.inner.lock().away = true;
    }

    /// The conversation comes back from the pool; handed back when the connection is gone.
    pub(crate) fn bring_back(&self, trip: Box<Trip<C>>) -> Result<(), Box<Trip<C>>> {
        let mut inner = self.inner.lock();
        if inner.gone {
            return Err(trip);
        }
        inner.away = false;
        inner.trip = Some(trip);
        self.back.store(true, SeqCst);
        self.ring(inner);
        Ok(())
    }

    /// What has come back from the pool.
    pub(crate) fn take_back(&self) -> Option<Box<Trip<C>>> {
        if !self.back.swap(false, SeqCst) {
            return None;
        }
        self.inner.lock().trip.take()
    }

    /// Queues `mail`, or hands it back when the connection is gone or about to be.
    pub(crate) fn send(&self, mail: Mail<C>) -> Result<(), Mail<C>> {
        let mut inner = self.inner.lock();
        if inner.gone {
            return Err(mail);
        }
        if matches!(mail, Mail::Event(_) | Mail::Ahead(..))
            && inner.queue.len() + self.held.load(SeqCst) >= MAX_EVENTS
        {
            if !std::mem::replace(&mut inner.overflown, true) {
                inner.queue.push_back(Mail::Overflow);
                self.arrived(inner);
            }
            return Err(mail);
        }
        inner.queue.push_back(mail);
        self.arrived(inner);
        Ok(())
    }

    /// The queue has grown.
    fn arrived(&self, inner: parking_lot::MutexGuard<'_, Inner<C>>) {
        self.count.store(inner.queue.len(), SeqCst);
        if !inner.away {
            self.ring(inner);
        }
    }

    /// Wakes the task when it sleeps.
    pub(crate) fn wake(&self) {
        self.ring(self.inner.lock());
    }

    fn ring(&self, inner: parking_lot::MutexGuard<'_, Inner<C>>) {
        if self.asleep.swap(false, SeqCst)
            && let Some(waker) = inner.waker.clone()
        {
            drop(inner);
            waker.wake();
        }
    }

    /// The connection is gone: nothing is taken any more. Returns what nobody collected.
    pub(crate) fn close(&self) -> (VecDeque<Mail<C>>, Option<Box<Trip<C>>>) {
        let mut inner = self.inner.lock();
        inner.gone = true;
        inner.waker = None;
        self.count.store(0, SeqCst);
        self.back.store(false, SeqCst);
        (std::mem::take(&mut inner.queue), inner.trip.take())
    }
}

impl<C: Conversation> Debtor for Post<C> {
    fn give_up(&self) {
        let _gone = self.send(Mail::GiveUp);
    }
}

impl<C: Conversation> Seated for Post<C> {
    fn make_way(&self) {
        let _gone = self.send(Mail::MakeWay);
    }
}

impl<C: Conversation> Mailbox<C::Event> for Post<C> {
    fn post(&self, event: C::Event) -> bool {
        self.send(Mail::Event(event)).is_ok()
    }

    fn post_ahead(&self, event: C::Event) -> bool {
        let mail = match behind::gate() {
            Some(gate) => Mail::Ahead(event, gate),
            None => Mail::Event(event),
        };
        self.send(mail).is_ok()
    }
}

impl<C: Conversation> Asker for Post<C> {
    fn go_on(&self) {
        let _gone = self.send(Mail::Told);
    }
}

/// Held by a job: without a result the connection learns that none will come.
pub(crate) struct Ticket<C: Conversation>(Option<Arc<Post<C>>>);

impl<C: Conversation> Ticket<C> {
    pub(crate) fn new(post: &Arc<Post<C>>) -> Ticket<C> {
        Ticket(Some(Arc::clone(post)))
    }

    /// Hands the job's result over; it is dropped when the connection is gone.
    pub(crate) fn done(self, event: C::Event) {
        self.deliver(Mail::Done(event));
    }

    /// Hands over what was read from a file.
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
