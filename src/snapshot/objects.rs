//! The objects of a `kubectl get -o json` or `-o yaml`, one at a time.
//!
//! A text is a list, as kubectl or the API server writes it, a single object, or several of these one after the other.
//! Of JSON a megabyte is in memory at a time, or one object where that is larger: `serde_json` finds where a value ends,
//! and more is read where the text breaks off within it. A text that does not begin with `{` is YAML, which is read whole.
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

use super::yaml;

/// Some programs of Windows begin each text with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The separator of YAML documents, which may stand between those of JSON too.
const SEPARATOR: &[u8] = b"---";
/// So much is read at a time.
const CHUNK: usize = 1 << 20;
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
}

/// Takes each object. An error is one line that says what is wrong with the object.
pub type Each<'e> = dyn FnMut(&Object<'_>) -> Result<(), String> + 'e;

/// A place in a text: the byte in JSON, the line in YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The number of bytes before it.
    Byte(u64),
    /// Its line, from 1 on.
    Line(usize),
}

impl Place {
    /// The form that the text was read as.
    fn form(self) -> &'static str {
        match self {
            Self::Byte(_) => "json",
            Self::Line(_) => "yaml",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(at) => write!(f, "byte {at}"),
            Self::Line(at) => write!(f, "line {at}"),
        }
    }
}

/// Why a text is no dump.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The text is no JSON or YAML, or has something else than objects.
    #[error("is not what kubectl get -o {} writes, at {at}: {reason}", at.form())]
    Syntax {
        /// The beginning of the part that cannot be read.
        at: Place,
        /// What is wrong.
        reason: String,
    },
    /// The text ends within an object or a list.
    #[error("ends in the middle of its text, at {0}: it was cut off")]
    Cut(Place),
    /// The text is one page of a list.
    #[error("is only a part of a list, which was asked for with a limit")]
    Page,
    /// An object is larger than any that a cluster can store.
    #[error("has an object of more than 64 MB at {0}")]
    TooLarge(Place),
    /// An object was refused.
    #[error("object at {at}: {reason}")]
    Object {
        /// The beginning of the object.
        at: Place,
        /// What is wrong with it.
        reason: String,
    },
}

impl ReadError {
    /// The same error with the line of YAML that the byte of JSON was made of.
    pub(super) fn placed(mut self, line: impl Fn(u64) -> Place) -> Self {
        if let Self::Syntax { at, .. }
        | Self::Object { at, .. }
        | Self::Cut(at)
        | Self::TooLarge(at) = &mut self
            && let Place::Byte(byte) = *at
        {
            *at = line(byte);
        }
        self
    }
}

/// Reads all objects of a text, and returns its length. `progress` is told now and then how much was read.
///
/// # Errors
/// See [`ReadError`]. An error of `each` gets the place of the object.
pub fn read_objects(
    mut source: impl Read,
    progress: &mut dyn FnMut(u64),
    each: &mut Each<'_>,
) -> Result<u64, ReadError> {
    let mut text = Text::new(&mut source, progress);
    let mut documents = 0;
    while let Some(next) = text.next_document(documents == 0)? {
        documents += 1;
        if documents == 1 && next != b'{' {
            documents = text.yaml(each)?;
            break;
        }
        text.document(each)?;
    }
    match documents {
        0 => Err(ReadError::Cut(text.place())),
        _ => Ok(text.at()),
    }
}

/// A text that is read from its beginning to its end.
struct Text<'s> {
    source: &'s mut dyn Read,
    progress: &'s mut dyn FnMut(u64),
    /// The part of the text that is in memory.
    bytes: Vec<u8>,
    /// The unread part of `bytes` begins here.
    start: usize,
    /// The length of the text before `bytes`.
    dropped: u64,
    ended: bool,
}

impl<'s> Text<'s> {
    fn new(source: &'s mut dyn Read, progress: &'s mut dyn FnMut(u64)) -> Self {
        Self {
            source,
            progress,
            bytes: Vec::new(),
            start: 0,
            dropped: 0,
            ended: false,
        }
    }

    fn at(&self) -> u64 {
        self.dropped + self.start as u64
    }

