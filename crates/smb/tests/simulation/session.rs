//! The client's side of one session: its channels, its ChannelSequence, and the changes of both after the
//! loss of channels (MS-SMB2 3.2.7.1).

use smb_wire::Guid;
use testkit::smb::client::Dial;
use testkit::smb::{Peer, SHARE, SmbTestServer};

use testkit::dice::Dice;

use std::collections::VecDeque;

/// A connection with its messages on their way to the server. Replies on their way back wait in the
/// [`Peer`].
pub struct NetworkLine {
    /// The number of the connection in its history.
    pub number: u64,
    pub peer: Peer,
    pub requests: VecDeque<Vec<u8>>,
    /// The client still takes it for alive. Earlier messages may arrive even if it does not.
    pub is_heard: bool,
}

/// A session over several lines.
pub struct Session {
    pub dial: Dial,
    pub lines: Vec<NetworkLine>,
    pub channel_sequence: u16,
    pub session_id: u64,
    tree_id: u32,
    next_line: u64,
}

impl Session {
    /// Logs on over one line.
    pub fn new(world: &SmbTestServer, guid: Guid) -> Session {
        let dial = Dial { guid, announces_multichannel: true, ..Dial::default() };
        let mut session =
            Session { dial, lines: Vec::new(), channel_sequence: 0, session_id: 0, tree_id: 0, next_line: 0 };
        session.log_on(world);
        session
    }

    /// Logs on again after the loss of the last channel. Lines of the old session may still bring late
    /// requests to the server.
    pub fn log_on(&mut self, world: &SmbTestServer) {
        let dial = Dial { previous_session_id: self.session_id, ..self.dial.clone() };
        let mut peer = world.peer();
        peer.log_on(&dial);
        peer.connect_tree(SHARE);
        (self.session_id, self.tree_id) = (peer.session_id, peer.tree_id);
        self.channel_sequence = 0;
        self.add(peer);
    }

    /// Binds one more channel.
    pub fn bind(&mut self, world: &SmbTestServer) {
        let Some(at) = self.lines.iter().position(|line| line.is_heard) else { return };
        let mut peer = world.bind(&self.dial, &self.lines[at].peer);
        peer.tree_id = self.tree_id;
        self.add(peer);
    }

    fn add(&mut self, mut peer: Peer) {
        peer.holds_jobs = true;
        self.next_line += 1;
        self.lines.push(NetworkLine {
            number: self.next_line,
            peer,
            requests: VecDeque::new(),
            is_heard: true,
        });
    }

    /// The number of lines that the client takes for alive.
    pub fn heard(&self) -> usize {
        self.lines.iter().filter(|line| line.is_heard).count()
    }

    /// One of the lines that match `fits`.
    pub fn pick(&self, dice: &mut Dice, fits: impl Fn(&NetworkLine) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.lines.len()).filter(|&at| fits(&self.lines[at])).collect();
        (!fitting.is_empty()).then(|| fitting[dice.below(fitting.len())])
    }

    /// The client gives a line up. Messages on their way to the server may arrive or not.
    pub fn give_up(&mut self, at: usize) {
        self.lines[at].is_heard = false;
        self.channel_sequence = self.channel_sequence.wrapping_add(1);
    }

    /// The server sees the end of a line.
    pub fn end(&mut self, at: usize) {
        self.lines.remove(at).peer.hang_up();
    }
}
