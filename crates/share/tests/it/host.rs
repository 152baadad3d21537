//! Actions of programs of the host on files that clients have open, and their visible effects. Share modes
//! and locks of neither side bind the other. Files that the host has put somewhere stay or are removed as
//! SEMANTICS.md says.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::common::*;
use share::{Attributes, Config, Deny, LockRule, Options, RangeKind, RangeRequest, Refusal, Share};
use volume::security::Rights;
use volume_posix::PosixVolume;

/// A share on a directory of the host, and a client with all rights there.
struct HostedShare {
    temp_dir: tempfile::TempDir,
    client: Client,
}

impl HostedShare {
    fn new() -> HostedShare {
        let temp_dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp_dir.path().join("files")).unwrap();
        let volume =
            PosixVolume::open(&temp_dir.path().join("files"), &temp_dir.path().join("beside")).unwrap();
        let share = Share::open(Arc::new(volume), Config { enforce: false, ..Config::default() }).unwrap();
        let identity = Arc::new(share::Identity { actor: None, administrator: true, ..(*user(0)).clone() });
        let client =
            Client { share, key: share::ClientKey(1), identity, ears: Arc::default(), details: None };
        HostedShare { temp_dir, client }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.temp_dir.path().join("files").join(path)
    }

    /// Whether a program of the host may lock the whole of `f` with flock(1).
    fn may_lock(&self) -> bool {
        let mut command = Command::new("flock");
        command.args(["-n", "-x"]).arg(self.at("f")).arg("true").status().unwrap().success()
    }

    /// A program of the host that holds a lock on `f` until its input ends.
    fn locks(&self) -> Child {
        let mut command = Command::new("flock");
        command.args(["-x"]).arg(self.at("f")).args(["sh", "-c", "echo has it; read line"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut told).unwrap();
        child
    }
}

#[test]
fn programs_of_the_host_are_not_bound_by_share_modes_and_deny_nothing() {
    let served = HostedShare::new();
    let client = &served.client;
    client.make_with("f", "clients");
    let alone = client.open("f").deny(Deny::all()).open();
    std::fs::write(served.at("f"), "the host's").unwrap();
    assert_eq!(client.read(&alone).unwrap(), "the host's");
    client.close(&alone);
    let kept = std::fs::File::options().read(true).write(true).open(served.at("f")).unwrap();
    let alone = client.open("f").deny(Deny::all()).open();
    client.write(&alone, 0, "clients'  ").unwrap();
    drop(kept);
    assert_eq!(std::fs::read_to_string(served.at("f")).unwrap(), "clients'  ");
}

#[test]
fn ranges_of_clients_and_locks_of_the_host_do_not_see_each_other() {
    let served = HostedShare::new();
    let client = &served.client;
    client.make_with("f", "text");
    let open = client.open("f").open();
    let owner = client.owner(&open);
    let range = [RangeRequest { start: 0, len: u64::MAX, kind: RangeKind::Exclusive }];
    let lock = || client.call(|c| client.share.lock(c, &open, owner, LockRule::Exact, &range));
    lock().unwrap();
    assert!(served.may_lock());
    client.share.unlock(&open, owner, LockRule::Exact, &range).unwrap();
    let mut program = served.locks();
    assert!(!served.may_lock(), "another program of the host is kept out");
    lock().unwrap();
    client.write(&open, 0, "more").unwrap();
    drop(program.stdin.take());
    program.wait().unwrap();
}

#[test]
fn a_directory_into_which_the_host_has_put_something_stays() {
    let served = HostedShare::new();
    let client = &served.client;
    client.make_directory("d");
    let open = client.open("d").open();
    client.set_delete(&open, true).unwrap();
    std::fs::write(served.at("d/put"), "text").unwrap();
    client.close(&open);
    assert_eq!(client.names_in("d"), ["put"]);
    // Nothing is left of the mark.
    client.make_with("d/made", "text");
}

#[test]
fn what_the_host_has_put_by_a_marked_name_goes_with_it() {
    let served = HostedShare::new();
    let client = &served.client;
    client.make_with("f", "clients");
    let open = client.open("f").open();
    client.set_delete(&open, true).unwrap();
    std::fs::rename(served.at("f"), served.at("kept")).unwrap();
    std::fs::write(served.at("f"), "the host's").unwrap();
    client.close(&open);
    assert_eq!(client.names_in(""), ["kept"]);
}