    fn place(&self) -> Place {
        Place::Byte(self.at())
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn syntax(&self, reason: impl Into<String>) -> ReadError {
        let (at, reason) = (self.place(), reason.into());
        ReadError::Syntax { at, reason }
    }

    /// Reads on; false at the end.
    fn more(&mut self) -> Result<bool, ReadError> {
        if self.ended {
            return Ok(false);
        }
        if self.unread().len() > LARGEST_OBJECT {
            return Err(ReadError::TooLarge(self.place()));
        }
        self.bytes.drain(..self.start);
        self.dropped = self.at();
        self.start = 0;
        // Twice as much each time, so that a large object is parsed again a few times only.
        let wanted = self.bytes.len().max(CHUNK);
        let mut part = self.source.take(wanted as u64);
        let read = part.read_to_end(&mut self.bytes)?;
        self.ended = read < wanted;
        (self.progress)(self.dropped + self.bytes.len() as u64);
        Ok(read > 0)
    }

    /// The next byte after white space, which stays unread; `None` at the end.
    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
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

    /// The first byte of the next document, which stays unread; `None` at the end.
    fn next_document(&mut self, is_first: bool) -> Result<Option<u8>, ReadError> {
        loop {
            let next = self.peek()?;
            while self.unread().len() < BYTE_ORDER_MARK.len() && self.more()? {}
            self.start += match self.unread() {
                text if text.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
                text if text.starts_with(SEPARATOR) && !is_first => SEPARATOR.len(),
                _ => return Ok(next),
            };
        }
    }

    /// Takes this byte, after white space.
    fn expect(&mut self, wanted: u8) -> Result<(), ReadError> {
        match self.peek()? {
            Some(byte) if byte == wanted => {
                self.start += 1;
                Ok(())
            }
            Some(_) => Err(self.syntax(format!("expected {:?}", char::from(wanted)))),
            None => Err(ReadError::Cut(self.place())),
        }
    }

    /// Takes a comma and returns true, or takes the closing byte.
    fn goes_on(&mut self, closing: u8) -> Result<bool, ReadError> {
        if self.peek()? == Some(b',') {
            self.start += 1;
            return Ok(true);
        }
        self.expect(closing).map(|()| false)
    }

    /// Takes the next value, and what is wanted of it.
    fn value<T: DeserializeOwned>(&mut self) -> Result<(T, &str), ReadError> {
        loop {
            self.peek()?;
            let mut values = Deserializer::from_slice(self.unread()).into_iter();
            let value = values.next();
            let length = values.byte_offset();
            match value {
                // A number may go on in what is not read yet.
                Some(Ok(value)) if self.ended || length < self.unread().len() => {
                    let from = self.start;
                    self.start += length;
                    let text = std::str::from_utf8(&self.bytes[from..self.start]);
                    let text = text.map_err(|error| ReadError::Syntax {
                        at: Place::Byte(self.dropped + from as u64),
                        reason: error.to_string(),
                    });
                    return Ok((value, text?));
                }
                Some(Err(error)) if !error.is_eof() => return Err(self.syntax(error.to_string())),
                _ if self.ended => return Err(ReadError::Cut(self.place())),
                _ => self.more()?,
            };
        }
    }

    /// Reads one document of JSON: a list or an object.
    fn document(&mut self, each: &mut Each<'_>) -> Result<(), ReadError> {
        let at = self.place();
        self.expect(b'{')?;
        let mut list = Type::default();
        let (mut is_list, mut is_page) = (false, false);
        // The members of a document that is no list, as JSON.
        let mut members = Vec::new();
        let mut goes_on = self.peek()? != Some(b'}') || self.goes_on(b'}')?;
        while goes_on {
            let (name, key) = self.value::<String>()?;
            let key = key.to_owned();
            self.expect(b':')?;
            if name == "items" {
                is_list = true;
                self.items(&list, each)?;
            } else {
                let (IgnoredAny, value) = self.value()?;
                let text = || serde_json::from_str(value).ok();
                match &*name {
                    "apiVersion" => list.version = text(),
                    "kind" => list.kind = text(),
                    "metadata" => {
                        let metadata = serde_json::from_str::<ListMeta>(value).ok();
                        let more = metadata.and_then(|metadata| metadata.continue_);
                        is_page = more.is_some_and(|more| !more.is_empty());
                    }
                    _ => {}
                }
                members.push(format!("{key}:{value}"));
            }
            goes_on = self.goes_on(b'}')?;
        }
        match (is_list, is_page) {
            (true, true) => Err(ReadError::Page),
            (true, false) => Ok(()),
            (false, _) => {
                let text = format!("{{{}}}", members.join(","));
                let given = give(&list, &text, &Type::default(), each);
                given.map_err(|reason| ReadError::Object { at, reason })
            }
        }
    }

    fn items(&mut self, list: &Type, each: &mut Each<'_>) -> Result<(), ReadError> {
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
            let at = self.place();
            let (own, text) = self.value()?;
            let given = give(&own, text, list, each);
            given.map_err(|reason| ReadError::Object { at, reason })?;
            goes_on = self.goes_on(b']')?;
        }
        Ok(())
    }

    /// Reads all that is left as YAML, and returns the number of its documents.
    fn yaml(&mut self, each: &mut Each<'_>) -> Result<usize, ReadError> {
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = self.unread() {
            return Err(self.syntax("it is UTF-16, not UTF-8"));
        }
        self.source.read_to_end(&mut self.bytes)?;
        (self.progress)(self.bytes.len() as u64);
        // With the white space before it: indentation counts.
        let text = std::str::from_utf8(&self.bytes).map_err(|error| {
            let lines = self.bytes[..error.valid_up_to()].split(|byte| *byte == b'\n');
            ReadError::Syntax {
                at: Place::Line(lines.count()),
                reason: error.to_string(),
            }
        })?;
        let mut count = 0;
        yaml::documents(text, |document| {
            count += 1;
            let mut json = document.json.as_bytes();
            let read = Text::new(&mut json, &mut |_| {}).document(each);
            read.map_err(|error| error.placed(|byte| document.line(byte)))
        })?;
        self.start = self.bytes.len();
        Ok(count)
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
fn give(own: &Type, text: &str, list: &Type, each: &mut Each<'_>) -> Result<(), String> {
    let (version, kind) = match (&own.version, &own.kind, list.of_items()) {
        (Some(version), Some(kind), _) => (version.as_str(), kind.as_str()),
        (_, _, Some(of_items)) => of_items,
        _ => return Err("it has no apiVersion and kind".to_owned()),
    };
    each(&Object {
        version,
        kind,
        text,
    })
}
