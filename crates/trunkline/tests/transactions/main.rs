//! The report of a running server about the transactions of a known sequence of requests, over both
//! protocols.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use admin::Transactions;
use admin::transactions::{Api, ShareTransactions};
use client::Bytes;
use client::nfs::{Client, Creation};
use client::smb::{Connection, Credentials, OpenOptions, Options, Session};
use smb_wire::create::Disposition;
use testkit::program::{PATIENCE, ProgramDir, Server, own_ids};

/// A running server with two shares for both protocols; killed when dropped.
struct TransactionsServer {
    _server: Server,
    program: ProgramDir,
    smb: SocketAddr,
    nfs: SocketAddr,
}

impl TransactionsServer {
    fn start(settings: &str) -> TransactionsServer {
        let program = ProgramDir::new();
        let password = program.write("password", "s3cret");
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
        let share = |name: &str| {
            std::fs::create_dir(program.path().join(name)).unwrap();
            format!(
                "[share.{name}]\npath = \"{name}\"\nusers = {{ \"*\" = \"full\" }}\nprotocols = [\"smb\", \
                 \"nfs\"]\n\
                 nfs_secure_port = false\nroot_squash = \"none\"\n"
            )
        };
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1\"]\nsmb_port = 0\nnfs_port = 0\ndiscovery = false\n\
             [[user]]\nname = \"anna\"\npassword_file = \"password\"\n{}{}{}{settings}",
            own_ids(),
            share("files"),
            share("others")
        );
        program.write("trunkline.toml", &config);
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut running =
            TransactionsServer { _server: Server::start(&program), program, smb: here, nfs: here };
        let text = running.output();
        let port = |before: &str| -> u16 {
            let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("no port in: {text}"));
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        running.smb.set_port(port(" -p "));
        running.nfs.set_port(port("vers=4.2,port="));
        running
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.program.path().join("output")).unwrap()
    }

    fn says(&self, line: &str) -> String {
        let output = self.program.trunkline(line).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn transactions(&self) -> Transactions {
        serde_json::from_str(&self.says("status transactions --json")).unwrap()
    }
}

fn counted<'a>(all: &'a Transactions, share: &str, protocol: &str) -> &'a ShareTransactions {
    let is_it = |counted: &&ShareTransactions| counted.file_share == share && counted.protocol == protocol;
    all.counted.iter().find(is_it).unwrap_or_else(|| panic!("no {share} over {protocol}: {all:?}"))
}

fn api<'a>(counted: &'a ShareTransactions, name: &str) -> &'a Api {
    let found = counted.apis.iter().find(|api| api.api_name == name);
    found.unwrap_or_else(|| panic!("no {name}: {counted:?}"))
}

/// The response types of an operation, with their counts.
fn went(counted: &ShareTransactions, name: &str) -> Vec<(String, u64)> {
    api(counted, name).transactions.clone().into_iter().collect()
}

fn succeeded(count: u64) -> Vec<(String, u64)> {
    vec![("Success".to_owned(), count)]
}

