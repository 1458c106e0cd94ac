//! YAML, as kubectl writes it, made JSON: one reader of objects then reads both.
//!
//! A text is read whole, unlike JSON, and made JSON a document at a time. kubectl quotes each text that YAML could take
//! for something else, so a plain scalar is `null`, a truth value or a number only where it is one in JSON too; any other
//! is a text. Aliases, tags and keys that stand twice are errors: kubectl writes none.

use std::{borrow::Cow, fmt};

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::Number;

#[derive(Default)]
struct Document<'t> {
    json: Vec<u8>,
    /// The bytes of the JSON at which objects begin, and their lines in the YAML.
    lines: Vec<(u64, usize)>,
    open: Vec<Open>,
    /// The keys of all maps that have not ended, each with its line.
    keys: Vec<(Cow<'t, str>, usize)>,
}

/// A collection that has not ended.
enum Open {
    List,
    /// With how many keys came before it, and whether a key comes next.
    Map(usize, bool),
}

impl<'t> Document<'t> {
    /// The line of what begins at this byte of the JSON, or around it.
    fn line(&self, byte: u64) -> String {
        let after = self.lines.partition_point(|(begin, _)| *begin <= byte);
        let begins = after.checked_sub(1).and_then(|at| self.lines.get(at));
        line_of(begins.map_or(1, |(_, line)| *line))
    }

    /// A value comes: a key may not be one.
    fn value(&mut self, line: usize) -> Result<(), String> {
        match self.open.last_mut() {
            Some(Open::Map(_, true)) => return Err(wrong(line, "a key is no text")),
            Some(Open::Map(_, is_key)) => *is_key = true,
            Some(Open::List) if !self.json.ends_with(b"[") => self.json.push(b','),
            Some(Open::List) | None => {}
        }
        // Objects of a list stand in `items`.
        if self.open.len() <= 2 {
            self.lines.push((self.json.len() as u64, line));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: Cow<'t, str>,
        style: ScalarStyle,
        line: usize,
    ) -> Result<(), String> {
        if let Some(Open::Map(_, is_key @ true)) = self.open.last_mut() {
            *is_key = false;
            if !self.json.ends_with(b"{") {
                self.json.push(b',');
            }
            quote(&mut self.json, &text);
            self.json.push(b':');
            self.keys.push((text, line));
            return Ok(());
        }
        self.value(line)?;
        match &*text {
            _ if style != ScalarStyle::Plain => quote(&mut self.json, &text),
            "" | "~" | "null" | "Null" | "NULL" => self.json.extend(b"null"),
            "true" | "True" | "TRUE" => self.json.extend(b"true"),
            "false" | "False" | "FALSE" => self.json.extend(b"false"),
            _ if is_number(&text) => self.json.extend(text.bytes()),
            _ => quote(&mut self.json, &text),
        }
        Ok(())
    }

    /// A collection ends. A list that was cut off is YAML all the same, but lacks the keys that kubectl writes behind
    /// `items`.
    fn end(&mut self, bracket: u8, line: usize) -> Result<(), String> {
        self.json.push(bracket);
        let Some(Open::Map(before, _)) = self.open.pop() else {
            return Ok(());
        };
        let keys = &mut self.keys[before..];
        keys.sort();
        let mut pairs = keys.windows(2);
        if let Some([_, (key, line)]) = pairs.find(|pair| pair[0].0 == pair[1].0) {
            let reason = format!("{key:?} is there twice; `---` has to stand between documents");
            return Err(wrong(*line, reason));
        }
        let has = |key| keys.binary_search_by(|(it, _)| (**it).cmp(key)).is_ok();
        let is_cut_off = self.open.is_empty() && has("items") && !(has("kind") && has("metadata"));
        self.keys.truncate(before);
        if is_cut_off {
            return Err(cut_off(&line_of(line)));
        }
        Ok(())
    }
}

/// Gives each document of a text as JSON, with a function that names the line of the text which a byte of the JSON was
/// made of. Whether there is one.
pub(super) fn documents(
    text: &str,
    mut each: impl FnMut(Vec<u8>, &dyn Fn(u64) -> String) -> Result<(), String>,
) -> Result<bool, String> {
    let mut document = Document::default();
    let mut is_empty = true;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| wrong(error.marker().line(), error.info()))?;
        let line = span.start.line();
        match event {
            Event::DocumentStart(..) => document = Document::default(),
            // Nothing between two separators is no document.
            Event::DocumentEnd if document.json == b"null" => {}
            Event::DocumentEnd if document.json.starts_with(b"{") => {
                is_empty = false;
                let json = std::mem::take(&mut document.json);
                each(json, &|byte| document.line(byte))?;
            }
            Event::DocumentEnd => {
                return Err(syntax("yaml", &document.line(0), "it is no object"));
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, _, Some(_))
            | Event::MappingStart(_, _, Some(_)) => return Err(wrong(line, "it has a tag")),
            Event::Alias(_) => return Err(wrong(line, "it has an alias")),
            Event::Scalar(text, style, ..) => document.scalar(text, style, line)?,
            Event::SequenceStart(..) => {
                document.value(line)?;
                document.json.push(b'[');
                document.open.push(Open::List);
            }
            Event::MappingStart(..) => {
                document.value(line)?;
                document.json.push(b'{');
                document.open.push(Open::Map(document.keys.len(), true));
            }
            Event::SequenceEnd => document.end(b']', line)?,
            Event::MappingEnd => document.end(b'}', line)?,
            _ => {}
        }
    }
    Ok(!is_empty)
}

fn is_number(text: &str) -> bool {
    // Most texts are none, and an error of the parser is not for free.
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<Number>(text).is_ok()
}

fn quote(json: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(json, text);
}

fn line_of(line: usize) -> String {
    format!("line {line}")
}

/// The error of a text that ends within an object or a list.
pub(super) fn cut_off(place: &str) -> String {
    format!("ends in the middle of its text, at {place}: it was cut off")
}

/// The error of a text that has something else than objects. It names the place.
pub(super) fn syntax(form: &str, place: &str, reason: impl fmt::Display) -> String {
    format!("is not what kubectl get -o {form} writes, at {place}: {reason}")
}

fn wrong(line: usize, reason: impl fmt::Display) -> String {
    syntax("yaml", &line_of(line), reason)
}
