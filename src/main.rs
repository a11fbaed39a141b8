//! The program's entry point: no logic.

use std::process::ExitCode;

use clap::Parser;
use trigger_manager::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match cli::run(cli::Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        // The causes, and no stack: what stops a start is an operator's to mend.
        Err(error) => {
            eprintln!("Error: {}", cli::told(&error));
            ExitCode::FAILURE
        }
    }
}
