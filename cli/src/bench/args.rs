//! The command line of `groupage bench`. Its doc comments are what `--help` prints.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub struct BenchOptions {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What a large fan-out costs: items acked in random order by many at once. Capacity units, time, storage, memory.
    ///
    /// For each of --chunks it makes empty tables in this process, opens a tracker, adds the items, and has them all acked
    /// through the AWS SDK. Capacity units are counted as DynamoDB bills them.
    ///
    /// A refused write found that another ack had changed the same 256 bits since they were read; it is made again, and
    /// both count. Their share is of all write units of the acks: 5 % means that 5 of 100 units were spent on refused
    /// writes.
    ///
    /// Memory is what the whole process holds before and after the acks: the tables, the SDK and the workers. The order
    /// of the acks is computed as it goes, and takes none.
    ///
    /// Units and bytes hardly depend on the machine; refused writes depend on how many workers really run at once; time
    /// and memory are this machine's. Begin with --items 100000: a million acks of one item each take a while.
    Trackers(BenchTrackers),
    /// Long lists: what taking a task costs at each length, and many who release at once, some of whom are killed.
    Lists(BenchLists),
    /// Long streams: what settling an event costs, and what ten million events leave behind when one of them hangs.
    ///
    /// It settles --events events by --workers at once, in random order of their batches, all but the first; then says how
    /// many bytes the stream's items take, settles the first, and measures how long the watermark takes to pass all others.
    /// Capacity units are counted as DynamoDB bills them.
    Streams(BenchStreams),
    /// Tasks a second: through the steps' own code on tables in plain memory, or through the embedded stack.
    ///
    /// Runs for each of --targets, elected and on the express path. Without --embedded, one thread registers the tasks in
    /// full events, elects and groups those that fill no batch by themselves (all, if elected), calls and settles on
    /// tables in memory: what is measured is the code of the steps and nothing else, --rounds times with new tables, so
    /// that memory that grows shows. With --embedded, tasks are sent to SQS's protocol and go through DynamoDB's, all in
    /// this process, with a laptop's event source mappings.
    ///
    /// The downstream accepts every call at once. Speed is this machine's: compare runs on one machine, and pin the
    /// process to see what a core does (`taskset -c 0`).
    Throughput(BenchThroughput),
    /// What a task costs: units, requests, invocations and dollars, for bursts and trickles, in a simulation of AWS.
    ///
    /// The real functions run in virtual time, on tables, queues and event source mappings that cost and take what they do
    /// on AWS: units are counted by the items before and after each write, requests as they are billed. Figures follow from
    /// the seed and from nothing else. Senders send in tens; calls carry a hundred tasks and take a second.
    Cost(BenchCost),
    /// How late calls start beyond the window that their route asks for, hop by hop, in a simulation of AWS.
    ///
    /// The delay of a call is counted from when its last needed task was handed to register-task: its last member if it is
    /// full, else the end of the window. What the task queue's own mapping adds before that (it gathers for up to two seconds)
    /// is shown apart, and so are calls after the first minute (*later*): a mapping begins with five processes.
    Delay(BenchDelay),
    /// How full calls are: calls made against the fewest possible in bursts, and what waiting longer gains in trickles.
    Fill(BenchFill),
    /// How many tasks a second one Target bears, in a simulation of AWS whose partitions have DynamoDB's limits.
    ///
    /// A partition of a table or an index serves 1,000 write units and 3,000 read units a second; what is over that is
    /// throttled and tried again by the SDK's rules, or in another shard, and an index that is over its limit throttles its
    /// table's writes. Event source mappings begin with five invocations at once and add 300 a minute. What counts is the
    /// second half of the time: tasks called for the first time against tasks that came.
    ///
    /// For each path the offered rate is doubled until less than 90 % of it reaches the downstream; then the limit is found
    /// by bisection, within 10 %.
    HotKey(BenchHotKey),
}

/// Files that a benchmark writes.
#[derive(Debug, clap::Args)]
pub struct BenchFiles {
    /// Write all figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Draw a plot into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct BenchDelay {
    /// How long tasks are sent, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub seconds: u64,
    /// How long a batch that is not full waits for more, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 6_000, value_parser = clap::value_parser!(u64).range(0..=300_000))]
    pub wait_ms: u64,
    /// Everything random follows from it.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub files: BenchFiles,
}

