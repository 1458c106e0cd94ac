//! Small charts of how a cost grows, as one SVG: panels in a grid, each with its points on a line.
//!
//! Axes begin at zero, so that a straight line through the corner means "in proportion". Colors and
//! background are set, since the picture is shown on light and on dark pages.

use std::fmt::Write as _;

/// One chart.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: &'static str,
    /// What is counted along x.
    pub x: &'static str,
    /// What is measured along y, with its unit.
    pub y: &'static str,
    /// In the order of x.
    pub points: Vec<(f64, f64)>,
}

/// Size of a panel, and of the room around its axes.
const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 50.0;

/// So near to the axis a label has no room beside its point.
const NARROW: f64 = 40.0;

/// Panels side by side.
const COLUMNS: usize = 2;

/// The picture, with a line below it that says where it was measured.
#[must_use]
pub fn svg(panels: &[Panel], caption: &str) -> String {
    let rows = panels.len().div_ceil(COLUMNS);
    let place = |number: usize, size: f64| size * f64::from(u32::try_from(number).unwrap_or(0));
    let (width, height) = (place(COLUMNS, WIDTH), place(rows, HEIGHT));
    let (full, below) = (height + 24.0, height + 12.0);
    let mut text = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {full}" width="{width}" height="{full}" font-family="system-ui, sans-serif" font-size="12" fill="#333">
<rect width="100%" height="100%" fill="#fff"/>
"##
    );
    for (number, panel) in panels.iter().enumerate() {
        let (x, y) = (
            place(number % COLUMNS, WIDTH),
            place(number / COLUMNS, HEIGHT),
        );
        // Writing to a String does not fail.
        writeln!(text, r#"<g transform="translate({x} {y})">"#).ok();
        draw(&mut text, panel);
        text.push_str("</g>\n");
    }
    let caption = escaped(caption);
    writeln!(
        text,
        r##"<text x="{LEFT}" y="{below}" font-size="10" fill="#777">{caption}</text>"##
    )
    .ok();
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, panel: &Panel) {
    let most = |of: fn(&(f64, f64)) -> f64| panel.points.iter().map(of).fold(0.0, f64::max);
    let (x_step, x_end) = ticks(most(|point| point.0));
    let (y_step, y_end) = ticks(most(|point| point.1));
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let x = |value: f64| LEFT + value / x_end * (right - LEFT);
    let y = |value: f64| bottom - value / y_end * (bottom - TOP);
    let mut put = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    let (title, below, beside) = (panel.title, panel.x, panel.y);
    put(format!(
        r#"<text x="{LEFT}" y="22" font-size="14" font-weight="600">{title}</text>"#
    ));
    for step in steps(y_step, y_end) {
        let (at, label) = (y(step), number(step));
        put(format!(
            r##"<path d="M{LEFT} {at:.1}H{right}" stroke="#e5e5e5"/><text x="{}" y="{:.1}" text-anchor="end">{label}</text>"##,
            LEFT - 7.0,
            at + 4.0
        ));
    }
    for step in steps(x_step, x_end) {
        let (at, label) = (x(step), number(step));
        put(format!(
            r##"<path d="M{at:.1} {bottom}v5" stroke="#888"/><text x="{at:.1}" y="{}" text-anchor="middle">{label}</text>"##,
            bottom + 18.0
        ));
    }
    put(format!(
        r##"<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#888"/>"##
    ));
    put(format!(
        r##"<text x="{}" y="{}" text-anchor="middle" fill="#555">{below}</text>"##,
        f64::midpoint(LEFT, right),
        bottom + 36.0
    ));
    let middle = f64::midpoint(TOP, bottom);
    put(format!(
        r##"<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle" fill="#555">{beside}</text>"##
    ));
    let line = panel.points.iter();
    let line: Vec<_> = line
        .map(|(across, up)| format!("{:.1},{:.1}", x(*across), y(*up)))
        .collect();
    put(format!(
        r##"<polyline points="{}" fill="none" stroke="#1f6feb" stroke-width="2"/>"##,
        line.join(" ")
    ));
    for (across, up) in &panel.points {
        let (at, height, label) = (x(*across), y(*up), number(*up));
        // Above the line; beside the axis there is no room for that.
        let (anchor, beside, below) = if at < LEFT + NARROW {
            ("start", at + 6.0, height + 16.0)
        } else {
            ("end", at - 6.0, height - 8.0)
        };
        put(format!(
            r##"<circle cx="{at:.1}" cy="{height:.1}" r="4" fill="#1f6feb"/><text x="{beside:.1}" y="{below:.1}" text-anchor="{anchor}" font-weight="600">{label}</text>"##
        ));
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides an axis in four to nine, and where the axis ends.
fn ticks(most: f64) -> (f64, f64) {
    if most <= 0.0 {
        return (1.0, 1.0);
    }
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let step = [5.0, 2.0, 1.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| most / step >= 4.0)
        .unwrap_or(power);
    (step, (most / step).ceil() * step)
}

fn steps(step: f64, end: f64) -> impl Iterator<Item = f64> {
    (0_u32..)
        .map(move |number| f64::from(number) * step)
        .take_while(move |value| *value <= end * 1.001)
}

/// As short as it can be read.
fn number(value: f64) -> String {
    let scaled = |scale: f64, unit: &str| {
        let text = format!("{:.1}", value / scale);
        format!("{}{unit}", text.trim_end_matches(".0"))
    };
    if value >= 1e6 {
        scaled(1e6, " M")
    } else if value >= 1e3 {
        scaled(1e3, " k")
    } else if value >= 10.0 || value == 0.0 {
        scaled(1.0, "")
    } else {
        let text = format!("{value:.2}");
        let text = text.trim_end_matches('0');
        text.trim_end_matches('.').to_owned()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_above_the_last_point_at_a_round_number() {
        for (most, step, end) in [
            (100_000.0, 20_000.0, 100_000.0),
            (7.3, 1.0, 8.0),
            (0.42, 0.1, 0.5),
        ] {
            let (found_step, found_end) = ticks(most);
            assert!((found_step - step).abs() < 1e-9, "{most}: {found_step}");
            assert!((found_end - end).abs() < 1e-9, "{most}: {found_end}");
        }
        assert_eq!(ticks(0.0), (1.0, 1.0));
        let labels = [0.0, 0.25, 3.0, 12.5, 40_000.0, 1_500_000.0].map(number);
        assert_eq!(labels, ["0", "0.25", "3", "12.5", "40 k", "1.5 M"]);
    }

    #[test]
    fn a_picture_has_every_panel_and_point() {
        let panel = Panel {
            title: "Memory",
            x: "pods",
            y: "MB",
            points: vec![(10.0, 1.0), (20.0, 2.0)],
        };
        let picture = svg(&[panel.clone(), panel], "here & now");
        assert_eq!(picture.matches("<circle").count(), 4);
        assert!(picture.contains("here &amp; now") && picture.ends_with("</svg>\n"));
    }
}
