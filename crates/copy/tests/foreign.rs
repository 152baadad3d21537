//! Whole copies to and from foreign servers: what comes back must be what was there.

#[path = "../../client/tests/support/ganesha.rs"]
mod ganesha;
#[path = "../../client/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Parser;
use copy::{Args, Plan, Report};
use ganesha::Ganesha;
use support::{Samba, USER};

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn copy(source: &str, target: &str, options: &str) -> Report {
    let words = ["copy", source, target].into_iter().chain(options.split_whitespace());
    let ask = |_: &str| Ok(USER.1.to_owned());
    copy::run(Plan::new(&Cli::parse_from(words).args, &ask).unwrap()).unwrap()
}

/// A tree with many small files, a large one, an empty one, a directory without files, and names of all kinds.
fn plant(root: &Path) {
    for directory in ["many", "deep/er", "empty"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for number in 0..300u32 {
        std::fs::write(root.join(format!("many/{number}")), number.to_le_bytes().repeat(700)).unwrap();
    }
    let large: Vec<u8> = (0..9_000_001u32).map(|at| (at % 253) as u8).collect();
    std::fs::write(root.join("deep/er/large"), large).unwrap();
    std::fs::write(root.join("deep/größer & „so“"), "x").unwrap();
    std::fs::write(root.join("nothing"), "").unwrap();
    let past = SystemTime::UNIX_EPOCH + Duration::new(1_111_111_111, 123_456_700);
    for name in ["many/7", "deep/er/large", "deep"] {
        std::fs::File::open(root.join(name)).unwrap().set_modified(past).unwrap();
    }
}

/// Every path below, with what is in it and when it was changed, to 100 ns.
fn grown(root: &Path) -> Vec<(String, Option<Vec<u8>>, u128)> {
    let (mut found, mut todo) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = todo.pop() {
        let known = path.metadata().unwrap();
        let time = known.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() / 100;
        let content = known.is_file().then(|| std::fs::read(&path).unwrap());
        if known.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((path.strip_prefix(root).unwrap().display().to_string(), content, time));
    }
    found.sort();
    found
}

/// There and back, and then nothing is left to do.
fn there_and_back(remote: &str) {
    let dir = tempfile::tempdir().unwrap();
    let [here, back] = ["here", "back"].map(|name| dir.path().join(name));
    plant(&here);
    let [here, back] = [here, back].map(|path| path.to_str().unwrap().to_owned());
    let there = copy(&here, remote, "--verify --channels 4");
    assert_eq!(there.status(), 1, "{:#}", there.json());
    assert_eq!(there.json()["channels"]["target"].as_array().unwrap().len(), 4, "{:#}", there.json());
    let again = copy(&here, remote, "");
    assert_eq!(again.status(), 0, "{:#}", again.json());
    let returned = copy(remote, &back, "");
    assert_eq!(returned.status(), 1, "{:#}", returned.json());
    assert!(grown(Path::new(&here)) == grown(Path::new(&back)));
    std::fs::write(Path::new(&here).join("many/7"), "another").unwrap();
    std::fs::remove_dir_all(Path::new(&here).join("deep")).unwrap();
    let mirrored = copy(&here, remote, "--mirror");
    assert_eq!(mirrored.status(), 1 | 2, "{:#}", mirrored.json());
    let returned = copy(remote, &back, "--mirror");
    assert_eq!(returned.status(), 1 | 2, "{:#}", returned.json());
    assert!(grown(Path::new(&here)) == grown(Path::new(&back)));
}

#[test]
fn a_tree_goes_to_samba_and_comes_back() {
    let Some(samba) = Samba::start("a_tree_goes_to_samba_and_comes_back") else { return };
    there_and_back(&format!("smb://{}@{}/files/copy/of", USER.0, samba.address));
}

#[test]
fn a_tree_goes_to_ganesha_and_comes_back() {
    let Some(ganesha) = Ganesha::start("a_tree_goes_to_ganesha_and_comes_back") else { return };
    there_and_back(&format!("nfs://{}/files/copy/of", ganesha.address));
}
