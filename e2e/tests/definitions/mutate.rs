//! Makes other configurations of one: with other keys, values and places of them, seeded. It works on the text, since in
//! JSON a key may stand twice.

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::Value;

use crate::corpus::{KEYS, VALUES};

/// One mutant of this configuration.
pub fn mutate(base: &str, rng: &mut StdRng) -> String {
    let mut text = base.to_owned();
    if serde_json::from_str::<Value>(base).is_ok() {
        for _ in 0..rng.random_range(1..=3) {
            text = changed(&text, rng);
        }
        if !rng.random_bool(0.02) {
            return text;
        }
    }
    damaged(&text, rng)
}

/// The text in its parts: strings with their quotes, other values, and single signs.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let (mut is_string, mut is_escaped, mut is_value) = (false, false, false);
    for letter in text.chars() {
        let is_of_value = letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let goes_on = is_string || is_value && is_of_value;
        if is_string {
            is_string = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
        } else {
            is_string = letter == '"';
            is_value = is_of_value;
        }
        match parts.last_mut().filter(|_| goes_on) {
            Some(part) => part.push(letter),
            None => parts.push(letter.into()),
        }
    }
    parts
}

/// Whether the part at this place is a key.
fn is_key(parts: &[String], at: usize) -> bool {
    parts[at].starts_with('"') && parts.get(at + 1).is_some_and(|next| next == ":")
}

/// The text with one change, of a kind and at a place by chance, if that kind can be there.
fn changed(text: &str, rng: &mut StdRng) -> String {
    let kind = rng.random_range(0..10);
    if kind == 9 {
        return wrapped(text);
    }
    let mut parts = parts(text);
    for _ in 0..20 {
        let at = rng.random_range(0..parts.len());
        if let Some(change) = change(&parts, at, kind, rng) {
            parts[at] = change;
            break;
        }
    }
    parts.concat()
}

/// What comes in the place of this part.
fn change(parts: &[String], at: usize, kind: u32, rng: &mut StdRng) -> Option<String> {
    let part = &*parts[at];
    let value = *VALUES.choose(rng)?;
    let is_leaf = part.len() > 1 || part.chars().all(|letter| letter.is_ascii_digit());
    let keys = (0..parts.len()).filter(|at| is_key(parts, *at));
    let keys: Vec<_> = keys.map(|at| &*parts[at]).collect();
    let comma = |is_empty: bool| if is_empty { "" } else { "," };
    Some(match (kind, part) {
        (0 | 1, key) if is_key(parts, at) => in_other_case(key, rng),
        // An equal key before.
        (2, key) if is_key(parts, at) => format!("{}:{value},{key}", twin(key, rng)),
        // A key, mostly one that is there already, behind all others of an object.
        (3, "}") => {
            let comma = comma(parts[at - 1] == "{");
            format!("{comma}{}:{value}}}", twin(keys.choose(rng)?, rng))
        }
        (4, _) if is_key(parts, at) => r#""none""#.to_owned(),
        (5, "{") => {
            let comma = comma(parts[at + 1] == "}");
            format!("{{\"{}\":{value}{comma}", KEYS.choose(rng)?)
        }
        (6, _) if is_leaf && !is_key(parts, at) => value.to_owned(),
        (7, leaf) if is_leaf && leaf.starts_with('"') && leaf.len() > 2 => typed(leaf, rng),
        (8, "[") => format!("[{value}{}", comma(parts[at + 1] == "]")),
        _ => return None,
    })
}

/// The key, mostly in another case.
fn twin(key: &str, rng: &mut StdRng) -> String {
    if rng.random_bool(0.6) {
        in_other_case(key, rng)
    } else {
        key.to_owned()
    }
}

/// One letter more, fewer, or another.
fn damaged(text: &str, rng: &mut StdRng) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    let at = rng.random_range(0..=letters.len());
    let letter = *['{', '}', '"', ',', ':', '[', '0', ' ', '\\', 'x']
        .choose(rng)
        .unwrap();
    match rng.random_range(0..3) {
        0 => letters.insert(at, letter),
        1 if at < letters.len() => letters[at] = letter,
        _ => drop(letters.drain(at..(at + 1).min(letters.len()))),
    }
    letters.into_iter().collect()
}

/// The key with some of its letters in the other case; seldom with one of the letters beyond ASCII that are k and s.
fn in_other_case(key: &str, rng: &mut StdRng) -> String {
    let letters = key.chars().map(|letter| match letter {
        's' if rng.random_bool(0.1) => '\u{17f}',
        'k' if rng.random_bool(0.1) => '\u{212a}',
        letter if rng.random_bool(0.7) => letter,
        letter if letter.is_ascii_lowercase() => letter.to_ascii_uppercase(),
        letter => letter.to_ascii_lowercase(),
    });
    letters.collect()
}

/// The text as somebody may have typed it.
fn typed(leaf: &str, rng: &mut StdRng) -> String {
    let mut letters: Vec<char> = leaf.chars().collect();
    let at = rng.random_range(1..letters.len());
    match rng.random_range(0..4) {
        0 => letters.insert(at, '0'),
        1 => letters.insert(
            at,
            *['-', '/', ' ', '.', ':', '1', 'F'].choose(rng).unwrap(),
        ),
        2 if at + 1 < letters.len() => drop(letters.remove(at)),
        _ => letters
            .iter_mut()
            .for_each(|letter| *letter = letter.to_ascii_uppercase()),
    }
    letters.into_iter().collect()
}

/// One plugin as a list of one; a list stays as it is.
fn wrapped(text: &str) -> String {
    let whole: Value = serde_json::from_str(text).unwrap_or_default();
    if !whole.is_object() || whole.get("plugins").is_some() {
        return text.to_owned();
    }
    let name = whole.get("name").map(|name| format!("\"name\":{name},"));
    format!("{{{}\"plugins\":[{text}]}}", name.unwrap_or_default())
}
