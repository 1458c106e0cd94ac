//! `ipgc audit -o html`: a report as one page, which needs nothing from elsewhere and reads without a script too.
//!
//! ```text
//! Report ─▶ totals, findings, bars ─┐
//! Snapshot ─▶ grid and rows ─▶ data ┴▶ page.html, at its {{places}}, with page.css and page.js inside
//! ```
//!
//! All foreign text is escaped here, or set as text by the script. Nothing is decided.

use std::{collections::HashMap, io, path::PathBuf};

use ipgc_core::{evidence::Policy, pool::PoolKey, text::clean};
use serde_json::{Value, json};

use super::{
    assess::{Assessor, Item, Judged},
    grid::{Grid, Look, Sign, bar},
    report::{Finding, PoolUsage, Report, Source},
    table::names,
    words,
};
use crate::snapshot::Snapshot;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A longer table is no help; `-o json` has all of it.
const FINDINGS: usize = 500;

/// The grids of more pools are too many sheets of paper.
const PRINTED: usize = 50;

/// Writes the page of a report, with what the snapshot says of each address of its pools. Its commands read these files, or
/// the cluster if there are none.
///
/// # Errors
/// Those of `output`.
pub fn write_page(
    report: &Report,
    snapshot: &Snapshot,
    policy: &Policy,
    files: &[PathBuf],
    output: &mut impl io::Write,
) -> io::Result<()> {
    let (grids, data) = data(report, snapshot, policy, files);
    let mut parts = PAGE.split("{{");
    write!(output, "{}", parts.next().unwrap_or_default())?;
    for (place, after) in parts.filter_map(|part| part.split_once("}}")) {
        let part = match place {
            "style" => STYLE.to_owned(),
            "script" => SCRIPT.to_owned(),
            "made" => escaped(&report.made),
            "source" => match report.source {
                Source::Cluster => "Source: the cluster".to_owned(),
                Source::Files => "Source: files".to_owned(),
            },
            "totals" => totals(report),
            "notes" => all(report.notes.iter(), |note| {
                format!("<p class=soft>Note: {}</p>", escaped(note))
            }),
            "findings" => findings(report),
            "key" => all(Sign::ALL.map(Sign::look).iter(), |it| {
                let (sign, word, letter) = (it.character, it.word, it.letter);
                format!("<span><i class={word} aria-hidden=true>{letter}</i>{sign} {word}</span>")
            }),
            "printed" if report.pools.len() <= PRINTED => String::new(),
            "printed" => format!(
                "<p class=printed>Of more than {PRINTED} pools only open grids are printed.</p>"
            ),
            "pools" => all(
                report.pools.iter().zip(&grids).enumerate(),
                |(at, (usage, grid))| of_pool(at, usage, grid.as_ref()),
            ),
            _ => data.clone(),
        };
        write!(output, "{part}{after}")?;
    }
    Ok(())
}

/// The texts of all of these, one behind the other.
fn all<T>(them: impl Iterator<Item = T>, text: impl Fn(T) -> String) -> String {
    them.map(text).collect()
}

