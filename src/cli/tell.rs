//! What `ipgc watch` says of one look, written down: the snapshot first, then changes. It knows neither clock nor
//! cluster.

use std::io::{self, Write};

use crate::{
    audit::{
        changes::{Change, Entry, State, Subject},
        line::{Line, Lines, Message, Synced},
        look::History,
        report::Report,
        table::summary,
    },
    core::time::Moment,
};

/// So many lines are made at a time.
const BATCH: usize = 1_000;

/// One look.
pub(super) struct Seen {
    pub state: State,
    pub report: Report,
    pub at: String,
    pub now: Moment,
}

/// Where lines go, and what they look like.
pub(super) struct Teller<'w> {
    output: &'w mut dyn Write,
    lines: Option<Lines>,
}

impl<'w> Teller<'w> {
    /// Writes to `output`, as a table of `lines` or as JSON.
    pub fn new(output: &'w mut dyn Write, lines: Option<Lines>) -> Self {
        Self { output, lines }
    }

    /// All that there is, and that it is all.
    pub fn snapshot(&mut self, seen: &Seen, all: bool) -> io::Result<()> {
        let wanted =
            |(_, entry): &(&Subject, &Entry)| entry.chosen && (all || entry.finding().is_some());
        let mut entries: Vec<_> = seen.state.iter().filter(wanted).collect();
        entries.sort_by(|(_, a), (_, b)| a.order(b));
        if entries.is_empty() {
            // The header.
            self.lines(&[])?;
        }
        for batch in entries.chunks(BATCH) {
            let present = batch.iter();
            let present = present
                .map(|(subject, entry)| Message::Present(Line::of(&seen.at, subject, entry)));
            self.lines(&present.collect::<Vec<_>>())?;
        }
        let report = &seen.report;
        if self.lines.is_some() {
            let findings = entries
                .iter()
                .filter(|(_, entry)| entry.finding().is_some());
            write!(self.output, "synced, ")?;
            summary(report, findings.count(), self.output)?;
        } else {
            self.lines(&[Message::Synced(Synced {
                at: seen.at.clone(),
                totals: report.totals.clone(),
                notes: report.notes.clone(),
            })])?;
        }
        self.output.flush()
    }

    /// What changed since the look before.
    pub fn changes(
        &mut self,
        changes: &[Change<'_>],
        history: &History,
        seen: &Seen,
        all: bool,
    ) -> io::Result<()> {
        let wanted: Vec<_> = changes
            .iter()
            .filter(|change| change.is_wanted(all))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        for batch in wanted.chunks(BATCH) {
            let messages = batch
                .iter()
                .filter_map(|change| message(change, history, seen));
            self.lines(&messages.collect::<Vec<_>>())?;
        }
        self.output.flush()
    }

    fn lines(&mut self, messages: &[Message]) -> io::Result<()> {
        if let Some(lines) = &mut self.lines {
            self.output.write_all(lines.of(messages).as_bytes())?;
            return Ok(());
        }
        for message in messages {
            let text = serde_json::to_string(message)?;
            writeln!(self.output, "{text}")?;
        }
        Ok(())
    }
}

fn message(change: &Change<'_>, history: &History, seen: &Seen) -> Option<Message> {
    let (subject, at) = (change.subject, &seen.at);
    Some(match (change.before, change.after) {
        (None, Some(after)) => {
            let line = Line::of(at, subject, after);
            Message::Appeared(match history.former(subject, seen.now) {
                Some((former, ago)) => line.after(former, Some(ago)),
                None => line,
            })
        }
        (Some(before), Some(after)) => {
            Message::Changed(Line::of(at, subject, after).after(before, None))
        }
        (Some(before), None) => Message::Gone(Line::of_gone(at, subject, before)),
        (None, None) => return None,
    })
}
