//! BIND_CONN_TO_SESSION: what a connection is for (RFC 8881 18.34).

use crate::macros::{xdr_enum, xdr_struct};
use crate::types::SessionId;

xdr_enum! {
    /// What the client asks for (channel_dir_from_client4).
    pub enum FromClient {
        Fore = 1,
        Back = 2,
        ForeOrBoth = 3,
        BackOrBoth = 7,
    }
}

xdr_enum! {
    /// What the connection now is (channel_dir_from_server4).
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
        /// What is asked for.
        dir: FromClient,
        /// Whether the connection shall turn to RDMA.
        use_conn_in_rdma_mode: bool,
    }
}

xdr_struct! {
    /// BIND_CONN_TO_SESSION4resok.
    pub struct ResOk of "BIND_CONN_TO_SESSION4resok" {
        /// The session.
        sessid: SessionId,
        /// What the connection is now.
        dir: FromServer,
        /// Whether it turns to RDMA.
        use_conn_in_rdma_mode: bool,
    }
}
