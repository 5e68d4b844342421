//! The command line. Flags have kube-apiserver's names if it has one for the same purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use holdfast_gotext::cidr::Cidr;
use holdfast_gotext::duration;

use crate::admission::TolerationFlags;
use crate::aggregation::AggregationFlags;
use crate::apply::ApplyFlags;
use crate::audit::AuditFlags;
use crate::authentication::AuthenticationFlags;
use crate::authorization::AuthorizationFlags;
use crate::controllers::ControllerFlags;
use crate::copy::CopyFlags;
use crate::diff::DiffFlags;
use crate::documents::{CompletionFlags, ManFlags, ReferenceFlags};
use crate::election::{CoordinationFlags, ElectionFlags};
use crate::endpoints::EndpointFlags;
use crate::envtest::EnvtestFlags;
use crate::fairness::FairnessFlags;
use crate::history::HistoryFlags;
use crate::kubelets::KubeletFlags;
use crate::lint::LintFlags;
use crate::logging::Verbosity;
use crate::page::PageFlags;
use crate::remote::{AccessFlags, ObjectFlags, ReadyFlags};
use crate::run::RunFlags;
use crate::served::ServedFlags;
use crate::snapshot::Snapshot;
use crate::static_admission::StaticAdmissionFlags;
use crate::storage::StorageFlags;
use crate::testing::TestingFlags;
use crate::transport::TransportFlags;
use crate::undo::UndoFlags;
use crate::validation;

/// A Kubernetes-compatible API server in one binary.
///
/// Without a command it runs the server. The first start creates certificates and a kubeconfig in the data directory.
#[derive(Debug, Parser)]
#[command(
    name = "holdfast",
    version,
    args_conflicts_with_subcommands = true,
    // The last of several occurrences applies, as in kube-apiserver.
    args_override_self = true
)]
pub(crate) struct Arguments {
    /// Command to run instead of the server.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Flags of the server.
    #[command(flatten)]
    pub(crate) serve: Serve,
}

/// Commands of the binary other than the server.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server, as without a command.
    Serve(Deferred<Serve>),
    /// Print what the flags of a server mean, and fail if the server would not start with them.
    ///
    /// Reads all files that the flags name. It starts no server, connects to no etcd and writes nothing.
    Check(Deferred<Serve>),
    /// Look for common problems of a running server, and fail if there are any.
    Doctor(Box<AccessFlags>),
    /// Run a command against a temporary server, and end the server with it.
    ///
    /// The server has the controllers, listens on a free port and keeps objects, certificates and keys in memory. COMMAND finds
    /// it by its environment variable KUBECONFIG.
    Run(Deferred<RunFlags>),
    /// Print an object with the manager, operation and age of each field.
    Blame(Box<ObjectFlags>),
    /// Apply manifests to a server, and decide about each conflict.
    Apply(Box<ApplyFlags>),
    /// Open the page of a server in a browser, logged in as the user of the kubeconfig.
    ///
    /// Serves the page on the loopback address until it is interrupted, and passes its requests on with the credentials of the
    /// kubeconfig. The server may be any Kubernetes server.
    Ui(Box<PageFlags>),
    /// Show what an apply of manifests would change, or the difference between two versions of an object.
    Diff(Box<DiffFlags>),
    /// Check manifests without a cluster.
    ///
    /// Finds violations of schemas, validation, CEL rules and policies, and conflicts between field managers. A temporary server in memory applies the manifests, with the CRDs and policies among them. Webhooks are not called.
    Lint(Box<LintFlags>),
    /// Print the versions of an object with managers and changed fields.
    ///
    /// The newest version is the first.
    History(Box<HistoryFlags>),
    /// Write an earlier version of an object again.
    ///
    /// An update replaces the object, or a create restores a deleted one, so that authorization, admission and validation apply.
    /// The status is not restored.
    Undo(Box<UndoFlags>),
    /// Check that a server is ready, and fail if it is not.
    Ready(Box<ReadyFlags>),
    /// Save, restore and verify snapshots of an embedded store.
    Snapshot {
        /// Snapshot command.
        #[command(subcommand)]
        command: Snapshot,
    },
    /// Copy all objects from one store to another, while no server has either of them.
    Copy(Box<CopyFlags>),
    /// Make a directory of assets for envtest, and print the lines to export.
    Envtest(EnvtestFlags),
    /// Print a script that completes commands and flags in a shell.
    Completions(CompletionFlags),
    /// Print the manual page, or write one for each command.
    Man(ManFlags),
    /// Print the version.
    Version,
    /// Print a page of the reference.
    #[command(hide = true)]
    Reference(ReferenceFlags),
}

