//! Questions to a person: asked on standard error, answered by a line on standard input.

use std::io::{BufRead as _, Write as _, stderr, stdin};

/// The words that a person types, without space around them.
pub fn ask(question: &str) -> Result<String, String> {
    let mut asked = stderr().lock();
    // A person who cannot be asked cannot agree.
    let said = write!(asked, "{question}").and_then(|()| asked.flush());
    said.map_err(|error| format!("cannot ask: {error}"))?;
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.map_err(|error| format!("cannot read an answer: {error}"))?;
    if !line.ends_with('\n') {
        // The next line of output is not to stand behind the question.
        let _ = writeln!(asked);
    }
    Ok(line.trim().to_owned())
}
