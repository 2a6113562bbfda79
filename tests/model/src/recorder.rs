//! The ports as a step sees them here: every call becomes an [`Op`] that waits until the model answers it.
//!
//! Time stands still at 0. What is over in time (a lease, a session, a window, a pause) is so because the model writes a
//! 0 into the table. Gates are not limited and answer at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::io::{Answer, Op};

/// The calls of one step so far.
#[derive(Debug)]
pub struct Recorder<O = Op, A = Answer> {
    asked: Mutex<Vec<Asked<O, A>>>,
    /// The fresh name that this step may give.
    pub(crate) name: String,
}

#[derive(Debug)]
struct Asked<O, A> {
    op: O,
    answer: Option<A>,
    waker: Option<Waker>,
    dropped: bool,
}

impl<O: Clone + Unpin, A: Clone> Recorder<O, A> {
    /// A recorder for one run of a step.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self { asked: Mutex::new(Vec::new()), name }
    }

    /// Answers a call; the step goes on when it is polled next.
    pub fn answer(&self, index: usize, answer: A) {
        if let Some(asked) = self.lock().get_mut(index) {
            asked.answer = Some(answer);
            if let Some(waker) = asked.waker.take() {
                waker.wake();
            }
        }
    }

    /// The calls that wait for an answer, in the order in which they were made.
    #[must_use]
    pub fn pending(&self) -> Vec<(usize, O)> {
        let asked = self.lock();
        let waits = asked.iter().enumerate().filter(|(_, asked)| asked.answer.is_none() && !asked.dropped);
        waits.map(|(index, asked)| (index, asked.op.clone())).collect()
    }

    pub(crate) fn ask(&self, op: O) -> Ask<'_, O, A> {
        Ask { recorder: self, op: Some(op), index: None }
    }
}

impl<O, A> Recorder<O, A> {
    fn lock(&self) -> MutexGuard<'_, Vec<Asked<O, A>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way. Nothing is asked before it is polled; one that is dropped is asked no more.
pub struct Ask<'a, O, A> {
    recorder: &'a Recorder<O, A>,
    op: Option<O>,
    index: Option<usize>,
}

impl<O: Unpin, A: Clone> Future for Ask<'_, O, A> {
    type Output = A;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<A> {
        let this = &mut *self;
        let mut all = this.recorder.lock();
        if let Some(op) = this.op.take() {
            this.index = Some(all.len());
            all.push(Asked { op, answer: None, waker: None, dropped: false });
        }
        let Some(asked) = this.index.and_then(|index| all.get_mut(index)) else { return Poll::Pending };
        if let Some(answer) = asked.answer.clone() {
            return Poll::Ready(answer);
        }
        asked.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<O, A> Drop for Ask<'_, O, A> {
    fn drop(&mut self) {
        if let Some(index) = self.index
            && let Some(asked) = self.recorder.lock().get_mut(index)
        {
            asked.dropped = true;
        }
    }
}
