//! Examples, files, environment variables and exit statuses of the commands, for `--help` and the manual pages.

/// Description of a command beyond its flags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandPage {
    /// Name of the command, such as `snapshot save`; empty for the server.
    pub(crate) command: &'static str,
    /// Examples: purpose and command line.
    pub(crate) examples: &'static [Row],
    /// Files that the command reads or writes.
    pub(crate) files: &'static [Row],
    /// Environment variables that the command reads or sets.
    pub(crate) environment: &'static [Row],
    /// Exit statuses; [`EXIT`] if empty.
    pub(crate) exit: &'static [Row],
}

/// A subject and its description.
pub(crate) type Row = (&'static str, &'static str);

/// Exit statuses of commands without others.
const EXIT: [Row; 3] = [
    ("0", "Success"),
    ("1", "The command failed. The standard error has the reason"),
    ("2", "The command line is invalid"),
];

/// Exit statuses of the server.
const EXIT_OF_SERVER: [Row; 3] = [
    ("0", "The server ended after SIGTERM or SIGINT"),
    (
        "1",
        "The server could not start, or failed. The standard error has the reason",
    ),
    ("2", "The command line is invalid"),
];

const FILES: [Row; 4] = [
    (
        "./holdfast-data/store.db",
        "Objects, unless --etcd-servers is set; one server at a time has the store",
    ),
    (
        "./holdfast-data/kubeconfig",
        "Kubeconfig of the administrator, with certificate and key",
    ),
    (
        "./holdfast-data/pki/",
        "Certificate authority, and the certificates and keys that the server created",
    ),
    (
        "~/.kube/config",
        "Kubeconfig of commands, if neither --kubeconfig nor KUBECONFIG is set",
    ),
];

const LOG: Row = (
    "HOLDFAST_LOG",
    "Filter of the log that overrides --v, such as debug or warn,holdfast_server=trace \
     (https://docs.rs/tracing-subscriber/latest/tracing_subscriber/filter/struct.EnvFilter.html)",
);

const KUBECONFIG: Row = (
    "KUBECONFIG",
    "Kubeconfig files, separated by colons, if --kubeconfig is not set; the first that exists is read",
);

const ENVTEST_CONTROLLERS: Row = (
    "HOLDFAST_CONTROLLERS",
    "Controllers that run if the program is invoked as kube-apiserver; without it, none run",
);

const ENVTEST_RECORD: Row = (
    "HOLDFAST_RECORD",
    "Directory of timelines if the program is invoked as kube-apiserver; without it, none are kept",
);

const SERVER: CommandPage = CommandPage {
    command: "serve",
    examples: &[
        ("Serve on 127.0.0.1:6443, with all files in ./holdfast-data", "holdfast"),
        (
            "Serve other machines, with a certificate for their name of this one",
            "holdfast --bind-address=0.0.0.0 --advertise-address=192.0.2.7",
        ),
        ("Store objects in etcd", "holdfast --etcd-servers=http://127.0.0.1:2379"),
        (
            "Serve alpha APIs, too",
            "holdfast --runtime-config=api/all=true --feature-gates=AllAlpha=true",
        ),
        (
            "Serve without controllers, as kube-apiserver does",
            "holdfast --controllers=",
        ),
    ],
    files: &FILES,
    environment: &[LOG],
    exit: &EXIT_OF_SERVER,
};

