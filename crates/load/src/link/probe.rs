//! The path as a connection sees it: the time that a connection takes.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::Error;

/// The most connections, and the most time for all of them.
const MOST: usize = 20;
const TIME: Duration = Duration::from_secs(2);

/// The listener that connections are made to.
#[derive(Debug)]
pub(super) struct Target(TcpListener);

impl Target {
    /// Listens. Nobody needs to accept the connections: the host completes them.
    pub(super) fn listen(host: IpAddr) -> Result<Target, Error> {
        TcpListener::bind((host, 0)).map(Target).map_err(|why| Error::host(format!("listen on {host}"), why))
    }

    fn address(&self) -> Result<SocketAddr, Error> {
        self.0.local_addr().map_err(|why| Error::host("ask for the address of a listener", why))
    }

    /// The times that some connections took, the shortest first. Call it in the namespace of the command.
    pub(super) fn connect(&self, rtt: Duration) -> Result<Vec<Duration>, Error> {
        let address = self.address()?;
        let begin = Instant::now();
        let mut taken = Vec::with_capacity(MOST);
        while taken.len() < MOST && (taken.len() < 3 || begin.elapsed() < TIME) {
            let start = Instant::now();
            // If the first packet is lost, it is sent again after a second.
            TcpStream::connect_timeout(&address, rtt + Duration::from_secs(10))
                .map_err(|why| Error::host(format!("connect to {address} over the link"), why))?;
            taken.push(start.elapsed());
        }
        taken.sort_unstable();
        Ok(taken)
    }
}
