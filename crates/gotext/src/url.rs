//! URLs as Go's `net/url` parses them, with its error messages.

use crate::quote::quote;

/// Parsed URL. Missing parts are empty.
///
/// ```
/// let url = holdfast_gotext::url::parse("https://user@example.com:8443/a%20b?x=1#top").unwrap();
/// assert_eq!((url.scheme.as_str(), url.host.as_str()), ("https", "example.com:8443"));
/// assert_eq!((url.escaped_path.as_str(), url.query.as_str(), url.fragment.as_str()), ("/a%20b", "x=1", "top"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// Scheme in lower case.
    pub scheme: String,
    /// User information before the `@` of the authority, as written in the text; `None` if there is none.
    pub user: Option<String>,
    /// Host and port with escapes decoded.
    pub host: String,
    /// Escaped path: the original escaping if it is valid, otherwise Go's.
    pub escaped_path: String,
    /// Query after `?`, as written in the text.
    pub query: String,
    /// Fragment after `#`, decoded.
    pub fragment: String,
}

/// Kind of reference that the parser accepts.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Any reference: `Parse`.
    Reference,
    /// An absolute URL or path of a request, without a fragment: `ParseRequestURI`.
    Request,
}

/// Parses an absolute or relative URL, with or without a fragment.
///
/// ```
/// let error = holdfast_gotext::url::parse("://").unwrap_err();
/// assert_eq!(error, r#"parse "://": missing protocol scheme"#);
/// ```
///
/// # Errors
/// Returns Go's message with the text: `parse "…": …`.
pub fn parse(text: &str) -> Result<Url, String> {
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = read(before, Form::Reference).map_err(|why| rejected(before, &why))?;
    url.fragment = unescape(fragment).map_err(|why| rejected(text, &why))?;
    Ok(url)
}

/// Parses the URI of a request.
///
/// # Errors
/// Returns Go's message with the text.
pub fn parse_request_uri(text: &str) -> Result<Url, String> {
    read(text, Form::Request).map_err(|why| rejected(text, &why))
}

fn rejected(text: &str, why: &str) -> String {
    format!("parse {}: {why}", quote(text))
}

fn read(text: &str, form: Form) -> Result<Url, String> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && form == Form::Request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        text.clone_into(&mut url.escaped_path);
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.scheme = scheme.to_ascii_lowercase();
    query.clone_into(&mut url.query);
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            // `mailto:x` has no path.
            return Ok(url);
        }
        if form == Form::Request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    let may_have_host = !scheme.is_empty() || form == Form::Reference && !rest.starts_with("///");
    if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_host) {
        let (authority, below) = after.split_at(after.find('/').unwrap_or(after.len()));
        path = below;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        url.host = read_host(host)?;
        if let Some(user) = user {
            url.user = Some(check_user(user)?.to_owned());
        }
    }
    let decoded = unescape(path)?;
    url.escaped_path = if path.bytes().all(may_stand_in_path) {
        path.to_owned()
    } else {
        escape_path(&decoded)
    };
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok(text.split_once(':').unwrap_or(("", text))),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_user(user: &str) -> Result<&str, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(fits) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user)?;
    Ok(user)
}

fn read_host(host: &str) -> Result<String, String> {
    let after = match host.strip_prefix('[') {
        Some(inner) => inner.rsplit_once(']').ok_or("missing ']' in host")?.1,
        None => host.rfind(':').and_then(|at| host.get(at..)).unwrap_or_default(),
    };
    let valid_port = after.is_empty()
        || after
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !valid_port {
        return Err(format!("invalid port {} after host", quote(after)));
    }
    let odd = |letter: &char| {
        letter.is_ascii() && !letter.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*letter)
    };
    if let Some(odd) = host.chars().find(odd) {
        return Err(format!("invalid character {} in host name", quote(&odd.to_string())));
    }
    unescape(host)
}

/// Decodes percent escapes such as `%41`.
///
/// ```
/// assert_eq!(holdfast_gotext::url::unescape("a%20b").unwrap(), "a b");
/// assert!(holdfast_gotext::url::unescape("%zz").is_err());
/// ```
///
/// # Errors
/// Returns the invalid escape.
pub fn unescape(text: &str) -> Result<String, String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            decoded.push(byte);
            at += 1;
            continue;
        }
        let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
            let shown: Vec<u8> = bytes.iter().skip(at).take(3).copied().collect();
            return Err(format!(
                "invalid URL escape {}",
                quote(&String::from_utf8_lossy(&shown))
            ));
        };
        decoded.push((high * 16 + low) as u8);
        at += 3;
    }
    Ok(String::from_utf8_lossy(&decoded).into_owned())
}

fn may_stand_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:@[]-_.~/%".contains(&byte)
}

fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        parse(text).err().unwrap_or_default()
    }

    #[test]
    fn url_is_split_into_parts() {
        let url = parse("HTTPS://me:pw@a.example:8080/a b?k=v&k=w#f%41").unwrap();
        assert_eq!(url.scheme, "https");
        assert_eq!(url.user.as_deref(), Some("me:pw"));
        assert_eq!(url.host, "a.example:8080");
        assert_eq!(url.escaped_path, "/a%20b");
        assert_eq!(url.query, "k=v&k=w");
        assert_eq!(url.fragment, "fA");
        let relative = parse("//host/path").unwrap();
        assert_eq!(
            (relative.host.as_str(), relative.escaped_path.as_str()),
            ("host", "/path")
        );
        assert_eq!(parse("https://@h/").unwrap().user.as_deref(), Some(""));
    }

    #[test]
    fn invalid_url_gives_go_error() {
        for (text, message) in [
            ("://", r#"parse "://": missing protocol scheme"#),
            ("https://h/%zz#f", r#"parse "https://h/%zz": invalid URL escape "%zz""#),
            ("https://h/%4", r#"parse "https://h/%4": invalid URL escape "%4""#),
            ("https://h/#%x", r#"parse "https://h/#%x": invalid URL escape "%x""#),
            (
                "https://a b",
                r#"parse "https://a b": invalid character " " in host name"#,
            ),
            ("https://a:x/", r#"parse "https://a:x/": invalid port ":x" after host"#),
            ("https://[::1", r#"parse "https://[::1": missing ']' in host"#),
            (
                "https://a\"b@h/",
                r#"parse "https://a\"b@h/": net/url: invalid userinfo"#,
            ),
            (
                "a_b:c/d",
                r#"parse "a_b:c/d": first path segment in URL cannot contain colon"#,
            ),
            ("a\u{7f}", r#"parse "a\x7f": net/url: invalid control character in URL"#),
        ] {
            assert_eq!(why(text), message);
        }
        for text in ["", "/path", "https://a", "mailto:x", "https://a/?q", "*", "a/b"] {
            assert_eq!(why(text), "", "{text}");
        }
    }

    #[test]
    fn request_uri_must_be_absolute() {
        for text in ["", "not a url", "a.example/x", "http://a b/", ":x", "/%zz"] {
            assert!(parse_request_uri(text).is_err(), "{text}");
        }
        let path = parse_request_uri("//host/path").unwrap();
        assert_eq!((path.host.as_str(), path.escaped_path.as_str()), ("", "//host/path"));
    }
}
