//! The disk below the server. Its calls fail, are half done, or take long, as the dice decide.
//!
//! The disk has its own dice, so a seed with a sound disk always has the same history.

use std::sync::Arc;
use std::time::Duration;

use smb_wire::NtStatus;
use volume::Failure;
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};

use super::log;
use testkit::dice::Dice;

/// The faults beside those of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    Nothing,
    Disk,
    /// The disk fails, and the server is killed.
    DiskAndKills,
}

/// Calls that fail, with their weights. Those of the second list also fail for lack of space.
const READING: [(VolumeCall, usize); 8] = [
    (VolumeCall::Read, 4),
    (VolumeCall::ReadCached, 3),
    (VolumeCall::Stat, 2),
    (VolumeCall::Lookup, 3),
    (VolumeCall::OpenAgain, 2),
    (VolumeCall::Note, 1),
    (VolumeCall::Remove, 3),
    (VolumeCall::CheckRemoval, 1),
];
const WRITING: [(VolumeCall, usize); 7] = [
    (VolumeCall::Write, 10),
    (VolumeCall::Sync, 3),
    (VolumeCall::Resize, 3),
    (VolumeCall::Create, 4),
    (VolumeCall::Rename, 2),
    (VolumeCall::SetAttributes, 1),
    (VolumeCall::SetNote, 1),
];
/// The calls that need space.
const FILLING: [VolumeCall; 4] =
    [VolumeCall::Write, VolumeCall::Resize, VolumeCall::Create, VolumeCall::SetNote];

/// The durations of slow calls, in milliseconds.
const SLOW: [u64; 4] = [20, 300, 2000, 12_000];

/// The number of failed calls, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failed {
    pub io: u64,
    pub no_space: u64,
}

impl Failed {
    /// Whether any call has failed since `before`.
    pub fn any_since(self, before: Failed) -> bool {
        self != before
    }

    /// Whether a call has failed since `before` with a failure that causes this status.
    pub fn explains(self, before: Failed, status: NtStatus) -> bool {
        match status {
            NtStatus::IO_DEVICE_ERROR => self.io > before.io,
            NtStatus::DISK_FULL => self.no_space > before.no_space,
            _ => false,
        }
    }
}

/// Whether a failing disk can cause this status.
pub fn is_of_disk(status: NtStatus) -> bool {
    matches!(status, NtStatus::IO_DEVICE_ERROR | NtStatus::DISK_FULL)
}

/// The events of a history's disk. They show that the intended faults happen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub io: u64,
    pub no_space: u64,
    pub half: u64,
    pub slow: u64,
    /// Requests that got such a status.
    pub refused: u64,
}

impl Tally {
    fn parts(&mut self) -> [&mut u64; 5] {
        [&mut self.io, &mut self.no_space, &mut self.half, &mut self.slow, &mut self.refused]
    }

    /// Whether each of these events has happened.
    pub fn shows_all(mut self) -> bool {
        self.parts().into_iter().all(|part| *part > 0)
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, mut other: Tally) {
        self.parts().into_iter().zip(other.parts()).for_each(|(part, more)| *part += *more);
    }
}

/// The disk of a history.
pub struct Disk {
    dice: Dice,
    plan: Arc<FaultPlan>,
    /// The number of faults still to come, and their rarity: one in so many steps.
    left: usize,
    rarity: usize,
    is_full: bool,
    /// The duration of slow calls that has not passed yet.
    took: Duration,
    pub failed: Failed,
    pub tally: Tally,
}

impl Disk {
    pub fn new(seed: u64, trouble: DiskFault, plan: Arc<FaultPlan>) -> Disk {
        let mut dice = Dice::new(seed ^ 0x6469_736b);
        let (left, rarity) = (1 + dice.below(40), [5, 15, 40, 100][dice.below(4)]);
        let left = if trouble == DiskFault::Nothing { 0 } else { left };
        let (failed, tally) = (Failed::default(), Tally::default());
        Disk { dice, plan, left, rarity, is_full: false, took: Duration::ZERO, failed, tally }
    }

    /// Connects the disk to another server.
    pub fn serve(&mut self, plan: Arc<FaultPlan>) {
        self.plan = plan;
        self.set_full(self.is_full);
    }

    /// One step of the history. A fault may be set.
    pub fn step(&mut self) {
        if self.is_full && self.dice.chance(1, 50) {
            self.set_full(false);
        }
        if self.left == 0 || !self.dice.chance(1, self.rarity) {
            return;
        }
        self.left -= 1;
        if self.dice.chance(1, 12) {
            return self.set_full(true);
        }
        let weights: Vec<usize> = READING.iter().chain(&WRITING).map(|(_, weight)| *weight).collect();
        let at = self.dice.weighted(&weights);
        let (call, writes) = match READING.get(at) {
            Some((call, _)) => (*call, false),
            None => (WRITING[at - READING.len()].0, true),
        };
        let failure = if writes && self.dice.chance(1, 2) { Failure::NoSpace } else { Failure::Io };
        let fault = match self.dice.below(4) {
            0 => PlannedFault::Slow(Duration::from_millis(SLOW[self.dice.weighted(&[6, 6, 3, 1])])),
            1 if call == VolumeCall::Write => PlannedFault::Half(failure),
            _ => PlannedFault::Fail(failure),
        };
        self.plan.add(call, 1 + self.dice.below(2) as u64, fault);
    }

    fn set_full(&mut self, is_full: bool) {
        if self.is_full != is_full {
            log::line(|| format!("the disk {}", if is_full { "is full" } else { "has space again" }));
        }
        self.is_full = is_full;
        for call in FILLING {
            self.plan.always(call, is_full.then_some(Failure::NoSpace));
        }
    }

    /// Stops all failures.
    pub fn mend(&mut self) {
        self.left = 0;
        self.set_full(false);
        self.plan.forget();
        log::line(|| "the disk is sound".to_owned());
    }

    /// Takes in the faults that calls have met, and returns the time that they took.
    pub fn look(&mut self) -> Duration {
        self.see();
        std::mem::take(&mut self.took)
    }

    /// Takes in the faults that calls have met.
    pub fn see(&mut self) {
        for (call, fault) in self.plan.met() {
            log::line(|| format!("the disk: {call:?} meets {fault:?}"));
            match fault {
                PlannedFault::Fail(failure) | PlannedFault::Half(failure) => {
                    self.tally.half += u64::from(matches!(fault, PlannedFault::Half(_)));
                    let is_full = failure == Failure::NoSpace;
                    self.failed.io += u64::from(!is_full);
                    self.failed.no_space += u64::from(is_full);
                }
                PlannedFault::Slow(time) => {
                    self.tally.slow += 1;
                    self.took += time;
                }
                PlannedFault::Hold => unreachable!("nothing is held in a history"),
            }
        }
        (self.tally.io, self.tally.no_space) = (self.failed.io, self.failed.no_space);
    }

    /// Records a request that got a status of a failing disk.
    ///
    /// # Panics
    /// If no call has failed in that way since the request was first sent.
    pub fn refused(&mut self, before: Failed, status: NtStatus, what: &dyn std::fmt::Debug) {
        let explains = self.failed.explains(before, status);
        assert!(explains, "the disk did not fail: {status:?} to {what:?}; {before:?}, {:?}", self.failed);
        self.tally.refused += 1;
    }
}
