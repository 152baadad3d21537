//! The part of `trunkline status` about limited shares.

use std::collections::BTreeMap;

use admin::limits::LimitedShare;

use super::status::table;

/// Appends the table of limited shares. Without limited shares it appends nothing.
pub fn page(limits: &BTreeMap<String, LimitedShare>, out: &mut String) {
    if limits.is_empty() {
        return;
    }
    let rows: Vec<_> = limits.iter().map(|(name, share)| row(name, share)).collect();
    let titles = ["SHARE", "IOPS", "BURST", "CREDITS", "MIB/S", "METADATA", "HELD NOW", "THROTTLED"];
    table("Limited shares", titles, &rows, out);
}

fn row(name: &str, share: &LimitedShare) -> [String; 8] {
    let mib = |bytes: u64| bytes >> 20;
    let (throttled, all) = share.throttled();
    [
        name.to_owned(),
        share.iops.to_string(),
        share.burst_iops.to_string(),
        format!("{} of {}", share.burst_credits, share.max_burst_credits),
        if share.is_together {
            mib(share.ingress_bytes).to_string()
        } else {
            format!("{} in, {} out", mib(share.ingress_bytes), mib(share.egress_bytes))
        },
        share.metadata_iops.to_string(),
        share.held.to_string(),
        format!("{throttled} of {all}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_share_is_a_row_and_none_is_nothing() {
        let mut out = String::new();
        page(&BTreeMap::new(), &mut out);
        assert!(out.is_empty());
        let responses =
            [("Success", 5), ("SuccessWithShareIopsThrottling", 3), ("SuccessWithMetadataWarning", 1)];
        let share = LimitedShare {
            iops: 500,
            burst_iops: 4000,
            burst_credits: 7,
            max_burst_credits: 9,
            ingress_bytes: 44 << 20,
            egress_bytes: 66 << 20,
            held: 2,
            responses: responses.map(|(name, count)| (name.to_owned(), count)).into(),
            ..LimitedShare::default()
        };
        page(&BTreeMap::from([("docs".to_owned(), share)]), &mut out);
        assert!(out.contains("Limited shares: 1\n") && out.contains("  7 of 9   44 in, 66 out  "), "{out}");
        assert!(out.contains("  3 of 9\n"), "{out}");
    }
}
