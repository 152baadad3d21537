//! `trunkline copy` as its users see it, to and from a running server: the copied files, the messages, and
//! the exit status.

mod attributes;
mod holes;
mod links;
mod lost_connections;
mod mirror;
mod new_directories;
mod server_side;
mod sidecar;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::program::{ProgramDir, Server, own_ids};

/// The maximum duration of any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server with the share and export `files`; killed when dropped.
struct CopyTestServer {
    server: Server,
    program: ProgramDir,
}

impl CopyTestServer {
    fn start() -> CopyTestServer {
        CopyTestServer::start_at(ProgramDir::new())
    }

    fn start_at(program: ProgramDir) -> CopyTestServer {
        CopyTestServer::start_with(program, "")
    }

    /// Starts a server with `settings` for the server as a whole.
    fn start_with(program: ProgramDir, settings: &str) -> CopyTestServer {
        let password = program.write("password", "Trunk-ann-7\n");
        let wrong = program.write("wrong", "no\n");
        for file in [password, wrong] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::create_dir_all(program.path().join("files")).unwrap();
        fs::create_dir(program.path().join("here")).unwrap();
        program.write(
            "trunkline.toml",
            &format!(
                "[server]\nlisten = [\"127.0.0.1\"]\nsmb_port = 0\nnfs_port = 0\ndiscovery = false\n\
                 {settings}\
                 [[user]]\nname = \"ann\"\npassword_file = \"password\"\n{}\
                 [share.files]\npath = \"files\"\nusers = {{ \"*\" = \"full\" }}\nprotocols = [\"smb\", \
                 \"nfs\"]\n\
                 root_squash = \"none\"\nnfs_secure_port = false\n",
                own_ids()
            ),
        );
        CopyTestServer { server: Server::start(&program), program }
    }

    fn status(&self) -> Value {
        let output = self.program.run("status --json").success().get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    }

    /// The address of the directory `below` in the share.
    fn smb(&self, below: &str) -> String {
        let listen = self.status()["server"]["listen"][0].as_str().unwrap().to_owned();
        format!("smb://ann@{listen}/files/{below}")
    }

    /// The address of the directory `below` over NFS.
    fn nfs(&self, below: &str) -> String {
        let listen = self.status()["nfs"]["endpoints"][0]["listen"][0].as_str().unwrap().to_owned();
        format!("nfs://{listen}/files/{below}")
    }

