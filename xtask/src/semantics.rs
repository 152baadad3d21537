//! Checks that the tests in SEMANTICS.md exist.
//!
//! A test is named as `file: function`, or as `function` alone after its file in the same paragraph. A row of
//! a table is a paragraph. A chapter may name the file of its tests without a path. A name that ends with `…`
//! stands for all names that begin with it. For a folder of `proving/`, any of its files may have the
//! function. Functions without a file count only after `Test:` and in tables, since other text contains many
//! names that are not tests, and only if they have two words or more. In Rust a function is a test if it has
//! `#[test]` or `#[tokio::test]` and no `#[ignore]`. Python's cases are registered in several ways, so any
//! function of such a file counts. Start with [`check`]. [`Reader`] goes through the document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::source::{Source, words};

const DOCUMENT: &str = "SEMANTICS.md";
/// The folder of files without a path, unless they are in the folder of the previous file.
const FOLDER: &str = "crates/share/tests/it";
/// The words before the file of a chapter's tests without a path.
const CHAPTER_S: &str = "Tests without a path are in";

/// All findings about the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(root.join(DOCUMENT)).map_err(|e| format!("{DOCUMENT}: {e}"))?;
    let mut reader = Reader { root, functions: BTreeMap::new(), chapter: None, found: Vec::new() };
    for (line, paragraph) in paragraphs(&text) {
        reader.paragraph(line, &paragraph)?;
    }
    Ok(reader.found)
}

/// The paragraphs and table rows, each with its first line, from 1.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in text.lines().enumerate() {
        let begins_anew = line.starts_with(['|', '#']);
        match found.last_mut() {
            Some((_, paragraph)) if is_open && !begins_anew => {
                paragraph.push('\n');
                paragraph.push_str(line);
            }
            _ => found.push((number + 1, line.to_owned())),
        }
        is_open = !line.trim().is_empty() && !begins_anew;
    }
    found
}

/// Reads the document, and remembers the functions of each file.
struct Reader<'a> {
    root: &'a Path,
    functions: BTreeMap<PathBuf, BTreeSet<String>>,
    /// The file of the chapter's tests without a path.
    chapter: Option<PathBuf>,
    found: Vec<String>,
}

impl Reader<'_> {
    /// Checks one paragraph, which begins on this line.
    fn paragraph(&mut self, line: usize, paragraph: &str) -> Result<(), String> {
        if paragraph.starts_with("## ") {
            self.chapter = None;
        }
        let mut file: Option<PathBuf> = None;
        for (at, span) in spans(paragraph) {
            let before = &paragraph[..at];
            let span = span.split_whitespace().collect::<Vec<_>>().join(" ");
            let (name, function) = match span.split_once(": ") {
                Some((name, function)) => (name, Some(function)),
                None => (span.as_str(), None),
            };
            let of_tests =
                paragraph.starts_with('|') || before.contains("Test:") || before.contains("Tests:");
            let missing = if is_place(name) {
                let places = self.places(name, file.as_deref());
                let missing = self.missing(&places, function)?;
                file = places.into_iter().next().or(file);
                if before.trim_end_matches(['`', ' ', '\n']).ends_with(CHAPTER_S) {
                    self.chapter.clone_from(&file);
                }
                missing
            } else if of_tests && is_function(&span) {
                let places: Vec<PathBuf> = file.iter().chain(&self.chapter).cloned().collect();
                self.missing(&places, Some(&span))?
            } else {
                None
            };
            if let Some(why) = missing {
                let line = line + before.matches('\n').count();
                self.found.push(format!("{DOCUMENT}:{line}: `{span}`: {why}"));
            }
        }
        Ok(())
    }

    /// The existing paths for this name, which follows a name in `file`.
    fn places(&self, name: &str, file: Option<&Path>) -> Vec<PathBuf> {
        let beside = file.and_then(Path::parent).map(|folder| folder.join(name));
        let places = match name.contains('/') {
            true => vec![PathBuf::from(name)],
            false => beside.into_iter().chain([Path::new(FOLDER).join(name)]).collect(),
        };
        places.into_iter().filter(|place| self.root.join(place).exists()).collect()
    }

    /// The error, if all paths, or the function in each of them, are missing.
    fn missing(&mut self, places: &[PathBuf], function: Option<&str>) -> Result<Option<String>, String> {
        let Some(first) = places.first() else { return Ok(Some("there is no such file".to_owned())) };
        let Some(function) = function else { return Ok(None) };
        for place in places {
            let known = self.functions_of(place)?;
            let is_known = match function.strip_suffix('…') {
                Some(beginning) => known.iter().any(|it| it.starts_with(beginning)),
                None => known.contains(function),
            };
            if is_known {
                return Ok(None);
            }
        }
        Ok(Some(format!("no such test in {}", first.display())))
    }

    /// The tests of a file, or of the files of a folder.
    fn functions_of(&mut self, place: &Path) -> Result<&BTreeSet<String>, String> {
        if !self.functions.contains_key(place) {
            let mut known = BTreeSet::new();
            for file in files(&self.root.join(place))? {
                let source = Source::read(self.root, &file)?;
                let is_rust = file.extension().is_some_and(|it| it == "rs");
                let (text, keyword) = if is_rust { (&source.bare, "fn") } else { (&source.text, "def") };
                let mut last = (0, "");
                for word in words(text) {
                    if last.1 == keyword && (!is_rust || is_test(&text[..last.0])) {
                        known.insert(word.1.to_owned());
                    }
                    last = word;
                }
            }
            self.functions.insert(place.to_owned(), known);
        }
        Ok(&self.functions[place])
    }
}

