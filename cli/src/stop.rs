//! When to stop: the first signal asks for a clean end, the second for one at once.

use std::time::Duration;

use tokio::sync::watch;

/// What a signal asks for, each more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    GoOn,
    /// Begin nothing more, and finish what is in hand.
    Finish,
    /// Drop what is in hand.
    DropAll,
}

/// Knows whether somebody has asked the process to end: by Ctrl-C, or `kill`.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Wish>);

impl Stop {
    /// Listens from now on. What is in hand is to be dropped at the second signal, or when `grace` is over.
    pub fn listen(grace: Option<Duration>) -> Self {
        let (wish, seen) = watch::channel(Wish::GoOn);
        let mut signals = Signals::listen();
        tokio::spawn(async move {
            signals.next().await;
            tracing::info!("stopping: finishing what is in hand; a second signal drops it");
            // The receiver may have ended by now.
            let _ = wish.send(Wish::Finish);
            tokio::select! {
                () = signals.next() => {}
                () = after(grace) => {}
            }
            let _ = wish.send(Wish::DropAll);
        });
        Self(seen)
    }

    /// Whether nothing more is to begin.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() >= Wish::Finish
    }

    /// Returns when nothing more is to begin.
    pub async fn requested(&self) {
        self.wished(Wish::Finish).await;
    }

    /// Returns when what is in hand is to be dropped.
    pub async fn at_once(&self) {
        self.wished(Wish::DropAll).await;
    }

    async fn wished(&self, least: Wish) {
        if self.0.clone().wait_for(|wish| *wish >= least).await.is_err() {
            // Nobody listens any more, so nobody will wish for it.
            std::future::pending::<()>().await;
        }
    }
}

async fn after(grace: Option<Duration>) {
    match grace {
        Some(grace) => tokio::time::sleep(grace).await,
        None => std::future::pending().await,
    }
}

#[cfg(unix)]
struct Signals(Vec<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Signals {
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        // Without a handler a signal ends the process by itself.
        Self(
            [SignalKind::interrupt(), SignalKind::terminate()]
                .into_iter()
                .filter_map(|kind| signal(kind).ok())
                .collect(),
        )
    }

    async fn next(&mut self) {
        if self.0.is_empty() {
            std::future::pending::<()>().await;
        }
        futures::future::select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Self {
        Self
    }

    async fn next(&mut self) {
        // Without a handler Ctrl-C ends the process by itself.
        let _ = tokio::signal::ctrl_c().await;
    }
}
