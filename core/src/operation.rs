//! Operations of a JSON Patch.

use json_patch::{PatchOperation, TestOperation, jsonptr::PointerBuf};
use serde_json::Value;

/// The value at this path has to be this one, or the whole patch fails.
pub(crate) fn test(path: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(path.iter().copied()),
        value,
    })
}
