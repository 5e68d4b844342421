//! Signed tokens in compact form (RFC 7515).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_value::{Limits, Value, json};

/// Maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// Limits of the JSON in a token.
const LIMITS: Limits = Limits {
    max_bytes: MAX_TOKEN_BYTES,
    max_depth: 32,
    max_nodes: 10_000,
};

/// Asymmetric signature algorithm of tokens (RFC 7518).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the standard")]
pub enum Algorithm {
    ES256,
    ES384,
    ES512,
    PS256,
    PS384,
    PS512,
    RS256,
    RS384,
    RS512,
}

impl Algorithm {
    /// All algorithms, in the order of their names.
    pub const ALL: [Self; 9] = [
        Self::ES256,
        Self::ES384,
        Self::ES512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::RS256,
        Self::RS384,
        Self::RS512,
    ];

    /// Returns the name in the header of a token.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::ES512 => "ES512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
        }
    }

    /// Returns the algorithm of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// A token whose signature is not verified.
#[derive(Clone, Debug)]
pub(crate) struct Jws {
    /// Name of the algorithm; it may be unknown.
    pub(crate) algorithm: String,
    /// Key id; may be empty.
    pub(crate) key_id: String,
    /// Claims.
    pub(crate) claims: Value,
    /// Signed text: header and claims as they were sent.
    pub(crate) signed: String,
    pub(crate) signature: Vec<u8>,
}

impl Jws {
    /// Parses a token.
    ///
    /// # Errors
    /// If it is not a signed token in compact form.
    pub(crate) fn parse(token: &str) -> Result<Self, String> {
        let (signed, signature) = token
            .rsplit_once('.')
            .ok_or("square/go-jose: compact JWS format must have three parts")?;
        let header = json_part(signed.split('.').next().unwrap_or_default())?;
        // Neither is supported, so neither may be ignored.
        if header.get("crit").is_some() || header.get("b64").is_some() {
            return Err("square/go-jose: unsupported crit header".to_owned());
        }
        let text = |name| header.str_at(&[name]).unwrap_or_default().to_owned();
        Ok(Self {
            algorithm: text("alg"),
            key_id: text("kid"),
            claims: claims(token).ok_or("token is not compact JWT")?,
            signed: signed.to_owned(),
            signature: bytes(signature)?,
        })
    }
}

/// Returns the claims of a token in compact form, without any check; `None` if it is not in that form.
pub(crate) fn claims(token: &str) -> Option<Value> {
    if token.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    json_part(claims).ok()
}

fn json_part(part: &str) -> Result<Value, String> {
    let value = json::parse(&bytes(part)?, &LIMITS).map_err(|error| error.to_string())?;
    match value.as_map() {
        Some(_) => Ok(value),
        None => Err(format!("json: cannot unmarshal {} into a token", value.json_kind())),
    }
}

fn bytes(part: &str) -> Result<Vec<u8>, String> {
    URL_SAFE_NO_PAD.decode(part).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", part(header), part(claims), part("signature"))
    }

    #[test]
    fn token_is_parsed_into_its_parts() {
        let token = token(r#"{"alg":"RS256","kid":"k"}"#, r#"{"iss":"a"}"#);
        let jws = Jws::parse(&token).unwrap();
        assert_eq!((jws.algorithm.as_str(), jws.key_id.as_str()), ("RS256", "k"));
        assert_eq!(jws.claims.str_at(&["iss"]), Some("a"));
        assert_eq!(jws.signature, b"signature");
        assert!(token.starts_with(&jws.signed));
        assert_eq!(Algorithm::named("RS256"), Some(Algorithm::RS256));
        assert_eq!(Algorithm::named("none"), None);
    }

    #[test]
    fn malformed_tokens_are_rejected() {
        let long = token("{}", &format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_TOKEN_BYTES)));
        let deep = token("{}", &format!("{{\"a\":{}1{}}}", "[".repeat(50), "]".repeat(50)));
        for bad in [
            "",
            "a",
            "a.b",
            "a.b.c",
            "....",
            &token("{}", "[]"),
            &token("{}", "{"),
            &token("[]", "{}"),
            &token(r#"{"crit":["exp"]}"#, "{}"),
            &format!("{}.x", token("{}", "{}")),
            &format!("{}=", token("{}", "{}")),
            &long,
            &deep,
        ] {
            assert!(Jws::parse(bad).is_err(), "{bad}");
        }
    }
}
