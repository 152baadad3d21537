//! SECINFO and SECINFO_NO_NAME: the accepted security flavors (RFC 8881 18.29 and 18.45).

use crate::macros::{xdr_enum, xdr_struct, xdr_union};
use crate::op::backchannel_ctl::GssService;
use crate::types::Component;
use crate::xdr::List;

xdr_struct! {
    /// SECINFO4args.
    pub struct Args<'a> of "SECINFO4args" {
        /// A name in the current directory.
        name: Component<'a>,
    }
}

xdr_enum! {
    /// The object of the question (secinfo_style4).
    pub enum Style {
        CurrentFh = 0,
        Parent = 1,
    }
}

xdr_struct! {
    /// SECINFO_NO_NAME4args.
    pub struct NoNameArgs of "SECINFO_NO_NAME4args" {
        /// The object of the question.
        style: Style,
    }
}

xdr_struct! {
    /// A mechanism of RPCSEC_GSS (rpcsec_gss_info).
    pub struct GssInfo<'a> of "rpcsec_gss_info" {
        /// Object identifier of the mechanism.
        oid: &'a [u8],
        /// Quality of protection.
        qop: u32,
        /// Service.
        service: GssService,
    }
}

xdr_union! {
    /// An accepted security flavor (secinfo4).
    pub enum SecInfo<'a> of "secinfo4" {
        void {
            /// AUTH_NONE.
            None = 0,
            /// AUTH_SYS.
            Sys = 1,
        }
        data {
            /// RPCSEC_GSS.
            Gss(GssInfo<'a>) = 6,
        }
        default
        /// Another flavor.
        Other
    }
}

xdr_struct! {
    /// SECINFO4resok.
    pub struct ResOk<'a> of "SECINFO4resok" {
        /// The accepted security flavors, best first.
        flavors: List<'a, SecInfo<'a>>,
    }
}
