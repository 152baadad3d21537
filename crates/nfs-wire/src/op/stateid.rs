//! TEST_STATEID and FREE_STATEID (RFC 8881 18.48 and 18.38).

use crate::macros::xdr_struct;
use crate::status::NfsStat;
use crate::types::StateId;
use crate::xdr::List;

xdr_struct! {
    /// TEST_STATEID4args.
    pub struct TestArgs<'a> of "TEST_STATEID4args" {
        /// The stateids to test.
        stateids: List<'a, StateId>,
    }
}

xdr_struct! {
    /// TEST_STATEID4resok.
    pub struct TestResOk<'a> of "TEST_STATEID4resok" {
        /// One status for each stateid.
        status_codes: List<'a, NfsStat>,
    }
}

xdr_struct! {
    /// FREE_STATEID4args.
    pub struct FreeArgs of "FREE_STATEID4args" {
        /// The stateid to free.
        stateid: StateId,
    }
}
