//! Windows: options of security contexts, and HostProcess containers.

use holdfast_schema::metadata::formats::dns_subdomain;
use holdfast_schema::{Field, FieldError};

use super::PodRules;
use super::containers::visit_containers;
use crate::validation::{Errors, report};

const CREDENTIAL_LENGTH: usize = 64 * 1024;
const DOMAIN_LENGTH: usize = 256;
const USER_LENGTH: usize = 104;
const NET_BIOS_LENGTH: usize = 15;

/// Validates the Windows options of a security context.
///
/// upstream: pkg/apis/core/validation#validateWindowsSecurityContextOptions
pub(super) fn validate_options(options: &Field<'_, '_>, errors: &mut Errors) {
    let (name, credential) = (
        options.child("gmsaCredentialSpecName"),
        options.child("gmsaCredentialSpec"),
    );
    if name.is_set() {
        report(&name, dns_subdomain(name.text()), errors);
    }
    if credential.is_set() {
        if credential.text().is_empty() {
            errors.push(credential.invalid("gmsaCredentialSpec cannot be an empty string"));
        } else if credential.text().len() > CREDENTIAL_LENGTH {
            errors.push(credential.invalid("gmsaCredentialSpec size must be under 64 KiB"));
        }
    }
    let user = options.child("runAsUserName");
    if user.is_set() {
        let invalid = |message| FieldError::invalid_pointer(&user.path(), user.text(), message);
        errors.extend(user_errors(user.text()).into_iter().map(invalid));
    }
}

/// upstream: pkg/apis/core/validation#validateWindowsSecurityContextOptions
fn user_errors(text: &str) -> Vec<&'static str> {
    if text.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let parts: Vec<&str> = text.split('\\').collect();
    let (domain, user) = match parts.as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec!["runAsUserName cannot contain more than one backslash"],
    };
    let mut messages = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN_LENGTH {
            messages.push("runAsUserName's Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !is_dns(domain) {
            messages.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        messages.push("runAsUserName's User cannot be empty");
    } else if user.len() > USER_LENGTH {
        messages.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.bytes().all(|byte| matches!(byte, b'.' | b' ')) {
        messages.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|letter| "\"/\\:;|=,+*?<>@[]".contains(letter)) {
        messages.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    messages
}

fn is_net_bios(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=NET_BIOS_LENGTH).contains(&length)
        && !domain.starts_with('.')
        && !domain.contains(|letter| "\\/:*?\"<>|".contains(letter))
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

/// Validates that either all containers are HostProcess containers, with the host network, or none is.
///
/// upstream: pkg/apis/core/validation#validateWindowsHostProcessPod
pub(super) fn validate_host_processes(spec: &Field<'_, '_>, rules: PodRules<'_>, errors: &mut Errors) {
    let process = |context: &Field<'_, '_>| -> Option<bool> {
        let options = context.child("windowsOptions");
        let field = options.child("hostProcess");
        field.is_set().then(|| field.is_true())
    };
    let of_pod = process(&spec.child("securityContext"));
    let (mut count, mut of_host) = (0, 0);
    visit_containers(spec, &mut |container| {
        count += 1;
        let context = container.child("securityContext");
        let own = process(&context);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let options = context.child("windowsOptions");
            let message = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.push(options.child("hostProcess").invalid_as(own, message));
        }
        if own.or(of_pod) == Some(true) {
            of_host += 1;
        }
    });
    if of_host == 0 {
        return;
    }
    if of_host != count {
        errors.push(spec.invalid_as(
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess containers",
        ));
    }
    if !spec.child("hostNetwork").is_true() {
        errors.push(spec.child("hostNetwork").invalid_as(
            false,
            "hostNetwork must be true if pod contains any hostProcess containers",
        ));
    }
    if !rules.allow_privileged {
        errors.push(spec.forbidden("hostProcess containers are disallowed by cluster policy"));
    }
}

#[cfg(test)]
mod tests {
    use super::user_errors;

    #[test]
    fn users_are_names_with_or_without_a_domain() {
        for good in [
            "ContainerUser",
            "DOM\\user",
            "NT AUTHORITY\\LOCAL SERVICE",
            "dom.ain\\user",
            "a b",
        ] {
            assert!(user_errors(good).is_empty(), "{good}");
        }
        for (bad, message) in [
            ("", "runAsUserName cannot be an empty string"),
            ("a\\b\\c", "runAsUserName cannot contain more than one backslash"),
            (
                "\\b",
                "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
            ),
            ("a\\", "runAsUserName's User cannot be empty"),
            ("..", "runAsUserName's User cannot contain only periods or spaces"),
            ("u\u{0}", "runAsUserName cannot contain control characters"),
        ] {
            assert_eq!(user_errors(bad), [message], "{bad}");
        }
    }
}
