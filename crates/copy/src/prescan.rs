//! Scans a source on this host for many small files, while the copy connects to the target. The sessions that
//! make them faster take round trips of their own, which can then overlap with the rest.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

use client::Scheme;
use tokio::task::JoinHandle;

use crate::context::{MANY, PIECE};
use crate::name::join;
use crate::{Plan, name};

/// The most names that a scan looks at.
const LOOKS: usize = 2000;

/// Begins the scan, if its result matters.
pub(crate) fn begin(plan: &Plan) -> Option<JoinHandle<bool>> {
    if (plan.source.scheme, plan.target.scheme) != (Scheme::Local, Scheme::Smb) {
        return None;
    }
    plan.may_split().then(|| {
        let (root, plan) = (PathBuf::from(&plan.source.path), plan.clone());
        tokio::task::spawn_blocking(move || sees_many_small(root, &plan))
    })
}

/// Whether the directory `root` and those below it have many small files to copy. Unreadable ones count as
/// none. They are reported when they are copied.
fn sees_many_small(root: PathBuf, plan: &Plan) -> bool {
    let mut todo = VecDeque::from([(root, String::new())]);
    let (mut looks, mut small) = (0, 0);
    while let Some((directory, path)) = todo.pop_front() {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            looks += 1;
            if looks > LOOKS {
                return false;
            }
            let (Ok(attributes), Ok(own)) = (entry.metadata(), entry.file_name().into_string()) else {
                continue;
            };
            let path = join(&path, &own);
            if name::is_part(&own) || !plan.wants(&path, attributes.is_dir()) {
                continue;
            }
            if attributes.is_dir() {
                todo.push_back((entry.path(), path));
            } else if attributes.is_file() && attributes.len() < u64::from(PIECE) {
                small += 1;
                if small >= MANY {
                    return true;
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ParsedCommand;

    fn plan(root: &std::path::Path, options: &str) -> Plan {
        let line = format!("copy {} smb://ann@h/x {options}", root.display());
        let args = <ParsedCommand as clap::Parser>::parse_from(line.split_whitespace()).args;
        Plan::new(&args, &|_| Ok("secret".to_owned())).unwrap()
    }

    #[test]
    fn many_small_files_are_seen_and_few_or_large_ones_or_those_left_out_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let sees = |options: &str| sees_many_small(root.to_owned(), &plan(root, options));
        for number in 1..MANY {
            fs::write(root.join(format!("{number}.txt")), "x").unwrap();
        }
        let large = fs::File::create(root.join("large")).unwrap();
        large.set_len(u64::from(PIECE)).unwrap();
        assert!(!sees(""), "one small file is missing");
        fs::create_dir_all(root.join("deep/er")).unwrap();
        fs::write(root.join("deep/er/one.txt"), "x").unwrap();
        assert!(sees("") && !sees("--exclude deep") && !sees("--include *.c") && sees("--include *.txt"));
    }

    #[test]
    fn a_glance_ends_where_there_are_many_names_and_no_small_file() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=LOOKS {
            fs::create_dir(dir.path().join(format!("{number}"))).unwrap();
        }
        for number in 0..MANY {
            fs::write(dir.path().join(format!("0/{number}")), "x").unwrap();
        }
        assert!(!sees_many_small(dir.path().to_owned(), &plan(dir.path(), "")));
    }

    #[tokio::test]
    async fn it_is_only_looked_where_further_sessions_would_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        for options in ["--channels 2", "--dry-run", "--verify", "--sync", "--acls"] {
            assert!(begin(&plan(dir.path(), options)).is_none(), "{options}");
        }
        assert!(!begin(&plan(dir.path(), "")).expect("it is looked").await.unwrap(), "nothing is there");
    }
}
