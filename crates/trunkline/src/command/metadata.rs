//! The part of `trunkline status` about cached names and attributes.

use std::collections::BTreeMap;

use admin::metadata::RememberedShare;

use super::status::table;

/// Appends the table of metadata caching. Without shares it appends nothing.
pub fn page(shares: &BTreeMap<String, RememberedShare>, out: &mut String) {
    if shares.is_empty() {
        return;
    }
    let rows: Vec<_> = shares.iter().map(|(name, share)| row(name, share)).collect();
    table("Metadata caching", ["SHARE", "ON", "NAMES", "FILES", "KIB", "HITS", "MISSES", "HIT"], &rows, out);
}

fn row(name: &str, share: &RememberedShare) -> [String; 8] {
    [
        name.to_owned(),
        if share.on { "yes" } else { "no" }.to_owned(),
        share.names.to_string(),
        share.files.to_string(),
        (share.bytes >> 10).to_string(),
        share.hits.to_string(),
        share.misses.to_string(),
        share.hit_share().map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_says_whether_anything_is_remembered_and_what_that_was_good_for() {
        let mut out = String::new();
        page(&BTreeMap::new(), &mut out);
        assert!(out.is_empty());
        let used = RememberedShare { on: true, names: 7, files: 9, bytes: 5000, hits: 3, misses: 1 };
        let shares = BTreeMap::from([("a".to_owned(), used), ("b".to_owned(), RememberedShare::default())]);
        page(&shares, &mut out);
        assert!(out.contains("Metadata caching: 2\n") && out.contains("75.0 %"), "{out}");
        let rows: Vec<Vec<&str>> =
            out.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["a", "yes", "7", "9", "4", "3", "1", "75.0", "%"]);
        assert_eq!(rows[1], ["b", "no", "0", "0", "0", "0", "0", "-"]);
    }
}
