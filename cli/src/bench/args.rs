//! The command line of `groupage bench`.

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
    /// One run for each of --targets. Without --embedded, one thread registers the tasks in events of 500, elects, groups
    /// and settles on tables in memory: what is measured is the code of the steps and nothing else, a --rounds times with
    /// new tables, so that memory that grows shows. With --embedded, tasks are sent to SQS's protocol and go through
    /// DynamoDB's, all in this process, with the deployed stack's event source mappings.
    ///
    /// The downstream accepts every call at once. Speed is this machine's: compare runs on one machine, and pin the
    /// process to see what a core does (`taskset -c 0`).
    Throughput(BenchThroughput),
}

#[derive(Debug, clap::Args)]
pub struct BenchThroughput {
    /// How many tasks, in hundreds: every batch can be full.
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
