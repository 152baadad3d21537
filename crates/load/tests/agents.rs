//! Loads from several clients, which are agents in this process. They start together and work in their
//! own directories, and their results are merged.

use std::path::Path;
use std::thread;

use clap::Parser;
use load::agents::{Agent, conduct};
use load::{Args, Error, Report};

const SECRET: &str = "a secret of enough length";

#[derive(Debug, Parser)]
struct LoadCli {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Args {
    let words = ["trunkline", "load"].into_iter().chain(line.split_whitespace()).map(Into::into);
    LoadCli::parse_from(load::diskspd::spell_out(words).into_iter().skip(1)).args
}

/// Starts an agent and returns its address. It ends with the process.
fn agent(secret: &str) -> String {
    let agent = Agent::listen(&args("--agent 127.0.0.1:0"), secret.to_owned()).unwrap();
    let address = agent.address().unwrap().to_string();
    thread::spawn(move || agent.serve());
    address
}

fn load_from(agents: &[String], here: &Path, line: &str) -> Result<Vec<Report>, Error> {
    let line = format!("--agents {} {}", agents.join(","), line.replace("HERE", here.to_str().unwrap()));
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    conduct(&args(&line), &words, SECRET).map(|it| it.reports)
}

#[test]
fn two_clients_do_twice_the_work_in_directories_of_their_own() {
    let here = tempfile::tempdir().unwrap();
    let agents = [agent(SECRET), agent(SECRET)];
    let line =
        "HERE --rw randwrite,randread --bs 4k --filesize 256k --numjobs 2 --iodepth 2 --number-ios 500";
    let reports = load_from(&agents, here.path(), line).unwrap();
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert_eq!((report.operations(), report.bytes()), (1000, 1000 * 4096));
        assert_eq!(report.size_times_operations_holds(), Some(true));
        let shown = report.to_string();
        assert!(
            shown.contains("thread count:\t\t4\n") && shown.contains("from each of 2 clients"),
            "{shown}"
        );
        for agent in &agents {
            assert!(shown.contains(&format!("| {agent}: trunkline.1.0")), "{shown}");
        }
    }
    for client in 1..=2 {
        assert!(here.path().join(format!("client-{client}/trunkline.1.0")).exists());
    }
    // They wait for the next load. A load with diskspd's flags uses the files that it names.
    let line = "-c64K -b4K -t1 -o1 -w50 -d1 -W0 HERE/shared.dat";
    let report = &load_from(&agents, here.path(), line).unwrap()[0];
    assert!(report.operations() > 0 && here.path().join("shared.dat").exists());
}

#[test]
fn what_goes_wrong_at_a_client_is_said_with_its_name() {
    let here = tempfile::tempdir().unwrap();
    let (good, strange) = (agent(SECRET), agent("another secret of enough length"));
    for (agents, line, says) in [
        (vec![good.clone()], "-d1 HERE/missing", "missing, which must be there"),
        (vec![good.clone(), strange.clone()], "HERE --number-ios 1", "does not take our secret"),
        (vec!["127.0.0.1:1".to_owned()], "HERE --number-ios 1", "start there: trunkline load --agent"),
        (vec![good.clone()], "HERE --number-ios 1 --server-pid 1", "--server-pid"),
    ] {
        let said = load_from(&agents, here.path(), line).unwrap_err().to_string();
        assert!(said.contains(says) && !said.contains('\n'), "{line}: {said}");
    }
    // The agent is free again.
    assert_eq!(load_from(&[good], here.path(), "HERE --number-ios 3").unwrap()[0].operations(), 3);
}
