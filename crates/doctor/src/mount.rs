//! The state of the kernel's own client for a mounted path: mount options, channels, connections
//! (proc(5), and the kernel's Documentation/filesystems). The functions here read text; only [`look`]
//! reads the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

/// A mounted share or export, as the kernel shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Mount {
    /// cifs, smb3, nfs or nfs4.
    pub kind: String,
    /// The mounted share or export.
    pub source: String,
    /// The mount point.
    pub place: String,
    /// The options in force.
    pub options: Vec<String>,
    /// The address of the server.
    pub address: Option<String>,
    /// The port of the server.
    pub port: u16,
    /// Each connection, as far as the kernel shows them.
    pub connections: Vec<MountConnection>,
    /// The addresses that the server offers, and whether each is connected (SMB).
    pub interfaces: Vec<(String, bool)>,
    /// Requests that were sent again, and all requests (NFS).
    pub sent_again: Option<(u64, u64)>,
    /// The mean time of READ and WRITE on the network, and with waiting, in ms (NFS).
    pub times_ms: Vec<(String, f64, f64)>,
}

/// A connection of the kernel's client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MountConnection {
    /// Whether it is connected.
    pub connected: bool,
    /// Requests that it has carried (NFS).
    pub requests: Option<u64>,
}

impl Mount {
    /// Whether it is an SMB mount.
    #[must_use]
    pub fn is_smb(&self) -> bool {
        matches!(self.kind.as_str(), "cifs" | "smb3")
    }

    /// The value of an option. Empty for an option without a value.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|it| match it.split_once('=') {
            Some((key, value)) => (key == name).then_some(value),
            None => (it == name).then_some(""),
        })
    }

    /// The value of an option as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.option(name)?.parse().ok()
    }

    /// The number of connected connections.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.connections.iter().filter(|it| it.connected).count()
    }
}

/// The mount that `path` is on, if it is SMB or NFS, and whether it responds. Without a response within
/// `patience`, only the kernel's data for the path as it was written is returned, and the waiting thread
/// is abandoned.
pub(crate) async fn look(path: &Path, patience: Duration) -> (Option<Mount>, bool) {
    look_by(path, patience, |path| path.canonicalize().ok()).await
}

/// As [`look`], with a function that may wait for the mount. It returns the path without symbolic links.
async fn look_by(
    path: &Path,
    patience: Duration,
    real: impl FnOnce(&Path) -> Option<PathBuf> + Send + 'static,
) -> (Option<Mount>, bool) {
    let (asked, (done, is_done)) = (path.to_owned(), tokio::sync::oneshot::channel());
    std::thread::spawn(move || {
        let found = real(&asked).and_then(|path| find(&path));
        // The receiver may be gone.
        drop(done.send(found));
    });
    match tokio::time::timeout(patience, is_done).await {
        Ok(found) => (found.ok().flatten(), true),
        Err(_) => (std::path::absolute(path).ok().and_then(|path| of_kernel(&path)), false),
    }
}

/// The mount that `path` is on, found by its name alone.
fn of_kernel(path: &Path) -> Option<Mount> {
    mounted(&fs::read_to_string("/proc/self/mountinfo").ok()?, path.to_str()?)
}

/// As [`of_kernel`], with the state of its connections.
fn find(path: &Path) -> Option<Mount> {
    let mut mount = of_kernel(path)?;
    if mount.is_smb() {
        mount.take_debug_data(&fs::read_to_string("/proc/fs/cifs/DebugData").unwrap_or_default());
    } else {
        mount.take_mountstats(&fs::read_to_string("/proc/self/mountstats").unwrap_or_default());
    }
    Some(mount)
}

/// Decodes the octal escapes of /proc.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        match digits.and_then(|it| u8::from_str_radix(it, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                out.push(byte);
                rest = &behind[3..];
            }
            None => {
                out.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The innermost mount in /proc/self/mountinfo that contains `path`, if it is a share or export.
fn mounted(mountinfo: &str, path: &str) -> Option<Mount> {
    let mut best: Option<(usize, Mount)> = None;
    for line in mountinfo.lines() {
        let Some((before, behind)) = line.split_once(" - ") else { continue };
        let before: Vec<&str> = before.split(' ').collect();
        let behind: Vec<&str> = behind.split(' ').collect();
        let (Some(mount_point), [kind, source, of_super]) = (before.get(4), behind.as_slice()) else {
            continue;
        };
        let mount_point = unescape(mount_point);
        let holds =
            path == mount_point || path.starts_with(&format!("{}/", mount_point.trim_end_matches('/')));
        // A later mount at the same place hides the earlier one.
        if !holds || best.as_ref().is_some_and(|(length, _)| mount_point.len() < *length) {
            continue;
        }
        let own = before.get(5).copied().unwrap_or_default();
        let options: Vec<String> = own.split(',').chain(of_super.split(',')).map(str::to_owned).collect();
        let mut mount = Mount {
            kind: (*kind).to_owned(),
            source: unescape(source),
            place: mount_point.clone(),
            options,
            ..Mount::default()
        };
        mount.address = mount.option("addr").map(str::to_owned);
        let usual = if mount.is_smb() { 445 } else { 2049 };
        mount.port =
            mount.number("port").and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0).unwrap_or(usual);
        best = Some((mount_point.len(), mount));
    }
    best.map(|(_, mount)| mount).filter(|it| it.is_smb() || it.kind.starts_with("nfs"))
}

