//! Circles of files: groups of files of a crate that import one another in a circle.
//!
//! No file of a circle can be read before the others. [`check`] compares the largest circle of each crate
//! with [`MOST`], or with `xtask/circles.toml` for crates that exceed it. That list may only get shorter.
//! [`print()`] shows the circle of every crate, and its lines without tests. Start with [`Graph::read`].
//! [`crate::modules`] resolves the paths in the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::modules::Modules;
use crate::source::{Source, lines_without_tests};

/// The maximum number of files in the largest circle of a crate.
const MOST: usize = 5;
/// The number of entries in `circles.toml`. It is lowered with each entry that is removed.
const LONG_LIST_CEILING: usize = 1;

/// The files of a crate and their imports of each other.
pub struct Graph {
    files: Vec<String>,
    lines: Vec<usize>,
    edges: Vec<BTreeSet<usize>>,
}

/// The largest circle of a crate.
pub struct Circle {
    /// The files.
    pub files: Vec<String>,
    /// The number of lines, including tests and comments.
    pub lines: usize,
}

impl Graph {
    /// The files of the crate in `dir`. With `calls`, a method call counts as an import of the file that
    /// defines the method. This requires that only one file of the crate defines a method of that name, and
    /// no trait of a crate below: `stat` may be `volume::Node`'s. For a call on `self`, the method is that of
    /// the type, whatever other methods have its name.
    pub fn read(dir: &Path, calls: bool) -> Result<Graph, String> {
        let modules = Modules::read(&dir.join("src"))?;
        let mut edges = vec![BTreeSet::new(); modules.files.len()];
        for (from, to) in modules.imports() {
            edges[from].insert(to);
        }
        if calls {
            for (from, to) in modules.calls(&trait_methods_below(dir)?) {
                edges[from].insert(to);
            }
        }
        let lines = modules.files.iter().map(|file| file.lines).collect();
        let files = modules.files.iter().map(|file| file.name.clone()).collect();
        Ok(Graph { files, lines, edges })
    }

    /// The lines of the crate in `dir` outside of test modules and test files.
    fn lines_without_tests(&self, root: &Path, dir: &Path) -> Result<usize, String> {
        let read = |file: &String| Source::read(root, &dir.join("src").join(file));
        self.files.iter().map(|file| read(file).map(|source| lines_without_tests(&source.bare))).sum()
    }

    /// The largest circle. Without circles it is a single file.
    pub fn largest(&self) -> Circle {
        let largest = circles(&self.edges).into_iter().max_by_key(Vec::len).unwrap_or_default();
        Circle {
            lines: largest.iter().map(|file| self.lines[*file]).sum(),
            files: largest.into_iter().map(|file| self.files[file].clone()).collect(),
        }
    }
}

/// The methods of the traits of the crates on which the crate in `dir` depends.
fn trait_methods_below(dir: &Path) -> Result<BTreeSet<String>, String> {
    let path = dir.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let manifest: toml::Table = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
    let mut found = BTreeSet::new();
    for name in
        manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(|all| all.keys())
    {
        let src = dir.with_file_name(name).join("src");
        if src.is_dir() {
            found.extend(Modules::read(&src)?.trait_methods().cloned());
        }
    }
    Ok(found)
}

/// The strongly connected components of a graph (Tarjan 1972), without recursion.
fn circles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        index: vec![None; edges.len()],
        low: vec![0; edges.len()],
        on_stack: vec![false; edges.len()],
        stack: Vec::new(),
        found: Vec::new(),
        next: 0,
    };
    for start in 0..edges.len() {
        if search.index[start].is_none() {
            search.from(start, edges);
        }
    }
    search.found
}

struct Search {
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
    next: usize,
}

impl Search {
    fn from(&mut self, start: usize, edges: &[BTreeSet<usize>]) {
        let mut todo = vec![(start, self.enter(start, edges))];
        while let Some((node, targets)) = todo.last_mut() {
            let node = *node;
            match targets.pop() {
                Some(target) => match self.index[target] {
                    None => {
                        let targets = self.enter(target, edges);
                        todo.push((target, targets));
                    }
                    Some(index) if self.on_stack[target] => self.low[node] = self.low[node].min(index),
                    Some(_) => {}
                },
                None => {
                    todo.pop();
                    if let Some((parent, _)) = todo.last() {
                        self.low[*parent] = self.low[*parent].min(self.low[node]);
                    }
                    self.leave(node);
                }
            }
        }
    }

    fn enter(&mut self, node: usize, edges: &[BTreeSet<usize>]) -> Vec<usize> {
        self.index[node] = Some(self.next);
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
        edges[node].iter().copied().collect()
    }

    fn leave(&mut self, node: usize) {
        if Some(self.low[node]) != self.index[node] {
            return;
        }
        let mut part = Vec::new();
        while let Some(member) = self.stack.pop() {
            self.on_stack[member] = false;
            part.push(member);
            if member == node {
                break;
            }
        }
        part.sort_unstable();
        self.found.push(part);
    }
}

