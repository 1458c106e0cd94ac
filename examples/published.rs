//! Writes `schemas/`, which is made from our types and which the program prints:
//!
//! ```sh
//! cargo run -p ipgc --example published          # in the repository
//! cargo run -p ipgc --example published -- DIR   # elsewhere, to compare
//! ```

use std::{env, fs, io, path::PathBuf};

use ipgc::audit;

fn main() -> io::Result<()> {
    let repository = || env!("CARGO_MANIFEST_DIR").into();
    let root = env::args_os().nth(1).map_or_else(repository, PathBuf::from);
    let schemas = root.join("schemas");
    fs::create_dir_all(&schemas)?;
    for (command, schema) in [
        ("audit", audit::report::schema()),
        ("explain", audit::explain::report::schema()),
        ("watch", audit::line::schema()),
    ] {
        fs::write(
            schemas.join(command).with_extension("json"),
            format!("{schema:#}\n"),
        )?;
    }
    Ok(())
}
