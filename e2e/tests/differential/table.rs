//! The table of the addresses that each collector freed: made once, printed once, checked state by state.

use std::{fmt::Write as _, io::Write as _};

use e2e::{Error, Result};
use tokio::sync::OnceCell;

use crate::{
    all,
    sides::{Outcomes, Side, observe},
    states::{Outcome, State},
};

/// The columns.
const SIDES: [(Side, &str); 3] = [
    (Side::ControlLoop, "upstream's loop"),
    (Side::Reconciler, "upstream's reconciler"),
    (Side::Ipgc, "ipgc"),
];

/// All states, and what became of them.
struct Table {
    states: Vec<State>,
    outcomes: Outcomes,
}

/// Fails if a side did not do in this state what is expected of it.
pub async fn check(state: &str) -> Result<()> {
    // A failure is kept as well: no other test should take minutes to find the same.
    static TABLE: OnceCell<Option<Table>> = OnceCell::const_new();
    let table = TABLE.get_or_init(|| async {
        let states = all();
        let made = observe(&states).await;
        let made = made.map(|outcomes| Table { states, outcomes });
        let text = match &made {
            Ok(table) => table.text(),
            Err(error) => format!("\n{error}\n"),
        };
        // Not through `print`, which shows a test's words only if that test fails; and not once for
        // each test.
        std::io::stderr().write_all(text.as_bytes()).ok();
        made.ok()
    });
    let table = table.await.as_ref().ok_or_else(|| {
        Error::Other("the states could not be brought about, as said above".into())
    })?;
    let wrong = table.wrong(state);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::Other(wrong))
}

impl Table {
    /// The outcome for the address at a position of a state; none where the side was not there.
    fn outcome(&self, side: Side, state: &State, position: usize) -> Option<Outcome> {
        self.outcomes.get(&(side, state.number, position)).copied()
    }

    /// The cells of a state that are not as expected, one a line.
    fn wrong(&self, name: &str) -> String {
        let state = self.states.iter().find(|state| state.name == name).unwrap();
        let mut wrong = String::new();
        for (position, address) in state.addresses.iter().enumerate() {
            for (side, title) in SIDES {
                let expected = side.expected(address);
                let seen = self.outcome(side, state, position);
                if expected != seen {
                    let show = |outcome: Option<Outcome>| {
                        outcome.map_or_else(|| "nothing".to_owned(), |outcome| outcome.to_string())
                    };
                    let (ip, seen, expected) = (state.ip(address), show(seen), show(expected));
                    writeln!(wrong, "{title}: {ip} is {seen}, expected: {expected}").unwrap();
                }
            }
        }
        wrong
    }

    /// The whole for people, an address a line. An outcome with `✗` is not what is right.
    fn text(&self) -> String {
        let mut text = String::from("\n");
        for state in &self.states {
            for (position, address) in state.addresses.iter().enumerate() {
                let (name, ip) = (state.name.replace('_', " "), state.ip(address));
                write!(text, "{name}, {ip}: {}", address.right).unwrap();
                for (side, title) in SIDES {
                    match self.outcome(side, state, position) {
                        None => {}
                        Some(outcome) if outcome == address.right => {
                            write!(text, "; {title}: {outcome}").unwrap();
                        }
                        Some(outcome) => write!(text, "; {title}: {outcome} ✗").unwrap(),
                    }
                }
                text.push('\n');
            }
        }
        text
    }
}
