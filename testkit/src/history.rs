//! All writes to a resource in order, for assertions such as "this row was never missing".

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use crate::object::TypeMeta;
use crate::store::{Change, ChangeKind};

/// One write, of any client or of the test itself.
#[derive(Clone, Debug)]
pub struct Write {
    change: Arc<Change>,
    type_meta: Arc<TypeMeta>,
}

impl Write {
    pub(crate) fn new(change: &Arc<Change>, type_meta: &Arc<TypeMeta>) -> Self {
        Self {
            change: Arc::clone(change),
            type_meta: Arc::clone(type_meta),
        }
    }

    /// Whether the write added, modified or deleted the object.
    pub fn kind(&self) -> ChangeKind {
        self.change.kind
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        &self.change.key.name
    }

    /// Label of the client that wrote; empty for direct access by the test.
    pub fn by(&self) -> &str {
        &self.change.by
    }

    /// When it happened.
    pub fn at(&self) -> Instant {
        self.change.at
    }

    /// The state written; for a deletion the last state.
    pub fn object(&self) -> Value {
        self.change.object.to_value(&self.type_meta)
    }

    /// The state before.
    pub fn previous(&self) -> Option<Value> {
        let previous = self.change.previous.as_ref()?;
        Some(previous.to_value(&self.type_meta))
    }
}
