//! Peers that are no server, or one that stops being one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Somebody at an address of this host.
pub struct Peer {
    address: SocketAddr,
    /// What keeps the port, where nobody accepts.
    _listener: Option<TcpListener>,
}

impl Peer {
    /// Host and port.
    pub fn place(&self) -> String {
        self.address.to_string()
    }

    fn listen() -> (SocketAddr, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (listener.local_addr().unwrap(), listener)
    }

    /// A port at which nobody listens.
    pub fn closed() -> Peer {
        let (address, listener) = Peer::listen();
        drop(listener);
        Peer { address, _listener: None }
    }

    /// The host takes connections, and nobody says anything.
    pub fn silent() -> Peer {
        let (address, listener) = Peer::listen();
        Peer { address, _listener: Some(listener) }
    }

    /// Each connection is closed at its first message.
    pub fn rude() -> Peer {
        Peer::accepting(|mut stream| {
            let _ = stream.read(&mut [0; 4]);
        })
    }

    /// Somebody who speaks something else.
    pub fn chatty() -> Peer {
        Peer::accepting(|mut stream| {
            let _ = stream.write_all(b"220 mail.example.org ESMTP at your service\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        })
    }

    /// Hands everything on to `port` of this host and back, until that has sent so many bytes in all; from then on what
    /// is sent is taken and nothing is answered.
    pub fn stalling(port: u16, bytes: u64) -> Peer {
        let sent = Arc::new(AtomicU64::new(0));
        Peer::accepting(move |client| {
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
            let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
            let up = Arc::clone(&sent);
            thread::spawn(move || carry(from_client, to_server, &up, bytes));
            carry(server, client, &sent, bytes);
        })
    }

    fn accepting(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Peer {
        let (address, listener) = Peer::listen();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        Peer { address, _listener: None }
    }
}

/// Carries bytes until there are `most` in all, and takes the rest.
fn carry(mut from: TcpStream, mut to: TcpStream, sent: &AtomicU64, most: u64) {
    let mut room = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut room) {
        if count == 0 {
            break;
        }
        if sent.fetch_add(count as u64, Ordering::Relaxed) < most && to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    // Nobody who waits hears of the end.
    let _ = to.set_nonblocking(true);
    std::mem::forget(to);
}
