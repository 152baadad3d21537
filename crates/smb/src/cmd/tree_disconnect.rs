//! TREE_DISCONNECT: disconnects a session from one share (MS-SMB2 3.3.5.8).

use std::sync::Arc;

use smb_wire::{NtStatus, tree_disconnect};

use crate::connection::Connection;
use crate::exchange::{Handled, Request};

/// Answers a TREE_DISCONNECT.
pub fn handle(connection: &mut Connection, request: &mut Request<'_>) -> Handled {
    tree_disconnect::Request::parse(request.message)?;
    connection.tree(request)?;
    let session = Arc::clone(connection.session(request)?);
    let dropped = connection.server.drop_tree(&session, request.tree_id, request.cause());
    dropped.ok_or(NtStatus::NETWORK_NAME_DELETED)?;
    tree_disconnect::Response.write(request.body);
    Ok(NtStatus::SUCCESS)
}
