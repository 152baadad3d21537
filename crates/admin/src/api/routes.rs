//! The routes of the API: each path and method with the role that it needs, its description, parameters,
//! responses and handler.
//!
//! [`answer`] finds the route of a request in [`ROUTES`]. [`super::openapi`] describes the routes, and
//! [`crate::access::table`] lists their roles.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{ApiRequest, ApiResponse, decoded};
use crate::Controlled;
use crate::access::Role;
use crate::objects::Kind;
use crate::open_files;
use crate::overview::{MOST_ROWS, ROWS};

/// The beginning of all paths.
pub(super) const ROOT: &str = "/api/v1/";

/// A path with a method.
pub(super) struct Route {
    /// The path below [`ROOT`]; `{name}` stands for a name.
    pub path: &'static str,
    pub method: Method,
    /// The role that a caller needs.
    pub role: Role,
    /// The summary in the description of the API.
    pub about: &'static str,
    /// The parameters in the query and in headers.
    pub takes: &'static [Parameter],
    /// The schema of the body.
    pub body: Option<&'static str>,
    /// The responses: status, meaning and schema. [`ALWAYS`] has further ones.
    pub gives: &'static [(u16, &'static str, &'static str)],
    /// The handler, which gets the name in the path.
    pub answer: fn(&ApiRequest, &str, &dyn Controlled) -> ApiResponse,
}

/// A parameter in the query, which may be missing, or in a header, which must be there.
pub(super) struct Parameter {
    pub name: &'static str,
    /// The place, `header` or `query`.
    pub location: &'static str,
    pub about: &'static str,
    pub schema: fn() -> Value,
}

const SEEN: Parameter = Parameter {
    name: "If-Match",
    location: "header",
    about: "The ETag that was seen, or * for any",
    schema: || json!({ "type": "string" }),
};
const FORCE: Parameter = Parameter {
    name: "force",
    location: "query",
    about: "true: also when it is in use, and disconnects its clients",
    schema: || json!({ "type": "boolean", "default": false }),
};
const FIND: Parameter = Parameter {
    name: "find",
    location: "query",
    about: "Rows that hold this in a name or an address",
    schema: || json!({ "type": "string" }),
};
const MOST: Parameter = Parameter {
    name: "most",
    location: "query",
    about: "Rows of a table",
    schema: || json!({ "type": "integer", "minimum": 0, "maximum": MOST_ROWS, "default": ROWS }),
};

const SHARE: Parameter = Parameter {
    name: "share",
    location: "query",
    about: "The share whose latencies are told; all shares together without it",
    schema: || json!({ "type": "string" }),
};
const FILES: Parameter = Parameter {
    name: "files",
    location: "query",
    about: "If it is there, `files` holds the opens and locks that hold this in a name or an address",
    schema: || json!({ "type": "string" }),
};

const NONE: (u16, &str, &str) = (404, "There is none", "Error");
const CHANGED_SINCE: (u16, &str, &str) = (412, "Changed since that version; the text says what", "Error");
const NOT_SAID: (u16, &str, &str) = (428, "If-Match is missing", "Error");
const NOT_POSSIBLE: (u16, &str, &str) = (400, "The change is not possible; `error` says why", "Error");
const NOW: (u16, &str, &str) = (200, "The server at one moment", "");

/// The responses that every request may get.
pub(super) const ALWAYS: [(u16, &str, &str); 4] = [
    (401, "There is no token, or it is unknown, revoked or expired", "Error"),
    (403, "The caller's role is too low, or it comes from a page of another site", "Error"),
    (500, "The server failed, and nothing was changed; the log says why", "Error"),
    (421, "The host is not named by localhost or an address of loopback", "Error"),
];

/// The routes of one kind of objects.
macro_rules! objects {
    ($kind:ident, $one:literal, $any:literal) => {
        [
            Route {
                path: concat!($one, "s"),
                method: Method::GET,
                role: Role::Read,
                about: concat!("Every ", $one),
                takes: &[],
                body: None,
                gives: &[(200, concat!("The ", $one, "s by name"), "[Object]")],
                answer: |_, _, server| ApiResponse::ok(&server.objects(Kind::$kind)),
            },
            Route {
                path: concat!($one, "s"),
                method: Method::POST,
                role: Role::Administer,
                about: concat!("Make ", $any),
                takes: &[],
                body: Some(concat!("New", stringify!($kind))),
                gives: &[
                    (201, "It is made, served and kept", "Changed"),
                    NOT_POSSIBLE,
                    (409, "There is one of that name", "Error"),
                ],
                answer: |asked, _, server| asked.create(Kind::$kind, server),
            },
            Route {
                path: concat!($one, "s/{name}"),
                method: Method::GET,
                role: Role::Read,
                about: concat!("One ", $one),
                takes: &[],
                body: None,
                gives: &[(200, "It", "Object"), NONE],
                answer: |_, name, server| ApiRequest::show(Kind::$kind, name, server),
            },
            Route {
                path: concat!($one, "s/{name}"),
                method: Method::PATCH,
                role: Role::Operate,
                about: concat!(
                    "Change ",
                    $any,
                    ": limits bind at once, all else whoever connects from now on. The role operate may \
                     change some settings only"
                ),
                takes: &[SEEN],
                body: Some(concat!("Changed", stringify!($kind))),
                gives: &[
                    (200, "It is changed and kept", "Changed"),
                    NOT_POSSIBLE,
                    NONE,
                    (409, "It is not to be changed here", "Error"),
                    CHANGED_SINCE,
                    NOT_SAID,
                ],
                answer: |asked, name, server| asked.set(Kind::$kind, name, server),
            },
            Route {
                path: concat!($one, "s/{name}"),
                method: Method::DELETE,
                role: Role::Administer,
                about: concat!("Remove ", $any, "; files stay"),
                takes: &[SEEN, FORCE],
                body: None,
                gives: &[
                    (200, "It is no more", "Changed"),
                    NONE,
                    (409, "It is in use, or has shares", "Error"),
                    CHANGED_SINCE,
                    NOT_SAID,
                ],
                answer: |asked, name, server| asked.delete(Kind::$kind, name, server),
            },
        ]
    };
}

