//! A buffer that slides over a text: its next byte, its next value, and pieces that are cut off for others to parse.

use std::io::Read;

use ipgc_core::outline::{first_length, space};
use serde::Deserialize;

use super::{Place, ReadError, crew::Piece};

/// Some programs of Windows begin each text with it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// What stands between documents of YAML, and may between those of JSON.
const SEPARATOR: &[u8] = b"---";
/// So much is read at a time.
const CHUNK: usize = 1 << 20;
/// What is parsed elsewhere is no larger than that.
const LARGEST_PIECE: usize = 8 << 20;
/// Largest object. etcd takes a megabyte and a half, and indentation makes it several times as large.
const LARGEST_OBJECT: usize = 64 << 20;

/// The part of the text that is in memory.
pub(super) struct Window<'p, R> {
    source: R,
    progress: &'p mut dyn FnMut(u64),
    pub(super) bytes: Vec<u8>,
    /// Where the unread part of `bytes` begins.
    pub(super) start: usize,
    /// What was dropped before `bytes`.
    dropped: u64,
    ended: bool,
    /// Nobody helps.
    pub(super) alone: bool,
    /// A buffer that nobody needs.
    pub(super) spare: Vec<u8>,
}

impl<'p, R: Read> Window<'p, R> {
    pub(super) fn new(source: R, progress: &'p mut dyn FnMut(u64)) -> Self {
        Self {
            source,
            progress,
            bytes: Vec::with_capacity(CHUNK),
            start: 0,
            dropped: 0,
            ended: false,
            alone: false,
            spare: Vec::new(),
        }
    }

    pub(super) fn at(&self) -> u64 {
        self.dropped + self.start as u64
    }

    pub(super) fn place(&self) -> Place {
        Place::Byte(self.at())
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Reads on; false at the end.
    fn more(&mut self) -> Result<bool, ReadError> {
        if self.ended {
            return Ok(false);
        }
        if self.bytes.len() - self.start > LARGEST_OBJECT {
            return Err(ReadError::TooLarge(self.place()));
        }
        self.bytes.drain(..self.start);
        self.dropped += self.start as u64;
        self.start = 0;
        let before = self.bytes.len();
        // An object that is larger than the window makes it grow by its own size, not by a little each time.
        let wanted = before.max(CHUNK);
        self.bytes.reserve(wanted);
        let mut source = self.source.by_ref().take(wanted as u64);
        let read = source.read_to_end(&mut self.bytes)?;
        self.ended = read < wanted;
        (self.progress)(self.dropped + self.bytes.len() as u64);
        Ok(read > 0)
    }

    /// The next byte that is no white space, which stays unread; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            self.start += space(self.unread());
            if let Some(byte) = self.bytes.get(self.start) {
                return Ok(Some(*byte));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// The first byte of the next document, after what may stand before it.
    pub(super) fn next_document(&mut self, is_first: bool) -> Result<Option<u8>, ReadError> {
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

    /// All of a text of which nothing was taken.
    pub(super) fn rest(&mut self) -> Result<String, ReadError> {
        if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = self.unread() {
            return Err(self.syntax("it is UTF-16, not UTF-8"));
        }
        self.source.read_to_end(&mut self.bytes)?;
        self.dropped += self.bytes.len() as u64;
        self.start = 0;
        (self.progress)(self.dropped);
        let text = String::from_utf8(std::mem::take(&mut self.bytes));
        text.map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            ReadError::Syntax {
                at: Place::Line(1 + memchr::memchr_iter(b'\n', before).count()),
                reason: error.utf8_error().to_string(),
            }
        })
    }

    pub(super) fn syntax(&self, reason: impl Into<String>) -> ReadError {
        ReadError::Syntax {
            at: self.place(),
            reason: reason.into(),
        }
    }

    /// Takes this byte, after white space.
    pub(super) fn expect(&mut self, wanted: u8) -> Result<(), ReadError> {
        match self.peek()? {
            Some(byte) if byte == wanted => {
                self.start += 1;
                Ok(())
            }
            Some(_) => Err(self.syntax(format!("expected {:?}", char::from(wanted)))),
            None => Err(ReadError::Cut(self.place())),
        }
    }

    /// Takes a comma and says that there is more, or takes the closing byte.
    pub(super) fn goes_on(&mut self, closing: u8) -> Result<bool, ReadError> {
        match self.peek()? {
            Some(b',') => {
                self.start += 1;
                Ok(true)
            }
            _ => self.expect(closing).map(|()| false),
        }
    }

    /// Parses the value that begins at the next byte; with its length, since it stays unread.
    pub(super) fn value<T>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> serde_json::Result<(T, usize)>,
    ) -> Result<(T, usize), ReadError> {
        self.peek()?;
        loop {
            match parse(self.unread()) {
                // A number may go on beyond the window.
                Ok((value, length)) if length < self.unread().len() || self.ended => {
                    return Ok((value, length));
                }
                Err(error) if !error.is_eof() => return Err(self.syntax(error.to_string())),
                Err(_) if self.ended => return Err(ReadError::Cut(self.place())),
                Ok(_) | Err(_) => {
                    self.more()?;
                }
            }
        }
    }

