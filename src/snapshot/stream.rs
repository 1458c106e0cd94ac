//! The objects of a `kubectl get -o json`, one at a time: a dump of a large cluster is a gigabyte, and what is
//! kept of it is a fraction.
//!
//! A buffer slides over the text. Each object is parsed in it once, by `serde_json`; one that reaches beyond
//! the buffer is parsed again when more of it is there. A text is a list, as kubectl or the API server write it, a single
//! object, or several of these. Nothing here knows what an object means, and no text makes it panic.

use std::{borrow::Cow, io::Read};

use ipgc_core::outline::{First, first_length, first_pod};
use serde::Deserialize;

use crate::watch::LeanPod;

/// So much is read at a time.
const CHUNK: usize = 1 << 20;
/// Largest object. etcd takes a megabyte and a half, and indentation makes it several times as large.
const LARGEST_OBJECT: usize = 64 << 20;

/// One object.
#[derive(Debug)]
pub enum Object<'t> {
    /// A pod, of which all that decides is read already.
    Pod(Box<LeanPod>),
    /// Any other, or a pod where more of it is wanted.
    Text {
        /// Its `apiVersion`.
        version: Cow<'t, str>,
        /// Its `kind`.
        kind: Cow<'t, str>,
        /// All of it.
        text: &'t str,
    },
}

/// Why a text is no dump.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// It is no JSON, or none of objects.
    #[error("is not what kubectl get -o json writes, at byte {at}: {reason}")]
    Syntax {
        /// Where the part begins that cannot be read.
        at: u64,
        /// Why.
        reason: String,
    },
    /// It ends within an object or a list.
    #[error("ends in the middle of its text, at byte {0}: it was cut off")]
    Cut(u64),
    /// It is a page of a list.
    #[error("is only a part of a list, which was asked for with a limit")]
    Page,
    /// An object that nobody stores.
    #[error("has an object of more than 64 MB at byte {0}")]
    TooLarge(u64),
    /// What was made of an object.
    #[error("{0}")]
    Object(String),
}

