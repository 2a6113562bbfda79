//! Sixty-four workers at once: of those who want the same thing, as many get it as may, which mostly is one.

mod claims;
mod gates;
mod lists;
mod locks;
mod start;
mod trackers;

use crate::ports::fixture::{Fixture, InMemory, LosingAnswers, OnDynamo};
use groupage_lab::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_memory() {
    races(InMemory::start().await, 100, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_dynamodb() {
    races(OnDynamo::start().await, 6, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_dynamodb_losing_answers() {
    races(LosingAnswers::start().await, 3, 0).await;
}

/// Runs every race `rounds` times, and those in which all must win, with their many more writes, `turns` times;
/// those of trackers and lists as well, and once at least.
async fn races(fixture: impl Fixture, rounds: u64, turns: u64) {
    let store = fixture.shared();
    let mut fence = Fence(0);
    for round in 0..rounds {
        fence = locks::one_of_all_wins(&store, round, fence).await;
        locks::one_of_all_takes_over(&store, round).await;
        claims::a_task_joins_one_batch(&store, round).await;
        claims::a_revision_is_written_once(&store, round).await;
        claims::all_may_end_a_dead_session_and_one_takes_its_batch(&store, round).await;
        claims::a_session_is_either_renewed_or_ended(&store, round).await;
        gates::as_many_pass_as_may_be_in_flight(&store, round).await;
        gates::no_two_calls_get_one_time(&store, round).await;
    }
    for turn in 0..turns.max(1) {
        trackers::no_bit_is_lost(&store, turn).await;
        trackers::additions_are_gapless_and_share_no_item(&store, turn).await;
        trackers::one_key_adds_once(&store, turn).await;
        trackers::one_write_completes(&store, turn).await;
        lists::tokens_have_no_holes(&store, turn).await;
        lists::no_token_is_taken_twice(&store, turn).await;
        lists::one_key_takes_once(&store, turn).await;
    }
    for turn in 0..turns {
        locks::everybody_leads_once(&store, turn).await;
        gates::everybody_passes_once(&store, turn).await;
    }
}
