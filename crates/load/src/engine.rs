//! The measuring engine: workers that each do one operation after the other, and the records of them.
//!
//! A caller provides an [`Operation`] for each worker. [`MeasurementWindow`] decides which operations
//! count and when the measurement ends. [`Record`] has the results.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub use crate::measure::{Kind, MeasurementPhase, MeasurementWindow, Record, Tally};
use crate::pace::{Bound, Pacing};

/// The repeated work of a worker.
pub trait Operation {
    /// The reason why a worker cannot continue.
    type Error;

    /// The error for a failure of the host's timer while a worker waits for its planned start.
    fn waiting(why: io::Error) -> Self::Error;

    /// Runs the operation once.
    fn once(
        &mut self,
        phase: MeasurementPhase,
    ) -> impl Future<Output = Result<CompletedOperation, Self::Error>> + Send;
}

/// The result of one operation.
#[derive(Debug, Clone, Copy)]
pub struct CompletedOperation {
    /// The kind of the operation.
    pub kind: Kind,
    /// Bytes of data that it moved.
    pub bytes: u64,
    /// The start of the part that counts, if a step that does not count came before it.
    pub begun: Option<Instant>,
}

/// Runs one operation after the other until the window ends, or one fails.
pub(crate) async fn work<O: Operation>(
    operation: &mut O,
    window: &MeasurementWindow,
    pacing: Option<Pacing<'_>>,
    record: &Mutex<Record>,
) -> Result<(), O::Error> {
    // The end of one operation is the start of the next, unless the next has its own planned start.
    let mut begin = Instant::now();
    loop {
        if let Some(pacing) = &pacing {
            let Some(phase) = pacing.next(window).await.map_err(O::waiting)? else { return Ok(()) };
            begin = phase;
        }
        let phase = window.phase(begin);
        if phase == MeasurementPhase::Over {
            return Ok(());
        }
        let done = operation.once(phase).await?;
        let end = Instant::now();
        if let Some(at) = window.counted(phase, end) {
            let took: Duration = end - done.begun.unwrap_or(begin);
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.tally(done.kind).add(done.bytes, took, at);
            record.lasted = record.lasted.max(at);
        }
        begin = end;
    }
}

/// The workers of one measurement. They stop when it is dropped.
#[derive(Debug)]
pub struct WorkerGroup<E>(JoinSet<Result<(), E>>);

impl<E: Send + 'static> WorkerGroup<E> {
    /// Starts `depth` workers. `worker` makes each one from its number. Together they start at most this
    /// many operations a second.
    pub fn begin<O>(
        depth: u32,
        worker: impl Fn(u32) -> O,
        window: &Arc<MeasurementWindow>,
        most_per_s: Option<f64>,
        record: &Arc<Mutex<Record>>,
    ) -> WorkerGroup<E>
    where
        O: Operation<Error = E> + Send + 'static,
    {
        let bound = most_per_s.map(|most| Arc::new(Bound::new(most)));
        let mut workers = JoinSet::new();
        for number in 0..depth {
            let (mut operation, bound) = (worker(number), bound.clone());
            let (window, record) = (Arc::clone(window), Arc::clone(record));
            workers.spawn(async move {
                work(&mut operation, &window, bound.as_deref().map(Pacing::Bounded), &record).await
            });
        }
        WorkerGroup(workers)
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    /// The first error. The other workers are stopped then.
    ///
    /// # Panics
    /// If one of the workers panicked.
    pub async fn end(mut self) -> Result<(), E> {
        while let Some(done) = self.0.join_next().await {
            done.unwrap_or_else(|why| std::panic::resume_unwind(why.into_panic()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation that takes no time.
    struct Nothing;

    impl Operation for Nothing {
        type Error = io::Error;

        fn waiting(why: io::Error) -> io::Error {
            why
        }

        async fn once(&mut self, _phase: MeasurementPhase) -> io::Result<CompletedOperation> {
            Ok(CompletedOperation { kind: Kind::Metadata, bytes: 0, begun: None })
        }
    }

    #[tokio::test]
    async fn a_bounded_crew_begins_no_more_than_it_may_and_ends() {
        let begun = Instant::now();
        // The second planned start is long after the end.
        for (most_per_s, most) in [(20.0, 10), (0.01, 1)] {
            let window =
                Arc::new(MeasurementWindow::new(Duration::ZERO, Some(Duration::from_millis(500)), None));
            let record: Arc<Mutex<Record>> = Arc::default();
            window.begin(Instant::now());
            WorkerGroup::begin(3, |_| Nothing, &window, Some(most_per_s), &record).end().await.unwrap();
            let operations = record.lock().unwrap().operations();
            assert!((1..=most).contains(&operations), "{operations} at {most_per_s}/s");
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
