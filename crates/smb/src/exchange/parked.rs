//! The requests of one connection that are put aside, and how much memory they keep.

use std::collections::HashMap;
use std::sync::Arc;

use share::limits::Hold;
use share::{Share, Ticket};
use smb_wire::{Command, NtStatus};

use super::{Exchange, UnderWay};
use crate::state::brake::Queued;

/// What a request that is put aside waits for.
pub(crate) enum Parking {
    /// Until the engine wakes it. The ticket to take the wait back with.
    Engine(Arc<Share>, Ticket),
    /// Until it is its turn to log on.
    Turn(Queued),
    /// Until its work on the blocking pool is done, which cannot be taken back.
    Pool,
    /// Until the limits of its share let it pass. Its place there; given up when dropped.
    Limits(Hold),
    /// The same for the answer to what is done, which cannot be taken back: the status that goes with its body.
    Answer(NtStatus, Hold),
}

impl Parking {
    /// What holds it, if the limits of its share do.
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Parking::Limits(hold) | Parking::Answer(_, hold) => Some(hold),
            Parking::Engine(..) | Parking::Turn(_) | Parking::Pool => None,
        }
    }

    /// Whether a wake-up lets it go on.
    pub fn ends_by_wake(&self) -> bool {
        match self {
            Parking::Engine(..) | Parking::Turn(_) => true,
            Parking::Pool => false,
            Parking::Limits(hold) | Parking::Answer(_, hold) => hold.released().is_some(),
        }
    }

    /// Whether nothing of it has begun or is done that could not be taken back.
    pub fn can_be_taken_back(&self) -> bool {
        !matches!(self, Parking::Pool | Parking::Answer(..))
    }
}

/// A request that is put aside, with all that it belongs to.
pub(crate) struct Parked {
    pub exchange: Exchange<'static>,
    pub request: UnderWay,
    pub parking: Parking,
}

impl Parked {
    /// Whether others wait for what it does, and little is answered to it and nothing behind it.
    pub fn is_brief(&self) -> bool {
        let header = &self.request.header;
        let changes = matches!(header.command(), Command::Create | Command::Lock | Command::SetInfo);
        changes && self.parking.hold().is_none() && header.next_command() == 0
    }

    /// Bytes that it keeps, itself included.
    fn keeps(&self) -> usize {
        size_of::<Parked>() + self.exchange.rest.keeps() + self.exchange.compound.frame.held()
    }
}

/// All of one connection, by the async id of each.
#[derive(Default)]
pub(crate) struct ParkingLot {
    requests: HashMap<u64, (Parked, usize)>,
    bytes: usize,
    /// How many of them are held by limits.
    held: usize,
    /// How many wait for their turn to log on.
    log_ons: usize,
}

impl ParkingLot {
    /// Puts a request aside.
    pub fn insert(&mut self, async_id: u64, request: Parked) {
        let bytes = request.keeps();
        self.bytes += bytes;
        self.held += usize::from(request.parking.hold().is_some());
        self.log_ons += usize::from(matches!(request.parking, Parking::Turn(_)));
        self.requests.insert(async_id, (request, bytes));
    }

    /// Takes one out.
    pub fn remove(&mut self, async_id: u64) -> Option<Parked> {
        let (request, bytes) = self.requests.remove(&async_id)?;
        self.bytes -= bytes;
        self.held -= usize::from(request.parking.hold().is_some());
        self.log_ons -= usize::from(matches!(request.parking, Parking::Turn(_)));
        Some(request)
    }

    /// Takes one out if it is like that.
    pub fn remove_if(&mut self, async_id: u64, is_meant: impl Fn(&Parked) -> bool) -> Option<Parked> {
        self.get(async_id).filter(|request| is_meant(request))?;
        self.remove(async_id)
    }

    /// Takes all of them out.
    pub fn take_all(&mut self) -> impl Iterator<Item = (u64, Parked)> + use<> {
        let all = std::mem::take(self);
        all.requests.into_iter().map(|(async_id, (request, _))| (async_id, request))
    }

    /// One of them.
    pub fn get(&self, async_id: u64) -> Option<&Parked> {
        self.requests.get(&async_id).map(|(request, _)| request)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Parked)> {
        self.requests.iter().map(|(&async_id, (request, _))| (async_id, request))
    }

    /// Those that wait for their turn to log on: each with when it is to be looked at again, if it is the next of its user.
    pub fn log_ons(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        let all = if self.log_ons > 0 { Some(self.iter()) } else { None };
        all.into_iter().flatten().filter_map(|(async_id, request)| match &request.parking {
            Parking::Turn(place) => Some((async_id, place.at_ns)),
            _ => None,
        })
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// How many of them are not held by limits.
    pub fn waiting(&self) -> usize {
        self.requests.len() - self.held
    }

    /// Whether any waits for its turn to log on.
    pub fn has_log_ons(&self) -> bool {
        self.log_ons > 0
    }

    /// Bytes that they keep.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
