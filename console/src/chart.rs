//! Charts, as SVG made here. Each has its figures in words beside it: a picture says nothing that the text does not.

use maud::{Markup, html};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 40.0;

/// A line over time, the newest value at the right.
pub fn line(values: &[f64], label: &str) -> Markup {
    let most = values.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let step = WIDTH / (values.len().saturating_sub(1).max(1)) as f64;
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(place, value)| format!("{:.1},{:.1}", place as f64 * step, HEIGHT - 1.0 - value / most * (HEIGHT - 2.0)))
        .collect();
    html! {
        svg.line viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) preserveAspectRatio="none" {
            polyline points=(points.join(" ")) fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke" {}
        }
    }
}

/// A box of the pipeline: a queue and the step that reads it.
pub struct Stage {
    /// The queue.
    pub queue: String,
    /// The step.
    pub step: &'static str,
    /// Messages in the queue.
    pub depth: u64,
}

/// The pipeline from left to right. A queue's bar grows with the number of digits of what it holds.
pub fn pipeline(stages: &[Stage]) -> Markup {
    let label =
        stages.iter().map(|stage| format!("{} holds {}", stage.queue, stage.depth)).collect::<Vec<_>>().join(", ");
    let width = 150 * stages.len();
    html! {
        svg.pipeline viewBox=(format!("0 0 {width} 92")) role="img" aria-label=(format!("The pipeline: {label}")) {
            @for (place, stage) in stages.iter().enumerate() {
                @let left = 150 * place;
                @let full = (stage.depth.max(1).ilog10() + u32::from(stage.depth > 0)).min(7);
                rect.queue x=(left + 4) y="6" width="112" height="34" rx="4" {}
                rect.depth x=(left + 4) y="6" width=(full * 16) height="34" rx="4" {}
                text x=(left + 60) y="20" text-anchor="middle" { (stage.queue) }
                text.number x=(left + 60) y="35" text-anchor="middle" { (crate::words::grouped(stage.depth)) }
                path.arrow d=(format!("M{} 40 v14", left + 60)) {}
                rect.step x=(left + 4) y="54" width="112" height="30" rx="15" {}
                text x=(left + 60) y="73" text-anchor="middle" { (stage.step) }
                @if place + 1 < stages.len() {
                    path.arrow d=(format!("M{} 69 h16 v-46 h16", left + 118)) {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_value_is_at_the_top_and_nothing_at_the_bottom() {
        let svg = line(&[0.0, 4.0, 2.0], "rates").into_string();
        assert!(svg.contains(r#"points="0.0,39.0 120.0,1.0 240.0,20.0""#), "{svg}");
        assert!(line(&[], "none").into_string().contains(r#"points="""#));
        assert!(line(&[0.0], "zero").into_string().contains(r#"points="0.0,39.0""#));
    }

    #[test]
    fn a_queues_bar_grows_with_its_digits() {
        let bar = |depth| {
            let stage = Stage { queue: "tasks".to_owned(), step: "register", depth };
            let svg = pipeline(&[stage]).into_string();
            svg.split(r#"class="depth""#)
                .nth(1)
                .unwrap()
                .split("width=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!([0, 1, 10, 1_000_000, u64::MAX].map(bar), ["0", "16", "32", "112", "112"]);
    }
}