const fn reading(
    path: &'static str,
    about: &'static str,
    takes: &'static [Parameter],
    answer: fn(&ApiRequest, &str, &dyn Controlled) -> ApiResponse,
) -> Route {
    Route { path, method: Method::GET, role: Role::Read, about, takes, body: None, gives: &[NOW], answer }
}

/// The routes of users.
static USERS: [Route; 4] = [
    Route {
        path: "users",
        method: Method::GET,
        role: Role::Read,
        about: "Every user that may log on",
        takes: &[],
        body: None,
        gives: &[(200, "The users by name", "[User]")],
        answer: |_, _, server| ApiResponse::ok(&server.users()),
    },
    Route {
        path: "users",
        method: Method::POST,
        role: Role::Administer,
        about: "Add a user",
        takes: &[],
        body: Some("NewUser"),
        gives: &[
            (201, "The user may log on", "ChangedUser"),
            NOT_POSSIBLE,
            (409, "There is one of that name", "Error"),
        ],
        answer: |asked, _, server| asked.add_user(server),
    },
    Route {
        path: "users/{name}",
        method: Method::PATCH,
        role: Role::Administer,
        about: "Change a user: password, ids on the host (null: by the name), administrator or not",
        takes: &[],
        body: Some("UserChange"),
        gives: &[(200, "Applies to later log-ons", "ChangedUser"), NOT_POSSIBLE, NONE],
        answer: |asked, name, server| asked.change_user(name, server),
    },
    Route {
        path: "users/{name}",
        method: Method::DELETE,
        role: Role::Administer,
        about: "Remove a user; their sessions end, their files stay",
        takes: &[],
        body: None,
        gives: &[
            (200, "The user is no more", "ChangedUser"),
            NONE,
            (409, "The configuration names the user", "Error"),
        ],
        answer: |_, name, server| ApiRequest::remove_user(name, server),
    },
];

/// The routes of tokens.
static TOKENS: [Route; 4] = [
    Route {
        path: "caller",
        method: Method::GET,
        role: Role::Read,
        about: "Who the server takes the caller for, and the caller's role",
        takes: &[],
        body: None,
        gives: &[(200, "The caller", "Caller")],
        answer: |asked, _, _| ApiResponse::ok(&asked.caller),
    },
    Route {
        path: "tokens",
        method: Method::GET,
        role: Role::Administer,
        about: "Every token, without its text",
        takes: &[],
        body: None,
        gives: &[(200, "The tokens by name", "[Token]")],
        answer: |_, _, server| ApiResponse::ok(&server.tokens()),
    },
    Route {
        path: "tokens",
        method: Method::POST,
        role: Role::Administer,
        about: "Make a token; the answer is the only one that holds its text",
        takes: &[],
        body: Some("TokenRequest"),
        gives: &[
            (201, "It is valid from now on", "NewToken"),
            NOT_POSSIBLE,
            (409, "There is one of that name", "Error"),
        ],
        answer: |asked, _, server| asked.add_token(server),
    },
    Route {
        path: "tokens/{name}",
        method: Method::DELETE,
        role: Role::Administer,
        about: "Revoke a token: the next request with it is refused",
        takes: &[],
        body: None,
        gives: &[(200, "It is revoked", ""), NONE, (409, "It is the token of the file", "Error")],
        answer: |_, name, server| ApiRequest::revoke_token(name, server),
    },
];

const fn closing(path: &'static str, about: &'static str) -> Route {
    Route {
        path,
        method: Method::DELETE,
        role: Role::Operate,
        about,
        takes: &[],
        body: None,
        gives: &[(200, "It is closed", "ClosedState"), NONE],
        answer: |_, id, server| ApiRequest::close_open(id, server),
    }
}