/// Arguments of a command with many flags, which are declared only if the command is used.
#[derive(Debug)]
pub(crate) struct Deferred<T>(pub(crate) Box<T>);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args_override_self(true).defer(T::augment_args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(Box::new(T::from_arg_matches(matches)?)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Flags of the server.
#[derive(Clone, Debug, Args)]
pub(crate) struct Serve {
    /// Directory of the objects, certificates and kubeconfig
    #[arg(long, value_name = "DIR", default_value = "./holdfast-data")]
    pub(crate) data_dir: PathBuf,

    /// Connection to etcd, and kube-apiserver's flags for storage
    #[command(flatten)]
    pub(crate) storage: StorageFlags,

    /// Feature gates and served APIs
    #[command(flatten)]
    pub(crate) served: ServedFlags,

    /// Endpoints of the Service kubernetes
    #[command(flatten)]
    pub(crate) endpoints: EndpointFlags,

    /// Settings of controllers
    #[command(flatten)]
    pub(crate) controller: ControllerFlags,

    /// Audit log
    #[command(flatten)]
    pub(crate) audit: AuditFlags,

    /// If the store is damaged, start with the data that is still readable. The damaged files are kept next to the
    /// store
    #[arg(long)]
    pub(crate) accept_data_loss: bool,

    /// Acknowledge writes before they are on disk: a crash of the machine may lose or damage the store. Only for tests
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) unsafe_no_fsync: bool,

    /// IP address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,

    /// Port on which to serve HTTPS. 0 selects a free port, which is printed
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(crate) secure_port: u16,

    /// Let several servers listen on the same address and port (SO_REUSEPORT); each gets a share of the connections
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) permit_port_sharing: bool,

    /// Serve a page for browsers at /ui. Its files are readable without credentials, and its requests have those of its user
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) ui: bool,

    /// IP address to advertise to clients, if it differs from the one to listen on
    #[arg(long, value_name = "IP")]
    pub(crate) advertise_address: Option<IpAddr>,

    /// File to write when the server is ready, with its URL. The server deletes the file when it exits
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// File with static bearer tokens, as lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,

    /// Certificate authorities whose client certificates are trusted, in addition to the server's own (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Aggregated API servers and front proxies
    #[command(flatten)]
    pub(crate) aggregation: AggregationFlags,
    /// Flags for connections to kubelets.
    #[command(flatten)]
    pub(crate) kubelets: KubeletFlags,

    /// Keys to verify service account tokens (PEM, public or private). One of them must belong to the signing key
    #[arg(long, value_name = "FILE")]
    pub(crate) service_account_key_file: Vec<PathBuf>,

    /// Private key to sign service account tokens (PEM). If not set, the server creates one in the data directory
    #[arg(long, value_name = "FILE")]
    pub(crate) service_account_signing_key_file: Option<PathBuf>,

    /// Unix socket of an external signer of service account tokens (gRPC, externaljwt.v1): a path, or @ and an abstract
    /// name. It replaces the files of --service-account-signing-key-file and --service-account-key-file
    #[arg(long, value_name = "SOCKET")]
    pub(crate) service_account_signing_endpoint: Option<String>,

    /// Issuer of service account tokens. If repeated, tokens of all issuers are accepted, and new tokens have the
    /// first
    #[arg(long, value_name = "ISSUER", default_value = "https://kubernetes.default.svc")]
    pub(crate) service_account_issuer: Vec<String>,

    /// URL of the JSON Web Key Set of the issuer in the discovery document. The default is this server's own address
    #[arg(long, value_name = "URL")]
    pub(crate) service_account_jwks_uri: Option<String>,

    /// Audiences of tokens that this server accepts. The default is the issuer
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',')]
    pub(crate) api_audiences: Vec<String>,

    /// Accept the tokens in Secrets of the type bootstrap.kubernetes.io/token in kube-system, with which new nodes join
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) enable_bootstrap_token_auth: bool,

    /// Maximum validity of a service account token. If not set, tokens have the requested validity
    #[arg(long, value_name = "DURATION", value_parser = token_life)]
    pub(crate) service_account_max_token_expiration: Option<Duration>,

    /// Extend the expiration of service account tokens of Pods to one year, for clients that do not reload them
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) service_account_extend_token_expiration: bool,

    /// Accept requests without credentials as user system:anonymous. Always disabled with the authorization mode
    /// AlwaysAllow
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) anonymous_auth: bool,

    /// Tokens that other servers vouch for
    #[command(flatten)]
    pub(crate) authentication: AuthenticationFlags,

    /// The chain of authorizers
    #[command(flatten)]
    pub(crate) authorization: AuthorizationFlags,

    /// Certificate of the server for HTTPS (PEM). If not set, the server creates one in the data directory
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// Directory of the server's certificate, apiserver.crt and apiserver.key. Missing files are created. Ignored if
    /// --tls-cert-file and --tls-private-key-file are set
    #[arg(long, value_name = "DIR")]
    pub(crate) cert_dir: Option<PathBuf>,

    /// CIDR from which to assign cluster IPs of Services; two comma-separated ones of different IP families for
    /// dual-stack
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24", value_parser = service_blocks)]
    pub(crate) service_cluster_ip_range: ServiceBlocks,

    /// Port range for Services with NodePort visibility
    #[arg(long, value_name = "FROM-TO", default_value = "30000-32767", value_parser = ports)]
    pub(crate) service_node_port_range: RangeInclusive<u16>,

    /// Allow privileged containers
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) allow_privileged: bool,

    /// Admission plugins to enable in addition to the default ones. ServiceAccount adds service account tokens to Pods.
    /// It needs serviceaccount-controller and root-ca-certificate-publisher-controller, or other controllers that
    /// create their objects
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) enable_admission_plugins: Vec<String>,

    /// Admission plugins to disable
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) disable_admission_plugins: Vec<String>,

    /// Controllers to enable: * for all except the last five, NAME to enable one, -NAME to disable one. If not set, a
    /// server with its own store also runs serviceaccount-controller and root-ca-certificate-publisher-controller. All
    /// controllers: namespace-controller, garbage-collector-controller, clusterrole-aggregation-controller,
    /// resourcequota-controller, validatingadmissionpolicy-status-controller, storage-version-migrator-controller,
    /// resourcepoolstatusrequest-controller, storageversion-garbage-collector-controller, serviceaccount-controller,
    /// root-ca-certificate-publisher-controller, persistentvolumeclaim-protection-controller,
    /// persistentvolume-protection-controller, service-cidr-controller
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub(crate) controllers: Vec<String>,

    /// Leader election of the controllers among servers that share an etcd
    #[command(flatten)]
    pub(crate) election: ElectionFlags,

    /// Election of the server that elects the leaders of other components
    #[command(flatten)]
    pub(crate) coordination: CoordinationFlags,

    /// Time limit of a request, except for watches
    #[arg(long, value_name = "DURATION", default_value = "60s", allow_negative_numbers = true,
          value_parser = validation::time("--request-timeout can not be negative value"))]
    pub(crate) request_timeout: Duration,

    /// Maximum number of concurrent read-only requests, watches excluded; 0 for no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 400, allow_negative_numbers = true,
          value_parser = validation::number::<usize>("--max-requests-inflight can not be negative value"))]
    pub(crate) max_requests_inflight: usize,

    /// Maximum number of concurrent mutating requests; 0 for no limit
    #[arg(long, value_name = "NUMBER", default_value_t = 200, allow_negative_numbers = true,
          value_parser = validation::number::<usize>("--max-mutating-requests-inflight can not be negative value"))]
    pub(crate) max_mutating_requests_inflight: usize,

    /// API Priority and Fairness
    #[command(flatten)]
    pub(crate) fairness: FairnessFlags,

    /// TLS, HTTP/2 and browsers
    #[command(flatten)]
    pub(crate) transport: TransportFlags,

    /// Files of admission plugins
    #[command(flatten)]
    pub(crate) static_admission: StaticAdmissionFlags,

    /// Default tolerations of Pods for nodes that are not ready or unreachable
    #[command(flatten)]
    pub(crate) tolerations: TolerationFlags,

    /// Maximum size in bytes of the request with which kube-apiserver stores an object in etcd (in protobuf for most
    /// built-in kinds). The default is 1572864 on the embedded store and 2097152 on etcd, which has a limit of its own
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_object_bytes: Option<usize>,

    /// Minimum duration in seconds of a watch without a timeout before the server closes it
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, allow_negative_numbers = true,
          value_parser = validation::number::<u64>("--min-request-timeout can not be negative value"))]
    pub(crate) min_request_timeout: u64,

    /// Time to continue serving after the termination signal; `/readyz` fails during this time
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_negative_numbers = true,
          value_parser = validation::time("--shutdown-delay-duration can not be negative value"))]
    pub(crate) shutdown_delay_duration: Duration,

    /// Continue to listen while running requests finish after the termination signal: new requests get status 429 with
    /// `Retry-After`. If false, the server stops listening at once
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) shutdown_send_retry_after: bool,

    /// Time in which running watches end, one after the other, after the termination signal. With zero, all of them end at
    /// once
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_negative_numbers = true,
          value_parser = validation::time("shutdown-watch-termination-grace-period, if provided, can not be a negative value"))]
    pub(crate) shutdown_watch_termination_grace_period: Duration,

    /// Time after the start during which `/livez` succeeds even if the start is not complete
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_negative_numbers = true,
          value_parser = validation::time("--livez-grace-period can not be a negative value"))]
    pub(crate) livez_grace_period: Duration,

    /// Maximum number of concurrent streams on an HTTP/2 connection. With 0, the default
    #[arg(long, value_name = "NUMBER", default_value_t = 250)]
    pub(crate) http2_max_streams_per_connection: u32,

    /// Maximum number of concurrent connections from one client address (for IPv6, one /64 block). The server closes
    /// connections above the limit; 0 for no limit, for example behind proxies
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) max_connections_per_address: usize,

    /// Number of threads that serve requests
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) worker_threads: u16,

    /// Metrics that `/metrics` leaves out, by full name
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) disabled_metrics: Vec<String>,

    /// Release whose hidden metrics are shown: the one before this, as MAJOR.MINOR. No metric is hidden in this release
    #[arg(long, value_name = "VERSION", default_value = "")]
    pub(crate) show_hidden_metrics_for_version: String,

    /// File with the collector of traces and the share of sampled requests: a TracingConfiguration of
    /// apiserver.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    pub(crate) tracing_config_file: Option<PathBuf>,

    /// File with the proxies for connections to the cluster, etcd and the control plane: an
    /// EgressSelectorConfiguration of apiserver.k8s.io/v1beta1
    #[arg(long, value_name = "FILE")]
    pub(crate) egress_selector_config_file: Option<PathBuf>,

    /// Serve profiles of the process at /debug/pprof/, and the verbosity of the log at /debug/flags/v
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) profiling: bool,

    /// Log format. JSON lines have the keys of kube-apiserver's
    #[arg(long, alias = "log-format", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) logging_format: LogFormat,

    /// Serve the API group holdfast.dev, which kube-apiserver does not have: diffs and transactions, and the history of
    /// objects. Lists of API groups do not name it
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) holdfast_apis: bool,

    /// Endpoints for tests
    #[command(flatten)]
    pub(crate) testing: TestingFlags,

    /// Log verbosity: 0 for important messages, 2 for each request, 5 and above for everything
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    pub(crate) v: u8,

    /// Verbosity of the log, if this process logs for the server only.
    #[arg(skip)]
    pub(crate) verbosity: Option<Verbosity>,

    /// Flags of kube-apiserver that were set and have no effect here.
    #[arg(skip)]
    pub(crate) ignored: BTreeSet<String>,

    /// All flags of the server with their values, set or by default.
    #[arg(skip)]
    pub(crate) stated: BTreeMap<String, String>,

    /// Identifiers of the flags on the command line.
    #[arg(skip)]
    pub(crate) on_command_line: BTreeSet<String>,

    /// True if --anonymous-auth was set, to whatever value.
    #[arg(skip)]
    pub(crate) is_anonymous_auth_set: bool,

    /// True if the binary was invoked as kube-apiserver. It then creates no authority, administrator or kubeconfig.
    #[arg(skip)]
    pub(crate) as_kube_apiserver: bool,

    /// True if objects, certificates and keys exist in memory only. The data directory is not used.
    #[arg(skip)]
    pub(crate) in_memory: bool,
}

