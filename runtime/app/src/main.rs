//! The program `saltica`: flags in, reports out. All work is done by the library of the same name.
#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
