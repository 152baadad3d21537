//! A connection after the log-on, with a hostile client that may send anything.
//!
//! The bytes are a sequence of requests. Each begins with two bytes of length, one of [`How`], and one for
//! the command. A valid header is put in front, so that the body and the order are tested, unless `How` says
//! that the bytes are a whole frame. FileIds are those of a new server: the file is the first Open, and the
//! directory is the second.

use std::time::Duration;

use smb_wire::{Header, SmbCommand};

use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

/// The way to send a request.
struct How(u8);

impl How {
    /// It is related to the previous request, in the same frame.
    fn is_related(&self) -> bool {
        self.0 & 1 != 0
    }

    /// It is in the same frame as the previous request, but not related to it.
    fn is_chained(&self) -> bool {
        self.0 & 2 != 0
    }

    /// The bytes are a whole frame.
    fn is_raw(&self) -> bool {
        self.0 & 4 != 0
    }

    /// It is sent half a minute later.
    fn is_late(&self) -> bool {
        self.0 & 8 != 0
    }

    /// It is sent on the tree of pipes.
    fn is_on_pipes(&self) -> bool {
        self.0 & 16 != 0
    }
}

/// A client sends the requests in the bytes. At the end nothing of it may be left, and another client is
/// served.
pub fn connection(data: &[u8]) {
    let world = SmbTestServer::in_memory();
    let mut peer = world.peer();
    peer.log_on(&Dial { requires_signing: false, ..Dial::default() });
    peer.connect_tree("IPC$");
    let pipes = peer.tree_id;
    peer.connect_tree(SHARE);
    let files = peer.tree_id;
    peer.open("file");
    peer.create(&OpenFile::directory("directory")).file_id();
    let mut rest = data;
    let mut frame: Vec<(Vec<u8>, bool)> = Vec::new();
    while let Some((&[low, high, how, command], behind)) = rest.split_first_chunk() {
        let (how, length) = (How(how), usize::from(u16::from_le_bytes([low, high])));
        let (bytes, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        if frame.len() > 8 || !(how.is_related() || how.is_chained()) {
            deliver(&mut peer, std::mem::take(&mut frame));
        }
        if how.is_late() {
            world.advance(Duration::from_secs(30));
        }
        if peer.is_closed {
            break;
        }
        if how.is_raw() {
            peer.deliver(bytes.to_vec());
            peer.next_id += 1;
            continue;
        }
        peer.tree_id = if how.is_on_pipes() { pipes } else { files };
        let header = peer.header_for(SmbCommand::new(command.into()), bytes.len());
        frame.push((whole(&header, |out| out.extend_from_slice(bytes)), how.is_related()));
    }
    deliver(&mut peer, frame);
    world.advance(Duration::from_secs(60));
    peer.turn();
    while peer.next().is_some() {}
    peer.hang_up();
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0), "something is left open");
    assert!(world.server.sessions().is_empty());
    assert!(world.dial(&Dial::elsewhere()).is_served());
}

fn deliver(peer: &mut Peer, pieces: Vec<(Vec<u8>, bool)>) {
    if pieces.is_empty() || peer.is_closed {
        return;
    }
    let mut messages = Vec::new();
    let mut related = Vec::new();
    for (message, is_related) in pieces {
        messages.push(message);
        related.push(is_related);
    }
    let mut frame = peer.compound(messages, false);
    let mut at = 0;
    for is_related in related {
        let Ok(header) = Header::parse_mut(&mut frame[at..]) else { break };
        if is_related && at > 0 {
            header.set_flags(header.flags() | smb_wire::header::Flags::RELATED_OPERATIONS);
        }
        at += header.next_command() as usize;
    }
    peer.deliver(frame);
}
