//! Failures as the API server words them: one value that becomes a `Status` body.
//!
//! Every handler returns its errors as a [`Failure`]; faults use the same type, so an injected
//! answer cannot be told from a real one. Nothing here looks at the store.

use std::borrow::Cow;

use http::{Response, header};
use serde_json::{Value, json};

use crate::body::{self, ResponseBody};
use crate::resources::{Resource, qualified};

/// A failed answer: HTTP code plus the fields of a `Status` body.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "it does nothing by itself"]
pub struct Failure {
    /// HTTP status code, repeated in the body.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound` or `Conflict`.
    pub reason: Cow<'static, str>,
    /// Text for people.
    pub message: String,
    /// `details` of the body: name, group, kind, causes.
    pub details: Option<Value>,
    /// Seconds for the `Retry-After` header; also written to `details.retryAfterSeconds`.
    pub retry_after: Option<u32>,
}

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it does nothing by itself"]
pub struct Cause {
    /// For example `FieldValueRequired`.
    pub reason: &'static str,
    /// The fault of the field, in words.
    pub message: String,
    /// Path of the field, such as `spec.allocations.5.podref`.
    pub field: String,
}

impl Cause {
    /// A required field that is absent.
    pub fn required(field: impl Into<String>) -> Self {
        Self {
            reason: "FieldValueRequired",
            message: "Required value".to_owned(),
            field: field.into(),
        }
    }

    /// A field whose value is not allowed.
    pub fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {why}"),
            field: field.into(),
        }
    }

    /// A field of the wrong JSON type.
    pub fn wrong_type(field: impl Into<String>, want: &str, got: &str) -> Self {
        let field = field.into();
        Self {
            reason: "FieldValueTypeInvalid",
            message: format!(
                "Invalid value: \"{got}\": {field} in body must be of type {want}: \"{got}\""
            ),
            field,
        }
    }
}

/// The usual failures: code, reason, message.
const USUAL: &str = "\
400 BadRequest the server rejected our request for an unknown reason
401 Unauthorized Unauthorized
403 Forbidden forbidden
404 NotFound the server could not find the requested resource
405 MethodNotAllowed the server does not allow this method on the requested resource
409 Conflict the server reported a conflict
410 Expired The resourceVersion for the provided list is too old.
413 RequestEntityTooLarge Request entity too large: limit is 3145728
415 UnsupportedMediaType the body of the request was in an unknown format
422 Invalid the server rejected our request due to an error in our request
429 TooManyRequests the server has received too many requests and has asked us to try again later
500 InternalError Internal error occurred: injected
503 ServiceUnavailable the server is currently unable to handle the request
504 Timeout the server was unable to return a response in the time allotted, but may still be processing the request
";
/// The message of any other code.
const UNUSUAL: &str = "an error on the server has prevented the request from succeeding";

impl Failure {
    /// Any code, reason and message.
    pub fn new(
        code: u16,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            retry_after: None,
        }
    }

    /// The same failure with a `Retry-After` header.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The usual reason and text for a bare code, as a proxy or an overloaded server sends them.
    pub fn of_code(code: u16) -> Self {
        let usual = USUAL
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{code} ")));
        let usual = usual.and_then(|rest| rest.split_once(' '));
        let (reason, message) = usual.unwrap_or(("", UNUSUAL));
        let mut failure = Self::new(code, reason, message);
        if matches!(code, 404 | 405 | 422) {
            failure.details = Some(json!({}));
        }
        failure
    }

    /// 429 with `Retry-After`.
    pub fn too_many_requests(seconds: u32) -> Self {
        Self::of_code(429).retry_after(seconds)
    }

    /// 400 with the given text.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 410 with reason `Expired`, the answer to a resourceVersion that is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 422 with empty details: a JSON Patch that does not apply.
    pub fn patch_rejected() -> Self {
        Self::of_code(422)
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message).about(&resource.group, &resource.plural, name)
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(&resource.group, &resource.plural, name)
    }

    fn conflict(group: &str, kind: &str, name: &str, why: &str) -> Self {
        let what = qualified(kind, group);
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(group, kind, name)
    }

    /// A precondition of a deletion that fails; the real server names the kind here.
    pub(crate) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        Self::conflict(&resource.group, &resource.kind, name, why)
    }

    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(&resource.group, &resource.plural, name, why)
    }

    pub(crate) fn too_large(message: &str) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: {message}"),
        )
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let qualified = resource.qualified();
        let message = if name.is_empty() {
            format!("{qualified} is forbidden: {why}")
        } else {
            format!("{qualified} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(&resource.group, &resource.plural, name)
    }

    /// 422 with causes, as validation answers.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {list}", qualified(kind, group));
        let mut failure = Self::new(422, "Invalid", message).about(group, kind, name);
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| {
                json!({ "reason": cause.reason, "message": cause.message, "field": cause.field })
            })
            .collect();
        failure.details.get_or_insert_default()["causes"] = causes.into();
        failure
    }

    /// With details that name an object, or a kind.
    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = json!({ "kind": kind });
        for (field, value) in [("name", name), ("group", group)] {
            if !value.is_empty() {
                details[field] = value.into();
            }
        }
        self.details = Some(details);
        self
    }

    /// The `Status` object of this failure.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = (*self.reason).into();
        }
        let mut details = self.details.clone();
        if let Some(seconds) = self.retry_after {
            details.get_or_insert_with(|| json!({}))["retryAfterSeconds"] = seconds.into();
        }
        if let Some(details) = details {
            status["details"] = details;
        }
        status
    }

    /// The whole HTTP answer.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = json_response(self.code, &self.to_status());
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// The answer to a path that no API group of the server knows. It is no Status.
pub(crate) fn page_not_found() -> Response<ResponseBody> {
    let mut response = bytes_response(404, b"404 page not found\n".to_vec());
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// An answer with a JSON body.
pub(crate) fn json_response(code: u16, value: &Value) -> Response<ResponseBody> {
    bytes_response(code, value.to_string().into_bytes())
}

/// An answer whose JSON body is already written out.
pub(crate) fn bytes_response(code: u16, body: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(body::whole(body));
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}