    /// All files that do not belong to the server itself.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let own = ["state", "log", "output"].map(|name| self.path(name));
        let mut files = self.program.files();
        files.retain(|path, _| !own.iter().any(|own| path.starts_with(own)));
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.program.path().join(name)
    }

    /// Runs a copy with the right password. Returns the exit status, the report and standard error.
    fn copy(&self, line: &str) -> (i32, Value, String) {
        let Output { status, stdout, stderr } = self.started(&format!("{line} --json")).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        (status.code().unwrap(), serde_json::from_slice(&stdout).unwrap_or_default(), said)
    }

    fn started(&self, line: &str) -> std::process::Command {
        let mut command = self.program.trunkline(&format!("copy {line}"));
        command.env("TRUNKLINE_PASSWORD", "Trunk-ann-7").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_tree_goes_over_both_protocols_and_comes_back_with_what_both_know_of_it() {
    let server = CopyTestServer::start();
    for number in 0..200u32 {
        server.program.write(&format!("here/many/{number}"), &"x".repeat(number as usize * 10));
    }
    server.program.write("here/large", &"0123456789abcdef".repeat(300_000));
    fs::set_permissions(server.path("here/many/3"), fs::Permissions::from_mode(0o640)).unwrap();
    let (smb, nfs) = (server.smb("smb"), server.nfs("nfs/deep"));
    let (status, report, said) = server.copy(&format!("here {smb} --channels 4"));
    assert_eq!((status, said.as_str()), (1, ""));
    assert_eq!(
        (&report["files"]["copied"], &report["dirs"]["copied"]),
        (&201.into(), &2.into()),
        "{report:#}"
    );
    assert_eq!(report["channels"]["target"].as_array().unwrap().len(), 4, "{report:#}");
    let (status, report, _) = server.copy(&format!("{smb} {nfs} --verify --channels 2"));
    assert_eq!((status, &report["files"]["copied"]), (1, &201.into()), "{report:#}");
    assert_eq!(report["channels"]["target"].as_array().unwrap().len(), 2);
    let (status, report, _) = server.copy(&format!("{nfs} back --threads 3"));
    assert_eq!((status, &report["bytes"]["failed"]), (1, &0.into()), "{report:#}");
    for name in ["many/0", "many/199", "large", "many/3"] {
        let [here, back] = ["here", "back"].map(|dir| server.path(dir).join(name));
        assert!(fs::read(&here).unwrap() == fs::read(&back).unwrap(), "{name}");
        let [here, back] = [here, back].map(|path| path.metadata().unwrap().modified().unwrap());
        let distance = here.duration_since(back).unwrap_or_default();
        assert!(distance < Duration::from_nanos(100), "{name}: {distance:?}");
    }
    let (status, _, _) = server.copy(&format!("here {}", server.nfs("modes")));
    assert_eq!(status, 1);
    let mode = server.path("files/modes/many/3").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // Nothing is left to copy, in any direction and over any protocol.
    for line in [format!("here {smb}"), format!("{smb} here"), format!("here {nfs}"), "here back".to_owned()]
    {
        let (status, report, said) = server.copy(&line);
        assert_eq!((status, &report["files"]["skipped"]), (0, &201.into()), "{line}: {said}{report:#}");
    }
    assert!(!server.program.files().keys().any(|path| path.to_string_lossy().ends_with("-part")));
}

#[test]
fn a_tree_goes_there_and_back_where_the_server_grants_few_credits() {
    for credits in [1, 2, 3, 8] {
        let settings = format!("[server.testing]\nmax_credits = {credits}\n");
        let server = CopyTestServer::start_with(ProgramDir::new(), &settings);
        for number in 0..40u32 {
            server.program.write(&format!("here/many/{number}"), &"x".repeat(number as usize * 5000));
        }
        server.program.write("here/large", &"0123456789abcdef".repeat(200_000));
        let smb = server.smb("to");
        let (status, report, said) = server.copy(&format!("here {smb} --verify --channels 2"));
        assert_eq!((status, said.as_str(), &report["files"]["copied"]), (1, "", &41.into()), "{report:#}");
        let (status, report, said) = server.copy(&format!("{smb} back"));
        assert_eq!((status, said.as_str(), &report["files"]["copied"]), (1, "", &41.into()), "{report:#}");
        for name in ["large", "many/0", "many/39"] {
            let [here, back] = ["here", "back"].map(|dir| fs::read(server.path(dir).join(name)).unwrap());
            assert!(here == back, "{credits}: {name}");
        }
        fs::remove_dir_all(server.path("here/many")).unwrap();
        let (status, report, said) = server.copy(&format!("here {smb} --mirror"));
        assert_eq!((status, said.as_str(), &report["files"]["extras"]), (2, "", &40.into()), "{report:#}");
        assert_eq!(names(&server.path("files/to")), ["large"]);
    }
}

#[test]
fn many_small_files_get_sessions_of_their_own_and_a_wrong_password_none() {
    let server = CopyTestServer::start();
    for number in 0..200u32 {
        server.program.write(&format!("here/{number}"), &number.to_string());
    }
    let smb = server.smb("to");
    let (status, _, said) = server.copy(&format!("here {smb} --password-file wrong"));
    assert!(status == 16 && said.contains("wrong password") && said.lines().count() == 1, "{said}");
    assert!(names(&server.path("files")).is_empty());
    let (status, report, said) = server.copy(&format!("here {smb}"));
    assert_eq!((status, said.as_str(), &report["files"]["copied"]), (1, "", &200.into()), "{report:#}");
    let sessions = report["channels"]["target"].as_array().unwrap();
    assert!(sessions.len() >= 4, "{report:#}");
    assert!((0..200u32).all(|number| {
        fs::read(server.path("files/to").join(number.to_string())).unwrap() == number.to_string().as_bytes()
    }));
    assert_eq!(names(&server.path("files/to")).len(), 200, "no part is left");
    // Nothing is left to copy.
    assert_eq!(server.copy(&format!("here {smb}")).0, 0);
}

#[test]
fn a_mirror_deletes_what_is_beyond_the_source_and_a_dry_run_does_nothing() {
    let server = CopyTestServer::start();
    server.program.write("here/a", "new");
    server.program.write("here/keep.tmp", "not copied");
    server.program.write("files/a", "old one");
    server.program.write("files/more/deep/b", "12345");
    server.program.write("files/kept.tmp", "not deleted");
    let smb = server.smb("");
    let before = server.files();
    let (status, report, said) = server.copy(&format!("here {smb} --mirror --dry-run --exclude *.tmp"));
    assert_eq!((status, &report["files"]["copied"], &report["dirs"]["extras"]), (2, &1.into(), &2.into()));
    assert!(said.contains("here/a: would be copied"), "{said}");
    assert!(before == server.files());
    let (status, report, _) = server.copy(&format!("here {smb} --exclude *.tmp"));
    assert_eq!((status, &report["files"]["copied"]), (1 | 2, &1.into()), "{report:#}");
    assert_eq!(names(&server.path("files")), ["a", "kept.tmp", "more"]);
    let (status, report, _) = server.copy(&format!("here {smb} --mirror --exclude *.tmp"));
    assert_eq!((status, &report["bytes"]["extras"]), (2, &5.into()), "{report:#}");
    assert_eq!((&report["dirs"]["extras"], &report["files"]["extras"]), (&2.into(), &1.into()), "{report:#}");
    assert_eq!(names(&server.path("files")), ["a", "kept.tmp"]);
    let (status, report, _) = server.copy(&format!("here {} --include *.tmp", server.nfs("some")));
    assert_eq!((status, &report["files"]["total"]), (1, &1.into()), "{report:#}");
    assert_eq!(names(&server.path("files/some")), ["keep.tmp"]);
}

#[test]
fn one_file_gets_the_name_it_is_given_or_goes_into_a_directory() {
    let server = CopyTestServer::start();
    server.program.write("here/a", "content");
    let (smb, nfs) = (server.smb("new/b"), server.nfs("new"));
    assert_eq!(server.copy(&format!("here/a {smb}")).0, 1);
    assert_eq!(server.copy(&format!("{smb} {nfs}/c")).0, 1);
    assert_eq!(server.copy(&format!("{nfs}/c here")).0, 1);
    assert_eq!(fs::read_to_string(server.path("here/c")).unwrap(), "content");
    assert_eq!(names(&server.path("files/new")), ["b", "c"]);
}

#[test]
fn the_exit_status_has_a_bit_for_each_thing_that_went_wrong() {
    let server = CopyTestServer::start();
    server.program.write("here/good", "x");
    server.program.write("here/no:stream", "x");
    server.program.write("here/no\\way", "x");
    server.program.write("here/kind", "x");
    server.program.write("here/Same", "x");
    server.program.write("here/same", "x");
    server.program.write("files/to/kind/file", "x");
    let (status, report, said) = server.copy(&format!("here {}", server.smb("to")));
    assert_eq!(status, 1 | 4 | 8, "{report:#}");
    let counts = ["total", "copied", "mismatch", "failed"].map(|it| report["files"][it].as_u64().unwrap());
    assert_eq!(counts, [6, 2, 1, 3]);
    for wanted in
        ["here/no:stream: a share cannot hold", "rename", "here/kind: not copied", "the target takes it for"]
    {
        assert!(said.contains(wanted), "{wanted} in {said}");
    }
    assert!(fs::read_dir(server.path("files")).unwrap().count() == 1, "no name led elsewhere");
    // Over NFS all of these names are ordinary.
    let (status, report, said) = server.copy(&format!("here {}", server.nfs("other")));
    assert_eq!((status, &report["files"]["copied"]), (1, &6.into()), "{said}");
    let table = server.started(&format!("here {} --mirror", server.smb("to"))).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let heads = "               Total    Copied   Skipped  Mismatch    FAILED    Extras\n";
    assert!(table.contains(&heads[3..]) && table.contains("   Files :         6         0"), "{table}");
}

#[test]
fn what_keeps_a_copy_from_beginning_is_one_line_that_says_what_to_do() {
    let server = CopyTestServer::start();
    server.program.write("here/a", "x");
    let (smb, nfs) = (server.smb("to"), server.nfs("to"));
    let share = smb.replace("/files/to", "/nothing");
    let gone = smb.replace("/to", "/gone");
    let before = server.files();
    for (line, wanted) in [
        ("here here/below".to_owned(), "inside of the source"),
        ("here ./here".to_owned(), "inside of the source"),
        (format!("{smb} {smb}/below"), "inside of the source"),
        ("here/a here --mirror".to_owned(), "deletes"),
        ("gone there".to_owned(), "no such file or directory"),
        (format!("{gone} there"), "no such file or directory"),
        (format!("here {smb} --password-file wrong"), "wrong password"),
        (format!("here {smb} --password-file missing"), "--password-file missing"),
        (format!("here {share}"), "no such share"),
        ("here smb://ann@127.0.0.1:1/files".to_owned(), "connecting to 127.0.0.1 port 1"),
        ("here nfs://nowhere.invalid/files".to_owned(), "connecting to nowhere.invalid"),
        (format!("here {nfs} --encrypt"), "--encrypt"),
        (format!("here {nfs} --no-such-option"), "--no-such-option"),
        (format!("here {nfs} --rate 0"), "nothing is ever copied"),
        ("here ftp://h/x".to_owned(), "not known"),
        ("here".to_owned(), "<DST>"),
    ] {
        let (status, _, said) = server.copy(&line);
        assert_eq!(status, 16, "{line}: {said}");
        let wanted = if wanted == "deletes" { "--mirror would delete the source" } else { wanted };
        assert!(said.contains(wanted), "{wanted} in {said}");
        assert!(!said.contains("Trunk-ann-7") && !said.contains("panicked"), "{said}");
    }
    assert!(before == server.files());
}

/// Waits until `dir` contains the unfinished file `large`.
fn wait_for_a_part(dir: &Path) {
    let until = Instant::now() + PATIENCE;
    let is_part = |name: &String| name.starts_with(".large.") && name.ends_with(".trunkline-part");
    while !(dir.exists() && names(dir).iter().any(is_part)) {
        assert!(Instant::now() < until, "the copy has begun in time");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_comes_back_in_time_is_gone_on_with() {
    for protocol in ["smb", "nfs"] {
        let mut server = CopyTestServer::start();
        server.program.write("here/large", &"0123456789abcdef".repeat(400_000));
        let url = if protocol == "smb" { server.smb("to") } else { server.nfs("to") };
        let line = format!("here {url} --retries 20 --rate 3m --json");
        let copy = server.started(&line).spawn().unwrap();
        wait_for_a_part(&server.path("files/to"));
        server.server.kill();
        // The server listens on the same port again.
        let port = url.split([':', '/']).find(|part| part.parse::<u16>().is_ok()).unwrap();
        let config = fs::read_to_string(server.path("trunkline.toml")).unwrap();
        let config = config.replace(&format!("{protocol}_port = 0"), &format!("{protocol}_port = {port}"));
        server.program.write("trunkline.toml", &config);
        server.server = Server::start(&server.program);
        let output = copy.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{protocol}: {said}");
        let made = server.path("files/to");
        assert_eq!(names(&made), ["large"]);
        assert!(fs::read(made.join("large")).unwrap() == fs::read(server.path("here/large")).unwrap());
    }
}

#[test]
fn a_server_that_dies_leaves_no_file_that_looks_whole_and_the_next_copy_goes_on() {
    let mut server = CopyTestServer::start();
    server.program.write("here/large", &"0123456789abcdef".repeat(500_000));
    server.program.write("here/small", "x");
    let line = format!("here {} --retries 0 --rate 2m --json", server.smb("to"));
    let copy = server.started(&line).spawn().unwrap();
    let to = server.path("files/to");
    wait_for_a_part(&to);
    server.server.kill();
    let output = copy.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let status = output.status.code().unwrap();
    assert_eq!(status & (8 | 16), 8 | 16, "{said}");
    assert!(said.contains("the server is gone; run the same command again"), "{said}");
    assert!(!names(&to).contains(&"large".to_owned()));
    server.server = Server::start(&server.program);
    let (status, report, said) = server.copy(&format!("here {} --verify", server.smb("to")));
    assert_eq!((status, &report["files"]["failed"]), (1, &0.into()), "{said}");
    assert_eq!(names(&to), ["large", "small"]);
    assert!(fs::read(to.join("large")).unwrap() == fs::read(server.path("here/large")).unwrap());
}
