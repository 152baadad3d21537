//! The project's own checks: `cargo xtask layers`, `tidy`, `names`, `prose`, `circles` and `semantics`.
//!
//! Start with [`layers`] (which crate may know what), [`tidy`] (how a source file looks), [`names`] (how
//! often a type's name stands), [`prose`] (how the docs read), [`circles`] (which files import one another in
//! a circle) and [`semantics`] (the tests that SEMANTICS.md names). They read sources through [`source`],
//! which tells code from comments and literals. Each check returns all its findings as lines `path:line:
//! finding`. One finding is enough for exit status 1. [`simulate`] runs the server in a simulated network
//! over a failing disk.

mod circles;
mod layers;
mod modules;
mod names;
mod prose;
mod semantics;
mod simulate;
mod source;
mod tidy;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A check: all its findings about the workspace at a root.
type Check = fn(&Path) -> Result<Vec<String>, String>;

/// The checks by their names, in the order in which `all` runs them.
const CHECKS: &[(&str, Check)] = &[
    ("layers", layers::check),
    ("tidy", tidy::check),
    ("names", names::check),
    ("prose", prose::check),
    ("circles", circles::check),
    ("semantics", semantics::check),
];

fn main() -> ExitCode {
    let root = workspace_root();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["simulate", rest @ ..] => simulate::run(&root, rest.iter().map(|it| (*it).to_owned())),
        ["circles", "--print"] => circles::print(&root).map_or_else(|why| fail(&why), |()| ExitCode::SUCCESS),
        ["prose", "--print"] => prose::print(&root).map_or_else(|why| fail(&why), |()| ExitCode::SUCCESS),
        [] | ["all"] => report("all", all(&root)),
        [name] => match CHECKS.iter().find(|(known, _)| known == name) {
            Some((name, check)) => report(name, check(&root)),
            None => fail(&usage()),
        },
        _ => fail(&usage()),
    }
}

fn usage() -> String {
    let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    format!(
        "usage: cargo xtask all | {} | circles --print | prose --print | \
         simulate [--seed FIRST] [--count N] [--log]",
        names.join(" | ")
    )
}

/// The findings of all checks.
fn all(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (_, check) in CHECKS {
        found.extend(check(root)?);
    }
    Ok(found)
}

/// Prints the findings, and returns the status of the process.
fn report(name: &str, findings: Result<Vec<String>, String>) -> ExitCode {
    match findings {
        Ok(found) if found.is_empty() => {
            println!("{name}: ok");
            ExitCode::SUCCESS
        }
        Ok(found) => {
            for line in &found {
                eprintln!("{line}");
            }
            eprintln!("{name}: {} finding(s)", found.len());
            ExitCode::FAILURE
        }
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

/// The workspace in which cargo runs this program, else the one that it was built from.
fn workspace_root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
