//! River's client for Rust, for riverui's interop tests, on a Postgres URL or a SQLite file:
//!
//!     riverui-test URL insert COUNT
//!     riverui-test URL work CLIENT   until the end of its input

use std::{error::Error, str::FromStr, time::Duration};

use riverqueue::sqlx::PgPool;
use riverqueue::sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use riverqueue::{BoxError, Client, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "shared")]
struct Shared {
    n: i64,
}

async fn work(_: WorkContext, job: Job<Shared>) -> Result<WorkOutcome, BoxError> {
    if job.args.n < 0 && job.row.attempt == 1 {
        return Err(format!("{} is negative", job.args.n).into());
    }
    Ok(WorkOutcome::Complete)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (url, command, value) = (&args[1], &args[2], &args[3]);
    let builder = if url.starts_with("sqlite:") {
        let options = SqliteConnectOptions::from_str(url)?
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(5));
        Client::builder(SqlitePoolOptions::new().connect_with(options).await?)
    } else {
        Client::builder(PgPool::connect(url).await?)
    };
    if command == "insert" {
        let client = builder.build()?;
        for n in 0..value.parse()? {
            client.insert(Shared { n }).await?;
        }
        return Ok(());
    }
    let mut workers = Workers::new();
    workers.add_fn(work)?;
    let client = builder
        .id(value)
        .workers(workers)
        .queue("default", QueueConfig::new(10))
        .build()?;
    let mut run = client.start()?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    run.stop().await?;
    Ok(())
}
