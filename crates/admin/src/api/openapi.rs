//! The description of the API (OpenAPI 3.1). It is made of the routes and of the settings of accounts and
//! shares.

use hyper::Method;
use serde_json::{Map, Value, json};

use super::routes::{ALWAYS, Parameter, ROOT, ROUTES, Route};
use crate::access::{OPERATED_SETTINGS, Role};
use crate::objects::Kind;

/// The description of the API. `settings` gives the JSON schema of the settings of a kind.
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
        "info": {
            "title": "Trunkline",
            "version": "1",
            "summary": "Accounts, shares, users and what the server does",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of `trunkline token add`, or the file admin-token in the state \
                                directory. A client certificate does the same",
            } },
            "schemas": schemas(settings),
        },
    })
}

/// The schemas that the routes name.
fn schemas(settings: impl Fn(Kind) -> Value) -> Value {
    json!({
        "Error": fields(&[("error", json!({ "type": "string" }))]),
        "Object": fields(&[
            ("kind", json!({ "enum": ["account", "share"] })),
            ("name", json!({ "type": "string" })),
            ("version", json!({ "type": "string" })),
            ("settings", json!({
                "type": "object",
                "description": "Every value, also one that is inherited or the default",
            })),
            ("origins", json!({
                "type": "object",
                "additionalProperties": { "type": "string" },
                "description": "Where each value came from",
            })),
        ]),
        "User": user(),
        "ChangedUser": fields(&[
            ("user", json!({ "oneOf": [schema("User"), { "type": "null" }] })),
            ("notes", json!({ "type": "array", "items": { "type": "string" } })),
        ]),
        "NewUser": user_body(&["name", "password"]),
        "UserChange": user_body(&[]),
        "ClosedState": closed_state(),
        "Role": role(),
        "Caller": fields(&[("name", json!({ "type": "string" })), ("role", schema("Role"))]),
        "Token": token(),
        "TokenRequest": body(&json!({
            "name": { "type": "string" },
            "role": schema("Role"),
            "expires": { "type": "string", "examples": ["90d", "12h", "30m"] },
        }), &["name", "role"]),
        "NewToken": fields(&[("token", json!({ "type": "string" })), ("entry", schema("Token"))]),
        "Changed": fields(&[
            ("object", json!({ "oneOf": [schema("Object"), { "type": "null" }] })),
            ("notes", json!({ "type": "array", "items": { "type": "string" } })),
        ]),
        "NewAccount": new_object("AccountSettings"),
        "ChangedAccount": body(&json!({ "settings": schema("AccountSettings") }), &["settings"]),
        "AccountSettings": settings(Kind::Account),
        "NewShare": new_object("ShareSettings"),
        "ChangedShare": body(&json!({ "settings": schema("ShareSettings") }), &["settings"]),
        "ShareSettings": settings(Kind::Share),
    })
}

/// The body that makes an object with these settings.
fn new_object(settings: &str) -> Value {
    body(&json!({ "name": { "type": "string" }, "settings": schema(settings) }), &["name"])
}

fn role() -> Value {
    json!({
        "enum": Role::ALL,
        "description": format!(
            "Each role includes the ones before it. `operate` may change these settings of accounts and \
             shares: {}",
            OPERATED_SETTINGS.join(", ")
        ),
    })
}

fn token() -> Value {
    let time = json!({ "type": ["string", "null"], "format": "date-time" });
    fields(&[
        ("name", json!({ "type": "string" })),
        ("role", schema("Role")),
        ("created", json!({ "type": "string", "format": "date-time" })),
        ("last_used", time.clone()),
        ("expires", time),
    ])
}

fn user() -> Value {
    let reason = "The reason why the user may not log on, such as a missing uid";
    let reason = json!({ "type": ["string", "null"], "description": reason });
    fields(&[
        ("name", json!({ "type": "string" })),
        ("sid", json!({ "type": "string", "description": "Security identifier" })),
        ("uid", json!({ "type": ["integer", "null"], "description": "User id on the host" })),
        ("gid", json!({ "type": ["integer", "null"], "description": "Group id on the host" })),
        ("admin", json!({ "type": "boolean" })),
        ("restriction", reason),
        (
            "source",
            json!({ "type": "string", "description": "`state`, or the file that holds the password" }),
        ),
    ])
}

/// The body that adds a user, when it requires a name, or changes one.
fn user_body(required: &[&str]) -> Value {
    let mut properties = json!({
        "password": { "type": "string", "writeOnly": true, "maxLength": 256 },
        "uid": { "type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX - 1 },
        "gid": { "type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX - 1 },
        "admin": { "type": "boolean" },
    });
    if required.contains(&"name") {
        properties["name"] = json!({ "type": "string" });
    }
    body(&properties, required)
}

fn closed_state() -> Value {
    let (text, number) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    fields(&[
        ("protocol", json!({ "enum": ["smb", "nfs"] })),
        ("share", text.clone()),
        ("path", text.clone()),
        ("user", text),
        ("opens", number.clone()),
        ("lock_owners", number.clone()),
        ("delegations", number),
    ])
}

/// The schema of an object that has all of these fields.
fn fields(fields: &[(&str, Value)]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// The schema of a body that has no other fields.
fn body(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

/// A schema by its name. `[Name]` is a list. An empty name is any object.
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
    let description = format!("Needs the role {}.", route.role);
    let mut operation = json!({ "summary": route.about, "description": description, "x-role": route.role });
    if !route.takes.is_empty() {
        operation["parameters"] = route.takes.iter().map(parameter).collect();
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({ "required": !body.is_empty(), "content": content(schema(body)) });
    }
    for (status, about, of) in route.gives.iter().chain(&ALWAYS) {
        let mut response = json!({ "description": about, "content": content(schema(of)) });
        if ["Object", "Changed"].contains(of) && route.method != Method::DELETE {
            let tag = json!({ "description": "The version, in quotes", "schema": { "type": "string" } });
            response["headers"] = json!({ "ETag": tag });
        }
        operation["responses"][status.to_string()] = response;
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    let Parameter { name, location, about, schema } = parameter;
    let required = *location == "header";
    json!({ "name": name, "in": location, "required": required, "description": about, "schema": schema() })
}
