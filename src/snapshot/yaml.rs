//! YAML, as kubectl writes it, made JSON: one reader of objects then reads both.
//!
//! A text and its JSON are in memory as a whole. kubectl quotes each text that YAML could take for something else, so a
//! plain scalar is `null`, a truth value or a number only where it is one in JSON too; any other is a text. Aliases, tags
//! and keys that stand twice are errors: kubectl writes none.

use std::{borrow::Cow, fmt};

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::Number;

/// The bytes of a JSON at which objects begin, and their lines in the YAML that it was made of.
#[derive(Default)]
pub(super) struct Lines(Vec<(u64, usize)>);

impl Lines {
    /// The line of what begins at this byte of the JSON, or around it.
    pub fn line(&self, byte: u64) -> String {
        let after = self.0.partition_point(|(begin, _)| *begin <= byte);
        let begins = after.checked_sub(1).and_then(|at| self.0.get(at));
        line_of(begins.map_or(1, |(_, line)| *line))
    }
}

/// The JSON of a text, in which documents stand one after the other, and its lines.
///
/// # Errors
/// One line that names the line of the YAML.
pub(super) fn json_of(text: &str) -> Result<(Vec<u8>, Lines), String> {
    let mut yaml = Yaml::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|it| wrong(it.marker().line(), it.info()))?;
        yaml.take(event, span.start.line())?;
    }
    Ok((yaml.json, yaml.lines))
}

/// A text of YAML as far as it was read.
#[derive(Default)]
struct Yaml<'s> {
    json: Vec<u8>,
    lines: Lines,
    open: Vec<Open<'s>>,
}

/// A collection that has not ended.
enum Open<'s> {
    /// With whether something is in it.
    List(bool),
    /// With its keys, each with its line, and whether a key comes next.
    Map(Vec<(Cow<'s, str>, usize)>, bool),
}

impl<'s> Yaml<'s> {
    fn take(&mut self, event: Event<'s>, line: usize) -> Result<(), String> {
        match event {
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, _, Some(_))
            | Event::MappingStart(_, _, Some(_)) => Err(wrong(line, "it has a tag")),
            Event::Alias(_) => Err(wrong(line, "it has an alias")),
            Event::Scalar(text, style, ..) => self.scalar(text, style, line),
            Event::MappingStart(..) => self.begin(b'{', Open::Map(Vec::new(), true), line),
            Event::SequenceStart(..) if self.open.is_empty() => Err(wrong(line, NO_OBJECT)),
            Event::SequenceStart(..) => self.begin(b'[', Open::List(false), line),
            Event::SequenceEnd => self.end(b']', line),
            Event::MappingEnd => self.end(b'}', line),
            _ => Ok(()),
        }
    }

    /// A value comes: a key may not be one.
    fn value(&mut self, line: usize) -> Result<(), String> {
        match self.open.last_mut() {
            Some(Open::Map(_, true)) => return Err(wrong(line, "a key is no text")),
            Some(Open::Map(_, is_key)) => *is_key = true,
            Some(Open::List(true)) => self.json.push(b','),
            Some(Open::List(has_any)) => *has_any = true,
            None => {}
        }
        // Objects of a list stand in `items`.
        if self.open.len() <= 2 {
            self.lines.0.push((self.json.len() as u64, line));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: Cow<'s, str>,
        style: ScalarStyle,
        line: usize,
    ) -> Result<(), String> {
        let is_plain = style == ScalarStyle::Plain;
        let is_null = is_plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
        match self.open.last_mut() {
            // Nothing between two separators is no document.
            None if is_null => return Ok(()),
            None => return Err(wrong(line, NO_OBJECT)),
            Some(Open::Map(keys, is_key @ true)) => {
                *is_key = false;
                if !keys.is_empty() {
                    self.json.push(b',');
                }
                quote(&mut self.json, &text);
                self.json.push(b':');
                keys.push((text, line));
                return Ok(());
            }
            Some(_) => self.value(line)?,
        }
        match &*text {
            _ if is_null => self.json.extend(b"null"),
            "true" | "True" | "TRUE" if is_plain => self.json.extend(b"true"),
            "false" | "False" | "FALSE" if is_plain => self.json.extend(b"false"),
            _ if is_plain && is_number(&text) => self.json.extend(text.bytes()),
            _ => quote(&mut self.json, &text),
        }
        Ok(())
    }

    /// A collection begins.
    fn begin(&mut self, bracket: u8, open: Open<'s>, line: usize) -> Result<(), String> {
        self.value(line)?;
        self.json.push(bracket);
        self.open.push(open);
        Ok(())
    }

    /// A collection ends. A list that was cut off is YAML all the same, but lacks the keys that kubectl writes behind
    /// `items`.
    fn end(&mut self, bracket: u8, line: usize) -> Result<(), String> {
        self.json.push(bracket);
        let Some(Open::Map(mut keys, _)) = self.open.pop() else {
            return Ok(());
        };
        keys.sort();
        let mut pairs = keys.windows(2);
        if let Some([_, (key, line)]) = pairs.find(|pair| pair[0].0 == pair[1].0) {
            let reason = format!("{key:?} is there twice; `---` has to stand between documents");
            return Err(wrong(*line, reason));
        }
        let has = |key| keys.binary_search_by(|(it, _)| (**it).cmp(key)).is_ok();
        let is_cut_off = self.open.is_empty() && has("items") && !(has("kind") && has("metadata"));
        if is_cut_off {
            return Err(cut_off(&line_of(line)));
        }
        Ok(())
    }
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

const NO_OBJECT: &str = "it is no object";

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
