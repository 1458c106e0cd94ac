//! The objects of a `kubectl get -o json` or `-o yaml`, one at a time.
//!
//! A text is a list, as kubectl or the API server writes it, a single object, or several of these one after the other.
//! `serde_json` reads JSON as a stream, so that one object is in memory at a time. A text that does not begin with `{` is
//! YAML, which is read whole. This module knows no kind of objects, and no text makes it panic.

use std::{
    borrow::Cow,
    cell::Cell,
    fmt,
    io::{self, BufRead, BufReader, Read},
};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{error::Category, value::RawValue};

use super::yaml;

/// Some programs of Windows begin each text with it.
const BYTE_ORDER_MARK: &[u8; 3] = b"\xef\xbb\xbf";
/// The separator of YAML documents, which may stand between those of JSON too.
const SEPARATOR: &[u8; 3] = b"---";
/// So much is read at a time.
const CHUNK: usize = 1 << 16;
/// Largest object. etcd takes a megabyte and a half, and indentation makes it several times as large.
const LARGEST_OBJECT: u64 = 64 << 20;

/// One object.
#[derive(Debug)]
pub struct Object<'t> {
    /// Its `apiVersion`, or that of its list.
    pub version: Cow<'t, str>,
    /// Its `kind`, or that of its list.
    pub kind: Cow<'t, str>,
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
    let position = Position::default();
    let mut text = Text::new(&mut source, progress, &position);
    let mut documents = 0;
    while let Some(next) = text.next_document(documents == 0)? {
        match next {
            b'{' => text.document(each)?,
            _ if documents == 0 => return text.yaml(each),
            _ => return Err(position.unexpected()),
        }
        documents += 1;
    }
    match documents {
        0 => Err(ReadError::Cut(position.place())),
        _ => Ok(position.at.get()),
    }
}

/// Where the reader is in a text.
#[derive(Default)]
struct Position {
    /// The bytes that were read.
    at: Cell<u64>,
    /// The bytes before the object that is being read.
    object: Cell<u64>,
}

impl Position {
    fn place(&self) -> Place {
        Place::Byte(self.at.get())
    }

    fn place_of_object(&self) -> Place {
        Place::Byte(self.object.get())
    }

    fn is_too_large(&self) -> bool {
        self.at.get() - self.object.get() > LARGEST_OBJECT
    }

    fn unexpected(&self) -> ReadError {
        let (at, reason) = (self.place(), "expected '{'".to_owned());
        ReadError::Syntax { at, reason }
    }

    fn error(&self, error: serde_json::Error) -> ReadError {
        let at = self.place_of_object();
        match error.classify() {
            Category::Io if self.is_too_large() => ReadError::TooLarge(at),
            Category::Io => ReadError::Io(error.into()),
            Category::Eof => ReadError::Cut(self.place()),
            // All else is taken as it is.
            Category::Data => ReadError::Syntax {
                at: self.place(),
                reason: "items are no list".to_owned(),
            },
            Category::Syntax => ReadError::Syntax {
                at,
                reason: error.to_string(),
            },
        }
    }
}

/// Tells the progress of a source.
struct Told<'s> {
    source: &'s mut dyn Read,
    progress: &'s mut dyn FnMut(u64),
    read: u64,
}

impl Read for Told<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.read += read as u64;
        (self.progress)(self.read);
        Ok(read)
    }
}

/// A text that is read from its beginning to its end.
struct Text<'s> {
    source: BufReader<Told<'s>>,
    position: &'s Position,
    /// The white space before the document. The indentation of YAML counts.
    blank: Vec<u8>,
}

/// Counts what is read, and refuses to go on within an object that is too large.
impl Read for Text<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        let at = &self.position.at;
        at.set(at.get() + read as u64);
        if self.position.is_too_large() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(read)
    }
}

impl<'s> Text<'s> {
    fn new(
        source: &'s mut dyn Read,
        progress: &'s mut dyn FnMut(u64),
        position: &'s Position,
    ) -> Self {
        let told = Told {
            source,
            progress,
            read: 0,
        };
        Self {
            source: BufReader::with_capacity(CHUNK, told),
            position,
            blank: Vec::new(),
        }
    }

    /// The first byte of the next document, which stays unread; `None` at the end.
    fn next_document(&mut self, is_first: bool) -> Result<Option<u8>, ReadError> {
        self.blank.clear();
        loop {
            self.position.object.set(self.position.at.get());
            let next = self.source.fill_buf()?.first().copied();
            let mut found = [0; 3];
            match next {
                Some(blank @ (b' ' | b'\t' | b'\r' | b'\n')) => {
                    self.blank.push(blank);
                    self.read_exact(&mut found[..1])?;
                }
                Some(0xef) => self.expect(BYTE_ORDER_MARK)?,
                Some(b'-') if !is_first => self.expect(SEPARATOR)?,
                _ => return Ok(next),
            }
        }
    }

    fn expect(&mut self, wanted: &[u8; 3]) -> Result<(), ReadError> {
        let unexpected = self.position.unexpected();
        let mut found = [0; 3];
        match self.read_exact(&mut found) {
            Ok(()) if found == *wanted => Ok(()),
            _ => Err(unexpected),
        }
    }

