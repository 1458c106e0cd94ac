//! SIGINT and SIGTERM: the first asks for an end, the second does not wait for it.

use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of a program that its user interrupted, as shells have it.
const INTERRUPTED: i32 = 130;

/// Listens from now on. The future waits for the first signal, and says which it is. From then on another signal ends the
/// process at once: a write that is on its way is done by the server or is not, and both are safe.
pub fn listen() -> Result<impl Future<Output = &'static str>, String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    Ok(async move {
        let first = next(&mut terminate, &mut interrupt).await;
        tokio::spawn(async move {
            let again = next(&mut terminate, &mut interrupt).await;
            eprintln!("ipgc: {again} again, ending at once");
            process::exit(INTERRUPTED);
        });
        first
    })
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        env::current_exe,
        future::pending,
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    use rstest::rstest;
    use rustix::process::{Pid, Signal, kill_process};

    use super::{INTERRUPTED, listen};

    /// Not a test by itself: what the one below starts, and sends signals to.
    #[tokio::test]
    #[ignore = "ends by a signal"]
    async fn program_that_ends_for_ever() {
        let signal = listen().unwrap();
        println!("\nlistening");
        println!("\n{}", signal.await);
        pending::<()>().await;
    }

    #[rstest]
    #[case(Signal::INT, "SIGINT", Signal::INT)]
    #[case(Signal::TERM, "SIGTERM", Signal::INT)]
    #[case(Signal::INT, "SIGINT", Signal::TERM)]
    fn a_second_signal_ends_the_process_at_once(
        #[case] first: Signal,
        #[case] name_of_first: &str,
        #[case] second: Signal,
    ) {
        let name = "cli::signals::tests::program_that_ends_for_ever";
        let mut child = Command::new(current_exe().unwrap())
            .args([name, "--exact", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut hear = |wanted: &str| lines.any(|line| line.unwrap() == wanted);
        assert!(hear("listening"));
        kill_process(pid, first).unwrap();
        assert!(hear(name_of_first));
        assert!(child.try_wait().unwrap().is_none());
        kill_process(pid, second).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(INTERRUPTED));
    }
}