impl Serve {
    /// True if the command line sets the flag with this identifier, such as `data_dir`.
    pub(crate) fn is_set(&self, id: &str) -> bool {
        self.on_command_line.contains(id)
    }

    /// True if the server is a whole small cluster by itself: it has its own store, and the command line selects no
    /// controllers.
    pub(crate) fn is_small_cluster(&self) -> bool {
        self.storage.etcd_servers.is_empty() && !self.is_set("controllers")
    }

    /// Keeps objects, certificates and keys in memory.
    ///
    /// # Errors
    /// If a flag needs a data directory.
    pub(crate) fn keep_in_memory(&mut self) -> anyhow::Result<()> {
        self.in_memory = true;
        ensure!(
            self.storage.etcd_servers.is_empty() && self.storage.encryption.encryption_provider_config.is_none(),
            "a server in memory uses neither etcd nor encryption at rest; set a data directory"
        );
        Ok(())
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object on each line, for machines.
    Json,
}

/// Blocks of addresses for Services.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceBlocks {
    /// The block of the default family.
    pub(crate) primary: Cidr,
    /// The block of the other family in a dual-stack cluster.
    pub(crate) secondary: Option<Cidr>,
}

/// Reads one block, or one of each family: `10.0.0.0/24,fd00::/112`.
fn service_blocks(text: &str) -> Result<ServiceBlocks, String> {
    let read = |text: &str| {
        let block = Cidr::read(text.trim());
        block.ok_or_else(|| format!("{text:?} is no block of addresses, such as 10.0.0.0/24"))
    };
    let blocks: Vec<Cidr> = text.split(',').map(read).collect::<Result<_, _>>()?;
    match blocks[..] {
        [primary] => Ok(ServiceBlocks {
            primary,
            secondary: None,
        }),
        [primary, secondary] if primary.is_ipv4() == secondary.is_ipv4() => Err(
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family".to_owned(),
        ),
        [primary, secondary] => Ok(ServiceBlocks {
            primary,
            secondary: Some(secondary),
        }),
        _ => Err("--service-cluster-ip-range must not contain more than two entries".to_owned()),
    }
}

