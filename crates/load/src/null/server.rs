//! The null server: a thread for each connection that reads and sends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use wire::transfer::UNCOPIED;

use super::{MAX_LENGTH, REQUEST};
use crate::Error;

/// The file and the address of the server.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArgs {
    /// File to send; everybody who can connect can read it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Address to listen at; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
}

/// A server that listens on an address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    file: Arc<File>,
    size: u64,
}

impl Server {
    /// Opens the file and listens.
    ///
    /// # Errors
    /// Those of the host.
    pub fn start(args: &ServerArgs) -> Result<Server, Error> {
        let shown = args.file.display();
        let opened = File::open(&args.file).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (size, file) = opened.map_err(|why| Error::host(format!("opening {shown}"), why))?;
        let listener = TcpListener::bind(args.listen);
        let listener = listener.map_err(|why| Error::host(format!("--listen {}", args.listen), why))?;
        Ok(Server { listener, file: Arc::new(file), size })
    }

    /// The address that it listens at.
    ///
    /// # Errors
    /// Those of the host.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If no connection can be accepted any more.
    pub fn serve(&self) -> Result<(), Error> {
        for stream in self.listener.incoming() {
            let stream = stream.map_err(|why| Error::host("accepting a connection", why))?;
            let (file, size) = (Arc::clone(&self.file), self.size);
            // A client that disconnects is no failure.
            thread::spawn(move || drop(answer(stream, &file, size)));
        }
        Ok(())
    }
}

/// Answers all requests of a connection. Requests that arrive together are answered together.
fn answer(mut stream: TcpStream, file: &File, size: u64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = vec![0; 4096 * REQUEST];
    let mut kept = 0;
    let mut out = Vec::new();
    loop {
        let read = stream.read(&mut requests[kept..])?;
        if read == 0 {
            return Ok(());
        }
        let there = kept + read;
        let whole = there - there % REQUEST;
        for request in requests[..whole].chunks_exact(REQUEST) {
            let (offset, length) = request.split_at(8);
            let offset = offset.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            if length > MAX_LENGTH || u64::from(length) > size {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            let offset = offset % size.max(1);
            let offset = if offset + u64::from(length) > size { 0 } else { offset };
            let length = length as usize;
            if length < UNCOPIED {
                let from = out.len();
                out.resize(from + length, 0);
                file.read_exact_at(&mut out[from..], offset)?;
                continue;
            }
            stream.write_all(&out)?;
            out.clear();
            send(&stream, file, offset, length)?;
        }
        stream.write_all(&out)?;
        out.clear();
        requests.copy_within(whole..there, 0);
        kept = there - whole;
    }
}

fn send(stream: &TcpStream, file: &File, mut offset: u64, mut left: usize) -> io::Result<()> {
    while left > 0 {
        let sent = rustix::fs::sendfile(stream, file, Some(&mut offset), left)?;
        if sent == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= sent;
    }
    Ok(())
}
