//! The known name that is most similar to a mistyped one.

use super::foreign;

/// The entry of `known` that `given` most likely stands for. None if all are too different.
pub fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let given = given.to_lowercase();
    let limit = (given.chars().count() / 3).max(2);
    let scored = known.into_iter().map(|name| (distance(&given, &name.to_lowercase()), name));
    scored.filter(|(far, name)| *far <= limit && *far < name.chars().count()).min().map(|(_, name)| name)
}

/// `; did you mean `x`?` for the most similar name, or a list of the known names.
pub fn hint(given: &str, known: &[&str]) -> String {
    match nearest(given, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; known: {}", known.join(", ")),
    }
}

/// Like [`hint`] for a key. It also recognizes the keys of other servers.
pub fn hint_for_key(given: &str, known: &[&str]) -> String {
    let meant = foreign::find(foreign::ELSEWHERE, given).unwrap_or_default();
    let begun = |name: &&&str| name.strip_prefix(given).is_some_and(|rest| rest.starts_with('_'));
    let near = meant.iter().find(|key| known.contains(key)).or_else(|| known.iter().find(begun));
    match (near, foreign::find(foreign::NOT_THERE, given)) {
        (Some(name), _) => format!("; did you mean `{name}`?"),
        (None, Some(why)) => format!(": {why}; docs/configuration.md lists the keys without a counterpart"),
        (None, None) => hint(given, known),
    }
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_understood() {
        let known = ["path", "read_only", "users", "encryption"];
        assert_eq!(nearest("pth", known), Some("path"));
        assert_eq!(nearest("readonly", known), Some("read_only"));
        assert_eq!(nearest("Uesrs", known), Some("users"));
        assert_eq!(nearest("encyrption", known), Some("encryption"));
    }

    #[test]
    fn something_else_altogether_is_not_guessed() {
        assert_eq!(nearest("colour", ["path", "users"]), None);
        assert_eq!(hint("colour", &["path", "users"]), "; known: path, users");
        assert_eq!(nearest("ab", ["x", "yz"]), None);
    }

    #[test]
    fn a_protocol_as_a_key_is_one_of_the_protocols_where_these_are_known() {
        assert_eq!(hint_for_key("nfs", &["path", "users", "protocols"]), "; did you mean `protocols`?");
        assert_eq!(hint_for_key("nfs", &["path"]), "; known: path");
    }

    #[test]
    fn what_other_servers_have_is_named_as_it_is_here_or_said_not_to_be_there() {
        for (given, known, wanted) in [
            ("password", &["name", "password_file"][..], "; did you mean `password_file`?"),
            ("address", &["metrics", "listen"], "; did you mean `listen`?"),
            ("valid users", &["path", "users"], "; did you mean `users`?"),
            ("Write-OK", &["read_only"], "; did you mean `read_only`?"),
            ("records_max", &["records", "records_max_mib"], "; did you mean `records_max_mib`?"),
            (
                "guest ok",
                &["path"],
                ": guests are not admitted; docs/configuration.md lists the keys without a counterpart",
            ),
            (
                "GuestOk",
                &["path"],
                ": guests are not admitted; docs/configuration.md lists the keys without a counterpart",
            ),
            (
                "fruit:metadata",
                &["path"],
                ": there are no modules; the server supports macOS without one; docs/configuration.md lists \
                 the keys without a counterpart",
            ),
        ] {
            assert_eq!(hint_for_key(given, known), wanted, "{given}");
        }
        // Names of accounts and shares are not keys.
        assert_eq!(hint("quota", &["quotas"]), "; did you mean `quotas`?");
    }
}
