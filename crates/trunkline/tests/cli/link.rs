//! A command behind a path that is longer, narrower and less reliable than the host's own. Needs root.
//!
//! These tests check only the minimum duration. The maximum is tested where time is an argument
//! (`load::link::path`).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use testkit::program::ProgramDir;

const MEGABYTE: usize = 1_000_000;

/// Runs `script` in bash behind a path. Returns none, with a message, if the host does not allow that.
fn behind(path: &str, script: &str) -> Option<Output> {
    let can = Command::new("/usr/bin/unshare").args(["--net", "true"]).status();
    if !can.is_ok_and(|status| status.success()) || !std::path::Path::new("/dev/net/tun").exists() {
        // Written directly, since the test harness captures the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED a path ({path}): it takes root and /dev/net/tun");
        return None;
    }
    let program = ProgramDir::new();
    let mut link = program.trunkline(&format!("link {path} --"));
    link.args(["bash", "-c", script]).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Some(link.output().expect("it runs"))
}

/// Sends a megabyte to each of `count` clients. Returns the port, and a thread that returns the time from the
/// first accepted connection to the last byte that was read.
fn sender(count: usize) -> (u16, thread::JoinHandle<Duration>) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let sending = thread::spawn(move || {
        let clients: Vec<_> = (0..count).map(|_| listener.accept().unwrap().0).collect();
        let begin = Instant::now();
        let sending: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                thread::spawn(move || {
                    client.write_all(&vec![7; MEGABYTE]).unwrap();
                    client.shutdown(std::net::Shutdown::Write).unwrap();
                    // Waits until the client has all data and closes. If that segment is lost, it is not sent
                    // again, since the path is gone.
                    client.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
                    let _ = client.read(&mut [0]);
                })
            })
            .collect();
        sending.into_iter().for_each(|one| one.join().unwrap());
        begin.elapsed()
    });
    (port, sending)
}

/// A script that opens `count` connections to the port at once and prints the number of bytes from each.
fn fetch(port: u16, count: usize) -> String {
    format!("for i in $(seq {count}); do wc -c < /dev/tcp/{{host}}/{port} & done; wait")
}

/// The time to transfer `count` megabytes over as many connections.
fn takes(path: &str, count: usize) -> Option<Duration> {
    let (port, sending) = sender(count);
    let output = behind(path, &fetch(port, count))?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{MEGABYTE}\n").repeat(count), "{output:?}");
    assert!(output.status.success(), "{output:?}");
    Some(sending.join().unwrap())
}

#[test]
fn a_line_is_shared_and_a_connection_has_its_own_rate() {
    // 1 MB at 40 Mbit/s takes 200 ms, and the headers add a little.
    let (line, flow) = (takes("--rate 40Mbit", 2), takes("--flow-rate 40Mbit --rtt 2ms", 2));
    let (Some(line), Some(flow)) = (line, flow) else { return };
    assert!(line >= Duration::from_millis(390), "{line:?}");
    assert!(flow >= Duration::from_millis(195), "{flow:?}");
}

#[test]
fn everything_arrives_over_a_path_that_loses_packets() {
    let Some(output) = behind("--loss 0%", "true") else { return };
    assert!(output.status.success(), "{output:?}");
    assert!(takes("--loss 2% --rtt 4ms", 1).is_some());
}

#[test]
fn a_connection_takes_a_round_trip_and_the_commands_end_is_ours() {
    let Some(output) = behind("--rtt 60ms --mtu 9000", "cat /sys/class/net/*/mtu; exit 7") else { return };
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let least = said.split("median, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    assert!(least.is_some_and(|ms| ms >= 60.0), "{said}");
    assert!(said.contains("0 lost as asked for"), "{said}");
}

#[test]
fn nothing_is_left_when_there_is_no_such_command() {
    if behind("--rtt 1ms", "true").is_none() {
        return;
    }
    let program = ProgramDir::new();
    let mut link = program.trunkline("link -- no-such-command-at-all");
    let output = link.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("trunkline: run no-such-command-at-all: No such file or directory"), "{said}");
}
