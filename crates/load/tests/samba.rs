//! Complete loads against a foreign server. The report must match the work.

use clap::Parser;
use load::{Args, Error, Plan, Report};
use testkit::samba::{Samba, USER};

#[derive(Debug, Parser)]
struct LoadCli {
    #[command(flatten)]
    args: Args,
}

/// Runs a load on the directory `load` of the share `files`.
fn load(samba: &Samba, options: &str) -> Result<Report, Error> {
    let target = format!("smb://{}@{}/files/load", USER.0, samba.address);
    let words = ["load", &target].into_iter().chain(options.split_whitespace());
    load::run(Plan::all(&LoadCli::parse_from(words).args, USER.1)?.remove(0))
}

#[test]
fn every_pattern_does_exactly_as_many_operations_as_asked_for() {
    let Some(samba) = Samba::start("every_pattern_does_exactly_as_many_operations_as_asked_for") else {
        return;
    };
    for pattern in ["read", "write", "randread", "randwrite", "rw", "randrw"] {
        let options = format!("--rw {pattern} --bs 4k --filesize 1m --iodepth 8 --number-ios 777");
        let report = load(&samba, &options).unwrap();
        assert_eq!((report.operations(), report.bytes()), (777, 777 * 4096), "{pattern}");
        let json = report.json();
        let [read, write] = ["read", "write"].map(|it| json["jobs"][0][it]["total_ios"].as_u64().unwrap());
        assert_eq!(read + write, 777);
        let both = matches!(pattern, "rw" | "randrw");
        assert_eq!(
            (read > 0, write > 0),
            (both || pattern.ends_with("read"), both || pattern.ends_with("write"))
        );
        assert_eq!(json["jobs"][0]["read"]["clat_ns"]["N"], read);
    }
}

#[test]
fn files_are_laid_out_whole_and_work_spreads_over_jobs_and_connections() {
    let Some(samba) = Samba::start("files_are_laid_out_whole_and_work_spreads_over_jobs_and_connections")
    else {
        return;
    };
    let options = "--rw write --bs 64k --filesize 1m --nrfiles 2 --numjobs 3 --iodepth 2 --connections 2";
    let report = load(&samba, &format!("{options} --number-ios 300 --encryption aes128gcm")).unwrap();
    assert_eq!((report.operations(), report.bytes()), (300, 300 * 65536));
    for job in 0..3 {
        for file in 0..2 {
            let path = samba.files().join(format!("load/trunkline.{job}.{file}"));
            assert_eq!(std::fs::metadata(path).unwrap().len(), 1 << 20);
        }
    }
    let shown = report.to_string();
    assert!(shown.contains("SMB 3.1.1, signing off, encryption Aes128Gcm"), "{shown}");
    assert!(shown.lines().any(|line| line.trim_start().starts_with("1 |")), "{shown}");
}

#[test]
fn metadata_leaves_the_standing_names_and_nothing_else() {
    let Some(samba) = Samba::start("metadata_leaves_the_standing_names_and_nothing_else") else { return };
    for options in [
        "create --iodepth 4 --number-ios 120 --bs 100",
        "create --compound --number-ios 10",
        "open --iodepth 4 --number-ios 120",
        "open --compound --number-ios 120",
        "stat --iodepth 4 --number-ios 120",
        "unlink --iodepth 4 --number-ios 120",
        "unlink --compound",
        "list --number-ios 5",
        "create --ramp_time 100ms --runtime 100ms",
    ] {
        let report = load(&samba, &format!("--metadata {options} --files 50")).unwrap();
        let wanted = options.split("--number-ios ").nth(1).map(|it| it.split(' ').next().unwrap());
        match wanted.map(|it| it.parse::<u64>().unwrap()) {
            Some(wanted) => assert_eq!(report.operations(), wanted, "{options}"),
            None if options.starts_with("unlink") => assert_eq!(report.operations(), 50),
            None => assert!(report.operations() > 0, "{options}"),
        }
        let left = std::fs::read_dir(samba.files().join("load/trunkline.names")).unwrap();
        let mut left: Vec<_> = left.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(
            (left.len(), left[0].as_str(), left[49].as_str()),
            (50, "s00000000", "s00000049"),
            "{options}"
        );
    }
}

