//! The names of types: a name has one meaning in the whole tree.
//!
//! The first table of docs/glossary.md lists the words of the protocols and of the field. Such a word names
//! at most one type in each crate. At most [`IN_THE_TREE`] types in the tree may have any other name. Start
//! with [`check`].

use std::collections::BTreeMap;
use std::path::Path;

use crate::source::{Source, line_of, rust_files, words};

/// The maximum number of types in the tree with the same name, if it is not in the glossary.
const IN_THE_TREE: usize = 3;
/// The types of one command in the wire crates, where the module has the name of the command.
const OF_A_COMMAND: &[&str] = &["Request", "Response", "Args", "ResOk"];
/// The keywords that begin the declaration of a type.
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "union", "type"];

/// The declaration of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Declaration {
    /// The crate, or the file of integration tests.
    unit: String,
    /// The file and the line.
    at: String,
}

/// All findings about the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join("docs/glossary.md");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let glossary = glossary(&text);
    if glossary.is_empty() {
        return Err(format!("{}: no row `| `Name` | ...` was found", path.display()));
    }
    let mut types = BTreeMap::new();
    for top in ["crates", "proving", "xtask", "fuzz"] {
        for file in rust_files(&root.join(top))? {
            gather(&Source::read(root, &file)?, &mut types);
        }
    }
    Ok(types.iter().flat_map(|(name, all)| judge(name, all, &glossary)).collect())
}

/// The names in the first column of the glossary that are written as code.
fn glossary(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name))
        .collect()
}

/// The crate of a file. A file of integration tests is a crate of its own.
fn unit(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", name, "tests", file, ..] => format!("{name}/tests/{file}"),
        ["crates", name, ..] => (*name).to_owned(),
        [top, ..] => (*top).to_owned(),
        [] => String::new(),
    }
}

/// Adds the types that a file declares.
fn gather(source: &Source, types: &mut BTreeMap<String, Vec<Declaration>>) {
    let all: Vec<(usize, &str)> = words(&source.bare).collect();
    for pair in all.windows(2) {
        let [(at, keyword), (name_at, name)] = *pair else { continue };
        let is_declared = KEYWORDS.contains(&keyword)
            && name.starts_with(char::is_uppercase)
            && source.bare[at + keyword.len()..name_at].chars().all(char::is_whitespace);
        // A `type` inside a trait or its impl does not define a new name.
        let is_associated = keyword == "type" && is_indented(&source.bare, at);
        if is_declared && !is_associated {
            let at = format!("{}:{}", source.path, line_of(&source.bare, name_at));
            types.entry(name.to_owned()).or_default().push(Declaration { unit: unit(&source.path), at });
        }
    }
}

fn is_indented(text: &str, at: usize) -> bool {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[line..].starts_with([' ', '\t'])
}

/// Findings about one name.
fn judge(name: &str, all: &[Declaration], glossary: &[&str]) -> Vec<String> {
    if glossary.contains(&name) {
        let mut by_unit: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for it in all {
            by_unit.entry(&it.unit).or_default().push(&it.at);
        }
        let too_many = by_unit.into_iter().filter(|(_, at)| at.len() > 1);
        return too_many
            .map(|(unit, at)| {
                format!(
                    "{}: {unit} has {} types `{name}`, a glossary word names one: {}",
                    at[0],
                    at.len(),
                    at.join(", ")
                )
            })
            .collect();
    }
    let counted: Vec<&str> = all
        .iter()
        .filter(|it| !(OF_A_COMMAND.contains(&name) && it.unit.ends_with("-wire")))
        .map(|it| it.at.as_str())
        .collect();
    if counted.len() <= IN_THE_TREE {
        return Vec::new();
    }
    vec![format!(
        "{}: {} types are called `{name}`, at most {IN_THE_TREE}: {}",
        counted[0],
        counted.len(),
        counted.join(", ")
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut types = BTreeMap::new();
        for (path, text) in files {
            gather(&Source::new((*path).to_owned(), (*text).to_owned()), &mut types);
        }
        types.iter().flat_map(|(name, all)| judge(name, all, &["Session"])).collect()
    }

    #[test]
    fn the_glossary_is_the_first_column_that_is_code() {
        assert_eq!(
            glossary("# x\n| type | a |\n|---|---|\n| `Session` | b |\n| release | `no` |\n"),
            ["Session"]
        );
    }

    #[test]
    fn a_glossary_word_names_one_type_in_each_crate() {
        let one = ("crates/a/src/lib.rs", "struct Session;");
        assert!(findings(&[one, ("crates/b/src/lib.rs", "pub(crate) enum Session {}")]).is_empty());
        assert!(findings(&[one, ("crates/a/tests/t.rs", "struct Session;")]).is_empty());
        assert_eq!(findings(&[one, ("crates/a/src/b.rs", "trait Session {}")]).len(), 1);
    }

    #[test]
    fn any_other_name_stands_three_times() {
        let files: Vec<String> = (0..4).map(|i| format!("crates/c{i}/src/lib.rs")).collect();
        let named: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), "struct Entry;")).collect();
        assert!(findings(&named[..3]).is_empty());
        assert_eq!(findings(&named).len(), 1);
        assert_eq!(findings(&[("crates/a/src/b.rs", &"type Entry = u8;\n".repeat(4))]).len(), 1);
    }

    #[test]
    fn comments_literals_and_associated_types_declare_nothing() {
        let text =
            "// struct Entry\nimpl X for Y {\n    type Entry = u8;\n}\nconst A: &str = \"struct Entry\";\n"
                .repeat(4);
        assert!(findings(&[("crates/a/src/b.rs", &text)]).is_empty());
    }

    #[test]
    fn the_types_of_a_command_in_a_wire_crate_are_exempt() {
        assert!(findings(&[("crates/smb-wire/src/b.rs", &"struct Request;\n".repeat(4))]).is_empty());
        assert_eq!(findings(&[("crates/smb/src/b.rs", &"struct Request;\n".repeat(4))]).len(), 1);
    }
}
