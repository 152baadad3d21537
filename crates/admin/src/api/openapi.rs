//! What can be asked of the API: each path and method with what it does, what it takes and what comes back.
//!
//! [`ROUTES`] leads each request to what answers it, and [`document`] describes it (OpenAPI 3.1).

use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::{Answer, Asked, decoded};
use crate::Controlled;
use crate::objects::Kind;
use crate::overview::{MOST_ROWS, ROWS};

/// Where all paths begin.
pub(super) const ROOT: &str = "/api/v1/";

/// One thing that can be asked.
pub(super) struct Route {
    /// Below [`ROOT`]; `{name}` stands for a name.
    path: &'static str,
    method: Method,
    /// What it does, for the document.
    about: &'static str,
    /// Values of the query and headers.
    takes: &'static [Parameter],
    /// The body: what it must hold and may hold.
    body: Option<(&'static [&'static str], &'static [&'static str])>,
    /// What comes back but for what [`ALWAYS`] says: status, what it means, and the schema.
    gives: &'static [(u16, &'static str, &'static str)],
    /// Answers, with the name in the path.
    answer: fn(&Asked, &str, &dyn Controlled) -> Answer,
}

/// A value of the query, or a header that must be there.
enum Parameter {
    Header(&'static str, &'static str),
    Flag(&'static str, &'static str),
    Text(&'static str, &'static str),
    Number(&'static str, &'static str),
}

const SEEN: Parameter = Parameter::Header("If-Match", "The ETag that was seen, or * for any");
const FORCE: Parameter =
    Parameter::Flag("force", "true: also when it is in use; whoever uses it is disconnected");
const FIND: Parameter = Parameter::Text("find", "Rows that hold this in a name or an address");
const MOST: Parameter = Parameter::Number("most", "Rows of a table");

const NONE: (u16, &str, &str) = (404, "There is none", "Error");
const CHANGED_SINCE: (u16, &str, &str) = (412, "It has changed since, and what", "Error");
const NOT_SAID: (u16, &str, &str) = (428, "If-Match is missing", "Error");
const NOW: (u16, &str, &str) = (200, "The server at one moment", "");

/// What every request may get.
const ALWAYS: [(u16, &str, &str); 3] = [
    (401, "The token is missing or wrong", "Error"),
    (403, "It comes from a page of another site", "Error"),
    (421, "The host is not named by localhost or an address of loopback", "Error"),
];