/// Reads a range of ports: `30000-32767`.
pub(crate) fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let bounds = text
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match bounds {
        Some((from, to)) if 0 < from && from <= to => Ok(from..=to),
        _ => Err(format!("{text:?} is no range of ports, such as 30000-32767")),
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Parses the maximum validity of a token, which has the same bounds as the validity that clients may request; zero for
/// none.
fn token_life(text: &str) -> Result<Duration, String> {
    let nanoseconds = duration::parse(text)?;
    let life = u64::try_from(nanoseconds).map(Duration::from_nanos);
    let fits = |life: &Duration| life.is_zero() || (HOUR..=Duration::from_secs(1 << 32)).contains(life);
    if let Some(life) = life.ok().filter(fits) {
        Ok(life)
    } else {
        Err("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn booleans_are_written_as_kube_apiserver_takes_them() {
        let anonymous = |arguments: &[&str]| Arguments::try_parse_from(arguments).unwrap().serve.anonymous_auth;
        assert!(anonymous(&["holdfast"]));
        assert!(anonymous(&["holdfast", "--anonymous-auth"]));
        assert!(anonymous(&["holdfast", "--anonymous-auth=true"]));
        assert!(!anonymous(&["holdfast", "--anonymous-auth=false"]));
    }

    #[test]
    fn ranges_of_ports_have_an_order() {
        assert_eq!(ports("30000-32767"), Ok(30000..=32767));
        for text in ["", "5", "2-1", "0-5", "1-70000", "a-b"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_may_live_an_hour_at_least() {
        assert_eq!(token_life("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(token_life("0"), Ok(Duration::ZERO));
        assert!(token_life("59m").is_err() && token_life("-2h").is_err());
    }
}
