//! Peers that are not servers, or that stop answering.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A peer at an address of this host that misbehaves.
pub struct FaultyPeer {
    address: SocketAddr,
    /// The listener that keeps the port, for a peer that does not accept.
    _listener: Option<TcpListener>,
}

impl FaultyPeer {
    /// The host and the port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    fn listen() -> (SocketAddr, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (listener.local_addr().unwrap(), listener)
    }

    /// A port on which nobody listens.
    pub fn closed() -> FaultyPeer {
        let (address, listener) = FaultyPeer::listen();
        drop(listener);
        FaultyPeer { address, _listener: None }
    }

    /// A peer that accepts connections and sends nothing.
    pub fn silent() -> FaultyPeer {
        let (address, listener) = FaultyPeer::listen();
        FaultyPeer { address, _listener: Some(listener) }
    }

    /// A peer that closes each connection at its first message.
    pub fn rude() -> FaultyPeer {
        FaultyPeer::accepting(|mut stream| {
            let _ = stream.read(&mut [0; 4]);
        })
    }

    /// A peer that speaks another protocol.
    pub fn chatty() -> FaultyPeer {
        FaultyPeer::accepting(|mut stream| {
            let _ = stream.write_all(b"220 mail.example.org ESMTP at your service\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        })
    }

    /// A proxy to `port` of this host that stops after the server has sent `bytes` bytes in all. From then on
    /// it accepts data and answers nothing.
    pub fn stalling(port: u16, bytes: u64) -> FaultyPeer {
        let sent = Arc::new(AtomicU64::new(0));
        FaultyPeer::accepting(move |client| {
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
            let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
            let up = Arc::clone(&sent);
            thread::spawn(move || carry(from_client, to_server, &up, bytes));
            carry(server, client, &sent, bytes);
        })
    }

    /// A proxy to `port` of this host that delays each direction by `way`.
    pub fn distant(port: u16, way: Duration) -> FaultyPeer {
        FaultyPeer::accepting(move |client| {
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
            let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
            thread::spawn(move || carry_later(from_client, to_server, way));
            carry_later(server, client, way);
        })
    }

    /// A proxy to `port` of this host that limits each direction to `rate` bytes a second, over all
    /// connections.
    pub fn narrow(port: u16, rate: f64) -> FaultyPeer {
        let begun = Instant::now();
        let [up, down] = [(), ()].map(|()| Arc::new(Mutex::new(begun)));
        FaultyPeer::accepting(move |client| {
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
            let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
            let up = Arc::clone(&up);
            thread::spawn(move || carry_slowly(from_client, to_server, &up, rate));
            carry_slowly(server, client, &down, rate);
        })
    }

    fn accepting(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> FaultyPeer {
        let (address, listener) = FaultyPeer::listen();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        FaultyPeer { address, _listener: None }
    }
}

/// Forwards bytes until there are `most` in all, and discards the rest.
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
    // A waiting client does not see the end of the connection.
    let _ = to.set_nonblocking(true);
    std::mem::forget(to);
}

/// Forwards all bytes, with a delay.
fn carry_later(mut from: TcpStream, mut to: TcpStream, way: Duration) {
    let (under_way, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, bytes) in arriving {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut room = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut room) {
        if count == 0 || under_way.send((Instant::now() + way, room[..count].to_vec())).is_err() {
            break;
        }
    }
}

/// Forwards all bytes at a limited rate. `free` is the time when the next piece may be sent.
fn carry_slowly(mut from: TcpStream, mut to: TcpStream, free: &Mutex<Instant>, rate: f64) {
    let mut room = vec![0; 1024];
    while let Ok(count) = from.read(&mut room) {
        let due = {
            let mut free = free.lock().unwrap();
            *free = (*free).max(Instant::now()) + Duration::from_secs_f64(count as f64 / rate);
            *free
        };
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if count == 0 || to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
