//! Prints the courses of events.
#![allow(clippy::print_stdout)]

fn main() {
    println!("{}", ipgc_model::check::check(&ipgc_model::scenarios::successor()));
}
