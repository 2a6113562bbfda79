use super::*;
use crate::domain::id::{Round, RouteName};

const NOW: Timestamp = Timestamp(7);

fn id(n: u64) -> TaskId {
    TaskId::new(format!("t{n}"))
}

fn lane(numbering: Numbering) -> Lane {
    Lane::open(LaneId::of(&RouteName::new("r"), "k"), numbering, NOW)
}

fn queued(n: u64, turn: u64) -> Queued {
    let candidate = Candidate { id: id(n), round: Round(0), bytes: 2, traits: crate::domain::Traits::default() };
    Queued { turn: Turn(turn), target: Target::of(&RouteName::new("r"), "t"), candidate }
}

#[test]
fn tasks_go_in_the_order_of_their_arrival() {
    let (lane, places) = lane(Numbering::ByArrival).lined_up(&[(id(0), None), (id(1), None)], NOW);
    let lane = lane.unwrap();
    assert_eq!(places, [Place::First, Place::Behind(Turn(1))]);
    assert_eq!((&lane.state, lane.next), (&State::Taken(id(0)), Turn(2)));
    let settled = |lane: &Lane, n, next: Option<&Queued>| {
        lane.settled((&id(n), Round(0)), Outcome::Succeeded, OnFailure::Hold, next, NOW)
    };
    let lane = settled(&lane, 0, Some(&queued(1, 1))).unwrap();
    assert_eq!((&lane.state, lane.head), (&State::Taken(id(1)), Turn(1)));
    assert_eq!(settled(&lane, 0, None), None, "a repeat changes nothing");
    let lane = settled(&lane, 1, None).unwrap();
    assert!(lane.is_idle());
    assert_eq!(lane.head, lane.next);
}

#[test]
fn a_task_that_comes_too_early_waits_for_the_hole_to_be_filled() {
    let by_sequence = lane(Numbering::BySequence { first: Turn(1) });
    let (lane, places) = by_sequence.lined_up(&[(id(3), Some(Turn(3))), (id(1), Some(Turn(1)))], NOW);
    let lane = lane.unwrap();
    assert_eq!(places, [Place::Behind(Turn(3)), Place::First]);
    let lane = lane.settled((&id(1), Round(0)), Outcome::Succeeded, OnFailure::Hold, None, NOW).unwrap();
    assert_eq!((&lane.state, lane.head), (&State::Free, Turn(2)));
    assert!(!lane.is_idle());
    let (lane, places) = lane.lined_up(&[(id(2), Some(Turn(2)))], NOW);
    assert_eq!(places, [Place::First]);
    let lane = lane.unwrap();
    let lane = lane.settled((&id(2), Round(0)), Outcome::Succeeded, OnFailure::Hold, Some(&queued(3, 3)), NOW).unwrap();
    assert_eq!(lane.state, State::Taken(id(3)));
}

#[test]
fn a_number_is_used_once() {
    let by_sequence = lane(Numbering::BySequence { first: Turn(1) });
    let twice = [(id(1), Some(Turn(1))), (id(2), Some(Turn(1))), (id(3), Some(Turn(0))), (id(4), None)];
    let (lane, places) = by_sequence.lined_up(&twice, NOW);
    assert_eq!(places, [Place::First, Place::Used, Place::Used, Place::OtherNumbering]);
    let (unchanged, places) = lane.unwrap().lined_up(&[(id(9), Some(Turn(1)))], NOW);
    assert_eq!((unchanged, places), (None, vec![Place::Used]));
}

#[test]
fn a_failure_holds_skips_or_fails_the_rest() {
    let (lane, _) = lane(Numbering::ByArrival).lined_up(&[(id(0), None), (id(1), None)], NOW);
    let lane = lane.unwrap();
    let failed = |policy| lane.settled((&id(0), Round(0)), Outcome::Failed, policy, Some(&queued(1, 1)), NOW).unwrap();
    assert_eq!(failed(OnFailure::Skip).state, State::Taken(id(1)));
    let held = failed(OnFailure::Hold);
    assert_eq!((&held.state, held.head), (&State::Held(id(0)), Turn(0)));
    let (more, places) = held.lined_up(&[(id(2), None)], NOW);
    assert_eq!(places, [Place::Behind(Turn(2))]);
    assert_eq!(more.unwrap().resumed(Some(&queued(1, 1)), NOW).unwrap().state, State::Taken(id(1)));
    let failing = failed(OnFailure::FailRest);
    assert_eq!((&failing.state, failing.head), (&State::Failing(id(0)), Turn(2)));
    let (more, places) = failing.lined_up(&[(id(2), None)], NOW);
    let more = more.unwrap();
    assert_eq!((places, more.head), (vec![Place::Behind(Turn(2))], Turn(3)), "its turn is over before it came");
    let resumed = more.resumed(None, NOW).unwrap();
    assert_eq!(resumed.lined_up(&[(id(3), None)], NOW).1, [Place::First]);
}
#[test]
fn a_number_far_beyond_all_others_is_refused_and_an_arrival_never() {
    let first = Turn(5);
    let by_sequence = lane(Numbering::BySequence { first });
    let place = |turn| by_sequence.lined_up(&[(id(1), Some(Turn(turn)))], NOW).1;
    assert_eq!(place(first.0 + MAX_AHEAD), [Place::Behind(Turn(first.0 + MAX_AHEAD))]);
    assert_eq!(place(first.0 + MAX_AHEAD + 1), [Place::TooFarAhead]);
    let long = Lane { next: Turn(2 * MAX_AHEAD), state: State::Taken(id(0)), ..lane(Numbering::ByArrival) };
    assert_eq!(long.lined_up(&[(id(1), None)], NOW).1, [Place::Behind(Turn(2 * MAX_AHEAD))]);
}

