//! BACKCHANNEL_CTL, and the security parameters of callbacks, which CREATE_SESSION has too (RFC 8881 18.33).

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
        /// The service to use.
        service: GssService,
        /// Context from the server.
        handle_from_server: &'a [u8],
        /// Context from the client.
        handle_from_client: &'a [u8],
    }
}

xdr_union! {
    /// Security parameters that the server may use for callbacks (callback_sec_parms4).
    pub enum SecParms<'a> of "callback_sec_parms4" {
        void {
            /// AUTH_NONE.
            None = 0,
        }
        data {
            /// AUTH_SYS, with this user.
            Sys(AuthSys<'a>) = 1,
            /// RPCSEC_GSS.
            Gss(GssHandles<'a>) = 6,
        }
    }
}

xdr_struct! {
    /// BACKCHANNEL_CTL4args.
    pub struct Args<'a> of "BACKCHANNEL_CTL4args" {
        /// Program number of callbacks.
        cb_program: u32,
        /// The acceptable security parameters. The server chooses one.
        sec_parms: List<'a, SecParms<'a>>,
    }
}