#[derive(Debug, clap::Args)]
pub struct BenchFill {
    /// Tasks of each burst.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 10_000], value_parser = some_tasks)]
    pub sizes: Vec<usize>,
    /// Tasks a second of each trickle.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1.0, 10.0, 100.0], value_parser = a_rate)]
    pub rates: Vec<f64>,
    /// Windows of the trickles' batches, in milliseconds.
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [0, 1_000, 3_000, 10_000, 30_000], value_parser = clap::value_parser!(u64).range(0..=300_000))]
    pub waits_ms: Vec<u64>,
    /// How long the trickles last, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub seconds: u64,
    /// Everything random follows from it.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub files: BenchFiles,
}

#[derive(Debug, clap::Args)]
pub struct BenchHotKey {
    /// Tasks a second that are sent: just these, without a search.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = a_rate)]
    pub rates: Vec<f64>,
    /// Tasks a second at which the search begins.
    #[arg(long, value_name = "NUMBER", default_value_t = 250.0, value_parser = a_rate, conflicts_with = "rates")]
    pub from: f64,
    /// Tasks a second beyond which nothing is tried. A run beyond a path's limit takes long: requests are throttled and
    /// tried again.
    #[arg(long, value_name = "NUMBER", default_value_t = 16_000.0, value_parser = a_rate, conflicts_with = "rates")]
    pub up_to: f64,
    /// How long they are sent, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..=MOST_SECONDS))]
    pub seconds: u64,
    /// Partitions of each table and each index. A new table has four.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub partitions: u64,
    /// Each shard on an index partition of its own, as DynamoDB splits partitions that are hot for a while. Without it, chance
    /// decides.
    #[arg(long)]
    pub isolated: bool,
    /// Everything random follows from it, also which shard lies on which partition.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub files: BenchFiles,
}

#[derive(Debug, clap::Args)]
pub struct BenchCost {
    /// Tasks of each burst.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 10_000, 100_000], value_parser = some_tasks)]
    pub sizes: Vec<usize>,
    /// Tasks of each burst that the paper's own steps are given: what a task costs them grows with the burst.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 3_000, 10_000], value_parser = some_tasks)]
    pub paper: Vec<usize>,
    /// How long the trickles last, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub trickle_s: u64,
    /// Everything random follows from it.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub files: BenchFiles,
}

#[derive(Debug, clap::Args)]
pub struct BenchThroughput {
    /// How many tasks. A multiple of a hundred for each Target lets every batch be full.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    pub tasks: u64,
    /// How many Targets they are for; one run for each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 100], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub targets: Vec<u64>,
    /// Through the embedded stack.
    #[arg(long)]
    pub embedded: bool,
    /// How often, each time with new tables in memory.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, conflicts_with = "embedded", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
}

#[derive(Debug, clap::Args)]
pub struct BenchStreams {
    /// How many events.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub events: u64,
    /// Events that one batch settles.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub batch: u64,
    /// How many settle at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = some_workers)]
    pub workers: usize,
    /// Keep the tables in plain memory, without DynamoDB's protocol: faster, and without capacity units.
    #[arg(long)]
    pub memory: bool,
    /// Chooses the order.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    pub seed: u64,
}

#[derive(Debug, clap::Args)]
pub struct BenchLists {
    /// How many tasks are on the list; one run for each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 10_000, 1_000_000], value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    pub lengths: Vec<u64>,
    /// How many release at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = some_workers)]
    pub releasers: usize,
    /// Tasks of one release; one crowd for each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 100], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub counts: Vec<u64>,
    /// Releases whose caller is killed, in a hundred.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub killed_percent: u8,
    /// Chooses who is killed, and when.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    pub seed: u64,
}

#[derive(Debug, clap::Args)]
pub struct BenchTrackers {
    /// How many items.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub items: u64,
    /// How many ack at once, each one call after the other.
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = some_workers)]
    pub workers: usize,
    /// How many consecutive items one ack is for; several numbers make one run each.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 10, 100], value_parser = clap::value_parser!(u16).range(1..=7168))]
    pub chunks: Vec<u16>,
    /// How many acks come a second time, for every hundred.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub repeated_percent: u8,
    /// Chooses the random order; the same number, the same order.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    pub seed: u64,
}

fn some_workers(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|workers| (1..=10_000).contains(workers)).ok_or_else(|| "expected 1 to 10000".to_owned())
}

/// A simulation that is not over after an hour has hung.
const MOST_SECONDS: u64 = 3_000;

fn some_tasks(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|tasks| (1..=10_000_000).contains(tasks))
        .ok_or_else(|| "expected 1 to 10000000".to_owned())
}

fn a_rate(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|rate| (0.01..=1e6).contains(rate)).ok_or_else(|| "expected 0.01 to 1000000".to_owned())
}
