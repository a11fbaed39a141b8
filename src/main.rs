//! The program's entry point: no logic.

use clap::Parser;
use trigger_manager::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    cli::run(cli::Cli::parse()).await
}
