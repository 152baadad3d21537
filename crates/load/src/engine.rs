//! The measuring engine: workers, each of which does one operation after the other, and what is counted of them.
//!
//! Whoever measures brings an [`Operation`] for each worker. [`Course`] says when one counts and when all is over, and [`Record`] is
//! what came of them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub use crate::measure::{Course, Kind, Record, Tally, Turn};
use crate::pace::{Bound, Pacing};

/// What a worker does again and again.
pub trait Operation {
    /// Why it cannot go on.
    type Error;

    /// What it means for the worker that the host's timer fails while it waits for its turn.
    fn waiting(why: io::Error) -> Self::Error;

    /// Does it once.
    fn once(&mut self, turn: Turn) -> impl Future<Output = Result<Done, Self::Error>> + Send;
}

/// What came of one operation.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// What it was.
    pub kind: Kind,
    /// Bytes of data that it moved.
    pub bytes: u64,
    /// When it began, where something that does not count had to be done before.
    pub begun: Option<Instant>,
}

/// Does one operation after the other until the course is over, or one fails.
pub(crate) async fn work<O: Operation>(
    operation: &mut O,
    course: &Course,
    pacing: Option<Pacing<'_>>,
    record: &Mutex<Record>,
) -> Result<(), O::Error> {
    // The end of one operation is the begin of the next, unless it has a time of its own.
    let mut begin = Instant::now();
    loop {
        if let Some(pacing) = &pacing {
            let Some(turn) = pacing.next(course).await.map_err(O::waiting)? else { return Ok(()) };
            begin = turn;
        }
        let turn = course.turn(begin);
        if turn == Turn::Over {
            return Ok(());
        }
        let done = operation.once(turn).await?;
        let end = Instant::now();
        if let Some(at) = course.counted(turn, end) {
            let took: Duration = end - done.begun.unwrap_or(begin);
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.tally(done.kind).add(done.bytes, took, at);
            record.lasted = record.lasted.max(at);
        }
        begin = end;
    }
}

/// Workers of one course that end with what they do.
#[derive(Debug)]
pub struct Crew<E>(JoinSet<Result<(), E>>);

impl<E: Send + 'static> Crew<E> {
    /// Has `depth` workers work, each as `worker` makes it with its number. Together they begin so many operations in a second at
    /// most.
    pub fn begin<O>(
        depth: u32,
        worker: impl Fn(u32) -> O,
        course: &Arc<Course>,
        most_per_s: Option<f64>,
        record: &Arc<Mutex<Record>>,
    ) -> Crew<E>
    where
        O: Operation<Error = E> + Send + 'static,
    {
        let bound = most_per_s.map(|most| Arc::new(Bound::new(most)));
        let mut workers = JoinSet::new();
        for number in 0..depth {
            let (mut operation, bound) = (worker(number), bound.clone());
            let (course, record) = (Arc::clone(course), Arc::clone(record));
            workers.spawn(async move {
                work(&mut operation, &course, bound.as_deref().map(Pacing::Bounded), &record).await
            });
        }
        Crew(workers)
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// What went wrong first; the others are given up then.
    ///
    /// # Panics
    /// When one of them did.
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

    /// Takes no time.
    struct Nothing;

    impl Operation for Nothing {
        type Error = io::Error;

        fn waiting(why: io::Error) -> io::Error {
            why
        }

        async fn once(&mut self, _turn: Turn) -> io::Result<Done> {
            Ok(Done { kind: Kind::Metadata, bytes: 0, begun: None })
        }
    }

    #[tokio::test]
    async fn a_bounded_crew_begins_no_more_than_it_may_and_ends() {
        let begun = Instant::now();
        // The next turn behind the first one comes long after the end.
        for (most_per_s, most) in [(20.0, 10), (0.01, 1)] {
            let course = Arc::new(Course::new(Duration::ZERO, Some(Duration::from_millis(500)), None));
            let record: Arc<Mutex<Record>> = Arc::default();
            course.begin(Instant::now());
            Crew::begin(3, |_| Nothing, &course, Some(most_per_s), &record).end().await.unwrap();
            let operations = record.lock().unwrap().operations();
            assert!((1..=most).contains(&operations), "{operations} at {most_per_s}/s");
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
