//! `/statusz`: the version and the start time of the server, as text for people or as an object of `config.k8s.io`
//! (<https://kubernetes.io/docs/reference/instrumentation/zpages/>).

use std::collections::BTreeSet;
use std::time::SystemTime;

use holdfast_writes::metadata::rfc3339;
use serde::Serialize;

use super::zpage::Page;
use crate::runtime::version::{KUBERNETES, VersionInfo};

/// First segments of paths that do not help with debugging.
const OF_CLIENTS: [&str; 5] = ["apis", "api", "openid", "openapi", ".well-known"];

/// The content of the page.
pub(super) struct Statusz<'a> {
    pub(super) started: SystemTime,
    pub(super) now: SystemTime,
    pub(super) version: &'a VersionInfo,
    /// All paths of the server.
    pub(super) paths: Vec<String>,
}

/// The content of the page as an object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    start_time: String,
    uptime_seconds: u64,
    go_version: &'a str,
    binary_version: &'static str,
    emulation_version: &'static str,
    paths: Vec<String>,
}

impl Page for Statusz<'_> {
    const KIND: &'static str = "Statusz";

    fn content(&self) -> impl Serialize {
        Status {
            start_time: rfc3339(self.started).to_string(),
            uptime_seconds: self.seconds(),
            go_version: self.version.go_version(),
            binary_version: KUBERNETES,
            emulation_version: emulated(),
            paths: self.folders(),
        }
    }

    fn text(&self) -> String {
        let up = self.seconds();
        format!(
            "\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo version: {}\nBinary version: {KUBERNETES}\nEmulation version: \
             {}\nPaths: {}\n",
            unix_date(self.started),
            up / 3600,
            up / 60 % 60,
            up % 60,
            self.version.go_version(),
            emulated(),
            self.folders().join(" ")
        )
    }
}

impl Statusz<'_> {
    fn seconds(&self) -> u64 {
        let up = self.now.duration_since(self.started);
        up.unwrap_or_default().as_secs()
    }

    /// Returns the first segments of the paths, each once, in alphabetical order.
    fn folders(&self) -> Vec<String> {
        let first_segment = |path: &String| path.split('/').nth(1).map(str::to_owned);
        let first: BTreeSet<String> = self.paths.iter().filter_map(first_segment).collect();
        let listed = first
            .iter()
            .filter(|part| !part.is_empty() && !OF_CLIENTS.contains(&part.as_str()));
        listed.map(|part| format!("/{part}")).collect()
    }
}

/// Returns the minor release: `1.36` for `1.36.2`.
fn emulated() -> &'static str {
    KUBERNETES.rsplit_once('.').map_or(KUBERNETES, |(minor, _)| minor)
}

/// Formats a time like `date`: `Sun Nov  6 08:49:37 UTC 1994`.
fn unix_date(time: SystemTime) -> String {
    let text = httpdate::fmt_http_date(time);
    let parts: Vec<&str> = text.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [weekday, day, month, year, clock, _] => {
            let day = day.trim_start_matches('0');
            format!("{weekday} {month} {day:>2} {clock} UTC {year}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::version::Build;

    #[test]
    fn the_text_says_how_long_the_server_is_up() {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let version = VersionInfo::new(&Build::default());
        let page = Statusz {
            started,
            now: started + Duration::from_secs(3661),
            version: &version,
            paths: ["/livez/ping", "/apis/apps", "/metrics", "/livez", "/"]
                .map(str::to_owned)
                .to_vec(),
        };
        let text = page.text();
        assert!(
            text.contains("\nStarted: Sun Nov  6 08:49:37 UTC 1994\nUp: 1 hr 01 min 01 sec\n"),
            "{text}"
        );
        assert!(text.ends_with("\nPaths: /livez /metrics\n"), "{text}");
    }
}
