//! The requests of the admin page over HTTP, during the work of a session.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::nfs::{Client, Creation};
use client::smb::{Connection, Credentials, OpenOptions, Options, Session};
use serde_json::{Value, json};
use smb_wire::NtStatus;
use smb_wire::create::Disposition;
use testkit::program::{PATIENCE, own_uid};

use crate::{LiveServer, work_on};

/// Sends requests to a running server, like the page.
struct Api {
    at: SocketAddr,
    token: String,
}

impl Api {
    fn new(server: &LiveServer) -> Api {
        let output = std::fs::read_to_string(server.program.path().join("output")).unwrap();
        let rest =
            output.split("admin      http://").nth(1).unwrap_or_else(|| panic!("no page in: {output}"));
        let at = rest.split('/').next().unwrap().parse().unwrap();
        let file = rest.split("(token: ").nth(1).unwrap().split(')').next().unwrap();
        let token = std::fs::read_to_string(file).unwrap().trim().to_owned();
        Api { at, token }
    }

    /// Sends a request. Returns the status, the version and the body.
    fn exchange(&self, method: &str, path: &str, version: &str, body: Option<Value>) -> (u16, String, Value) {
        let body = body.map_or_else(String::new, |body| body.to_string());
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (at, token, length) = (self.at, &self.token, body.len());
        let request = format!(
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\nSec-Fetch-Site: \
             same-origin\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\nIf-Match: {version}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_default().to_owned();
        (status, tag, serde_json::from_str(body).unwrap())
    }

    /// The status of an answer to another token.
    fn status_of(&self, token: &str) -> u16 {
        Api { token: token.to_owned(), at: self.at }.exchange("GET", "status", "*", None).0
    }

    /// Sends a request on another thread, so that the test's own clients continue.
    async fn ask(
        self: &Arc<Api>,
        method: &str,
        path: &str,
        version: &str,
        body: Option<Value>,
    ) -> (u16, String, Value) {
        let (api, words) = (Arc::clone(self), [method, path, version].map(str::to_owned));
        let ask = move || api.exchange(&words[0], &words[1], &words[2], body);
        tokio::task::spawn_blocking(ask).await.unwrap()
    }

    async fn get(self: &Arc<Api>, path: &str) -> Value {
        let (status, _, value) = self.ask("GET", path, "*", None).await;
        assert_eq!(status, 200, "{value}");
        value
    }
}

#[tokio::test]
async fn the_audit_tells_requests_by_token_and_over_the_control_socket_without_secrets() {
    let server = LiveServer::start_as("[audit]\nfile = \"audit.jsonl\"\n", |serve| serve);
    let api = Arc::new(Api::new(&server));
    let eve = json!({ "name": "eve", "password": "one-very-long-secret" });
    let made = api.ask("POST", "users", "*", Some(eve)).await;
    assert_eq!(made.0, 201, "{made:?}");
    assert_eq!(api.ask("DELETE", "users/nobody", "*", None).await.0, 404);
    assert_eq!(api.ask("GET", "users", "*", None).await.0, 200);
    server.says("user remove eve").await;
    server.says("share set files comment=new").await;
    let path = server.program.path().join("audit.jsonl");
    let begun = std::time::Instant::now();
    let events = loop {
        let text = std::fs::read_to_string(&path).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!text.contains("secret") && begun.elapsed() < PATIENCE, "{text}");
        if events.len() >= 4 {
            break events;
        }
    };
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            assert_eq!(event["operation"], "admin");
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            let by = text("user").split(' ').next().unwrap_or_default().to_owned();
            (by, text("request"), text("result"))
        })
        .collect();
    let wanted = [
        ("token", "POST /api/v1/users eve", "ok"),
        ("token", "DELETE /api/v1/users/nobody", "refused"),
        ("control", "remove_user eve", "ok"),
        ("control", "set share files", "ok"),
    ];
    assert_eq!(told, wanted.map(|(by, request, result)| (by.into(), request.into(), result.into())));
    assert!(events[2]["uid"].is_number(), "{events:?}");
}

