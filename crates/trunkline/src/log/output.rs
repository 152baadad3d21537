//! The end of the log: standard error, whoever reads it.
//!
//! The reader may be a pager that waits, a container's log driver that hangs, or a full disk. No request and
//! no end of the server waits for it. A line that it does not take within a moment is left out, and the next
//! line that it takes says how many are missing.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::values::LogFormat;

/// The longest wait for a reader that took the line before.
const PATIENCE: Duration = Duration::from_millis(100);

/// Bytes that a pipe takes without a wait if it takes any (pipe(7), PIPE_BUF).
const CHUNK: usize = 4096;

/// Lines of a log on a descriptor. No write to it fails, and none waits longer than [`PATIENCE`].
pub struct LogOutput {
    file: File,
    format: LogFormat,
    /// Lines that the reader did not take, since the last one that it took.
    missing: u64,
    /// Whether the reader did not take the last line.
    is_stalled: bool,
}

impl LogOutput {
    /// The output to standard error.
    ///
    /// # Errors
    /// The host's: the process has no descriptor left.
    pub fn of_stderr(format: LogFormat) -> io::Result<LogOutput> {
        Ok(LogOutput::new(File::from(io::stderr().as_fd().try_clone_to_owned()?), format))
    }

    fn new(file: File, format: LogFormat) -> LogOutput {
        LogOutput { file, format, missing: 0, is_stalled: false }
    }

    /// Writes a whole line. Returns whether the reader took it.
    fn take(&mut self, line: &[u8]) -> bool {
        let mut rest = line;
        while !rest.is_empty() && self.is_ready() {
            match self.file.write(&rest[..rest.len().min(CHUNK)]) {
                Ok(0) => return false,
                Ok(written) => rest = &rest[written..],
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
        }
        rest.is_empty()
    }

    /// Whether a write does not wait. A descriptor with an error counts too: the write tells it.
    fn is_ready(&mut self) -> bool {
        let patience = if self.is_stalled { Duration::ZERO } else { PATIENCE };
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        let mut polled = [PollFd::new(&self.file, PollFlags::OUT)];
        self.is_stalled = matches!(poll(&mut polled, Some(&timeout)), Ok(0));
        !self.is_stalled
    }

    /// The line about missing lines.
    fn gap(&self) -> String {
        let (what, lines) = ("lines of the log are missing before this one", self.missing);
        match self.format {
            LogFormat::Text => format!(" WARN trunkline::log: {what} lines={lines}\n"),
            LogFormat::Json => {
                let of = r#""level":"WARN","target":"trunkline::log""#;
                format!("{{{of},\"message\":\"{what}\",\"lines\":{lines}}}\n")
            }
        }
    }
}

impl Write for LogOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_taken = match self.missing {
            0 => self.take(line),
            _ => self.take(&[self.gap().as_bytes(), line].concat()),
        };
        self.missing = if is_taken { 0 } else { self.missing + 1 };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_reader_that_waits_holds_nobody_up_and_learns_what_it_lacks() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, CHUNK).unwrap();
        let mut output = LogOutput::new(File::from(std::os::fd::OwnedFd::from(writer)), LogFormat::Text);
        let begun = Instant::now();
        for number in 0..1000 {
            output.write_all(format!("{number:0100}\n").as_bytes()).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let missing = output.missing;
        assert!(missing >= 900, "{missing}");
        let mut taken = vec![0; 101 * (1000 - usize::try_from(missing).unwrap())];
        reader.read_exact(&mut taken).unwrap();
        output.write_all(b"next\n").unwrap();
        drop(output);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(
            rest,
            format!(
                " WARN trunkline::log: lines of the log are missing before this one lines={missing}\nnext\n"
            )
        );
    }

    #[test]
    fn an_output_that_is_full_or_gone_is_no_error() {
        let (_, closed) = io::pipe().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        for file in [File::from(std::os::fd::OwnedFd::from(closed)), full] {
            let mut output = LogOutput::new(file, LogFormat::Json);
            output.write_all(b"one\n").unwrap();
            output.write_all(b"two\n").unwrap();
            assert_eq!(output.missing, 2);
        }
    }
}
