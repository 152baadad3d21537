//! Complete loads on files of this host, without a server. The report must match the work.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use clap::Parser;
use load::{Args, Error, Plan, Report, Stop};
use serde_json::Value;

#[derive(Debug, Parser)]
struct LoadCli {
    #[command(flatten)]
    args: Args,
}

/// The loads of a command line. `HERE` stands for the directory.
fn plans(here: &Path, line: &str) -> Result<Vec<Plan>, Error> {
    let line = line.replace("HERE", here.to_str().unwrap());
    let words = ["trunkline", "load"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    let words = load::diskspd::spell_out(words).into_iter().skip(1);
    let args = LoadCli::try_parse_from(words).map_err(|why| Error::Usage(why.to_string()))?.args;
    Plan::all(&args, "")
}

/// Runs the loads of a command line.
fn loads(here: &Path, line: &str) -> Result<Vec<Report>, Error> {
    plans(here, line)?.into_iter().map(load::run).collect()
}

fn load_one(here: &Path, line: &str) -> Result<Report, Error> {
    loads(here, line).map(|mut reports| reports.remove(0))
}

fn temp_dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn every_pattern_does_exactly_as_many_operations_as_asked_for() {
    let here = temp_dir();
    for pattern in ["read", "write", "randread", "randwrite", "rw", "randrw"] {
        let options =
            format!("HERE --rw {pattern} --bs 4k --filesize 1m --numjobs 2 --iodepth 3 --number-ios 777");
        let report = load_one(here.path(), &options).unwrap();
        assert_eq!((report.operations(), report.bytes()), (777, 777 * 4096), "{pattern}");
        assert_eq!(report.size_times_operations_holds(), Some(true));
        let job = &report.json()["jobs"][0];
        let count = |part: &str| job[part]["total_ios"].as_u64().unwrap();
        assert_eq!(count("read") + count("write"), 777);
        assert_eq!(
            (count("read") > 0, count("write") > 0),
            (!pattern.ends_with("write"), !pattern.ends_with("read"))
        );
    }
    for job in 0..2 {
        assert_eq!(fs::metadata(here.path().join(format!("trunkline.{job}.0"))).unwrap().len(), 1 << 20);
    }
}

#[test]
fn a_line_of_diskspd_makes_its_files_and_gives_each_its_threads() {
    let here = temp_dir();
    let report =
        load_one(here.path(), "-c256K -b8K -t2 -o3 -r4K -w40 -d1 -W0 -C0 -L -Z1M HERE/a.dat HERE/b.dat")
            .unwrap();
    for name in ["a.dat", "b.dat"] {
        assert_eq!(fs::metadata(here.path().join(name)).unwrap().len(), 256 << 10);
    }
    let shown = report.to_string();
    for thread in 0..4 {
        let file = here.path().join(if thread < 2 { "a.dat" } else { "b.dat" });
        let ends = format!("| {}", file.display());
        let is_row = |line: &str| line.starts_with(&format!("{thread:>6} |")) && line.ends_with(&ends);
        assert_eq!(shown.lines().filter(|line| is_row(line)).count(), 3, "thread {thread}: {shown}");
    }
    assert!(shown.contains("MiB/s: holds"), "{shown}");
    assert!(shown.contains("\tblock size: 8192\n") && shown.contains("9-nines |"), "{shown}");
    let job = &report.json()["jobs"][0];
    let writes = job["write"]["total_ios"].as_f64().unwrap() / report.operations() as f64;
    assert!((0.3..0.5).contains(&writes), "{writes}");
    assert_eq!(job["job options"]["rwmixwrite"], "40");
    // The files exist now, and need not be created.
    let again = load_one(here.path(), "-b8K -si -d1 -W0 HERE/a.dat").unwrap();
    assert_eq!(again.json()["jobs"][0]["job options"]["rw"], "read");
}

#[test]
fn lists_are_measured_one_after_the_other_and_drawn() {
    let here = temp_dir();
    let line = "HERE --rw randread,read --bs 4k,64k --iodepth 1,2 --filesize 1m --number-ios 50";
    let reports = loads(here.path(), line).unwrap();
    let json = load::json(&reports);
    let options: Vec<String> = json["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            let of = |name: &str| job["job options"][name].as_str().unwrap().to_owned();
            [of("rw"), of("bs"), of("iodepth")].join(" ")
        })
        .collect();
    let wanted = ["randread", "read"]
        .into_iter()
        .flat_map(|rw| ["4096 1", "4096 2", "65536 1", "65536 2"].map(|rest| format!("{rw} {rest}")));
    assert_eq!(options, wanted.collect::<Vec<_>>());
    let page = load::html(&reports, "trunkline load <here>");
    assert_eq!((page.matches("<svg").count(), page.matches("</svg>").count()), (14, 14));
    assert!(page.contains("load &lt;here&gt;") && page.contains("Measured at 1 alone"));
    assert!(!page.contains("<script") && !page.contains("http") && !page.contains("NaN"));
}

#[test]
fn what_is_planned_is_begun_or_said_to_be_missed_and_waits_count() {
    let here = temp_dir();
    let report = load_one(
        here.path(),
        "HERE --bs 4k --filesize 1m --numjobs 2 --iodepth 2 --rate_iops 100 --runtime 500ms",
    )
    .unwrap();
    assert_eq!(report.operations() + report.missed(), 100);
    // Many more than any host can do: most never begin, and those that do have waited.
    let line = "HERE --rw write --bs 1m --filesize 8m --rate_iops 1000000 --runtime 300ms";
    let report = load_one(here.path(), line).unwrap();
    assert_eq!(report.operations() + report.missed(), 300_000);
    let latency = &report.json()["jobs"][0]["write"]["clat_ns"];
    assert!(latency["max"].as_u64().unwrap() > 250_000_000, "{latency}");
    assert!(report.to_string().contains("were not begun in time"));
}

