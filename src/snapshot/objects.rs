//! The objects of a `kubectl get -o json` or `-o yaml`, one at a time.
//!
//! A text is a list, as kubectl or the API server writes it, a single object, or several of these one after the other.
//! A megabyte is in memory at a time, or one object where that is larger: `serde_json` finds where a value ends, and more
//! is read where the text breaks off within it. A text that does not begin with `{` is YAML, which is made JSON as a
//! whole.
//! This module knows no kind of objects, and no text makes it panic.

use std::{
    fmt,
    io::{self, Read},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Deserializer;

use super::yaml::{Lines, cut_off, json_of, syntax};

/// Some programs of Windows begin each text with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The separator of YAML documents, which may stand between those of JSON too.
const SEPARATOR: &[u8] = b"---";
/// So much is read at a time.
const CHUNK: usize = 1 << 20;
/// A file of this size is read at once.
const SMALL: usize = 16 << 10;
/// Largest object. etcd takes a megabyte and a half, and indentation makes it several times as large.
const LARGEST_OBJECT: usize = 64 << 20;

/// One object.
#[derive(Debug)]
pub struct Object<'t> {
    /// Its `apiVersion`, or that of its list.
    pub version: &'t str,
    /// Its `kind`, or that of its list.
    pub kind: &'t str,
    /// Its JSON.
    pub text: &'t str,
    /// The number of the list that it is in, within the text; none if it is alone.
    pub list: Option<usize>,
}

/// Takes each object. An error is one line that says what is wrong with the object.
pub type Each<'e> = dyn FnMut(&Object<'_>) -> Result<(), String> + 'e;

/// Reads all objects of a text.
///
/// Whether there is anything in it.
///
/// # Errors
/// One line that names the place: the byte in JSON, the line in YAML.
pub fn read_objects(mut source: impl Read, each: &mut Each<'_>) -> Result<bool, String> {
    // Most files of a must-gather are small: without this each takes nine reads.
    let mut begin = Vec::with_capacity(SMALL);
    let read = source.by_ref().take(CHUNK as u64).read_to_end(&mut begin);
    read.map_err(unreadable)?;
    let text = begin.trim_ascii_start();
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let first = text.trim_ascii_start().first();
    let (source, lines): (Box<dyn Read>, _) = if first.is_none_or(|first| *first == b'{') {
        (Box::new(begin.chain(source)), None)
    } else if let Some(reason) = no_text(text) {
        return Err(reason);
    } else {
        source.read_to_end(&mut begin).map_err(unreadable)?;
        let text = str::from_utf8(&begin).map_err(|error| {
            let lines = begin[..error.valid_up_to()].split(|byte| *byte == b'\n');
            syntax("yaml", &format!("line {}", lines.count()), error)
        })?;
        let (json, lines) = json_of(text)?;
        // Not both at once in memory while objects are read.
        begin = json;
        (Box::new(&begin[..]), Some(lines))
    };
    let mut text = Text {
        source,
        lines,
        bytes: Vec::new(),
        start: 0,
        kept: None,
        dropped: 0,
        ended: false,
        documents: 0,
    };
    while text.next_document()? {
        text.document(each)?;
    }
    Ok(text.documents > 0)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: io::Error) -> String {
    format!("cannot be read: {error}")
}

