//! EXCHANGE_ID: exchanges the identities of client and server (RFC 8881 18.35).

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
        /// The request is about a client ID that is confirmed.
        UPD_CONFIRMED_REC_A = 0x4000_0000,
        /// The client ID is confirmed.
        CONFIRMED_R = 0x8000_0000,
    }
}

xdr_struct! {
    /// The identity of a client (client_owner4).
    pub struct ClientOwner<'a> of "client_owner4" {
        /// Changes when the client restarts.
        verifier: Verifier,
        /// Stays the same over restarts.
        ownerid: Identity<'a>,
    }
}

xdr_struct! {
    /// The identity of a server (server_owner4).
    pub struct ServerOwner<'a> of "server_owner4" {
        /// Distinguishes servers of the same major ID that cannot share sessions.
        minor_id: u64,
        /// Identifies the server.
        major_id: Identity<'a>,
    }
}

xdr_struct! {
    /// The operations, by number, that state protection covers (state_protect_ops4).
    pub struct ProtectOps of "state_protect_ops4" {
        /// Operations that require the protecting credential.
        must_enforce: Bitmap,
        /// Operations that the protecting credential may use too.
        must_allow: Bitmap,
    }
}

xdr_struct! {
    /// The client's parameters for SSV (ssv_sp_parms4).
    pub struct SsvParms<'a> of "ssv_sp_parms4" {
        /// The covered operations.
        ops: ProtectOps,
        /// Object identifiers of hash algorithms.
        hash_algs: List<'a, &'a [u8]>,
        /// Object identifiers of encryption algorithms.
        encr_algs: List<'a, &'a [u8]>,
        /// Number of old SSVs that stay valid.
        window: u32,
        /// Number of requested contexts.
        num_gss_handles: u32,
    }
}

xdr_struct! {
    /// The negotiated parameters of SSV (ssv_prot_info4).
    pub struct SsvInfo<'a> of "ssv_prot_info4" {
        /// The covered operations.
        ops: ProtectOps,
        /// Index of the hash algorithm.
        hash_alg: u32,
        /// Index of the encryption algorithm.
        encr_alg: u32,
        /// Length of the SSV in bytes.
        ssv_len: u32,
        /// Number of old SSVs that stay valid.
        window: u32,
        /// The contexts.
        handles: List<'a, &'a [u8]>,
    }
}

xdr_union! {
    /// The requested protection of the client's state (state_protect4_a).
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
    /// The granted protection of the client's state (state_protect4_r).
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
        /// The identity of the client.
        clientowner: ClientOwner<'a>,
        /// The capabilities and wishes of the client.
        flags: ExchangeFlags,
        /// The requested protection of its state.
        state_protect: StateProtectArgs<'a>,
        /// The implementation of the client.
        client_impl_id: Option<ImplId<'a>>,
    }
}

xdr_struct! {
    /// EXCHANGE_ID4resok.
    pub struct ResOk<'a> of "EXCHANGE_ID4resok" {
        /// The client ID.
        clientid: ClientId,
        /// The sequence ID for the next CREATE_SESSION.
        sequenceid: u32,
        /// The capabilities of the server, and the state of the client ID.
        flags: ExchangeFlags,
        /// The granted protection of the client's state.
        state_protect: StateProtectRes<'a>,
        /// The identity of the server.
        server_owner: ServerOwner<'a>,
        /// The scope in which client IDs and filehandles have the same meaning.
        server_scope: Identity<'a>,
        /// The implementation of the server.
        server_impl_id: Option<ImplId<'a>>,
    }
}