/// The grids of the pools, in the order of the report; and all that the script reads.
fn data(
    report: &Report,
    snapshot: &Snapshot,
    policy: &Policy,
    files: &[PathBuf],
) -> (Vec<Option<Grid>>, String) {
    let assessor = Assessor::new(snapshot, policy);
    // Texts that many rows share, each with its place in the list of them.
    let mut texts = HashMap::new();
    let usages = report.pools.iter().enumerate();
    let places = usages.map(|(at, it)| ((&*it.namespace, &*it.name), at));
    let places: HashMap<_, _> = places.collect();
    let mut grids = vec![None; report.pools.len()];
    let mut pools = vec![Value::Null; report.pools.len()];
    assessor.each_pool(|place, rows, lone| {
        let PoolKey { namespace, name } = place.pool.key();
        let Some(at) = places.get(&(&**namespace, &**name)) else {
            return;
        };
        let grid = Grid::of(&assessor, place, rows, lone);
        let cells = grid.as_ref().map_or(0, |it| it.cells.chars().count());
        let rows = rows.iter().chain(lone).map(|it| {
            let cell = grid.as_ref().zip(it.address);
            let cell = cell.and_then(|(grid, address)| grid.cell(address, cells));
            told(&assessor, it, cell, &mut texts)
        });
        let rows = rows.collect();
        let grid_of = grid.as_ref();
        pools[*at] = json!({
            "name": clean(&place.pool.key().to_string()),
            "first": grid_of.map(|it| &it.first),
            "each": grid_of.map(|it| it.each.to_string()),
            "command": words::explain_pool(namespace, name),
        });
        pools[*at]["rows"] = rows;
        grids[*at] = grid;
    });
    let signs = Sign::ALL.map(Sign::look);
    let signs = signs.map(|it| (it.character.to_string(), json!([it.word, it.letter])));
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_unstable_by_key(|(_, place)| *place);
    let texts = texts.into_iter().map(|(text, _)| text);
    let mut data = json!({
        "texts": texts.collect::<Vec<_>>(),
        "signs": signs.into_iter().collect::<serde_json::Map<_, _>>(),
        "from": words::from_files(files),
    });
    data["pools"] = pools.into();
    // In JSON it only stands within texts, and would end the element.
    (grids, data.to_string().replace('<', "\\u003c"))
}

/// A row, or a reservation without one, as the script reads it.
fn told(
    assessor: &Assessor<'_>,
    it: &Judged<'_>,
    cell: Option<usize>,
    texts: &mut HashMap<String, usize>,
) -> Value {
    let owner = it.owner();
    let pod = assessor.snapshot.pod(owner);
    let node = pod.and_then(|pod| pod.node.as_deref());
    let node = node.or(it.slice());
    let since = pod.and_then(|pod| pod.since);
    let since = since.or_else(|| assessor.reserved_since(it));
    let since = since.map(|since| since.to_string());
    let word = it.verdict.word().as_str();
    let (state, key) = match &it.item {
        Item::Row(_, row) => (word.to_owned(), row.key()),
        Item::Reservation(..) => (format!("reserved, {word}"), ""),
    };
    // Of a stale row the reason tells until when it waits.
    let (reason, changes) = (assessor.reason_of(&it.verdict), assessor.changes(it));
    let parts = it.stale().and_then(|_| reason.split_once("; "));
    let (why, until) = parts.map_or((&*reason, None), |(why, until)| (why, Some(until)));
    let changes: Vec<_> = until
        .into_iter()
        .chain(changes.iter().map(|it| &**it))
        .collect();
    let changes = changes.join("; ");
    let mut text = |text: &str| {
        let next = texts.len();
        *texts.entry(clean(text)).or_insert(next)
    };
    json!([
        cell,
        it.address.map_or_else(|| clean(key), |it| it.to_string()),
        clean(owner),
        node.map(&mut text),
        since.as_deref().map(&mut text),
        text(&state),
        text(why),
        text(&changes),
        text(Sign::of(it).look().word),
        usize::from(it.address.is_some()),
    ])
}

fn escaped(text: &str) -> String {
    let text = clean(text).replace('&', "&amp;").replace('<', "&lt;");
    let text = text.replace('>', "&gt;").replace('"', "&quot;");
    text.replace('\'', "&#39;")
}

fn totals(report: &Report) -> String {
    let totals = &report.totals;
    let numbers = [
        ("findings", report.findings.len()),
        ("pools", totals.pools),
        ("rows", totals.rows),
        ("live", totals.split.live),
        ("unreported", totals.split.unreported),
        ("stale", totals.split.stale),
        ("unfenced", totals.split.unfenced),
        ("unknown", totals.split.unknown),
        ("reservations", totals.reservations),
        ("pods", totals.pods),
        ("nodes", totals.nodes),
    ];
    all(numbers.iter(), |(name, number)| {
        format!("<li><b data-total={name}>{number}</b>{name}</li>")
    })
}

