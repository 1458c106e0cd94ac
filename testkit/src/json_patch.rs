//! JSON Patch with the leniencies of the library in the API server.
//!
//! Two answers differ from RFC 6902, and CNI plugins rely on the first: `test` of a missing key
//! against `null` passes, and `replace` of a missing key of an object sets it.

use serde_json::Value;

/// Most operations the API server takes in one patch.
pub(crate) const MAX_OPERATIONS: usize = 10_000;

/// The patch does not apply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rejected;

type Applied<T = ()> = Result<T, Rejected>;

/// Applies the operations in order. After a rejection `document` is half changed: drop it.
pub(crate) fn apply(document: &mut Value, operations: &[Value]) -> Applied {
    operations
        .iter()
        .try_for_each(|operation| apply_one(document, operation))
}

fn apply_one(document: &mut Value, operation: &Value) -> Applied {
    let text = |field: &str| operation.get(field).and_then(Value::as_str);
    let path = text("path").ok_or(Rejected)?;
    let value = operation.get("value").unwrap_or(&Value::Null);
    match text("op") {
        Some("test") => test(document, path, value),
        Some("add") => add(document, path, value.clone()),
        Some("remove") => remove(document, path).map(drop),
        Some("replace") => replace(document, path, value.clone()),
        Some("move") => {
            let moved = remove(document, text("from").ok_or(Rejected)?)?;
            add(document, path, moved)
        }
        Some("copy") => {
            let (parent, key) = parent(document, text("from").ok_or(Rejected)?)?;
            let copied = get(parent, &key)?.cloned().unwrap_or(Value::Null);
            add(document, path, copied)
        }
        _ => Err(Rejected),
    }
}

fn test(document: &mut Value, path: &str, wanted: &Value) -> Applied {
    let actual = if path.is_empty() {
        &*document
    } else {
        let (parent, key) = parent(document, path)?;
        get(parent, &key)?.unwrap_or(&Value::Null)
    };
    if actual == wanted {
        Ok(())
    } else {
        Err(Rejected)
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Applied {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(&key, items.len() + 1)?;
            items.insert(index, value);
        }
        _ => return Err(Rejected),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Applied<Value> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(map) => map.remove(&key).ok_or(Rejected),
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            Ok(items.remove(index))
        }
        _ => Err(Rejected),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Applied {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            items[index] = value;
        }
        _ => return Err(Rejected),
    }
    Ok(())
}

/// The container that holds the last part of a path, and that part.
fn parent<'a>(document: &'a mut Value, path: &str) -> Applied<(&'a mut Value, String)> {
    let path = path.strip_prefix('/').ok_or(Rejected)?;
    let mut parts = path.split('/').map(unescape);
    let mut key = parts.next().ok_or(Rejected)?;
    let mut place = document;
    for next in parts {
        place = match place {
            Value::Object(map) => map.get_mut(&key).ok_or(Rejected)?,
            Value::Array(items) => {
                let index = index(&key, items.len())?;
                &mut items[index]
            }
            _ => return Err(Rejected),
        };
        key = next;
    }
    Ok((place, key))
}

fn get<'a>(parent: &'a Value, key: &str) -> Applied<Option<&'a Value>> {
    match parent {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => Ok(Some(&items[index(key, items.len())?])),
        _ => Err(Rejected),
    }
}

/// An index below `len`; negative ones count from the end.
fn index(key: &str, len: usize) -> Applied<usize> {
    let index = match key.strip_prefix('-') {
        Some(back) => {
            let back: usize = back.parse().map_err(|_| Rejected)?;
            len.checked_sub(back).ok_or(Rejected)?
        }
        None => key.parse().map_err(|_| Rejected)?,
    };
    if index < len {
        Ok(index)
    } else {
        Err(Rejected)
    }
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}
