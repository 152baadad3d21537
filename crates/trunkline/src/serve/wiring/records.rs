//! One line of JSON for each request, or for one of so many, in a file: `records` in `[admin]`.
//!
//! Connections put records into a bounded queue and never wait for it (`share::counts::record`); a thread of its own takes
//! them out and writes them. A file that has its size gets a number behind its name, and the oldest one goes.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use admin::status::Records as Shown;
use serde_json::{Map, Value, json};
use share::counts::{Record, Recorder, TransactionKind};

use super::locks::held;
use crate::calendar::rfc3339;
use crate::config::{Admin, os_error};

/// Records that wait to be written; those beyond are lost and counted.
const ROOM: usize = 1 << 14;
/// How long a line may stay in memory when no other comes.
const FLUSHED_AFTER: Duration = Duration::from_secs(1);
/// Old files that are kept beside the one that is written.
const KEPT: u32 = 4;

/// What is recorded.
pub struct Records {
    recorder: Arc<Recorder>,
    written: Arc<AtomicU64>,
    path: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Records {
    /// Begins to write what is recorded, if anything is to be.
    ///
    /// # Errors
    /// One line for the user.
    pub fn start(wanted: &Admin) -> Result<Option<Records>, String> {
        let Some(path) = wanted.records.as_ref().map(|path| path.value.clone()) else { return Ok(None) };
        let (sample, most) = (wanted.records_sample.value, wanted.records_max_mib.value << 20);
        let lines = Lines::open(&path, most).map_err(|e| {
            format!(
                "`records` in [admin]: {}: {}; give another path, or make its directory",
                path.display(),
                os_error(&e)
            )
        })?;
        let (recorder, taken) = Recorder::new(sample, ROOM, wanted.records_paths.value);
        let (written, ends) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counts, until) = (Arc::clone(&written), Arc::clone(&ends));
        let thread = std::thread::Builder::new().name("trunkline-record".to_owned());
        let thread = thread.spawn(move || write_all(lines, &taken, &counts, &until));
        let thread = thread.map_err(|e| format!("no thread for `records`: {e}"))?;
        Ok(Some(Records { recorder, written, path, ends, thread: Mutex::new(Some(thread)) }))
    }

    /// Where connections put their records.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// For status.
    pub fn shown(&self) -> Shown {
        Shown {
            path: self.path.display().to_string(),
            written: self.written.load(Ordering::Relaxed),
            lost: self.recorder.lost(),
        }
    }

    /// Writes what is there still, and ends.
    pub fn stop(&self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = held(&self.thread).take() {
            // What it could not write is counted and said already.
            let _ = thread.join();
        }
    }
}

