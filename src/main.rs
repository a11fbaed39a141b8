//! The program's entry point: subcommands, no logic.

fn main() {}
