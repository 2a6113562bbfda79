//! A call's members as templates see them: a list of objects whose payloads are parsed once they are asked for.

use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, Value};

use super::body::Item;

/// Returns the members as a list.
pub(super) fn list(items: &[Item<'_>]) -> Value {
    Value::from_object(Members(items.iter().map(Member::from).map(Arc::new).collect()))
}

/// Returns the bytes of a list of members, or of one: what is in a payload is looked into when it is asked for.
pub(super) fn bytes_of(value: &Value) -> Option<usize> {
    let of = |member: &Member| member.id.len() + member.payload.len();
    if let Some(Members(members)) = value.downcast_object_ref() {
        return Some(members.iter().map(|member| of(member)).sum());
    }
    value.downcast_object_ref::<Looked>().map(|looked| of(&looked.member))
}

/// A call's members, as a list.
#[derive(Debug)]
struct Members(Vec<Arc<Member>>);

/// A member, as an object with `id` and `payload`.
struct Member {
    id: Arc<str>,
    payload: Arc<str>,
}

/// A member whose payload is parsed once it is asked for. Each turn of a loop has one of its own.
struct Looked {
    member: Arc<Member>,
    payload: OnceLock<Value>,
}

impl From<&Item<'_>> for Member {
    fn from(item: &Item<'_>) -> Self {
        Self { id: item.id.into(), payload: item.payload.get().into() }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}", self.id)
    }
}

impl fmt::Debug for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.member.fmt(f)
    }
}

impl Object for Members {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let member = Arc::clone(self.0.get(key.as_usize()?)?);
        Some(Value::from_object(Looked { member, payload: OnceLock::new() }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

impl Object for Looked {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "id" => Some(Value::from(Arc::clone(&self.member.id))),
            "payload" => Some(self.payload.get_or_init(|| parsed(&self.member.payload)).clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["id", "payload"])
    }
}

/// A payload as templates see it; one that is nested too deeply is an error where it is used.
fn parsed(payload: &str) -> Value {
    let too_deep = |_| Value::from(Error::new(ErrorKind::CannotDeserialize, "the payload is nested too deeply"));
    serde_json::from_str(payload).unwrap_or_else(too_deep)
}
