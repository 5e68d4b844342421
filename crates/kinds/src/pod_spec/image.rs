//! Names of images: <https://github.com/distribution/reference>.

/// Maximum length of the path of an image.
const LONGEST: usize = 255;
/// Maximum length of a tag.
const LONGEST_TAG: usize = 128;
/// Folder of images of the default registry that name none.
const DEFAULT_FOLDER: &str = "library/";

/// Returns true if an image is the latest one: it has the tag `latest`, or neither tag nor digest. Returns false for an
/// invalid name (`ParseImageName` gives no tag then).
///
/// upstream: pkg/util/parsers#ParseImageName
pub(super) fn is_latest(image: &str) -> bool {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let last = named.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match named.get(last..).and_then(|last| last.split_once(':')) {
        Some((start, tag)) => (named.get(..last + start.len()).unwrap_or_default(), Some(tag)),
        None => (named, None),
    };
    let is_latest = match tag {
        Some(tag) => tag == "latest",
        None => digest.is_none(),
    };
    is_latest && !is_identifier(image) && is_name(name) && digest.is_none_or(is_digest) && tag.is_none_or(is_tag)
}

/// Returns true if a text is the identifier of an image, which is not a name.
fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

/// Returns true if a name without tag and digest is valid: an optional registry and a path.
fn is_name(name: &str) -> bool {
    let looks_like_registry = |domain: &str| {
        domain.contains(['.', ':']) || domain == "localhost" || domain.contains(|c: char| c.is_uppercase())
    };
    let (domain, path) = match name.split_once('/') {
        Some((domain, path)) if looks_like_registry(domain) => (Some(domain), path),
        _ => (None, name),
    };
    let is_default = domain.is_none_or(|domain| matches!(domain, "docker.io" | "index.docker.io"));
    let added = if is_default && !path.contains('/') {
        DEFAULT_FOLDER.len()
    } else {
        0
    };
    // A first part that is not a valid registry may still be the first folder.
    let in_registry = domain.is_none_or(is_domain) && is_path(path);
    path.len() + added <= LONGEST && (in_registry || is_path(name))
}

/// Returns true for `host[:port]`.
fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let is_address =
                !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
            if !is_address {
                return false;
            }
            (None, port.strip_prefix(':').or((!port.is_empty()).then_some("")))
        }
        None => match domain.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(domain), None),
        },
    };
    let is_label = |label: &str| {
        let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        alphanumeric(bytes.first())
            && alphanumeric(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    host.is_none_or(|host| host.split('.').all(is_label))
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns true for lower-case words between slashes, each of parts with `.`, `_`, `__` or any number of `-` between
/// them.
fn is_path(path: &str) -> bool {
    path.split('/').all(|component| {
        let is_part = |byte: char| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let ends = component.starts_with(is_part) && component.ends_with(is_part);
        let mut between = component.split(is_part).filter(|between| !between.is_empty());
        ends && between.all(|between| matches!(between, "." | "_" | "__") || between.bytes().all(|byte| byte == b'-'))
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=LONGEST_TAG).contains(&tag.len())
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// Returns true if a digest has a known algorithm.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_tag_and_digest_are_the_latest() {
        for image in [
            "a",
            "a:latest",
            "a--b",
            "a__b",
            "a.b",
            "A/b",
            "LOCAL/a",
            "localhost:5/a",
            "[::1]:5000/a",
            "a_b.c/d",
        ] {
            assert!(is_latest(image), "{image}");
        }
        let digest = format!("a:latest@sha256:{}", "0".repeat(64));
        assert!(is_latest(&digest));
        assert!(!is_latest(&digest.replace("sha256", "md5")));
        assert!(!is_latest(&digest.replace(":latest", "")));
        assert!(!is_latest("a:1"));
    }

    #[test]
    fn invalid_image_name_is_not_latest() {
        let bad = [
            ".",
            "..",
            "",
            "a/../b",
            "-a",
            "a-",
            "a___b",
            "a..b",
            "A",
            "a/B",
            "a/",
            "/a",
            "a:x/y",
            "a_/b",
            "http://a/b",
            "-/a",
            "localhost:x/a",
            "_a",
            "a.b.",
            "a.b-/c",
            "a.-b/c",
            "[::1/a",
            "[]/a",
            "[::1]5/a",
        ];
        for image in bad {
            assert!(!is_latest(image), "{image}");
        }
        assert!(!is_latest(&"0".repeat(64)));
        assert!(!is_latest(&"a".repeat(248)));
        assert!(is_latest(&"a".repeat(247)));
    }
}
