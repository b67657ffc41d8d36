//! Plots of the tables' figures, as SVG.

use std::ops::Range;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::report;

/// A line by its name, and its points.
pub type Series<'a> = (&'a str, Vec<(f64, f64)>);

const SIZE: (u32, u32) = (720, 360);
const FONT: (&str, u32) = ("sans-serif", 14);
/// Colours for readers with any colour vision (Okabe and Ito).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(230, 159, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

/// Writes `docs/bench/{file}.svg`.
pub fn lines(file: &str, x: &str, y: &str, all: &[Series<'_>]) -> anyhow::Result<()> {
    let (xs, ys) = ranges(all);
    draw(file, (x, y), xs, ys, all, SeriesLabelPosition::LowerRight)
}

/// The same, with room above the lines for their names.
pub fn lines_below_legend(file: &str, x: &str, y: &str, all: &[Series<'_>]) -> anyhow::Result<()> {
    let (xs, ys) = ranges(all);
    draw(file, (x, y), xs, 0.0..ys.end * 1.5, all, SeriesLabelPosition::UpperRight)
}

/// The same, with each power of ten as far from the next along x.
pub fn lines_by_powers(file: &str, x: &str, y: &str, all: &[Series<'_>]) -> anyhow::Result<()> {
    let (xs, ys) = ranges(all);
    draw(file, (x, y), xs.log_scale(), ys, all, SeriesLabelPosition::UpperLeft)
}

fn ranges(all: &[Series<'_>]) -> (Range<f64>, Range<f64>) {
    let points = || all.iter().flat_map(|(_, points)| points);
    let least = points().map(|point| point.0).fold(f64::MAX, f64::min);
    let (right, top) = points().fold((0.0, 0.0), |most: (f64, f64), point| (most.0.max(point.0), most.1.max(point.1)));
    (least..right, 0.0..top * 1.1)
}

fn draw<X>(
    file: &str,
    (x, y): (&str, &str),
    xs: X,
    ys: Range<f64>,
    all: &[Series<'_>],
    legend_at: SeriesLabelPosition,
) -> anyhow::Result<()>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let path = report::folder().join(format!("{file}.svg"));
    let area: DrawingArea<SVGBackend<'_>, Shift> = SVGBackend::new(&path, SIZE).into_drawing_area();
    let failed = |error: DrawingAreaErrorKind<_>| anyhow!("{}: {error}", path.display());
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(xs, ys)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(x).y_desc(y).label_style(FONT).light_line_style(TRANSPARENT);
    let whole = |number: &f64| format!("{number:.0}");
    mesh.x_label_formatter(&whole).y_label_formatter(&whole);
    mesh.draw().map_err(failed)?;
    for ((name, points), colour) in all.iter().zip(COLOURS.iter().cycle()) {
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(line)
            .map_err(failed)?
            .label(*name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let mut legend = chart.configure_series_labels();
    legend.label_font(FONT).background_style(WHITE.mix(0.8)).position(legend_at);
    legend.draw().map_err(failed)?;
    area.present().map_err(failed)
}
