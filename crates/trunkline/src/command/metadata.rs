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
        is_on(share).to_owned(),
        share.names.to_string(),
        share.files.to_string(),
        (share.bytes >> 10).to_string(),
        share.hits.to_string(),
        share.misses.to_string(),
        share.hit_share().map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0)),
    ]
}

fn is_on(share: &RememberedShare) -> &'static str {
    match (share.on, share.unreported) {
        (true, _) => "yes",
        (false, false) => "no",
        (false, true) => "no, the host reports no changes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_says_whether_anything_is_remembered_and_what_that_was_good_for() {
        let mut out = String::new();
        page(&BTreeMap::new(), &mut out);
        assert!(out.is_empty());
        let used = RememberedShare {
            on: true,
            unreported: false,
            names: 7,
            files: 9,
            bytes: 5000,
            hits: 3,
            misses: 1,
        };
        let deaf = RememberedShare { unreported: true, ..RememberedShare::default() };
        let named = [("a", used), ("b", RememberedShare::default()), ("c", deaf)];
        let shares = named.map(|(name, share)| (name.to_owned(), share)).into();
        page(&shares, &mut out);
        assert!(out.contains("Metadata caching: 3\n") && out.contains("75.0 %"), "{out}");
        let rows: Vec<Vec<&str>> =
            out.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["a", "yes", "7", "9", "4", "3", "1", "75.0", "%"]);
        assert_eq!(rows[1], ["b", "no", "0", "0", "0", "0", "0", "-"]);
        assert!(out.lines().nth(5).is_some_and(|line| line.contains("no, the host reports no changes")));
    }
}
