//! The requests of one connection that are put aside, and the memory that they keep.

use std::collections::HashMap;
use std::sync::Arc;

use share::limits::Hold;
use share::{Share, Ticket};
use smb_wire::{NtStatus, SmbCommand};

use super::{Exchange, RequestState};
use crate::connection::setup::LogOnJob;
use crate::state::password_delay::QueuedAttempt;

/// The event that a put-aside request waits for.
pub(crate) enum Parking {
    /// A wake-up by the engine. The ticket cancels the wait.
    Engine(Arc<Share>, Ticket),
    /// The end of the delay of a log-on.
    LogOnDelay(QueuedAttempt),
    /// The judgment of a log-on's token on the blocking pool, which cannot be cancelled.
    LogOn,
    /// The search for a home on the blocking pool, which cannot be cancelled.
    Home,
    /// The end of its work on the blocking pool, which cannot be cancelled.
    Pool,
    /// The limits of its share. The drop of the hold cancels the wait.
    Limits(Hold),
    /// The limits of its share, for the reply to a request that was carried out. It cannot be cancelled. The
    /// status belongs to its body.
    Answer(NtStatus, Hold),
}

impl Parking {
    /// The hold of the share's limits, if they delay the request.
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Parking::Limits(hold) | Parking::Answer(_, hold) => Some(hold),
            Parking::Engine(..) | Parking::LogOnDelay(_) | Parking::LogOn | Parking::Home | Parking::Pool => {
                None
            }
        }
    }

    /// Whether a wake-up resumes it.
    pub fn ends_by_wake(&self) -> bool {
        match self {
            Parking::Engine(..) | Parking::LogOnDelay(_) | Parking::LogOn | Parking::Home => true,
            Parking::Pool => false,
            Parking::Limits(hold) | Parking::Answer(_, hold) => hold.released().is_some(),
        }
    }

    /// Whether it can be cancelled: no part of it has begun or is done.
    pub fn can_be_taken_back(&self) -> bool {
        !matches!(self, Parking::LogOn | Parking::Home | Parking::Pool | Parking::Answer(..))
    }

    /// Whether the request is a log-on.
    fn is_log_on(&self) -> bool {
        matches!(self, Parking::LogOnDelay(_) | Parking::LogOn)
    }
}

/// A request that is put aside, with its exchange.
pub(crate) struct Parked {
    pub exchange: Exchange<'static>,
    pub request: RequestState,
    pub parking: Parking,
}

impl Parked {
    /// Whether a wake-up resumes it now.
    pub fn ends_by_wake(&self) -> bool {
        let job = self.request.log_on_job.as_ref();
        self.parking.ends_by_wake() && job.is_none_or(LogOnJob::has_ended)
    }

    /// Whether it is a short request that others may wait for, with no request after it in its frame.
    pub fn is_brief(&self) -> bool {
        let header = &self.request.header;
        let changes = matches!(header.command(), SmbCommand::Create | SmbCommand::Lock | SmbCommand::SetInfo);
        changes && self.parking.hold().is_none() && header.next_command() == 0
    }

    /// Bytes that it keeps, including itself.
    fn keeps(&self) -> usize {
        size_of::<Parked>() + self.exchange.remaining.keeps() + self.exchange.compound.frame.held()
    }
}

/// All put-aside requests of one connection, by async id.
#[derive(Default)]
pub(crate) struct ParkingLot {
    requests: HashMap<u64, (Parked, usize)>,
    bytes: usize,
    /// The number of requests that limits delay.
    held: usize,
    /// The number of delayed log-ons and of those on the blocking pool.
    log_ons: usize,
}

impl ParkingLot {
    /// Puts a request aside.
    pub fn insert(&mut self, async_id: u64, request: Parked) {
        let bytes = request.keeps();
        self.bytes += bytes;
        self.held += usize::from(request.parking.hold().is_some());
        self.log_ons += usize::from(request.parking.is_log_on());
        self.requests.insert(async_id, (request, bytes));
    }

    /// Removes a request.
    pub fn remove(&mut self, async_id: u64) -> Option<Parked> {
        let (request, bytes) = self.requests.remove(&async_id)?;
        self.bytes -= bytes;
        self.held -= usize::from(request.parking.hold().is_some());
        self.log_ons -= usize::from(request.parking.is_log_on());
        Some(request)
    }

    /// Removes a request if it meets the condition.
    pub fn remove_if(&mut self, async_id: u64, is_meant: impl Fn(&Parked) -> bool) -> Option<Parked> {
        self.get(async_id).filter(|request| is_meant(request))?;
        self.remove(async_id)
    }

    /// Removes all requests.
    pub fn take_all(&mut self) -> impl Iterator<Item = (u64, Parked)> + use<> {
        let all = std::mem::take(self);
        all.requests.into_iter().map(|(async_id, (request, _))| (async_id, request))
    }

    /// The request with this async id.
    pub fn get(&self, async_id: u64) -> Option<&Parked> {
        self.requests.get(&async_id).map(|(request, _)| request)
    }

    /// All requests.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Parked)> {
        self.requests.iter().map(|(&async_id, (request, _))| (async_id, request))
    }

    /// The delayed log-ons, each with the time of its next attempt if it is the next one of its user.
    pub fn log_ons(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        let all = if self.log_ons > 0 { Some(self.iter()) } else { None };
        all.into_iter().flatten().filter_map(|(async_id, request)| match &request.parking {
            Parking::LogOnDelay(queued) => Some((async_id, queued.at_ns)),
            _ => None,
        })
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// The number of requests that limits do not delay.
    pub fn waiting(&self) -> usize {
        self.requests.len() - self.held
    }

    /// Whether there is a delayed log-on or one on the blocking pool.
    pub fn has_log_ons(&self) -> bool {
        self.log_ons > 0
    }

    /// Bytes that the requests keep.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
