//! Reads the counters of transactions, by share and for those of no share.

use std::collections::BTreeMap;
use std::sync::Arc;

use admin::transactions::{Api, IoCounters, Latency, ShareTransactions, Step};
use share::counts::{AccessPattern, Counts, Distribution, SIZES, Totals, TransactionKind, size_bound};
use share::limits::ResponseType;

use super::exports::Servers;

/// The transactions of the servers and of these engines.
pub fn read<'e>(
    server: &smb::Server,
    nfs: &Servers,
    engines: impl Iterator<Item = &'e Arc<share::Share>>,
) -> Vec<ShareTransactions> {
    let mut all = vec![counted(String::new(), &[Arc::clone(&server.counts)])];
    let of_nfs: Vec<_> = nfs.list().iter().map(|(_, server)| Arc::clone(&server.counts)).collect();
    if !of_nfs.is_empty() {
        all.push(counted(String::new(), &of_nfs));
    }
    for engine in engines {
        let name = engine.name();
        all.extend(engine.all_counts().into_iter().map(|counts| counted(name.clone(), &[counts])));
    }
    all.sort_by(|one, other| (&one.file_share, &one.protocol).cmp(&(&other.file_share, &other.protocol)));
    all
}

/// The sum of the counters of one protocol family.
fn counted(file_share: String, all: &[Arc<Counts>]) -> ShareTransactions {
    let mut result = ShareTransactions { file_share, ..ShareTransactions::default() };
    let mut apis: BTreeMap<(usize, usize), Api> = BTreeMap::new();
    for counts in all {
        let (family, totals) = (counts.family(), counts.read());
        result.protocol = family.name.to_owned();
        result.work.add(&work(&totals.pattern));
        add(family, &totals, &mut apis);
    }
    result.apis = apis.into_values().collect();
    result
}

fn add(family: &share::counts::Family, totals: &Totals, apis: &mut BTreeMap<(usize, usize), Api>) {
    for transactions in &totals.transactions {
        let (operation, authentication) = (transactions.operation, transactions.authentication);
        let name = |names: &[&str], at: usize| names.get(at).map_or_else(String::new, ToString::to_string);
        let api = apis.entry((operation, authentication)).or_insert_with(|| Api {
            api_name: name(family.operations, operation),
            authentication: name(family.authentications, authentication),
            ..Api::default()
        });
        for kind in ResponseType::ALL {
            let count = transactions.with(kind);
            if count > 0 {
                *api.transactions.entry(kind.name().to_owned()).or_default() += count;
            }
        }
        api.ingress += transactions.ingress;
        api.egress += transactions.egress;
        api.success_server_latency.add(&latency(&transactions.took));
        api.success_e2e_latency.add(&latency(&transactions.took_with_sending));
    }
}

fn latency(distribution: &Distribution) -> Latency {
    let steps = distribution.steps().map(|(from_ns, below_ns, count)| Step { from_ns, below_ns, count });
    Latency { count: distribution.count(), sum_ns: distribution.sum_ns, steps: steps.collect() }
}

/// The work of transactions: reads, writes and metadata.
pub fn work(habit: &AccessPattern) -> IoCounters {
    let sizes = |counts: &[u64; SIZES]| {
        let sizes = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        sizes.map(|(at, count)| (size_bound(at), *count)).collect()
    };
    IoCounters {
        reads: habit.operations(TransactionKind::Read),
        writes: habit.operations(TransactionKind::Write),
        metadata: habit.operations(TransactionKind::Metadata),
        others: habit.operations(TransactionKind::Other),
        read_bytes: habit.bytes[0],
        written_bytes: habit.bytes[1],
        read_sizes: sizes(&habit.sizes[0]),
        write_sizes: sizes(&habit.sizes[1]),
    }
}
