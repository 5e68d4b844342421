//! Kinds of the API group `authentication.k8s.io`: reviews, which are answered and never stored.

mod self_subject_review;
mod token_review;

use holdfast_authorization::User;
use holdfast_kind_tables::Kind;
use holdfast_value::{List, Map, SmolStr, Value};

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "selfsubjectreviews" => self_subject_review::declare(),
        "tokenreviews" => token_review::declare(),
        _ => return None,
    })
}

/// Returns a user as reviews show it.
fn user_info(user: &User) -> Value {
    let list = |texts: &[SmolStr]| {
        let texts = texts.iter().map(|text| Value::from(text.clone()));
        Value::List(texts.collect::<List>())
    };
    let mut info = Map::new();
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(field, text.clone());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra: Map = user
            .extra
            .iter()
            .map(|(key, values)| (key.clone(), list(values)))
            .collect();
        info.insert("extra", Value::Map(extra));
    }
    Value::Map(info)
}
