//! What was measured beside what was wanted: lines, printed as one table and written as JSON.
//!
//! A line judges itself: its goal is for our own figure or for the ratio to the baseline of the same run.
//! Nothing here measures.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use serde::{Serialize, Serializer};

use super::measure::Machine;

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount {
    /// In the unit's own size: seconds, bytes, pieces.
    pub value: f64,
    /// What it counts.
    pub unit: Unit,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds of time.
    Seconds,
    /// Seconds of one core.
    CpuSeconds,
    /// Bytes of memory or of a file.
    Bytes,
    /// Pieces.
    Count,
    /// Pieces for each freed address or deleted pod.
    Each,
    /// Pieces a second.
    PerSecond,
    /// Part of one core.
    Cores,
}

impl Amount {
    /// An amount of time.
    #[must_use]
    pub fn time(time: Duration) -> Self {
        Self::new(time.as_secs_f64(), Unit::Seconds)
    }

    /// An amount of CPU time.
    #[must_use]
    pub fn cpu(time: Duration) -> Self {
        Self::new(time.as_secs_f64(), Unit::CpuSeconds)
    }

    /// An amount of memory.
    #[must_use]
    pub fn bytes(bytes: u64) -> Self {
        Self::new(float(bytes), Unit::Bytes)
    }

    /// A number of pieces.
    #[must_use]
    pub fn count(count: usize) -> Self {
        Self::new(float(count as u64), Unit::Count)
    }

    /// A number of pieces for each of many.
    #[must_use]
    pub fn each(count: usize, of: usize) -> Self {
        Self::new(float(count as u64) / float(of.max(1) as u64), Unit::Each)
    }

    /// A number of pieces in a time.
    #[must_use]
    pub fn rate(count: usize, time: Duration) -> Self {
        // Never nothing: a rate has to be a number.
        let seconds = time.as_secs_f64().max(0.001);
        Self::new(float(count as u64) / seconds, Unit::PerSecond)
    }

    /// A value in a unit.
    #[must_use]
    pub const fn new(value: f64, unit: Unit) -> Self {
        Self { value, unit }
    }
}

/// As a number that can be divided: exact up to 2^53.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "nothing here is that large")]
pub fn float(number: u64) -> f64 {
    number as f64
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        let text = match self.unit {
            Unit::Seconds if value.abs() < 1.0 => format!("{:.1} ms", value * 1e3),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::CpuSeconds if value.abs() < 1.0 => format!("{:.0} ms CPU", value * 1e3),
            Unit::CpuSeconds => format!("{value:.2} s CPU"),
            Unit::Bytes if value.abs() < 1e4 => format!("{value:.0} B"),
            Unit::Bytes => format!("{:.2} MB", value / 1e6),
            Unit::Count => format!("{value:.0}"),
            Unit::Each => format!("{value:.3}"),
            Unit::PerSecond if value.abs() < 100.0 => format!("{value:.2}/s"),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Cores => format!("{:.1} % of a core", value * 1e2),
        };
        f.pad(&text)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut amount = serializer.serialize_struct("Amount", 2)?;
        amount.serialize_field("value", &self.value)?;
        let unit = match self.unit {
            Unit::Seconds => "s",
            Unit::CpuSeconds => "s CPU",
            Unit::Bytes => "B",
            Unit::Count => "1",
            Unit::Each => "1/1",
            Unit::PerSecond => "1/s",
            Unit::Cores => "cores",
        };
        amount.serialize_field("unit", unit)?;
        amount.end()
    }
}

/// What a figure is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    /// What it is of, such as `upstream`.
    pub of: &'static str,
    /// Measured in the same run.
    pub amount: Amount,
}

/// What a line wants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Our figure is no larger.
    AtMost(Amount),
    /// Our figure is so many times the baseline at most.
    RatioAtMost(f64),
    /// Our figure is so many times the baseline at least.
    RatioAtLeast(f64),
}