/// What can be asked of a kind of objects.
macro_rules! objects {
    ($kind:ident, $one:literal, $any:literal, $settings:literal) => {
        [
            Route {
                path: concat!($one, "s"),
                method: Method::GET,
                about: concat!("Every ", $one),
                takes: &[],
                body: None,
                gives: &[(200, concat!("The ", $one, "s by name"), "[Object]")],
                answer: |_, _, server| Answer::ok(&server.objects(Kind::$kind)),
            },
            Route {
                path: concat!($one, "s"),
                method: Method::POST,
                about: concat!("Make ", $any),
                takes: &[],
                body: Some((&["name"], &[$settings])),
                gives: &[
                    (201, "It is made, served and kept", "Changed"),
                    (400, "It cannot be, and why", "Error"),
                    (409, "There is one of that name", "Error"),
                ],
                answer: |asked, _, server| asked.create(Kind::$kind, server),
            },
            Route {
                path: concat!($one, "s/{name}"),
                method: Method::GET,
                about: concat!("One ", $one),
                takes: &[],
                body: None,
                gives: &[(200, "It", "Object"), NONE],
                answer: |_, name, server| Asked::show(Kind::$kind, name, server),
            },
            Route {
                path: concat!($one, "s/{name}"),
                method: Method::PATCH,
                about: concat!(
                    "Change ",
                    $any,
                    ": limits bind at once, all else whoever connects from now on"
                ),
                takes: &[SEEN],
                body: Some((&[$settings], &[])),
                gives: &[
                    (200, "It is changed and kept", "Changed"),
                    (400, "It cannot be, and why", "Error"),
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
    answer: fn(&Asked, &str, &dyn Controlled) -> Answer,
) -> Route {
    Route { path, method: Method::GET, about, takes, body: None, gives: &[NOW], answer }
}

/// Everything that can be asked.
static ROUTES: [&[Route]; 3] = [
    &objects!(Account, "account", "an account", "AccountSettings"),
    &objects!(Share, "share", "a share", "ShareSettings"),
    &[
        reading(
            "overview",
            "What the admin page shows: counts since the start, sessions and clients",
            &[FIND, MOST],
            |asked, _, server| asked.overview(server),
        ),
        reading("status", "As `trunkline status --json`", &[], |_, _, server| Answer::ok(&server.status())),
        reading("channels", "As `trunkline status channels --json`", &[], |_, _, server| {
            Answer::ok(&server.channels())
        }),
        reading("transactions", "As `trunkline status transactions --json`", &[], |_, _, server| {
            Answer::ok(&server.transactions())
        }),
        reading("workload", "As `trunkline status workload --json`", &[], |_, _, server| {
            Answer::ok(&server.workload())
        }),
        Route {
            path: "reload",
            method: Method::POST,
            about: "Read the configuration again; sessions stay",
            takes: &[],
            body: Some((&[], &[])),
            gives: &[
                (200, "It is in force", ""),
                (400, "What is wrong with it; nothing was changed", "Error"),
            ],
            answer: |_, _, server| match server.reload() {
                Ok(()) => Answer::ok(&json!({})),
                Err(why) => Answer::error(StatusCode::BAD_REQUEST, &why),
            },
        },
    ],
];

/// Answers a request by its route.
pub(super) fn answer(asked: &Asked, server: &dyn Controlled) -> Answer {
    let nowhere = || Answer::error(StatusCode::NOT_FOUND, "there is no such page; see /openapi.json");
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
        return Answer::error(StatusCode::BAD_REQUEST, "the name cannot be read");
    };
    let method = if asked.head.method == Method::HEAD { Method::GET } else { asked.head.method.clone() };
    match routes.iter().find(|route| route.method == method) {
        Some(route) => (route.answer)(asked, &name, server),
        None => {
            let allowed = routes.iter().map(|route| match route.method {
                Method::GET => "GET, HEAD".to_owned(),
                _ => route.method.to_string(),
            });
            Answer::no_method(&allowed.collect::<Vec<_>>().join(", "))
        }
    }
}

/// What describes the API; `settings` gives the JSON schema of the settings of a kind.
pub fn document(settings: impl Fn(Kind) -> Value) -> Value {
    let mut paths = Map::new();
    for route in ROUTES.into_iter().flatten() {
        let path = &mut paths.entry(format!("{ROOT}{}", route.path)).or_insert_with(|| json!({}));
        if route.path.ends_with("{name}") {
            let name =
                json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } });
            path["parameters"] = json!([name]);
        }
        path[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Trunkline", "version": "1", "summary": "Accounts, shares and what the server does" },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "The file admin-token in the state directory",
            } },
            "schemas": {
                "Error": fields(&[("error", json!({ "type": "string" }))]),
                "Object": fields(&[
                    ("kind", json!({ "enum": ["account", "share"] })),
                    ("name", json!({ "type": "string" })),
                    ("version", json!({ "type": "string" })),
                    ("settings", json!({
                        "type": "object",
                        "description": "Every value, also one that is taken over or the default",
                    })),
                    ("origins", json!({
                        "type": "object",
                        "additionalProperties": { "type": "string" },
                        "description": "Where each value came from",
                    })),
                ]),
                "Changed": fields(&[
                    ("object", json!({ "oneOf": [schema("Object"), { "type": "null" }] })),
                    ("notes", json!({ "type": "array", "items": { "type": "string" } })),
                ]),
                "AccountSettings": settings(Kind::Account),
                "ShareSettings": settings(Kind::Share),
            },
        },
    })
}

/// An object that has all of these.
fn fields(fields: &[(&str, Value)]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// A schema by its name; `[Name]` is a list, and nothing any object.
fn schema(name: &str) -> Value {
    match name.strip_prefix('[') {
        Some(item) => json!({ "type": "array", "items": schema(item.trim_end_matches(']')) }),
        None if name.is_empty() => json!({ "type": "object" }),
        None => json!({ "$ref": format!("#/components/schemas/{name}") }),
    }
}

fn content(schema: Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({ "summary": route.about });
    if !route.takes.is_empty() {
        operation["parameters"] = route.takes.iter().map(parameter).collect();
    }
    if let Some((must, may)) = route.body {
        let named = |name: &&str| match *name {
            "name" => ("name".to_owned(), json!({ "type": "string" })),
            settings => ("settings".to_owned(), schema(settings)),
        };
        let properties: Map<String, Value> = must.iter().chain(may).map(named).collect();
        let required: Vec<String> = must.iter().map(|name| named(name).0).collect();
        let body = match properties.is_empty() {
            true => schema(""),
            false => json!({
                "type": "object",
                "additionalProperties": false,
                "required": required,
                "properties": properties,
            }),
        };
        operation["requestBody"] = json!({ "required": !must.is_empty(), "content": content(body) });
    }
    for (status, about, of) in route.gives.iter().chain(&ALWAYS) {
        let mut response = json!({ "description": about, "content": content(schema(of)) });
        let has_version = ["Object", "Changed"].contains(of) && route.method != Method::DELETE;
        if has_version {
            response["headers"] = json!({ "ETag": { "description": "The version, in quotes", "schema": { "type": "string" } } });
        }
        operation["responses"][status.to_string()] = response;
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    let (name, place, about, schema) = match parameter {
        Parameter::Header(name, about) => (name, "header", about, json!({ "type": "string" })),
        Parameter::Text(name, about) => (name, "query", about, json!({ "type": "string" })),
        Parameter::Flag(name, about) => {
            (name, "query", about, json!({ "type": "boolean", "default": false }))
        }
        Parameter::Number(name, about) => {
            let schema = json!({ "type": "integer", "minimum": 0, "maximum": MOST_ROWS, "default": ROWS });
            (name, "query", about, schema)
        }
    };
    json!({ "name": name, "in": place, "required": place == "header", "description": about, "schema": schema })
}