    /// The text of the next value.
    pub(super) fn raw(&mut self) -> Result<&str, ReadError> {
        let ((), length) = self.value(|bytes| Ok(((), first_length(bytes)?)))?;
        let from = self.start;
        self.start += length;
        // serde_json has checked it.
        std::str::from_utf8(&self.bytes[from..self.start]).map_err(|error| ReadError::Syntax {
            at: Place::Byte(self.dropped + from as u64),
            reason: error.to_string(),
        })
    }

    pub(super) fn key(&mut self) -> Result<String, ReadError> {
        let (key, length) = self.value(|bytes| first::<String>(bytes))?;
        self.start += length;
        self.expect(b':')?;
        Ok(key)
    }

    /// What stands between two items, if each begins on a line of its own: no such line is within an item that
    /// is indented, and no line ends within a text of JSON. `None` where that does not help.
    pub(super) fn boundary(&self) -> Option<Vec<u8>> {
        let before = &self.bytes[..self.start];
        let line = before.iter().rposition(|byte| *byte == b'\n')?;
        let indent = &before[line..];
        let is_blank = indent[1..].iter().all(|byte| matches!(byte, b' ' | b'\t'));
        let begins = self.unread().first() == Some(&b'{');
        let lines = [indent, b"},", indent, b"{"].concat();
        (is_blank && begins && !self.alone).then_some(lines)
    }

    /// Cuts off what is unread up to the last boundary; `None` where there is none near.
    pub(super) fn piece(&mut self, boundary: &[u8]) -> Result<Option<Piece>, ReadError> {
        loop {
            let found = memchr::memmem::rfind(self.unread(), boundary);
            let enough = self.unread().len() >= CHUNK;
            if let Some(found) = found.filter(|_| enough) {
                // With the comma, and without the line that follows.
                let length = found + boundary.len() / 2 + 1;
                let end = self.start + length;
                let mut rest = std::mem::take(&mut self.spare);
                rest.clear();
                rest.extend_from_slice(&self.bytes[end..]);
                let piece = Piece {
                    at: self.at(),
                    from: self.start,
                    text: {
                        let mut text = std::mem::replace(&mut self.bytes, rest);
                        text.truncate(end);
                        text
                    },
                };
                self.dropped += end as u64;
                self.start = 0;
                return Ok(Some(piece));
            }
            if self.unread().len() > LARGEST_PIECE || !self.more()? {
                return Ok(None);
            }
        }
    }

    /// As if these pieces, the last that were cut off, had not been.
    pub(super) fn put_back(&mut self, pieces: impl IntoIterator<Item = Piece>) {
        let mut bytes = Vec::new();
        let mut at = None;
        for piece in pieces {
            at.get_or_insert(piece.at);
            bytes.extend_from_slice(&piece.text[piece.from..]);
        }
        let Some(at) = at else { return };
        bytes.extend_from_slice(self.unread());
        self.bytes = bytes;
        self.start = 0;
        self.dropped = at;
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
