//! How full all pools are, for people: a line with a bar for each pool, and for each part of one.

use std::{io, iter, time::Duration};

use ipgc_core::text::clean;

use super::{
    grid::{bar, coloured, legend},
    report::{PartUsage, PoolUsage, Report},
    table::{shown, write_rows},
    words,
};

/// How the table is to look.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The cells of a line.
    pub width: usize,
    /// Whether signs have colours.
    pub colours: bool,
    /// Whether it has all columns.
    pub wide: bool,
}

/// A bar that is shorter tells nothing: where names leave less, lines are wider than the terminal.
const SHORTEST: usize = 10;
/// With more blanks between the columns, usual names would leave no room for a bar on a terminal of 80 cells.
const GAP: usize = 2;

/// The columns before the bar. The range stands for the name of a pool, which adds a network and a node at the most.
const COLUMNS: [&str; 12] = [
    "POOL", "RANGE", "NETWORK", "SIZE", "LIVE", "HELD", "STALE", "UNKNOWN", "FREE", "FULL",
    "OLDEST", "WAITS",
];
/// Those of wide tables only: the bar shows the counts.
const WIDE: [&str; 6] = ["POOL", "LIVE", "HELD", "STALE", "UNKNOWN", "FULL"];

/// Writes the pools of a report as lines of a table, and the meaning of the signs.
///
/// # Errors
/// Those of `writer`.
pub fn write_pools(report: &Report, style: Style, writer: &mut impl io::Write) -> io::Result<()> {
    let usages = report.pools.iter().flat_map(|pool| {
        let parts = pool.parts.iter().map(move |part| as_usage(pool, part));
        iter::once(pool.clone()).chain(parts)
    });
    let usages: Vec<_> = usages.collect();
    let mut rows = vec![chosen(COLUMNS.map(str::to_owned), style)];
    let is_alone = |it: &PoolUsage| {
        let alike = report.pools.iter().filter(|pool| pool.range == it.range);
        alike.count() < 2
    };
    rows.extend(usages.iter().map(|it| cells(it, is_alone(it), style)));
    let mut widths = Vec::new();
    write_rows(rows.iter().cloned(), &mut widths, GAP, &mut io::sink())?;
    let before: usize = widths.iter().map(|width| width + GAP).sum();
    let width = style.width.saturating_sub(before).max(SHORTEST);
    let bars = usages.iter().map(|it| picture(it, width, style.colours));
    let bars = iter::once("USE".to_owned()).chain(bars);
    for (row, bar) in rows.iter_mut().zip(bars) {
        row.push(bar);
    }
    write_rows(rows.into_iter(), &mut widths, GAP, writer)?;
    writeln!(writer, "\n{}", legend(5))?;
    for note in &report.notes {
        writeln!(writer, "note: {}", clean(note))?;
    }
    Ok(())
}

/// Of a cell for each column those that the table has.
fn chosen(all: [String; COLUMNS.len()], style: Style) -> Vec<String> {
    let all = COLUMNS.iter().zip(all);
    let chosen = all.filter(|(title, _)| style.wide || !WIDE.contains(title));
    chosen.map(|(_, cell)| cell).collect()
}

/// The range of a pool names it, if it is alone with it.
fn cells(pool: &PoolUsage, is_alone: bool, style: Style) -> Vec<String> {
    let name = format!("{}/{}", pool.namespace, pool.name);
    let number = |count: u64| match count {
        // A range of IPv6 has more addresses than anybody counts.
        1_000_000_000.. if !style.wide => format!("{count:.1e}"),
        _ => count.to_string(),
    };
    let counts = pool.split.signs();
    let [live, held, dead, unknown] = counts.map(|(_, count)| Some(count.to_string()));
    let all = [
        Some(name.clone()),
        pool.range
            .clone()
            .filter(|_| style.wide || is_alone)
            .or((!style.wide).then_some(name)),
        few(&pool.definitions, style),
        pool.size.map(number),
        live,
        held,
        dead,
        unknown,
        pool.free.map(number),
        full(pool.free, pool.size),
        pool.oldest_stale_seconds.map(age),
        waits(pool, style),
    ];
    chosen(all.map(shown), style)
}

/// A part of a pool's range, as if it were a pool.
fn as_usage(pool: &PoolUsage, part: &PartUsage) -> PoolUsage {
    let first = part.first.as_deref().unwrap_or("first");
    let last = part.last.as_deref().unwrap_or("last");
    PoolUsage {
        namespace: pool.namespace.clone(),
        name: pool.name.clone(),
        range: Some(format!("  {first} to {last}")),
        definitions: part.definitions.clone(),
        size: Some(part.size),
        free: Some(part.size.saturating_sub(part.split.rows() as u64)),
        split: part.split,
        taken: part.split,
        ..PoolUsage::default()
    }
}

fn few(names: &[String], style: Style) -> Option<String> {
    match names {
        [] => None,
        [first, rest @ ..] if !style.wide && !rest.is_empty() => {
            Some(format!("{first} +{}", rest.len()))
        }
        all => Some(all.join(",")),
    }
}

fn full(free: Option<u64>, size: Option<u64>) -> Option<String> {
    let (free, size) = free.zip(size.filter(|size| *size > 0))?;
    let taken = size.saturating_sub(free);
    Some(format!("{}%", u128::from(taken) * 100 / u128::from(size)))
}

/// An age in its largest unit, rounded down.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The time until the last stale row goes, and the nodes that hold others.
fn waits(pool: &PoolUsage, style: Style) -> Option<String> {
    let wait = pool.wait_seconds.map(Duration::from_secs);
    let wait = wait.map(words::duration);
    let nodes = few(&pool.nodes, style);
    let all: Vec<_> = wait.into_iter().chain(nodes).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn picture(usage: &PoolUsage, width: usize, colours: bool) -> String {
    let bar = bar(usage, width).into_iter();
    let picture = bar.map(|(sign, cells)| sign.look().character.to_string().repeat(cells));
    match picture.collect::<String>() {
        none if none.is_empty() => "-".to_owned(),
        picture if colours => coloured(&picture),
        picture => picture,
    }
}
