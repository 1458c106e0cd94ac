//! Operations of a JSON Patch, by the tokens of the path.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::PointerBuf,
};
use serde_json::Value;

fn at(path: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(path.iter().copied())
}

/// The value there has to be this one, or the whole patch fails.
pub(crate) fn test(path: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (at(path), value.into());
    PatchOperation::Test(TestOperation { path, value })
}

pub(crate) fn add(path: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (at(path), value.into());
    PatchOperation::Add(AddOperation { path, value })
}

pub(crate) fn replace(path: &[&str], value: impl Into<Value>) -> PatchOperation {
    let (path, value) = (at(path), value.into());
    PatchOperation::Replace(ReplaceOperation { path, value })
}

pub(crate) fn remove(path: &[&str]) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: at(path) })
}