/// All requests that have been answered are counted. Their latency is known a moment later: when the server
/// has sent the reply, which may be after the client has received it.
fn settled(server: &TransactionsServer, is_there: impl Fn(&Transactions) -> bool) -> Transactions {
    let begun = std::time::Instant::now();
    loop {
        let all = server.transactions();
        if is_there(&all) {
            return all;
        }
        assert!(begun.elapsed() < PATIENCE, "{all:?}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_known_sequence_over_smb_is_counted_exactly() {
    let server = TransactionsServer::start("");
    let connection = Connection::connect(server.smb, "localhost", &Options::default()).await.unwrap();
    let session = Session::log_on(&connection, &Credentials::new("anna", "s3cret"), false).await.unwrap();
    let tree = session.connect("files").await.unwrap();
    let other = session.connect("others").await.unwrap();
    let file = tree.open("file", &OpenOptions::file(Disposition::Create)).await.unwrap();
    for at in 0..7 {
        file.write(at * 4096, &[1; 4096]).await.unwrap();
    }
    for at in 0..5 {
        file.read(at * 4096, 4096).await.unwrap();
    }
    file.flush().await.unwrap();
    file.close().await.unwrap();
    tree.open("none", &OpenOptions::read()).await.unwrap_err();
    connection.echo().await.unwrap();
    other.disconnect().await.unwrap();
    let all = settled(&server, |all| {
        let files = counted(all, "files", "SMB");
        api(files, "Read").success_e2e_latency.count == 5
            && api(files, "Write").success_e2e_latency.count == 7
    });
    assert_eq!(all.shares, ["files", "others"]);
    let files = counted(&all, "files", "SMB");
    assert_eq!(went(files, "Write"), succeeded(7));
    assert_eq!(went(files, "Read"), succeeded(5));
    for (name, count) in [("Flush", 1), ("Close", 1), ("TreeConnect", 1)] {
        assert_eq!(went(files, name), succeeded(count), "{name}");
    }
    assert_eq!(went(files, "Create"), [("ClientOtherError".to_owned(), 1), ("Success".to_owned(), 1)]);
    let reads = api(files, "Read");
    assert_eq!((reads.egress, reads.authentication.as_str()), (5 * (64 + 16 + 4096), "NTLMv2"));
    assert_eq!(api(files, "Write").ingress, 7 * (64 + 48 + 4096));
    let (server_latency, whole) = (&reads.success_server_latency, &reads.success_e2e_latency);
    assert_eq!((server_latency.count, whole.count), (5, 5));
    assert!(server_latency.sum_ns > 0 && server_latency.sum_ns < whole.sum_ns, "{reads:?}");
    let work = &files.work;
    assert_eq!((work.reads, work.writes, work.metadata), (5, 7, 3));
    assert_eq!((work.read_bytes, work.written_bytes), (5 * 4096, 7 * 4096));
    assert_eq!((&work.read_sizes, files.availability()), (&[(4096, 5)].into(), Some(1.0)));
    // The other share has its own counters, and so have requests to no share.
    let others = counted(&all, "others", "SMB");
    assert_eq!(others.apis.iter().map(Api::all).sum::<u64>(), 2);
    assert_eq!(went(others, "TreeDisconnect"), succeeded(1));
    let rest = counted(&all, "", "SMB");
    assert_eq!((went(rest, "Negotiate"), went(rest, "Echo")), (succeeded(1), succeeded(1)));
    let page = server.says("status transactions --share FILES");
    assert!(
        page.contains("Share files over SMB, availability 100.000 %, 20.0 % of its work is metadata"),
        "{page}"
    );
    assert!(!page.contains("others") && page.contains("\nWrite "), "{page}");
}

#[tokio::test]
async fn a_known_sequence_over_nfs_is_counted_exactly() {
    let server = TransactionsServer::start("");
    let client = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let directory = client.directory("/files").await.unwrap();
    let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
    let file = directory.open("file", &how).await.unwrap();
    let data = Bytes::from(vec![1; 4096]);
    for at in 0..7 {
        file.write(at * 4096, &data, client::nfs::StableHow::Unstable).await.unwrap();
    }
    for at in 0..5 {
        file.read(at * 4096, 4096).await.unwrap();
    }
    file.commit().await.unwrap();
    file.close().await.unwrap();
    directory.remove("file").await.unwrap();
    directory.remove("file").await.unwrap_err();
    let all = settled(&server, |all| {
        let files = counted(all, "files", "NFS");
        api(files, "READ").success_e2e_latency.count == 5
            && api(files, "WRITE").success_e2e_latency.count == 7
    });
    let files = counted(&all, "files", "NFS");
    assert_eq!((went(files, "WRITE"), went(files, "READ")), (succeeded(7), succeeded(5)));
    for name in ["OPEN", "CLOSE", "COMMIT"] {
        assert_eq!(went(files, name), succeeded(1), "{name}");
    }
    assert_eq!(went(files, "REMOVE"), [("ClientOtherError".to_owned(), 1), ("Success".to_owned(), 1)]);
    let reads = api(files, "READ");
    assert_eq!((reads.ingress, reads.egress), (5 * 32, 5 * (16 + 4096)));
    assert_eq!(reads.authentication, "AUTH_SYS");
    assert_eq!((files.work.reads, files.work.writes), (5, 7));
    assert_eq!((files.work.read_bytes, files.work.written_bytes), (5 * 4096, 7 * 4096));
    let rest = counted(&all, "", "NFS");
    assert_eq!((went(rest, "EXCHANGE_ID"), went(rest, "CREATE_SESSION")), (succeeded(1), succeeded(1)));
    assert!(api(rest, "SEQUENCE").all() >= 17);
}

#[tokio::test]
async fn requests_are_written_down_one_by_one_where_that_is_wanted() {
    let server = TransactionsServer::start("[admin]\nrecords = \"requests.jsonl\"\n");
    let connection = Connection::connect(server.smb, "localhost", &Options::default()).await.unwrap();
    let session = Session::log_on(&connection, &Credentials::new("anna", "s3cret"), false).await.unwrap();
    let tree = session.connect("files").await.unwrap();
    let file = tree.open("file", &OpenOptions::file(Disposition::Create)).await.unwrap();
    file.write(0, &[1; 4096]).await.unwrap();
    tree.open("none", &OpenOptions::read()).await.unwrap_err();
    let client = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    client.directory("/files").await.unwrap().remove("none").await.unwrap_err();
    server.program.run("stop").success();
    let text = std::fs::read_to_string(server.program.path().join("requests.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str, share: &str| {
        let is_it = |line: &&serde_json::Value| line["operationName"] == name && line["fileShare"] == share;
        lines.iter().filter(is_it).collect::<Vec<_>>()
    };
    let [write] = of("Write", "files")[..] else { panic!("{text}") };
    for (key, wanted) in [
        ("protocol", "SMB"),
        ("kind", "write"),
        ("category", "StorageWrite"),
        ("identityType", "NTLMv2"),
        ("statusCode", "0x0"),
        ("metricResponseType", "Success"),
    ] {
        assert_eq!(write[key], wanted, "{write}");
    }
    assert_eq!(
        (&write["dataSize"], &write["requestSize"]),
        (&4096.into(), &(64 + 48 + 4096).into()),
        "{write}"
    );
    assert!(write["callerIpAddress"].as_str().unwrap().starts_with("127.0.0.1:"), "{write}");
    assert!(write["durationMs"].as_f64() >= write["serverLatencyMs"].as_f64(), "{write}");
    assert!(write["serverLatencyMs"].as_f64().unwrap() > 0.0 && write["smbMessageID"].is_u64(), "{write}");
    let refused: Vec<_> = of("Create", "files").iter().map(|line| line["statusText"].clone()).collect();
    assert_eq!(refused, ["STATUS_SUCCESS", "STATUS_OBJECT_NAME_NOT_FOUND"], "{text}");
    let [remove] = of("REMOVE", "files")[..] else { panic!("{text}") };
    assert_eq!(remove["category"], "StorageDelete", "{remove}");
    assert_eq!((&remove["statusCode"], &remove["protocol"]), (&"0x2".into(), &"NFS".into()), "{remove}");
}

/// The records of a server that has handled a fixed sequence, each as JSON.
async fn records_of(settings: &str) -> Vec<serde_json::Value> {
    let server = TransactionsServer::start(&format!("[admin]\nrecords = \"requests.jsonl\"\n{settings}"));
    let connection = Connection::connect(server.smb, "localhost", &Options::default()).await.unwrap();
    let session = Session::log_on(&connection, &Credentials::new("anna", "s3cret"), false).await.unwrap();
    let tree = session.connect("files").await.unwrap();
    tree.open("rooms", &OpenOptions::directory(Disposition::Create)).await.unwrap().close().await.unwrap();
    let file = tree.open("rooms/Plan.txt", &OpenOptions::file(Disposition::Create)).await.unwrap();
    file.write(0x2000, &[1; 4096]).await.unwrap();
    file.close().await.unwrap();
    let client = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let rooms = client.directory("/files/rooms").await.unwrap();
    let file = rooms.open("Plan.txt", &client::nfs::OpenOptions::read()).await.unwrap();
    assert_eq!(file.read(0x2000, 4096).await.unwrap().len(), 4096);
    file.close().await.unwrap();
    rooms.remove("none").await.unwrap_err();
    tree.open("rooms/Plan.txt", &OpenOptions::delete()).await.unwrap().close().await.unwrap();
    tree.open("missing/none", &OpenOptions::read()).await.unwrap_err();
    server.program.run("stop").success();
    let text = std::fs::read_to_string(server.program.path().join("requests.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(records: &'a [serde_json::Value], operation: &str) -> Vec<&'a serde_json::Value> {
    records.iter().filter(|record| record["operationName"] == operation).collect()
}

#[tokio::test]
async fn a_record_says_on_what_and_how_over_both_protocols() {
    let records = records_of("").await;
    let said = |operation: &str, key: &str| -> Vec<String> {
        of(&records, operation).iter().map(|it| it[key].as_str().unwrap_or("-").to_owned()).collect()
    };
    let paths = |operation: &str| -> Vec<String> {
        let of_uri = |uri: &String| uri.split_once("/files").map_or("", |(_, path)| path).to_owned();
        said(operation, "uri").iter().map(of_uri).collect()
    };
    // Over SMB: the effect of each CREATE and of each CLOSE, on one handle.
    assert_eq!(said("Create", "smbCommandMinor"), ["DirectoryCreated", "FileCreated", "FileOpened", "-"]);
    assert_eq!(said("Close", "smbCommandMinor"), ["DirectoryClose", "FileClose", "FileCloseAndDelete"]);
    let plan = "/rooms/Plan.txt";
    assert_eq!(paths("Create"), ["/rooms", plan, plan, "/missing/none"]);
    assert_eq!(
        (paths("Close"), paths("Write")),
        (vec!["/rooms".to_owned(), plan.into(), plan.into()], vec![plan.into()])
    );
    assert_eq!(said("Write", "smbCommandDetail"), ["0x1000 bytes at offset 0x2000"]);
    assert!(said("Create", "smbCommandDetail")[1].starts_with("Create, access 0x"), "{records:?}");
    let (created, write) = (of(&records, "Create")[1], of(&records, "Write")[0]);
    for key in ["smbPersistentHandleID", "smbVolatileHandleID", "smbFileId"] {
        assert!(!write[key].is_null() && write[key] == created[key], "{key}: {created} {write}");
    }
    let sizes = |key: &str| write[key].as_u64().unwrap();
    assert_eq!((sizes("requestHeaderSize"), sizes("requestBodySize")), (64, 48 + 4096));
    assert_eq!((sizes("responseHeaderSize"), sizes("responseBodySize")), (64, 16));
    assert_eq!(said("Write", "operationVersion"), ["3.1.1"]);
    assert!(write["uri"].as_str().unwrap().starts_with("smb://127.0.0.1:"), "{write}");
    // Over NFS: the session's slot, and the same file by its handle and its open.
    assert_eq!(
        (paths("READ"), said("READ", "operationVersion")),
        (vec![plan.into()], vec!["4.1".to_owned()])
    );
    assert_eq!(said("READ", "nfsOperationDetail"), ["0x1000 bytes at offset 0x2000"]);
    assert_eq!(said("REMOVE", "nfsOperationDetail"), ["none"]);
    let (open, read) = (of(&records, "OPEN")[0], of(&records, "READ")[0]);
    assert_eq!((&open["nfsFileId"], &read["nfsFileId"]), (&write["smbFileId"], &write["smbFileId"]));
    let id = |record: &serde_json::Value, key: &str| record[key].as_str().unwrap().to_owned();
    assert!(id(read, "nfsSessionID").len() >= 26 && read["nfsSessionID"] == open["nfsSessionID"], "{read}");
    // RFC 8881 8.2.2: a client that sends the number 0 means the stateid as it is now.
    let (opened, used) = (id(open, "nfsStateID"), id(read, "nfsStateID"));
    assert_eq!(used.strip_prefix("0:").expect("0"), opened.strip_prefix("1:").expect("1"));
    assert!(used.len() >= 26, "{used}");
    assert!(read["nfsFileHandle"].is_string() && read["nfsSlotID"].is_u64(), "{read}");
    assert!(read["nfsSequenceID"].as_u64() > open["nfsSequenceID"].as_u64(), "{open} {read}");
}

#[tokio::test]
async fn paths_and_names_are_left_out_where_they_are_not_wanted() {
    let records = records_of("records_paths = false\n").await;
    let text = serde_json::to_string(&records).unwrap();
    assert!(!text.contains("rooms") && !text.contains("Plan") && !text.contains("none"), "{text}");
    let write = of(&records, "Write")[0];
    assert!(write["uri"].as_str().unwrap().ends_with("/files") && !write["smbFileId"].is_null(), "{write}");
    assert_eq!(of(&records, "READ")[0]["uri"].as_str().unwrap().split('/').next_back(), Some("files"));
}

/// The server's response over HTTP.
fn fetch(server: &TransactionsServer, path: &str) -> String {
    let text = server.output();
    let at = text.split("http://").nth(1).and_then(|rest| rest.split("/metrics").next());
    let at: SocketAddr = at.unwrap_or_else(|| panic!("no address in: {text}")).parse().unwrap();
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    body.to_owned()
}

/// Checks metrics with Prometheus' own reader if it is installed, and prints a message if not.
fn check_with_promtool(text: &str) {
    let mut command = Command::new("promtool");
    let started = command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut promtool) = started else {
        // Unlike that of eprintln, the harness does not capture this output.
        let _ = writeln!(std::io::stderr(), "SKIPPED the check by promtool: it is not installed");
        return;
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn metrics_are_there_for_prometheus_and_its_dashboard() {
    let server = TransactionsServer::start("[admin]\nmetrics = \"127.0.0.1:0\"\n");
    let connection = Connection::connect(server.smb, "localhost", &Options::default()).await.unwrap();
    let session = Session::log_on(&connection, &Credentials::new("anna", "s3cret"), false).await.unwrap();
    let tree = session.connect("files").await.unwrap();
    let file = tree.open("file", &OpenOptions::file(Disposition::Create)).await.unwrap();
    file.write(0, &[1; 4096]).await.unwrap();
    let text = fetch(&server, "/metrics");
    let line = "trunkline_transactions_total{file_share=\"files\",protocol=\"SMB\",api_name=\"Write\",\
                authentication=\"NTLMv2\",response_type=\"Success\"} 1\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("trunkline_open_files{file_share=\"files\"} 1\n"), "{text}");
    check_with_promtool(&text);
    let dashboard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards/trunkline.json");
    let dashboard = std::fs::read_to_string(dashboard).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&dashboard).unwrap()["panels"].is_array());
    for rest in dashboard.split("trunkline_").skip(1) {
        let name =
            rest.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_').next().unwrap();
        let family =
            ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        assert!(text.contains(&format!("\n# TYPE trunkline_{family} ")), "no metric trunkline_{name}");
    }
    let json: Transactions = serde_json::from_str(&fetch(&server, "/transactions")).unwrap();
    assert_eq!(went(counted(&json, "files", "SMB"), "Write"), succeeded(1));
    assert!(json.gauges["files"].volume_size_bytes.unwrap() > 0);
    let workload: admin::Workload = serde_json::from_str(&fetch(&server, "/workload")).unwrap();
    let [client] = &workload.clients[..] else { panic!("{workload:?}") };
    assert_eq!(
        (client.client.as_str(), client.user.as_str(), client.file_share.as_str()),
        ("127.0.0.1", "anna", "files")
    );
    assert_eq!(
        (client.work.writes, client.work.metadata, client.open_files, client.connections),
        (1, 1, 1, 1)
    );
    let page = server.says("status workload");
    assert!(page.contains("files on 127.0.0.1") || page.contains("127.0.0.1 on files: too little"), "{page}");
}