/// A crate with another maximum.
struct Exception {
    files: usize,
    /// Whether method calls count too.
    calls: bool,
}

/// All findings about the crates below `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut exceptions = exceptions(root)?;
    let mut found = Vec::new();
    if exceptions.len() > LONG_LIST_CEILING {
        found.push(format!("xtask/circles.toml: {} entries, at most {LONG_LIST_CEILING}", exceptions.len()));
    }
    for name in crates(root)? {
        let listed = exceptions.get(&name);
        let calls = listed.is_some_and(|exception| exception.calls);
        let most = listed.map_or(MOST, |exception| exception.files);
        let circle = Graph::read(&root.join("crates").join(&name), calls)?.largest();
        let now = circle.files.len();
        if now > most {
            let files = circle.files.join(", ");
            found.push(format!("crates/{name}: {now} files in one circle, at most {most}: {files}"));
        } else if now < most && listed.is_some() {
            found.push(format!("xtask/circles.toml: {name} is down to {now}: lower its number"));
        }
        if exceptions.get(&name).is_some_and(|exception| exception.files <= MOST && !exception.calls) {
            found.push(format!("xtask/circles.toml: {name} needs no entry any more"));
        }
        exceptions.remove(&name);
    }
    found.extend(exceptions.keys().map(|name| format!("xtask/circles.toml: there is no crate {name}")));
    Ok(found)
}

/// Prints the lines of each crate without tests, and its largest circle, by imports and with calls.
pub fn print(root: &Path) -> Result<(), String> {
    println!(
        "{:<14}{:>14}{:>8}{:>8}{:>14}{:>8}",
        "crate", "without tests", "files", "lines", "with calls", "lines"
    );
    for name in crates(root)? {
        let dir = root.join("crates").join(&name);
        let graph = Graph::read(&dir, false)?;
        let (imports, calls) = (graph.largest(), Graph::read(&dir, true)?.largest());
        println!(
            "{name:<14}{:>14}{:>8}{:>8}{:>14}{:>8}   {}",
            graph.lines_without_tests(root, &dir)?,
            imports.files.len(),
            imports.lines,
            calls.files.len(),
            calls.lines,
            if imports.files.len() > 1 { imports.files.join(" ") } else { String::new() },
        );
    }
    Ok(())
}

