//! Names that almost every model uses: the words of the glossary, the ports with their answers, and the harness.

pub(crate) use groupage_core::domain::message::{Elect, Election, Group, Handle};
pub(crate) use groupage_core::domain::tracker::{Change, GROUP_SIZE, Node, NodeId};
pub(crate) use groupage_core::domain::*;
pub(crate) use groupage_core::ports::{
    Destination, Freshness, Marked, Outgoing, PutBack, Settlement, Signalled, Stored, layer,
};

pub(crate) use crate::harness::act::{Act, Answer, Ports};
pub(crate) use crate::harness::claims::{promises, rules};
pub(crate) use crate::harness::kept::{Kept, Names};
pub(crate) use crate::harness::{Mishaps, Role, Run, Subject};