#[tokio::test]
async fn the_page_makes_a_share_resizes_it_and_sees_what_it_does() {
    let server = LiveServer::start();
    let api = Arc::new(Api::new(&server));
    let session = server.log_on().await;
    let files = session.connect("files").await.unwrap();
    let file = files.open("file", &OpenOptions::file(Disposition::Create)).await.unwrap();
    let (ends, work) = work_on(file);

    let (status, _, made) =
        api.ask("POST", "accounts", "*", Some(json!({"name": "lab", "settings": {"kind": "premium"}}))).await;
    assert_eq!(status, 201, "{made}");
    let path = server.program.path().join("made");
    let settings = json!({"path": path, "account": "lab", "provisioned_gib": 100, "users": {"*": "full"}});
    let (status, seen, made) =
        api.ask("POST", "shares", "*", Some(json!({"name": "made", "settings": settings}))).await;
    assert_eq!((status, &made["object"]["settings"]["provisioned_gib"]), (201, &json!(100)));
    session.connect("made").await.unwrap().disconnect().await.unwrap();
    let size = |gib: u64| Some(json!({"settings": {"provisioned_gib": gib}}));
    let (status, _, _) = api.ask("PATCH", "shares/made", &seen, size(500)).await;
    assert_eq!(status, 200);
    // A request that names the version with the old size gets the new one, and an invalid size is refused.
    let (status, _, late) = api.ask("PATCH", "shares/made", &seen, size(200)).await;
    assert_eq!(status, 412, "{late}");
    assert!(late["error"].as_str().unwrap().contains("`provisioned_gib` was 100 and is 500"), "{late}");
    let (status, _, bad) = api.ask("PATCH", "shares/made", "*", size(99)).await;
    assert!(status == 400 && bad["error"].as_str().unwrap().contains("must be from 100"), "{bad}");
    let overview = api.get("overview").await;
    assert_eq!(overview["shares"]["made"]["limits"]["iops"], 3500);
    assert_eq!(overview["shares"]["files"]["limits"], Value::Null);
    // The next overview shows the session's work and its user.
    let row = &overview["sessions"]["rows"][0];
    assert_eq!((&row["user"], &row["shares"], &row["opens"]), (&json!("anna"), &json!(["files"]), &json!(1)));
    assert_eq!((row["channels"].as_array().map(Vec::len), &row["max_channels"]), (Some(1), &json!(4)));
    assert_eq!(api.get("overview?find=nobody").await["sessions"]["found"], 0);
    let reads = |overview: &Value| {
        let of = |one: &&Value| one["file_share"] == "files" && one["protocol"] == "SMB";
        overview["counted"].as_array().unwrap().iter().find(of).unwrap()["reads"].as_u64().unwrap()
    };
    let (before, begun) = (reads(&overview), std::time::Instant::now());
    while reads(&api.get("overview").await) <= before {
        assert!(begun.elapsed() < PATIENCE);
    }

    let (status, _, used) = api.ask("DELETE", "shares/files", "*", None).await;
    assert!(status == 409 && used["error"].as_str().unwrap().contains("in use"), "{used}");
    let (status, _, _) = api.ask("DELETE", "shares/made", "*", None).await;
    assert_eq!(status, 200);
    ends.store(true, Ordering::Relaxed);
    assert!(work.await.unwrap() > 0);
    let (status, _, _) =
        api.ask("PATCH", "accounts/lab", "*", Some(json!({"settings": {"multichannel": false}}))).await;
    assert_eq!(status, 200);
    let status = Api { token: "0".repeat(48), at: api.at }.exchange("GET", "overview", "*", None).0;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn open_files_and_locks_are_listed_and_closed_for_both_protocols() {
    let server = LiveServer::start();
    let api = Arc::new(Api::new(&server));
    let session = server.log_on().await;
    let files = session.connect("files").await.unwrap();
    let file = files.open("plan", &OpenOptions::file(Disposition::Create)).await.unwrap();
    file.lock(10, 20).await.unwrap();
    let nfs = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let export = nfs.directory("/files").await.unwrap();
    let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
    let own = export.open("notes", &how).await.unwrap();
    let rows = async |path: &str| {
        let mut table = api.get(path).await;
        table["rows"].as_array_mut().map(std::mem::take).unwrap()
    };
    let [open] = &rows("open-files?find=PLAN").await[..] else { panic!("one open of `plan`") };
    let shown = (&open["share"], &open["path"], &open["user"], &open["client"], &open["locks"]);
    assert_eq!(shown, (&json!("files"), &json!("plan"), &json!("anna"), &json!("127.0.0.1"), &json!(1)));
    let [lock] = &rows("locks").await[..] else { panic!("one lock") };
    assert_eq!((&lock["start"], &lock["size"], &lock["user"]), (&json!(10), &json!(20), &json!("anna")));
    assert_eq!(lock["id"], open["id"], "over SMB a lock goes with its open");
    let [other] = &rows("open-files?find=notes").await[..] else { panic!("one open of `notes`") };
    assert_eq!((&other["protocol"], &other["client"]), (&json!("nfs"), &json!("127.0.0.1")));
    for row in [lock, other] {
        let path = format!("open-files/{}", row["id"].as_str().unwrap());
        let (status, _, closed) = api.ask("DELETE", &path, "*", None).await;
        assert_eq!((status, &closed["path"], &closed["opens"]), (200, &row["path"], &json!(1)), "{closed}");
        let (status, _, gone) = api.ask("DELETE", &path, "*", None).await;
        assert_eq!(status, 404, "{gone}");
    }
    let refused = file.write(0, b"late").await.err().and_then(|why| why.status());
    assert_eq!(refused, Some(NtStatus::FILE_CLOSED));
    assert!(rows("open-files").await.is_empty() && rows("locks").await.is_empty());
    drop((own, session));
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    let closed: Vec<_> = log.lines().filter(|line| line.contains("closed by an administrator")).collect();
    assert!(closed.len() == 2 && closed[0].contains("plan") && closed[0].contains("anna"), "{log}");
}

#[tokio::test]
async fn a_user_is_added_changed_and_removed_and_the_password_stands_nowhere() {
    let server = LiveServer::start();
    let api = Arc::new(Api::new(&server));
    let logs_on = async |password: &str| {
        let connection = Connection::connect(server.smb, "localhost", &Options::default()).await.unwrap();
        Session::log_on(&connection, &Credentials::new("Zoe", password), false).await.is_ok()
    };
    let (first, second) = ("correct horse battery", "staple another way");
    let (status, _, added) =
        api.ask("POST", "users", "*", Some(json!({"name": "Zoe", "password": first}))).await;
    assert_eq!((status, &added["user"]["name"]), (201, &json!("Zoe")));
    // As root the answer says that she may not log on without a uid.
    let (is_root, restriction) = (own_uid() == 0, &added["user"]["restriction"]);
    assert_eq!((added["user"]["uid"].is_null(), restriction.is_string()), (is_root, is_root), "{added}");
    assert_eq!((added["notes"].get(0), logs_on(first).await), (is_root.then_some(restriction), !is_root));
    let (status, _, set) = api.ask("PATCH", "users/zoe", "*", Some(json!({"uid": own_uid()}))).await;
    assert_eq!((status, &set["user"]["uid"], &set["notes"]), (200, &json!(own_uid()), &json!([])));
    assert!(logs_on(first).await);
    let (status, _, _) = api.ask("PATCH", "users/zoe", "*", Some(json!({"password": second}))).await;
    assert_eq!(status, 200);
    assert!(logs_on(second).await);
    let (status, _, refused) = api.ask("PATCH", "users/anna", "*", Some(json!({"password": second}))).await;
    assert!(status == 400 && refused["error"].as_str().unwrap().contains("change it there"), "{refused}");
    let (status, _, _) = api.ask("DELETE", "users/ZOE", "*", None).await;
    assert_eq!(status, 200);
    assert!(!logs_on(second).await);
    let (status, _, refused) = api.ask("DELETE", "users/anna", "*", None).await;
    let reason = refused["error"].as_str().unwrap();
    assert!(status == 409 && reason.contains("is a user of the configuration file"), "{refused}");
    for file in ["log", "output"] {
        let text = std::fs::read_to_string(server.program.path().join(file)).unwrap();
        assert!(!text.contains(first) && !text.contains(second), "{file}");
    }
}

#[tokio::test]
async fn a_token_may_do_what_its_role_says_until_it_is_revoked() {
    let mut server = LiveServer::start();
    let made = |said: String| said.lines().next().unwrap().to_owned();
    let read = made(server.says("token add prom --role read --expires 90d").await);
    let operate = made(server.says("token add ops --role operate").await);
    server.refuses("token add PROM --role read", "there is already a token `PROM`; revoke it first").await;
    server.refuses("token add x --role read --expires 90", "`90` must be a time such as 90d").await;
    server.refuses("token revoke admin-token", "`file_token = false` in [admin] turns it off").await;
    let api = Api::new(&server);
    let as_token = |token: &str| Api { token: token.to_owned(), at: api.at };
    let status = |token: &str, method: &str, path: &str, body: Option<Value>| {
        as_token(token).exchange(method, path, "*", body).0
    };
    let set = |key: &str| Some(json!({"settings": {key: null}}));
    let reload = || Some(json!({}));
    let share = || Some(json!({"name": "x", "settings": {}}));
    for (method, path, body, expected) in [
        ("GET", "status", None, [200, 200]),
        ("GET", "users", None, [200, 200]),
        ("GET", "tokens", None, [403, 403]),
        ("POST", "reload", reload(), [403, 200]),
        ("PATCH", "shares/files", set("comment"), [403, 200]),
        ("PATCH", "shares/files", set("users"), [403, 403]),
        ("POST", "shares", share(), [403, 403]),
        ("DELETE", "users/anna", None, [403, 403]),
    ] {
        let got = [&read, &operate].map(|token| status(token, method, path, body.clone()));
        assert_eq!(got, expected, "{method} {path}");
    }
    let caller = as_token(&read).exchange("GET", "caller", "*", None).2;
    assert_eq!(caller, json!({"name": "token prom", "role": "read"}));
    let before = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    assert!(before.contains("by=\"token ops\"") && before.contains("status=403"), "{before}");
    // Tokens outlive a restart, and a revoked one is refused at once, also after a restart.
    server.restart();
    let api = Api::new(&server);
    let status = |token: &str| api.status_of(token);
    assert_eq!((status(&read), status(&operate)), (200, 200));
    let listed = server.json("token list").await;
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|token| token["name"].clone()).collect();
    assert_eq!(names, ["admin-token", "ops", "prom"]);
    assert!(listed[2]["last_used"].is_string() && listed[2]["expires"].is_string(), "{listed}");
    server.says("token revoke prom").await;
    assert_eq!((status(&read), status(&operate)), (401, 200));
    server.refuses("token revoke prom", "there is no token `prom`").await;
    let (code, _, refused) = api.exchange("DELETE", "tokens/none", "*", None);
    assert!(code == 404 && refused["error"].as_str().unwrap().contains("no token `none`"), "{refused}");
    assert_eq!(api.exchange("DELETE", "tokens/OPS", "*", None).0, 200);
    assert_eq!(status(&operate), 401);
    let state = server.program.path().join("state/state.redb");
    let state = std::fs::read(state).unwrap();
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap() + &before;
    for token in [&read, &operate] {
        assert!(!state.windows(token.len()).any(|part| part == token.as_bytes()) && !log.contains(token));
    }
    assert!(log.contains("by=\"token admin-token\" method=DELETE path=\"/api/v1/tokens/OPS\""), "{log}");
}

