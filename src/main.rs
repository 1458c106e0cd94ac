//! The binary `ipgc`; everything lives in the library.

fn main() -> std::process::ExitCode {
    ipgc::cli::main()
}
