//! Makes other configurations of one: with other keys, values and places of them, seeded.

use std::fmt::Write as _;

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::Value;

use crate::corpus::{KEYS, VALUES};

/// JSON in which a key may stand twice, in any order.
#[derive(Clone, Debug)]
enum Node {
    Object(Vec<(String, Node)>),
    List(Vec<Node>),
    Leaf(String),
}

impl Node {
    fn of(value: &Value) -> Self {
        match value {
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| (key.clone(), Self::of(value)));
                Self::Object(members.collect())
            }
            Value::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            leaf => Self::Leaf(leaf.to_string()),
        }
    }

    fn parse(text: &str) -> Self {
        Self::of(&serde_json::from_str(text).unwrap())
    }

    fn write(&self, text: &mut String) {
        let comma = |at: usize| if at == 0 { "" } else { "," };
        match self {
            Self::Object(members) => {
                text.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    write!(text, "{}{}:", comma(at), Value::from(key.as_str())).unwrap();
                    value.write(text);
                }
                text.push('}');
            }
            Self::List(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    text.push_str(comma(at));
                    item.write(text);
                }
                text.push(']');
            }
            Self::Leaf(leaf) => text.push_str(leaf),
        }
    }

    fn count(&self) -> usize {
        let within: usize = match self {
            Self::Object(members) => members.iter().map(|(_, it)| it.count()).sum(),
            Self::List(items) => items.iter().map(Self::count).sum(),
            Self::Leaf(_) => 0,
        };
        within + 1
    }

    /// Does this to the node of this number.
    fn at(&mut self, number: &mut usize, act: &mut dyn FnMut(&mut Self)) {
        let is_it = *number == 0;
        *number = number.wrapping_sub(1);
        if is_it {
            return act(self);
        }
        match self {
            Self::Object(members) => members.iter_mut().for_each(|(_, it)| it.at(number, act)),
            Self::List(items) => items.iter_mut().for_each(|it| it.at(number, act)),
            Self::Leaf(_) => {}
        }
    }

    fn members(&mut self) -> &mut Vec<(String, Self)> {
        if !matches!(self, Self::Object(_)) {
            *self = Self::Object(Vec::new());
        }
        match self {
            Self::Object(members) => members,
            _ => unreachable!("it was made one"),
        }
    }
}

/// One mutant of this configuration.
pub fn mutate(base: &str, rng: &mut StdRng) -> String {
    let Ok(value) = serde_json::from_str(base) else {
        return damage(base, rng);
    };
    let mut node = Node::of(&value);
    for _ in 0..rng.random_range(1..=3) {
        change(&mut node, rng);
    }
    let mut text = String::new();
    node.write(&mut text);
    if rng.random_bool(0.02) {
        return damage(&text, rng);
    }
    text
}

/// One letter more, fewer, or another.
fn damage(text: &str, rng: &mut StdRng) -> String {
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

fn value(rng: &mut StdRng) -> Node {
    Node::parse(VALUES.choose(rng).unwrap())
}

fn change(whole: &mut Node, rng: &mut StdRng) {
    // The values that matter are mostly in objects.
    let count = whole.count();
    let kind = rng.random_range(0..10);
    for _ in 0..20 {
        let mut is_done = false;
        whole.at(&mut rng.random_range(0..count), &mut |node| {
            is_done = change_node(node, kind, rng);
        });
        if is_done {
            return;
        }
    }
    if kind == 9 {
        wrap(whole);
    }
}

/// Whether this kind of change could be made to this node.
fn change_node(node: &mut Node, kind: u32, rng: &mut StdRng) -> bool {
    match (kind, node) {
        (0 | 1, Node::Object(members)) if !members.is_empty() => {
            let at = rng.random_range(0..members.len());
            members[at].0 = in_other_case(&members[at].0, rng);
        }
        (2 | 3, Node::Object(members)) if !members.is_empty() => {
            let (key, own) = members.choose(rng).unwrap().clone();
            let key = if rng.random_bool(0.6) {
                in_other_case(&key, rng)
            } else {
                key
            };
            let twin = if rng.random_bool(0.3) {
                own
            } else {
                value(rng)
            };
            members.insert(rng.random_range(0..=members.len()), (key, twin));
        }
        (4, Node::Object(members)) if !members.is_empty() => {
            members.remove(rng.random_range(0..members.len()));
        }
        (5, Node::Object(members)) => {
            let key = (*KEYS.choose(rng).unwrap()).to_owned();
            members.insert(rng.random_range(0..=members.len()), (key, value(rng)));
        }
        (6, node @ Node::Leaf(_)) => *node = value(rng),
        (7, Node::Leaf(leaf)) if leaf.starts_with('"') && leaf.len() > 2 => {
            *leaf = typed(leaf, rng);
        }
        (8, Node::List(items)) => items.insert(rng.random_range(0..=items.len()), value(rng)),
        (8, Node::Object(members)) if members.len() > 1 => {
            let at = rng.random_range(1..members.len());
            members.rotate_left(at);
        }
        _ => return false,
    }
    true
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
fn wrap(whole: &mut Node) {
    let mut plugin = std::mem::replace(whole, Node::Object(Vec::new()));
    let is_list = plugin.members().iter().any(|(key, _)| key == "plugins");
    if is_list {
        *whole = plugin;
        return;
    }
    let mut name = plugin.members().clone();
    name.retain(|(key, _)| key == "name");
    name.push(("plugins".to_owned(), Node::List(vec![plugin])));
    *whole.members() = name;
}
