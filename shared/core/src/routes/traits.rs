//! What a route reads out of a payload for the one that groups its task.

use super::Route;
use super::expression::{Data, Expression};
use crate::domain::id::Target;
use crate::domain::task_message::{Code, Rejection};
use crate::domain::traits::{Collapse, MAX_PRIORITY, MAX_WEIGHT, Traits};

/// The expressions that a route has for it; none costs anything where it is absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    pub(super) weight: Option<Expression>,
    pub(super) close_when: Option<Expression>,
    pub(super) collapse: Option<Expression>,
    pub(super) priority: Option<Expression>,
}

impl Reads {
    const fn is_none(&self) -> bool {
        let Self { weight, close_when, collapse, priority } = self;
        weight.is_none() && close_when.is_none() && collapse.is_none() && priority.is_none()
    }
}

impl Reads {
    /// Each that is there, with its field.
    pub(super) fn written(&self) -> impl Iterator<Item = (&'static str, &Expression)> {
        let Self { weight, close_when, collapse, priority } = self;
        let all = [
            ("batch.weight", weight),
            ("batch.close_when", close_when),
            ("collapse", collapse),
            ("priority", priority),
        ];
        all.into_iter().filter_map(|(field, expression)| Some((field, expression.as_ref()?)))
    }
}

impl Route {
    /// What it reads out of a payload for grouping: the options by name, with their expressions.
    pub fn readings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Reads { weight, close_when, collapse, priority } = &self.reads;
        let all = [("weight", weight), ("close_when", close_when), ("collapse", collapse), ("priority", priority)];
        all.into_iter().filter_map(|(option, reads)| Some((option, reads.as_ref()?.as_str())))
    }

    /// Whether its tasks may have traits.
    pub const fn reads_traits(&self) -> bool {
        !self.reads.is_none()
    }

    /// Whether its tasks say what they weigh.
    pub(super) const fn weighs(&self) -> bool {
        self.reads.weight.is_some()
    }

    /// The traits of a task of this Target with this payload; when it came is not known yet.
    pub(super) fn traits(&self, target: &Target, data: &Data) -> Result<Traits, Rejection> {
        let usual = Traits::default();
        if self.reads.is_none() {
            return Ok(usual);
        }
        let weight = match &self.reads.weight {
            Some(weight) => self.number("batch.weight", weight, data, MAX_WEIGHT.into(), Code::BadWeight)?,
            None => usual.weight.into(),
        };
        let most = self.for_target(target).batch.max_weight.unwrap_or(u64::MAX);
        if weight > most {
            let detail = format!("the payload weighs more than `max_weight` of route `{}`, {most}", self.name);
            return Err(Rejection::new(Code::BadWeight, detail));
        }
        let closes = match &self.reads.close_when {
            Some(close) => close.holds(data),
            None => false,
        };
        let collapse = match &self.reads.collapse {
            Some(collapse) if !collapse.value(data).is_null() => {
                Some(Collapse::of(&self.text("collapse", collapse, data, Code::BadCollapse)?))
            }
            Some(_) | None => None,
        };
        let priority = match &self.reads.priority {
            Some(priority) if !priority.value(data).is_null() => {
                self.number("priority", priority, data, MAX_PRIORITY.into(), Code::BadPriority)?
            }
            Some(_) | None => 0,
        };
        let (weight, priority) = (u32::try_from(weight).unwrap_or(u32::MAX), u8::try_from(priority).unwrap_or(u8::MAX));
        Ok(Traits { priority, collapse, weight, closes })
    }

    /// The whole number up to `most` that an expression of this route gives for a payload.
    fn number(
        &self,
        field: &str,
        expression: &Expression,
        data: &Data,
        most: u64,
        code: Code,
    ) -> Result<u64, Rejection> {
        expression.value(data).as_whole_number().filter(|number| *number <= most).ok_or_else(|| {
            let detail = format!(
                "`{field}` of route `{}`, `{}`, gives no whole number from 0 to {most} for the payload",
                self.name,
                expression.as_str()
            );
            Rejection::new(code, detail)
        })
    }
}
