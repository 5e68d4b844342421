//! Settings of client connections except for addresses: TLS versions and ciphers, HTTP/2, and headers for browsers.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use clap::{ArgAction, Args};
use holdfast_server::operations::browsers::Browsers;
use holdfast_server::operations::service::GoAway;
use holdfast_server::wire::tls::{NamedFiles, TlsRules, key_exchange, suite_of};
use http::HeaderValue;
use regex::{Regex, RegexSet};
use rustls::NamedGroup;

/// kube-apiserver's flags for connections.
#[derive(Clone, Debug, Args)]
pub(crate) struct TransportFlags {
    /// Minimum TLS version: VersionTLS12 or VersionTLS13. The older VersionTLS10 and VersionTLS11 mean VersionTLS12
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12", value_parser = min_version)]
    tls_min_version: MinVersion,

    /// Allowed TLS 1.2 cipher suites, with Go's names. Those of TLS 1.3 are always enabled
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,

    /// Allowed key exchange mechanisms, as numbers of the TLS registry, in any order: 23 (P-256), 24 (P-384), 29 (X25519),
    /// 4587 and 4588 (both with ML-KEM-768)
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_negative_numbers = true)]
    tls_curve_preferences: Vec<i32>,

    /// Further certificate, for clients that request its names: the files of certificate and key (PEM), separated by a
    /// comma, and optionally a colon with names, separated by commas. Names are domains, which may begin with `*.`, and
    /// addresses of the server. Without names, those in the certificate apply. Can be repeated; the first one of a name
    /// applies
    #[arg(long, value_name = "FILES", value_parser = named_files)]
    pub(crate) tls_sni_cert_key: Vec<NamedFiles>,

    /// Serve only HTTP/1.1
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    disable_http2_serving: bool,

    /// Probability from 0 to 0.02 that the server closes the connection of an HTTP/2 request (GOAWAY), so that clients
    /// spread over servers
    #[arg(long, value_name = "CHANCE", default_value_t = 0.0)]
    goaway_chance: f64,

    /// Allowed origins for CORS, as regular expressions that pin the start and the end of the host
    #[arg(long, value_name = "ORIGINS", value_delimiter = ',')]
    cors_allowed_origins: Vec<String>,

    /// Directives of the header Strict-Transport-Security: max-age=SECONDS, includeSubDomains, preload
    #[arg(long, value_name = "DIRECTIVES", value_delimiter = ',')]
    strict_transport_security_directives: Vec<String>,
}

/// The least version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MinVersion {
    Tls12,
    Tls13,
}

fn min_version(text: &str) -> Result<MinVersion, String> {
    match text {
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(MinVersion::Tls12),
        "VersionTLS13" => Ok(MinVersion::Tls13),
        _ => Err(format!("unknown tls version {text:?}")),
    }
}

/// Parses `CERTIFICATE,KEY` or `CERTIFICATE,KEY:NAME,NAME`.
///
/// upstream: k8s.io/component-base/cli/flag#NamedCertKey.Set
fn named_files(text: &str) -> Result<NamedFiles, String> {
    let (files, names) = match text.split_once(':') {
        Some((_, names)) if names.trim().is_empty() => return Err("empty names list is not allowed".to_owned()),
        Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_owned()).collect()),
        None => (text, Vec::new()),
    };
    let [certificate, key] = files.split(',').collect::<Vec<_>>()[..] else {
        return Err("expected comma separated certificate and key file paths".to_owned());
    };
    Ok(NamedFiles {
        certificate: certificate.trim().into(),
        key: key.trim().into(),
        names,
    })
}

/// Cipher suites that Go knows and that connections never use here: they lack forward secrecy or authenticated
/// encryption.
const WEAK_SUITES: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

