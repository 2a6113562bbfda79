//! The ports as a call sees them here: every I/O waits until the model answers it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use groupage_core::ports::Unasked;
use groupage_core::ports::layer::Layer;

/// The I/Os of one call so far.
#[derive(Debug)]
pub struct Recorder<O, A> {
    asked: Mutex<Vec<Asked<O, A>>>,
    /// The fresh name that this call may give.
    pub(crate) name: String,
    now: AtomicU64,
}

#[derive(Debug)]
struct Asked<O, A> {
    op: O,
    answer: Option<A>,
    waker: Option<Waker>,
    dropped: bool,
}

impl<O: Clone + Unpin, A: Clone> Recorder<O, A> {
    /// A recorder for one run of a call.
    pub const fn new(name: String, now: u64) -> Self {
        Self { asked: Mutex::new(Vec::new()), name, now: AtomicU64::new(now) }
    }

    /// Answers an I/O; the call goes on when it is polled next.
    pub fn answer(&self, index: usize, answer: A) {
        if let Some(asked) = self.lock().get_mut(index) {
            asked.answer = Some(answer);
            if let Some(waker) = asked.waker.take() {
                waker.wake();
            }
        }
    }

    /// The I/Os that wait for an answer, in the order in which they were made.
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
    /// Its time, in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The time of its latest answer.
    pub(crate) fn set_now(&self, now: u64) {
        self.now.store(now, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked<O, A>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls that a model does not answer are not asked.
impl<O: Send, A: Send> Layer for Recorder<O, A> {
    type Inner = Unasked;

    fn inner(&self) -> &Unasked {
        &Unasked
    }
}

/// An I/O under way. Nothing is asked before it is polled; one that is dropped is asked no more.
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
