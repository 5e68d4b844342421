//! The curves as a picture: a panel for each chart, both scales logarithmic, so that a constant cost is a level line
//! and a proportional one rises evenly.

use anyhow::Result;
use plotters::prelude::*;

use super::{Chart, Curve};

/// Size of a panel, and number of panels in a row.
const PANEL: (u32, u32) = (560, 400);
const COLUMNS: usize = 2;

const FONT: &str = "sans-serif";

/// Height of the area of the curves in a panel, of a line of the legend, and of its margins, in pixels.
const CURVES_HEIGHT: f64 = 317.0;
const LEGEND_LINE_HEIGHT: f64 = 15.0;
const LEGEND_MARGIN: f64 = 24.0;

/// Returns the picture of all charts, as SVG.
pub(super) fn draw(charts: &[Chart]) -> Result<String> {
    let mut picture = String::new();
    let rows = charts.len().div_ceil(COLUMNS).max(1);
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32);
    let area = SVGBackend::with_string(&mut picture, size).into_drawing_area();
    area.fill(&WHITE)?;
    for (chart, panel) in charts.iter().zip(area.split_evenly((rows, COLUMNS))) {
        draw_chart(chart, &panel)?;
    }
    area.present()?;
    drop(area);
    Ok(picture)
}

fn draw_chart(chart: &Chart, panel: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<()> {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let numbers = points().map(|(number, _)| *number as f64);
    let (least, most) = bounds(numbers);
    let (low, high) = bounds(points().map(|(_, micros)| *micros));
    let low = low / 2.0;
    let top = top_with_legend(low, high, chart.curves.len());
    let mut context = ChartBuilder::on(panel)
        .caption(format!("server CPU by the number of {}", chart.of), (FONT, 17))
        .margin(12)
        .margin_right(36)
        .x_label_area_size(34)
        .y_label_area_size(58)
        .build_cartesian_2d((least..most).log_scale(), (low..top).log_scale())?;
    context
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(chart.of)
        .y_desc("µs for one operation")
        .x_label_formatter(&|number| number.to_string())
        .y_label_formatter(&|number| number.to_string())
        .label_style((FONT, 13))
        .draw()?;
    for (at, curve) in chart.curves.iter().enumerate() {
        let style = Palette99::pick(at).stroke_width(2);
        context
            .draw_series(LineSeries::new(line(curve), style).point_size(2))?
            .label(curve.operation)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], style));
    }
    context
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 12))
        .background_style(WHITE)
        .draw()?;
    Ok(())
}

/// Returns the upper end of a logarithmic scale from `low` on, with space for the legend above `high`.
fn top_with_legend(low: f64, high: f64, curves: usize) -> f64 {
    let legend = LEGEND_MARGIN + LEGEND_LINE_HEIGHT * curves as f64;
    let share = (legend / CURVES_HEIGHT).min(0.7);
    low * (high / low).powf(1.0 / (1.0 - share))
}

fn line(curve: &Curve) -> impl Iterator<Item = (f64, f64)> {
    curve.points.iter().map(|(number, micros)| (*number as f64, *micros))
}

/// Returns the minimum and maximum of some positive numbers, far enough apart for an axis.
fn bounds(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = numbers
        .filter(|number| *number > 0.0)
        .fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), number| {
            (least.min(number), most.max(number))
        });
    if least < most {
        (least, most)
    } else {
        (1.0_f64.min(most), 10.0 * most.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legend_leaves_the_curves_visible() {
        for curves in [1, 4, 9] {
            let (low, high) = (10.0, 300.0);
            let top = top_with_legend(low, high, curves);
            let height_of_highest = (high / low).ln() / (top / low).ln() * CURVES_HEIGHT;
            let legend = LEGEND_LINE_HEIGHT * curves as f64;
            assert!(height_of_highest + legend < CURVES_HEIGHT, "{curves}: {top}");
        }
    }
}
