//! From a parsed request to the handler that answers it.

use std::sync::Arc;

use http::Response;

use crate::body::ResponseBody;
use crate::object::{Object, TypeMeta};
use crate::request::{Request, Verb};
use crate::resources::Resource;
use crate::server::{Inner, Server};
use crate::status::{Failure, bytes_response, page_not_found};
use crate::{access, discovery};

pub(crate) type Answer = Result<Response<ResponseBody>, Failure>;

/// A request for a resource that is served.
pub(crate) struct ResourceCall<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) server: &'a Server,
    pub(crate) request: &'a Request,
    /// The revision that a fault makes reads see.
    pub(crate) stale: Option<u64>,
    /// Index of the resource, and of its table in the store.
    pub(crate) table: usize,
    pub(crate) resource: &'a Resource,
    pub(crate) type_meta: TypeMeta,
}

/// Answers a request.
pub(crate) fn dispatch(server: &Server, request: &Request, stale: Option<u64>) -> Answer {
    if access::is_review(request) {
        return access::review(server, request);
    }
    if request.resource.is_empty() {
        return discovery::answer(&server.inner, request);
    }
    let inner = &*server.inner;
    let (registry, group, version) = (&inner.registry, &request.group, &request.version);
    let Some(table) = registry.served(group, version, &request.resource) else {
        // Built-in groups answer with a Status; elsewhere nobody is there to do that.
        if registry.is_builtin_group(group, version) {
            return Err(Failure::of_code(404));
        }
        return Ok(page_not_found());
    };
    let resource = registry.get(table);
    let call = ResourceCall {
        inner,
        server,
        request,
        stale,
        table,
        resource,
        type_meta: resource.type_meta(),
    };
    call.check_path()?;
    match request.verb {
        Verb::Get => call.get(),
        Verb::List => call.list(),
        Verb::Watch => call.watch(),
        Verb::Create => call.create(),
        Verb::Update => call.update(),
        Verb::Patch => call.patch(),
        Verb::Delete => call.delete(),
    }
}

impl ResourceCall<'_> {
    fn check_path(&self) -> Result<(), Failure> {
        let request = self.request;
        let subresource_known = match request.subresource.as_str() {
            "" => true,
            "status" => self.resource.status && !request.name.is_empty(),
            _ => false,
        };
        if !subresource_known && !self.resource.builtin {
            return Err(Failure::not_found(self.resource, &request.name));
        }
        let scope_fits = if self.resource.namespaced {
            !request.namespace.is_empty() || request.name.is_empty()
        } else {
            request.namespace.is_empty()
        };
        if !subresource_known || !scope_fits {
            return Err(Failure::of_code(404));
        }
        let misplaced = match request.verb {
            Verb::Create => {
                !request.name.is_empty()
                    || (self.resource.namespaced && request.namespace.is_empty())
            }
            Verb::Update | Verb::Patch | Verb::Delete => request.name.is_empty(),
            _ => false,
        };
        if misplaced {
            return Err(Failure::of_code(405));
        }
        Ok(())
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        (!self.request.namespace.is_empty()).then_some(self.request.namespace.as_str())
    }

    /// The answer that consists of one object.
    pub(crate) fn object_response(&self, code: u16, object: &Object) -> Response<ResponseBody> {
        let mut out = Vec::new();
        Shape::of(self).write(object, true, &mut out);
        bytes_response(code, out)
    }

    pub(crate) fn by(&self) -> &Arc<str> {
        &self.request.client
    }
}

/// How an endpoint writes its objects for one request.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) type_meta: TypeMeta,
    pub(crate) metadata_only: bool,
    pub(crate) builtin: bool,
}

impl Shape {
    pub(crate) fn of(call: &ResourceCall<'_>) -> Self {
        Self {
            type_meta: call.type_meta.clone(),
            metadata_only: call.request.metadata_only,
            builtin: call.resource.builtin,
        }
    }

    /// Appends an object as this endpoint shows it; `typed` is false for items of a list.
    pub(crate) fn write(&self, object: &Object, typed: bool, out: &mut Vec<u8>) {
        if self.metadata_only {
            object.write_partial(out);
            return;
        }
        let type_meta = (typed || !self.builtin).then_some(&self.type_meta);
        object.write(type_meta, out);
    }

    /// Type of the objects as this request sees them.
    pub(crate) fn shown_type(&self) -> TypeMeta {
        if self.metadata_only {
            TypeMeta::partial()
        } else {
            self.type_meta.clone()
        }
    }
}
