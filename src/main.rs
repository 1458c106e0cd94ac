//! The binary `ipgc`; everything lives in the library.

#[cfg(target_env = "musl")]
use ipgc_mem as _;

fn main() -> std::process::ExitCode {
    ipgc::cli::main()
}