#[tokio::test]
async fn the_token_of_the_file_is_turned_off_and_replaced_by_a_reload() {
    let server = LiveServer::start();
    let api = Api::new(&server);
    let status = |token: &str| api.status_of(token);
    assert_eq!(status(&api.token), 200);
    let configuration = server.program.path().join("trunkline.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    std::fs::write(&configuration, text.replace("[admin]\n", "[admin]\nfile_token = false\n")).unwrap();
    server.says("reload").await;
    assert_eq!(status(&api.token), 401);
    let said = server.says("token add ann --role administer").await;
    let other = said.lines().next().unwrap().to_owned();
    assert_eq!(status(&other), 200);
    // Turned on again, the file counts as it is now.
    std::fs::write(&configuration, &text).unwrap();
    let file = server.program.path().join("state/admin-token");
    std::fs::write(&file, "short\n").unwrap();
    server.refuses("reload", "a token has at least 32 letters and digits").await;
    assert_eq!(status("short"), 401);
    let third = "x".repeat(32);
    std::fs::write(&file, format!("{third}\n")).unwrap();
    server.says("reload").await;
    assert_eq!((status(&third), status(&api.token), status(&other)), (200, 401, 200));
}

#[test]
fn tokens_are_made_and_revoked_without_a_running_server() {
    let program = testkit::program::ProgramDir::new();
    program.run("token list").success();
    program.run("token revoke none").code(2);
    let made = program.run("token add prom --role read").success();
    let made = String::from_utf8_lossy(&made.get_output().stdout).into_owned();
    assert!(made.starts_with("tl_") && made.lines().count() == 1, "{made}");
    program.run("token add prom --role read").code(2);
    program.run("token add root --role root").code(2);
    let list = program.run("token list").success();
    let list = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert!(list.contains("prom  read") && !list.contains("admin-token"), "{list}");
    program.run("token revoke PROM").success();
    program.run("token revoke prom").code(2);
}
