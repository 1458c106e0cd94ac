//! Denials in the words of RBAC, and the access reviews that foretell them.

use http::Response;
use serde_json::{Value, json};

use crate::body::ResponseBody;
use crate::request::{Request, Verb};
use crate::server::Server;
use crate::status::{Failure, json_response};

/// The 403 for a request, as the real authoriser words it.
pub(crate) fn refusal(server: &Server, request: &Request) -> Failure {
    let user = &request.client;
    let verb = request.verb;
    if request.resource.is_empty() {
        let path = &request.path;
        return Failure::new(
            403,
            "Forbidden",
            format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\""),
        );
    }
    let group = &request.group;
    let mut resource = request.resource.clone();
    if !request.subresource.is_empty() {
        resource = format!("{resource}/{}", request.subresource);
    }
    let place = if request.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", request.namespace)
    };
    let why = format!(
        "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}"
    );
    let registry = &server.inner.registry;
    match registry.served(group, &request.version, &request.resource) {
        Some(table) => Failure::forbidden(registry.get(table), &request.name, &why),
        None => Failure::new(
            403,
            "Forbidden",
            format!("{}.{group} is forbidden: {why}", request.resource),
        ),
    }
}

/// Whether the path is that of access reviews.
pub(crate) fn is_review(request: &Request) -> bool {
    request.group == "authorization.k8s.io" && request.resource == "selfsubjectaccessreviews"
}

/// Answers a `SelfSubjectAccessReview`: everything is allowed that no denial matches.
pub(crate) fn review(
    server: &Server,
    request: &Request,
) -> Result<Response<ResponseBody>, Failure> {
    if request.verb != Verb::Create {
        return Err(Failure::of_code(405));
    }
    let mut review = request.json();
    let attributes = &review["spec"]["resourceAttributes"];
    let text = |field: &str| {
        attributes
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let verb = Verb::from_rbac(&text("verb"))
        .ok_or_else(|| Failure::bad_request("a verb has to be named"))?;
    let asked = Request {
        verb,
        group: text("group"),
        version: text("version"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        ..request.clone()
    };
    let allowed = !server.inner.rules.denies(&asked);
    review["apiVersion"] = json!("authorization.k8s.io/v1");
    review["kind"] = json!("SelfSubjectAccessReview");
    review["metadata"] = json!({});
    review["status"] = json!({ "allowed": allowed });
    Ok(json_response(201, &review))
}