/// How files begin that are no text in UTF-8.
const OTHERS: [(&[u8], &str); 7] = [
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\xfd7zXZ", "compressed by xz"),
    (b"(\xb5/\xfd", "compressed by zstd"),
    (b"BZh", "compressed by bzip2"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\xff\xfe", "UTF-16, not UTF-8"),
    (b"\xfe\xff", "UTF-16, not UTF-8"),
];

/// What is wrong with a file that is no text, by how it begins.
fn no_text(begin: &[u8]) -> Option<String> {
    let mut others = OTHERS.iter().filter(|(of, _)| begin.starts_with(of));
    let is_binary = begin.iter().take(SMALL).any(|byte| *byte == 0);
    let other = others.next().map(|(_, other)| *other);
    let other = other.or(is_binary.then_some("binary"))?;
    Some(format!(
        "is {other}: ipgc reads JSON, YAML, and .tar, .tar.gz or .tgz archives of them"
    ))
}

/// The fault of an object without its place, which is told from the beginning of the object.
pub(super) fn fault(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// A text that is read from its beginning to its end.
struct Text<'s> {
    /// Its JSON.
    source: Box<dyn Read + 's>,
    /// Of YAML: the places there.
    lines: Option<Lines>,
    /// The part of its JSON that is in memory.
    bytes: Vec<u8>,
    /// The unread part of `bytes` begins here.
    start: usize,
    /// The document that is read begins here, unless it is a list: of that no part is kept.
    kept: Option<usize>,
    /// The length of the text before `bytes`.
    dropped: u64,
    ended: bool,
    /// How many documents were begun.
    documents: usize,
}

impl Text<'_> {
    /// The place of what is read next.
    fn here(&self) -> String {
        let byte = self.dropped + self.start as u64;
        let line = self.lines.as_ref().map(|lines| lines.line(byte));
        line.unwrap_or_else(|| format!("byte {byte}"))
    }

    fn cut(&self) -> String {
        cut_off(&self.here())
    }

    fn syntax(&self, reason: impl fmt::Display) -> String {
        let form = if self.lines.is_none() { "json" } else { "yaml" };
        syntax(form, &self.here(), reason)
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Reads on; false at the end.
    fn more(&mut self) -> Result<bool, String> {
        if self.ended {
            return Ok(false);
        }
        if self.unread().len() > LARGEST_OBJECT {
            let place = self.here();
            return Err(format!("has an object of more than 64 MB at {place}"));
        }
        let done = self.kept.unwrap_or(self.start);
        self.bytes.drain(..done);
        self.dropped += done as u64;
        self.start -= done;
        self.kept = self.kept.map(|_| 0);
        // Twice as much each time, so that a large object is parsed again a few times only.
        let wanted = self.bytes.len().max(CHUNK);
        let source = self.source.by_ref();
        let read = source.take(wanted as u64).read_to_end(&mut self.bytes);
        let read = read.map_err(unreadable)?;
        self.ended = read < wanted;
        Ok(read > 0)
    }

    /// The next byte after white space, which stays unread; `None` at the end.
    fn peek(&mut self) -> Result<Option<u8>, String> {
        loop {
            let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            if let Some(blank) = self.unread().iter().position(is_text) {
                self.start += blank;
                return Ok(self.unread().first().copied());
            }
            self.start = self.bytes.len();
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// Whether there is one more document.
    fn next_document(&mut self) -> Result<bool, String> {
        loop {
            let next = self.peek()?;
            while self.unread().len() < BYTE_ORDER_MARK.len() && self.more()? {}
            self.start += match self.unread() {
                text if text.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
                text if text.starts_with(SEPARATOR) => SEPARATOR.len(),
                _ => return Ok(next.is_some()),
            };
        }
    }

    /// Takes this byte, after white space.
    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        match self.peek()? {
            Some(byte) if byte == wanted => {
                self.start += 1;
                Ok(())
            }
            Some(_) => Err(self.syntax(format!("expected {:?}", char::from(wanted)))),
            None => Err(self.cut()),
        }
    }

    /// Takes a comma and returns true, or takes the closing byte.
    fn goes_on(&mut self, closing: u8) -> Result<bool, String> {
        if self.peek()? == Some(b',') {
            self.start += 1;
            return Ok(true);
        }
        self.expect(closing).map(|()| false)
    }

    /// Takes the next value, and what is wanted of it.
    fn value<T: DeserializeOwned>(&mut self) -> Result<(T, &str), String> {
        loop {
            self.peek()?;
            let mut values = Deserializer::from_slice(self.unread()).into_iter();
            let value = values.next();
            let length = values.byte_offset();
            match value {
                // A number may go on in what is not read yet.
                Some(Ok(value)) if self.ended || length < self.unread().len() => {
                    let end = self.start + length;
                    let text = str::from_utf8(&self.bytes[self.start..end]);
                    let text = text.map_err(|error| self.syntax(error))?;
                    self.start = end;
                    return Ok((value, text));
                }
                Some(Err(error)) if !error.is_eof() => return Err(self.syntax(fault(&error))),
                _ if self.ended => return Err(self.cut()),
                _ => self.more()?,
            };
        }
    }

    /// Reads one document of JSON: a list or an object.
    fn document(&mut self, each: &mut Each<'_>) -> Result<(), String> {
        self.peek()?;
        self.documents += 1;
        let here = self.here();
        self.kept = Some(self.start);
        self.expect(b'{')?;
        let mut list = Type::default();
        let mut metadata = None;
        let mut goes_on = self.peek()? != Some(b'}') || self.goes_on(b'}')?;
        while goes_on {
            let (name, _) = self.value::<String>()?;
            self.expect(b':')?;
            if name == "items" {
                self.kept = None;
                self.items(&list, each)?;
            } else {
                let (IgnoredAny, value) = self.value()?;
                let text = || serde_json::from_str(value).ok();
                match &*name {
                    "apiVersion" => list.version = text(),
                    "kind" => list.kind = text(),
                    "metadata" => metadata = Some(value.to_owned()),
                    _ => {}
                }
            }
            goes_on = self.goes_on(b'}')?;
        }
        if let Some(begin) = self.kept.take() {
            let text = str::from_utf8(&self.bytes[begin..self.start]);
            let text = text.map_err(|error| self.syntax(error))?;
            return give(&here, &list, text, None, each);
        }
        let metadata = metadata.and_then(|text| serde_json::from_str::<ListMeta>(&text).ok());
        let more = metadata.and_then(|metadata| metadata.continue_);
        if more.is_some_and(|more| !more.is_empty()) {
            return Err("is only a part of a list, which was asked for with a limit".to_owned());
        }
        Ok(())
    }

    fn items(&mut self, list: &Type, each: &mut Each<'_>) -> Result<(), String> {
        if self.peek()? != Some(b'[') {
            // Go writes an empty list as null.
            return match self.value()? {
                (IgnoredAny, "null") => Ok(()),
                _ => Err(self.syntax("items are no list")),
            };
        }
        self.expect(b'[')?;
        let mut goes_on = self.peek()? != Some(b']') || self.goes_on(b']')?;
        while goes_on {
            self.peek()?;
            let here = self.here();
            let number = self.documents;
            let (own, text) = self.value()?;
            give(&here, &own, text, Some((number, list)), each)?;
            goes_on = self.goes_on(b']')?;
        }
        Ok(())
    }
}

/// The type of an object, or that of a list as far as it stands before the items.
#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
struct Type {
    #[serde(rename = "apiVersion")]
    version: Option<String>,
    kind: Option<String>,
}

impl Type {
    /// The type of items without one: that of the items of a `PodList` is `Pod`.
    fn of_items(&self) -> Option<(&str, &str)> {
        let kind = self.kind.as_deref()?.strip_suffix("List")?;
        Some((self.version.as_deref()?, kind)).filter(|_| !kind.is_empty())
    }
}

/// Gives an object with its type, which stands in it or in its list.
fn give(
    here: &str,
    own: &Type,
    text: &str,
    list: Option<(usize, &Type)>,
    each: &mut Each<'_>,
) -> Result<(), String> {
    let given = match (&own.version, &own.kind) {
        (Some(version), Some(kind)) => Some((version.as_str(), kind.as_str())),
        _ => list.and_then(|(_, list)| list.of_items()),
    };
    let given = match given {
        Some((version, kind)) => each(&Object {
            version,
            kind,
            text,
            list: list.map(|(number, _)| number),
        }),
        None => Err("it has no apiVersion and kind".to_owned()),
    };
    given.map_err(|reason| format!("object at {here}: {reason}"))
}
