//! The objects of a `kubectl get -o json` or `-o yaml`, one at a time: a dump of a large cluster is a gigabyte, and what
//! is kept of it is a fraction.
//!
//! A buffer slides over the text. Each object is parsed in it once, by `serde_json`; one that reaches beyond
//! the buffer is parsed again when more of it is there. A text is a list, as kubectl or the API server write it, a single
//! object, or several of these. Items of a list that is indented, as kubectl's are, are parsed by several threads;
//! what comes of it is the same. A text that does not begin as an object of JSON does is YAML, which is read whole.
//! Nothing here knows what an object means, and no text makes it panic.

mod crew;
mod window;
mod yaml;

use std::{borrow::Cow, fmt, io::Read, sync::Arc, thread::scope};

use ipgc_core::{
    outline::{Item, Items},
    pod::PodState,
    pool::LeanPool,
    reservation::LeanReservation,
};
use serde::Deserialize;

use self::{crew::Crew, window::Window};

/// One object.
#[derive(Debug)]
pub enum Object<'t> {
    /// A pod, of which all that decides is read already.
    Pod(Arc<PodState>),
    /// A reservation, likewise.
    Reservation(LeanReservation),
    /// A pool, as much of it as is kept.
    Pool(Box<LeanPool>),
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

/// Where something stands: in JSON its byte, in YAML its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Bytes before it.
    Byte(u64),
    /// Its line, from 1 on.
    Line(usize),
}

impl Place {
    /// As which form it was read.
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
    Io(#[from] std::io::Error),
    /// It is no JSON or YAML, or none of objects.
    #[error("is not what kubectl get -o {} writes, at {at}: {reason}", at.form())]
    Syntax {
        /// Where the part begins that cannot be read.
        at: Place,
        /// Why.
        reason: String,
    },
    /// It ends within an object or a list.
    #[error("ends in the middle of its text, at {0}: it was cut off")]
    Cut(Place),
    /// It is a page of a list.
    #[error("is only a part of a list, which was asked for with a limit")]
    Page,
    /// An object that nobody stores.
    #[error("has an object of more than 64 MB at {0}")]
    TooLarge(Place),
    /// What was made of an object.
    #[error("object at {at}: {reason}")]
    Object {
        /// Where it begins.
        at: Place,
        /// What is wrong.
        reason: String,
    },
}

impl ReadError {
    /// The same, with the place where it stands in the text that the JSON was made of.
    fn placed(mut self, place: impl Fn(u64) -> Place) -> Self {
        match &mut self {
            Self::Syntax { at, .. }
            | Self::Object { at, .. }
            | Self::Cut(at)
            | Self::TooLarge(at) => {
                if let Place::Byte(byte) = *at {
                    *at = place(byte);
                }
            }
            Self::Io(_) | Self::Page => {}
        }
        self
    }
}

/// Reads all objects of a text; says how long it is. Pods are given as [`Object::Text`] too if `whole_pods`.
/// `progress` is told how much was read, now and then.
///
/// # Errors
/// As [`ReadError`] says, and whatever `each` says, with the place of the object.
pub fn read_objects(
    source: impl Read,
    whole_pods: bool,
    progress: &mut dyn FnMut(u64),
    mut each: impl FnMut(Object<'_>) -> Result<(), String>,
) -> Result<u64, ReadError> {
    let mut window = Window::new(source, progress);
    let mut documents = 0;
    while let Some(next) = window.next_document(documents == 0)? {
        if documents == 0 && next != b'{' {
            documents = window.yaml(whole_pods, &mut each)?;
            break;
        }
        window.document(whole_pods, &mut each)?;
        documents += 1;
    }
    match documents {
        0 => Err(ReadError::Cut(window.place())),
        _ => Ok(window.at()),
    }
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

impl<R: Read> Window<'_, R> {
    /// All that is left, as YAML; says how many documents there are.
    fn yaml(
        &mut self,
        whole_pods: bool,
        each: &mut impl FnMut(Object<'_>) -> Result<(), String>,
    ) -> Result<usize, ReadError> {
        let text = self.rest()?;
        let mut count = 0;
        yaml::documents(&text, |document| {
            count += 1;
            let mut ignore = |_| {};
            let mut window = Window::new(document.json.as_bytes(), &mut ignore);
            let read = window.document(whole_pods, each);
            read.map_err(|error| error.placed(|byte| document.line(byte)))
        })?;
        Ok(count)
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
        let at = Place::Byte(begins_at);
        give(&text, &Envelope::default(), each).map_err(|reason| ReadError::Object { at, reason })
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
        let boundary = self.boundary();
        let mut items = Items::new(whole_pods);
        loop {
            if let Some(boundary) = &boundary {
                self.pieces(boundary, whole_pods, list, each)?;
            }
            self.peek()?;
            let at = self.at();
            let (item, length) = self.value(|bytes| items.first(bytes))?;
            let from = self.start;
            self.start += length;
            let text = &self.bytes[from..self.start];
            give_item(item, text, at, list, each)?;
            if !self.goes_on(b']')? {
                return Ok(());
            }
        }
    }

    /// Has as many items parsed by others as can be; it may be none.
    fn pieces(
        &mut self,
        boundary: &[u8],
        whole_pods: bool,
        list: &Envelope,
        each: &mut impl FnMut(Object<'_>) -> Result<(), String>,
    ) -> Result<(), ReadError> {
        if self.alone {
            return Ok(());
        }
        let Some(first) = self.piece(boundary)? else {
            return Ok(());
        };
        scope(|scope| {
            let mut crew = Crew::hire(scope, whole_pods);
            let mut next = Some(first);
            loop {
                while crew.is_ready()
                    && let Some(piece) = next.take()
                {
                    if let Err(piece) = crew.give(piece) {
                        next = Some(piece);
                        break;
                    }
                    next = self.piece(boundary)?;
                }
                let Some((piece, parsed)) = crew.take() else {
                    // Nobody to be hired, or nothing left.
                    self.alone |= next.is_some();
                    self.put_back(next);
                    return Ok(());
                };
                let Some(items) = parsed else {
                    // What is wrong with it, whoever reads on alone finds out.
                    self.alone = true;
                    let others = std::iter::from_fn(|| crew.take()).map(|(piece, _)| piece);
                    let all: Vec<_> = [piece].into_iter().chain(others).chain(next).collect();
                    self.put_back(all);
                    return Ok(());
                };
                for (item, place) in items {
                    let at = piece.at + place.start as u64;
                    let text = &piece.text[piece.from..][place];
                    give_item(item, text, at, list, each)?;
                }
                self.spare = piece.text;
            }
        })
    }
}

/// Gives an item of a list, which stands `at` this place.
fn give_item(
    item: Item,
    text: &[u8],
    at: u64,
    list: &Envelope,
    each: &mut impl FnMut(Object<'_>) -> Result<(), String>,
) -> Result<(), ReadError> {
    let given = match item {
        Item::Pod(pod) => each(Object::Pod(pod)),
        Item::Reservation(reservation) => each(Object::Reservation(reservation)),
        Item::Pool(pool) => each(Object::Pool(pool)),
        Item::Other => match std::str::from_utf8(text) {
            Ok(text) => give(text, list, each),
            Err(error) => {
                let (at, reason) = (Place::Byte(at), error.to_string());
                return Err(ReadError::Syntax { at, reason });
            }
        },
    };
    let at = Place::Byte(at);
    given.map_err(|reason| ReadError::Object { at, reason })
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
