//! DESTROY_SESSION, DESTROY_CLIENTID and RECLAIM_COMPLETE (RFC 8881 18.37, 18.50, 18.51).

use crate::macros::xdr_struct;
use crate::types::{ClientId, SessionId};

xdr_struct! {
    /// DESTROY_SESSION4args.
    pub struct SessionArgs of "DESTROY_SESSION4args" {
        /// The session.
        sessionid: SessionId,
    }
}

xdr_struct! {
    /// DESTROY_CLIENTID4args.
    pub struct ClientIdArgs of "DESTROY_CLIENTID4args" {
        /// The client.
        clientid: ClientId,
    }
}

xdr_struct! {
    /// RECLAIM_COMPLETE4args.
    pub struct ReclaimCompleteArgs of "RECLAIM_COMPLETE4args" {
        /// Whether the operation is about the current file system only.
        one_fs: bool,
    }
}
