//! `/api/v1/tokens`: the tokens of administrators and programs.
//!
//! Only the answer that makes a token holds its text.

use hyper::StatusCode;
use hyper::header::LOCATION;
use serde_json::json;

use super::objects::encoded;
use super::{ApiRequest, ApiResponse};
use crate::Controlled;
use crate::access::TokenRequest;

impl ApiRequest {
    /// Makes a token.
    pub(super) fn add_token(&self, server: &dyn Controlled) -> ApiResponse {
        let request: TokenRequest = match self.body() {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        match server.add_token(request) {
            Ok(made) => {
                let path = format!("/api/v1/tokens/{}", encoded(&made.entry.name));
                ApiResponse { status: StatusCode::CREATED, ..ApiResponse::ok(&made) }.with(LOCATION, path)
            }
            Err(refusal) => ApiResponse::refused(&refusal),
        }
    }

    /// Revokes a token.
    pub(super) fn revoke_token(name: &str, server: &dyn Controlled) -> ApiResponse {
        match server.revoke_token(name) {
            Ok(()) => ApiResponse::ok(&json!({})),
            Err(refusal) => ApiResponse::refused(&refusal),
        }
    }
}