#[test]
fn what_cannot_be_had_is_said_in_one_line() {
    let Some(samba) = Samba::start("what_cannot_be_had_is_said_in_one_line") else { return };
    for (options, why) in [
        ("--dialect 2.1 --signing gmac --number-ios 1", "signs by HmacSha256"),
        ("--dialect 2.1 --encryption aes128ccm --number-ios 1", "does not offer encryption"),
        ("--signing gmac --encryption aes128gcm", "--signing does not go with --encryption"),
        ("--bs 64k --filesize 4k", "--filesize"),
        ("--connections 3 --iodepth 2", "--connections"),
        ("--compound", "--compound"),
        ("--bs 9m --filesize 1g", "--bs"),
    ] {
        let said = load(&samba, options).unwrap_err().to_string();
        assert!(said.contains(why) && !said.contains('\n'), "{options}: {said}");
    }
    let args = |target: &str| LoadCli::parse_from(["load", target, "--number-ios", "1"]).args;
    let server = samba.address;
    let wrong =
        load::run(Plan::all(&args(&format!("smb://alice@{server}/files")), "wrong").unwrap().remove(0));
    assert!(wrong.unwrap_err().to_string().contains("STATUS_LOGON_FAILURE"));
    let nowhere = load::run(Plan::all(&args("smb://alice@127.0.0.1:1/files"), USER.1).unwrap().remove(0));
    assert!(nowhere.unwrap_err().to_string().starts_with("connecting to 127.0.0.1 port 1"));
}

#[test]
fn numbers_of_channels_are_measured_one_after_the_other_and_each_channel_keeps_to_its_rate() {
    let Some(samba) = Samba::start("numbers_of_channels_are_measured_one_after_the_other") else { return };
    let target = format!("smb://{}@{}/files/load", USER.0, samba.address);
    let options = "--rw read --bs 64k --filesize 1m --iodepth 32 --number-ios 512 --channel-rate 16m";
    let words = ["load", &target, "--channels", "1,4"].into_iter().chain(options.split_whitespace());
    let plans = Plan::all(&LoadCli::parse_from(words).args, USER.1).unwrap();
    let reports: Vec<_> = plans.into_iter().map(|plan| load::run(plan).unwrap()).collect();
    let json = load::json(&reports);
    for (at, channels) in [1, 4].into_iter().enumerate() {
        let job = &json["jobs"][at];
        assert_eq!(job["job options"]["channels"], channels.to_string());
        let carried = job["trunkline"]["channels"].as_array().unwrap();
        assert_eq!(carried.len(), channels);
        // 32 MiB in all. No channel can exceed its rate, apart from the unused time at the start.
        let most = carried.iter().map(|it| it["bytes"].as_u64().unwrap()).max().unwrap();
        let seconds = reports[at].lasted().as_secs_f64();
        assert!(seconds > 0.9 * most as f64 / (16 << 20) as f64 - 0.01, "{most} bytes in {seconds} s");
        assert!(most < (40 << 20) / channels as u64, "{channels} channels: one carried {most} bytes");
        // The data came with a header for each 64 KiB, and the requests took fewer bytes.
        let sum = |of: &str| carried.iter().map(|it| it[of].as_u64().unwrap()).sum::<u64>();
        let (read, received) = (32 << 20, sum("received"));
        assert!(received > read && received < read + read / 16, "{read} bytes were read, {received} came");
        assert!(sum("sent") > 0, "{job:#}");
    }
}

#[test]
fn a_line_of_diskspd_and_a_planned_rate_do_over_smb_what_they_do_on_files() {
    let Some(samba) = Samba::start("a_line_of_diskspd_and_a_planned_rate_do_over_smb_what_they_do_on_files")
    else {
        return;
    };
    let files = format!("smb://{}@{}/files", USER.0, samba.address);
    let run = |line: &str| {
        let words = ["trunkline", "load"].into_iter().chain(line.split_whitespace()).map(Into::into);
        let words = load::diskspd::spell_out(words).into_iter().skip(1);
        load::run(Plan::all(&LoadCli::parse_from(words).args, USER.1)?.remove(0))
    };
    let missing = run(&format!("-d1 {files}/none.dat")).unwrap_err().to_string();
    assert!(missing.contains("OBJECT_NAME_NOT_FOUND") && missing.contains("unless -cSIZE"), "{missing}");
    let line = format!("-c128K -b8K -t2 -o4 -r -w50 -Sh -d1 -W0 {files}/a.dat {files}/b.dat");
    let shown = run(&line).unwrap().to_string();
    assert!(
        shown.contains("thread count:\t\t4\n") && shown.contains("| b.dat") && shown.contains(": holds"),
        "{shown}"
    );
    assert_eq!(std::fs::metadata(samba.files().join("a.dat")).unwrap().len(), 128 << 10);
    let line = format!("{files}/load --filesize 1m --iodepth 4 --rate_iops 200 --runtime 500ms");
    let report = run(&line).unwrap();
    assert_eq!(report.operations() + report.missed(), 100);
    for kind in ["close", "delete"] {
        let line = format!("{files}/load --metadata {kind} --files 20 --filesize 3k --number-ios 20");
        assert_eq!(run(&line).unwrap().operations(), 20);
    }
}
