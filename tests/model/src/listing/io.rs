//! One I/O of a call about a list: what it asks of the tables, and what it is told.

use groupage_core::domain::id::Token;
use groupage_core::domain::list::{Addition, List, Move, Put, Record, Slot, Tail};
use groupage_core::ports::{Moved, PutOn};

use crate::kept::Kept;

/// What a call asks for.
#[derive(Clone, Debug)]
pub enum Op {
    /// `Lists::list`.
    List,
    /// `Lists::put_on_list`.
    Put(Kept<Put>),
    /// `Lists::additions`.
    Additions(Vec<String>),
    /// `Lists::move_head`.
    Move(Kept<Move>),
    /// `Lists::record`.
    Record(String),
    /// `Lists::store_record`.
    StoreRecord(Kept<Record>),
    /// `Lists::slots`.
    Slots(Token, Token, usize),
    /// `Lists::remove_slots`.
    RemoveSlots(Vec<Token>),
    /// `Lists::store_tail`.
    StoreTail(Kept<Tail>),
    /// `Outbox::send`.
    Send(Kept<String>),
}

/// What it is told.
#[derive(Clone, Debug, Hash)]
pub enum Answer {
    /// The list.
    List(Option<Kept<List>>),
    /// What became of putting.
    Put(Kept<PutOn>),
    /// What was put.
    Additions(Kept<Vec<Addition>>),
    /// What became of a move.
    Moved(Kept<Moved>),
    /// A record.
    Record(Option<Kept<Record>>),
    /// Whether something was written.
    Stored(bool),
    /// Tasks.
    Slots(Kept<Vec<Slot>>),
    /// It is done.
    Done,
}
