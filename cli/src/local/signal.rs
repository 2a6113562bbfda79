//! When to stop.

/// Returns when somebody asks the process to end: Ctrl-C, or `kill`.
pub async fn stop_requested() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    // Without handlers the signals end the process by themselves.
    let _ = interrupted.await;
}
