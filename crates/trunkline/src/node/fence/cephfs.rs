//! The clients of Ceph through which this node writes, and Ceph's blocklist.
//!
//! ceph-fuse tells the address of its client at its admin socket. The next owner of the virtual server puts
//! that address on the blocklist. The storage daemons then refuse it, and the metadata server ends its
//! session by itself. Each mount has an address of its own, so nothing must be lifted when the host returns.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// The longest reply of an admin socket.
const MAX_REPLY: u32 = 1 << 20;
/// The time for a reply.
const PATIENCE: Duration = Duration::from_secs(3);
/// The command of an admin socket that reports the client.
const STATUS: &[u8] = b"{\"prefix\": \"status\", \"format\": \"json\"}\0";

/// The parts of a client's status that count here.
#[derive(Debug, Deserialize)]
struct ClientStatus {
    addr_str: String,
    #[serde(default)]
    blocklisted: bool,
    #[serde(default)]
    metadata: ClientMetadata,
}

#[derive(Debug, Default, Deserialize)]
struct ClientMetadata {
    #[serde(default)]
    mount_point: PathBuf,
}

/// The address of the client that mounts the file system with `dir`, as the blocklist takes it.
///
/// # Errors
/// No such client is found, or it is fenced already.
pub fn client_of(dir: &Path, sockets: &Path) -> anyhow::Result<String> {
    let real = real_path(dir);
    let found = fs::read_dir(sockets)
        .map_err(|error| anyhow::anyhow!("`ceph_sockets` in [node]: {}: {error}", sockets.display()))?;
    let paths = found.flatten().map(|entry| entry.path());
    let clients = paths.filter(|path| path.extension().is_some_and(|end| end == "asok"));
    // Sockets of clients that have ended, and of Ceph's daemons, have no such status.
    let clients = clients.filter_map(|path| status(&path).ok());
    let mounts = clients.filter(|client| real.starts_with(&client.metadata.mount_point));
    // A mount that was made anew leaves the socket of the one before, which the blocklist has.
    let rank = |client: &ClientStatus| (client.metadata.mount_point.as_os_str().len(), !client.blocklisted);
    let Some(client) = mounts.max_by_key(rank) else {
        anyhow::bail!(
            "no client of ceph-fuse in {} mounts {}; set `admin_socket` in ceph.conf, or use \
             fence = \"command\"",
            sockets.display(),
            dir.display()
        );
    };
    if client.blocklisted {
        anyhow::bail!("{} is on Ceph's blocklist: mount {} anew", client.addr_str, dir.display());
    }
    Ok(client.addr_str)
}

/// The real path of a directory, or of the nearest one above it that exists.
fn real_path(dir: &Path) -> PathBuf {
    let existing = dir.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match existing {
        Some((above, real)) => real.join(dir.strip_prefix(above).unwrap_or(Path::new(""))),
        None => dir.to_owned(),
    }
}

/// Asks an admin socket for the status of its client: a command that ends with a zero byte, and a reply after
/// its length in four bytes.
fn status(socket: &Path) -> io::Result<ClientStatus> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(STATUS)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_REPLY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut reply = vec![0; length as usize];
    stream.read_exact(&mut reply)?;
    serde_json::from_slice(&reply).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Serves one reply at a socket, as ceph-fuse does.
    fn serve(socket: &Path, reply: String) {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut command = vec![0; STATUS.len()];
                stream.read_exact(&mut command).unwrap();
                assert_eq!(command, STATUS);
                stream.write_all(&u32::try_from(reply.len()).unwrap().to_be_bytes()).unwrap();
                stream.write_all(reply.as_bytes()).unwrap();
            }
        });
    }

    #[test]
    fn the_client_that_mounts_the_directory_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (sockets, mount) = (dir.path().join("sockets"), dir.path().join("mount"));
        fs::create_dir_all(&sockets).unwrap();
        fs::create_dir_all(mount.join("inner")).unwrap();
        let client = |at: &Path, address: &str, fenced: bool| {
            format!(
                "{{\"addr_str\": \"{address}\", \"blocklisted\": {fenced}, \
                 \"metadata\": {{\"mount_point\": \"{}\"}}}}",
                at.display()
            )
        };
        serve(&sockets.join("a.asok"), client(&mount, "10.0.0.1:0/7", false));
        serve(&sockets.join("b.asok"), client(&mount.join("inner"), "10.0.0.1:0/8", true));
        serve(&sockets.join("c.asok"), "{}".to_owned());
        fs::write(sockets.join("d.asok"), "").unwrap();
        assert_eq!(client_of(&mount.join("not/yet"), &sockets).unwrap(), "10.0.0.1:0/7");
        let fenced = client_of(&mount.join("inner/state"), &sockets).unwrap_err().to_string();
        assert!(fenced.contains("blocklist"), "{fenced}");
        let none = client_of(dir.path(), &sockets).unwrap_err().to_string();
        assert!(none.contains("no client of ceph-fuse"), "{none}");
    }
}
