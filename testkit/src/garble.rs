//! Answers that no careful client should believe.

use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Either};
use serde_json::{Value, json};

use crate::body::{self, ResponseBody};
use crate::faults::Garble;

/// Spoils an answer that is whole; a watch stream stays as it is.
pub(crate) async fn garble(answer: Response<ResponseBody>, how: Garble) -> Response<ResponseBody> {
    let (mut parts, body) = answer.into_parts();
    let bytes = match body {
        Either::Left(whole) => {
            let Ok(whole) = whole.collect().await;
            whole.to_bytes()
        }
        stream @ Either::Right(_) => return Response::from_parts(parts, stream),
    };
    let spoiled = match how {
        Garble::Html => {
            parts.status = StatusCode::OK;
            parts.headers.insert(
                header::CONTENT_TYPE,
                header::HeaderValue::from_static("text/html"),
            );
            b"<html><body>the upstream is warming up</body></html>".to_vec()
        }
        Garble::Truncated => bytes[..bytes.len() / 2].to_vec(),
        Garble::Item(index) => {
            let mut value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let item = if value.get("items").is_some() {
                value.pointer_mut(&format!("/items/{index}"))
            } else {
                Some(&mut value)
            };
            if let Some(item) = item {
                item["spec"] = json!(7);
                item["status"] = json!(7);
                item["metadata"]["annotations"] = json!(7);
            }
            value.to_string().into_bytes()
        }
    };
    Response::from_parts(parts, body::whole(spoiled))
}
