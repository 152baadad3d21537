//! The cache on a directory of the host while programs of the host change it: the real queue of events, hard
//! links, mappings of memory and moved directories.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::{Caching, Config, Info, Options, Refusal, Share};
use volume::Volume;
use volume::security::Rights;
use volume_posix::PosixVolume;

struct WatchedHostShare {
    temp_dir: tempfile::TempDir,
    client: Client,
    requests: u64,
}

impl WatchedHostShare {
    /// A share on an empty directory; none if the host reports no changes.
    fn new() -> Option<WatchedHostShare> {
        let temp_dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp_dir.path().join("files")).unwrap();
        let volume =
            PosixVolume::open(&temp_dir.path().join("files"), &temp_dir.path().join("beside")).unwrap();
        let config = Config { enforce: false, ..Config::default() };
        let tells = volume.properties().tells_changes;
        let share = Share::open(Arc::new(volume), config).unwrap();
        assert_eq!(share.metadata_caching().on, tells);
        if !tells {
            eprintln!("SKIPPED: this host tells nothing of changes in {}", temp_dir.path().display());
            return None;
        }
        let identity = Arc::new(share::Identity { actor: None, administrator: true, ..(*user(0)).clone() });
        let key = share::ClientKey(1);
        let client = Client { share, key, identity, ears: Arc::default(), details: None };
        Some(WatchedHostShare { temp_dir, client, requests: 0 })
    }

    fn files(&self) -> std::path::PathBuf {
        self.temp_dir.path().join("files")
    }

    /// Runs a script as programs of the host would.
    fn others(&self, script: &str) {
        let done = Command::new("sh").args(["-ec", script]).current_dir(self.files()).status().unwrap();
        assert!(done.success(), "{script}");
    }

    /// Opens a path in a request of its own, a little later than the last.
    fn open(&mut self, at: &str, options: Options) -> Result<Info, Refusal> {
        self.requests += 1;
        let now = now().plus(Duration::from_millis(self.requests));
        let ask = self.client.open(at).access(Rights::READ_DATA | Rights::READ_ATTRIBUTES).options(options);
        let opened = ask.at(now).result()?;
        self.client.share.close(&opened.open, now).unwrap();
        Ok(opened.info)
    }

    /// Checks that every path, in two spellings, leads to the host's file.
    fn check(&mut self, after: &str) {
        for at in ["f", "g", "d/f", "d/g", "d/e/f", "e/f", "D/E/F", "n"] {
            for spelling in [at.to_lowercase(), at.to_uppercase()] {
                let path = self.files().join(at.to_lowercase());
                let expected = std::fs::metadata(path)
                    .ok()
                    .map(|is| (is.ino(), is.size(), is.mode() & 0o7777, is.nlink()));
                let seen = self.open(&spelling, Options::empty());
                let seen = seen.ok().map(|info| (info.id.inode, info.size, info.mode, u64::from(info.links)));
                assert_eq!(seen, expected, "{spelling} after: {after}");
            }
            let seen = self.open(&at.to_lowercase(), Options::EXACT_CASE).ok().map(|info| info.id.inode);
            let expected = std::fs::metadata(self.files().join(at.to_lowercase())).ok().map(|is| is.ino());
            assert_eq!(seen, expected, "exactly {at} after: {after}");
        }
    }
}

#[test]
fn whatever_programs_of_the_host_do_the_next_request_sees_it() {
    let Some(mut served) = WatchedHostShare::new() else { return };
    served.others("mkdir -p d/e; echo 1 > f; echo 22 > d/f; echo 333 > d/e/f");
    for _ in 0..2 {
        for script in [
            "true",
            "echo more >> d/f",
            "chmod 600 f; chmod 640 d/e/f",
            "mv f g",
            "mv d/f f; mv g d/f",
            "echo new > g.tmp; mv g.tmp g",
            "rm g; ln d/f g",
            "echo through another name >> g",
            "mkdir outside; ln d/e/f outside/other; echo x >> outside/other; chmod 604 outside/other",
            "rm -r outside",
            "mv d/e e",
            "mkdir d/e; echo 4 > d/e/f; rm e/f",
            "rmdir e; mv d moved; mkdir d; echo 5 > d/f",
            "rm -r d; mv moved d",
            "mv d/e/f d/e/f2; mv d/e d/e2; mv d/e2 d/e; mv d/e/f2 d/e/f",
            "rm -f g; echo again > g; truncate -s 100 g",
            "ln -s d/e/f n",
            "rm n; mkdir n",
            "rmdir n; rm -rf d/g g",
            "mv -T d d2; mkdir d; mv -T d2 d; : > d/g",
            "rm d/g; chmod 700 d; chmod 755 d",
        ] {
            served.others(script);
            served.check(script);
        }
    }
    let summary = served.client.share.metadata_caching();
    assert!(summary.hits > summary.misses, "{summary:?}");
}

#[test]
fn the_queue_may_overflow() {
    let Some(mut served) = WatchedHostShare::new() else { return };
    served.others("mkdir -p d/e; echo 1 > f; echo 2 > d/f; mkdir many");
    served.check("made");
    assert!(served.open("many", Options::empty()).is_ok());
    let _watched = served.open("many/none", Options::empty());
    // More events than the host's queue and the share take (16,384 and 2 MiB), then the change that is to be
    // seen.
    let many = served.files().join("many");
    let long = "x".repeat(60);
    let script = format!("i=0; while [ $i -lt 17000 ]; do : > {long}$i; i=$((i+1)); done; rm -f *");
    let done = Command::new("sh").args(["-ec", &script]).current_dir(many).status().unwrap();
    assert!(done.success());
    served.others("mv f d/g; mv d/f f; rmdir d/e");
    served.check("an overflow");
}