/// One figure of one scene.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The scene.
    pub scene: &'static str,
    /// What was measured.
    pub what: String,
    /// Our figure.
    pub ours: Amount,
    /// What it is compared with, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// What is wanted; a line without it only informs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Whether the figure counts what was asked, which no busy machine changes: only such lines can fail
    /// a short run.
    pub is_count: bool,
    /// Ours over the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whether the goal is met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<bool>,
}

impl Line {
    /// A figure without a goal.
    pub fn new(scene: &'static str, what: impl Into<String>, ours: Amount) -> Self {
        Self {
            scene,
            what: what.into(),
            ours,
            baseline: None,
            goal: None,
            is_count: false,
            ratio: None,
            pass: None,
        }
    }

    /// Beside another figure of the same run.
    #[must_use]
    pub fn against(mut self, of: &'static str, amount: Amount) -> Self {
        self.baseline = Some(Baseline { of, amount });
        self.judged()
    }

    /// Which must not be larger.
    #[must_use]
    pub fn at_most(self, value: f64) -> Self {
        let unit = self.ours.unit;
        self.wanting(Goal::AtMost(Amount::new(value, unit)))
    }

    /// Which must not be more times the baseline.
    #[must_use]
    pub fn ratio_at_most(self, ratio: f64) -> Self {
        self.wanting(Goal::RatioAtMost(ratio))
    }

    /// Which must not be fewer times the baseline.
    #[must_use]
    pub fn ratio_at_least(self, ratio: f64) -> Self {
        self.wanting(Goal::RatioAtLeast(ratio))
    }

    /// Which counts, so that a short run may judge it.
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.is_count = true;
        self
    }

    fn wanting(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self.judged()
    }

    fn judged(mut self) -> Self {
        let base = self.baseline.as_ref().map(|base| base.amount.value);
        self.ratio = base
            .filter(|base| *base != 0.0)
            .map(|base| self.ours.value / base);
        self.pass = self.goal.map(|goal| match (goal, self.ratio) {
            (Goal::AtMost(most), _) => self.ours.value <= most.value,
            (Goal::RatioAtMost(most), Some(ratio)) => ratio <= most,
            (Goal::RatioAtLeast(least), Some(ratio)) => ratio >= least,
            (_, None) => false,
        });
        self
    }

    fn cells(&self) -> [String; 7] {
        let base = self.baseline.as_ref();
        let base = base.map(|base| format!("{} ({})", base.amount, base.of));
        let goal = self.goal.map(|goal| match goal {
            Goal::AtMost(most) => format!("≤ {most}"),
            Goal::RatioAtMost(most) => format!("≤ {} ×", Times(most)),
            Goal::RatioAtLeast(least) => format!("≥ {} ×", Times(least)),
        });
        let verdict = match self.pass {
            None => "",
            Some(true) => "pass",
            Some(false) => "FAIL",
        };
        [
            self.scene.to_owned(),
            self.what.clone(),
            self.ours.to_string(),
            base.unwrap_or_default(),
            self.ratio
                .map(|ratio| format!("{} ×", Times(ratio)))
                .unwrap_or_default(),
            goal.unwrap_or_default(),
            verdict.to_owned(),
        ]
    }
}

/// A ratio with as many digits as mean something.
struct Times(f64);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = self.0;
        if ratio >= 100.0 {
            write!(f, "{ratio:.0}")
        } else if ratio >= 10.0 {
            write!(f, "{ratio:.1}")
        } else if ratio >= 0.1 || ratio == 0.0 {
            write!(f, "{ratio:.2}")
        } else {
            write!(f, "{ratio:.4}")
        }
    }
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// When it began, RFC 3339.
    pub date: String,
    /// Whether it was a tenth of the size.
    pub short: bool,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured: its version, and the size of its binary.
    pub program: String,
    /// All figures.
    pub lines: Vec<Line>,
    /// Scenes that came to no end, and why.
    pub broken: Vec<(&'static str, String)>,
}

/// Heads of the columns.
const HEADS: [&str; 7] = ["scene", "what", "ours", "baseline", "ratio", "goal", ""];

