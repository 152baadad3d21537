//! The limit of the machine itself: a server that reads a file and sends it, with almost no protocol, and
//! a simple loop that requests blocks ([`plain()`]). The load generator can use the same server
//! (`null://HOST:PORT`). So its own cost can be compared with the loop's, and real servers with the
//! possible rate.
//!
//! A request has 12 bytes: an offset (8 bytes) and a length (4), least significant byte first. The reply
//! is that number of bytes of the file. Replies come in the order of the requests. There is no log-on:
//! everybody who can connect can read the file.

mod plain;
mod server;

pub use plain::{LoopArgs, plain};
pub use server::{Server, ServerArgs};

/// Bytes of a request.
pub(crate) const REQUEST: usize = 12;

/// The most bytes of a reply.
pub(crate) const MAX_LENGTH: u32 = 8 * 1024 * 1024;

/// Appends a request to those that are sent together.
pub(crate) fn put_request(out: &mut Vec<u8>, offset: u64, length: u32) {
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    #[test]
    fn the_file_comes_as_it_was_asked_for_small_and_large() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("file");
        let content: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&file, &content).unwrap();
        let args = ServerArgs { file, listen: "127.0.0.1:0".parse().unwrap() };
        let server = Server::start(&args).unwrap();
        let address = server.address().unwrap();
        thread::spawn(move || server.serve());
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let asked = [(0, 10), (999_990, 10), (7, 300_000), (4096, 4096), (1_000_007, 5)];
        let mut out = Vec::new();
        asked.iter().for_each(|(offset, length)| put_request(&mut out, *offset, *length));
        // In pieces, as they may arrive.
        stream.write_all(&out[..17]).unwrap();
        stream.write_all(&out[17..]).unwrap();
        for (offset, length) in asked {
            let from = offset as usize % content.len();
            let mut got = vec![0; length as usize];
            stream.read_exact(&mut got).unwrap();
            assert!(got == content[from..from + length as usize], "{offset} {length}");
        }
        // A request beyond the end of the file ends the connection.
        let mut out = Vec::new();
        put_request(&mut out, 0, 1_000_001);
        stream.write_all(&out).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}
