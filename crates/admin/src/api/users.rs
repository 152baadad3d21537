//! `/api/v1/users`: the users that may log on.
//!
//! A password comes in clear text over TLS or over loopback, as all requests do ([`crate::door`]). Only its
//! hash leaves this module. No response, log or error message holds a password or a part of a body that may
//! be one.

use hyper::StatusCode;
use hyper::header::LOCATION;
use serde_json::{Map, Value, json};

use super::objects::encoded;
use super::{ApiRequest, ApiResponse};
use crate::objects::{Refusal, RefusalKind};
use crate::{Controlled, IdChange, UserChange, UserEntry};

/// The fields of a user that can be set.
const KEYS: [&str; 4] = ["password", "uid", "gid", "admin"];

fn bad(text: impl AsRef<str>) -> ApiResponse {
    ApiResponse::error(StatusCode::BAD_REQUEST, text.as_ref())
}

fn find(server: &dyn Controlled, name: &str) -> Option<UserEntry> {
    server.users().into_iter().find(|user| user.name.to_lowercase() == name.to_lowercase())
}

fn not_there(name: &str) -> ApiResponse {
    ApiResponse::error(StatusCode::NOT_FOUND, &format!("there is no user `{name}`"))
}

impl ApiRequest {
    /// Adds a user.
    pub(super) fn add_user(&self, server: &dyn Controlled) -> ApiResponse {
        let fields = match self.user_fields(&["name"]) {
            Ok(fields) => fields,
            Err(refused) => return refused,
        };
        let Some(name) = fields.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return bad("`name` is missing, or it is no text");
        };
        if find(server, &name).is_some() {
            return ApiResponse::error(StatusCode::CONFLICT, &format!("there is already a user `{name}`"));
        }
        if !fields.contains_key("password") {
            return bad("`password` is missing");
        }
        let path = format!("/api/v1/users/{}", encoded(&name));
        let mut answer = change(server, name, true, &fields);
        if answer.status == StatusCode::OK {
            answer.status = StatusCode::CREATED;
            answer = answer.with(LOCATION, path);
        }
        answer
    }

    /// Changes a user.
    pub(super) fn change_user(&self, name: &str, server: &dyn Controlled) -> ApiResponse {
        let Some(user) = find(server, name) else { return not_there(name) };
        match self.user_fields(&[]) {
            Ok(fields) if fields.is_empty() => bad("nothing is to be changed"),
            Ok(fields) => change(server, user.name, false, &fields),
            Err(refused) => refused,
        }
    }

    /// Removes a user. The user's sessions end.
    pub(super) fn remove_user(name: &str, server: &dyn Controlled) -> ApiResponse {
        let Some(user) = find(server, name) else { return not_there(name) };
        match server.remove_user(&user.name) {
            Ok(()) => ApiResponse::ok(&json!({ "user": null, "notes": [] })),
            Err(refusal) => ApiResponse::refused(&refusal),
        }
    }

    /// The fields of the body. All of them are known.
    fn user_fields(&self, more: &[&str]) -> Result<Map<String, Value>, ApiResponse> {
        // The parser's own message would hold the value that it did not expect.
        let fields: Map<String, Value> = serde_json::from_slice(&self.body)
            .map_err(|error| bad(format!("the body is no JSON object: column {}", error.column())))?;
        match fields.keys().find(|key| !KEYS.contains(&key.as_str()) && !more.contains(&key.as_str())) {
            Some(key) => Err(bad(format!("unknown key `{key}`"))),
            None => Ok(fields),
        }
    }
}

/// Adds or changes a user as `fields` say.
fn change(server: &dyn Controlled, name: String, add: bool, fields: &Map<String, Value>) -> ApiResponse {
    let mut notes = Vec::new();
    let change = read(&name, add, fields, server, &mut notes);
    let change = change.map_err(|why| Refusal::new(RefusalKind::Bad, why));
    match change.and_then(|change| server.change_user(change)) {
        Ok(()) => {
            let user = find(server, &name);
            notes.extend(user.as_ref().and_then(|user| user.restriction.clone()));
            ApiResponse::ok(&json!({ "user": user, "notes": notes }))
        }
        Err(refusal) => ApiResponse::refused(&refusal),
    }
}

fn read(
    name: &str,
    add: bool,
    fields: &Map<String, Value>,
    server: &dyn Controlled,
    notes: &mut Vec<String>,
) -> Result<UserChange, String> {
    let id = |key: &str| match fields.get(key) {
        None => Ok(IdChange::Keep),
        Some(Value::Null) => Ok(IdChange::ByName),
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| *number != u32::MAX);
            let wrong = || format!("`{key}` must be a number from 0 to {}, or null", u32::MAX - 1);
            number.map(IdChange::To).ok_or_else(wrong)
        }
    };
    let nt_hash = match fields.get("password") {
        None => None,
        Some(Value::String(password)) => {
            let (hash, weakness) = server.hash_password(name, password)?;
            notes.extend(weakness.map(|why| format!("the password of {name} is soon guessed: {why}")));
            Some(hash)
        }
        Some(_) => return Err("`password` must be a text".to_owned()),
    };
    let admin = match fields.get("admin") {
        None => None,
        Some(Value::Bool(admin)) => Some(*admin),
        Some(_) => return Err("`admin` must be true or false".to_owned()),
    };
    let (uid, gid) = (id("uid")?, id("gid")?);
    Ok(UserChange { name: name.to_owned(), add, nt_hash, uid, gid, admin })
}
