//! A list and those who use it, by a seed.

use groupage_core::domain::id::ListId;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::shelf::{Call, Caller, What};

/// Callers, and events of the task queue whose messages name the list or none.
#[derive(Clone, Debug)]
pub(super) struct Random {
    pub(super) callers: Vec<Caller>,
    pub(super) events: Vec<(u64, Vec<String>)>,
}

/// A list on which these messages are put, by callers or by the messages themselves.
pub(super) fn of(dice: &mut StdRng, bodies: &[String]) -> Random {
    let list = ListId::new("shelf");
    let one_of = |dice: &mut StdRng, choices: &[u64]| choices[dice.random_range(0..choices.len())];
    let (mut events, mut putters) = (Vec::new(), vec![Vec::new(); dice.random_range(1..=3)]);
    for (n, chunk) in bodies.chunks(dice.random_range(1..=6)).enumerate() {
        if dice.random_bool(0.3) {
            let named: Vec<String> = chunk.iter().map(|body| naming(body, &list)).collect();
            let at = one_of(dice, &[0, 100, 20_000]);
            events.push((at, named.clone()));
            if dice.random_bool(0.3) {
                events.push((at + one_of(dice, &[0, 50, 90_000]), named));
            }
        } else {
            let putter = dice.random_range(0..putters.len());
            let what = What::Put(format!("put{n}"), chunk.to_vec());
            putters[putter].extend(calls(dice, &[0, 0, 50, 5_000], what));
        }
    }
    let mut callers: Vec<Caller> = putters.into_iter().map(|calls| Caller::new(&list, calls)).collect();
    for who in 0..dice.random_range(1..=4) {
        let mut made = Vec::new();
        for n in 0..dice.random_range(1..=4) {
            let what = if dice.random_bool(0.12) {
                What::Discard(format!("discard{who}-{n}"))
            } else {
                What::Release(format!("release{who}-{n}"), dice.random_range(1..=6))
            };
            made.extend(calls(dice, &[0, 20, 300, 4_000, 70_000], what));
        }
        callers.push(Caller { is_repeated: dice.random_bool(0.5), ..Caller::new(&list, made) });
    }
    if dice.random_bool(0.3) {
        let call = |after_ms, what| Call { after_ms, what };
        let (close, open) = (one_of(dice, &[0, 100, 4_000, 20_000]), one_of(dice, &[100, 10_000]));
        callers.push(Caller::new(&list, vec![call(close, What::Close), call(open, What::Open)]));
    }
    Random { callers, events }
}

/// A call, which may be made twice.
fn calls(dice: &mut StdRng, pauses_ms: &[u64], what: What) -> Vec<Call> {
    let mut call = || Call { after_ms: pauses_ms[dice.random_range(0..pauses_ms.len())], what: what.clone() };
    let first = call();
    let second = call();
    if dice.random_bool(0.2) { vec![first, second] } else { vec![first] }
}

/// A message that waits on a list first.
pub(crate) fn naming(body: &str, list: &ListId) -> String {
    format!(r#"{},"list":"{list}"}}"#, body.strip_suffix('}').unwrap_or(body))
}
