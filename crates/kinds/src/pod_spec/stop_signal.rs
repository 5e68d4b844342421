//! Stop signals of containers.

use holdfast_schema::Field;

use crate::validation::Errors;

/// Signals of Linux, as messages list them.
const LINUX: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

const WINDOWS: [&str; 2] = ["SIGKILL", "SIGTERM"];

/// Validates that the Pod names its operating system and that it supports the stop signal.
///
/// upstream: pkg/apis/core/validation#validateStopSignal
pub(super) fn validate_stop_signal(container: &Field<'_, '_>, operating_system: Option<&str>, errors: &mut Errors) {
    let lifecycle = container.child("lifecycle");
    let signal = lifecycle.child("stopSignal");
    if !signal.is_set() {
        return;
    }
    let known: &[&str] = match operating_system {
        None => {
            errors.push(signal.forbidden("may not be set for containers with empty `spec.os.name`"));
            return;
        }
        Some("linux") => &LINUX,
        Some("windows") => &WINDOWS,
        Some(_) => return,
    };
    if !known.contains(&signal.text()) {
        errors.push(signal.not_supported(known));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn a_signal_is_one_of_the_operating_system() {
        let harness = Harness::with_gates("ContainerStopSignals=true");
        let pod = |os: &str, signal: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{os}containers: [{{name: c, image: i, lifecycle: \
                 {{stopSignal: {signal}}}}}]}}}}"
            )
        };
        assert_eq!(
            harness.errors(&pod("os: {name: linux}, ", "SIGUSR1")),
            Vec::<String>::new()
        );
        assert_eq!(
            harness.errors(&pod("os: {name: windows}, ", "SIGUSR1")),
            [
                r#"spec.containers[0].lifecycle.stopSignal: Unsupported value: "SIGUSR1": supported values: "SIGKILL", "SIGTERM""#
            ]
        );
        assert_eq!(
            harness.errors(&pod("", "SIGTERM")),
            [
                "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"
            ]
        );
    }
}
