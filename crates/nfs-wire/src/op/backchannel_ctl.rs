//! BACKCHANNEL_CTL, and the security of callbacks that it and CREATE_SESSION name (RFC 8881 18.33).

use crate::macros::{xdr_enum, xdr_struct, xdr_union};
use crate::rpc::AuthSys;
use crate::xdr::List;

xdr_enum! {
    /// Service of RPCSEC_GSS (rpc_gss_svc_t).
    pub enum GssService {
        None = 1,
        Integrity = 2,
        Privacy = 3,
    }
}

xdr_struct! {
    /// RPCSEC_GSS contexts for callbacks.
    pub struct GssHandles<'a> of "gss_cb_handles4" {
        /// Service to be used.
        service: GssService,
        /// Context from the server.
        handle_from_server: &'a [u8],
        /// Context from the client.
        handle_from_client: &'a [u8],
    }
}

xdr_union! {
    /// One way in which the server may call (callback_sec_parms4).
    pub enum SecParms<'a> of "callback_sec_parms4" {
        void {
            /// Without a credential.
            None = 0,
        }
        data {
            /// As this user.
            Sys(AuthSys<'a>) = 1,
            /// With RPCSEC_GSS.
            Gss(GssHandles<'a>) = 6,
        }
    }
}

xdr_struct! {
    /// BACKCHANNEL_CTL4args.
    pub struct Args<'a> of "BACKCHANNEL_CTL4args" {
        /// Program number of callbacks.
        cb_program: u32,
        /// Ways to call, any of which will do.
        sec_parms: List<'a, SecParms<'a>>,
    }
}