impl TransportFlags {
    /// Returns the TLS settings of handshakes.
    ///
    /// # Errors
    /// If a cipher suite or key exchange mechanism is unknown.
    pub(crate) fn tls(&self) -> Result<TlsRules> {
        let mut suites = Vec::new();
        for name in &self.tls_cipher_suites {
            match suite_of(name) {
                Some(suite) => suites.push(suite),
                None if WEAK_SUITES.contains(&name.as_str()) => {
                    tracing::warn!(suite = name, "this cipher suite is weak and is not used");
                }
                None => bail!("Cipher suite {name} not supported or doesn't exist"),
            }
        }
        Ok(TlsRules {
            only_tls13: self.tls_min_version == MinVersion::Tls13,
            suites: (!self.tls_cipher_suites.is_empty()).then_some(suites),
            key_exchanges: self.key_exchanges()?,
            http2: !self.disable_http2_serving,
        })
    }

    /// Returns the allowed key exchange mechanisms; `None` for all.
    ///
    /// upstream: k8s.io/component-base/cli/flag#TLSCurvePreferences
    fn key_exchanges(&self) -> Result<Option<Vec<NamedGroup>>> {
        let mut allowed = Vec::new();
        for number in &self.tls_curve_preferences {
            let code = u16::try_from(*number).ok().filter(|code| *code > 0);
            let Some(code) = code else {
                bail!("curve preference {number} is out of range (must be 1-{})", u16::MAX)
            };
            let Some(group) = key_exchange(code) else {
                bail!("curve preference {number} is not supported by Holdfast")
            };
            ensure!(!allowed.contains(&group), "duplicate curve preference {number}");
            allowed.push(group);
        }
        Ok((!allowed.is_empty()).then_some(allowed))
    }

    /// Returns the reference's validation errors for probabilities, directives and origins.
    pub(crate) fn errors(&self) -> Vec<String> {
        let listed = self.strict_transport_security_directives.iter();
        let directives = listed.map(|directive| check_directive(directive));
        // The reference stops at the first origin.
        let mut origins = self.cors_allowed_origins.iter().map(|origin| check_origin(origin));
        let directive_checks = std::iter::once(self.go_away().map(drop)).chain(directives);
        let checks = directive_checks.chain(origins.find(Result::is_err));
        checks.filter_map(|check| Some(check.err()?.to_string())).collect()
    }

    /// Returns the headers for browsers; `None` if there are none.
    ///
    /// # Errors
    /// If an origin or a directive is invalid; the message is the reference's.
    pub(crate) fn browsers(&self) -> Result<Option<Arc<Browsers>>> {
        for origin in &self.cors_allowed_origins {
            check_origin(origin)?;
        }
        for directive in &self.strict_transport_security_directives {
            check_directive(directive)?;
        }
        let directives = self.strict_transport_security_directives.join("; ");
        if directives.is_empty() && self.cors_allowed_origins.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Browsers {
            origins: RegexSet::new(&self.cors_allowed_origins)?,
            transport_security: match directives.is_empty() {
                true => None,
                false => Some(HeaderValue::from_str(&directives)?),
            },
        })))
    }

    /// Returns the probability that a request is the last of its connection; `None` if it is zero.
    ///
    /// # Errors
    /// If the reference rejects the probability.
    pub(crate) fn go_away(&self) -> Result<Option<GoAway>> {
        ensure!(
            (0.0..=0.02).contains(&self.goaway_chance),
            "--goaway-chance can not be less than 0 or greater than 0.02"
        );
        Ok((self.goaway_chance > 0.0).then_some(GoAway {
            chance: self.goaway_chance,
            random: holdfast_kinds::random,
        }))
    }
}

fn check_origin(origin: &str) -> Result<()> {
    ensure!(!origin.is_empty(), "empty value in --cors-allowed-origins");
    if let Err(why) = Regex::new(origin) {
        bail!("--cors-allowed-origins has an invalid regular expression: {why}");
    }
    let has = |marks: [&str; 2]| marks.iter().any(|mark| origin.contains(mark));
    ensure!(
        has(["^", "//"]) && has(["$", ":"]),
        "--cors-allowed-origins has an invalid regular expression: regular expression does not pin to start/end of host in the \
         origin header"
    );
    Ok(())
}