/// Writes what comes until it is to end and nothing is left.
fn write_all(mut lines: Lines, taken: &Receiver<Record>, written: &AtomicU64, ends: &AtomicBool) {
    let mut has_failed = false;
    let mut note = |done: std::io::Result<()>| {
        if let Err(error) = &done
            && !has_failed
        {
            tracing::warn!(%error, "requests are not recorded: the file cannot be written; said once");
        }
        has_failed = done.is_err();
        done.is_ok()
    };
    loop {
        let patience = if ends.load(Ordering::Acquire) { Duration::ZERO } else { FLUSHED_AFTER };
        match taken.recv_timeout(patience) {
            Ok(record) => {
                if note(lines.put(&line(&record, net::now()))) {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(RecvTimeoutError::Timeout) if !patience.is_zero() => {
                note(lines.flush());
            }
            Err(_) => {
                note(lines.flush());
                return;
            }
        }
    }
}

/// The category of Azure's resource logs: by the groups of its bill, over SMB nothing is a delete (that is a SetInfo or a
/// Close) and a listing is a read.
fn category(operation: &str) -> &'static str {
    match operation {
        "REMOVE" => "StorageDelete",
        "Create" | "SetInfo" | "Write" | "Flush" => "StorageWrite",
        "OPEN" | "CREATE" | "SETATTR" | "WRITE" | "COMMIT" | "RENAME" | "LINK" | "ALLOCATE"
        | "DEALLOCATE" | "COPY" | "CLONE" | "SETXATTR" | "REMOVEXATTR" => "StorageWrite",
        _ => "StorageRead",
    }
}

/// The share at the server's address, and what is known of where in it; nothing where it was of no share.
fn uri(record: &Record) -> Option<String> {
    let share = record.share.as_deref()?;
    let (scheme, server) = (record.family.name.to_lowercase(), record.about.server);
    let path = record.about.path.as_deref().map(|path| format!("/{}", path.trim_start_matches('/')));
    Some(format!("{scheme}://{server}/{share}{}", path.unwrap_or_default()))
}

/// A record as it stands in the file. The names are those of Azure's resource logs where they have one.
fn line(record: &Record, now: wire::Now) -> String {
    let Record { share, family, noted, arrived_ns, server_ns, whole_ns, about } = record;
    let ago_ns = now.mono_ns.saturating_sub(*arrived_ns);
    let time = now.wall_ns.saturating_sub(i64::try_from(ago_ns).unwrap_or(i64::MAX));
    let name = |names: &[&'static str], at: u8| names.get(usize::from(at)).copied().unwrap_or_default();
    let ms = |ns: &Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    let kind = match noted.kind {
        TransactionKind::Read => "read",
        TransactionKind::Write => "write",
        TransactionKind::Metadata => "metadata",
        TransactionKind::Other => "other",
    };
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
    put("time", json!(rfc3339(time)));
    put("protocol", json!(family.name));
    put("operationVersion", json!(about.version));
    put("operationName", json!(name(family.operations, noted.operation)));
    put("category", json!(category(name(family.operations, noted.operation))));
    put("kind", json!(kind));
    put("fileShare", json!(share.as_deref()));
    put("uri", json!(uri(record)));
    put("callerIpAddress", json!(about.client.to_string()));
    put("identityType", json!(name(family.authentications, noted.authentication)));
    put("statusCode", json!(format!("{:#x}", about.status)));
    put("statusText", json!(about.status_text));
    put("metricResponseType", json!(noted.response.name()));
    put("serverLatencyMs", json!(ms(server_ns)));
    put("durationMs", json!(ms(whole_ns)));
    put("requestSize", json!(noted.ingress));
    put("responseSize", json!(noted.egress));
    put("dataSize", json!(noted.data));
    for (key, number) in &about.numbers {
        // Beyond 53 bits most readers of JSON lose some.
        let is_exact = *number < 1 << 53;
        put(key, if is_exact { json!(number) } else { json!(format!("{number:#x}")) });
    }
    for (key, word) in &about.words {
        all.insert((*key).to_owned(), json!(word));
    }
    Value::Object(all).to_string()
}

/// A file of lines that is put aside when it has its size.
struct Lines {
    path: PathBuf,
    most: u64,
    len: u64,
    file: BufWriter<File>,
}

impl Lines {
    fn open(path: &Path, most: u64) -> std::io::Result<Lines> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let len = file.metadata()?.len();
        Ok(Lines { path: path.to_owned(), most, len, file: BufWriter::new(file) })
    }

    fn put(&mut self, line: &str) -> std::io::Result<()> {
        let len = line.len() as u64 + 1;
        if self.len > 0 && self.len + len > self.most {
            self.turn()?;
        }
        self.len += len;
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }

    /// Begins a new file.
    fn turn(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        for number in (1..KEPT).rev() {
            // There may be fewer of them yet.
            let _ = std::fs::rename(self.aside(number), self.aside(number + 1));
        }
        std::fs::rename(&self.path, self.aside(1))?;
        *self = Lines::open(&self.path, self.most)?;
        Ok(())
    }

    fn aside(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_put_aside_at_their_size_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let mut lines = Lines::open(&path, 10).unwrap();
        for text in
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "longer than a file"]
        {
            lines.put(text).unwrap();
        }
        lines.flush().unwrap();
        let names = ["r.jsonl", "r.jsonl.1", "r.jsonl.2", "r.jsonl.3", "r.jsonl.4", "r.jsonl.5"];
        let read = names.map(|name| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default());
        let wanted = ["longer than a file\n", "nine\n", "eight\n", "six\nseven\n", "four\nfive\n", ""];
        assert_eq!(read, wanted);
        drop(lines);
        let again = Lines::open(&path, 10).unwrap();
        assert_eq!(again.len, 19, "a file that is there is gone on with");
    }

    #[test]
    fn operations_have_the_categories_of_the_bill() {
        let all = ["Create", "Flush", "QueryDirectory", "Close", "OPEN", "REMOVE", "READ"].map(category);
        let [write, read, delete] = ["StorageWrite", "StorageRead", "StorageDelete"];
        assert_eq!(all, [write, write, read, read, write, delete, read]);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused_with_the_setting() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[admin]\nrecords = \"{}/no/r\"\n", dir.path().display());
        let config = crate::config::read::parse("t", &text, Path::new("/")).unwrap();
        let error = Records::start(&config.admin).err().unwrap();
        assert!(
            error.starts_with("`records` in [admin]: ") && error.ends_with("or make its directory"),
            "{error}"
        );
        let config = crate::config::read::parse("t", "", Path::new("/")).unwrap();
        assert!(Records::start(&config.admin).unwrap().is_none());
    }
}