/// A table for each problem, worst first.
fn findings(report: &Report) -> String {
    if report.findings.is_empty() {
        return "<p>No findings.</p>".to_owned();
    }
    let is_short = report.findings.len() <= 20;
    let open = if is_short { " open" } else { "" };
    let by_problem = report.findings.chunk_by(|a, b| a.problem == b.problem);
    all(by_problem, |them| {
        let problem = them[0].problem;
        let more = match them.len().saturating_sub(FINDINGS) {
            0 => String::new(),
            rest => format!("<p class=soft>And {rest} more: ipgc audit -o json has all.</p>"),
        };
        format!(
            "<details class=problem{open}><summary><b>{problem}</b>: {}</summary><div class=scroll tabindex=0 role=region \
             aria-label=\"findings of {problem}\"><table><thead><tr><th>Address<th>Pool<th>Pod<th>Node<th>Detail<th>Command\
             </tr></thead><tbody>{}</tbody></table></div>{more}</details>",
            them.len(),
            all(them.iter().take(FINDINGS), row)
        )
    })
}

fn row(finding: &Finding) -> String {
    let text = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), escaped);
    let pods = names(&finding.pods);
    let nodes = (!finding.nodes.is_empty()).then(|| finding.nodes.join(", "));
    let command = finding.command.as_deref().map(escaped);
    format!(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
        text(finding.address.as_deref()),
        text(finding.pool.as_deref()),
        text(pods.as_deref()),
        text(nodes.as_deref()),
        escaped(&finding.detail),
        command.map_or_else(|| "-".to_owned(), |it| format!("<code>{it}</code>")),
    )
}

fn of_pool(at: usize, usage: &PoolUsage, grid: Option<&Grid>) -> String {
    let name = escaped(&format!("{}/{}", usage.namespace, usage.name));
    let range = usage.range.as_deref().map(escaped);
    let range = range.unwrap_or_else(|| "no range".to_owned());
    let taken = match usage.size {
        Some(size) => format!("{} of {size} taken", usage.taken.rows()),
        None => format!("{} rows", usage.split.rows()),
    };
    let bar = bar(usage, 100).into_iter().filter(|(_, cells)| *cells > 0);
    let bar = all(bar, |(sign, cells)| {
        let Look { word, letter, .. } = sign.look();
        format!("<i class={word} style=\"width:{cells}%\">{letter}</i>")
    });
    let mut lines = vec![format!("{range}: {}", usage.split)];
    if !usage.definitions.is_empty() {
        let names = escaped(&usage.definitions.join(", "));
        lines.push(format!("Definitions: {names}"));
    }
    lines.extend(usage.parts.iter().map(|part| {
        format!(
            "Part from {} to {}, of {}: {} of {} taken",
            escaped(part.first.as_deref().unwrap_or("the first address")),
            escaped(part.last.as_deref().unwrap_or("the last one")),
            escaped(&part.definitions.join(", ")),
            part.split.rows(),
            part.size
        )
    }));
    let grid = grid.map(|grid| {
        if grid.each > 1 {
            lines.push(format!("A cell stands for {} addresses.", grid.each));
        }
        if grid.rest > 0 {
            lines.push(format!("{} addresses follow, none with a row.", grid.rest));
        }
        format!(
            "<pre class=grid data-without tabindex=0 role=region aria-label=\"addresses of {name}\">{}</pre>\
             <div class=cells role=group aria-label=\"addresses of {name}\" data-with></div>",
            grid.lines(usize::MAX).join("\n")
        )
    });
    format!(
        "<details class=pool id=pool-{at}><summary><code>{name}</code><span class=bar role=img aria-label=\"{}\">{bar}\
         </span><span>{taken}</span></summary>{}{}</details>",
        usage.filling(),
        all(lines.iter(), |line| format!("<p class=soft>{line}</p>")),
        grid.unwrap_or_default()
    )
}
