//! Ids in paths, and parameters of queries.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use groupage_core::domain::id::{BatchId, ListId, MAX_TARGET_BYTES, RouteName, StreamId, Target, TaskId, TrackerId};
use utoipa::IntoParams;

use crate::problem::Problem;

/// An id that a path may hold.
pub trait PathId: Sized {
    /// Checks it.
    fn checked(text: &str) -> Result<Self, &'static str>;
}

macro_rules! parsed {
    ($($id:ty),+) => {$(
        impl PathId for $id {
            fn checked(text: &str) -> Result<Self, &'static str> {
                Self::parse(text)
            }
        }
    )+};
}

parsed!(TaskId, TrackerId, ListId, StreamId, RouteName);

impl PathId for BatchId {
    fn checked(text: &str) -> Result<Self, &'static str> {
        let allowed = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 32 && text.bytes().all(allowed) {
            Ok(Self::new(text))
        } else {
            Err("a batch's id has 32 characters out of 0-9 and a-f")
        }
    }
}

impl PathId for Target {
    fn checked(text: &str) -> Result<Self, &'static str> {
        let target = Self::new(text).whole();
        let fits = (1..=MAX_TARGET_BYTES).contains(&target.value().len());
        let is_target = fits && RouteName::parse(target.route().as_str()).is_ok();
        is_target.then_some(target).ok_or("a Target is ROUTE:TARGET, such as parcels:truck-7")
    }
}

/// A tracker's id in a path, as the document shows it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "the published contract; `Id` reads it")]
pub struct OfTracker {
    /// The tracker's id.
    #[param(pattern = "^[A-Za-z0-9_-]{1,64}$", example = "catalog-7")]
    id: String,
}

/// The id in a path.
#[derive(Debug)]
pub struct Id<T>(pub T);

impl<T: PathId, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::parameter("id", "the id in the path is not UTF-8"))?;
        T::checked(&text).map(Self).map_err(|why| Problem::parameter("id", why))
    }
}

/// The parameters of a query, in their order.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::parameter("query", "the query cannot be read"))?;
        Ok(Self(pairs))
    }
}

impl Parameters {
    /// The values of these parameters and no others, each at most once.
    pub fn only<const N: usize>(&self, known: [&str; N]) -> Result<[Option<&str>; N], Problem> {
        let mut found = [None; N];
        for (name, value) in &self.0 {
            let shown = || name.chars().take(64).flat_map(char::escape_debug).collect::<String>();
            let at = known.iter().position(|known| known == name);
            let at = at.ok_or_else(|| Problem::parameter(shown(), "no such parameter is known here"))?;
            if found[at].replace(value.as_str()).is_some() {
                return Err(Problem::parameter(shown(), "the parameter is given twice"));
            }
        }
        Ok(found)
    }
}
