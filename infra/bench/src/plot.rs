//! Line plots as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, Palette, Palette99, PathElement,
    SVGBackend, WHITE,
};

/// A plot's labels.
#[derive(Clone, Copy, Debug)]
pub struct Labels {
    /// Above the plot.
    pub title: &'static str,
    /// Along the axes.
    pub axes: (&'static str, &'static str),
}

/// One line: its name and its points.
pub type Line = (String, Vec<(f64, f64)>);

/// Points by the name of their line, in the order in which names first come.
pub fn by_name<'a>(points: impl IntoIterator<Item = (&'a str, (f64, f64))>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, point) in points {
        match lines.iter_mut().find(|(of, _)| of == name) {
            Some((_, points)) => points.push(point),
            None => lines.push((name.to_owned(), vec![point])),
        }
    }
    lines
}

/// Draws lines over a logarithmic x axis into a file, if one is named. Points that are not above 0 are left out.
pub fn draw(file: Option<&Path>, labels: Labels, lines: &[Line]) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    try_draw(file, labels, lines).map_err(|why| anyhow!("cannot draw {}: {why}", file.display()))
}

fn try_draw(file: &Path, labels: Labels, lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points).filter(|(x, _)| *x > 0.0);
    let (first, last) = points().fold((f64::MAX, 0.0_f64), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let top = points().fold(0.0_f64, |top, (_, y)| top.max(*y)) * 1.1;
    let area = SVGBackend::new(file, (900, 540)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(labels.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((first..last.max(first * 10.0)).log_scale(), 0.0..top.max(f64::MIN_POSITIVE))?;
    chart.configure_mesh().x_desc(labels.axes.0).y_desc(labels.axes.1).draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let points = || points.iter().copied().filter(|(x, _)| *x > 0.0);
        let drawn = chart.draw_series(LineSeries::new(points(), &color))?;
        drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
        chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_one_name_are_one_line() {
        let lines = by_name([("a", (1.0, 2.0)), ("b", (3.0, 4.0)), ("a", (5.0, 6.0))]);
        assert_eq!(lines, [("a".to_owned(), vec![(1.0, 2.0), (5.0, 6.0)]), ("b".to_owned(), vec![(3.0, 4.0)])]);
    }

    #[test]
    fn a_plot_names_its_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let labels = Labels { title: "cost", axes: ("tasks", "units") };
        draw(Some(file.path()), labels, &[("elected".to_owned(), vec![(100.0, 5.3), (1_000.0, 5.2)])]).unwrap();
        let svg = std::fs::read_to_string(file.path()).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("elected") && svg.contains("units"), "{svg}");
    }
}
