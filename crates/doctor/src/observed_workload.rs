//! The workload of a share, or of one client on it, from the counts of a Trunkline server.

use admin::Workload;
use admin::transactions::IoCounters;
use admin::workload::ClientWork;
use serde::Serialize;

use crate::AdviseArgs;
use crate::rules::short;

/// The least number of operations that describe a workload.
const LITTLE: u64 = 100;

/// A workload from the counts of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedWorkload {
    /// The share.
    pub share: String,
    /// The client, if one was given.
    pub client: Option<String>,
    /// Reads, writes and operations on names that were counted.
    pub operations: u64,
    /// The percentage of reads among reads and writes.
    pub reads_percent: u32,
    /// The mean size of a read or write in bytes.
    pub bytes: u64,
    /// The percentage of operations that are about names.
    pub names_percent: u32,
    /// The mean number of requests under way at once while there are any, over all connections. `None` if
    /// no client is connected.
    pub under_way: Option<u32>,
    /// The files that are open now.
    pub open_files: u64,
}

impl ObservedWorkload {
    /// The workload of the share and client in `args`.
    ///
    /// # Errors
    /// If there is no such share or client, or if too few operations were counted.
    pub(crate) fn from(workload: &Workload, args: &AdviseArgs) -> Result<ObservedWorkload, String> {
        let mut names: Vec<&str> = workload.shares.iter().map(|it| it.file_share.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let wanted = args.share.as_deref().unwrap_or_default();
        let is_wanted = |name: &str| name.to_lowercase() == wanted.to_lowercase();
        let Some(share) = names.iter().find(|name| is_wanted(name)) else {
            let known = if names.is_empty() { "none was used yet".to_owned() } else { names.join(", ") };
            return Err(format!("--share says which share; used were: {known}"));
        };
        let is_client = |it: &&ClientWork| match &args.client {
            Some(client) => it.client == *client || it.user.eq_ignore_ascii_case(client),
            None => true,
        };
        let on_share = workload.clients.iter().filter(|it| is_wanted(&it.file_share));
        let clients: Vec<&ClientWork> = on_share.clone().filter(is_client).collect();
        let mut work = IoCounters::default();
        if let Some(client) = &args.client {
            if clients.is_empty() {
                let known: Vec<&str> = on_share.map(|it| it.client.as_str()).collect();
                return Err(format!(
                    "no client {client} is connected to {share}; there are: {}",
                    known.join(", ")
                ));
            }
            clients.iter().for_each(|it| work.add(&it.work));
        } else {
            let all = workload.shares.iter().filter(|it| is_wanted(&it.file_share));
            all.for_each(|it| work.add(&it.work));
        }
        ObservedWorkload::of(share, args.client.clone(), &work, &clients)
    }

    fn of(
        share: &str,
        client: Option<String>,
        work: &IoCounters,
        clients: &[&ClientWork],
    ) -> Result<ObservedWorkload, String> {
        let data = work.reads + work.writes;
        let operations = data + work.metadata;
        if operations < LITTLE {
            return Err(format!(
                "only {operations} operations were counted on {share}: let it work for a while first"
            ));
        }
        let percent = |part: u64, of: u64| (part * 100 + of / 2).checked_div(of).unwrap_or(0) as u32;
        let at_once = |it: &&ClientWork| it.at_once_thousandths * it.connections.max(1);
        let thousandths: u64 = clients.iter().map(at_once).sum();
        Ok(ObservedWorkload {
            share: share.to_owned(),
            client,
            operations,
            reads_percent: percent(work.reads, data),
            bytes: (work.read_bytes + work.written_bytes).checked_div(data).unwrap_or(0),
            names_percent: percent(work.metadata, operations),
            under_way: (thousandths > 0).then(|| ((thousandths + 500) / 1000).max(1) as u32),
            open_files: clients.iter().map(|it| it.open_files).sum(),
        })
    }

    /// The workload as options. Open files count as threads, as far as that many operations are under
    /// way.
    pub(crate) fn as_options(&self, args: &AdviseArgs) -> AdviseArgs {
        let mut args = args.clone();
        if let Some(under_way) = self.under_way {
            let files = u32::try_from(self.open_files).unwrap_or(u32::MAX).max(1);
            args.numjobs = under_way.min(files);
            args.iodepth = under_way.div_ceil(args.numjobs);
            args.nrfiles = files;
        }
        if self.bytes > 0 {
            args.bs = self.bytes;
            args.rwmixread = self.reads_percent;
        }
        args.names = self.names_percent;
        args
    }

    /// The workload in one line.
    pub(crate) fn line(&self) -> String {
        let by = self.client.as_ref().map(|it| format!(" by {it}")).unwrap_or_default();
        let depth = match self.under_way {
            Some(depth) => format!("about {depth} under way, {} files open", self.open_files),
            None => "nobody is connected, so --numjobs and --iodepth count".to_owned(),
        };
        format!(
            "counted on {}{by}: {} operations, {} % about names; of reads and writes {} % read, {} KiB each; \
             {depth}",
            self.share,
            self.operations,
            self.names_percent,
            self.reads_percent,
            short(self.bytes as f64 / 1024.0)
        )
    }
}

#[cfg(test)]
mod tests {
    use admin::workload::ShareWork;

