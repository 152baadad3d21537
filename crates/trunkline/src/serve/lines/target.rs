//! The places that lines go to.

/// A place that lines go to.
pub trait LineTarget: Send {
    /// Writes a part of whole lines, each with its end, and returns how many bytes of them are done. The
    /// caller calls again with the rest, also after an error.
    ///
    /// # Errors
    /// The error of the host. Nothing of these bytes is done.
    fn write(&mut self, lines: &[u8]) -> std::io::Result<usize>;

    /// Its name in messages.
    fn name(&self) -> String;
}