#[test]
fn what_warms_up_and_cools_down_does_not_count() {
    let here = temp_dir();
    let report = load_one(here.path(), "-c64K -b64K -o1 -d1 -W1 -C1 HERE/a").unwrap();
    assert_eq!(report.lasted().as_secs(), 1);
    assert_eq!(report.json()["jobs"][0]["read"]["iops_samples"], 2);
    assert!((0.5..2.0).contains(&report.under_way()), "{}", report.under_way());
}

#[test]
fn names_are_made_opened_closed_asked_for_listed_and_deleted() {
    let here = temp_dir();
    for (kind, count) in
        [("create", 60), ("open", 60), ("close", 60), ("stat", 60), ("list", 3), ("delete", 40)]
    {
        let line =
            format!("HERE --metadata {kind} --files 30 --filesize 100 --iodepth 2 --number-ios {count}");
        let report = load_one(here.path(), &line).unwrap();
        assert_eq!(report.operations(), count, "{kind}");
        assert!(report.to_string().contains("Metadata IO"));
        let names = here.path().join("trunkline.names");
        let sizes: Vec<u64> =
            fs::read_dir(names).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes, [100; 30], "{kind}");
    }
}

#[test]
fn what_cannot_be_done_is_said_with_what_to_do() {
    let here = temp_dir();
    fs::write(here.path().join("short"), "abc").unwrap();
    for (line, says) in [
        ("HERE/missing --number-ios 1", "missing, which must be there unless -cSIZE"),
        ("-d1 HERE/missing", "missing, which must be there unless -cSIZE"),
        ("-d1 HERE/short", "has 3 bytes, less than one operation"),
        ("-d1 /dev/null", "no ordinary file"),
        ("-d1 -q4 HERE/a", "-q4: this flag is not understood"),
        ("-d1 HERE/a smb://u@h/s/a", "files of one share"),
        ("-d1 smb://u@h/s", "a target of diskspd's is a file"),
        ("-Sh -b100 -d1 -c1M HERE/a", "multiples of 512"),
        ("-Z1K -w100 -d1 -c1M HERE/a", "-Z"),
        ("-d1 --bs 4k HERE/a", "cannot be used with"),
        ("HERE --channels 2", "--channels goes with smb://"),
        ("HERE --signing gmac", "--signing goes with smb://"),
        ("HERE --bs 64k --filesize 4k", "--filesize"),
        ("HERE --numjobs 1000 --iodepth 1000", "at most 4096"),
        ("HERE --metadata create --filesize 9m", "--filesize of --metadata"),
        ("HERE --bogus", "--bogus"),
        ("", "TARGET"),
    ] {
        let said = loads(here.path(), line).unwrap_err().to_string();
        assert!(said.contains(says), "{line}: {said}");
    }
}

#[test]
fn direct_and_waiting_io_is_had_or_refused_with_what_to_do() {
    let here = temp_dir();
    match load_one(
        here.path(),
        "HERE --rw randrw --bs 4k --filesize 64k --iodepth 2 --direct=1 --sync --number-ios 40",
    ) {
        Ok(report) => {
            assert_eq!(report.operations(), 40);
            let options: Value = report.json()["jobs"][0]["job options"].clone();
            assert_eq!((&options["direct"], &options["sync"]), (&Value::from("1"), &Value::from("1")));
        }
        // tmpfs has no direct I/O.
        Err(why) => assert!(why.to_string().contains("leave out --direct"), "{why}"),
    }
}

#[test]
fn the_null_server_is_asked_by_the_generator_and_by_a_plain_loop() {
    #[derive(Debug, Parser)]
    struct Loop {
        #[command(flatten)]
        args: load::null::LoopArgs,
    }
    let here = temp_dir();
    let file = here.path().join("file");
    fs::write(&file, vec![7; 4 << 20]).unwrap();
    let args = load::null::ServerArgs { file, listen: "127.0.0.1:0".parse().unwrap() };
    let server = load::null::Server::start(&args).unwrap();
    let address = server.address().unwrap();
    std::thread::spawn(move || server.serve());
    for block in ["4k", "1m"] {
        let line = format!(
            "null://{address} --bs {block} --iodepth 8 --connections 2 --filesize 4m --number-ios 300"
        );
        let report = load_one(here.path(), &line).unwrap();
        assert_eq!(report.operations(), 300);
        assert_eq!(report.size_times_operations_holds(), Some(true));
        let line =
            format!("loop {address} --bs {block} --iodepth 8 --connections 2 --filesize 4m --runtime 100ms");
        let done = load::null::plain(&Loop::parse_from(line.split(' ')).args).unwrap();
        assert!(done["ops"].as_u64().unwrap() > 0, "{done}");
    }
    let said = load_one(here.path(), &format!("null://{address} --rw write")).unwrap_err().to_string();
    assert!(said.contains("reads alone"), "{said}");
}

#[test]
fn a_load_that_is_stopped_tells_the_time_it_had_and_misses_only_what_was_planned_in_it() {
    let here = temp_dir();
    let line = "HERE --bs 4k --filesize 1m --ramp_time 5 --runtime 3600 --rate_iops 100";
    let plan = plans(here.path(), line).unwrap().remove(0);
    let stop = Stop::default();
    stop.now();
    let report = load::run_until(plan, &stop).unwrap().json();
    let job = &report["jobs"][0];
    assert_eq!((&job["job_runtime"], &job["trunkline"]["missed_ios"]), (&0.into(), &0.into()));
}