/// All pages.
const PAGES: [CommandPage; 21] = [
    CommandPage {
        command: "",
        environment: &[KUBECONFIG, LOG, ENVTEST_CONTROLLERS, ENVTEST_RECORD],
        ..SERVER
    },
    SERVER,
    CommandPage {
        command: "run",
        examples: &[
            (
                "Run a command against a server of its own",
                "holdfast run -- kubectl get namespaces",
            ),
            ("Run the tests of a controller", "holdfast run -- go test ./..."),
            ("Run a shell", "holdfast run -- bash"),
            (
                "Run a script with a feature gate",
                "holdfast run --feature-gates=AllAlpha=true -- ./script.sh",
            ),
        ],
        environment: &[
            (
                "KUBECONFIG",
                "Set for COMMAND to the kubeconfig of the server's administrator",
            ),
            LOG,
        ],
        exit: &[
            ("0-255", "Exit status of COMMAND"),
            ("125", "The server could not start, or failed"),
            ("126", "COMMAND cannot be executed"),
            ("127", "COMMAND was not found"),
            ("128+N", "Signal N ended COMMAND"),
        ],
        ..EMPTY
    },
    CommandPage {
        command: "check",
        examples: &[(
            "Check flags before a restart",
            "holdfast check --data-dir=/var/lib/holdfast --audit-policy-file=policy.yaml",
        )],
        files: &FILES,
        environment: &[LOG],
        exit: &[
            ("0", "A server would start with these flags"),
            ("1", "It would not, for the reason on the standard error"),
            ("2", "The command line is invalid"),
        ],
    },
    CommandPage {
        command: "doctor",
        examples: &[(
            "Examine the server of a kubeconfig",
            "holdfast doctor --kubeconfig=holdfast-data/kubeconfig",
        )],
        environment: &[KUBECONFIG],
        exit: &[
            ("0", "No problem was found"),
            ("1", "There are problems, or the server cannot be reached"),
            ("2", "The command line is invalid"),
        ],
        ..EMPTY
    },
    CommandPage {
        command: "blame",
        examples: &[
            (
                "Show who owns the fields of a Deployment",
                "holdfast blame deployment web",
            ),
            (
                "Show the same for a saved object",
                "kubectl get deployment web -o yaml --show-managed-fields | holdfast blame -f -",
            ),
        ],
        environment: &[KUBECONFIG],
        ..EMPTY
    },
    CommandPage {
        command: "apply",
        examples: &[
            (
                "Apply the manifests of a folder, and decide about each conflict on the terminal",
                "holdfast apply --server-side -f deploy/",
            ),
            (
                "Take over a field without a question",
                "holdfast apply --server-side -f web.yaml --yes-to=.spec.replicas",
            ),
            (
                "Apply all manifests of a folder, or none of them",
                "holdfast apply --atomic -f deploy/",
            ),
        ],
        environment: &[KUBECONFIG],
        ..EMPTY
    },
    CommandPage {
        command: "ui",
        examples: &[
            ("Open the page in a browser", "holdfast ui"),
            (
                "Print a link for a browser on this machine",
                "holdfast ui --kubeconfig=holdfast-data/kubeconfig --no-browser",
            ),
        ],
        environment: &[KUBECONFIG],
        ..EMPTY
    },
    CommandPage {
        command: "diff",
        examples: &[
            (
                "Show what an apply of the manifests of a folder would change",
                "holdfast diff -f deploy/",
            ),
            (
                "Show drift as it happens",
                "holdfast diff --watch -f deploy/ --field-manager=ci",
            ),
            (
                "Show what has changed in an object since a resource version",
                "holdfast diff deployment web --from=1204",
            ),
        ],
        environment: &[KUBECONFIG],
        exit: &[
            ("0", "No object would change"),
            ("1", "Objects would change, or applies conflict"),
            ("2", "Applies would fail, or the server cannot be reached"),
        ],
        ..EMPTY
    },
    CommandPage {
        command: "lint",
        examples: &[
            (
                "Check the manifests of a directory and those below it",
                "holdfast lint -R -f manifests",
            ),
            (
                "Check whether two teams set the same fields",
                "holdfast lint --manager=app=deploy/app --manager=platform=deploy/platform",
            ),
            (
                "Write a report for a code host",
                "holdfast lint -f manifests -o sarif > lint.sarif",
            ),
        ],
        exit: &[
            ("0", "There are no errors"),
            ("1", "There are errors, or warnings with --warnings-as-errors"),
            ("2", "The command line is invalid, or a file cannot be read"),
        ],
        ..EMPTY
    },
    CommandPage {
        command: "history",
        examples: &[
            ("Print the versions of an object", "holdfast history deployment web"),
            (
                "Print the last three versions with the changed values",
                "holdfast history deployment/web --limit=3 --values",
            ),
        ],
        environment: &[KUBECONFIG],
        ..EMPTY
    },
    CommandPage {
        command: "undo",
        examples: &[
            (
                "Show what would change, without a write",
                "holdfast undo deployment web --to=1204 --dry-run",
            ),
            (
                "Write an earlier version again",
                "holdfast undo deployment web --to=1204",
            ),
        ],
        environment: &[KUBECONFIG],
        ..EMPTY
    },
    CommandPage {
        command: "ready",
        examples: &[
            ("Check once", "holdfast ready --kubeconfig=holdfast-data/kubeconfig"),
            (
                "Wait for a server that is starting",
                "holdfast ready --kubeconfig=holdfast-data/kubeconfig --wait=10s",
            ),
        ],
        environment: &[KUBECONFIG],
        exit: &[
            ("0", "The server is ready"),
            ("1", "The server is not ready, or cannot be reached"),
            ("2", "The command line is invalid"),
        ],
        ..EMPTY
    },
    CommandPage {
        command: "snapshot",
        examples: &[(
            "Save the objects of a running server",
            "holdfast snapshot save backup.snapshot",
        )],
        ..EMPTY
    },
    CommandPage {
        command: "snapshot save",
        examples: &[(
            "Save the objects of a server with another data directory",
            "holdfast snapshot save backup.snapshot --data-dir=/var/lib/holdfast",
        )],
        ..EMPTY
    },
    CommandPage {
        command: "snapshot restore",
        examples: &[(
            "Create a store from a snapshot",
            "holdfast snapshot restore backup.snapshot --data-dir=restored",
        )],
        ..EMPTY
    },
    CommandPage {
        command: "snapshot verify",
        examples: &[(
            "Check a snapshot before it is needed",
            "holdfast snapshot verify backup.snapshot",
        )],
        ..EMPTY
    },
    CommandPage {
        command: "copy",
        examples: &[
            (
                "Move to etcd",
                "holdfast copy --from=./holdfast-data --to=http://127.0.0.1:2379",
            ),
            (
                "Move back",
                "holdfast copy --from=http://127.0.0.1:2379 --to=./holdfast-data",
            ),
        ],
        environment: &[LOG],
        ..EMPTY
    },
    CommandPage {
        command: "envtest",
        examples: &[(
            "Run Go tests that use envtest",
            "eval \"$(holdfast envtest)\" && go test ./...",
        )],
        environment: &[
            ("KUBEBUILDER_ASSETS", "Set by the lines that the command prints"),
            ENVTEST_CONTROLLERS,
            ENVTEST_RECORD,
        ],
        ..EMPTY
    },
    CommandPage {
        command: "completions",
        examples: &[("Complete in bash", "source <(holdfast completions bash)")],
        ..EMPTY
    },
    CommandPage {
        command: "man",
        examples: &[
            ("Read the manual page", "holdfast man | man -l -"),
            ("Install all pages", "holdfast man --dir=/usr/local/share/man/man1"),
        ],
        ..EMPTY
    },
];

/// A page without content.
const EMPTY: CommandPage = CommandPage {
    command: "",
    examples: &[],
    files: &[],
    environment: &[],
    exit: &EXIT,
};

/// Returns the page of `command`.
pub(crate) fn page(command: &str) -> CommandPage {
    PAGES
        .iter()
        .copied()
        .find(|page| page.command == command)
        .unwrap_or(EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_that_of_a_command() {
        let root = crate::help::command();
        for page in PAGES {
            let mut command = &root;
            for name in page.command.split_whitespace() {
                command = command.find_subcommand(name).unwrap();
            }
        }
    }

    #[test]
    fn examples_parse() {
        let words = |line: &str| -> Option<Vec<std::ffi::OsString>> {
            let (_, line) = line.split_at(line.find("holdfast")?);
            let end = line.find(['|', '>', ')', '"']).unwrap_or(line.len());
            Some(line[..end].split_whitespace().map(Into::into).collect())
        };
        for (_, line) in PAGES.iter().flat_map(|page| page.examples) {
            let words = words(line).unwrap();
            if let Err(error) = crate::command_line::try_read(words) {
                panic!("{line}: {error}");
            }
        }
    }
}
