//! What must hold, and the rules that keep it.

use super::setting::{
    ALONE, APART, APIECE, ERROR, FOUR, KILLS, LEFT, PACED, PAIR, PAUSE, PLACE, RATE, SHARED, SWEPT, Setting,
};
use crate::harness::claims::{promises, rules};

promises! {
    /// No more batches are called at once than there are places. A call is left out, and no other is compared with it,
    /// whose worker stood still right before it for longer than its place's lease.
    PlacesKept: "more calls are in flight than there are places",
    /// No two calls of a rate are nearer to each other than its gap. A call is left out, and no other is compared with
    /// it, whose worker stood still right before it: nobody can know that it is still to be made.
    GapKept: "two calls are nearer to each other than the rate allows",
    /// No call is made during a pause that was durable before its worker looked last.
    PauseKept: "a call is made in a pause",
    /// Those that came first are called first; of those that wait for places, if they came so much earlier.
    FirstComeFirst: "a batch is overtaken",
    /// Every batch gets its call, within the time that the setting says.
    InTime: "a batch gets its call too late",
    /// When nothing is left to happen, every batch has ended whose message was not lost.
    NothingLost: "a batch never ends",
    /// When nothing is left to happen and nobody has died, no place is held.
    PlacesReturned: "a place is held though all calls have ended",
    /// A batch's attempts are the calls that were made of it, and the claims whose worker was lost right before.
    AttemptsAreCalls: "attempts are not the calls that were made",
    /// A batch is called as often as its route allows, however many workers it loses, and each of its parts once.
    CalledAsAllowed: "a batch is called more often than its route allows",
    /// A member fails only if its calls kill their workers, or if its batch is not taken apart.
    BlameIsRight: "a member fails for what it has not done",
}

rules! { Setting;
    /// A gate is written over what was read.
    GateAsRead: PLACE => PlacesKept,
    /// A place of a dead worker is free when its lease is over.
    LeaseEnds: LEFT => InTime,
    /// A limit that routes share counts the calls of all of them.
    CountsAllRoutes: SHARED => PlacesKept,
    /// A place is kept for those that have waited for it.
    TurnKept: Setting { batches: &FOUR, ..PLACE } => FirstComeFirst,
    /// Who waits leaves a message that comes back.
    WaitersComeBack: RATE => NothingLost,
    /// A place is given back.
    PlaceGivenBack: PLACE => PlacesReturned,
    /// A delivery that did not get the claim gives back the place that it took.
    LoserLeaves: ALONE => PlacesReturned,
    /// It leaves the place alone that the batch had before, while the batch may be called.
    OthersPlaceStays: PAIR => PlacesKept,
    /// A lease that is renewed becomes later than the one that another delivery may know.
    RenewedIsLater: PAIR => PlacesKept,
    /// Once the outcome is recorded, the caller gives its place back by whichever lease it has there.
    LeftOnceSettled: ALONE => PlacesReturned,
    /// A delivery that waited while another one had its batch called gives its place back.
    LeftAfterWait: APIECE => PlacesReturned,
    /// The gate is looked at again right before the call.
    LooksAgain: Setting { mishaps: PAUSE, ..RATE } => PauseKept,
    /// A pause is written down for all workers.
    PauseForAll: Setting { mishaps: PAUSE, ..RATE } => PauseKept,
    /// The write that admits a call reserves its start, beside permits as well.
    StartReserved: PACED => GapKept,
    /// The message carries the ticket.
    TicketTravels: RATE => InTime,
    /// A claim counts as a call, also one that is taken over.
    ClaimCounts: KILLS => AttemptsAreCalls,
    /// Sweep's nudge gives no attempt back.
    NudgeKeepsCount: SWEPT => AttemptsAreCalls,
    /// How far a batch that lost its workers is taken apart is written down.
    PartsNoted: APART => CalledAsAllowed,
    /// A batch that has not come to its call has used up no attempt.
    OnlyCallsCount: Setting { mishaps: ERROR, ..PLACE } => AttemptsAreCalls,
}
