//! The kinds of the group `authentication.k8s.io`: reviews, which are answered and never stored.

mod self_subject_review;
mod token_review;

use std::sync::Arc;

use holdfast_authorization::User;
use holdfast_resource::Strategy;
use holdfast_value::{List, Map, SmolStr, Value};

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    Some(match resource {
        "selfsubjectreviews" => Arc::new(self_subject_review::SelfSubjectReview),
        "tokenreviews" => Arc::new(token_review::TokenReview),
        _ => return None,
    })
}

/// A user, as reviews show it.
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