    /// Reads one document of JSON: a list or an object.
    fn document(&mut self, each: &mut Each<'_>) -> Result<(), ReadError> {
        let position = self.position;
        let mut reader = Reader {
            position,
            each,
            version: None,
            kind: None,
            error: None,
        };
        let mut json = serde_json::Deserializer::from_reader(self);
        let read = Document(&mut reader).deserialize(&mut json);
        read.map_err(|error| reader.error.unwrap_or_else(|| position.error(error)))
    }

    /// Reads all that is left as YAML.
    fn yaml(&mut self, each: &mut Each<'_>) -> Result<u64, ReadError> {
        let mut bytes = std::mem::take(&mut self.blank);
        self.source.read_to_end(&mut bytes)?;
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = *bytes {
            let (at, reason) = (self.position.place(), "it is UTF-16, not UTF-8".to_owned());
            return Err(ReadError::Syntax { at, reason });
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let lines = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n');
            ReadError::Syntax {
                at: Place::Line(lines.count()),
                reason: error.to_string(),
            }
        })?;
        let mut documents = 0;
        yaml::documents(text, |document| {
            documents += 1;
            let position = Position::default();
            let mut json = document.json.as_bytes();
            let read = Text::new(&mut json, &mut |_| {}, &position).document(each);
            read.map_err(|error| error.placed(|byte| document.line(byte)))
        })?;
        match documents {
            0 => Err(ReadError::Cut(Place::Line(1))),
            _ => Ok(bytes.len() as u64),
        }
    }
}

/// Reads one document, and gives its objects to `each`.
struct Reader<'r, 'e> {
    position: &'r Position,
    each: &'r mut Each<'e>,
    /// `apiVersion` and `kind` of a list, as far as they stand before its items.
    version: Option<String>,
    kind: Option<String>,
    /// The error behind that of `serde_json`.
    error: Option<ReadError>,
}

#[derive(Deserialize)]
struct Head<'t> {
    #[serde(rename = "apiVersion", borrow)]
    version: Option<Cow<'t, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'t, str>>,
}

impl Reader<'_, '_> {
    /// The type of items without one: that of the items of a `PodList` is `Pod`.
    fn of_items(&self) -> Option<(&str, &str)> {
        let kind = self.kind.as_deref()?.strip_suffix("List")?;
        Some((self.version.as_deref()?, kind)).filter(|_| !kind.is_empty())
    }

    fn try_give(&mut self, text: &str) -> Result<(), String> {
        let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let (version, kind) = match (head.version, head.kind, self.of_items()) {
            (Some(version), Some(kind), _) => (version, kind),
            (_, _, Some((version, kind))) => (version.to_owned().into(), kind.to_owned().into()),
            _ => return Err("it has no apiVersion and kind".to_owned()),
        };
        (self.each)(&Object {
            version,
            kind,
            text,
        })
    }

    fn give<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        let at = self.position.place_of_object();
        let given = self.try_give(text);
        given.map_err(|reason| self.fail(ReadError::Object { at, reason }))
    }

    fn fail<E: de::Error>(&mut self, error: ReadError) -> E {
        self.error = Some(error);
        E::custom("")
    }
}

struct Document<'d, 'r, 'e>(&'d mut Reader<'r, 'e>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue")]
    more: Option<String>,
}

impl<'de> Visitor<'de> for Document<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(reader) = self;
        let (mut is_list, mut is_page) = (false, false);
        // The text of a document that is no list.
        let mut object = String::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                map.next_value_seed(Items(reader))?;
                continue;
            }
            let value = map.next_value::<Box<RawValue>>()?;
            let text = || serde_json::from_str(value.get()).ok();
            match &*key {
                "apiVersion" => reader.version = text(),
                "kind" => reader.kind = text(),
                "metadata" => {
                    let metadata = serde_json::from_str::<ListMetadata>(value.get());
                    let more = metadata.ok().and_then(|metadata| metadata.more);
                    is_page = more.is_some_and(|more| !more.is_empty());
                }
                _ => {}
            }
            let comma = if object.is_empty() { '{' } else { ',' };
            object.push(comma);
            object += &serde_json::to_string(&key).unwrap_or_default();
            object.push(':');
            object += value.get();
        }
        match (is_list, is_page) {
            (true, true) => Err(reader.fail(ReadError::Page)),
            (true, false) => Ok(()),
            (false, _) => {
                // An object has its type itself.
                reader.kind = None;
                if object.is_empty() {
                    object.push('{');
                }
                object.push('}');
                reader.give(&object)
            }
        }
    }
}

struct Items<'d, 'r, 'e>(&'d mut Reader<'r, 'e>);

impl<'de> DeserializeSeed<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    /// Go writes an empty list as null.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Item(self.0))?.is_some() {}
        Ok(())
    }
}

struct Item<'d, 'r, 'e>(&'d mut Reader<'r, 'e>);

impl<'de> DeserializeSeed<'de> for Item<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self(reader) = self;
        // serde_json has taken the first byte of the item, to know that there is one.
        let position = reader.position;
        position.object.set(position.at.get().saturating_sub(1));
        let text = Box::<RawValue>::deserialize(deserializer)?;
        reader.give(text.get())
    }
}
