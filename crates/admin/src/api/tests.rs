//! The API over a real socket, in front of a server that notes the calls that it gets.

use std::io::{Read, Write};

use super::*;
use crate::access::Role;
use crate::listener::PATIENCE;
use crate::testing::{Fake, token};
use crate::tls::TlsFiles;
use crate::tls::tests::{Authority, pair};

/// The token with every right.
const TOKEN: &str = "token-administer";

/// A server on loopback, without TLS.
fn serving() -> (tokio::runtime::Runtime, std::net::SocketAddr, Arc<Fake>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let fake = Arc::new(Fake::default());
    let controlled: Arc<dyn Controlled> = Arc::<Fake>::clone(&fake);
    runtime.spawn(async move {
        let listener = listener::ready(socket).unwrap();
        serve(&listener, Door::default(), None, controlled).await;
    });
    (runtime, address, fake)
}

/// Sends a request to a server. Gives the response and the calls that the server got.
fn send(request: &str) -> (String, Vec<String>) {
    let (_runtime, address, fake) = serving();
    let answer = send_to(address, request);
    let calls = fake.calls.lock().unwrap().clone();
    (answer, calls)
}

fn send_to(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends a request as a program with every right does.
fn ask(method: &str, path: &str, headers: &str, body: &str) -> (String, Vec<String>) {
    ask_as(TOKEN, method, path, headers, body)
}

/// Sends a request with a token.
fn ask_as(token: &str, method: &str, path: &str, headers: &str, body: &str) -> (String, Vec<String>) {
    let (content, length) =
        if body.is_empty() { ("", 0) } else { ("Content-Type: application/json\r\n", body.len()) };
    send(&format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost:9446\r\nAuthorization: Bearer {token}\r\n{headers}\
         {content}\
         Content-Length: {length}\r\n\r\n{body}"
    ))
}

#[track_caller]
fn is(answer: &(String, Vec<String>), status: u16, holds: &str, calls: &[&str]) {
    let (text, called) = answer;
    assert!(text.starts_with(&format!("HTTP/1.1 {status} ")) && text.contains(holds), "{status}: {text}");
    assert_eq!(called, calls, "{text}");
}

#[test]
fn shares_are_made_changed_and_deleted_with_the_version_that_was_seen() {
    let docs = ask("GET", "/api/v1/shares/DOCS", "", "");
    is(&docs, 200, "\"version\":\"v1\"", &[]);
    assert!(docs.0.contains("etag: \"v1\"\r\n"), "{}", docs.0);
    is(&ask("GET", "/api/v1/accounts", "", ""), 200, "\"kind\":\"account\"", &[]);
    is(&ask("GET", "/api/v1/shares/none", "", ""), 404, "there is no share `none`", &[]);
    let made = ask("POST", "/api/v1/shares", "", "{\"name\":\"my plans\",\"settings\":{\"path\":\"/srv\"}}");
    is(&made, 201, "\"path\":\"/srv\"", &["create my plans"]);
    assert!(made.0.contains("location: /api/v1/shares/my%20plans\r\n"), "{}", made.0);
    let set = "{\"settings\":{\"comment\":\"new\"}}";
    is(
        &ask("PATCH", "/api/v1/shares/docs", "If-Match: \"v1\"\r\n", set),
        200,
        "\"comment\":\"new\"",
        &["set docs"],
    );
    is(&ask("PATCH", "/api/v1/shares/docs", "If-Match: \"v0\"\r\n", set), 412, "at version v1", &[]);
    is(&ask("PATCH", "/api/v1/shares/docs", "", set), 428, "If-Match", &[]);
    is(&ask("DELETE", "/api/v1/shares/docs", "", ""), 428, "If-Match", &[]);
    is(
        &ask("DELETE", "/api/v1/shares/docs?force=true", "If-Match: *\r\n", ""),
        200,
        "\"object\":null",
        &["force docs"],
    );
    is(&ask("DELETE", "/api/v1/accounts/d%6fcs", "If-Match: *\r\n", ""), 200, "null", &["delete docs"]);
    is(&ask("POST", "/api/v1/shares", "", "{\"name\":\"docs\"}"), 409, "no share", &[]);
    is(&ask("POST", "/api/v1/shares", "", "{\"nmae\":\"docs\"}"), 400, "unknown field `nmae`", &[]);
    is(&ask("PUT", "/api/v1/shares/docs", "", "{}"), 405, "PATCH", &[]);
}

