//! CANCEL: takes a waiting request back (MS-SMB2 3.3.5.16). It is never answered itself.

use smb_wire::cancel;
use wire::Output;

use super::lock;
use crate::connection::Connection;
use crate::dispatch::Request;
use crate::event::Event;
use crate::suspend::{Handled, Stop};

/// Takes the request back that the CANCEL names: by its async id, else by its message id.
pub(crate) fn handle(connection: &mut Connection, request: &Request<'_>, out: &mut Output<Event>) -> Handled {
    let parsed = cancel::Request::parse(request.message);
    if parsed.is_err() {
        return Err(Stop::Silent);
    }
    let header = request.header;
    let found = if header.is_async() {
        let known = |id: &u64| connection.suspended.get(id).is_some_and(|waiting| waiting.announced);
        Some(header.async_id()).filter(known)
    } else {
        let waiting = connection.suspended.iter();
        let mut named = waiting.filter(|(_, waiting)| waiting.header.message_id() == header.message_id());
        named.next().map(|(&id, _)| id)
    };
    if let Some(async_id) = found {
        // A LOCK whose first copy was done just now is about to be answered, as work that has begun.
        let is_taken_back = connection.suspended.get(&async_id).is_some_and(|waiting| {
            let id = waiting.compound.related.file_id;
            !waiting.working && lock::note_ended(connection, &waiting.header, id, &waiting.rest)
        });
        if is_taken_back {
            connection.cancel(async_id, out);
        }
    }
    Err(Stop::Silent)
}