fn crates(root: &Path) -> Result<BTreeSet<String>, String> {
    let dir = root.join("crates");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let is_crate = |path: &Path| path.join("src").is_dir();
    Ok(entries
        .filter_map(Result::ok)
        .filter(|entry| is_crate(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

fn exceptions(root: &Path) -> Result<BTreeMap<String, Exception>, String> {
    let path = root.join("xtask/circles.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let table: toml::Table = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
    table
        .iter()
        .map(|(name, entry)| {
            let files = entry.get("files").and_then(toml::Value::as_integer);
            let has_reason = entry.get("reason").and_then(toml::Value::as_str).is_some_and(|r| !r.is_empty());
            let calls = entry.get("calls").and_then(toml::Value::as_bool).unwrap_or(false);
            match files.and_then(|files| usize::try_from(files).ok()) {
                Some(files) if has_reason => Ok((name.clone(), Exception { files, calls })),
                _ => Err(format!("{}: {name} needs `files` and a `reason`", path.display())),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[&[usize]]) -> Vec<Vec<usize>> {
        let edges: Vec<BTreeSet<usize>> = edges.iter().map(|to| to.iter().copied().collect()).collect();
        let mut found = circles(&edges);
        found.sort();
        found
    }

    #[test]
    fn circles_are_found_and_lines_are_none() {
        assert_eq!(graph(&[&[1], &[2], &[]]), [vec![0], vec![1], vec![2]]);
        assert_eq!(graph(&[&[1], &[2], &[0, 3], &[3]]), [vec![0, 1, 2], vec![3]]);
        assert_eq!(graph(&[&[1], &[0, 2], &[3], &[2]]), [vec![0, 1], vec![2, 3]]);
    }

    fn sample(files: &[(&str, &str)], calls: bool) -> Vec<String> {
        sample_above(&[], files, calls)
    }

    /// The largest circle of a crate with these files that depends on a crate with `below`.
    fn sample_above(below: &[(&str, &str)], files: &[(&str, &str)], calls: bool) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, files) in [("below", below), ("above", files)] {
            for (file, text) in files {
                let path = dir.path().join(name).join("src").join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
        }
        let above = dir.path().join("above");
        std::fs::write(above.join("Cargo.toml"), "[dependencies]\nbelow.workspace = true").unwrap();
        Graph::read(&above, calls).unwrap().largest().files
    }

    #[test]
    fn an_item_counts_as_of_the_file_that_defines_it() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "pub struct A(u8); fn f() { let _ = crate::b::f(); }"),
            ("b.rs", "use crate::A; pub fn f() -> A { A(1) }"),
        ];
        assert_eq!(sample(&files, false), ["a.rs", "b.rs"]);
    }

    #[test]
    fn tests_and_comments_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "//! [`crate::b::f`]\n pub struct A; #[cfg(test)] mod tests { use crate::b::f; }"),
            ("b.rs", "use crate::a::A; pub fn f() -> A { A }"),
        ];
        assert_eq!(sample(&files, false).len(), 1);
    }

    #[test]
    fn modules_in_folders_globs_and_macros_are_followed() {
        let files = [
            ("lib.rs", "mod a; mod c;"),
            ("a.rs", "pub mod b; pub use b::*; pub fn g() { println!(\"{}\", crate::c::h()); }"),
            ("a/b.rs", "pub struct B; fn f() { super::g(); }"),
            ("c.rs", "pub fn h() -> u8 { let _: crate::a::B; 1 }"),
        ];
        assert_eq!(sample(&files, false), ["a.rs", "a/b.rs", "c.rs"]);
    }

    #[test]
    fn calls_count_where_one_file_defines_the_method() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub struct A; impl A { pub fn only_here(&self) {} pub fn len(&self) {} }"),
            ("b.rs", "use crate::a::A; impl A { pub fn of_b(&self) { self.only_here(); } }"),
            ("c.rs", "use crate::a::A; pub fn f(a: &A) { a.of_b(); a.len(); }"),
        ];
        assert_eq!(sample(&files, true).len(), 1);
        let mut files = files;
        files[1].1 = "pub struct A; impl A { pub fn only_here(&self) { self.of_b() } }";
        assert_eq!(sample(&files, true), ["a.rs", "b.rs"]);
        assert_eq!(sample(&files, false).len(), 1);
    }

    #[test]
    fn a_field_in_a_macro_is_no_call() {
        for (test, is_call) in [("a.node.id() == b", false), ("a.node(b)", true), ("a.node::<u8>(b)", true)] {
            let text =
                format!("pub struct B; pub fn f(a: &A) -> bool {{ matches!(a, A {{ b }} if {test}) }}");
            let files = [
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "pub struct A { b: u8 } impl A { pub fn node(&self, of: crate::b::B) {} }"),
                ("b.rs", text.as_str()),
            ];
            assert_eq!(sample(&files, true).len() > 1, is_call, "{test}");
        }
    }

    #[test]
    fn a_call_that_may_be_one_of_a_trait_below_says_nothing() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A; impl A { pub fn stat(&self, of: crate::b::B) {} }"),
            ("b.rs", "pub struct B; pub fn f(node: &N) { node.stat() }"),
        ];
        assert_eq!(sample(&files, true), ["a.rs", "b.rs"]);
        let of_type = [("lib.rs", "pub struct N; impl N { pub fn stat(&self) {} }")];
        assert_eq!(sample_above(&of_type, &files, true), ["a.rs", "b.rs"]);
        let of_trait = [("lib.rs", "pub trait Node { fn stat(&self); }")];
        assert_eq!(sample_above(&of_trait, &files, true).len(), 1);
    }

    #[test]
    fn a_call_on_self_is_one_of_the_type() {
        let of_trait = [("lib.rs", "pub trait Node { fn stat(&self); }")];
        for name in ["stat", "close", "only_here"] {
            let circle = |calls: &str| {
                let a = format!(
                    "use crate::s::S; impl S {{ pub fn {name}(&self, of: Option<crate::b::B>) {{}} }}"
                );
                let b = format!("use crate::s::S; pub struct B; {}", calls.replace("NAME", name));
                let files = [
                    ("lib.rs", "mod a; mod b; mod c; mod s;"),
                    ("a.rs", a.as_str()),
                    ("b.rs", b.as_str()),
                    // Another type has all three names, so that a name alone does not identify the file.
                    (
                        "c.rs",
                        "pub struct C; impl C { fn stat(&self) {} fn close(&self) {} fn only_here(&self) {} \
                         }",
                    ),
                    ("s.rs", "pub struct S;"),
                ];
                sample_above(&of_trait, &files, true)
            };
            for calls in [
                "impl S { fn f(&self) { self.NAME(None) } }",
                "impl Clone for S { fn clone(&self) -> S { (0..1).for_each(|_| self.NAME(None)); S } }",
            ] {
                assert_eq!(circle(calls), ["a.rs", "b.rs"], "{name}: {calls}");
            }
            for other in ["fn f(s: &S) { s.NAME(None) }", "impl B { fn f(&self, s: &S) { self.NAME(None) } }"]
            {
                assert_eq!(circle(other).len(), 1, "{name}: {other}");
            }
        }
    }
}