/// The routes of open files and locks.
static OPEN_FILES: [Route; 4] = [
    reading("open-files", "Every open of a file", &[FIND, MOST], |asked, _, server| {
        ApiResponse::ok(&open_files::opens(&server.status(), &asked.filter()))
    }),
    closing(
        "open-files/{name}",
        "Close an open by its id, with its locks; its client gets an error when it uses it next",
    ),
    reading("locks", "Every locked byte range", &[FIND, MOST], |asked, _, server| {
        ApiResponse::ok(&open_files::locks(&server.status(), &asked.filter()))
    }),
    closing(
        "locks/{name}",
        "Release a lock by its id: over NFS all locks of its owner on the file, over SMB its open is closed",
    ),
];

/// All routes.
pub(super) static ROUTES: [&[Route]; 6] = [
    &objects!(Account, "account", "an account"),
    &objects!(Share, "share", "a share"),
    &USERS,
    &TOKENS,
    &OPEN_FILES,
    &[
        reading(
            "overview",
            "What the admin page shows: counts since the start, sessions and clients",
            &[FIND, MOST, SHARE, FILES],
            |asked, _, server| asked.overview(server),
        ),
        reading("status", "As `trunkline status --json`", &[], |_, _, server| {
            ApiResponse::ok(&server.status())
        }),
        reading("channels", "As `trunkline status channels --json`", &[], |_, _, server| {
            ApiResponse::ok(&server.channels())
        }),
        reading("transactions", "As `trunkline status transactions --json`", &[], |_, _, server| {
            ApiResponse::ok(&server.transactions())
        }),
        reading("workload", "As `trunkline status workload --json`", &[], |_, _, server| {
            ApiResponse::ok(&server.workload())
        }),
        Route {
            path: "reload",
            method: Method::POST,
            role: Role::Operate,
            about: "Read the configuration again; sessions stay",
            takes: &[],
            body: Some(""),
            gives: &[
                (200, "It is in force; `warnings` says which parts have no effect, and why", ""),
                (400, "What is wrong with it; nothing was changed", "Error"),
            ],
            answer: |_, _, server| match server.reload() {
                Ok(warnings) => ApiResponse::ok(&json!({ "warnings": warnings })),
                Err(why) => ApiResponse::error(StatusCode::BAD_REQUEST, &why),
            },
        },
    ],
];

/// Every method and path with the role that it needs.
pub(crate) fn with_roles() -> impl Iterator<Item = (String, Option<Role>)> {
    let line = |route: &Route| (format!("{} {ROOT}{}", route.method, route.path), Some(route.role));
    ROUTES.into_iter().flatten().map(line)
}

/// A request for the audit: the method and the path, and the name of a new object, which is in the body.
fn audited(asked: &ApiRequest, method: &Method) -> String {
    let path = &asked.path;
    let body: Value = match *method {
        Method::POST => serde_json::from_slice(&asked.body).unwrap_or_default(),
        _ => Value::Null,
    };
    body["name"].as_str().map_or_else(|| format!("{method} {path}"), |name| format!("{method} {path} {name}"))
}

/// Leads a request to its handler, if the caller's role allows it. The log names who changes something.
pub(super) fn answer(asked: &ApiRequest, server: &dyn Controlled) -> ApiResponse {
    let nowhere = || ApiResponse::error(StatusCode::NOT_FOUND, "there is no such page; see /openapi.json");
    let Some(path) = asked.path.strip_prefix(ROOT) else { return nowhere() };
    let (first, name) = path.split_once('/').map_or((path, None), |(first, name)| (first, Some(name)));
    let here = |route: &&Route| match name {
        Some(_) => route.path.strip_suffix("/{name}") == Some(first),
        None => route.path == first,
    };
    let routes: Vec<&Route> = ROUTES.into_iter().flatten().filter(here).collect();
    if routes.is_empty() {
        return nowhere();
    }
    let Some(name) = decoded(name.unwrap_or_default()).filter(|read| name.is_none() || !read.is_empty())
    else {
        return ApiResponse::error(StatusCode::BAD_REQUEST, "the name cannot be read");
    };
    let method = if asked.head.method == Method::HEAD { Method::GET } else { asked.head.method.clone() };
    match routes.iter().find(|route| route.method == method) {
        Some(route) => {
            let answer = match asked.caller.may(&format!("{method} {ROOT}{}", route.path), route.role) {
                Ok(()) => (route.answer)(asked, &name, server),
                Err(why) => ApiResponse::error(StatusCode::FORBIDDEN, &why),
            };
            if method != Method::GET {
                let (by, path, status) = (&asked.caller.name, &asked.path, answer.status.as_u16());
                tracing::info!(by, %method, path, status, "request of an administrator");
                let refused = (!answer.status.is_success()).then(|| format!("status {status}"));
                server.note_request((by, None), &audited(asked, &method), refused.as_deref());
            }
            answer
        }
        None => {
            let allowed = routes.iter().map(|route| match route.method {
                Method::GET => "GET, HEAD".to_owned(),
                _ => route.method.to_string(),
            });
            ApiResponse::no_method(&allowed.collect::<Vec<_>>().join(", "))
        }
    }
}
