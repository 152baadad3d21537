//! EXCHANGE_ID: client and server get to know each other (RFC 8881 18.35).

use crate::attr::Bitmap;
use crate::macros::{xdr_flags, xdr_struct, xdr_union};
use crate::types::{ClientId, Identity, ImplId, Verifier};
use crate::xdr::List;

xdr_flags! {
    /// EXCHGID4_FLAG_*.
    pub struct ExchangeFlags {
        SUPP_MOVED_REFER = 0x0000_0001,
        SUPP_MOVED_MIGR = 0x0000_0002,
        SUPP_FENCE_OPS = 0x0000_0004,
        BIND_PRINC_STATEID = 0x0000_0100,
        USE_NON_PNFS = 0x0001_0000,
        USE_PNFS_MDS = 0x0002_0000,
        USE_PNFS_DS = 0x0004_0000,
        /// The client means a client ID that is confirmed.
        UPD_CONFIRMED_REC_A = 0x4000_0000,
        /// The client ID is confirmed.
        CONFIRMED_R = 0x8000_0000,
    }
}

xdr_struct! {
    /// Who the client is (client_owner4).
    pub struct ClientOwner<'a> of "client_owner4" {
        /// Changes when the client began anew.
        verifier: Verifier,
        /// Stays the same.
        ownerid: Identity<'a>,
    }
}

xdr_struct! {
    /// Who the server is (server_owner4).
    pub struct ServerOwner<'a> of "server_owner4" {
        /// Tells servers of one name apart that cannot share sessions.
        minor_id: u64,
        /// The server.
        major_id: Identity<'a>,
    }
}

xdr_struct! {
    /// Operations, by their numbers, that state protection is about (state_protect_ops4).
    pub struct ProtectOps of "state_protect_ops4" {
        /// Only with the protecting credential.
        must_enforce: Bitmap,
        /// Also with the protecting credential.
        must_allow: Bitmap,
    }
}

xdr_struct! {
    /// How a client would like SSV (ssv_sp_parms4).
    pub struct SsvParms<'a> of "ssv_sp_parms4" {
        /// Which operations.
        ops: ProtectOps,
        /// Object identifiers of hash algorithms.
        hash_algs: List<'a, &'a [u8]>,
        /// Object identifiers of encryption algorithms.
        encr_algs: List<'a, &'a [u8]>,
        /// How many old SSVs stay valid.
        window: u32,
        /// Contexts wanted.
        num_gss_handles: u32,
    }
}

xdr_struct! {
    /// How SSV is done (ssv_prot_info4).
    pub struct SsvInfo<'a> of "ssv_prot_info4" {
        /// Which operations.
        ops: ProtectOps,
        /// Index of the hash algorithm.
        hash_alg: u32,
        /// Index of the encryption algorithm.
        encr_alg: u32,
        /// Bytes of the SSV.
        ssv_len: u32,
        /// How many old SSVs stay valid.
        window: u32,
        /// Contexts.
        handles: List<'a, &'a [u8]>,
    }
}

xdr_union! {
    /// Who may change the client's state, as asked for (state_protect4_a).
    pub enum StateProtectArgs<'a> of "state_protect4_a" {
        void {
            /// SP4_NONE.
            None = 0,
        }
        data {
            /// SP4_MACH_CRED.
            MachCred(ProtectOps) = 1,
            /// SP4_SSV.
            Ssv(SsvParms<'a>) = 2,
        }
    }
}

xdr_union! {
    /// Who may change the client's state, as granted (state_protect4_r).
    pub enum StateProtectRes<'a> of "state_protect4_r" {
        void {
            /// SP4_NONE.
            None = 0,
        }
        data {
            /// SP4_MACH_CRED.
            MachCred(ProtectOps) = 1,
            /// SP4_SSV.
            Ssv(SsvInfo<'a>) = 2,
        }
    }
}

xdr_struct! {
    /// EXCHANGE_ID4args.
    pub struct Args<'a> of "EXCHANGE_ID4args" {
        /// Who the client is.
        clientowner: ClientOwner<'a>,
        /// What it can and wants.
        flags: ExchangeFlags,
        /// Who may change its state.
        state_protect: StateProtectArgs<'a>,
        /// Who made it.
        client_impl_id: Option<ImplId<'a>>,
    }
}

xdr_struct! {
    /// EXCHANGE_ID4resok.
    pub struct ResOk<'a> of "EXCHANGE_ID4resok" {
        /// The client ID.
        clientid: ClientId,
        /// The number that the next CREATE_SESSION has.
        sequenceid: u32,
        /// What the server can and is.
        flags: ExchangeFlags,
        /// Who may change the client's state.
        state_protect: StateProtectRes<'a>,
        /// Who the server is.
        server_owner: ServerOwner<'a>,
        /// Where client IDs and filehandles mean the same.
        server_scope: Identity<'a>,
        /// Who made the server.
        server_impl_id: Option<ImplId<'a>>,
    }
}
