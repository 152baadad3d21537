//! Context handles of a pipe.

use super::fault::Fault;

/// The most context handles of one pipe.
const MAX_HANDLES: usize = 64;

/// Context handles: 20 bytes that a client gets and sends back.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: Vec<u64>,
    last: u64,
}

/// A context handle on the wire.
pub(super) type Handle = [u8; 20];

impl Handles {
    /// A handle that no client gets.
    pub(super) const NONE: Handle = [0; 20];

    /// Opens a new handle. Returns `None` if there are too many.
    pub(super) fn open(&mut self) -> Option<Handle> {
        if self.open.len() >= MAX_HANDLES {
            return None;
        }
        self.last += 1;
        self.open.push(self.last);
        let mut handle = Self::NONE;
        handle[4..12].copy_from_slice(&self.last.to_le_bytes());
        Some(handle)
    }

    /// Checks a handle from a client.
    ///
    /// # Errors
    /// [`Fault::CONTEXT_MISMATCH`] if it is not open.
    pub(super) fn check(&self, handle: &Handle) -> Result<(), Fault> {
        self.index_of(handle).map(|_| ())
    }

    /// Closes a handle.
    ///
    /// # Errors
    /// [`Fault::CONTEXT_MISMATCH`] if it is not open.
    pub(super) fn close(&mut self, handle: &Handle) -> Result<(), Fault> {
        let index_of = self.index_of(handle)?;
        self.open.swap_remove(index_of);
        Ok(())
    }

    fn index_of(&self, handle: &Handle) -> Result<usize, Fault> {
        let found = self.open.iter().position(|number| {
            handle[..4] == [0; 4] && handle[4..12] == number.to_le_bytes() && handle[12..] == [0; 8]
        });
        found.ok_or(Fault::CONTEXT_MISMATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_known_until_they_are_closed() {
        let mut handles = Handles::default();
        let all: Vec<Handle> = std::iter::from_fn(|| handles.open()).collect();
        assert_eq!(all.len(), MAX_HANDLES);
        assert_eq!(handles.close(&all[3]), Ok(()));
        assert_eq!(handles.check(&all[3]), Err(Fault::CONTEXT_MISMATCH));
        assert_eq!(handles.close(&Handles::NONE), Err(Fault::CONTEXT_MISMATCH));
        assert!(handles.check(&all[4]).is_ok() && handles.open().is_some());
    }
}
