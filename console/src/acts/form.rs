//! Forms: what they carry, and how they are read.

use maud::{Markup, html};

use crate::backend::Console;
use crate::view::ROOT;

/// The fields of a form, in their order; a name may come more than once.
pub type Fields = Vec<(String, String)>;

/// A form makes no sense, or does not come from the console.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It does not carry the console's secret.
    #[error("the form is not the console's, or is older than its key: go back and load the page again")]
    Foreign,
    /// A field is missing, or holds what it may not.
    #[error("{0}")]
    Field(String),
}

/// The fields of a form that nobody fills in, the console's secret among them.
pub fn hidden(console: &Console, fields: &Fields) -> Markup {
    html! {
        input type="hidden" name="form" value=(console.pass.form);
        @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
    }
}

/// A form that is one button.
pub fn button(console: &Console, fields: &[(&str, &str)], label: &str) -> Markup {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    html! { form.act method="post" action={ (ROOT) "/act" } { (hidden(console, &fields)) button { (label) } } }
}

/// What a field says; nothing if it is absent.
pub fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.trim())
}
