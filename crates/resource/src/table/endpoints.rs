//! What tables tell of endpoints: the first few addresses and ports.

use holdfast_value::Value;

use super::super::cell::{items, scalar_text};

/// How many are shown; of more only the number is told.
const SHOWN: usize = 3;

/// The ready addresses of all subsets, each with each of the ports of its subset.
pub(super) fn of_subsets(endpoints: &Value) -> Value {
    let subsets = items(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let (ports, addresses) = (items(subset, &["ports"]), items(subset, &["addresses"]));
        let address = |address: &Value| address.str_at(&["ip"]).unwrap_or_default().to_owned();
        if ports.is_empty() {
            all.extend(addresses.iter().map(address));
        }
        for port in ports {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            all.extend(addresses.iter().map(|of| match address(of) {
                ip if ip.contains(':') => format!("[{ip}]:{number}"),
                ip => format!("{ip}:{number}"),
            }));
        }
    }
    first_of(&all).into()
}

/// The addresses of all endpoints of a slice.
pub(super) fn of_slice(slice: &Value) -> Value {
    let endpoints = items(slice, &["endpoints"]).iter();
    let addresses = endpoints.flat_map(|endpoint| items(endpoint, &["addresses"]));
    or_unset(&addresses.map(scalar_text).collect::<Vec<_>>())
}

/// The ports of a slice: numbers, or names where there is no number.
pub(super) fn ports_of_slice(slice: &Value) -> Value {
    let port = |port: &Value| {
        let name = port.str_at(&["name"]).filter(|name| !name.is_empty());
        let number = port.get("port").and_then(Value::as_i64);
        number.map_or_else(|| name.unwrap_or("*").to_owned(), |number| number.to_string())
    };
    or_unset(&items(slice, &["ports"]).iter().map(port).collect::<Vec<_>>())
}

fn or_unset(all: &[String]) -> Value {
    if all.is_empty() {
        "<unset>".into()
    } else {
        first_of(all).into()
    }
}

fn first_of(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn of_many_addresses_three_are_shown_and_the_others_counted() {
        for (subsets, shown) in [
            ("[]", "<none>"),
            (r#"[{"ports":[{"port":80}]}]"#, ""),
            (r#"[{"addresses":[{"ip":"10.0.0.1"}]}]"#, "10.0.0.1"),
            (
                r#"[{"addresses":[{"ip":"10.0.0.1"},{"ip":"::1"}],"ports":[{"port":80},{"port":81}]}]"#,
                "10.0.0.1:80,[::1]:80,10.0.0.1:81 + 1 more...",
            ),
        ] {
            let endpoints = object(&format!(r#"{{"subsets":{subsets}}}"#));
            assert_eq!(of_subsets(&endpoints), shown.into(), "{subsets}");
        }
    }

    #[test]
    fn a_slice_shows_addresses_and_ports_by_number_or_name() {
        let slice = object(r#"{"endpoints":[{"addresses":["a","b"]}],"ports":[{"port":80},{"name":"z"},{}]}"#);
        assert_eq!(of_slice(&slice), "a,b".into());
        assert_eq!(ports_of_slice(&slice), "80,z,*".into());
        assert_eq!(ports_of_slice(&object("{}")), "<unset>".into());
    }
}
