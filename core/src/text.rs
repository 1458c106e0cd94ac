//! Texts of others: borrowed from JSON, not copied; and how messages quote them.

use std::{borrow::Cow, ops::Deref};

use serde::{Deserialize, Deserializer};

/// A text that is borrowed from the input unless it has escapes: serde's own `Option<Cow<str>>`
/// never borrows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Reads a field that has to be there in full once it is there at all: null is no value of it.
///
/// # Errors
/// When it is not of its type.
pub(crate) fn not_null<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// At most 80 bytes of a foreign text, cut on a character boundary, for messages.
pub fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}

/// A text whose control characters, and characters that turn or hide text, are escaped.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_unseen(c) {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Joiners, marks and overrides of direction, separators of lines, tags and the like.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
