//! The file in which a virtual server records its connections, for the next owner to reset them.
//!
//! It is text with one line for each connection: the client's address and port, a blank, and the server's
//! address and port. Lines that begin with `#` are comments.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The name of the file in the state directory.
pub const RECORD_NAME: &str = "connections";
/// The most connections that are recorded, and reset.
pub const MOST_RECORDED: usize = 65_536;

/// The name of the next file while it is written.
const NEXT_NAME: &str = "connections.new";
/// The longest line: two addresses of IPv6 with ports, and the blank between them.
const LONGEST_LINE: usize = 128;
const FIRST_LINE: &str = "# client server: the connections that the next owner of this directory resets\n";

/// Records the connections (client, server) in `directory`, in place of those before. The file is replaced as
/// a whole and synced, so a reader after a crash finds one record or the other. The bound is
/// [`MOST_RECORDED`]; the rest is left out.
///
/// # Errors
/// The host's error. The record before stays then.
pub fn write_record(directory: &Path, connections: &[(SocketAddr, SocketAddr)]) -> io::Result<()> {
    let next = directory.join(NEXT_NAME);
    // A name that is not followed is taken away first, whatever it is.
    match std::fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text(connections).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&next, directory.join(RECORD_NAME))?;
    File::open(directory)?.sync_all()
}

fn text(connections: &[(SocketAddr, SocketAddr)]) -> String {
    let mut text = FIRST_LINE.to_owned();
    for (client, server) in connections.iter().take(MOST_RECORDED) {
        // A string takes everything.
        let _never_fails = writeln!(text, "{client} {server}");
    }
    text
}

/// The connections (client, server) that the last owner recorded in `directory`, at most [`MOST_RECORDED`].
/// Lines that make no sense are passed over. None if there is no record.
///
/// # Errors
/// The host's error when the file cannot be read.
pub fn read_record(directory: &Path) -> io::Result<Option<Vec<(SocketAddr, SocketAddr)>>> {
    match File::open(directory.join(RECORD_NAME)) {
        Ok(file) => parse(file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(record: impl Read) -> io::Result<Vec<(SocketAddr, SocketAddr)>> {
    let mut lines = BufReader::new(record.take((LONGEST_LINE * (MOST_RECORDED + 1)) as u64));
    let (mut found, mut line) = (Vec::new(), Vec::new());
    while found.len() < MOST_RECORDED {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        // Without its end a line may be a part of another address.
        found.extend(line.strip_suffix(b"\n").and_then(connection));
    }
    Ok(found)
}

fn connection(line: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (client, server) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((client.parse().ok()?, server.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: usize) -> (SocketAddr, SocketAddr) {
        let client = SocketAddr::from(([10, 77, (number >> 8) as u8, number as u8], 1024));
        (client, "[fd77::50]:445".parse().expect("an address"))
    }

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("trunkline-record-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        path
    }

    #[test]
    fn what_is_written_is_read_and_replaced_as_a_whole() {
        let directory = directory("replaced");
        assert_eq!(read_record(&directory).expect("readable"), None);
        let two = [pair(1), pair(2)];
        write_record(&directory, &two).expect("written");
        assert_eq!(read_record(&directory).expect("readable"), Some(two.to_vec()));
        // What an owner that died in the middle has left does not disturb.
        std::fs::write(directory.join(NEXT_NAME), "10.0.0").expect("written");
        write_record(&directory, &[]).expect("written");
        assert_eq!(read_record(&directory).expect("readable"), Some(Vec::new()));
        let names: Vec<_> = std::fs::read_dir(&directory).expect("listed").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        std::fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn a_record_is_bounded() {
        let many: Vec<_> = (0..MOST_RECORDED + 9).map(pair).collect();
        let text = text(&many);
        assert_eq!(text.lines().count(), MOST_RECORDED + 1);
        let more = format!("{text}10.0.0.1:1 10.0.0.2:2\n");
        assert_eq!(parse(more.as_bytes()).expect("readable"), many[..MOST_RECORDED]);
        // A file without lines is not read for ever.
        assert_eq!(parse(io::repeat(b'7')).expect("readable"), []);
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over_and_so_is_one_that_is_cut_off() {
        let good = "10.77.0.9:51234 10.77.0.50:445";
        let text = format!("{FIRST_LINE}\n\u{fffd}\n10.0.0.1 10.0.0.2\nx {good}\n{good} \n{good}\n{good}");
        let (client, server) = good.split_once(' ').expect("two");
        let expected = (client.parse().expect("a client"), server.parse().expect("a server"));
        assert_eq!(parse(text.as_bytes()).expect("readable"), [expected]);
        for end in 0..good.len() + 1 {
            let cut = format!("{}\n", &good[..end]);
            for (client, server) in parse(cut.as_bytes()).expect("readable") {
                assert!(end >= 28 && client == expected.0 && server.ip() == expected.1.ip(), "{cut}");
            }
        }
        assert_eq!(parse(&[0xff, b' ', 0xff, b'\n'][..]).expect("readable"), []);
    }
}