/// Reads all objects of a text. Pods are given as [`Object::Text`] too if `whole_pods`.
///
/// # Errors
/// As [`ReadError`] says, and whatever `each` says, with the place of the object.
pub fn read_objects(
    source: impl Read,
    whole_pods: bool,
    mut each: impl FnMut(Object<'_>) -> Result<(), String>,
) -> Result<(), ReadError> {
    let mut window = Window::new(source);
    let mut documents = 0;
    while window.peek()?.is_some() {
        window.document(whole_pods, &mut each)?;
        documents += 1;
    }
    match documents {
        0 => Err(ReadError::Cut(window.at())),
        _ => Ok(()),
    }
}

/// The part of the text that is in memory.
struct Window<R> {
    source: R,
    bytes: Vec<u8>,
    /// Where the unread part of `bytes` begins.
    start: usize,
    /// What was dropped before `bytes`.
    dropped: u64,
    ended: bool,
}

/// What a list says of itself.
#[derive(Default)]
struct Envelope {
    version: Option<String>,
    kind: Option<String>,
}

impl Envelope {
    /// The type of its items, where they bear none: that of `PodList` is `Pod`.
    fn of_items(&self) -> Option<(&str, &str)> {
        let kind = self.kind.as_deref()?.strip_suffix("List")?;
        let kind = Some(kind).filter(|kind| !kind.is_empty())?;
        Some((self.version.as_deref()?, kind))
    }
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue")]
    more: Option<String>,
}

impl<R: Read> Window<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            bytes: Vec::with_capacity(CHUNK),
            start: 0,
            dropped: 0,
            ended: false,
        }
    }

    fn at(&self) -> u64 {
        self.dropped + self.start as u64
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Reads on; false at the end.
    fn more(&mut self) -> Result<bool, ReadError> {
        if self.ended {
            return Ok(false);
        }
        if self.bytes.len() - self.start > LARGEST_OBJECT {
            return Err(ReadError::TooLarge(self.at()));
        }
        self.bytes.drain(..self.start);
        self.dropped += self.start as u64;
        self.start = 0;
        let before = self.bytes.len();
        // An object that is larger than the window makes it grow by its own size, not by a little each time.
        let wanted = before.max(CHUNK);
        self.bytes.resize(before + wanted, 0);
        let mut filled = before;
        while filled < self.bytes.len() {
            match self.source.read(&mut self.bytes[filled..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.bytes.truncate(filled);
        Ok(filled > before)
    }

    /// The next byte that is no white space, which stays unread; `None` at the end.
    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            if let Some(skip) = self.unread().iter().position(is_text) {
                self.start += skip;
                return Ok(Some(self.bytes[self.start]));
            }
            self.start = self.bytes.len();
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    fn syntax(&self, reason: impl Into<String>) -> ReadError {
        let reason = match self.unread() {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] if self.at() == 0 => {
                "it is UTF-16, not UTF-8".into()
            }
            _ => reason.into(),
        };
        ReadError::Syntax {
            at: self.at(),
            reason,
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
            None => Err(ReadError::Cut(self.at())),
        }
    }

    /// Takes a comma and says that there is more, or takes the closing byte.
    fn goes_on(&mut self, closing: u8) -> Result<bool, ReadError> {
        match self.peek()? {
            Some(b',') => {
                self.start += 1;
                Ok(true)
            }
            _ => self.expect(closing).map(|()| false),
        }
    }

    /// Parses the value that begins at the next byte; with its length, since it stays unread.
    fn value<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> serde_json::Result<(T, usize)>,
    ) -> Result<(T, usize), ReadError> {
        self.peek()?;
        loop {
            match parse(self.unread()) {
                // A number may go on beyond the window.
                Ok((value, length)) if length < self.unread().len() || self.ended => {
                    return Ok((value, length));
                }
                Err(error) if !error.is_eof() => return Err(self.syntax(error.to_string())),
                Err(_) if self.ended => return Err(ReadError::Cut(self.at())),
                Ok(_) | Err(_) => {
                    self.more()?;
                }
            }
        }
    }

    /// The text of the next value.
    fn raw(&mut self) -> Result<&str, ReadError> {
        let ((), length) = self.value(|bytes| Ok(((), first_length(bytes)?)))?;
        let from = self.start;
        self.start += length;
        // serde_json has checked it.
        std::str::from_utf8(&self.bytes[from..self.start]).map_err(|error| ReadError::Syntax {
            at: self.dropped + from as u64,
            reason: error.to_string(),
        })
    }

    fn key(&mut self) -> Result<String, ReadError> {
        let (key, length) = self.value(|bytes| first::<String>(bytes))?;
        self.start += length;
        self.expect(b':')?;
        Ok(key)
    }

    /// A list, or an object.
    fn document(
        &mut self,
        whole_pods: bool,
        each: &mut impl FnMut(Object<'_>) -> Result<(), String>,
    ) -> Result<(), ReadError> {
        self.expect(b'{')?;
        let mut envelope = Envelope::default();
        let (mut is_list, mut is_page) = (false, false);
        // Of what is no list, after all.
        let mut members = String::new();
        let begins_at = self.at();
        let mut goes_on = match self.peek()? {
            Some(b'}') => self.goes_on(b'}')?,
            _ => true,
        };
        while goes_on {
            let key = self.key()?;
            if key == "items" {
                is_list = true;
                members = String::new();
                match self.peek()? {
                    Some(b'[') => self.items(whole_pods, &envelope, each)?,
                    // What Go makes of no items.
                    _ if self.raw()? == "null" => {}
                    _ => return Err(self.syntax("items are no list")),
                }
            } else {
                let value = self.raw()?;
                let text = || serde_json::from_str(value).ok();
                match &*key {
                    "apiVersion" => envelope.version = text(),
                    "kind" => envelope.kind = text(),
                    "metadata" => {
                        let metadata = serde_json::from_str::<ListMetadata>(value);
                        let more = metadata.unwrap_or_default().more;
                        is_page = more.is_some_and(|more| !more.is_empty());
                    }
                    _ => {}
                }
                if !is_list {
                    let comma = if members.is_empty() { "" } else { "," };
                    let key = serde_json::to_string(&key).unwrap_or_default();
                    members.extend([comma, &key, ":", value]);
                }
            }
            goes_on = self.goes_on(b'}')?;
        }
        match (is_list, is_page) {
            (true, true) => return Err(ReadError::Page),
            (true, false) => return Ok(()),
            (false, _) => {}
        }
        let text = format!("{{{members}}}");
        give(&text, &Envelope::default(), each)
            .map_err(|reason| ReadError::Object(format!("object at byte {begins_at}: {reason}")))
    }

    fn items(
        &mut self,
        whole_pods: bool,
        list: &Envelope,
        each: &mut impl FnMut(Object<'_>) -> Result<(), String>,
    ) -> Result<(), ReadError> {
        self.expect(b'[')?;
        if self.peek()? == Some(b']') {
            self.start += 1;
            return Ok(());
        }
        loop {
            let at = self.at();
            let failed = |reason| ReadError::Object(format!("object at byte {at}: {reason}"));
            let pod = if whole_pods { None } else { self.pod()? };
            match pod {
                Some(pod) => each(Object::Pod(pod)).map_err(failed)?,
                None => give(self.raw()?, list, each).map_err(failed)?,
            }
            if !self.goes_on(b']')? {
                return Ok(());
            }
        }
    }

    /// The next value if it is a pod that can be read.
    fn pod(&mut self) -> Result<Option<Box<LeanPod>>, ReadError> {
        if self.peek()? != Some(b'{') {
            return Ok(None);
        }
        let (outline, length) = self.value(|bytes| {
            let First { pod, length } = first_pod(bytes)?;
            Ok((pod, length))
        })?;
        // What is wrong with any other, whoever reads it as a whole finds out.
        let pod = outline.and_then(|text| serde_json::from_str(&text).ok());
        if pod.is_some() {
            self.start += length;
        }
        Ok(pod.map(Box::new))
    }
}

/// The first value of a text, and its length.
fn first<'t, T: Deserialize<'t>>(bytes: &'t [u8]) -> serde_json::Result<(T, usize)> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter();
    match values.next() {
        Some(value) => Ok((value?, values.byte_offset())),
        // Nothing but white space: as what ends too early.
        None => serde_json::from_slice(b"").map(|value| (value, 0)),
    }
}

#[derive(Deserialize)]
struct Head<'t> {
    #[serde(rename = "apiVersion", borrow)]
    version: Option<Cow<'t, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'t, str>>,
}

/// Gives an object with its type, which it bears itself or has from its list.
fn give(
    text: &str,
    list: &Envelope,
    each: &mut impl FnMut(Object<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (version, kind) = match (head.version, head.kind, list.of_items()) {
        (Some(version), Some(kind), _) => (version, kind),
        (_, _, Some((version, kind))) => (version.into(), kind.into()),
        _ => return Err("it has no apiVersion and kind".to_owned()),
    };
    each(Object::Text {
        version,
        kind,
        text,
    })
}
