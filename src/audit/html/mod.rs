//! `ipgc audit -o html`: a report as one page, which needs nothing from elsewhere and reads without a script too.
//!
//! ```text
//! Report ─▶ totals, findings, bars ─┐
//! Snapshot ─▶ grid and rows ─▶ data ┴▶ page.html with page.css and page.js inside
//! ```
//!
//! All foreign text is escaped here, or set as text by the script. Nothing is decided.

use std::{collections::HashMap, io};

use ipgc_core::{evidence::Policy, text::clean};
use serde_json::{Value, json};

use super::{
    assess::{Assessor, Item},
    explain::why,
    grid::{Grid, Sign, bar},
    report::{Finding, PoolUsage, Report, Source},
    table::names,
    words,
};
use crate::snapshot::Snapshot;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A longer table is no help; `-o json` has all of it.
const FINDINGS: usize = 500;

/// A pool in the page: its grid, and its rows and lone reservations as the script reads them.
#[derive(Default)]
struct Pool {
    grid: Option<Grid>,
    rows: Vec<Value>,
}

/// Texts that many rows share, each once.
#[derive(Default)]
struct Texts {
    places: HashMap<String, usize>,
    all: Vec<String>,
}

impl Texts {
    fn place(&mut self, text: String) -> usize {
        let all = &mut self.all;
        *self.places.entry(text).or_insert_with_key(|text| {
            all.push(text.clone());
            all.len() - 1
        })
    }
}

/// Writes the page of a report, with what the snapshot says of each address of its pools.
///
/// # Errors
/// Those of `output`.
pub fn write_page(
    report: &Report,
    snapshot: &Snapshot,
    policy: &Policy,
    output: &mut impl io::Write,
) -> io::Result<()> {
    let mut texts = Texts::default();
    let pools = pools(report, snapshot, policy, &mut texts);
    let pools: Vec<_> = report.pools.iter().zip(pools).collect();
    head(report, output)?;
    findings(report, output)?;
    write!(output, "<h2 id=pools>Pools, fullest first</h2>{}", key())?;
    for (at, (usage, pool)) in pools.iter().enumerate() {
        of_pool(at, usage, pool.grid.as_ref(), output)?;
    }
    let data = pools.into_iter().map(|(usage, Pool { grid, rows })| {
        json!({
            "name": clean(&format!("{}/{}", usage.namespace, usage.name)),
            "first": grid.as_ref().map(|it| &it.first),
            "each": grid.as_ref().map(|it| it.each.to_string()),
            "signs": grid.as_ref().map(|it| &it.cells),
            "rows": rows,
            "command": words::explain_pool(&usage.namespace, &usage.name),
        })
    });
    let signs = Sign::ALL.map(|(_, sign, word)| (sign.to_string(), json!([word, letter(word)])));
    let data = json!({
        "pools": data.collect::<Vec<_>>(),
        "texts": texts.all,
        "signs": signs.into_iter().collect::<serde_json::Map<_, _>>(),
    });
    // In JSON it only stands within texts, and would end the element.
    let data = data.to_string().replace('<', "\\u003c");
    write!(
        output,
        "<div id=told aria-live=off data-with><span class=soft>Point at an address, or open a pool, go to its grid with Tab, and choose one with the arrow \
         keys.</span></div></main>\n<script type=\"application/json\" id=data>{data}</script>\n\
         <script>{SCRIPT}</script></body></html>\n"
    )
}

/// What stands in a cell, for whom colours tell nothing.
fn letter(word: &str) -> &'static str {
    match word {
        "held" => "H",
        "stale" => "S",
        "unknown" => "?",
        _ => "",
    }
}