    use super::*;
    use crate::testing::asked;

    fn work(reads: u64, writes: u64, metadata: u64) -> IoCounters {
        let (read_bytes, written_bytes) = (reads << 20, writes << 20);
        IoCounters { reads, writes, metadata, read_bytes, written_bytes, ..IoCounters::default() }
    }

    fn counted() -> Workload {
        let share = |name: &str, protocol: &str, work| ShareWork {
            file_share: name.to_owned(),
            protocol: protocol.to_owned(),
            work,
            ..ShareWork::default()
        };
        let client = |address: &str, work, connections, at_once_thousandths, open_files| ClientWork {
            client: address.to_owned(),
            user: "ann".to_owned(),
            file_share: "docs".to_owned(),
            work,
            connections,
            at_once_thousandths,
            open_files,
            ..ClientWork::default()
        };
        Workload {
            shares: vec![
                share("docs", "NFS", work(100, 0, 0)),
                share("docs", "SMB", work(600, 200, 100)),
                share("idle", "SMB", work(1, 0, 0)),
            ],
            clients: vec![
                client("10.0.0.5", work(0, 200, 200), 1, 1200, 1),
                client("10.0.0.6", work(600, 0, 0), 4, 4000, 8),
            ],
            ..Workload::default()
        }
    }

    #[test]
    fn a_share_is_all_that_was_done_on_it_and_a_client_its_own() {
        let all = ObservedWorkload::from(&counted(), &asked("--from . --share DOCS")).unwrap();
        assert_eq!((all.share.as_str(), all.operations, all.names_percent), ("docs", 1000, 10));
        assert_eq!((all.reads_percent, all.bytes, all.under_way, all.open_files), (78, 1 << 20, Some(17), 9));
        let one: AdviseArgs = asked("--from . --share docs --client 10.0.0.5");
        let one = ObservedWorkload::from(&counted(), &one).unwrap().as_options(&one);
        assert_eq!((one.numjobs, one.iodepth, one.nrfiles, one.bs), (1, 1, 1, 1 << 20));
        assert_eq!((one.rwmixread, one.names), (0, 50));
        let options = all.as_options(&asked("--from . --share docs"));
        assert_eq!((options.numjobs, options.iodepth, options.nrfiles), (9, 2, 9));
        assert!(
            all.line().starts_with("counted on docs: 1000 operations, 10 % about names;"),
            "{}",
            all.line()
        );
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is() {
        for (line, wanted) in [
            ("--from .", "used were: docs, idle"),
            ("--from . --share dogs", "used were: docs, idle"),
            ("--from . --share idle", "only 1 operations"),
            ("--from . --share docs --client 10.0.0.9", "there are: 10.0.0.5, 10.0.0.6"),
        ] {
            let why = ObservedWorkload::from(&counted(), &asked(line)).unwrap_err();
            assert!(why.contains(wanted), "{line}: {why}");
        }
        assert!(
            ObservedWorkload::from(&Workload::default(), &asked("--from ."))
                .unwrap_err()
                .contains("none was used yet")
        );
    }

    #[test]
    fn without_anybody_connected_the_options_say_how_much_is_under_way() {
        let mut counted = counted();
        counted.clients.clear();
        let line: AdviseArgs = asked("--from . --share docs --numjobs 3 --iodepth 5");
        let taken = ObservedWorkload::from(&counted, &line).unwrap();
        let options = taken.as_options(&line);
        assert_eq!((taken.under_way, options.numjobs, options.iodepth), (None, 3, 5));
    }
}