impl Report {
    /// Where, when and what, in one line.
    #[must_use]
    pub fn head(&self) -> String {
        let Machine {
            processor,
            cores,
            memory,
            kernel,
        } = &self.machine;
        format!(
            "{}{}; {processor}, {cores} cores, {} of memory, Linux {kernel}; {}",
            self.program,
            if self.short {
                ", a tenth of the size"
            } else {
                ""
            },
            Amount::bytes(*memory),
            self.date,
        )
    }

    /// Takes away the goals that a busy machine could miss.
    pub fn judge_counts_only(&mut self) {
        for line in self.lines.iter_mut().filter(|line| !line.is_count) {
            line.goal = None;
            line.pass = None;
        }
    }

    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut rows = vec![HEADS.map(str::to_owned)];
        let mut last = "";
        for line in &self.lines {
            let mut cells = line.cells();
            if line.scene == last {
                cells[0].clear();
            }
            last = line.scene;
            rows.push(cells);
        }
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; 7] = std::array::from_fn(width);
        let mut text = String::new();
        for (number, row) in rows.iter().enumerate() {
            let cells = row.iter().zip(widths).enumerate();
            let cells = cells.map(|(column, (cell, width))| match column {
                0 | 1 | 6 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            let cells: Vec<_> = cells.collect();
            // Writing to a String does not fail.
            writeln!(text, "{}", cells.join("  ").trim_end()).ok();
            if number == 0 {
                writeln!(text, "{}", "─".repeat(widths.iter().sum::<usize>() + 12)).ok();
            }
        }
        for (scene, why) in &self.broken {
            writeln!(text, "{scene}: {why}").ok();
        }
        text
    }

    /// Whether a short run is as it must be: no scene broke, and no count is over its goal.
    #[must_use]
    pub fn counts_hold(&self) -> bool {
        let failed = |line: &Line| line.is_count && line.pass == Some(false);
        self.broken.is_empty() && !self.lines.iter().any(failed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_judges_its_figure_or_its_ratio() {
        let two = || Line::new("s", "w", Amount::time(Duration::from_secs(2)));
        let one = Amount::time(Duration::from_secs(1));
        assert_eq!(two().pass, None);
        assert_eq!(two().at_most(2.0).pass, Some(true));
        assert_eq!(two().at_most(1.9).pass, Some(false));
        assert_eq!(two().ratio_at_most(2.0).pass, Some(false), "no baseline");
        let against = two().against("other", one);
        assert_eq!(against.ratio, Some(2.0));
        assert_eq!(against.clone().ratio_at_most(2.0).pass, Some(true));
        assert_eq!(against.clone().ratio_at_most(1.5).pass, Some(false));
        assert_eq!(against.clone().ratio_at_least(2.5).pass, Some(false));
        assert_eq!(against.ratio_at_least(1.0).pass, Some(true));
    }

    #[test]
    fn the_table_is_aligned_and_only_counts_fail_a_short_run() {
        let slow = Line::new("mass", "time", Amount::new(2.5, Unit::Seconds)).at_most(1.0);
        let few = Line::new("mass", "requests", Amount::each(11, 10)).at_most(1.2);
        let mut report = Report {
            date: String::new(),
            short: true,
            machine: Machine::this(),
            program: String::new(),
            lines: vec![slow, few.counted()],
            broken: Vec::new(),
        };
        let table = report.table();
        let columns = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(
            columns(lines[2]),
            ["mass", "time", "2.50", "s", "≤", "1.00", "s", "FAIL"]
        );
        assert_eq!(
            columns(lines[3]),
            ["requests", "1.100", "≤", "1.200", "pass"]
        );
        assert_eq!(lines[2].find("time"), lines[3].find("requests"));
        assert!(report.counts_hold());
        report.judge_counts_only();
        assert_eq!(
            (report.lines[0].pass, report.lines[1].pass),
            (None, Some(true))
        );
        report.lines[1] = report.lines[1].clone().at_most(1.0);
        assert!(!report.counts_hold());
    }
}
