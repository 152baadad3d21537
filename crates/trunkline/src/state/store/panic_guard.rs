//! Protection against a damaged database: it is opened as a copy in memory first, and a panic of the library
//! that reads it becomes an error.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};

use parking_lot::RwLock;
use redb::StorageBackend;

use super::StoreError;

thread_local! {
    /// Whether a panic of this thread will become an error.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `what`. A panic in it becomes the error that the database is damaged, and is not printed to the
/// terminal.
pub fn guarded<T>(what: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
    let was = IS_GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(what));
    IS_GUARDED.set(was);
    done.unwrap_or_else(|panic| Err(StoreError::damaged(&panic_text(&*panic))))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").lines().next().unwrap_or_default().to_owned()
}

/// A copy of the database in memory. It never becomes much larger than the file, whatever a damaged length
/// says.
///
/// Its clones share the bytes.
#[derive(Debug, Clone)]
pub struct DatabaseCopy {
    bytes: Arc<RwLock<Vec<u8>>>,
    largest: u64,
}

/// The maximum growth of a database when it is opened.
const GROWTH: u64 = 64 << 20;

impl DatabaseCopy {
    pub fn of(bytes: Vec<u8>) -> DatabaseCopy {
        let largest = bytes.len() as u64 + GROWTH;
        DatabaseCopy { bytes: Arc::new(RwLock::new(bytes)), largest }
    }

    /// An empty one, for a database whose records have about this many bytes.
    pub fn empty(records: u64) -> DatabaseCopy {
        DatabaseCopy { bytes: Arc::default(), largest: GROWTH + 8 * records }
    }

    /// The bytes, which are taken out.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.write())
    }
}

/// The range of bytes of a call, if it is valid.
fn span(offset: u64, len: usize) -> io::Result<std::ops::Range<usize>> {
    let start = usize::try_from(offset).map_err(io::Error::other)?;
    let end = start.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(start..end)
}

impl StorageBackend for DatabaseCopy {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.read();
        let found = bytes.get(span(offset, out.len())?).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > self.largest {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.write().resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let target = bytes.get_mut(span(offset, data.len())?).ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_says_what_to_do() {
        let error = guarded::<()>(|| panic!("index {} out of range", 7)).unwrap_err().to_string();
        assert!(error.contains("index 7 out of range") && error.contains("restore"), "{error}");
        assert!(guarded(|| Ok(7)).is_ok());
    }

    #[test]
    fn a_copy_keeps_to_its_bounds() {
        let copy = DatabaseCopy::of(vec![1, 2, 3]);
        let mut out = [0; 2];
        assert!(copy.read(1, &mut out).is_ok() && out == [2, 3]);
        for (offset, len) in [(2, 2), (u64::MAX, 1), (4, 0)] {
            assert!(
                copy.read(offset, &mut vec![0; len]).is_err() && copy.write(offset, &vec![0; len]).is_err()
            );
        }
        assert!(copy.set_len(1 << 40).is_err() && copy.set_len(5).is_ok());
        assert_eq!(copy.len().unwrap(), 5);
    }
}
