//! The measured figures beside their goals: lines, printed as one table.
//!
//! A line judges itself: its goal is for our own figure or for the ratio to the baseline of the same run.
//! Nothing here measures.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

/// A number with its unit: seconds, bytes, pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount {
    pub value: f64,
    pub unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    /// Seconds of one core.
    CpuSeconds,
    Bytes,
    Count,
    /// Pieces for each freed address or deleted pod.
    Each,
    PerSecond,
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
        };
        f.pad(&text)
    }
}

/// The goal of a line: a bound of our figure, or of the ratio between our figure and the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    AtMost(Amount),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

/// One figure of one scene.
#[derive(Clone, Debug)]
pub struct Line {
    scene: &'static str,
    /// The measured quantity, in words.
    what: String,
    ours: Amount,
    /// A figure of the same run, and what it is of, such as `upstream`.
    baseline: Option<(&'static str, Amount)>,
    /// A line without it only informs.
    goal: Option<Goal>,
    /// Whether the figure counts what was asked, which no busy machine changes: only such lines can fail
    /// a short run.
    is_count: bool,
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
        }
    }

    /// Beside another figure of the same run.
    pub fn against(mut self, of: &'static str, amount: Amount) -> Self {
        self.baseline = Some((of, amount));
        self
    }

    /// Which must not be larger.
    pub fn at_most(mut self, value: f64) -> Self {
        self.goal = Some(Goal::AtMost(Amount::new(value, self.ours.unit)));
        self
    }

    /// Which must not be more times the baseline.
    pub fn ratio_at_most(mut self, ratio: f64) -> Self {
        self.goal = Some(Goal::RatioAtMost(ratio));
        self
    }

    /// Which must not be fewer times the baseline.
    pub fn ratio_at_least(mut self, ratio: f64) -> Self {
        self.goal = Some(Goal::RatioAtLeast(ratio));
        self
    }

    /// Which counts, so that a short run may judge it.
    pub fn counted(mut self) -> Self {
        self.is_count = true;
        self
    }

    /// The same in a short run, which judges only what no busy machine changes.
    pub fn of_short_run(mut self) -> Self {
        self.goal = self.goal.filter(|_| self.is_count);
        self
    }

    /// Ours over the baseline.
    fn ratio(&self) -> Option<f64> {
        let (_, base) = self.baseline?;
        (base.value != 0.0).then(|| self.ours.value / base.value)
    }

    /// Whether the goal is met.
    pub fn pass(&self) -> Option<bool> {
        Some(match (self.goal?, self.ratio()) {
            (Goal::AtMost(most), _) => self.ours.value <= most.value,
            (Goal::RatioAtMost(most), Some(ratio)) => ratio <= most,
            (Goal::RatioAtLeast(least), Some(ratio)) => ratio >= least,
            (_, None) => false,
        })
    }

    fn cells(&self) -> [String; 7] {
        let base = self.baseline.map(|(of, amount)| format!("{amount} ({of})"));
        let goal = self.goal.map(|goal| match goal {
            Goal::AtMost(most) => format!("≤ {most}"),
            Goal::RatioAtMost(most) => format!("≤ {}", times(most)),
            Goal::RatioAtLeast(least) => format!("≥ {}", times(least)),
        });
        let verdict = self.pass().map(|pass| if pass { "pass" } else { "FAIL" });
        [
            self.scene.to_owned(),
            self.what.clone(),
            self.ours.to_string(),
            base.unwrap_or_default(),
            self.ratio().map(times).unwrap_or_default(),
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

/// Heads of the columns.
const HEADS: [&str; 7] = ["scene", "what", "ours", "baseline", "ratio", "goal", ""];

/// The table for people.
pub fn table(lines: &[Line]) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    let mut last = "";
    for line in lines {
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
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 | 1 | 6 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let cells: Vec<_> = cells.collect();
        // Writing to a String does not fail.
        writeln!(text, "{}", cells.join("  ").trim_end()).ok();
    }
    text
}
