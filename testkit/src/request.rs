//! The content of a request: verb, resource, name and options, read from method and URL.
//!
//! The same value is matched by faults and kept in the request log.

use std::fmt;
use std::sync::Arc;

use http::{Method, header, request::Parts};
use percent_encoding::percent_decode_str;
use tokio::time::Instant;
use tokio_util::bytes::Bytes;

/// The verb of a request, in the words of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    /// All verbs that change nothing.
    pub const READS: &'static [Self] = &[Self::Get, Self::List, Self::Watch];
    /// All verbs that change something.
    pub const WRITES: &'static [Self] = &[Self::Create, Self::Update, Self::Patch, Self::Delete];

    /// The verb as RBAC rules spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    pub(crate) fn from_rbac(text: &str) -> Option<Self> {
        Self::READS
            .iter()
            .chain(Self::WRITES)
            .copied()
            .find(|verb| verb.as_str() == text)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A request and, once it is answered, its outcome.
// Independent options, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub struct Request {
    /// Position in the log, counted from 0.
    pub number: usize,
    /// Label of the client that sent it.
    pub client: Arc<str>,
    /// Its verb.
    pub verb: Verb,
    /// API group, empty for the core group.
    pub group: String,
    /// API version; empty for paths outside of the resource space.
    pub version: String,
    /// Plural name of the resource; empty for paths outside of the resource space.
    pub resource: String,
    /// Subresource, such as `status`; empty for none.
    pub subresource: String,
    /// Namespace; empty for cluster-wide requests.
    pub namespace: String,
    /// Object name; empty for collections.
    pub name: String,
    /// The URL path.
    pub path: String,
    /// `limit`, if any.
    pub limit: Option<usize>,
    /// `continue`, if any.
    pub continue_token: Option<String>,
    /// `resourceVersion` as sent, if any.
    pub resource_version: Option<String>,
    /// `fieldSelector`, if any.
    pub field_selector: Option<String>,
    /// `labelSelector`, if any.
    pub label_selector: Option<String>,
    /// `timeoutSeconds`, if any.
    pub timeout_seconds: Option<u64>,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `dryRun=All`.
    pub dry_run: bool,
    /// Whether only metadata was asked for.
    pub metadata_only: bool,
    /// Whether a Table was asked for.
    pub as_table: bool,
    /// `Content-Type` without parameters.
    pub content_type: String,
    /// The body; empty for reads.
    pub body: Bytes,
    /// When it arrived.
    pub at: Instant,
    /// The HTTP code it was answered with. `None`: no answer (yet), hung, or a broken connection.
    pub status: Option<u16>,
    /// When the answer was ready.
    pub answered_at: Option<Instant>,
}

impl Request {
    /// Whether the request reads the newest state (no `resourceVersion`).
    pub fn is_quorum_read(&self) -> bool {
        Verb::READS.contains(&self.verb)
            && self.resource_version.as_deref().is_none_or(str::is_empty)
    }

    /// The body as JSON; `null` where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Reads the head of a request.
    pub fn parse(parts: &Parts, body: Bytes, client: Arc<str>) -> Self {
        let path = parts.uri.path();
        let decoded: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let decoded: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let Place(group, version, namespace, resource, name, subresource) = Place::of(&decoded);

        let query = parts.uri.query().unwrap_or_default();
        let query: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let option = |key: &str| {
            let found = query.iter().rfind(|(name, _)| name == key)?;
            (!found.1.is_empty()).then(|| found.1.to_string())
        };
        let is_on = |key: &str| option(key).is_some_and(|value| value == "true" || value == "1");

        let verb = match parts.method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ if resource.is_empty() => Verb::Get,
            _ if is_on("watch") => Verb::Watch,
            _ if name.is_empty() => Verb::List,
            _ => Verb::Get,
        };
        let accept = header_text(parts, &header::ACCEPT);
        let content_type = header_text(parts, &header::CONTENT_TYPE).split(';').next();
        let limit = option("limit").and_then(|limit| limit.parse().ok());
        Self {
            number: 0,
            client,
            verb,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            path: path.to_owned(),
            limit: limit.filter(|limit| *limit > 0),
            continue_token: option("continue"),
            resource_version: option("resourceVersion"),
            field_selector: option("fieldSelector"),
            label_selector: option("labelSelector"),
            timeout_seconds: option("timeoutSeconds").and_then(|seconds| seconds.parse().ok()),
            bookmarks: is_on("allowWatchBookmarks"),
            dry_run: option("dryRun").is_some_and(|value| value == "All"),
            metadata_only: accept.contains("as=PartialObjectMetadata"),
            as_table: accept.contains("as=Table"),
            content_type: content_type.unwrap_or_default().trim().to_owned(),
            body,
            at: Instant::now(),
            status: None,
            answered_at: None,
        }
    }
}

/// What a path names: group, version, namespace, resource, name and subresource, each empty where there is none.
#[derive(Default)]
struct Place<'a>(&'a str, &'a str, &'a str, &'a str, &'a str, &'a str);

impl<'a> Place<'a> {
    fn of(path: &[&'a str]) -> Self {
        let (group, version, rest) = match path {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::default(),
        };
        // `namespaces/x` and its subresources are the Namespace object itself.
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", rest),
        };
        match rest {
            [resource] => Self(group, version, namespace, resource, "", ""),
            [resource, name] => Self(group, version, namespace, resource, name, ""),
            [resource, name, of_it] => Self(group, version, namespace, resource, name, of_it),
            _ => Self::default(),
        }
    }
}

fn header_text<'a>(parts: &'a Parts, name: &header::HeaderName) -> &'a str {
    parts
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4} {:<8} {}", self.number, self.client, self.verb)?;
        if self.resource.is_empty() {
            write!(f, " {}", self.path)?;
        } else {
            write!(f, " {}", self.resource)?;
            if !self.subresource.is_empty() {
                write!(f, "/{}", self.subresource)?;
            }
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => {}
            ("", name) => write!(f, " {name}")?,
            (namespace, name) => write!(f, " {namespace}/{name}")?,
        }
        let options = [
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("rv", self.resource_version.clone()),
            ("fields", self.field_selector.clone()),
            ("labels", self.label_selector.clone()),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        if self.continue_token.is_some() {
            f.write_str(" continue")?;
        }
        if self.metadata_only {
            f.write_str(" metadata")?;
        }
        if self.as_table {
            f.write_str(" table")?;
        }
        match self.status {
            Some(status) => write!(f, " -> {status}"),
            None => f.write_str(" -> -"),
        }
    }
}
