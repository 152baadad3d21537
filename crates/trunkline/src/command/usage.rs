//! The part of `trunkline status` about the space used on shares that have a size.

use std::collections::BTreeMap;

use admin::usage::UsedShare;

use super::status::table;

/// Appends the table of sizes. If no share has a size, it appends nothing.
pub fn page(usage: &BTreeMap<String, UsedShare>, out: &mut String) {
    if usage.is_empty() {
        return;
    }
    let rows: Vec<_> = usage.iter().map(|(name, share)| row(name, share)).collect();
    table("Sizes of shares", ["SHARE", "SIZE", "USED", "PART", "FILES", "COUNTED"], &rows, out);
}

fn row(name: &str, share: &UsedShare) -> [String; 6] {
    let part = |quota: u64| format!("{:.1} %", share.bytes as f64 * 100.0 / quota.max(1) as f64);
    [
        name.to_owned(),
        share.quota_bytes.map_or_else(|| "-".to_owned(), gib),
        gib(share.bytes),
        share.quota_bytes.map_or_else(|| "-".to_owned(), part),
        share.files.to_string(),
        counted(share),
    ]
}

/// How far the used space is counted.
fn counted(share: &UsedShare) -> String {
    let again = match share.counting {
        Some(so_far) => format!("counting, {so_far} of about {} files", share.files.max(so_far)),
        None if share.counted == 0 => "not since the start".to_owned(),
        None => "all".to_owned(),
    };
    match share.unreadable {
        0 => again,
        some => format!("{again}; {some} may not be read"),
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.3} GiB", bytes as f64 / f64::from(1_u32 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_with_a_size_is_a_row_and_none_is_nothing() {
        let mut out = String::new();
        page(&BTreeMap::new(), &mut out);
        assert!(out.is_empty());
        let share = UsedShare {
            quota_bytes: Some(100 << 30),
            bytes: 25 << 30,
            files: 70,
            counted: 1,
            ..UsedShare::default()
        };
        let again = UsedShare { counting: Some(30), ..share.clone() };
        let first = UsedShare { quota_bytes: None, counted: 0, unreadable: 2, ..share.clone() };
        page(
            &BTreeMap::from([("a", share), ("b", again), ("c", first)].map(|(n, s)| (n.to_owned(), s))),
            &mut out,
        );
        assert!(out.contains("Sizes of shares: 3\n"), "{out}");
        for wanted in [
            "100.000 GiB  25.000 GiB  25.0 %  70     all",
            "counting, 30 of about 70 files",
            "not since the start; 2 may not be read",
        ] {
            assert!(out.contains(wanted), "{wanted}: {out}");
        }
    }
}
