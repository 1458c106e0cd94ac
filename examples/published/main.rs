//! Writes `crds/` and `schemas/`, which are made from our types and which the program prints:
//!
//! ```sh
//! cargo run -p ipgc --example published          # in the repository
//! cargo run -p ipgc --example published -- DIR   # elsewhere, to compare
//! ```

use std::{env, fs, io, path::PathBuf};

mod files;

fn main() -> io::Result<()> {
    let repository = || env!("CARGO_MANIFEST_DIR").into();
    let root = env::args_os().nth(1).map_or_else(repository, PathBuf::from);
    for (path, text) in files::generated() {
        let path = root.join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}