impl Mount {
    /// Reads the channels and interfaces of the session from /proc/fs/cifs/DebugData.
    fn take_debug_data(&mut self, text: &str) {
        // A mount of a directory below the share includes that directory. Host and share are the parts
        // between the first four slashes.
        let share: Vec<&str> = self.source.split(['/', '\\']).take(4).collect();
        let share = share.join("\\");
        // Each server begins with a number and a ConnectionId at the left edge.
        let mut parts: Vec<Vec<&str>> = Vec::new();
        for line in text.lines() {
            let starts = line.starts_with(|c: char| c.is_ascii_digit()) && line.contains("ConnectionId");
            if starts {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.last_mut() {
                part.push(line);
            }
        }
        let ours = |part: &&Vec<&str>| {
            part.iter().any(|line| line.to_lowercase().contains(&format!("{} mounts:", share.to_lowercase())))
        };
        let Some(part) = parts.iter().find(ours) else { return };
        let mut address = None;
        for line in part.iter().map(|line| line.trim()) {
            if let Some(status) = line.strip_prefix("TCP status: ") {
                let connected = status.split(' ').next() == Some("1");
                self.connections.push(MountConnection { connected, requests: None });
            } else if let Some(found) = line.strip_prefix("IPv4: ").or_else(|| line.strip_prefix("IPv6: ")) {
                address = Some(found.to_owned());
                self.interfaces.push((found.to_owned(), false));
            } else if line == "[CONNECTED]"
                && address.is_some()
                && let Some(last) = self.interfaces.last_mut()
            {
                last.1 = true;
            }
        }
    }

    /// Reads the connections and times of the mount from /proc/self/mountstats.
    fn take_mountstats(&mut self, text: &str) {
        let ours = format!(" mounted on {} with fstype nfs", self.place);
        let mut inside = false;
        let (mut again, mut all) = (0, 0);
        for line in text.lines() {
            if line.starts_with("device ") {
                inside = unescape(line).contains(&ours);
                continue;
            }
            if !inside {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|it| it.parse::<u64>().ok());
            match words.first() {
                Some(&"xprt:") => {
                    self.connections.push(MountConnection { connected: true, requests: number(7) });
                }
                Some(name @ (&"READ:" | &"WRITE:")) => {
                    let (Some(operations), Some(sent)) = (number(1), number(2)) else { continue };
                    again += sent.saturating_sub(operations);
                    all += operations;
                    if let (Some(rtt), Some(whole), true) = (number(7), number(8), operations > 0) {
                        let mean = |sum: u64| sum as f64 / operations as f64;
                        let name = name.trim_end_matches(':').to_lowercase();
                        self.times_ms.push((name, mean(rtt), mean(whole)));
                    }
                }
                _ => {}
            }
        }
        self.sent_again = (all > 0).then_some((again, all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        40 22 0:35 / /mnt/a\\040b rw,relatime shared:20 - cifs //10.0.0.1/docs \
        rw,vers=3.1.1,addr=10.0.0.1,port=4450,rsize=4194304,multichannel,max_channels=4\n\
        41 22 0:36 / /mnt/n rw,relatime - nfs4 10.0.0.2:/x \
        rw,vers=4.2,rsize=1048576,hard,proto=tcp,nconnect=4,addr=10.0.0.2\n";

    const DEBUG_DATA: &str = "Display Internal CIFS Data Structures for Debugging\nServers:\n\
        1) ConnectionId: 0x1 Hostname: 10.0.0.1\nNumber of credits: 389,1,1 Dialect 0x311\nTCP status: 1 \
        Instance: 1\n\n\
        \tSessions:\n\t1) Address: 10.0.0.1 Uses: 1 Capability: 0x300047\tSession Status: 1\n\n\
        \tExtra Channels: 2\n\t\tChannel: 2 ConnectionId: 0x2\n\t\tTCP status: 1 Instance: 1\n\
        \t\tChannel: 3 ConnectionId: 0x3\n\t\tTCP status: 3 Instance: 2\n\n\
        \tShares:\n\t0) IPC: \\\\10.0.0.1\\IPC$ Mounts: 1\n\t1) \\\\10.0.0.1\\docs Mounts: 1 DevInfo: \
        0x20\n\n\
        \tServer interfaces: 2\n\t1)\tSpeed: 10Gbps\n\t\tCapabilities: rss\n\t\tIPv4: \
        10.0.0.1\n\t\t[CONNECTED]\n\
        \t2)\tSpeed: 1Gbps\n\t\tIPv4: 10.9.0.1\n\
        2) ConnectionId: 0x9 Hostname: other\nTCP status: 1 Instance: 1\n\t1) \\\\other\\x Mounts: 1\n";

    const MOUNTSTATS: &str = "device rootfs mounted on / with fstype rootfs\n\
        device 10.0.0.2:/x mounted on /mnt/n with fstype nfs4 statvers=1.1\n\topts:\trw\n\
        \txprt:\ttcp 0 1 2 0 0 100 100 0 100 0 2 0 0\n\txprt:\ttcp 0 1 1 0 0 90 90 0 90 0 2 0 0\n\
        \tper-op statistics\n\t        READ: 10 12 0 1000 2000 5 230 240 0\n\t       WRITE: 0 0 0 0 0 0 0 0 \
        0\n";

    #[test]
    fn the_innermost_mount_counts_and_a_disk_is_none() {
        let mount = mounted(MOUNTINFO, "/mnt/a b/c").unwrap();
        assert_eq!((mount.kind.as_str(), mount.port, mount.place.as_str()), ("cifs", 4450, "/mnt/a b"));
        assert_eq!((mount.number("max_channels"), mount.option("multichannel")), (Some(4), Some("")));
        assert_eq!(mount.address.as_deref(), Some("10.0.0.1"));
        assert!(mounted(MOUNTINFO, "/mnt/ab").is_none() && mounted(MOUNTINFO, "/home").is_none());
        assert_eq!(mounted(MOUNTINFO, "/mnt/n").unwrap().port, 2049);
    }

    #[test]
    fn channels_are_those_of_the_servers_session_with_this_share() {
        let mut mount = mounted(MOUNTINFO, "/mnt/a b").unwrap();
        mount.take_debug_data(DEBUG_DATA);
        assert_eq!((mount.connections.len(), mount.connected()), (3, 2));
        assert_eq!(mount.interfaces, [("10.0.0.1".to_owned(), true), ("10.9.0.1".to_owned(), false)]);
    }

    #[test]
    fn a_mount_of_a_directory_below_the_share_has_the_channels_of_the_share() {
        for source in ["//10.0.0.1/docs/sub", "//10.0.0.1/docs/sub/deep", "//10.0.0.1/docs/"] {
            let mut mount = Mount { source: source.to_owned(), ..Mount::default() };
            mount.take_debug_data(DEBUG_DATA);
            assert_eq!((mount.connections.len(), mount.connected()), (3, 2), "{source}");
        }
        let mut other = Mount { source: "//10.0.0.1/doc".to_owned(), ..Mount::default() };
        other.take_debug_data(DEBUG_DATA);
        assert!(other.connections.is_empty());
    }

    #[tokio::test]
    async fn a_mount_that_does_not_answer_is_not_waited_for() {
        let path = Path::new("/proc/self");
        let stuck = |_: &Path| loop {
            std::thread::park();
        };
        let (found, answers) = look_by(path, Duration::from_millis(20), stuck).await;
        assert!(found.is_none() && !answers);
        let (found, answers) = look(path, Duration::from_secs(20)).await;
        assert!(found.is_none() && answers, "it is neither SMB nor NFS");
    }

    #[test]
    fn an_nfs_mount_shows_each_connection_and_what_was_sent_again() {
        let mut mount = mounted(MOUNTINFO, "/mnt/n").unwrap();
        mount.take_mountstats(MOUNTSTATS);
        let requests: Vec<_> = mount.connections.iter().map(|it| it.requests).collect();
        assert_eq!(requests, [Some(100), Some(90)]);
        assert_eq!(mount.sent_again, Some((2, 10)));
        assert_eq!(mount.times_ms, [("read".to_owned(), 23.0, 24.0)]);
    }
}
