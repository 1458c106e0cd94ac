//! A pool as a picture of signs: a bar of how full it is, and a grid of its addresses. Both read without colour.

use std::net::IpAddr;

use ipgc_core::{address::number, judge::Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    assess::{Assessor, Item, Judged},
    index::Place,
    report::{PoolUsage, Split},
};

/// More cells are no picture any more: then a cell stands for several addresses.
const CELLS: u128 = 4_096;
/// Of larger ranges at least so much is shown as holds the highest row, rounded up to a power of two.
const WHOLE: u128 = 65_536;

/// The cells of a line of text, where they fit.
const LINE: usize = 64;

/// The state of an address, or of the worst one in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// No definition hands it out.
    Excluded,
    /// Nothing has it.
    Free,
    /// It has a reservation and no row.
    Reserved,
    /// A pod uses it.
    Live,
    /// It is held for another reason, or by a node.
    Held,
    /// Nobody can tell whether it is needed, or a person exempted it.
    Unknown,
    /// Nobody needs it.
    Stale,
}

impl Sign {
    /// All of them, in the order of a legend.
    pub const ALL: [Self; 7] = [
        Self::Live,
        Self::Held,
        Self::Stale,
        Self::Unknown,
        Self::Free,
        Self::Reserved,
        Self::Excluded,
    ];

    /// Of a row with its verdict, or of a reservation without a row.
    pub(super) fn of(it: &Judged<'_>) -> Self {
        match it.verdict.word() {
            _ if matches!(it.item, Item::Reservation(..)) => Self::Reserved,
            Word::Live => Self::Live,
            Word::Unreported | Word::Unfenced => Self::Held,
            Word::Stale => Self::Stale,
            Word::Unknown => Self::Unknown,
        }
    }

    pub(super) fn look(self) -> Look {
        let (character, word, letter, colour) = match self {
            Self::Live => ('█', "live", "", 32),
            Self::Held => ('▓', "held", "H", 33),
            Self::Stale => ('▒', "stale", "S", 31),
            Self::Unknown => ('?', "unknown", "?", 35),
            Self::Free => ('·', "free", "", 2),
            Self::Reserved => ('○', "reserved", "", 33),
            Self::Excluded => ('×', "excluded", "×", 2),
        };
        Look {
            character,
            word,
            letter,
            colour,
        }
    }
}

/// How a sign looks.
pub(super) struct Look {
    pub character: char,
    pub word: &'static str,
    /// In a cell of the page, for whom colours tell nothing.
    pub letter: &'static str,
    /// Of a terminal's own palette.
    pub colour: u8,
}

/// A text of signs, each in its colour.
pub(super) fn coloured(text: &str) -> String {
    let looks = Sign::ALL.map(Sign::look);
    let cells: Vec<char> = text.chars().collect();
    let runs = cells.chunk_by(|a, b| a == b).map(|run| {
        let text: String = run.iter().collect();
        match looks.iter().find(|it| run.contains(&it.character)) {
            Some(it) => format!("\x1b[{}m{text}\x1b[0m", it.colour),
            None => text,
        }
    });
    runs.collect()
}

/// Which sign means which: `█ live, ▓ held, …`.
pub fn legend(signs: usize) -> String {
    let looks = Sign::ALL.into_iter().take(signs).map(Sign::look);
    let all = looks.map(|it| format!("{} {}", it.character, it.word));
    all.collect::<Vec<_>>().join(", ")
}

impl Split {
    /// The rows by the sign of their verdicts, in the order of a bar.
    pub fn signs(&self) -> [(Sign, usize); 4] {
        [
            (Sign::Live, self.live),
            (Sign::Held, self.unreported + self.unfenced),
            (Sign::Stale, self.stale),
            (Sign::Unknown, self.unknown),
        ]
    }
}

/// How many cells of a bar each sign has, the free addresses last. A sign that
/// stands for a row at all has one cell at least; nothing has a bar of no cells.
pub fn bar(usage: &PoolUsage, width: usize) -> Vec<(Sign, usize)> {
    let filling = usage.filling();
    let rows = filling.rows() as u128;
    let size = u128::from(usage.size.unwrap_or(0)).max(rows);
    if size == 0 {
        return Vec::new();
    }
    let cells = |count: usize| {
        let share = (count as u128 * width as u128).div_ceil(size);
        usize::try_from(share).unwrap_or(width)
    };
    let bar = filling.signs().map(|(sign, count)| (sign, cells(count)));
    let mut bar = bar.to_vec();
    // Rounding up may take more than there is, or the last cell of what is free.
    let most = width - usize::from(rows < size && width > bar.len());
    while bar.iter().map(|(_, cells)| cells).sum::<usize>() > most {
        if let Some((_, largest)) = bar.iter_mut().max_by_key(|(_, cells)| *cells) {
            *largest -= 1;
        }
    }
    let taken: usize = bar.iter().map(|(_, cells)| cells).sum();
    bar.push((Sign::Free, width - taken));
    bar
}

