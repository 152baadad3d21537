//! Callbacks to the client over a connection, and their replies (RFC 8881 20).

use nfs_wire::callback;
use nfs_wire::compound::{CallWriter, Target};
use nfs_wire::rpc::RpcReply;
use nfs_wire::types::FileHandle;
use nfs_wire::xdr::List;
use wire::{Now, Output};

use super::{Connection, SMALL_REPLY};
use crate::connection::event::Event;
use crate::state::attribute_query::AttributeQuery;
use crate::state::back_channel::{self, Call};
use crate::state::callback::{CallbackOutcome, CallbackParams, CallbackPurpose, attributes_of};

impl Connection {
    /// Sends a callback.
    pub(super) fn call_client(&mut self, call: Call, now: Now, out: &mut Output<Event>) {
        if !call.session.calls.sends(&call, self.handle.id, now) {
            return;
        }
        let CallbackParams { program, minor, credentials } = call.session.calling();
        let xid = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(1).max(1);
        let target = Target::Client { program, callback_ident: 0 };
        let frame = out.pool.take(SMALL_REPLY);
        let mut writer = CallWriter::begin(frame, target, xid, &credentials.credential(), b"", minor);
        writer.push(&callback::Args::Sequence(callback::SequenceArgs {
            sessionid: call.session.id,
            sequenceid: call.sequence,
            slotid: call.slot,
            highest_slotid: call.slot,
            cachethis: false,
            referring_call_lists: List::EMPTY,
        }));
        let state = &call.request.state;
        let fh = FileHandle(state.handle.bytes());
        writer.push(&match call.request.purpose {
            CallbackPurpose::Recall(_) => {
                callback::Args::Recall(callback::RecallArgs { stateid: state.id(), truncate: false, fh })
            }
            CallbackPurpose::Attributes(_) => {
                callback::Args::GetAttr(callback::GetAttrArgs { fh, attr_request: AttributeQuery::asked() })
            }
        });
        let frame = writer.finish();
        self.calls.insert(xid, call);
        self.send(frame, out);
    }

    /// Handles the client's reply to a callback. A recalled delegation comes back by a request of its own.
    pub(super) fn called(&mut self, reply: &RpcReply<'_>, now: Now) {
        let Some(call) = self.calls.remove(&reply.xid) else { return };
        let end = CallbackOutcome::of(reply);
        if end != CallbackOutcome::Done {
            tracing::debug!(?end, peer = %self.handle.peer.remote, "a client has refused a call");
        } else if let CallbackPurpose::Attributes(query) = &call.request.purpose {
            query.answer(attributes_of(reply));
        }
        back_channel::call_ended(&call, end, now);
    }
}
