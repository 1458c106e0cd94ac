//! How full all pools are, for people: a line with a bar for each pool, and for each part of one.

use std::{io, time::Duration};

use ipgc_core::text::clean;

use super::{
    grid::{bar, legend},
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

/// A bar that is shorter tells nothing.
const SHORTEST: usize = 10;
const LONGEST: usize = 100;

/// Writes the pools of a report as lines of a table, and the meaning of the signs.
///
/// # Errors
/// Those of `writer`.
pub fn write_pools(report: &Report, style: Style, writer: &mut impl io::Write) -> io::Result<()> {
    let mut rows = vec![titles(style)];
    let mut bars = vec!["USE".to_owned()];
    let mut usages = Vec::new();
    for pool in &report.pools {
        let title = format!("{}/{}", pool.namespace, pool.name);
        rows.push(cells(title, pool, style));
        usages.push(pool.clone());
        for part in &pool.parts {
            // It is one of the pool above it.
            let first = part.first.as_deref().unwrap_or("first");
            let last = part.last.as_deref().unwrap_or("last");
            let usage = as_usage(part);
            rows.push(cells(format!("  {first} to {last}"), &usage, style));
            usages.push(usage);
        }
    }
    let mut widths = Vec::new();
    write_rows(rows.iter().cloned(), &mut widths, &mut io::sink())?;
    let before: usize = widths.iter().map(|width| width + 3).sum();
    let width = style.width.saturating_sub(before).clamp(SHORTEST, LONGEST);
    bars.extend(
        usages
            .iter()
            .map(|usage| picture(usage, width, style.colours)),
    );
    for (row, bar) in rows.iter_mut().zip(bars) {
        row.push(bar);
    }
    write_rows(rows.into_iter(), &mut widths, writer)?;
    writeln!(writer, "\n{}", legend(5))?;
    for note in &report.notes {
        writeln!(writer, "note: {}", clean(note))?;
    }
    Ok(())
}

fn titles(style: Style) -> Vec<String> {
    let all = "POOL DEFINITION SIZE LIVE HELD STALE UNKNOWN FREE FULL OLDEST WAITS";
    let mut all: Vec<_> = all.split(' ').map(str::to_owned).collect();
    if style.wide {
        all.insert(1, "RANGE".to_owned());
    }
    all
}

fn cells(title: String, pool: &PoolUsage, style: Style) -> Vec<String> {
    let number = |number: Option<u64>| number.map(|it| it.to_string());
    let mut cells = vec![shown(Some(title))];
    if style.wide {
        cells.push(shown(pool.range.clone()));
    }
    cells.push(shown(few(&pool.definitions, style)));
    cells.push(shown(number(pool.size)));
    cells.extend(pool.split.signs().map(|(_, count)| count.to_string()));
    cells.push(shown(number(pool.free)));
    cells.push(shown(full(pool.free, pool.size)));
    cells.push(shown(pool.oldest_stale_seconds.map(age)));
    cells.push(shown(waits(pool, style)));
    cells
}

fn as_usage(part: &PartUsage) -> PoolUsage {
    PoolUsage {
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
    let cells = bar(usage, width)
        .into_iter()
        .filter(|(_, cells)| *cells > 0);
    let cells = cells.map(|(sign, cells)| {
        let sign = sign.look();
        let text = sign.character.to_string().repeat(cells);
        if colours {
            format!("\x1b[{}m{text}\x1b[0m", sign.colour)
        } else {
            text
        }
    });
    let picture: String = cells.collect();
    if picture.is_empty() {
        "-".to_owned()
    } else {
        picture
    }
}
