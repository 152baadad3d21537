//! Replays the corpus of every fuzz target through the target's own function, with the stable compiler.

use std::fs;
use std::path::PathBuf;

/// The directory with the corpus of each fuzz target.
fn corpus() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus"))
}

fn names_in(directory: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_target_withstands_its_corpus() {
    for (name, target) in trunkline_fuzz::TARGETS {
        let directory = corpus().join(name);
        let files = names_in(&directory);
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            let data = fs::read(directory.join(&file)).expect("a file of the corpus");
            // Printed before it runs, since a panic does not show its input.
            println!("{name}/{file}");
            target(&data);
        }
    }
}

#[test]
fn every_corpus_has_a_target_and_a_program() {
    let mut targets: Vec<_> = trunkline_fuzz::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    targets.sort();
    assert_eq!(names_in(&corpus()), targets);
    let programs = names_in(&corpus().join("../fuzz_targets"));
    assert_eq!(programs, targets.iter().map(|name| format!("{name}.rs")).collect::<Vec<_>>());
}

/// Runs every file of the corpus truncated at several positions and with single bytes changed. A fuzzer would
/// try these first, and not everybody runs one.
#[test]
fn every_target_withstands_small_changes_to_its_corpus() {
    for (name, target) in trunkline_fuzz::TARGETS {
        // A whole server needs a log-on each time.
        let tries = if matches!(*name, "connection" | "nfs_server") { 4 } else { 64 };
        let directory = corpus().join(name);
        for file in names_in(&directory) {
            let data = fs::read(directory.join(&file)).expect("a file of the corpus");
            println!("{name}/{file}");
            for at in (0..tries).map(|step| step * data.len() / tries) {
                target(&data[..at]);
                for change in [0x00, 0x7f, 0xff] {
                    let mut changed = data.clone();
                    if let Some(byte) = changed.get_mut(at) {
                        *byte = change;
                    }
                    target(&changed);
                }
            }
        }
    }
}
