//! What the steps have done: on a laptop since its start, of a deployed stack in the last hour.

use std::sync::Arc;

use groupage_aws::dollars;
use groupage_aws::entry::Metric;
use groupage_core::steps::look::Crowd;
use maud::{Markup, html};

use crate::backend::{Visit, Worked};
use crate::chart;
use crate::history::Series;
use crate::page::{facts, text};
use crate::recorded::{Answer, Hour};
use crate::words::grouped;

/// What CloudWatch says of a stack whose steps run elsewhere, and for how many metrics it was asked.
pub struct Told {
    answer: Arc<Answer>,
    metrics: usize,
}

/// Asks CloudWatch, if it may know.
pub async fn ask(visit: &Visit<'_>) -> Option<Told> {
    let recorded = visit.console.recorded.as_ref()?;
    Some(Told { answer: recorded.hour(visit.now).await, metrics: recorded.metrics() })
}

/// Steps of this process say it themselves; those of a deployed stack write it to CloudWatch.
pub fn show(visit: &Visit<'_>, crowd: &Crowd, told: Option<&Told>) -> Markup {
    match (&visit.console.work, told) {
        (Some(work), _) => since_the_start(visit, &work(), crowd),
        (None, Some(told)) => last_hour(told),
        (None, None) => html! {
            h2 { "Figures" }
            p {
                "The steps do not run in this process. Charts of a deployed stack are shown if the console is started with "
                code { "--stack NAME" } "."
            }
        },
    }
}

fn since_the_start(visit: &Visit<'_>, worked: &Worked, crowd: &Crowd) -> Markup {
    html! {
        h2 { "Figures since the start" }
        (facts(totals(worked)))
        div.charts {
            @for series in Series::ALL {
                @let rates = visit.console.history.rates(series);
                @let latest = rates.last().copied().unwrap_or_default();
                figure {
                    figcaption { (series.title()) ": " (format!("{latest:.1}")) " a second" }
                    (chart::line(&rates, &format!("{} a second over the last hour", series.title())))
                }
            }
        }
        @if crowd.groups.is_empty() && worked.counts.get(Metric::TasksRegistered) == 0 {
            p { "Send a task: " code { "groupage send tasks.ndjson" } }
        }
    }
}

fn last_hour(told: &Told) -> Markup {
    let metrics = told.metrics;
    let usd = metrics as f64 * dollars::METRIC / 1e6;
    html! {
        h2 { "Figures of the last hour" }
        @match &*told.answer {
            Err(why) => p.note { "CloudWatch does not give them: " (text(why)) },
            Ok(hour) => {
                div.charts { @for series in Series::ALL { (figure(hour, series)) } }
                p.note {
                    "From CloudWatch, which is a minute or two behind. It is asked at most once a minute while somebody "
                    "looks: " (metrics) " metrics for $" (format!("{usd:.5}")) "."
                }
            }
        }
    }
}

fn figure(hour: &Hour, series: Series) -> Markup {
    let minutes = hour.minutes(series);
    let most = minutes.iter().copied().fold(0.0, f64::max);
    html! {
        figure {
            figcaption {
                (series.title()) ": " (whole(hour.total(series))) " in the last hour, " (whole(most)) " in its busiest minute"
            }
            (chart::line(minutes, &format!("{} a minute over the last hour", series.title())))
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what was counted is a whole number")]
fn whole(count: f64) -> String {
    grouped(count.round() as u64)
}

fn totals(worked: &Worked) -> Vec<(&'static str, Markup)> {
    let count = |metric| worked.counts.get(metric);
    let (tasks, batches) = (count(Metric::TasksRegistered), count(Metric::BatchesFrozen));
    let capacity = worked.usage.capacity();
    let usd = capacity.write.count() * dollars::WRITE + capacity.read.count() * dollars::READ;
    let number = |number: u64| html! { (grouped(number)) };
    let mut rows = vec![("tasks in", number(tasks)), ("batches out", number(batches))];
    if batches > 0 {
        let members = count(Metric::BatchMembers) as f64 / batches as f64;
        rows.push(("tasks in a batch", html! { (format!("{members:.1}")) }));
    }
    rows.push(("succeeded", number(count(Metric::TasksSucceeded))));
    rows.push(("failed", number(count(Metric::TasksFailed))));
    rows.push(("calls to be made again", number(count(Metric::CallsRetried))));
    if tasks > 0 {
        let per_million = usd / tasks as f64;
        rows.push(("DynamoDB per million tasks, at AWS's price", html! { "$" (format!("{per_million:.2}")) }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use groupage_aws::entry::Counts;

    use super::*;

    #[test]
    fn what_cloudwatch_says_instead_of_figures_is_shown_as_text() {
        let told = Told { answer: Arc::new(Err("<b> is not authorized".to_owned())), metrics: 24 };
        let shown = last_hour(&told).into_string();
        assert!(shown.contains("CloudWatch does not give them: ") && shown.contains("&lt;b&gt; is not authorized"));
        assert!(!shown.contains("<svg"), "{shown}");
    }

    #[test]
    fn a_batch_is_as_full_as_its_members_and_nothing_is_divided_by_nothing() {
        let mut counts = Counts::default();
        let text = |counts: &Counts| {
            let worked = Worked { counts: counts.clone(), ..Worked::default() };
            facts(totals(&worked)).into_string()
        };
        assert!(!text(&counts).contains("NaN") && !text(&counts).contains("tasks in a batch"));
        counts.add(Metric::TasksRegistered, 10);
        counts.add(Metric::BatchesFrozen, 4);
        counts.add(Metric::BatchMembers, 10);
        assert!(text(&counts).contains("2.5"));
    }
}
