//! What numbers a command line may hold where clap has no range of its own.

/// A simulation in which no task settles for an hour has hung.
pub const MOST_SECONDS: u64 = 3_000;

/// How many work at once.
pub fn some_workers(text: &str) -> Result<usize, String> {
    between(text, 1, 10_000)
}

pub fn some_tasks(text: &str) -> Result<usize, String> {
    between(text, 1, 10_000_000)
}

/// How many tasks a second.
pub fn a_rate(text: &str) -> Result<f64, String> {
    between(text, 0.01, 1_000_000.0)
}

fn between<T: std::str::FromStr + PartialOrd + std::fmt::Display>(text: &str, low: T, high: T) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| (&low..=&high).contains(&number));
    number.ok_or_else(|| format!("expected {low} to {high}"))
}