fn check_directive(directive: &str) -> Result<()> {
    ensure!(
        !directive.trim().is_empty(),
        "empty value in strict-transport-security-directives"
    );
    let is_age = directive.strip_prefix("max-age=").is_some_and(|age| !age.contains('='));
    ensure!(
        is_age || ["includeSubDomains", "preload"].contains(&directive),
        "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see \
         https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Arguments;

    fn flags(flag: &str) -> TransportFlags {
        Arguments::try_parse_from(["holdfast", flag]).unwrap().serve.transport
    }

    #[test]
    fn named_certificate_has_two_files_and_optional_names() {
        let parsed = named_files("a.crt, a.key : *.example, 10.0.0.1").unwrap();
        assert_eq!(
            (parsed.certificate.to_str(), parsed.key.to_str()),
            (Some("a.crt"), Some("a.key"))
        );
        assert_eq!(parsed.names, ["*.example", "10.0.0.1"]);
        assert!(named_files("a.crt,a.key").unwrap().names.is_empty());
        assert_eq!(
            named_files("a.crt,a.key: ").unwrap_err(),
            "empty names list is not allowed"
        );
        for text in ["a.crt", "a,b,c", "a.crt:a.example"] {
            assert_eq!(
                named_files(text).unwrap_err(),
                "expected comma separated certificate and key file paths"
            );
        }
    }

    #[test]
    fn ciphers_have_the_names_that_go_gives_them() {
        let rules = flags("--tls-cipher-suites=TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,TLS_RSA_WITH_RC4_128_SHA");
        assert_eq!(rules.tls().unwrap().suites.map(|suites| suites.len()), Some(1));
        let error = flags("--tls-cipher-suites=TLS_WHAT").tls().unwrap_err();
        assert_eq!(
            error.to_string(),
            "Cipher suite TLS_WHAT not supported or doesn't exist"
        );
        assert!(Arguments::try_parse_from(["holdfast", "--tls-min-version=VersionTLS14"]).is_err());
        assert!(flags("--tls-min-version=VersionTLS13").tls().unwrap().only_tls13);
    }

    #[test]
    fn key_exchanges_are_numbers_of_the_registry() {
        let allowed = |flag: &str| flags(flag).key_exchanges();
        let groups = allowed("--tls-curve-preferences=29,4588").unwrap().unwrap();
        assert_eq!(groups, [NamedGroup::X25519, NamedGroup::X25519MLKEM768]);
        for (flag, error) in [
            (
                "--tls-curve-preferences=0",
                "curve preference 0 is out of range (must be 1-65535)",
            ),
            (
                "--tls-curve-preferences=-1",
                "curve preference -1 is out of range (must be 1-65535)",
            ),
            (
                "--tls-curve-preferences=65536",
                "curve preference 65536 is out of range (must be 1-65535)",
            ),
            ("--tls-curve-preferences=29,29", "duplicate curve preference 29"),
            (
                "--tls-curve-preferences=25",
                "curve preference 25 is not supported by Holdfast",
            ),
        ] {
            assert_eq!(allowed(flag).unwrap_err().to_string(), error);
        }
        assert!(allowed("--tls-min-version=VersionTLS12").unwrap().is_none());
    }

    #[test]
    fn browsers_get_no_headers_unless_flags_say_so() {
        assert!(flags("--tls-min-version=VersionTLS13").browsers().unwrap().is_none());
        assert!(
            flags("--cors-allowed-origins=//a.example(:|$)")
                .browsers()
                .unwrap()
                .is_some()
        );
        let error = |flag: &str| flags(flag).browsers().unwrap_err().to_string();
        assert!(error("--cors-allowed-origins=a.example").contains("does not pin to start/end of host"));
        assert!(error("--cors-allowed-origins=^(").contains("invalid regular expression"));
        assert!(error("--strict-transport-security-directives=max-age").contains("allowed values"));
    }

    #[test]
    fn connections_go_on_unless_a_chance_is_given() {
        assert!(flags("--goaway-chance=0").go_away().unwrap().is_none());
        assert!(flags("--goaway-chance=0.02").go_away().unwrap().is_some());
        assert!(flags("--goaway-chance=0.03").go_away().is_err());
    }
}
