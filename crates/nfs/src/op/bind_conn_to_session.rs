//! BIND_CONN_TO_SESSION (RFC 8881 18.34).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::bind_conn_to_session::{Args, FromClient, FromServer, ResOk};

use crate::compound::{OpResult, Run};

/// Binds the connection to a session.
///
/// # Errors
/// NFS4ERR_BADSESSION, NFS4ERR_INVAL.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    let session = Arc::clone(&*run.server.session(&args.sessid).ok_or(NfsStat::BadSession)?);
    // The server uses no RDMA. It binds the connection to both channels if the client leaves the choice.
    let dir = match args.dir {
        FromClient::Fore => FromServer::Fore,
        FromClient::Back => FromServer::Back,
        FromClient::ForeOrBoth | FromClient::BackOrBoth => FromServer::Both,
        FromClient::Unknown(_) => return Err(NfsStat::Inval.into()),
    };
    run.bind(&session, dir != FromServer::Back, dir != FromServer::Fore);
    session.client.heard(run.now);
    run.reply(OpNum::BindConnToSession, ResOk { sessid: args.sessid, dir, use_conn_in_rdma_mode: false })
}
