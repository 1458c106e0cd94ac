//! Reports to others: Kubernetes Events, counters, and the numbers of a sweep. Nothing here decides or retries.

mod counters;
mod events;
mod requests;
mod sweep;

pub use self::{
    counters::{Counter, Counters, TRIGGERS},
    events::{CLAIMS_FORBIDDEN, COLLECTED, Events, FAILED, channel},
    requests::{Requests, counted},
    sweep::{NODES_SHOWN, PoolTally, SweepReport},
};

/// Most names that are told of one kind of thing: a thousand of them help nobody.
pub const NAMED: usize = 4;

/// The first of these names, and how many there are beyond.
pub fn names<T: AsRef<str>>(names: &[T]) -> String {
    let few: Vec<_> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let text = few.join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_told() {
        let all = ["a", "b", "c", "d", "e", "f"];
        assert_eq!(names(&all[..1]), "a");
        assert_eq!(names(&all[..4]), "a, b, c, d");
        assert_eq!(names(&all), "a, b, c, d and 2 more");
    }
}
