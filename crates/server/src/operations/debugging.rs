//! Profiles of the process and the verbosity of its log, as Go's `net/http/pprof` and kube-apiserver serve them
//! (<https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>, `--profiling`).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, StatusCode};

use crate::api::router::Incoming;
use crate::http::ApiError;
use crate::http::request_info::RequestInfo;
use crate::http::response::{self, Response};

/// Prefix of the paths of profiles.
pub(super) const PROFILES: &str = "/debug/pprof/";

/// Duration of a profile without the parameter `seconds`.
const DEFAULT_PROFILE: Duration = Duration::from_secs(30);
/// Maximum duration of a profile.
const MAX_PROFILE: Duration = Duration::from_secs(600);
/// Maximum size of a new verbosity.
const MAX_BODY_BYTES: usize = 64;

/// Header of the errors of Go's profiles, which its tool shows.
const GO_PPROF: HeaderName = HeaderName::from_static("x-go-pprof");

/// Outcome of a profile.
pub type ProfileFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + 'a>>;

/// The process that a server runs in.
pub trait DebuggedProcess: Send + Sync {
    /// Returns a profile of the use of processors during the next `duration`, in the format of `pprof`.
    fn profile_cpu(&self, duration: Duration) -> ProfileFuture<'_>;

    /// Sets the verbosity of the log.
    ///
    /// # Errors
    /// If the log cannot be changed, with the reason.
    fn set_verbosity(&self, verbosity: u8) -> Result<(), String>;
}

/// The handlers of the paths below `/debug/pprof` and `/debug/flags`.
#[derive(Clone)]
pub struct Debugging {
    process: Arc<dyn DebuggedProcess>,
}

impl Debugging {
    /// Serves profiles and the verbosity of this process.
    pub fn new(process: Arc<dyn DebuggedProcess>) -> Self {
        Self { process }
    }

    /// Returns the answer at a path that is [served](is_served).
    ///
    /// # Errors
    /// If the body of the request cannot be read.
    pub(super) async fn respond(&self, incoming: Incoming) -> Result<Response, ApiError> {
        let path = incoming.info.path.as_str();
        Ok(match path {
            "/debug/pprof" => redirect(PROFILES),
            "/debug/pprof/" => html(INDEX),
            "/debug/pprof/profile" => self.profile(&incoming.info).await,
            "/debug/pprof/symbol" => response::text(StatusCode::OK, "num_symbols: 0\n"),
            "/debug/flags/v" => self.verbosity(incoming).await?,
            path => match path.strip_prefix(PROFILES) {
                Some(name) => missing_profile(name),
                None => html(FLAGS),
            },
        })
    }

    async fn profile(&self, info: &RequestInfo) -> Response {
        let seconds = info.query.get("seconds").and_then(|text| text.parse::<u64>().ok());
        let asked = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let duration = asked.unwrap_or(DEFAULT_PROFILE);
        if duration > MAX_PROFILE {
            let limit = MAX_PROFILE.as_secs();
            return failure(
                StatusCode::BAD_REQUEST,
                format!("profile duration exceeds {limit} seconds\n"),
            );
        }
        match self.process.profile_cpu(duration).await {
            Ok(profile) => {
                let media_type = HeaderValue::from_static("application/octet-stream");
                let mut answer = response::bytes(StatusCode::OK, media_type, Bytes::from(profile));
                let headers = answer.headers_mut();
                headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                let file = HeaderValue::from_static("attachment; filename=\"profile\"");
                headers.insert(CONTENT_DISPOSITION, file);
                answer
            }
            Err(error) => failure(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("Could not enable CPU profiling: {error}\n"),
            ),
        }
    }

    /// upstream: k8s.io/apiserver/pkg/server/routes#StringFlagPutHandler
    async fn verbosity(&self, incoming: Incoming) -> Result<Response, ApiError> {
        if incoming.method != Method::PUT {
            return Ok(plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method"));
        }
        let body = incoming.body.read().await?;
        if body.len() > MAX_BODY_BYTES {
            return Err(ApiError::too_large(MAX_BODY_BYTES));
        }
        let text = String::from_utf8_lossy(&body);
        Ok(match self.change_verbosity(&text) {
            Ok(()) => plain(
                StatusCode::OK,
                &format!("successfully set klog.logging.verbosity to {text}"),
            ),
            Err(error) => plain(StatusCode::BAD_REQUEST, &error),
        })
    }

    fn change_verbosity(&self, text: &str) -> Result<(), String> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let kind = if is_number {
            "value out of range"
        } else {
            "invalid syntax"
        };
        let parsed = text.parse::<u32>().ok().filter(|_| is_number);
        let number = parsed.ok_or_else(|| format!("strconv.ParseUint: parsing {text:?}: {kind}"))?;
        let verbosity = u8::try_from(number).unwrap_or(u8::MAX);
        let changed = self.process.set_verbosity(verbosity);
        changed.map_err(|error| format!("failed set klog.logging.verbosity {text}: {error}"))
    }
}

