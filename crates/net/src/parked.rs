//! Sockets that stay open when a server has stopped.
//!
//! A client whose connection ends looks for the server at once. If the server moves to another node, that
//! node does not serve yet. So the connections stay open until this host no longer has the address. The host
//! then cannot send the end of a connection to anybody, and the next node resets the connections once it
//! serves.

use std::net::TcpStream;

use parking_lot::Mutex;

/// The sockets of a server that has stopped.
#[derive(Debug, Default)]
pub struct ParkedSockets {
    sockets: Mutex<Vec<TcpStream>>,
}

impl ParkedSockets {
    pub(crate) fn park(&self, socket: TcpStream) {
        self.sockets.lock().push(socket);
    }

    /// Closes all sockets. Returns their number.
    pub fn close(&self) -> usize {
        std::mem::take(&mut *self.sockets.lock()).len()
    }
}
