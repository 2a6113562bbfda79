//! Gates: every interleaving of batches that pass a route's limits on their way to their calls, with time going on.
//!
//! What runs is the real batch-handler with its gatekeeper, its sessions and its claims, and the real sweep, as
//! histories over a recorder ([`crate::harness`]). Their routes come from YAML, as anybody's. One action is one I/O
//! about a gate, or a mishap. A process dies after any write, or in its call each time. A message comes late or never.
//! A call is answered with a `Retry-After`. A read of members fails.
//!
//! Time goes on when nobody has anything to do: to the next moment at which somebody wakes up, a message comes or
//! sweep begins. Such moments are rounded up to steps of 250 ms, so who wakes up may do so a little late. Each answer
//! tells its process what time it is. All runs are over after some minutes, which is a promise, so the space is finite.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `GateAsRead`, `OthersPlaceStays`, `RenewedIsLater`, `CountsAllRoutes` | more calls are in flight than there are places |
//! | `StartReserved` | two calls are nearer to each other than the rate allows |
//! | `LooksAgain`, `PauseForAll` | a call is made in a pause |
//! | `TurnKept` | a batch is overtaken |
//! | `LeaseEnds`, `TicketTravels` | a batch gets its call too late |
//! | `WaitersComeBack` | a batch never ends |
//! | `PlaceGivenBack`, `LoserLeaves` | a place is held though all calls have ended |
//! | `LeftOnceSettled`, `LeftAfterWait` | the same |
//! | `OnlyCallsCount`, `ClaimCounts`, `NudgeKeepsCount` | attempts are not the calls that were made |
//! | `PartsNoted` | a batch is called more often than its route allows |
//!
//! What only one batch's process can tell happens at once, unless the process may die of it or another delivery of the
//! batch is about: its own item, its session, its members, sweep's look through an index.
//!
//! Not covered: outages, people's pauses, workers that pull, heartbeats, clocks that differ.

mod calls;
pub mod model;
pub mod promises;
mod setting;
mod state;
mod turn;
mod world;
