//! The places that lines go to.

/// A place that lines go to.
pub trait LineTarget: Send {
    /// Writes a part of whole lines, each with its end, of which `done` bytes are written already. Returns
    /// how many bytes are done then. It is less than before if a line must begin anew, in a new file. The
    /// caller calls again until all are done, also after an error.
    ///
    /// # Errors
    /// The error of the host. No more bytes are done.
    fn write(&mut self, lines: &[u8], done: usize) -> std::io::Result<usize>;

    /// Its name in messages.
    fn name(&self) -> String;
}

/// The beginning of the line in which the byte at `done` stands.
pub fn line_start(lines: &[u8], done: usize) -> usize {
    lines[..done].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}
