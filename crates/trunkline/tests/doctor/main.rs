//! `trunkline doctor` and `trunkline advise` as their users see them, on a running server and on peers that
//! are not servers: the messages, the exit status, and that no files are left.

mod peers;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use peers::FaultyPeer;
use serde_json::Value;
use testkit::program::{ProgramDir, Server, own_ids};

/// The maximum duration of any step.
const PATIENCE: Duration = Duration::from_secs(60);
/// The seconds that a quick run may take here, unoptimized and next to other tests. It finishes what it has
/// started after 12.5 seconds. `proving/doctor/faults.py` shows that users get its report within 15.
const TAKES_S: f64 = 30.0;

/// A running server with the share and export `files`; killed when dropped.
struct DoctorTestServer {
    _server: Server,
    program: ProgramDir,
}

impl DoctorTestServer {
    /// Starts a server with additional lines of [server] and of the share.
    fn start(server: &str, share: &str) -> DoctorTestServer {
        let program = ProgramDir::new();
        let password = program.write("password", "Trunk-ann-7\n");
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(program.path().join("files")).unwrap();
        program.write(
            "trunkline.toml",
            &format!(
                "[server]\nlisten = [\"127.0.0.1\"]\nsmb_port = 0\nnfs_port = 0\ndiscovery = false\n\
                 {server}\n\
                 [[user]]\nname = \"ann\"\npassword_file = \"password\"\n{}\
                 [share.files]\npath = \"files\"\nusers = {{ \"*\" = \"full\" }}\nprotocols = [\"smb\", \
                 \"nfs\"]\n\
                 root_squash = \"none\"\nnfs_secure_port = false\n{share}\n",
                own_ids()
            ),
        );
        DoctorTestServer { _server: Server::start(&program), program }
    }

    fn status(&self) -> Value {
        let output = self.program.run("status --json").success().get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    }

    fn smb(&self) -> String {
        let listen = self.status()["server"]["listen"][0].as_str().unwrap().to_owned();
        format!("smb://ann@{listen}/files")
    }

    fn nfs(&self) -> String {
        let listen = self.status()["nfs"]["endpoints"][0]["listen"][0].as_str().unwrap().to_owned();
        format!("nfs://{listen}/files")
    }

