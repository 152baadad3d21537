//! CANCEL: cancels a waiting request (MS-SMB2 3.3.5.16). The CANCEL itself has no reply.

use smb_wire::cancel;
use wire::Output;

use crate::connection::Connection;
use crate::exchange::Request;
use crate::state::Event;

/// Cancels the request that the CANCEL names by its async id or its message id.
pub(crate) fn handle(connection: &mut Connection, request: &Request<'_>, out: &mut Output<Event>) {
    if cancel::Request::parse(request.message).is_err() {
        return;
    }
    let header = &request.header;
    let named = if header.is_async() {
        let parked = connection.parked.get(header.async_id()).map(|parked| (header.async_id(), parked));
        parked.filter(|(_, parked)| parked.request.announced)
    } else {
        let mut parked = connection.parked.iter();
        parked.find(|(_, parked)| parked.request.header.message_id() == header.message_id())
    };
    let Some((async_id, parked)) = named.filter(|(_, parked)| parked.parking.can_be_taken_back()) else {
        return;
    };
    // A LOCK whose first copy was just done gets that result, like work that has begun.
    let id = parked.exchange.compound.related.file_id;
    if connection.note_ended(&parked.request.header, id, parked.exchange.remaining.bytes()) {
        connection.cancel(async_id, out);
    }
}