#[test]
fn a_mode_that_lets_nobody_write_shows_as_read_only() {
    let served = HostedShare::new();
    let client = &served.client;
    client.make_with("f", "text");
    let shown = || client.open("f").access(Rights::READ_ATTRIBUTES).result().unwrap().info.attributes;
    assert!(!shown().contains(Attributes::READ_ONLY));
    for (mode, expected) in [("444", true), ("0", true), ("244", false), ("460", false), ("644", false)] {
        assert!(Command::new("chmod").arg(mode).arg(served.at("f")).status().unwrap().success());
        assert_eq!(shown().contains(Attributes::READ_ONLY), expected, "{mode}");
    }
    assert!(Command::new("chmod").arg("444").arg(served.at("f")).status().unwrap().success());
    assert_eq!(client.open("f").access(WRITE).refusal(), Refusal::AccessDenied);
}

/// Sets a flag on a file or directory of the host, and clears it at the end so that the test's directory can
/// be removed.
struct Flags<'a>(&'a std::path::Path, &'a str);

impl<'a> Flags<'a> {
    /// `None` if the test may not set it.
    fn set(at: &'a std::path::Path, flag: &'a str) -> Option<Flags<'a>> {
        let is_set = Command::new("chattr").arg(format!("+{flag}")).arg(at).stderr(Stdio::null()).status();
        if !is_set.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: chattr +{flag} {}", at.display());
            return None;
        }
        Some(Flags(at, flag))
    }
}

impl Drop for Flags<'_> {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg(format!("-{}", self.1)).arg(self.0).status();
    }
}

// MS-FSA 2.1.5.15.3: it is too late to say so when the last open is closed.
#[test]
fn what_the_host_lets_nobody_remove_is_refused_when_it_is_asked_for() {
    for (fixed, flag) in [("d/f", "i"), ("d/f", "a"), ("d", "i"), ("d", "a")] {
        let served = HostedShare::new();
        std::fs::create_dir(served.at("d")).unwrap();
        std::fs::write(served.at("d/f"), "text").unwrap();
        let fixed = served.at(fixed);
        let Some(flags) = Flags::set(&fixed, flag) else { return };
        let client = &served.client;
        let open = client.open("d/f").access(Rights::DELETE).open();
        let refused = client.set_delete(&open, true);
        assert_eq!(refused, Err(Refusal::AccessDenied), "{flag} of {}", fixed.display());
        client.close(&open);
        let refused = client.open("d/f").access(Rights::DELETE).options(Options::DELETE_ON_CLOSE).refusal();
        assert_eq!(refused, Refusal::AccessDenied, "{flag} of {}", fixed.display());
        drop(flags);
    }
}

// MS-FSA 2.1.5.5: the deletion is of whoever asked for it, not of whoever closes last.
#[test]
fn whoever_closes_last_removes_on_behalf_of_whoever_marked_the_file() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root acts for others");
        return;
    }
    let served = HostedShare::new();
    let share = &served.client.share;
    for (directory, by_open) in [("by request", false), ("by open", true)] {
        let file = format!("{directory}/f");
        std::fs::create_dir(served.at(directory)).unwrap();
        std::fs::write(served.at(&file), "text").unwrap();
        std::os::unix::fs::chown(served.at(directory), Some(1000), None).unwrap();
        std::os::unix::fs::chown(served.at(&file), Some(1000), None).unwrap();
        let client = |number: u32| Client {
            share: Arc::clone(share),
            key: share::ClientKey(number.into()),
            identity: user(number),
            ears: Arc::default(),
            details: None,
        };
        let (owner, reader) = (client(1000), client(1001));
        let reading = reader.open(&file).access(Rights::READ_DATA).open();
        let options = if by_open { Options::DELETE_ON_CLOSE } else { Options::empty() };
        let deleting = owner.open(&file).access(Rights::DELETE).options(options).open();
        if !by_open {
            owner.set_delete(&deleting, true).unwrap();
        }
        owner.close(&deleting);
        assert!(served.at(&file).exists());
        reader.close(&reading);
        assert!(!served.at(&file).exists(), "{directory}");
    }
}