/// The addresses of a range, lowest first.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Grid {
    /// The first address.
    pub first: String,
    /// How many addresses a cell stands for.
    pub each: u64,
    /// A sign for each cell: █ live, ▓ held, ▒ stale, ? unknown, · free, ○ reserved without a row, × never handed out. Of
    /// several addresses it is the worst.
    pub cells: String,
    /// So many addresses follow, none of them with a row.
    pub rest: u64,
}

fn address(number: u128) -> IpAddr {
    IpAddr::V6(number.into()).to_canonical()
}

impl Grid {
    /// The grid of a pool whose range can be read, with its rows and the reservations without a row that would be in it.
    pub(super) fn of(
        assessor: &Assessor<'_>,
        place: &Place,
        rows: &[Judged<'_>],
        lone: &[Judged<'_>],
    ) -> Option<Self> {
        let range = place.pool.range?;
        let (first, last) = range.first_and_last();
        let count = (number(last.0) - number(first)).saturating_add(1);
        let inside = |it: IpAddr| range.contains(it).then(|| number(it) - number(first));
        let taken = rows.iter().chain(lone);
        let taken = taken.filter_map(|it| Some((inside(it.address?)?, Sign::of(it))));
        let taken: Vec<_> = taken.collect();
        let highest = taken.iter().map(|(at, _)| at.saturating_add(1)).max();
        let wanted = highest.unwrap_or_default().max(CELLS);
        let shown = match wanted.checked_next_power_of_two() {
            Some(wanted) if count > WHOLE => wanted.min(count),
            _ => count,
        };
        let each = shown.div_ceil(CELLS);
        // A cell of more addresses tells nothing.
        let each_of = u64::try_from(each).ok()?;
        let cells = shown.div_ceil(each);
        let leading = assessor.leading(place);
        let without_rows = |at: u128| {
            let begin = number(first).saturating_add(at * each);
            let end = begin.saturating_add(each - 1).min(number(last.0));
            let (begin, end) = (address(begin), address(end));
            let is_edge = begin == end && (begin == first || begin == last.0);
            if is_edge || leading.is_some_and(|it| it.hands_out_none(begin, end)) {
                Sign::Excluded
            } else {
                Sign::Free
            }
        };
        let mut signs: Vec<_> = (0..cells).map(without_rows).collect();
        for (at, sign) in taken {
            let cell = usize::try_from(at / each).ok();
            if let Some(cell) = cell.and_then(|at| signs.get_mut(at)) {
                *cell = sign.max(*cell);
            }
        }
        Some(Self {
            first: first.to_string(),
            each: each_of,
            cells: signs.iter().map(|it| it.look().character).collect(),
            rest: u64::try_from(count - shown).unwrap_or(u64::MAX),
        })
    }

    /// The cell of an address, if it is one of so many.
    pub(super) fn cell(&self, address: IpAddr, cells: usize) -> Option<usize> {
        let first = self.first.parse().ok().map(number)?;
        let at = number(address).checked_sub(first)? / u128::from(self.each);
        usize::try_from(at).ok().filter(|at| *at < cells)
    }

    /// The grid in lines of text, each after its first address. On a terminal that is too narrow for them they have half as
    /// many cells.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let lines = self.lines_of(LINE);
        if lines.iter().any(|line| line.chars().count() > width) {
            return self.lines_of(LINE / 2);
        }
        lines
    }

    fn lines_of(&self, line: usize) -> Vec<String> {
        let Ok(first) = self.first.parse::<IpAddr>() else {
            return Vec::new();
        };
        let cells: Vec<char> = self.cells.chars().collect();
        let starts = (0..cells.len()).step_by(line).map(|at| {
            let of = number(first) + at as u128 * u128::from(self.each);
            address(of).to_string()
        });
        let starts: Vec<_> = starts.collect();
        let widest = starts.iter().map(String::len).max().unwrap_or_default();
        let lines = starts.iter().zip(cells.chunks(line));
        lines
            .map(|(start, cells)| {
                let cells: String = cells.iter().collect();
                format!("{start:<widest$}  {cells}")
            })
            .collect()
    }
}