#[test]
fn data_written_by_a_hard_link_that_is_replaced_at_once_breaks_the_right_to_read() {
    let Some(mut served) = WatchedHostShare::new() else { return };
    let client = &served.client;
    client.share.attach(client.key, client.ears.clone());
    served.check("a start");
    served.others("echo old > f");
    served.check("a new file");
    let kept = served.client.open("f").access(Rights::READ_DATA).keyed(2, Caching::READ).result().unwrap();
    assert_eq!(kept.granted.unwrap().state, Caching::READ);
    served.check("a right to read");
    assert_eq!(served.client.breaks(), []);
    // Nobody reads the events before `link` leads to another file.
    served.others("ln f link; echo new > link; echo other > made; mv made link");
    served.check("a replaced link");
    assert_eq!(served.client.breaks(), [(Caching::READ, Caching::empty(), false)]);
    served.client.close(&kept.open);
}

#[test]
fn what_is_written_through_a_mapping_shows_in_the_times() {
    let Some(mut served) = WatchedHostShare::new() else { return };
    let file = served.files().join("f");
    std::fs::write(&file, vec![1; 4096]).unwrap();
    served.others("touch -d 2020-01-01 f");
    let before = served.open("f", Options::empty()).unwrap();
    // The host does not report this.
    let script = "import mmap,sys; f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0); m[5]=7; m.flush()";
    let done = Command::new("python3").args(["-c", script]).arg(Path::new(&file)).status();
    if !done.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no python3 to map a file with");
        return;
    }
    let after = served.open("f", Options::empty()).unwrap();
    let host = std::fs::metadata(&file).unwrap();
    assert_eq!((after.modified.secs, i64::from(after.modified.nanos)), (host.mtime(), host.mtime_nsec()));
    assert!(after.modified > before.modified);
}

impl WatchedHostShare {
    /// The paths below the share to which descriptors of this process lead.
    fn held(&self) -> Vec<String> {
        let files = self.files().display().to_string();
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        let led = descriptors.filter_map(|one| std::fs::read_link(one.path()).ok());
        let led = led.map(|to| to.display().to_string());
        led.filter(|to| to.strip_prefix(&files).is_some_and(|below| below.starts_with('/'))).collect()
    }

    /// Lets time pass without a request.
    fn is_idle_for(&mut self, seconds: u64) {
        self.requests += seconds * 1000;
        // Each call searches a part of the cache.
        (0..16).for_each(|_| self.client.share.maintain(now().plus(Duration::from_millis(self.requests))));
    }

    /// Repeats a request until a file has this size, for at most a second.
    fn sees(&mut self, at: &str, size: u64) -> bool {
        for _ in 0..100 {
            if self.open(at, Options::empty()).is_ok_and(|info| info.size == size) {
                return true;
            }
            self.client.share.volume().wait_events(Duration::from_millis(10));
        }
        false
    }
}

#[test]
fn what_is_mounted_below_is_seen_and_may_go_when_nobody_uses_it() {
    let Some(mut it) = WatchedHostShare::new() else { return };
    it.others("mkdir -p d/m/deep; echo below >d/m/f; echo below >d/m/deep/f");
    assert!(it.sees("d/m/f", 6) && it.sees("d/m/deep/f", 6));
    let at = it.files().join("d/m");
    let watch = |it: &WatchedHostShare| {
        let open = it.client.open("").access(Rights::READ_DATA).open();
        it.client.share.watch(&open, share::ChangeFilter::all(), true, 1 << 20).unwrap();
        open
    };
    let _before = watch(&it);
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "trunkline-test"])
        .arg(&at)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: nothing can be mounted here");
        return;
    }
    it.others("mkdir d/m/deep; echo 'on top' >d/m/f; echo 'on top' >d/m/deep/f");
    let is_seen = it.sees("d/m/f", 7) && it.sees("d/m/deep/f", 7);
    // A recursive watch does not reach into a mounted file system.
    let _meanwhile = watch(&it);
    it.others("mkdir d/m/deep/made");
    it.is_idle_for(3);
    let unmounted = Command::new("umount").arg(&at).status().unwrap();
    if !unmounted.success() {
        let _ = Command::new("umount").arg("-l").arg(&at).status();
    }
    assert!(is_seen && unmounted.success(), "seen: {is_seen}, {unmounted}");
    assert!(it.sees("d/m/f", 6) && it.sees("d/m/deep/f", 6));
}

#[test]
fn directories_that_are_gone_or_that_nobody_uses_are_let_go() {
    let Some(mut it) = WatchedHostShare::new() else { return };
    it.others("for n in 1 2 3 4; do mkdir -p d$n/e; echo text >d$n/e/f; done");
    for n in 1..=4 {
        it.open(&format!("d{n}/e/f"), Options::empty()).unwrap();
    }
    let of_directories = |it: &WatchedHostShare| it.held().iter().filter(|to| !to.ends_with("/f")).count();
    assert_eq!(of_directories(&it), 16);
    it.others("rm -r d1; mv d2 d5; rm -r d5");
    assert_eq!(it.open("d1/e/f", Options::empty()).unwrap_err(), Refusal::PathNotFound);
    assert!(it.held().iter().all(|to| !to.contains("d1")), "{:?}", it.held());
    it.is_idle_for(21);
    assert_eq!(of_directories(&it), 0, "{:?}", it.held());
    it.open("d3/e/f", Options::empty()).unwrap();
}