#[test]
fn what_the_server_does_is_read() {
    is(&ask("GET", "/api/v1/overview?find=a%20b&most=3", "", ""), 200, "\"at_ns\":7", &[]);
    let overview = ask("GET", "/api/v1/overview?files=a&most=3", "", "");
    is(&overview, 200, "\"files\":{\"opens\":{\"total\":0", &[]);
    is(&ask("GET", "/api/v1/status", "", ""), 200, "\"version\":\"7\"", &[]);
    is(&ask("GET", "/api/v1/workload", "", ""), 200, "\"server_name\":\"W\"", &[]);
    is(&ask("GET", "/api/v1/channels", "", ""), 200, "\"server_name\":\"S\"", &[]);
    is(&ask("POST", "/api/v1/reload", "", "{}"), 200, "{\"warnings\":[\"a note\"]}", &[]);
    is(&ask("GET", "/api/v1/reload", "", ""), 405, "POST", &[]);
    is(&ask("GET", "/api/v1/overview/x", "", ""), 404, "/openapi.json", &[]);
    is(&ask("GET", "/etc/passwd", "", ""), 404, "/openapi.json", &[]);
}

#[test]
fn users_are_added_changed_and_removed_and_no_password_comes_back() {
    let users = |method: &str, path: &str, body: &str| ask(method, &format!("/api/v1/{path}"), "", body);
    is(&users("GET", "users", ""), 200, "\"name\":\"ann\"", &[]);
    let secret = "{\"name\":\"eve\",\"password\":\"hush-hush\",\"uid\":1001,\"admin\":true}";
    let added = users("POST", "users", secret);
    is(&added, 201, "\"notes\":[]", &["user eve true true To(1001) Keep Some(true)"]);
    assert!(added.0.contains("location: /api/v1/users/eve\r\n"), "{}", added.0);
    let weak = users("PATCH", "users/ANN", "{\"password\":\"hush\"}");
    is(&weak, 200, "soon guessed: it is short", &["user ann false true Keep Keep None"]);
    let unset = users("PATCH", "users/ann", "{\"uid\":null,\"gid\":7}");
    is(&unset, 200, "ann", &["user ann false false ByName To(7) None"]);
    let disk = "{\"name\":\"disk\",\"password\":\"hush-hush\"}";
    is(&users("POST", "users", disk), 500, "state.redb: no space", &[]);
    is(&users("DELETE", "users/ann", ""), 200, "\"user\":null", &["remove ann"]);
    is(&users("POST", "users", "{\"name\":\"Ann\",\"password\":\"x\"}"), 409, "already a user", &[]);
    is(&users("PATCH", "users/zoe", "{\"admin\":true}"), 404, "no user `zoe`", &[]);
    is(&users("DELETE", "users/zoe", ""), 404, "no user `zoe`", &[]);
    for (method, path, body, wanted) in [
        ("POST", "users", "{\"name\":\"eve\"}", "`password` is missing"),
        ("POST", "users", "{\"password\":\"hush-hush\"}", "`name` is missing"),
        ("POST", "users", "{\"name\":\"bob\",\"password\":\"hush-hush\"}", "no bob"),
        ("PATCH", "users/ann", "{}", "nothing is to be changed"),
        ("PATCH", "users/ann", "{\"password\":123456789}", "`password` must be a text"),
        ("PATCH", "users/ann", "{\"password\":\"\"}", "the password is empty"),
        ("PATCH", "users/ann", "{\"uid\":-1}", "`uid` must be a number"),
        ("PATCH", "users/ann", "{\"admin\":\"hush-hush\"}", "`admin` must be true or false"),
        ("PATCH", "users/ann", "{\"pasword\":\"hush-hush\"}", "unknown key `pasword`"),
        ("PATCH", "users/ann", "\"hush-hush\"", "no JSON object"),
        ("PATCH", "users/ann", "{\"password\":\"hush-hush", "no JSON object"),
    ] {
        let answer = users(method, path, body);
        is(&answer, 400, wanted, &[]);
        assert!(!answer.0.contains("hush") && !answer.0.contains("123456789"), "{}", answer.0);
    }
}

