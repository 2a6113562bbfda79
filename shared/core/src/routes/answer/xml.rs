//! XML answers as JSON, read event by event: neither the reader nor this module calls itself for each element within
//! another, and no entity is resolved but those that XML itself defines.

use std::collections::BTreeMap;

use quick_xml::errors::SyntaxError;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error, Reader, XmlVersion};

use super::unbelievable::{MAX_VALUES, Unbelievable};
use crate::routes::expression::Data;

/// Elements within each other, at most: as deep as JSON may be. Dropping a value takes stack for each of them.
const MAX_DEPTH: usize = 100;

/// An element that is not closed yet.
#[derive(Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, Data>,
    children: BTreeMap<String, Vec<Data>>,
    text: String,
}

impl Element {
    fn of(start: &BytesStart<'_>, values: &mut usize) -> Result<Self, Unbelievable> {
        let mut element = Self { name: start.local_name().as_ref().to_owned(), ..Self::default() };
        count(values, 3)?;
        // The reader would compare each attribute with all before it.
        for attribute in start.attributes().with_checks(false) {
            count(values, 1)?;
            let attribute = attribute.map_err(|_| Unbelievable::NotXml)?;
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|_| Unbelievable::NotXml)?;
            element.attributes.insert(format!("@{}", attribute.key.local_name().as_ref()), Data::text(&value));
        }
        Ok(element)
    }

    fn into_data(self) -> Data {
        let text = self.text.trim();
        if self.children.is_empty() && self.attributes.is_empty() {
            return Data::text(text);
        }
        let children = self.children.into_iter().map(|(name, values)| (name, Data::list(values)));
        let text = (!text.is_empty()).then(|| ("#text".to_owned(), Data::text(text)));
        Data::object(self.attributes.into_iter().chain(children).chain(text))
    }
}

/// Counts values that are made. An element may make three: an object, the list that it is in, and its text.
fn count(values: &mut usize, more: usize) -> Result<(), Unbelievable> {
    *values += more;
    if *values > MAX_VALUES { Err(Unbelievable::TooLarge) } else { Ok(()) }
}

/// Reads a document as an object with its root element.
pub(super) fn parse(text: &str) -> Result<Data, Unbelievable> {
    let mut reader = Reader::from_str(text);
    let (mut open, mut root, mut values) = (Vec::<Element>::new(), None, 0);
    loop {
        let event = reader.read_event().map_err(|error| match error {
            // The text ended within a tag or a comment.
            Error::Syntax(why) if why != SyntaxError::InvalidBangMarkup => Unbelievable::Cut,
            _ => Unbelievable::NotXml,
        })?;
        let closed = match event {
            Event::Start(start) if open.len() < MAX_DEPTH => {
                open.push(Element::of(&start, &mut values)?);
                None
            }
            Event::Start(_) => return Err(Unbelievable::NotXml),
            Event::Empty(start) => Some(Element::of(&start, &mut values)?),
            Event::End(_) => open.pop(),
            Event::Text(text) => {
                add_text(&mut open, &text.xml10_content())?;
                None
            }
            Event::CData(text) => {
                add_text(&mut open, &text)?;
                None
            }
            Event::GeneralRef(name) => {
                let of_number = name.resolve_char_ref().map_err(|_| Unbelievable::NotXml)?.map(String::from);
                let of_name = || resolve_predefined_entity(&name).map(str::to_owned);
                add_text(&mut open, &of_number.or_else(of_name).ok_or(Unbelievable::NotXml)?)?;
                None
            }
            Event::DocType(_) => return Err(Unbelievable::NotXml),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => None,
            Event::Eof if !open.is_empty() => return Err(Unbelievable::Cut),
            Event::Eof => break,
        };
        let Some(closed) = closed else { continue };
        match open.last_mut() {
            Some(parent) => {
                let name = closed.name.clone();
                parent.children.entry(name).or_default().push(closed.into_data());
            }
            // A page for people comes from a machine in between.
            None if closed.name.eq_ignore_ascii_case("html") => return Err(Unbelievable::Html),
            None if root.is_none() => root = Some(closed),
            None => return Err(Unbelievable::NotXml),
        }
    }
    let root = root.ok_or(Unbelievable::NotXml)?;
    let name = root.name.clone();
    Ok(Data::object([(name, root.into_data())]))
}

/// Adds text to the element that is open; outside the root there is only white space.
fn add_text(open: &mut [Element], text: &str) -> Result<(), Unbelievable> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(Unbelievable::NotXml),
    }
    Ok(())
}
