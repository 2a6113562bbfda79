//! The runtime of each program, and the stack of its threads.
//!
//! A step is one future within another, from the queue's event down to a request of the SDK. An unoptimised build keeps
//! several copies of each on the stack, so the large ones are boxed: requests, admission, processing under a session.

use std::env;
use std::io;
use std::panic::resume_unwind;
use std::thread;

use tokio::runtime::Builder;

/// The stack of each thread that runs steps, in bytes: over twice what the deepest step takes in an unoptimised build.
/// It is stated because a platform's default may be half of it.
pub const STACK_BYTES: usize = 2 * 1024 * 1024;

/// How many threads run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One, as a function has one processor.
    One,
    /// One for each processor.
    Many,
}

/// Runs a program on threads with [`STACK_BYTES`] of stack each, whatever stack the platform gives the main thread. The
/// standard library's `RUST_MIN_STACK` sets another size.
///
/// # Errors
/// The system refuses a thread or what a runtime needs.
pub fn run<F: Future<Output: Send>>(threads: Threads, program: impl FnOnce() -> F + Send) -> io::Result<F::Output> {
    let mut runtime = match threads {
        Threads::One => Builder::new_current_thread(),
        Threads::Many => Builder::new_multi_thread(),
    };
    let stack_bytes = env::var("RUST_MIN_STACK").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(STACK_BYTES);
    runtime.thread_stack_size(stack_bytes).enable_all();
    thread::scope(|scope| {
        let run = || Ok(runtime.build()?.block_on(program()));
        let main = thread::Builder::new().name("main".to_owned()).stack_size(stack_bytes).spawn_scoped(scope, run)?;
        main.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