#[test]
fn open_files_and_locks_are_read_and_closed_by_their_ids() {
    is(&ask("GET", "/api/v1/open-files?find=a&most=3", "", ""), 200, "\"total\":0", &[]);
    is(&ask("GET", "/api/v1/locks", "", ""), 200, "\"rows\":[]", &[]);
    let closed = ask("DELETE", "/api/v1/open-files/smb-1-2", "", "");
    is(&closed, 200, "\"opens\":1", &["close smb-1-2"]);
    is(&ask("DELETE", "/api/v1/locks/smb-1-2", "", ""), 200, "a.txt", &["close smb-1-2"]);
    is(&ask("DELETE", "/api/v1/open-files/smb-1-3", "", ""), 404, "not open any more", &[]);
    is(&ask("POST", "/api/v1/open-files", "", "{}"), 405, "GET", &[]);
}

#[test]
fn the_page_and_what_describes_the_api_need_no_token_and_ask_for_nothing_elsewhere() {
    let get = |path: &str| send(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9446\r\n\r\n"));
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/plot.js", "text/javascript"),
        ("/tables.js", "text/javascript"),
        ("/forms.js", "text/javascript"),
        ("/tokens.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let (answer, _) = get(path);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(kind), "{answer}");
        assert!(
            answer.contains("content-security-policy: default-src 'none'; script-src 'self';"),
            "{answer}"
        );
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        for outside in ["http://", "https://", "//cdn", "onclick=", "style=", "eval(", "innerHTML"] {
            assert!(!body.replace("http://www.w3.org/2000/svg", "").contains(outside), "{path}: {outside}");
        }
    }
    let (described, _) = get("/openapi.json");
    let described = described.split_once("\r\n\r\n").unwrap().1;
    let described: serde_json::Value = serde_json::from_str(described).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    for path in ["/api/v1/shares", "/api/v1/shares/{name}", "/api/v1/accounts/{name}", "/api/v1/overview"] {
        assert!(described["paths"][path].is_object(), "{path}");
    }
    is(&get("/openapi.json"), 200, "application/json", &[]);
    for path in ["/livez", "/readyz", "/livez?verbose", "/readyz?verbose"] {
        let (answer, _) = get(path);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"), "{path}: {answer}");
    }
    is(&ask_as(&token(Role::Read), "GET", "/readyz?verbose", "", ""), 200, "readyz check passed", &[]);
}

#[test]
fn what_is_described_is_answered_and_nothing_else() {
    let described = openapi::document(|kind| serde_json::json!({ "title": kind.to_string() }));
    let paths = described["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 19);
    for (path, item) in paths {
        for method in ["get", "post", "put", "patch", "delete"] {
            let asked = path.replace("{name}", "docs");
            let (answer, _) = ask(&method.to_uppercase(), &asked, "If-Match: *\r\n", "{}");
            let status = answer.split(' ').nth(1).unwrap();
            match item.get(method) {
                None => assert_eq!(status, "405", "{method} {path}: {answer}"),
                Some(operation) => {
                    assert!(operation["responses"][status].is_object(), "{method} {path}: {answer}");
                    assert!(operation["responses"]["401"].is_object(), "{method} {path}");
                }
            }
        }
    }
    assert_eq!(described["components"]["schemas"]["ShareSettings"]["title"], "share");
    let set = &paths["/api/v1/accounts/{name}"]["patch"];
    assert_eq!(set["parameters"][0]["name"], "If-Match");
    let body = set["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str().unwrap();
    let body = described.pointer(body.strip_prefix('#').unwrap()).unwrap();
    assert_eq!(body["properties"]["settings"]["$ref"], "#/components/schemas/AccountSettings");
    assert_eq!(body["required"], serde_json::json!(["settings"]));
    assert_eq!(body["additionalProperties"], false);
}

#[test]
fn nobody_gets_in_without_the_token_or_from_another_site() {
    let body = "{\"name\":\"x\",\"settings\":{}}";
    let post = |headers: &str| {
        let length = body.len();
        send(&format!("POST /api/v1/shares HTTP/1.1\r\nContent-Length: {length}\r\n{headers}\r\n{body}"))
    };
    let json = "Content-Type: application/json\r\n";
    let host = "Host: 127.0.0.1:9446\r\n";
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    is(&post(&format!("{host}{json}{token}")), 201, "", &["create x"]);
    is(&post(&format!("{host}{json}{token}Origin: http://127.0.0.1:9446\r\n")), 201, "", &["create x"]);
    is(&post(&format!("{host}{json}")), 401, "www-authenticate: Bearer", &[]);
    for wrong in
        ["Basic abc".to_owned(), "Bearer".to_owned(), format!("Bearer {TOKEN}0"), "Bearer ".to_owned()]
    {
        is(&post(&format!("{host}{json}Authorization: {wrong}\r\n")), 401, "oken", &[]);
    }
    for elsewhere in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: https://127.0.0.1:9446\r\n",
        "Origin: http://127.0.0.1:80\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        is(&post(&format!("{host}{json}{token}{elsewhere}")), 403, "another site", &[]);
    }
    is(&post(&format!("Host: evil.example\r\n{json}{token}")), 421, "localhost", &[]);
    is(&post(&format!("{json}{token}")), 421, "localhost", &[]);
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"] {
        is(&post(&format!("{host}{token}{kind}")), 415, "application/json", &[]);
    }
    // Without a body a token will do: another page cannot send one unasked.
    let reload = |headers: &str| send(&format!("POST /api/v1/reload HTTP/1.1\r\n{host}{headers}\r\n")).0;
    for headers in ["", "Content-Length: 0\r\n", "Content-Type: text/plain\r\nContent-Length: 0\r\n"] {
        let answer = reload(&format!("{token}{headers}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{headers}: {answer}");
        let answer = reload(headers);
        assert!(answer.starts_with("HTTP/1.1 415 "), "{headers}: {answer}");
    }
    let chunked = format!("{host}{token}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    let chunked = send(&format!("POST /api/v1/reload HTTP/1.1\r\n{chunked}"));
    is(&chunked, 415, "application/json", &[]);
    is(&ask("POST", "/api/v1/shares", "", ""), 400, "", &[]);
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(MAX_BODY));
    is(&ask("POST", "/api/v1/shares", "", &long), 413, "longer than 64 KiB", &[]);
}

#[test]
fn names_in_addresses_are_read_as_they_were_meant() {
    assert_eq!(decoded("a%20b%C3%A9").as_deref(), Some("a bé"));
    for bad in ["%", "%2", "%zz", "%ff", "%+1"] {
        assert_eq!(decoded(bad), None, "{bad}");
    }
}

#[test]
fn every_role_may_do_what_its_line_says_and_nothing_else() {
    // Bodies that each route takes, so that only the role decides.
    let body = |request: &str| match request {
        "POST /api/v1/users" => "{\"name\":\"eve\",\"password\":\"hush-hush\"}",
        "PATCH /api/v1/users/{name}" => "{\"admin\":true}",
        "POST /api/v1/tokens" => "{\"name\":\"new\",\"role\":\"read\"}",
        post if post.starts_with("POST") => "{\"name\":\"new\"}",
        patch if patch.starts_with("PATCH") => "{\"settings\":{\"comment\":\"x\"}}",
        _ => "",
    };
    let all: Vec<_> = routes_with_roles().collect();
    assert_eq!(all.len(), routes::ROUTES.iter().map(|routes| routes.len()).sum::<usize>());
    for (request, needed) in &all {
        let needed = needed.unwrap();
        let (method, path) = request.split_once(' ').unwrap();
        let name = match path {
            "/api/v1/users/{name}" => "ann",
            "/api/v1/tokens/{name}" => "operate",
            "/api/v1/open-files/{name}" | "/api/v1/locks/{name}" => "smb-1-2",
            _ => "docs",
        };
        let path = path.replace("{name}", name);
        for role in Role::ALL {
            let headers = "If-Match: *\r\n";
            let (answer, calls) = ask_as(&token(role), method, &path, headers, body(request));
            let status = answer.split(' ').nth(1).unwrap().to_owned();
            if role >= needed {
                assert!(["200", "201"].contains(&status.as_str()), "{request} as {role}: {answer}");
            } else {
                let why = format!("{request} needs the role {needed}; the token {role} has the role {role}");
                assert!(status == "403" && answer.contains(&why), "{request} as {role}: {answer}");
                assert!(calls.is_empty(), "{request} as {role}: {calls:?}");
            }
            assert!(role != Role::Read || calls.is_empty(), "{request}: {calls:?}");
        }
        assert_eq!(needed == Role::Read, method == "GET" && path != "/api/v1/tokens", "{request}");
    }
}

#[test]
fn operators_change_how_much_and_how_fast_and_not_who_gets_what() {
    let operate = token(Role::Operate);
    let set = |token: &str, kind: &str, settings: &str| {
        let body = format!("{{\"settings\":{settings}}}");
        ask_as(token, "PATCH", &format!("/api/v1/{kind}/docs"), "If-Match: *\r\n", &body)
    };
    is(&set(&operate, "shares", "{\"provisioned_gib\":200}"), 200, "200", &["set docs"]);
    is(&set(&operate, "accounts", "{\"multichannel\":null}"), 200, "", &["set docs"]);
    for key in ["path", "users", "account", "encryption", "nfs_clients", "root_squash", "a_new_one"] {
        let settings = format!("{{\"comment\":\"x\",\"{key}\":null}}");
        let why = format!(
            "changing `{key}` of shares needs the role administer; the token operate has the role operate"
        );
        is(&set(&operate, "shares", &settings), 403, &why, &[]);
        is(&set(TOKEN, "shares", &settings), 200, "", &["set docs"]);
    }
}

#[test]
fn tokens_are_made_listed_and_revoked_and_told_once() {
    let tokens = |method: &str, path: &str, body: &str| ask(method, &format!("/api/v1/{path}"), "", body);
    is(&tokens("GET", "caller", ""), 200, "{\"name\":\"token administer\",\"role\":\"administer\"}", &[]);
    let made = tokens("POST", "tokens", "{\"name\":\"prom\",\"role\":\"read\",\"expires\":\"90d\"}");
    is(&made, 201, "\"token\":\"tl_new\"", &["token prom read"]);
    assert!(made.0.contains("location: /api/v1/tokens/prom\r\n"), "{}", made.0);
    let listed = tokens("GET", "tokens", "");
    is(&listed, 200, "\"last_used\":null", &[]);
    assert!(!listed.0.contains("token-"), "{}", listed.0);
    for (body, status, why) in [
        ("{\"name\":\"read\",\"role\":\"read\"}", 409, "it is there"),
        ("{\"name\":\"x\",\"role\":\"root\"}", 400, "unknown variant `root`"),
        ("{\"name\":\"x\"}", 400, "missing field `role`"),
        ("{\"name\":\"x\",\"role\":\"read\",\"more\":1}", 400, "unknown field `more`"),
    ] {
        is(&tokens("POST", "tokens", body), status, why, &[]);
    }
    is(&tokens("DELETE", "tokens/none", ""), 404, "no token `none`", &[]);
    is(&ask_as("token-old", "GET", "/api/v1/status", "", ""), 401, "the token old has expired", &[]);
}

#[test]
fn a_revoked_token_is_refused_on_the_next_request() {
    let (_runtime, address, _) = serving();
    let request = |method: &str, path: &str, token: &str| {
        format!(
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        )
    };
    let (read, all) = (token(Role::Read), token(Role::Administer));
    let status = request("GET", "status", &read);
    assert!(send_to(address, &status).starts_with("HTTP/1.1 200 "));
    assert!(send_to(address, &request("DELETE", "tokens/read", &all)).starts_with("HTTP/1.1 200 "));
    assert!(send_to(address, &status).starts_with("HTTP/1.1 401 "));
    // A connection carries one request, so none stays open for a token that is revoked meanwhile.
    let twice = send_to(address, &request("GET", "status", &all).repeat(2));
    assert!(twice.matches("HTTP/1.1 ").count() == 1 && twice.contains("connection: close"), "{twice}");
}

/// The page behind TLS, with a certificate of its own, for clients with certificates of an authority.
struct Sealed {
    runtime: tokio::runtime::Runtime,
    address: std::net::SocketAddr,
    /// The page's certificate in PEM.
    certificate: String,
    clients: Authority,
    trusts: tokio_rustls::TlsConnector,
    _files: tempfile::TempDir,
}

impl Sealed {
    fn new() -> Sealed {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let files = tempfile::tempdir().unwrap();
        let (certificate, key) = pair();
        let clients = Authority::new();
        let written = |name: &str, text: &str| {
            std::fs::write(files.path().join(name), text).unwrap();
            files.path().join(name)
        };
        let tls = Tls::load(TlsFiles {
            certificate: written("cert.pem", &certificate),
            key: written("key.pem", &key),
            client_ca: Some(written("ca.pem", &clients.pem())),
        });
        let tls = Arc::new(tls.unwrap());
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let controlled: Arc<dyn Controlled> = Arc::new(Fake::default());
        let mut door = Door { is_sealed: true, ..Door::default() };
        door.certificates.operate.push("ops.example.net".to_owned());
        runtime.spawn(async move {
            let listener = listener::ready(socket).unwrap();
            serve(&listener, door, Some(tls), controlled).await;
        });
        let trusts = crate::tls::tests::connector(&certificate, None);
        Sealed { runtime, address, certificate, clients, trusts, _files: files }
    }

    /// Asks with a client certificate and its key, in PEM.
    fn ask_with(&mut self, client: &(String, String), request: &str) -> std::io::Result<String> {
        self.trusts = crate::tls::tests::connector(&self.certificate, Some(client));
        self.send("localhost", &format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n"))
    }

    /// Sends a request. Gives all that comes back.
    fn send(&self, name: &'static str, request: &str) -> std::io::Result<String> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let exchange = async {
            let stream = tokio::net::TcpStream::connect(self.address).await?;
            let mut stream = self.trusts.connect(name.try_into().unwrap(), stream).await?;
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok(answer)
        };
        let bounded = async { tokio::time::timeout(PATIENCE, exchange).await };
        self.runtime.block_on(bounded).expect("an answer in time")
    }

    fn ask(&self, headers: &str) -> String {
        self.send("localhost", &format!("GET /api/v1/shares HTTP/1.1\r\n{headers}\r\n")).unwrap()
    }
}

#[test]
fn behind_tls_the_page_is_asked_by_any_name_with_the_token() {
    let page = Sealed::new();
    let with =
        |more: &str| format!("Host: files.example.net:9446\r\nAuthorization: Bearer {TOKEN}\r\n{more}");
    let starts = |answer: String, status: &str| {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    };
    let answer = page.ask(&with(""));
    assert!(answer.contains("\"name\":\"docs\""), "{answer}");
    starts(page.ask(&with("Origin: https://files.example.net:9446\r\n")), "200");
    starts(page.ask(&with("Origin: http://files.example.net:9446\r\n")), "403");
    starts(page.ask(&with("Origin: https://evil.example\r\n")), "403");
    starts(page.ask("Host: files.example.net\r\n"), "401");
    starts(page.ask(&format!("Authorization: Bearer {TOKEN}\r\n")), "421");
    let shown = page.send("localhost", "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(shown.contains("<html"), "{shown}");
    // The certificate has another name than the client wants.
    assert!(page.send("files.example.net", "GET / HTTP/1.1\r\nHost: x\r\n\r\n").is_err());
}

#[test]
fn a_client_certificate_has_the_role_of_its_name_and_must_be_valid() {
    let mut page = Sealed::new();
    let good = page.clients.client("prom.example.net", true);
    let answer = page.ask_with(&good, "GET /api/v1/caller").unwrap();
    assert!(answer.contains("\"name\":\"certificate prom.example.net\",\"role\":\"read\""), "{answer}");
    let answer = page.ask_with(&good, "DELETE /api/v1/open-files/smb-1-2").unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let operator = page.clients.client("ops.example.net", true);
    let answer = page.ask_with(&operator, "DELETE /api/v1/open-files/smb-1-2").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // An expired one, one of another authority, and one that vouches for itself end the handshake.
    let expired = page.clients.client("ops.example.net", false);
    for bad in [expired, Authority::new().client("ops.example.net", true), pair()] {
        let why = page.ask_with(&bad, "GET /api/v1/caller").unwrap_err();
        assert!(why.to_string().to_lowercase().contains("alert"), "{why}");
    }
    // Without a certificate a token is needed, and a wrong token is refused beside a certificate.
    page.trusts = crate::tls::tests::connector(&page.certificate, None);
    assert!(page.ask("Host: x\r\n").starts_with("HTTP/1.1 401 "));
    page.trusts = crate::tls::tests::connector(&page.certificate, Some(&good));
    let answer = page.ask("Host: x\r\nAuthorization: Bearer wrong\r\n");
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("not known here"), "{answer}");
}

#[test]
fn who_speaks_no_tls_or_never_finishes_is_let_go() {
    let page = Sealed::new();
    let plain = |sent: &str| {
        let mut stream = std::net::TcpStream::connect(page.address).unwrap();
        stream.set_read_timeout(Some(crate::tls::HANDSHAKE_PATIENCE * 4)).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // It may be reset or closed in order.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let answer =
        plain(&format!("GET /api/v1/shares HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"));
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    // More callers than are served at once send nothing but a beginning. One that does it right waits for
    // none of them.
    let begun = std::time::Instant::now();
    let silent: Vec<_> = (0..4 * MAX_CALLERS)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(page.address).unwrap();
            stream.write_all(&[0x16, 0x03]).unwrap();
            stream
        })
        .collect();
    let answer = page.ask(&format!("Host: x\r\nAuthorization: Bearer {TOKEN}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(begun.elapsed() < crate::tls::HANDSHAKE_PATIENCE);
    drop(silent);
}

#[test]
fn who_never_asks_holds_up_nobody_with_the_token() {
    let (_runtime, address, _) = serving();
    let begun = std::time::Instant::now();
    let silent: Vec<_> =
        (0..4 * MAX_CALLERS).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let answer = send_to(
        address,
        &format!("GET /api/v1/shares HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"),
    );
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(begun.elapsed() < PATIENCE / 2);
    drop(silent);
}
