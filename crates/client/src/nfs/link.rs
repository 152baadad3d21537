//! NFS on a connection: calls with transaction IDs, and records with marks (RFC 5531).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs_wire::compound::{CallWriter, Target};
use nfs_wire::rpc::record::{MARK, RecordMark};
use nfs_wire::rpc::{self, AuthSys, Credential, NFS_PROGRAM, NFS_V4, PROC_NULL};
use tokio::net::TcpStream;
use wire::frame::Frame;
use wire::limits::MAX_MESSAGE;

use super::callback::Responder;
use crate::Error;
use crate::error::Result;
use crate::transport::{
    Message, Outgoing, PREFIX, Pending, Protocol, Receiver, Tasks, Transport, UnfetchedRequest,
};

/// The protocol NFS on a connection.
#[derive(Debug)]
pub(crate) struct Nfs;

/// A connection that carries NFS.
pub(crate) type Link = Transport<Nfs>;

/// The data under the lock of a connection.
#[derive(Debug)]
pub(crate) struct LinkState {
    next_xid: u32,
}

impl Protocol for Nfs {
    type Unlocked = ();
    type LinkState = LinkState;
    type Request = ();
    type Reply = Message;

    fn ended(_: &mut LinkState) {}

    async fn ask(link: &Arc<Link>) {
        // RFC 8881 16.1
        let Ok((mut frame, xid, _unread)) = link.enlist() else { return };
        let out = frame.tail();
        out.extend_from_slice(&[0; MARK]);
        rpc::RpcCall::write_header(xid, NFS_PROGRAM, NFS_V4, PROC_NULL, &Credential::None, out);
        let mark = RecordMark::whole(frame.len() - MARK);
        frame.bytes_mut()[..MARK].copy_from_slice(&mark);
        let _asked = link.post(frame);
    }
}

/// The credential and the minor version of calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) machine_name: Vec<u8>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) minor_version: u32,
}

/// The operations of a COMPOUND, and the data of its WRITE.
#[derive(Clone, Copy)]
pub(crate) struct Operations<'a> {
    /// Appends the operations, again for each attempt.
    pub(crate) push: &'a (dyn Fn(&mut CallWriter) + Sync),
    /// The data for the place that [`CallWriter::push_write_apart`] reserved.
    pub(crate) payload: Option<&'a Bytes>,
    /// The name of the step in errors, if it must be answered within
    /// [`Options::connect_timeout`](super::Options::connect_timeout).
    pub(crate) step: Option<&'static str>,
}

impl<'a> Operations<'a> {
    /// The operations that `push` appends.
    pub(crate) fn of(push: &'a (dyn Fn(&mut CallWriter) + Sync)) -> Operations<'a> {
        Operations { push, payload: None, step: None }
    }
}

impl fmt::Debug for Operations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations").field("payload", &self.payload).finish_non_exhaustive()
    }
}

impl Link {
    /// Starts a link over `stream` and its tasks. Calls of the server go to `responder`.
    pub(crate) fn start(
        stream: TcpStream,
        responder: Option<Arc<Responder>>,
        silence: Duration,
    ) -> (Arc<Link>, Tasks) {
        let own = LinkState { next_xid: u32::from_ne_bytes(auth::crypto::random()) };
        Transport::begin(stream, own, Reader { fragments: Vec::new(), responder }, silence)
    }

    /// Reserves a frame for the next call, with its transaction ID and its reply.
    fn enlist(self: &Arc<Self>) -> Result<(Frame, u32, Pending<Nfs>)> {
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let xid = state.own.next_xid;
        state.own.next_xid = xid.wrapping_add(1);
        state.entries.insert(u64::from(xid), UnfetchedRequest::new(()));
        Ok((state.frames.take(SMALL), xid, Pending::new(Arc::clone(self), u64::from(xid))))
    }

    /// Sends a call.
    ///
    /// # Errors
    /// The error that ended the link.
    pub(crate) fn send(
        self: &Arc<Self>,
        caller: &Caller,
        operations: Operations<'_>,
    ) -> Result<Pending<Nfs>> {
        let (frame, xid, pending) = self.enlist()?;
        let sys = AuthSys::new(&caller.machine_name, caller.uid, caller.gid, &caller.groups);
        let credential = Credential::Sys(sys);
        let mut writer =
            CallWriter::begin(frame, Target::Server, xid, &credential, b"", caller.minor_version);
        (operations.push)(&mut writer);
        let at = writer.apart();
        let frame = writer.finish();
        self.post(Outgoing { frame, payload: at.zip(operations.payload.cloned()) })?;
        Ok(pending)
    }
}

/// The usual size of a call without its data, in bytes.
const SMALL: usize = 1024;

/// The receiving end of a connection.
struct Reader {
    /// The fragments of a message without its last fragment.
    fragments: Vec<u8>,
    responder: Option<Arc<Responder>>,
}

impl Receiver<Nfs> for Reader {
    fn length(prefix: [u8; PREFIX]) -> Result<usize> {
        // RFC 5531 11
        let length = RecordMark::parse(prefix).len;
        if length > MAX_MESSAGE {
            return Err(Error::Protocol("a fragment that is too long"));
        }
        Ok(length)
    }

    fn take(&mut self, link: &Arc<Link>, prefix: [u8; PREFIX], fragment: &mut [u8]) -> Result<()> {
        if !self.is_whole(prefix, fragment)? {
            return Ok(());
        }
        let message = match self.fragments.is_empty() {
            true => Message::copy(fragment, &link.buffers),
            false => Message::copy(&std::mem::take(&mut self.fragments), &link.buffers),
        };
        self.deal(link, message)
    }

    fn take_large(
        &mut self,
        link: &Arc<Link>,
        prefix: [u8; PREFIX],
        buffer: Vec<u8>,
        length: usize,
    ) -> Result<()> {
        let message = Message::new(buffer, 0..length, &link.buffers);
        if !self.is_whole(prefix, message.bytes())? {
            return Ok(());
        }
        match self.fragments.is_empty() {
            true => self.deal(link, message),
            false => {
                let fragments = std::mem::take(&mut self.fragments);
                let length = fragments.len();
                self.deal(link, Message::new(fragments, 0..length, &link.buffers))
            }
        }
    }
}

impl Reader {
    /// Whether this fragment completes a message. The fragments of a message are put together.
    fn is_whole(&mut self, prefix: [u8; PREFIX], fragment: &[u8]) -> Result<bool> {
        let is_last = RecordMark::parse(prefix).last;
        if is_last && self.fragments.is_empty() {
            return Ok(true);
        }
        if self.fragments.len() + fragment.len() > MAX_MESSAGE {
            return Err(Error::Protocol("a message that is too long"));
        }
        self.fragments.extend_from_slice(fragment);
        Ok(is_last)
    }

    /// Passes a reply to its waiter, and a call to the responder.
    fn deal(&self, link: &Arc<Link>, message: Message) -> Result<()> {
        let word =
            |at: usize| message.bytes().get(at..at + 4)?.first_chunk().map(|it| u32::from_be_bytes(*it));
        match (word(0), word(4)) {
            (Some(xid), Some(REPLY)) => {
                link.complete(u64::from(xid), message, |_, ()| {});
                Ok(())
            }
            (Some(_), Some(CALL)) => match &self.responder {
                Some(responder) => responder.answer(link, message.bytes()),
                None => Err(Error::Protocol("a call on a connection without a back channel")),
            },
            _ => Err(Error::Protocol("a message that is neither call nor reply")),
        }
    }
}

/// The types of a message (msg_type of RFC 5531 9).
const CALL: u32 = 0;
const REPLY: u32 = 1;
