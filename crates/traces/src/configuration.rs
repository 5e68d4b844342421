//! Reader of tracing configurations. Errors have the reference's messages.

use holdfast_value::{Limits, Value, yaml};

/// Versions in which a configuration may be declared.
const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];

const KIND: &str = "TracingConfiguration";

/// Number of requests of which a sampling rate is a share.
const MILLION: i64 = 1_000_000;

/// Address of the collector without a configured one.
const DEFAULT_ENDPOINT: &str = "localhost:4317";

/// `TracingConfiguration` of `apiserver.config.k8s.io`.
///
/// ```
/// use holdfast_traces::TracingConfiguration;
///
/// let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 100\n";
/// let configuration = TracingConfiguration::decode(text.as_bytes()).unwrap();
/// assert_eq!(configuration.sampling_rate_per_million, Some(100));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracingConfiguration {
    /// Address of the collector.
    pub endpoint: Option<String>,
    /// Number of requests in a million that are sampled. Without it, only requests whose parent is sampled are.
    pub sampling_rate_per_million: Option<i32>,
}

/// Address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `HOST:PORT`.
    Address(String),
    /// Unix socket: a path, or an abstract name after `@`.
    Socket(String),
}

impl TracingConfiguration {
    /// Reads YAML or JSON and validates it.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/options#ReadTracingConfiguration
    ///
    /// # Errors
    /// If the text is not a configuration, has unknown or repeated fields, or is invalid.
    pub fn decode(text: &[u8]) -> Result<Self, String> {
        let undecodable = |why: String| format!("unable to decode tracing configuration data: {why}");
        let parsed =
            yaml::parse_with_findings(text, &Limits::REQUEST).map_err(|error| undecodable(error.to_string()))?;
        check_kind(&parsed.value).map_err(undecodable)?;
        let mut unknown: Vec<String> = parsed.findings.iter().map(ToString::to_string).collect();
        let mut configuration = Self::default();
        for (name, value) in parsed.value.as_map().into_iter().flat_map(|map| map.iter()) {
            let name: &str = name.as_ref();
            match (name, value) {
                ("apiVersion" | "kind", _) | (_, Value::Null) => {}
                ("endpoint", Value::String(text)) => configuration.endpoint = Some(text.to_string()),
                ("endpoint", _) => return Err(undecodable("endpoint must be a string".to_owned())),
                ("samplingRatePerMillion", Value::Int(number)) if i32::try_from(*number).is_ok() => {
                    configuration.sampling_rate_per_million = i32::try_from(*number).ok();
                }
                ("samplingRatePerMillion", _) => {
                    let why = "samplingRatePerMillion must be a number of 32 bits";
                    return Err(undecodable(why.to_owned()));
                }
                (name, _) => unknown.push(format!("unknown field {name:?}")),
            }
        }
        if !unknown.is_empty() {
            return Err(undecodable(format!("strict decoding error: {}", unknown.join(", "))));
        }
        configuration.validate()?;
        Ok(configuration)
    }

    /// upstream: k8s.io/component-base/tracing/api/v1#ValidateTracingConfiguration
    fn validate(&self) -> Result<(), String> {
        let mut messages = Vec::new();
        if let Some(rate) = self.sampling_rate_per_million {
            let why = match i64::from(rate) {
                ..0 => Some("sampling rate must be positive"),
                0..=MILLION => None,
                _ => Some("sampling rate per million must be less than or equal to one million"),
            };
            messages.extend(why.map(|why| format!("samplingRatePerMillion: Invalid value: {rate}: {why}")));
        }
        messages.extend(self.parse_endpoint().err());
        match messages.as_slice() {
            [] => Ok(()),
            [one] => Err(format!("failed to validate tracing configuration: {one}")),
            several => Err(format!(
                "failed to validate tracing configuration: [{}]",
                several.join(", ")
            )),
        }
    }

    /// Returns the address of the collector.
    ///
    /// # Errors
    /// If its scheme is unsupported.
    pub fn parse_endpoint(&self) -> Result<Endpoint, String> {
        let configured = self.endpoint.as_deref().filter(|text| !text.is_empty());
        let text = configured.unwrap_or(DEFAULT_ENDPOINT);
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None => match text.split_once(':') {
                Some((scheme @ ("unix" | "unix-abstract" | "dns"), rest)) => (scheme, rest),
                _ => ("dns", text),
            },
        };
        match scheme {
            // The part before the last slash names a server of the DNS.
            "dns" => Ok(Endpoint::Address(
                rest.rsplit('/').next().unwrap_or_default().to_owned(),
            )),
            "unix" => Ok(Endpoint::Socket(rest.to_owned())),
            "unix-abstract" => Ok(Endpoint::Socket(format!("@{rest}"))),
            _ => Err(format!(
                "endpoint: Invalid value: {text:?}: unsupported scheme: {scheme}.  Options are none, dns, unix, or \
                 unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
            )),
        }
    }
}

fn check_kind(value: &Value) -> Result<(), String> {
    if value.as_map().is_none() {
        return Err("couldn't get version/kind; the file is not an object".to_owned());
    }
    let text = |name| value.str_at(&[name]).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, "") => Err("Object 'Kind' is missing".to_owned()),
        ("", _) => Err("Object 'apiVersion' is missing".to_owned()),
        (version, KIND) if VERSIONS.contains(&version) => Ok(()),
        (version, kind) => Err(format!("no kind {kind:?} is registered for version {version:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(rest: &str) -> Result<TracingConfiguration, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n{rest}");
        TracingConfiguration::decode(text.as_bytes())
    }

    fn endpoint(text: &str) -> Result<Endpoint, String> {
        decode(&format!("endpoint: {text}\n")).and_then(|configuration| configuration.parse_endpoint())
    }

    #[test]
    fn endpoint_has_the_schemes_of_grpc() {
        let address = |text: &str| Ok(Endpoint::Address(text.to_owned()));
        let socket = |text: &str| Ok(Endpoint::Socket(text.to_owned()));
        assert_eq!(endpoint("collector:4317"), address("collector:4317"));
        assert_eq!(endpoint("dns:///collector:1"), address("collector:1"));
        assert_eq!(endpoint("dns://10.0.0.10/collector:1"), address("collector:1"));
        assert_eq!(endpoint("unix:///run/otel.sock"), socket("/run/otel.sock"));
        assert_eq!(endpoint("unix:otel.sock"), socket("otel.sock"));
        assert_eq!(endpoint("unix-abstract:otel"), socket("@otel"));
        assert_eq!(endpoint("''"), address("localhost:4317"));
        let error = endpoint("https://collector:1").unwrap_err();
        assert!(error.contains("unsupported scheme: https."), "{error}");
    }

    #[test]
    fn invalid_configuration_has_the_reason() {
        for (rest, why) in [
            ("samplingRatePerMillion: -1", "sampling rate must be positive"),
            (
                "samplingRatePerMillion: 1000001",
                "must be less than or equal to one million",
            ),
            ("samplingRatePerMillion: a", "samplingRatePerMillion must be a number"),
            ("endpoint: 1", "endpoint must be a string"),
            ("rate: 1", "strict decoding error: unknown field \"rate\""),
            ("endpoint: a\nendpoint: b", "strict decoding error: "),
        ] {
            let error = decode(rest).unwrap_err();
            assert!(error.contains(why), "{rest}: {error}");
        }
        let other = TracingConfiguration::decode(b"apiVersion: v1\nkind: TracingConfiguration").unwrap_err();
        assert!(other.contains("no kind \"TracingConfiguration\" is registered for version \"v1\""));
        assert!(TracingConfiguration::decode(b"[1]").is_err());
    }
}
