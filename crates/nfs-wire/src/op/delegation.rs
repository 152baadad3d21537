//! Delegations without OPEN: DELEGPURGE, DELEGRETURN, WANT_DELEGATION and GET_DIR_DELEGATION (RFC 8881 18.5,
//! 18.6, 18.49, 18.39).

use crate::attr::Bitmap;
use crate::macros::{xdr_struct, xdr_union};
use crate::op::open::DelegationType;
use crate::types::{ClientId, NfsTime, StateId, Verifier};

xdr_struct! {
    /// DELEGPURGE4args.
    pub struct PurgeArgs of "DELEGPURGE4args" {
        /// Ignored in 4.1.
        clientid: ClientId,
    }
}

xdr_struct! {
    /// DELEGRETURN4args.
    pub struct ReturnArgs of "DELEGRETURN4args" {
        /// The delegation.
        deleg_stateid: StateId,
    }
}

xdr_union! {
    /// The reason why the client asks for a delegation (deleg_claim4).
    pub enum DelegClaim of "deleg_claim4" {
        void {
            /// CLAIM_FH.
            Fh = 4,
            /// CLAIM_DELEG_PREV_FH.
            DelegPrevFh = 6,
        }
        data {
            /// CLAIM_PREVIOUS.
            Previous(DelegationType) = 1,
        }
    }
}

xdr_struct! {
    /// WANT_DELEGATION4args.
    pub struct WantArgs of "WANT_DELEGATION4args" {
        /// OPEN4_SHARE_ACCESS_WANT_*.
        want: u32,
        /// The claim.
        claim: DelegClaim,
    }
}

xdr_struct! {
    /// GET_DIR_DELEGATION4args.
    pub struct DirArgs of "GET_DIR_DELEGATION4args" {
        /// Whether the server should call when a delegation is available.
        signal_deleg_avail: bool,
        /// The requested notifications.
        notification_types: Bitmap,
        /// The most delay of notifications about attributes of children.
        child_attr_delay: NfsTime,
        /// The most delay of notifications about attributes of the directory.
        dir_attr_delay: NfsTime,
        /// The requested attributes of children.
        child_attributes: Bitmap,
        /// The requested attributes of the directory.
        dir_attributes: Bitmap,
    }
}

xdr_struct! {
    /// GET_DIR_DELEGATION4resok.
    pub struct DirDelegation of "GET_DIR_DELEGATION4resok" {
        /// The cookie verifier, as in READDIR.
        cookieverf: Verifier,
        /// The delegation.
        stateid: StateId,
        /// The granted notifications.
        notification: Bitmap,
        /// The attributes of children in notifications.
        child_attributes: Bitmap,
        /// The attributes of the directory in notifications.
        dir_attributes: Bitmap,
    }
}

xdr_union! {
    /// A delegation of a directory, or none for now.
    pub enum DirResOk of "GET_DIR_DELEGATION4res_non_fatal" {
        void {}
        data {
            /// The delegation is granted.
            Granted(DirDelegation) = 0,
            /// The delegation is not available now. True if the server will call when it is.
            Unavail(bool) = 1,
        }
    }
}