/// Returns true if a path is one of these pages.
pub(super) fn is_served(path: &str) -> bool {
    let below = path.strip_prefix("/debug/pprof").or(path.strip_prefix("/debug/flags"));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Profiles that Go has and this process cannot make, with the reason.
const MISSING: [(&str, &str); 7] = [
    ("allocs", NO_HEAP),
    ("block", NO_CONTENTION),
    (
        "goroutine",
        "there are no goroutines: tasks run on a fixed number of threads",
    ),
    ("heap", NO_HEAP),
    ("mutex", NO_CONTENTION),
    ("threadcreate", "the number of threads is fixed by --worker-threads"),
    ("trace", "there are no traces of goroutines"),
];

const NO_HEAP: &str = "the allocator of this build does not record where memory is allocated; the metric \
                       process_resident_memory_bytes has its amount";
const NO_CONTENTION: &str = "locks are not profiled";

fn missing_profile(name: &str) -> Response {
    match MISSING.iter().find(|(missing, _)| *missing == name) {
        Some((name, reason)) => failure(
            StatusCode::NOT_IMPLEMENTED,
            format!("there is no profile {name}: {reason}\n"),
        ),
        None => failure(StatusCode::NOT_FOUND, "Unknown profile\n".to_owned()),
    }
}

fn failure(code: StatusCode, text: String) -> Response {
    let mut answer = response::text(code, text);
    answer.headers_mut().insert(GO_PPROF, HeaderValue::from_static("1"));
    answer
}

fn redirect(to: &'static str) -> Response {
    let mut answer = html("<a href=\"/debug/pprof/\">Found</a>.\n\n");
    *answer.status_mut() = StatusCode::FOUND;
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    answer
}

/// Returns a line of plain text without a character set, as the reference writes it.
fn plain(code: StatusCode, text: &str) -> Response {
    let mut answer = response::text(code, format!("{text}\n"));
    let media_type = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

fn html(text: &'static str) -> Response {
    let media_type = HeaderValue::from_static("text/html; charset=utf-8");
    response::bytes(StatusCode::OK, media_type, Bytes::from_static(text.as_bytes()))
}

const INDEX: &str = "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n<h1>Profiles</h1>\n<ul>\n<li><a \
                     href=\"profile\">profile</a>: use of processors during 30 seconds, or during ?seconds=N</li>\n</ul>\n\
                     <p>Read it with go tool pprof.</p>\n</body>\n</html>\n";

const FLAGS: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n\
                     <table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct FakeProcess {
        verbosity: Mutex<Option<u8>>,
    }

    impl DebuggedProcess for FakeProcess {
        fn profile_cpu(&self, _: Duration) -> ProfileFuture<'_> {
            Box::pin(async { Err("cpu profiling already in use".to_owned()) })
        }

        fn set_verbosity(&self, verbosity: u8) -> Result<(), String> {
            *self.verbosity.lock() = Some(verbosity);
            Ok(())
        }
    }

    #[test]
    fn verbosity_is_a_number() {
        let process = Arc::new(FakeProcess::default());
        let debugging = Debugging::new(Arc::clone(&process) as Arc<dyn DebuggedProcess>);
        for (text, why) in [
            ("", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("4294967296", "value out of range"),
        ] {
            let expected = format!("strconv.ParseUint: parsing {text:?}: {why}");
            assert_eq!(debugging.change_verbosity(text), Err(expected));
        }
        assert_eq!(*process.verbosity.lock(), None);
        assert_eq!(debugging.change_verbosity("300"), Ok(()));
        assert_eq!(*process.verbosity.lock(), Some(255));
    }

    #[test]
    fn missing_profile_has_its_reason() {
        assert_eq!(missing_profile("heap").status(), StatusCode::NOT_IMPLEMENTED);
        assert_eq!(missing_profile("cmdline").status(), StatusCode::NOT_FOUND);
    }
}
