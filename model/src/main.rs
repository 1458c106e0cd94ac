//! Prints the courses of events.
#![allow(clippy::print_stdout)]
use ipgc_model::{check, model::Goal, scenarios};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("all") => {
    let only = std::env::args().nth(2);
    for s in scenarios::all() {
        if only.as_deref().is_none_or(|o| o == s.name) {
        println!("{}", check::check(&s));
        }
    }
        }
        only => {
    for (m, s, g) in scenarios::mutants() {
        if only.is_some_and(|o| o != s.name) { continue; }
        println!("### {m} ({})", s.name);
        match check::shortest(&s.without(m), g) { Some(l) => for l in l { println!("  {l}") }, None => println!("NONE") }
    }
    for (m, s) in scenarios::assumptions() {
        if only.is_some_and(|o| o != s.name) { continue; }
        println!("### {m} ({})", s.name);
        match check::shortest(&s.dropping(m), Goal::Doubled) { Some(l) => for l in l { println!("  {l}") }, None => println!("NONE") }
    }
    }}
}
