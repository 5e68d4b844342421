//! Names of signers of certificates.

use holdfast_schema::Field;
use holdfast_schema::metadata::formats::{dns_label, dns_subdomain};

use super::Errors;

const SIGNER_DOMAIN: usize = 253;
const SIGNER_NAME: usize = 571;

/// upstream: pkg/apis/core/validation#ValidateSignerName
pub(crate) fn validate_signer_name(signer: &Field<'_, '_>, errors: &mut Errors) {
    let name = signer.text();
    if name.is_empty() {
        errors.push(signer.required(""));
        return;
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, path] = segments.as_slice() else {
        errors.push(signer.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'"));
        return;
    };
    if domain.len() > SIGNER_DOMAIN {
        errors.push(signer.too_long(SIGNER_DOMAIN));
    }
    let check = |segment: &str, form: fn(&str) -> Vec<_>, errors: &mut Errors| {
        let faulty = segment
            .split('.')
            .map(|label| (label, form(label)))
            .find(|(_, messages)| !messages.is_empty());
        if let Some((label, messages)) = faulty {
            let reported = messages
                .into_iter()
                .map(|message| format!("validating label {label:?}: {message}"));
            errors.extend(reported.map(|message| signer.invalid_as(segment, message)));
        }
    };
    check(domain, dns_label, errors);
    if !domain.contains('.') {
        errors.push(signer.invalid_as(
            *domain,
            "should be a domain with at least two segments separated by dots",
        ));
    }
    check(path, dns_subdomain, errors);
    if name.len() > SIGNER_NAME {
        errors.push(signer.too_long(SIGNER_NAME));
    }
}
