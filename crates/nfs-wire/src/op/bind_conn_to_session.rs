//! BIND_CONN_TO_SESSION: the channels that a connection carries (RFC 8881 18.34).

use crate::macros::{xdr_enum, xdr_struct};
use crate::types::SessionId;

xdr_enum! {
    /// The channels that the client asks for (channel_dir_from_client4).
    pub enum FromClient {
        Fore = 1,
        Back = 2,
        ForeOrBoth = 3,
        BackOrBoth = 7,
    }
}

xdr_enum! {
    /// The channels that the connection now carries (channel_dir_from_server4).
    pub enum FromServer {
        Fore = 1,
        Back = 2,
        Both = 3,
    }
}

xdr_struct! {
    /// BIND_CONN_TO_SESSION4args.
    pub struct Args of "BIND_CONN_TO_SESSION4args" {
        /// The session.
        sessid: SessionId,
        /// The requested channels.
        dir: FromClient,
        /// Whether the connection should switch to RDMA.
        use_conn_in_rdma_mode: bool,
    }
}

xdr_struct! {
    /// BIND_CONN_TO_SESSION4resok.
    pub struct ResOk of "BIND_CONN_TO_SESSION4resok" {
        /// The session.
        sessid: SessionId,
        /// The channels that the connection now carries.
        dir: FromServer,
        /// Whether it switches to RDMA.
        use_conn_in_rdma_mode: bool,
    }
}
