//! Forms: what they carry, and how they are read.

use groupage_aws::Right;
use maud::{Markup, html};

use crate::backend::Visit;
use crate::view::ROOT;
use crate::words::on_one_line;

/// The fields of a form, in their order; a name may come more than once.
pub type Fields = Vec<(String, String)>;

/// A form makes no sense, or does not come from the console.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It does not carry the console's secret.
    #[error(
        "to act takes scripts, and a link that was opened in this browser within a day: `groupage console` prints one"
    )]
    Foreign,
    /// A field is missing, or holds what it may not.
    #[error("{0}")]
    Field(String),
}

/// The fields of a form that nobody fills in. The page's script puts what acts must bring into the first as the
/// form is sent: a page that is had for the cookie alone does not hold it.
pub fn hidden(fields: &Fields) -> Markup {
    html! {
        input type="hidden" name="form" value="";
        @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
    }
}

/// A form that is one button.
pub fn button(visit: &Visit<'_>, fields: &[(&str, &str)], label: &str) -> Markup {
    let fields: Fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let refusal = refusal(visit, text(&fields, "act"));
    html! {
        form.act method="post" action={ (ROOT) "/act" } {
            (hidden(&fields))
            button disabled[refusal.is_some()] { (label) }
            (because(refusal))
        }
    }
}

/// Why AWS refuses an act to the caller, if it does.
pub fn refusal<'a>(visit: &'a Visit<'_>, act: &str) -> Option<&'a str> {
    let right = match act {
        "retry" | "drop" | "cancel" => Right::Tasks,
        "pause" | "go-on" => Right::Gates,
        "release" => Right::Lists,
        "resume" => Right::Lanes,
        "commit" => Right::Streams,
        "redrive" | "delete" => Right::Ended,
        _ => return None,
    };
    visit.denied.get(&right).map(String::as_str)
}

/// The reason beside a button that is disabled.
pub fn because(refusal: Option<&str>) -> Markup {
    html! { @if let Some(refusal) = refusal { " " span.note { "AWS refuses you this: " (on_one_line(refusal)) } } }
}

/// What a field says, to the last space; nothing if it is absent.
pub fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str())
}
