//! The common interface of all operations' results.

use wire::Cursor;

use crate::Malformed;
use crate::status::NfsStat;
use crate::xdr::{Decode, Encode};

/// The result of an operation: a status, and the data that belongs to that status.
pub trait Outcome<'d>: Sized {
    /// The status.
    fn status(&self) -> NfsStat;

    /// Appends the data after the status.
    fn encode_rest(&self, out: &mut Vec<u8>);

    /// Reads the data after `status`.
    ///
    /// # Errors
    /// [`Malformed`] if the data is not valid for the status.
    fn decode_rest(status: NfsStat, r: &mut Cursor<'d>) -> Result<Self, Malformed>;
}

impl<'d, T: Encode + Decode<'d>> Outcome<'d> for Result<T, NfsStat> {
    fn status(&self) -> NfsStat {
        self.as_ref().err().copied().unwrap_or(NfsStat::Ok)
    }

    fn encode_rest(&self, out: &mut Vec<u8>) {
        if let Ok(ok) = self {
            ok.encode(out);
        }
    }

    fn decode_rest(status: NfsStat, r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        if status.is_ok() { T::decode(r).map(Ok) } else { Ok(Err(status)) }
    }
}

/// A result that consists of the status only.
pub type Plain = Result<(), NfsStat>;