    /// The files in the share.
    fn files(&self) -> Vec<String> {
        let listed = fs::read_dir(self.program.path().join("files")).unwrap();
        listed.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Runs the doctor with the right password. Returns its exit status, its report, and standard error.
fn examine(program: &ProgramDir, line: &str) -> (i32, Value, String) {
    let begun = Instant::now();
    let Output { status, stdout, stderr } = started(program, line).output().unwrap();
    assert!(begun.elapsed() < PATIENCE, "{line}: every wait ends");
    let said = String::from_utf8(stderr).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (status.code().unwrap(), serde_json::from_slice(&stdout).unwrap_or_default(), said)
}

fn started(program: &ProgramDir, line: &str) -> std::process::Command {
    let mut command = program.trunkline(&format!("doctor {line} --json"));
    command.env("TRUNKLINE_PASSWORD", "Trunk-ann-7").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_server_is_examined_layer_by_layer_over_both_protocols_and_left_as_it_was() {
    let server = DoctorTestServer::start("", "");
    for (target, protocol) in [(server.smb(), "smb"), (server.nfs(), "nfs")] {
        let (status, report, said) = examine(&server.program, &format!("{target} --quick"));
        assert_eq!((status, said.as_str()), (0, ""), "{report:#}");
        assert!(report["took_s"].as_f64().unwrap() < TAKES_S, "{report:#}");
        let measurements = &report["targets"][0]["facts"];
        assert_eq!(measurements["stopped"], Value::Null, "{measurements:#}");
        assert_eq!(measurements["route"]["addresses"][0]["scope"], "loopback");
        assert_eq!(measurements["transport"]["connect"]["lost"], 0);
        assert_eq!(measurements["protocol"]["protocol"], protocol);
        assert_eq!(measurements["connections"]["got"], 4, "{measurements:#}");
        let runs = measurements["data"]["runs"].as_array().unwrap();
        for (work, connections) in [("write", 1), ("write", 4), ("read", 1), ("read", 2), ("read", 4)] {
            let is_it = |run: &&Value| run["work"] == work && run["connections"] == connections;
            assert!(runs.iter().find(is_it).unwrap()["mib_s"].as_f64().unwrap() > 0.0, "{runs:#?}");
        }
        let depths: Vec<_> =
            runs.iter().filter(|it| it["work"] == "small_read").map(|it| &it["depth"]).collect();
        assert_eq!(depths, [1, 8, 64]);
        assert_eq!(measurements["metadata"]["operations"].as_array().unwrap().len(), 5, "{measurements:#}");
        assert!(measurements["metadata"]["list_names_per_s"].as_f64().unwrap() > 0.0, "{measurements:#}");
        assert_eq!(measurements["left_behind"], Value::Null);
        assert!(server.files().is_empty(), "{:?}", server.files());
    }
}

#[test]
fn a_server_that_grants_few_credits_is_examined_to_its_end() {
    let server = DoctorTestServer::start("[server.testing]\nmax_credits = 2", "");
    let (status, report, said) = examine(&server.program, &format!("{} --quick", server.smb()));
    assert_eq!((status, said.as_str()), (0, ""), "{report:#}");
    let measurements = &report["targets"][0]["facts"];
    assert_eq!(measurements["stopped"], Value::Null, "{measurements:#}");
    assert!(measurements["protocol"]["credits"].as_u64().unwrap() < 64, "{measurements:#}");
    assert_eq!(measurements["metadata"]["operations"].as_array().unwrap().len(), 5, "{measurements:#}");
    assert!(server.files().is_empty(), "{:?}", server.files());
}

#[test]
fn two_targets_are_held_against_each_other_and_the_page_holds_all_it_shows() {
    let server = DoctorTestServer::start("multichannel = false", "");
    let line = format!("{} {} --quick --connections 2 --html page.html", server.smb(), server.nfs());
    let (status, report, said) = examine(&server.program, &line);
    assert_eq!((status, said.as_str()), (0, ""), "{report:#}");
    let rows = report["comparison"]["rows"].as_array().unwrap();
    let taken = rows.iter().find(|row| row["what"] == "connections a session takes").unwrap();
    assert_eq!(
        (&taken["first"], &taken["second"], &taken["differs"]),
        (&"1.00".into(), &"2.00".into(), &true.into())
    );
    assert!(report["took_s"].as_f64().unwrap() < TAKES_S, "{report:#}");
    let first = &report["targets"][0]["facts"]["connections"];
    assert_eq!((&first["offered"], &first["separate_sessions"]), (&false.into(), &true.into()), "{first:#}");
    let page = fs::read_to_string(server.program.path().join("page.html")).unwrap();
    assert!(
        page.contains("<svg") && page.contains("Why is it slow?") && !page.contains("src="),
        "it is whole"
    );
    assert!(server.files().is_empty(), "{:?}", server.files());
}

#[test]
fn what_the_configuration_does_to_a_share_is_found() {
    for (server, share, protocol, kind) in [
        ("advertise = [\"203.0.113.77\"]", "", "smb", "unreachable_address"),
        ("nfs_slots = 2", "", "nfs", "slots"),
    ] {
        let server = DoctorTestServer::start(server, share);
        let target = if protocol == "smb" { server.smb() } else { server.nfs() };
        let (status, report, _) = examine(&server.program, &format!("{target} --quick"));
        let findings = report["targets"][0]["findings"].as_array().unwrap();
        let found = findings.iter().find(|it| it["kind"] == kind);
        let found = found.unwrap_or_else(|| panic!("{kind} in {report:#}"));
        assert_eq!((status, &found["holds_back"]), (0, &true.into()), "{found:#}");
        assert!(!found["rests_on"].as_array().unwrap().is_empty());
        assert_eq!(report["targets"][0]["verdict"]["state"], "held_back");
    }
}

#[test]
fn a_share_that_may_only_be_read_is_read() {
    let server = DoctorTestServer::start("", "read_only = true");
    server.program.write("files/large", &"0123456789abcdef".repeat(100_000));
    for line in [server.smb(), format!("{} --read-only", server.nfs())] {
        let (status, report, said) = examine(&server.program, &format!("{line} --quick"));
        assert_eq!((status, said.as_str()), (0, ""), "{report:#}");
        let data = &report["targets"][0]["facts"]["data"];
        assert_ne!(data["not_written"], Value::Null, "{data:#}");
        let runs = data["runs"].as_array().unwrap();
        assert!(
            runs.iter().any(|run| run["work"] == "read") && runs.iter().all(|run| run["work"] != "write")
        );
        assert_eq!(server.files(), ["large"]);
    }
    // A file in a subdirectory is found too, but not one below the depth of the search.
    let files = server.program.path().join("files");
    fs::create_dir_all(files.join("a/b/c/d/e/f/g")).unwrap();
    fs::rename(files.join("large"), files.join("a/b/large")).unwrap();
    for line in [server.smb(), format!("{} --read-only", server.nfs())] {
        let (status, report, said) = examine(&server.program, &format!("{line} --quick"));
        assert_eq!((status, said.as_str()), (0, ""), "{report:#}");
        let runs = report["targets"][0]["facts"]["data"]["runs"].as_array().unwrap();
        assert!(runs.iter().any(|run| run["work"] == "read"), "{report:#}");
    }
    fs::rename(files.join("a/b/large"), files.join("a/b/c/d/e/f/g/large")).unwrap();
    let (status, report, _) = examine(&server.program, &format!("{} --quick", server.smb()));
    assert_eq!(status, 0, "{report:#}");
    let left_out = report["targets"][0]["facts"]["left_out"].to_string();
    assert!(left_out.contains("no file to read"), "{left_out}");
}

#[test]
fn a_bound_on_the_load_holds() {
    let server = DoctorTestServer::start("", "");
    let (status, report, _) =
        examine(&server.program, &format!("{} --quick --max-rate 8m --max-iops 100", server.smb()));
    assert_eq!(status, 0, "{report:#}");
    for run in report["targets"][0]["facts"]["data"]["runs"].as_array().unwrap() {
        // Operations from before the measured part may end in it.
        assert!(run["mib_s"].as_f64().unwrap() < 13.0, "{run:#}");
        if run["work"] == "small_read" || run["work"] == "small_files" {
            assert!(run["operations"].as_u64().unwrap() <= 90, "{run:#}");
        }
    }
}

#[test]
fn a_low_bound_is_no_reason_to_end_early() {
    let server = DoctorTestServer::start("", "");
    let (status, report, _) =
        examine(&server.program, &format!("{} --quick --max-rate 1m --max-iops 20", server.smb()));
    let measurements = &report["targets"][0]["facts"];
    assert_eq!((status, &measurements["stopped"]), (0, &Value::Null), "{measurements:#}");
    assert!(report["took_s"].as_f64().unwrap() < TAKES_S, "{report:#}");
}

#[test]
fn where_the_largest_file_may_not_be_read_another_one_is() {
    let server = DoctorTestServer::start("", "read_only = true");
    for (name, length, mode) in [("files/largest", 200_000, 0o600), ("files/other", 100_000, 0o644)] {
        let path = server.program.write(name, &"0123456789abcdef".repeat(length / 16));
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let line = format!("{} --quick --read-only --uid 54321 --gid 54321", server.nfs());
    let (status, report, _) = examine(&server.program, &line);
    assert_eq!(status, 0, "{report:#}");
    let runs = report["targets"][0]["facts"]["data"]["runs"].as_array().unwrap();
    assert!(runs.iter().any(|run| run["work"] == "read"), "{report:#}");
}

/// Whether this process, and so any process that it starts, ignores SIGHUP (proc(5), `SigIgn`).
fn outlasts_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    ignored >> (rustix::process::Signal::HUP.as_raw() - 1) & 1 == 1
}

#[test]
fn an_interrupted_examination_clears_its_files_away() {
    use rustix::process::Signal;
    let server = DoctorTestServer::start("", "");
    let (smb, nfs) = (server.smb(), server.nfs());
    let all = [(&smb, Signal::INT), (&nfs, Signal::TERM), (&smb, Signal::HUP), (&nfs, Signal::QUIT)];
    // A process that was started to ignore SIGHUP, for example by nohup(1), passes that on to its children.
    for (target, signal) in all.into_iter().filter(|(_, signal)| *signal != Signal::HUP || !outlasts_hangup())
    {
        let doctor = started(&server.program, &format!("{target} --full")).spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        while server.files().is_empty() {
            assert!(Instant::now() < until, "it begins in time");
            std::thread::yield_now();
        }
        let id = rustix::process::Pid::from_raw(doctor.id() as i32).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
        let output = doctor.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["targets"][0]["facts"]["stopped"]["cause"], "interrupted");
        assert!(server.files().is_empty(), "{:?} {report:#}", server.files());
    }
}

#[test]
fn each_end_says_how_far_it_got() {
    let server = DoctorTestServer::start("", "");
    server.program.write("wrong", "no\n");
    let (smb, nfs) = (server.smb(), server.nfs());
    let closed = FaultyPeer::closed();
    let silent = FaultyPeer::silent();
    let rude = FaultyPeer::rude();
    let chatty = FaultyPeer::chatty();
    for (line, stage, cause, means) in [
        ("smb://ann@no.such.name.invalid/x".to_owned(), "name", "no_name", "misspelt"),
        (format!("smb://ann@{}/x", closed.address()), "connect", "closed", "nobody listens"),
        (format!("nfs://{}/x", closed.address()), "connect", "closed", "nobody listens"),
        (format!("smb://ann@{}/x", silent.address()), "negotiate", "silent", "sends nothing"),
        (format!("nfs://{}/x", silent.address()), "negotiate", "silent", "sends nothing"),
        (format!("smb://ann@{}/x", rude.address()), "negotiate", "protocol", "another service"),
        (format!("smb://ann@{}/x", chatty.address()), "negotiate", "protocol", "another service"),
        (format!("{smb} --password-file wrong"), "log_on", "log_on", "the password is wrong"),
        (smb.replace("/files", "/nothing"), "share", "share", "no such share"),
        (nfs.replace("/files", "/nothing"), "share", "share", "no such share"),
    ] {
        let (status, report, _) = examine(&server.program, &format!("{line} --quick"));
        let target = &report["targets"][0];
        let stopped = &target["facts"]["stopped"];
        assert_eq!(
            (status, &stopped["stage"], &stopped["cause"]),
            (1, &stage.into(), &cause.into()),
            "{line}: {report:#}"
        );
        let paragraph = target["verdict"]["paragraph"].as_str().unwrap();
        assert!(paragraph.contains(means), "{line}: {means} in {paragraph}");
        assert!(!report.to_string().contains("Trunk-ann-7"), "{line}");
    }
    assert!(server.files().is_empty());
}

#[test]
fn a_server_that_stalls_in_the_middle_is_given_up() {
    let server = DoctorTestServer::start("", "");
    for target in [server.smb(), server.nfs()] {
        let (before, behind) = target.rsplit_once("127.0.0.1:").unwrap();
        let port = behind.split('/').next().unwrap().parse().unwrap();
        // The log-on needs few bytes. The exchange after this number of bytes stalls.
        let stalling = FaultyPeer::stalling(port, 200_000);
        let line = format!("{before}{}/files --quick", stalling.address());
        let (status, report, _) = examine(&server.program, &line);
        let stopped = &report["targets"][0]["facts"]["stopped"];
        assert_eq!((status, &stopped["stalled"]), (1, &true.into()), "{line}: {report:#}");
        assert!(report["took_s"].as_f64().unwrap() < TAKES_S, "{report:#}");
        let left = &report["targets"][0]["facts"]["left_behind"];
        assert_eq!(server.files().len(), usize::from(*left != Value::Null), "what is left is said: {left}");
        for name in server.files() {
            assert!(left.as_str().unwrap().ends_with(&name), "{left}");
            fs::remove_dir_all(server.program.path().join("files").join(name)).unwrap();
        }
    }
}

/// The target, with the peer in place of the server.
fn through(target: &str, peer: impl Fn(u16) -> FaultyPeer) -> (FaultyPeer, String) {
    let (before, behind) = target.rsplit_once("127.0.0.1:").unwrap();
    let peer = peer(behind.split('/').next().unwrap().parse().unwrap());
    let line = format!("{before}{}/files", peer.address());
    (peer, line)
}

#[test]
fn a_server_far_away_is_left_as_it_was() {
    let server = DoctorTestServer::start("", "");
    for target in [server.smb(), server.nfs()] {
        let (_peer, target) = through(&target, |port| FaultyPeer::distant(port, Duration::from_millis(130)));
        let (_, report, _) = examine(&server.program, &format!("{target} --quick"));
        let measurements = &report["targets"][0]["facts"];
        assert_eq!(measurements["left_behind"], Value::Null, "{measurements:#}");
        assert_eq!(measurements["transport"]["connect"]["lost"], 0);
        assert!(server.files().is_empty(), "{:?}", server.files());
    }
}

#[test]
fn a_very_slow_way_is_not_called_a_server_that_stalls() {
    let server = DoctorTestServer::start("", "");
    for target in [server.smb(), server.nfs()] {
        // Half a Mbit/s.
        let (_peer, target) = through(&target, |port| FaultyPeer::narrow(port, 62_500.0));
        let (_, report, _) = examine(&server.program, &format!("{target} --quick"));
        let measurements = &report["targets"][0]["facts"];
        assert_ne!(measurements["stopped"]["stalled"], true, "{measurements:#}");
        let runs = measurements["data"]["runs"].as_array().unwrap();
        assert!(runs.iter().any(|it| it["operations"].as_u64().unwrap() > 0), "{measurements:#}");
        assert!(report["took_s"].as_f64().unwrap() < TAKES_S, "{report:#}");
        assert_eq!(
            server.files().len(),
            usize::from(measurements["left_behind"] != Value::Null),
            "{measurements:#}"
        );
        assert_eq!(measurements["left_behind"], Value::Null, "{measurements:#}");
    }
}

#[test]
fn what_is_wrong_with_the_command_line_is_one_line() {
    let program = ProgramDir::new();
    let server = ProgramDir::new();
    for (line, wanted) in [
        (server.path().display().to_string(), "mount it first"),
        ("smb://ann:secret@h/x".to_owned(), "password must not stand on the command line"),
        ("ftp://ann:secret@h/x".to_owned(), "no target"),
        ("null://h:1".to_owned(), "nothing to examine"),
        ("smb://ann@h/x --quick --full".to_owned(), "--full"),
        ("smb://ann@h/x --password-file missing".to_owned(), "missing"),
        (String::new(), "<TARGET>"),
    ] {
        let (status, _, said) = examine(&program, &line);
        assert_eq!(status, 2, "{line}: {said}");
        assert!(said.contains(wanted) && !said.contains("secret"), "{line}: {said}");
    }
}

#[test]
fn advice_follows_the_measurement_where_there_is_one() {
    let program = ProgramDir::new();
    let advise = |line: &str| {
        let output = program.trunkline(&format!("advise {line} --json")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
        let lines = advice["lines"].as_array().unwrap().clone();
        let about = lines.iter().find(|it| it["about"] == "connections").unwrap();
        (about["count"].as_u64().unwrap(), about["basis"].as_str().unwrap().to_owned())
    };
    assert_eq!(advise("--numjobs 8 --nrfiles 8"), (4, "rule".to_owned()));
    assert_eq!(advise("--numjobs 1"), (1, "rule".to_owned()));
    let run = |connections: u32, rate: u32| {
        format!(
            "{{\"work\":\"read\",\"connections\":{connections},\"depth\":16,\"per_s\":{rate},\
             \"mib_s\":{rate},\"turns\":[{rate},{rate},{rate},{rate}]}}"
        )
    };
    let runs = [run(1, 100), run(2, 199), run(4, 200)].join(",");
    program
        .write("report.json", &format!("{{\"targets\":[{{\"facts\":{{\"data\":{{\"runs\":[{runs}]}}}}}}]}}"));
    assert_eq!(advise("--numjobs 8 --nrfiles 8 --from report.json"), (2, "measured".to_owned()));
    assert_eq!(advise("--numjobs 8 --nrfiles 8 --from report.json --from report.json").1, "measured");
    program.write("other.json", "{}");
    let refused = program.trunkline("advise --from other.json").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("holds no runs"));
}

#[test]
fn a_running_server_tells_what_its_limits_held_and_what_its_clients_do() {
    let account = "account = \"lab\"\n[account.lab]\nkind = \"standard\"\nformula = \"small\"";
    let server = DoctorTestServer::start("", account);
    let state = server.program.path().join("state");
    let line = format!("{} --quick --server {}", server.smb(), state.display());
    let (status, report, said) = examine(&server.program, &line);
    assert_eq!((status, said.as_str()), (0, ""), "{report:#}");
    let target = &report["targets"][0];
    let told = &target["facts"]["told"];
    assert_eq!(told["provisioned_iops"], 1000, "{told:#}");
    let kinds = told["by_type"].as_object().unwrap();
    assert!(kinds.keys().any(|kind| kind.ends_with("Throttling")), "{told:#}");
    let found = target["findings"].as_array().unwrap();
    let throttled = found.iter().find(|it| it["kind"] == "throttled").unwrap();
    assert_eq!((&throttled["layer"], &throttled["holds_back"]), (&"limits".into(), &true.into()));
    let advise = |line: &str| server.program.trunkline(&format!("advise {line}")).output().unwrap();
    let socket = state.join("control.sock");
    for source in [&state, &socket] {
        let advice = advise(&format!("--from {} --share files --numjobs 4", source.display()));
        let text = String::from_utf8(advice.stdout).unwrap();
        assert!(text.starts_with("counted on files: ") && text.contains("\nconnections "), "{text}");
    }
    let refused = advise(&format!("--from {} --share dogs", state.display()));
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("used were: files"));
}

#[test]
fn a_client_that_takes_one_connection_is_told_so() {
    let server = DoctorTestServer::start("", "");
    for (target, kind) in
        [(server.smb(), "client_multichannel_off"), (server.nfs(), "client_few_connections")]
    {
        let line = format!("{target} --quick --one-connection");
        let (status, report, _) = examine(&server.program, &line);
        assert_eq!(status, 0, "{report:#}");
        let target = &report["targets"][0];
        let connections = &target["facts"]["connections"];
        assert_eq!((&connections["got"], &connections["separate_sessions"]), (&1.into(), &true.into()));
        // Whether that is a bottleneck of this share depends on the speed of this host.
        let found = target["findings"].as_array().unwrap();
        let finding = found.iter().find(|it| it["kind"] == kind).unwrap();
        assert_eq!(finding["change"][0], "client", "{finding:#}");
    }
}
