//! SETATTR (RFC 8881 18.30).

use crate::Malformed;
use crate::attr::{Bitmap, Fattr};
use crate::macros::xdr_struct;
use crate::op::outcome::Outcome;
use crate::status::NfsStat;
use crate::types::StateId;
use crate::xdr::{Decode, Encode};
use wire::Cursor;

xdr_struct! {
    /// SETATTR4args.
    pub struct Args<'a> of "SETATTR4args" {
        /// The open, if the size is set.
        stateid: StateId,
        /// The attributes to set.
        obj_attributes: Fattr<'a>,
    }
}

/// SETATTR4res. A failed request too says which attributes it has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Res {
    /// The status.
    pub status: NfsStat,
    /// The attributes that were set.
    pub attrsset: Bitmap,
}

impl Outcome<'_> for Res {
    fn status(&self) -> NfsStat {
        self.status
    }

    fn encode_rest(&self, out: &mut Vec<u8>) {
        self.attrsset.encode(out);
    }

    fn decode_rest(status: NfsStat, r: &mut Cursor<'_>) -> Result<Self, Malformed> {
        Ok(Res { status, attrsset: Bitmap::decode(r)? })
    }
}
