//! Delegations without OPEN: DELEGPURGE, DELEGRETURN, WANT_DELEGATION and GET_DIR_DELEGATION (RFC 8881 18.5, 18.6,
//! 18.49, 18.39).

use crate::attr::Bitmap;
use crate::macros::{xdr_struct, xdr_union};
use crate::op::open::DelegationType;
use crate::types::{ClientId, NfsTime, StateId, Verifier};

xdr_struct! {
    /// DELEGPURGE4args.
    pub struct PurgeArgs of "DELEGPURGE4args" {
        /// Not looked at in 4.1.
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
    /// Why the client may have a delegation (deleg_claim4).
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
        /// Why.
        claim: DelegClaim,
    }
}

xdr_struct! {
    /// GET_DIR_DELEGATION4args.
    pub struct DirArgs of "GET_DIR_DELEGATION4args" {
        /// Whether to call when one can be had.
        signal_deleg_avail: bool,
        /// What to notify about.
        notification_types: Bitmap,
        /// How late changes of children may be told.
        child_attr_delay: NfsTime,
        /// How late changes of the directory may be told.
        dir_attr_delay: NfsTime,
        /// Which attributes of children.
        child_attributes: Bitmap,
        /// Which attributes of the directory.
        dir_attributes: Bitmap,
    }
}

xdr_struct! {
    /// GET_DIR_DELEGATION4resok.
    pub struct DirDelegation of "GET_DIR_DELEGATION4resok" {
        /// As in READDIR.
        cookieverf: Verifier,
        /// The delegation.
        stateid: StateId,
        /// What is notified about.
        notification: Bitmap,
        /// Which attributes of children.
        child_attributes: Bitmap,
        /// Which attributes of the directory.
        dir_attributes: Bitmap,
    }
}

xdr_union! {
    /// A delegation of a directory, or none for now.
    pub enum DirResOk of "GET_DIR_DELEGATION4res_non_fatal" {
        void {}
        data {
            /// It is granted.
            Granted(DirDelegation) = 0,
            /// It is not; whether the server will call.
            Unavail(bool) = 1,
        }
    }
}
