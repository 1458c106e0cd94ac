//! Reads the API server's audit log: exactly who asked what, not what a client believes it asked.
//!
//! The server writes one line when a request is answered (and one more when a watch begins); this module
//! only reads that file. Take a [`Mark`] first and ask for what came after it: the log is one for all
//! tests of a binary, so filter by a user agent of the test's own as well.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::Result;

/// The audit log of a control plane.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark(u64);

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The server's id of the request.
    pub id: String,
    /// The user that sent it.
    pub user: String,
    /// The program that sent it.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub verb: String,
    /// The resource, with its subresource behind a slash; empty for paths such as `/readyz`.
    pub resource: String,
    /// The namespace, empty if none.
    pub namespace: String,
    /// The object, empty if none.
    pub name: String,
    /// The HTTP status; 0 while a watch goes on.
    pub code: u16,
    /// Path and query.
    pub uri: String,
    /// When it arrived, RFC 3339.
    pub received: String,
    /// When it was answered, RFC 3339; of a watch, when it began or ended.
    pub answered: String,
    /// The body of the request, where the policy keeps it: patches of pools, on servers that tell accounts.
    pub body: Value,
}

impl AuditLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// The present end of the log.
    pub fn mark(&self) -> Result<Mark> {
        let length = self.path.metadata()?.len();
        Ok(Mark(length))
    }

    /// The requests whose line came after the mark, each once, in the order of their lines. A watch that
    /// still goes on is there with code 0 or 200.
    pub fn since(&self, mark: Mark) -> Result<Vec<Request>> {
        let (mut requests, _) = self.follow(mark, |_| true)?;
        let mut seen = BTreeSet::new();
        requests.retain(|request| seen.insert(request.id.clone()));
        Ok(requests)
    }

    /// The requests among the lines after the mark that are `wanted` by their text, and the place behind
    /// the last whole line: a log is read once however often it is asked for, and little of it is parsed.
    pub fn follow(
        &self,
        mark: Mark,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(Vec<Request>, Mark)> {
        // The server may have written half of a line when the mark was taken. That line began before the mark.
        let start = mark.0.saturating_sub(1);
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(start))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let after_line = |at: Option<usize>| at.map_or(0, |at| at + 1);
        let whole = after_line(text.iter().rposition(|byte| *byte == b'\n'));
        let first = match mark.0 {
            0 => 0,
            _ => after_line(text.iter().position(|byte| *byte == b'\n')),
        };
        let mut requests = Vec::new();
        for line in String::from_utf8_lossy(&text[first..whole]).lines() {
            if wanted(line) {
                requests.push(Request::of(&serde_json::from_str(line)?));
            }
        }
        let read = u64::try_from(whole).unwrap_or_default();
        Ok((requests, Mark(mark.0.max(start + read))))
    }
}

impl Request {
    /// From the server's line; what is not in it is empty.
    fn of(line: &Value) -> Self {
        let text = |at: &str| {
            let text = line.pointer(at).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let mut resource = text("/objectRef/resource");
        let subresource = text("/objectRef/subresource");
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        let code = line.pointer("/responseStatus/code").and_then(Value::as_u64);
        Self {
            id: text("/auditID"),
            user: text("/user/username"),
            user_agent: text("/userAgent"),
            verb: text("/verb"),
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: code.and_then(|code| code.try_into().ok()).unwrap_or(0),
            uri: text("/requestURI"),
            received: text("/requestReceivedTimestamp"),
            answered: text("/stageTimestamp"),
            body: line["requestObject"].clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{AuditLog, Mark};

    fn line(id: &str) -> String {
        format!(
            r#"{{"auditID":"{id}","verb":"get","user":{{"username":"u"}},"requestURI":"/","requestReceivedTimestamp":"a","stageTimestamp":"b"}}"#
        ) + "\n"
    }

    #[test]
    fn a_line_half_written_at_the_mark_comes_before_it() -> crate::Result<()> {
        let path = std::env::temp_dir().join(crate::cluster::unique("audit"));
        let (first, second) = (line("1"), line("2"));
        let whole = format!("{first}{second}");
        fs::write(&path, &whole)?;
        for length in 0..=whole.len() {
            let ids: Vec<_> = AuditLog::new(&path)
                .since(Mark(u64::try_from(length)?))?
                .into_iter()
                .map(|request| request.id)
                .collect();
            let expected: &[&str] = match length {
                0 => &["1", "2"],
                _ if length <= first.len() => &["2"],
                _ => &[],
            };
            assert_eq!(ids, expected, "a mark at {length}");
        }
        fs::remove_file(&path)?;
        Ok(())
    }
}
