//! The thread that keeps the record of connections up to date.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::record::{RECORD_NAME, write_record};
use crate::live_connections::LiveConnections;

/// The least time between two writes.
const PAUSE: Duration = Duration::from_secs(1);

/// Records live connections in a directory until it is dropped: after a change at once, and at most once a
/// second.
#[derive(Debug)]
pub struct ConnectionRecorder {
    live: Arc<LiveConnections>,
    thread: Option<JoinHandle<()>>,
}

impl ConnectionRecorder {
    /// Starts to record. Only one recorder may run for each [`LiveConnections`].
    ///
    /// The first record is written before this returns. So an owner without connections leaves no record of
    /// the one before, which was read earlier.
    ///
    /// # Errors
    /// The first record cannot be written, or the host has no thread left.
    pub fn start(directory: &Path, live: Arc<LiveConnections>) -> io::Result<ConnectionRecorder> {
        let changes = live.changes();
        write_record(directory, &live.list())?;
        let run = RecordingLoop { directory: directory.to_owned(), live: Arc::clone(&live), changes };
        let builder = std::thread::Builder::new().name("trunkline-record".to_owned());
        let thread = builder.spawn(move || run.run())?;
        Ok(ConnectionRecorder { live, thread: Some(thread) })
    }
}

/// Ends the thread. The last record stays, so that the next owner finds the connections that this one leaves:
/// drop the recorder before the connections are closed. This waits for a write that is under way, which a
/// file system that hangs may not end.
impl Drop for ConnectionRecorder {
    fn drop(&mut self) {
        self.live.stop();
        if let Some(thread) = self.thread.take() {
            // It holds nothing that anybody needs, however it ended.
            let _ended = thread.join();
        }
    }
}

struct RecordingLoop {
    directory: PathBuf,
    live: Arc<LiveConnections>,
    /// The number of changes that are in the record.
    changes: u64,
}

impl RecordingLoop {
    fn run(mut self) {
        let mut is_failing = false;
        let mut wrote_at = Instant::now();
        loop {
            let is_stopped = self.live.wait(self.changes, wrote_at + PAUSE);
            let changes = self.live.changes();
            if changes != self.changes {
                let written = write_record(&self.directory, &self.live.list());
                wrote_at = Instant::now();
                match written {
                    Ok(()) => (self.changes, is_failing) = (changes, false),
                    Err(error) if !std::mem::replace(&mut is_failing, true) => self.complain(&error),
                    Err(_) => {}
                }
            }
            if is_stopped {
                return;
            }
        }
    }

    fn complain(&self, error: &io::Error) {
        let path = self.directory.join(RECORD_NAME);
        tracing::warn!(
            path = %path.display(),
            %error,
            "the connections cannot be recorded; after a failure of this machine their clients may take \
             longer to connect again"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floating_address::read_record;

    #[test]
    fn the_last_change_is_recorded_when_it_ends_and_the_end_of_connections_afterwards_is_not() {
        let path = std::env::temp_dir().join(format!("trunkline-recorder-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        let live = LiveConnections::new([[10, 77, 0, 50].into()]);
        let recorder = ConnectionRecorder::start(&path, Arc::clone(&live)).expect("a thread");
        assert_eq!(read_record(&path).expect("readable"), Some(Vec::new()));
        let server = "10.77.0.50:445".parse().expect("an address");
        let clients: Vec<_> =
            ["10.77.0.9:1", "10.77.0.9:2"].map(|client| client.parse().expect("an address")).into();
        let entries: Vec<_> =
            clients.iter().map(|client| live.enter(*client, server).expect("recorded")).collect();
        drop(recorder);
        let expected: Vec<_> = clients.into_iter().map(|client| (client, server)).collect();
        assert_eq!(read_record(&path).expect("readable"), Some(expected.clone()));
        drop(entries);
        assert_eq!(read_record(&path).expect("readable"), Some(expected));
        std::fs::remove_dir_all(path).expect("removed");
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_at_the_start() {
        let live = LiveConnections::new([]);
        assert!(ConnectionRecorder::start(Path::new("/nonexistent/state"), live).is_err());
    }
}
