//! The measured figures beside their goals: lines, printed as one table and written as JSON.
//!
//! A line judges itself: its goal is for our own figure or for the ratio to the baseline of the same run.
//! Nothing here measures.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use serde::Serialize;

use super::measure::Machine;

/// A number with its unit: seconds, bytes, pieces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Amount {
    pub value: f64,
    pub unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "s")]
    Seconds,
    /// Seconds of one core.
    #[serde(rename = "s CPU")]
    CpuSeconds,
    #[serde(rename = "B")]
    Bytes,
    #[serde(rename = "1")]
    Count,
    /// Pieces for each freed address or deleted pod.
    #[serde(rename = "1/1")]
    Each,
    #[serde(rename = "1/s")]
    PerSecond,
    /// Part of one core.
    #[serde(rename = "cores")]
    Cores,
}

impl Amount {
    /// A value in a unit.
    pub const fn new(value: f64, unit: Unit) -> Self {
        Self { value, unit }
    }

    pub fn time(time: Duration) -> Self {
        Self::new(time.as_secs_f64(), Unit::Seconds)
    }

    pub fn cpu(time: Duration) -> Self {
        Self::new(time.as_secs_f64(), Unit::CpuSeconds)
    }

    pub fn bytes(bytes: u64) -> Self {
        Self::new(float(bytes), Unit::Bytes)
    }

    pub fn count(count: usize) -> Self {
        Self::new(float(count as u64), Unit::Count)
    }

    /// A number of pieces for each of many.
    pub fn each(count: usize, of: usize) -> Self {
        Self::new(float(count as u64) / float(of.max(1) as u64), Unit::Each)
    }

    /// A number of pieces in a time.
    pub fn rate(count: usize, time: Duration) -> Self {
        // Never nothing: a rate has to be a number.
        let seconds = time.as_secs_f64().max(0.001);
        Self::new(float(count as u64) / seconds, Unit::PerSecond)
    }
}

/// As a number that can be divided: exact up to 2^53.
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

/// A figure of the same run, and what it is of, such as `upstream`.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    pub of: &'static str,
    pub amount: Amount,
}

/// The goal of a line: a bound of our figure, or of the ratio between our figure and the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    AtMost(Amount),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

/// One figure of one scene.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub scene: &'static str,
    /// The measured quantity, in words.
    pub what: String,
    pub ours: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// A line without it only informs.
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
    pub fn against(mut self, of: &'static str, amount: Amount) -> Self {
        self.baseline = Some(Baseline { of, amount });
        self.judged()
    }

    /// Which must not be larger.
    pub fn at_most(self, value: f64) -> Self {
        let unit = self.ours.unit;
        self.wanting(Goal::AtMost(Amount::new(value, unit)))
    }

    /// Which must not be more times the baseline.
    pub fn ratio_at_most(self, ratio: f64) -> Self {
        self.wanting(Goal::RatioAtMost(ratio))
    }

    /// Which must not be fewer times the baseline.
    pub fn ratio_at_least(self, ratio: f64) -> Self {
        self.wanting(Goal::RatioAtLeast(ratio))
    }

    /// Which counts, so that a short run may judge it.
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
        let base = base.filter(|base| *base != 0.0);
        self.ratio = base.map(|base| self.ours.value / base);
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
            Goal::RatioAtMost(most) => format!("≤ {}", times(most)),
            Goal::RatioAtLeast(least) => format!("≥ {}", times(least)),
        });
        let verdict = self.pass.map(|pass| if pass { "pass" } else { "FAIL" });
        [
            self.scene.to_owned(),
            self.what.clone(),
            self.ours.to_string(),
            base.unwrap_or_default(),
            self.ratio.map(times).unwrap_or_default(),
            goal.unwrap_or_default(),
            verdict.unwrap_or_default().to_owned(),
        ]
    }
}

/// A ratio with as many digits as mean something.
fn times(ratio: f64) -> String {
    let digits = match ratio {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. | 0.0 => 2,
        _ => 4,
    };
    format!("{ratio:.digits$} ×")
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
    /// The measured program: its version, and the size of its binary.
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
    pub fn head(&self) -> String {
        let machine = &self.machine;
        let size = if self.short {
            ", a tenth of the size"
        } else {
            ""
        };
        format!(
            "{}{size}; {}, {} cores, {} of memory, Linux {}; {}",
            self.program,
            machine.processor,
            machine.cores,
            Amount::bytes(machine.memory),
            machine.kernel,
            self.date,
        )
    }

    /// Takes away the goals that a busy machine could miss.
    pub fn judge_counts_only(&mut self) {
        for line in self.lines.iter_mut().filter(|line| !line.is_count) {
            (line.goal, line.pass) = (None, None);
        }
    }

    /// The table for people.
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
    pub fn counts_hold(&self) -> bool {
        let failed = |line: &Line| line.is_count && line.pass == Some(false);
        self.broken.is_empty() && !self.lines.iter().any(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_judges_its_figure_or_its_ratio() {
        let seconds = |value| Amount::new(value, Unit::Seconds);
        let alone = || Line::new("s", "w", seconds(2.0));
        let beside = || alone().against("other", seconds(1.0));
        assert_eq!(beside().ratio, Some(2.0));
        for (line, pass) in [
            (alone(), None),
            (alone().at_most(2.0), Some(true)),
            (alone().at_most(1.9), Some(false)),
            // It has no baseline.
            (alone().ratio_at_most(2.0), Some(false)),
            (beside().ratio_at_most(2.0), Some(true)),
            (beside().ratio_at_most(1.5), Some(false)),
            (beside().ratio_at_least(2.5), Some(false)),
            (beside().ratio_at_least(1.0), Some(true)),
        ] {
            assert_eq!(line.pass, pass, "{line:?}");
        }
        let texts = [3_456.7, 34.56, 0.125, 0.0, 0.0123].map(times);
        assert_eq!(texts, ["3457 ×", "34.6 ×", "0.12 ×", "0.00 ×", "0.0123 ×"]);
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
        let lines: Vec<_> = table.lines().collect();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(lines[2]), "mass time 2.50 s ≤ 1.00 s FAIL");
        assert_eq!(words(lines[3]), "requests 1.100 ≤ 1.200 pass");
        assert_eq!(lines[2].find("time"), lines[3].find("requests"));
        assert!(report.counts_hold());
        report.judge_counts_only();
        let passes = report.lines.iter().map(|line| line.pass);
        assert_eq!(passes.collect::<Vec<_>>(), [None, Some(true)]);
        report.lines[1] = report.lines[1].clone().at_most(1.0);
        assert!(!report.counts_hold());
    }
}
