//! Writes one line of JSON for each request, or for a sample of them, to a file: `records` in `[admin]`.
//!
//! Connections make the lines of their records (`share::counts::record`) and copy them into the queue of a
//! stream (`serve::lines`), which they never wait for.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use admin::status::Records as Shown;
use share::counts::{Record, RecordSink, Recorder, TransactionKind};

use crate::config::{Admin, file_error};
use crate::serve::lines::LineStream;
use crate::serve::lines::file::{LineFile, Rotation};
use crate::serve::lines::json::JsonLine;

/// Memory for lines that are not written yet. Further ones are dropped and counted.
const ROOM: usize = 16 << 20;
/// The number of old files.
const KEPT: u32 = 4;

thread_local! {
    /// The line that this thread makes.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The log of requests.
pub struct Records {
    recorder: Arc<Recorder>,
    stream: Arc<LineStream>,
    path: PathBuf,
}

/// Puts records into the stream.
struct Lines(Arc<LineStream>);

impl RecordSink for Lines {
    fn put(&self, record: &Record) {
        LINE.with_borrow_mut(|line| {
            line.clear();
            write(record, net::now(), line);
            self.0.put(line);
        });
    }
}

impl Records {
    /// Starts the log, if it is configured.
    ///
    /// # Errors
    /// One line for the user.
    pub fn start(wanted: &Admin) -> Result<Option<Records>, String> {
        let Some(path) = wanted.records.as_ref().map(|path| path.value.clone()) else { return Ok(None) };
        let max_bytes = wanted.records_max_mib.value << 20;
        let file = LineFile::open(&path, Rotation { max_bytes, max_age: None, keep: KEPT }).map_err(|e| {
            format!(
                "`records` in [admin]: {}: {}; give another path, or make its directory",
                path.display(),
                file_error(&path, &e)
            )
        })?;
        // The file has lines of one kind only. The status tells how many were lost.
        let stream = LineStream::start("records", Box::new(file), ROOM, None)
            .map_err(|e| format!("no thread for `records`: {e}"))?;
        let sink = Box::new(Lines(Arc::clone(&stream)));
        let recorder = Recorder::new(wanted.records_sample.value, wanted.records_paths.value, sink);
        Ok(Some(Records { recorder, stream, path }))
    }

    /// The recorder to which connections pass their records.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// The state of the log for the status.
    pub fn shown(&self) -> Shown {
        Shown {
            path: self.path.display().to_string(),
            written: self.stream.written(),
            lost: self.stream.lost(),
        }
    }

    /// Writes the remaining records and stops.
    pub fn stop(&self) {
        self.stream.stop();
    }
}

/// The category in Azure's resource logs, by the groups of its bill. Over SMB nothing is a delete (that is a
/// SetInfo or a Close), and a listing is a read.
fn category(operation: &str) -> &'static str {
    match operation {
        "REMOVE" => "StorageDelete",
        "Create" | "SetInfo" | "Write" | "Flush" => "StorageWrite",
        "OPEN" | "CREATE" | "SETATTR" | "WRITE" | "COMMIT" | "RENAME" | "LINK" | "ALLOCATE"
        | "DEALLOCATE" | "COPY" | "CLONE" | "SETXATTR" | "REMOVEXATTR" => "StorageWrite",
        _ => "StorageRead",
    }
}

/// The share at the server's address, and the path in it if it is known. None for a request to no share.
fn uri(record: &Record) -> Option<String> {
    let share = record.share.as_deref()?;
    let (scheme, server) = (record.family.name.to_lowercase(), record.about.server);
    let path = record.about.path.as_deref().map(|path| format!("/{}", path.trim_start_matches('/')));
    Some(format!("{scheme}://{server}/{share}{}", path.unwrap_or_default()))
}

/// A record as a line of the file. The names are those of Azure's resource logs, if they have one.
fn write(record: &Record, now: wire::Now, out: &mut Vec<u8>) {
    let Record { share, family, noted, arrived_ns, server_ns, whole_ns, about } = record;
    let ago_ns = now.mono_ns.saturating_sub(*arrived_ns);
    let time = now.wall_ns.saturating_sub(i64::try_from(ago_ns).unwrap_or(i64::MAX));
    let name = |names: &[&'static str], at: u8| names.get(usize::from(at)).copied().unwrap_or_default();
    let kind = match noted.kind {
        TransactionKind::Read => "read",
        TransactionKind::Write => "write",
        TransactionKind::Metadata => "metadata",
        TransactionKind::Other => "other",
    };
    let mut line = JsonLine::begin(out);
    line.time("time", time);
    line.text("protocol", family.name);
    line.text_or_null("operationVersion", about.version);
    line.text("operationName", name(family.operations, noted.operation));
    line.text("category", category(name(family.operations, noted.operation)));
    line.text("kind", kind);
    line.text_or_null("fileShare", share.as_deref());
    line.text_or_null("uri", uri(record).as_deref());
    line.display("callerIpAddress", about.client);
    line.text("identityType", name(family.authentications, noted.authentication));
    line.display("statusCode", format_args!("{:#x}", about.status));
    line.text("statusText", &about.status_text);
    line.text("metricResponseType", noted.response.name());
    for (key, ns) in [("serverLatencyMs", server_ns), ("durationMs", whole_ns)] {
        match ns {
            Some(ns) => line.raw(key, *ns as f64 / 1e6),
            None => line.raw(key, "null"),
        }
    }
    line.number("requestSize", noted.ingress);
    line.number("responseSize", noted.egress);
    line.number("dataSize", noted.data);
    for (key, number) in &about.numbers {
        // Most readers of JSON lose digits beyond 53 bits.
        match *number < 1 << 53 {
            true => line.number(key, *number),
            false => line.display(key, format_args!("{number:#x}")),
        }
    }
    for (key, word) in &about.words {
        line.text(key, word);
    }
    line.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