/// The pools, in the order of the report.
fn pools(report: &Report, snapshot: &Snapshot, policy: &Policy, texts: &mut Texts) -> Vec<Pool> {
    let assessor = Assessor::new(snapshot, policy).at(report.source, &report.made);
    let usages = report.pools.iter().enumerate();
    let places = usages.map(|(at, it)| ((&*it.namespace, &*it.name), at));
    let places: HashMap<_, _> = places.collect();
    let mut pools: Vec<_> = report.pools.iter().map(|_| Pool::default()).collect();
    assessor.each_pool(|place, _, all| {
        let Some(at) = places.get(&(&*place.key.namespace, &*place.key.name)) else {
            return;
        };
        let grid = Grid::of(&assessor, place, all);
        let cells = grid.as_ref().map_or(0, |it| it.cells.chars().count());
        let rows = all.iter().map(|it| {
            let owner = it.owner();
            let pod = snapshot.pod(owner);
            let node = pod
                .and_then(|pod| pod.node.as_deref())
                .or(place.slice.as_deref());
            let since = pod.and_then(|pod| pod.since);
            let since = since.or_else(|| assessor.stale_since(it));
            let since = since.map(|since| since.to_string());
            let (reason, changes) = why(&assessor, it);
            // The same sentence for each row is in the page once.
            let changes = changes.replace(&format!("a pod {owner} "), "a pod of this name ");
            let word = it.verdict.word();
            let (state, key) = match &it.item {
                Item::Row(_, row) => (word.as_str().to_owned(), row.key()),
                Item::Reservation(..) => (format!("reserved, {}", word.as_str()), ""),
            };
            let (_, _, sign) = Sign::of(it).row();
            let cell = it
                .address
                .zip(grid.as_ref())
                .and_then(|(address, grid)| grid.cell(address, cells));
            let mut text = |text: &str| texts.place(clean(text));
            json!([
                cell,
                it.address.map_or_else(|| clean(key), |it| it.to_string()),
                clean(owner),
                node.map(&mut text),
                since.as_deref().map(&mut text),
                text(&state),
                text(&reason),
                text(&changes),
                text(sign),
                usize::from(it.address.is_some()),
            ])
        });
        let rows = rows.collect();
        pools[*at] = Pool { grid, rows };
    });
    pools
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in clean(text).chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

fn head(report: &Report, output: &mut impl io::Write) -> io::Result<()> {
    let totals = &report.totals;
    write!(
        output,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\"><title>IP addresses, {made}</title><style>{STYLE}</style></head>\n<body><main>\
         <h1>IP addresses of whereabouts</h1><p class=soft>{source}, {made}</p><ul class=totals>",
        made = escaped(&report.made),
        source = match report.source {
            Source::Cluster => "Source: the cluster",
            Source::Files => "Source: files",
        }
    )?;
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
    for (name, number) in numbers {
        write!(output, "<li><b data-total={name}>{number}</b>{name}</li>")?;
    }
    write!(output, "</ul>")?;
    for note in &report.notes {
        write!(output, "<p class=soft>Note: {}</p>", escaped(note))?;
    }
    write!(
        output,
        "<p data-with><label for=search>Find an address, a pod or a node</label><br>\
         <input id=search type=search autocomplete=off></p><ul id=matches data-with></ul><p id=count class=soft role=status data-with></p>\
         <p data-without>Search and details of single addresses need a script. Everything else works without it.</p>"
    )
}

/// A table for each problem, worst first.
fn findings(report: &Report, output: &mut impl io::Write) -> io::Result<()> {
    write!(output, "<h2 id=findings>Findings, worst first</h2>")?;
    if report.findings.is_empty() {
        return write!(output, "<p>No findings.</p>");
    }
    for all in report.findings.chunk_by(|a, b| a.problem == b.problem) {
        let problem = all[0].problem;
        write!(
            output,
            "<details class=problem{}><summary><b>{problem}</b>: {}</summary><div class=scroll><table><thead><tr>\
             <th>Address<th>Pool<th>Pod<th>Node<th>Detail<th>Command</tr></thead><tbody>",
            if report.findings.len() <= 20 {
                " open"
            } else {
                ""
            },
            all.len()
        )?;
        for finding in all.iter().take(FINDINGS) {
            row(finding, output)?;
        }
        write!(output, "</tbody></table></div>")?;
        if all.len() > FINDINGS {
            let rest = all.len() - FINDINGS;
            write!(
                output,
                "<p class=soft>And {rest} more: ipgc audit -o json has all.</p>"
            )?;
        }
        write!(output, "</details>")?;
    }
    Ok(())
}

fn row(finding: &Finding, output: &mut impl io::Write) -> io::Result<()> {
    let text = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), escaped);
    let pods = names(&finding.pods);
    let nodes = (!finding.nodes.is_empty()).then(|| finding.nodes.join(", "));
    let command = finding.command.as_deref();
    write!(
        output,
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
        text(finding.address.as_deref()),
        text(finding.pool.as_deref()),
        text(pods.as_deref()),
        text(nodes.as_deref()),
        escaped(&finding.detail),
        command.map_or_else(
            || "-".to_owned(),
            |it| format!("<code>{}</code>", escaped(it))
        ),
    )
}

/// The meaning of colours and signs.
fn key() -> String {
    let all = Sign::ALL.iter();
    let all = all.map(|(_, sign, word)| format!("<span><i class={word}></i>{sign} {word}</span>"));
    format!("<p class=key>{}</p>", all.collect::<String>())
}

fn of_pool(
    at: usize,
    usage: &PoolUsage,
    grid: Option<&Grid>,
    output: &mut impl io::Write,
) -> io::Result<()> {
    let name = escaped(&format!("{}/{}", usage.namespace, usage.name));
    let range = usage
        .range
        .as_deref()
        .map_or_else(|| "no range".to_owned(), escaped);
    let taken = match usage.size {
        Some(size) => format!("{} of {size} taken", usage.taken.rows()),
        None => format!("{} rows", usage.split.rows()),
    };
    write!(
        output,
        "<details class=pool id=pool-{at}><summary><code>{name}</code><span class=bar role=img aria-label=\"{}\">",
        usage.filling()
    )?;
    for (sign, cells) in bar(usage, 100) {
        let (_, _, word) = sign.row();
        if cells > 0 {
            write!(output, "<i class={word} style=\"width:{cells}%\"></i>")?;
        }
    }
    write!(
        output,
        "</span><span>{taken}</span></summary><p class=soft>{range}: {}</p>",
        usage.split
    )?;
    if !usage.definitions.is_empty() {
        let all: Vec<_> = usage.definitions.iter().map(|it| escaped(it)).collect();
        write!(output, "<p class=soft>Definitions: {}</p>", all.join(", "))?;
    }
    for part in &usage.parts {
        write!(
            output,
            "<p class=soft>Part from {} to {}, of {}: {} of {} taken</p>",
            escaped(part.first.as_deref().unwrap_or("the first address")),
            escaped(part.last.as_deref().unwrap_or("the last one")),
            escaped(&part.definitions.join(", ")),
            part.split.rows(),
            part.size
        )?;
    }
    if let Some(grid) = grid {
        if grid.each > 1 {
            write!(
                output,
                "<p class=soft>A cell stands for {} addresses.</p>",
                grid.each
            )?;
        }
        if grid.rest > 0 {
            write!(
                output,
                "<p class=soft>{} addresses follow, none with a row.</p>",
                grid.rest
            )?;
        }
        write!(
            output,
            "<pre class=grid data-without>{}</pre>",
            grid.lines().join("\n")
        )?;
        write!(
            output,
            "<div class=cells role=group aria-label=\"addresses of {name}\" data-with></div>"
        )?;
    }
    write!(output, "</details>")
}
