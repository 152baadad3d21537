//! CREATE_SESSION (RFC 8881 18.36).

use crate::macros::{xdr_flags, xdr_struct};
use crate::op::backchannel_ctl::SecParms;
use crate::types::{ClientId, SessionId};
use crate::xdr::List;

xdr_flags! {
    /// CREATE_SESSION4_FLAG_*.
    pub struct SessionFlags {
        PERSIST = 0x0000_0001,
        CONN_BACK_CHAN = 0x0000_0002,
        CONN_RDMA = 0x0000_0004,
    }
}

xdr_struct! {
    /// The attributes of a channel (channel_attrs4).
    pub struct ChannelAttrs of "channel_attrs4" {
        /// Padding before data, in bytes.
        headerpadsize: u32,
        /// Longest request in bytes, with the RPC headers.
        maxrequestsize: u32,
        /// Longest reply in bytes, with the RPC headers.
        maxresponsesize: u32,
        /// Longest reply that is kept for a retry.
        maxresponsesize_cached: u32,
        /// Operations of a COMPOUND.
        maxoperations: u32,
        /// Slots.
        maxrequests: u32,
        /// Inbound RDMA reads.
        rdma_ird: Option<u32>,
    }
}

xdr_struct! {
    /// CREATE_SESSION4args.
    pub struct Args<'a> of "CREATE_SESSION4args" {
        /// The client.
        clientid: ClientId,
        /// The sequence ID of the request.
        sequence: u32,
        /// The requested features.
        flags: SessionFlags,
        /// The attributes of the fore channel, from client to server.
        fore_chan_attrs: ChannelAttrs,
        /// The attributes of the back channel, from server to client.
        back_chan_attrs: ChannelAttrs,
        /// Program number of callbacks.
        cb_program: u32,
        /// The acceptable security parameters of callbacks. The server chooses one.
        sec_parms: List<'a, SecParms<'a>>,
    }
}

xdr_struct! {
    /// CREATE_SESSION4resok.
    pub struct ResOk of "CREATE_SESSION4resok" {
        /// The session.
        sessionid: SessionId,
        /// The sequence ID of the request.
        sequence: u32,
        /// The granted features.
        flags: SessionFlags,
        /// The attributes of the fore channel, from client to server.
        fore_chan_attrs: ChannelAttrs,
        /// The attributes of the back channel, from server to client.
        back_chan_attrs: ChannelAttrs,
    }
}
