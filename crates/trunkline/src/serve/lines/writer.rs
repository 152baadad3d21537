//! The thread that writes a stream's lines.
//!
//! It takes all lines that wait at once, so that a busy stream needs few calls of the host. A target that
//! takes nothing is tried again every second. Its lines stay in memory meanwhile, and further ones are lost
//! once the room is used up.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::target::{LineTarget, line_start};
use super::{GATHERED_BYTES, LineStream, Losses, held};

/// The time for which lines are gathered before they are written.
const GATHERED: Duration = Duration::from_millis(50);
/// The time after which a target that has failed is tried again.
const RETRIED_AFTER: Duration = Duration::from_secs(1);

/// Lines that are being written.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Bytes that the target has taken.
    done: usize,
    lines: u64,
}

/// Writes lines until the stream ends.
pub(super) fn run(
    stream: &LineStream,
    mut target: Box<dyn LineTarget>,
    tell_losses: Option<fn(&Losses, &mut Vec<u8>)>,
) {
    let (mut batch, mut told) = (Batch::default(), Losses::default());
    loop {
        let (next, ends) = take(stream, &mut batch, &mut told);
        if let Some(next) = next {
            target = next;
        }
        if told.count > 0
            && let Some(tell) = tell_losses
        {
            tell(&told, &mut batch.bytes);
            batch.lines += 1;
        }
        told = Losses::default();
        while batch.done < batch.bytes.len() {
            match target.write(&batch.bytes, batch.done) {
                Ok(done) => batch.done = done,
                // A line that is too long for a datagram never gets shorter.
                Err(why) if why.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => {
                    let rest = &batch.bytes[batch.done..];
                    batch.done += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
                    batch.lines = batch.lines.saturating_sub(1);
                    stream.numbers.lost.fetch_add(1, Ordering::Relaxed);
                }
                Err(why) => {
                    note_failure(stream, target.as_ref(), &why);
                    let Some(next) = pause(stream) else {
                        give_up(stream, &batch);
                        return;
                    };
                    if let Some(next) = next {
                        // The old target keeps the beginning of a line that it has not taken whole.
                        (target, batch.done) = (next, line_start(&batch.bytes, batch.done));
                    }
                }
            }
        }
        if batch.lines > 0 {
            stream.numbers.written.fetch_add(batch.lines, Ordering::Relaxed);
            note_success(stream, target.as_ref());
        }
        batch.bytes.clear();
        (batch.done, batch.lines) = (0, 0);
        if ends {
            return;
        }
    }
}

/// Waits for lines, gathers some, and takes all. Also returns a new target, and whether the stream ends.
fn take(stream: &LineStream, batch: &mut Batch, told: &mut Losses) -> (Option<Box<dyn LineTarget>>, bool) {
    let mut queued = held(&stream.queued);
    while queued.bytes.is_empty() && queued.next.is_none() && queued.lost.count == 0 && !queued.ends {
        queued = stream.has_work.wait(queued).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
    let until = Instant::now() + GATHERED;
    while queued.bytes.len() < GATHERED_BYTES.min(queued.room / 2) && !queued.ends {
        let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
            break;
        };
        let waited = stream.has_work.wait_timeout(queued, left);
        queued = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
    }
    // The empty memory of the last batch is filled next.
    std::mem::swap(&mut queued.bytes, &mut batch.bytes);
    batch.lines = std::mem::take(&mut queued.lines);
    *told = std::mem::take(&mut queued.lost);
    (queued.next.take(), queued.ends)
}

/// Waits until a target that has failed is tried again. None: the stream ends.
fn pause(stream: &LineStream) -> Option<Option<Box<dyn LineTarget>>> {
    let until = Instant::now() + RETRIED_AFTER;
    let mut queued = held(&stream.queued);
    loop {
        if queued.ends {
            return None;
        }
        if queued.next.is_some() {
            return Some(queued.next.take());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Some(None);
        }
        let waited = stream.has_work.wait_timeout(queued, left);
        queued = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
    }
}

fn note_failure(stream: &LineStream, target: &dyn LineTarget, why: &std::io::Error) {
    if !stream.numbers.is_failing.swap(true, Ordering::Relaxed) {
        let (what, to) = (stream.subject, target.name());
        tracing::warn!(
            "{what}: {to} cannot be written: {why}; it is tried every second, and what finds no room in \
             memory meanwhile is lost and counted"
        );
    }
}

fn note_success(stream: &LineStream, target: &dyn LineTarget) {
    if stream.numbers.is_failing.swap(false, Ordering::Relaxed) {
        let (what, to, lost) = (stream.subject, target.name(), stream.lost());
        tracing::info!(lost, "{what}: {to} is written again");
    }
}

/// Counts the lines that the target has not taken when the stream ends.
fn give_up(stream: &LineStream, batch: &Batch) {
    let written = count_lines(&batch.bytes[..batch.done]);
    let queued = std::mem::take(&mut held(&stream.queued).lines);
    let lost = batch.lines.saturating_sub(written) + queued;
    stream.numbers.written.fetch_add(written, Ordering::Relaxed);
    stream.numbers.lost.fetch_add(lost, Ordering::Relaxed);
    let what = stream.subject;
    tracing::warn!(lost, "{what}: lines are lost, since the server ends and they could not be written");
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
