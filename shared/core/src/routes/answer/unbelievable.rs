//! Answers that cannot be believed.

/// Values of an answer that an expression reads, at most.
pub(super) const MAX_VALUES: usize = 100_000;

/// The reason for which an answer cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::routes) enum Unbelievable {
    /// It is no JSON.
    NotJson,
    /// It is a page for people.
    Html,
    /// It ends early.
    Cut,
    /// It is in UTF-16.
    Utf16,
    /// It is XML, and no XML is expected.
    Xml,
    /// It is not the XML that is expected.
    NotXml,
    /// It has too many values.
    TooLarge,
    /// The mapping finds no results.
    WithoutResults,
    /// An entry has no id, or no place.
    WithoutId,
    /// It has more or fewer entries than the call has members.
    OfWrongLength,
    /// It names an item that is not in the call.
    NamesUnknownItem,
    /// It says of one member that it succeeded and that it did not.
    ContradictsItself,
    /// It is JSON of none of the known forms.
    NotUnderstood,
}

impl Unbelievable {
    /// Returns it as the reason of the retry.
    pub(in crate::routes) const fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "answer_not_json",
            Self::Html => "answer_html",
            Self::Cut => "answer_cut",
            Self::Utf16 => "answer_utf16",
            Self::Xml => "answer_xml",
            Self::NotXml => "answer_not_xml",
            Self::TooLarge => "answer_too_large",
            Self::WithoutResults => "answer_without_results",
            Self::WithoutId => "answer_without_id",
            Self::OfWrongLength => "answer_of_wrong_length",
            Self::NamesUnknownItem => "answer_names_unknown_item",
            Self::ContradictsItself => "answer_contradicts_itself",
            Self::NotUnderstood => "answer_not_understood",
        }
    }

    /// Returns whether it is no fault of the settings: a page for people comes from a machine in between, such as a
    /// login or a balancer, and what ends early was cut off there, or at its source.
    pub(in crate::routes) const fn is_outage(self) -> bool {
        matches!(self, Self::Html | Self::Cut)
    }
}