/// Whether the function after this code is a test that runs, by its attributes.
fn is_test(before: &str) -> bool {
    let mut rest = before.trim_end();
    rest = rest.strip_suffix("async").unwrap_or(rest).trim_end();
    let mut is_test = false;
    while let Some((head, attribute)) = rest.strip_suffix(']').and_then(|rest| rest.rsplit_once('#')) {
        let name = attribute.trim_start_matches('[').split(['(', '=']).next().unwrap_or_default().trim();
        if name == "ignore" {
            return false;
        }
        is_test |= name == "test" || name == "tokio::test";
        rest = head.trim_end();
    }
    is_test
}

/// A file itself, or the files of a folder.
fn files(place: &Path) -> Result<Vec<PathBuf>, String> {
    if place.is_file() {
        return Ok(vec![place.to_owned()]);
    }
    let entries = std::fs::read_dir(place).map_err(|e| format!("{}: {e}", place.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|it| it == "rs" || it == "py")).collect())
}

/// The text between two backticks, with its position.
fn spans(paragraph: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    paragraph.split('`').enumerate().filter_map(move |(number, part)| {
        let begin = at;
        at += part.len() + 1;
        (number % 2 == 1).then_some((begin, part))
    })
}

/// Whether a name is that of a source file, or of something in `proving/`.
fn is_place(name: &str) -> bool {
    let is_path = name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    is_path && (name.starts_with("proving/") || name.ends_with(".rs") || name.ends_with(".py"))
}

/// Whether a name has the form of a test: at least two words.
fn is_function(span: &str) -> bool {
    let name = span.strip_suffix('…').unwrap_or(span);
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name && name.trim_matches('_').contains('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings about a document in a tree with two files.
    fn found(document: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(DOCUMENT, document);
        write(
            "crates/share/tests/it/opening.rs",
            "#[test]\nfn the_first_one_wins() {}\n// #[test]\n// fn the_second_one_wins() {}\n",
        );
        write("crates/smb/tests/it/waiting.rs", "#[test]\nfn what_waits_is_told() {}\n");
        write(
            "crates/smb/tests/marked.rs",
            "fn helps_a_test() {}\n#[test]\n#[ignore = \"slow\"]\nfn is_left_out() {}\n\
             #[tokio::test(flavor = \"multi_thread\")]\n/// Text.\nasync fn waits_for_it() {}\n\
             #[test]\n#[cfg(unix)]\nfn runs_here() {}\nfn is_no_test() {}\n\
             proptest! {\n    #![proptest_config(config())]\n\n    #[test]\n    fn any_will_do(it in all()) \
             {}\n}\n",
        );
        write("proving/peers/cases.py", "def a_peer_comes_back(): pass\n");
        check(root.path()).unwrap()
    }

    #[test]
    fn every_test_that_this_tree_names_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(check(root), Ok(Vec::new()));
    }

    #[test]
    fn tests_are_found_by_file_and_behind_it() {
        let good = "Text of `what_is_no_test`.\nTest: `opening.rs:\nthe_first_one_wins`, `the_first_…`; \
                    `crates/smb/tests/it/waiting.rs:\n\
                    what_waits_is_told`; `proving/peers: a_peer_comes_back`.\n\n## A chapter\n\n\
                    Tests without a path are in `crates/smb/tests/it/waiting.rs`.\n\n| a | `opening.rs` | \
                    `what_waits_is_told` |\n";
        assert_eq!(found(good), Vec::<String>::new());
    }

    #[test]
    fn only_functions_that_run_as_tests_count() {
        let named = |names: &str| found(&format!("Test: `crates/smb/tests/marked.rs`, {names}.\n"));
        assert_eq!(named("`waits_for_it`, `runs_here`, `any_will_do`"), Vec::<String>::new());
        for name in ["helps_a_test", "is_left_out", "is_no_test", "helps_a_…", "lost_it"] {
            assert_eq!(named(&format!("`{name}`")).len(), 1, "{name}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_line() {
        let bad = "Rule.\nTest: `opening.rs: the_second_one_wins`,\n`the_third_one_wins`.\n\nTest: `lost.rs: \
                   a`, `what_waits_is_told`.\n\n\
                   `proving/peers: a_peer_is_lost`\n";
        let lines = [
            "2: `opening.rs: the_second",
            "3: `the_third",
            "5: `lost.rs: a`: there",
            "5: `what_waits",
            "7: `proving",
        ];
        let found = found(bad);
        assert_eq!(found.len(), lines.len(), "{found:#?}");
        for (found, line) in found.iter().zip(lines) {
            assert!(found.starts_with(&format!("{DOCUMENT}:{line}")), "{found}");
        }
    }
}
