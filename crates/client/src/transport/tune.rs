//! The settings of a connection's socket.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// The receive buffer of a paced connection, in bytes, if the host allows it.
const PACED_BUFFER: usize = 16 * 1024 * 1024;

/// The requirements of a connection on its socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    /// The time of silence after which the connection counts as lost.
    pub(crate) dead_after: Duration,
    /// Whether the connection is slowed down to a rate.
    pub(crate) is_paced: bool,
}

/// Sets up the socket of a new connection.
pub(crate) fn tune(stream: &TcpStream, tuning: Tuning) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    notice_silence(stream, tuning.dead_after)?;
    if tuning.is_paced {
        // Data that waits for its turn waits on the path, not in the server.
        sockopt::set_socket_recv_buffer_size(stream, PACED_BUFFER)?;
    }
    Ok(())
}

/// Makes the host end a connection whose peer is silent for `dead_after`, whether or not bytes wait to be
/// acknowledged.
fn notice_silence(stream: &TcpStream, dead_after: Duration) -> std::io::Result<()> {
    const PROBES: u32 = 3;
    let milliseconds = u32::try_from(dead_after.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, milliseconds)?;
    sockopt::set_socket_keepalive(stream, true)?;
    // The host waits for half of the time, and sends probes during the other half.
    let step = Duration::from_secs((dead_after.as_secs() / 2 / u64::from(PROBES)).max(1));
    sockopt::set_tcp_keepidle(stream, Duration::from_secs((dead_after.as_secs() / 2).max(1)))?;
    sockopt::set_tcp_keepintvl(stream, step)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}
