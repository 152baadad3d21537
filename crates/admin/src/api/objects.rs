//! `/api/v1/accounts` and `/api/v1/shares`.
//!
//! The version of an object is its entity tag. A change names the version that it was made for (`If-Match`),
//! so that two administrators cannot lose each other's changes.

use hyper::StatusCode;
use hyper::header::{ETAG, IF_MATCH, LOCATION};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ApiRequest, ApiResponse};
use crate::Controlled;
use crate::access::{OPERATED_SETTINGS, Role};
use crate::objects::{Change, ChangeAction, Kind};

/// The body that makes an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    name: String,
    #[serde(default)]
    settings: Map<String, Value>,
}

/// The body that changes an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    settings: Map<String, Value>,
}

impl ApiRequest {
    /// Shows an object of a kind.
    pub(super) fn show(kind: Kind, name: &str, server: &dyn Controlled) -> ApiResponse {
        let all = server.objects(kind);
        match all.iter().find(|object| object.name.to_lowercase() == name.to_lowercase()) {
            Some(object) => ApiResponse::ok(object).with(ETAG, format!("\"{}\"", object.version)),
            None => ApiResponse::error(StatusCode::NOT_FOUND, &format!("there is no {kind} `{name}`")),
        }
    }

    /// Makes an object.
    pub(super) fn create(&self, kind: Kind, server: &dyn Controlled) -> ApiResponse {
        match self.body::<New>() {
            Ok(New { name, settings }) => change(
                server,
                Change { kind, name, what: ChangeAction::Create { settings }, if_version: None },
            ),
            Err(refused) => refused,
        }
    }

    /// Changes an object.
    pub(super) fn set(&self, kind: Kind, name: &str, server: &dyn Controlled) -> ApiResponse {
        match (self.body::<Set>(), self.version()) {
            (Ok(Set { settings }), Ok(if_version)) => {
                if let Err(why) = self.may_change(kind, &settings) {
                    return ApiResponse::error(StatusCode::FORBIDDEN, &why);
                }
                let what = ChangeAction::Set { settings };
                change(server, Change { kind, name: name.to_owned(), what, if_version })
            }
            (Err(refused), _) | (_, Err(refused)) => refused,
        }
    }

    /// Deletes an object.
    pub(super) fn delete(&self, kind: Kind, name: &str, server: &dyn Controlled) -> ApiResponse {
        match self.version() {
            Ok(if_version) => {
                let what =
                    ChangeAction::Delete { force: self.query("force").is_some_and(|force| force == "true") };
                change(server, Change { kind, name: name.to_owned(), what, if_version })
            }
            Err(refused) => refused,
        }
    }

    /// Whether the caller's role may change these settings.
    fn may_change(&self, kind: Kind, settings: &Map<String, Value>) -> Result<(), String> {
        let others = settings.keys().find(|key| !OPERATED_SETTINGS.contains(&key.as_str()));
        let Some(key) = others else { return Ok(()) };
        self.caller.may(&format!("changing `{key}` of {kind}s"), Role::Administer)
    }

    pub(super) fn body<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ApiResponse> {
        serde_json::from_slice(&self.body).map_err(|error| {
            ApiResponse::error(StatusCode::BAD_REQUEST, &format!("the body cannot be read: {error}"))
        })
    }

    /// The version that a change is for; none: any.
    fn version(&self) -> Result<Option<String>, ApiResponse> {
        let Some(tag) = self.head.headers.get(IF_MATCH).and_then(|tag| tag.to_str().ok()) else {
            let why = "say with If-Match which version you have seen (its ETag), or * for any";
            return Err(ApiResponse::error(StatusCode::PRECONDITION_REQUIRED, why));
        };
        Ok((tag != "*").then(|| tag.trim().trim_matches('"').to_owned()))
    }
}

fn change(server: &dyn Controlled, change: Change) -> ApiResponse {
    let is_new = matches!(change.what, ChangeAction::Create { .. });
    let kind = change.kind;
    let changed = match server.change(change) {
        Ok(changed) => changed,
        Err(refusal) => return ApiResponse::refused(&refusal),
    };
    let mut answer = ApiResponse::ok(&changed);
    if let Some(object) = &changed.object {
        answer = answer.with(ETAG, format!("\"{}\"", object.version));
        if is_new {
            answer.status = StatusCode::CREATED;
            answer = answer.with(LOCATION, format!("/api/v1/{kind}s/{}", encoded(&object.name)));
        }
    }
    answer
}

/// Encodes a name as a part of an address.
pub(super) fn encoded(name: &str) -> String {
    let one = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    name.bytes().map(one).collect()
}
