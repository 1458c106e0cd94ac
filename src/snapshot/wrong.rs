//! The errors of a text that is no dump. One line each, which names the place.

use std::fmt;

/// The error of a text that ends within an object or a list.
pub(super) fn cut_off(place: &str) -> String {
    format!("ends in the middle of its text, at {place}: it was cut off")
}

/// The error of a text that has something else than objects.
pub(super) fn syntax(form: &str, place: &str, reason: impl fmt::Display) -> String {
    format!("is not what kubectl get -o {form} writes, at {place}: {reason}")
}