#[test]
fn every_number_that_a_task_may_bring_is_one_to_parsers_that_know_floats_only() {
    let as_float = |number: u64| serde_json::from_str::<f64>(&number.to_string()).unwrap().to_string();
    assert_eq!(as_float(MAX_SEQUENCE), MAX_SEQUENCE.to_string());
}

#[test]
fn a_lane_that_a_person_lets_go_on_counts_as_stopped_until_its_task_is_let_in() {
    let held = Lane { state: State::Held(id(0)), next: Turn(2), ..lane(Numbering::ByArrival) };
    assert!(held.is_stopped() && held.entered(NOW).is_none());
    let resuming = held.resumed(Some(&queued(1, 1)), NOW).unwrap();
    assert!(resuming.is_stopped() && resuming.has_turn(&queued(1, 1)));
    let later = NOW.plus_ms(1);
    let entered = resuming.entered(later).unwrap();
    assert!(!entered.is_stopped());
    assert_eq!((entered.revision, entered.active_at), (resuming.revision.next(), later));
    assert_eq!(entered.entered(NOW), None, "nobody doubts it");
    assert!(!held.resumed(None, NOW).unwrap().is_stopped(), "there is no task to wait for");
}

#[test]
fn a_lane_is_stopped_by_the_task_that_failed_and_no_other() {
    for (state, stops) in
        [(State::Free, false), (State::Taken(id(0)), false), (State::Held(id(0)), true), (State::Failing(id(0)), true)]
    {
        let lane = Lane { state, ..lane(Numbering::ByArrival) };
        assert_eq!((lane.is_stopped_by(&id(0)), lane.is_stopped()), (stops, stops));
        assert!(!lane.is_stopped_by(&id(1)));
    }
}

#[test]
fn only_the_task_at_the_head_has_the_turn() {
    let taken = Lane { state: State::Taken(id(1)), head: Turn(4), ..lane(Numbering::ByArrival) };
    assert!(taken.has_turn(&queued(1, 4)));
    assert!(!taken.has_turn(&queued(1, 3)) && !taken.has_turn(&queued(2, 4)));
    assert!(!Lane { state: State::Held(id(1)), ..taken }.has_turn(&queued(1, 4)), "it failed");
}

#[test]
fn a_task_that_ended_before_its_turn_gives_it_to_the_next() {
    let taken = Lane { state: State::Taken(id(1)), head: Turn(4), next: Turn(6), ..lane(Numbering::ByArrival) };
    let passed = taken.passed_by(Some(&queued(2, 5)), NOW).unwrap();
    assert_eq!((passed.state, passed.head, passed.is_resuming), (State::Taken(id(2)), Turn(5), false));
    assert_eq!(taken.passed_by(None, NOW).unwrap().state, State::Free);
    assert_eq!(Lane { state: State::Held(id(1)), ..taken.clone() }.passed_by(None, NOW), None, "it failed");
    // A person who let it go on may have died before the next was let in.
    let resuming = Lane { is_resuming: true, ..taken };
    assert!(resuming.passed_by(Some(&queued(2, 5)), NOW).unwrap().is_stopped());
}

#[test]
fn only_the_number_that_is_missing_is_given_up() {
    let open = lane(Numbering::BySequence { first: Turn(1) });
    assert_eq!(open.missing(), None, "no task waits for it");
    let lane = open.lined_up(&[(id(5), Some(Turn(5)))], NOW).0.unwrap();
    assert_eq!(lane.missing(), Some(Turn(1)));
    let first = queued(5, 5);
    assert_eq!(lane.skipped(Turn(2), &first, NOW), None, "it was another that was missing");
    assert_eq!(lane.skipped(Turn(1), &queued(1, 1), NOW), None, "it has come");
    let skipped = lane.skipped(Turn(1), &first, NOW).unwrap();
    assert!(skipped.has_turn(&first) && skipped.is_stopped(), "a person who dies is found");
    assert_eq!((skipped.missing(), skipped.skipped(Turn(1), &first, NOW)), (None, None));
    assert_eq!(skipped.lined_up(&[(id(2), Some(Turn(2)))], NOW).1, [Place::Used]);
}
