//! What this process holds in memory, and how much of a processor it has used.

/// Linux counts processor time for people in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Resident memory in bytes, as the operating system counts it; `None` where it does not say.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Seconds of processor time that all threads have used so far; `None` where the operating system does not say.
pub fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name is in brackets and may hold anything. After it: user and system time are the 12th and 13th.
    let mut times = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}
