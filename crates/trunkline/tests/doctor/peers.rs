//! Peers that are no server, or one that stops being one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Somebody at an address of this host.
pub struct FaultyPeer {
    address: SocketAddr,
    /// What keeps the port, where nobody accepts.
    _listener: Option<TcpListener>,
}

impl FaultyPeer {
    /// Host and port.
    pub fn place(&self) -> String {
        self.address.to_string()
    }

    fn listen() -> (SocketAddr, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (listener.local_addr().unwrap(), listener)
    }

    /// A port at which nobody listens.
    pub fn closed() -> FaultyPeer {
        let (address, listener) = FaultyPeer::listen();
        drop(listener);
        FaultyPeer { address, _listener: None }
    }

    /// The host takes connections, and nobody says anything.
    pub fn silent() -> FaultyPeer {
        let (address, listener) = FaultyPeer::listen();
        FaultyPeer { address, _listener: Some(listener) }
    }

    /// Each connection is closed at its first message.
    pub fn rude() -> FaultyPeer {
        FaultyPeer::accepting(|mut stream| {
            let _ = stream.read(&mut [0; 4]);
        })
    }

    /// Somebody who speaks something else.
    pub fn chatty() -> FaultyPeer {
        FaultyPeer::accepting(|mut stream| {
            let _ = stream.write_all(b"220 mail.example.org ESMTP at your service\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        })
    }

    /// Hands everything on to `port` of this host and back, until that has sent so many bytes in all; from
    /// then on what is sent is taken and nothing is answered.
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

    /// Hands everything on to `port` of this host and back, each way so much later.
    pub fn distant(port: u16, way: Duration) -> FaultyPeer {
        FaultyPeer::accepting(move |client| {
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
            let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
            thread::spawn(move || carry_later(from_client, to_server, way));
            carry_later(server, client, way);
        })
    }

    /// Hands everything on to `port` of this host and back, so many bytes in a second each way over all
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

/// Carries everything, each piece so much later.
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

/// Carries everything, so many bytes in a second; `free` is when there is room for the next.
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
