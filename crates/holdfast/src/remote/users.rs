//! Users of a kubeconfig, as the credentials that admission webhooks are called with.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use holdfast_resource::table::items;
use holdfast_server::webhooks::{UserFields, WebhookUser, WebhookUsers};
use holdfast_value::{Limits, Value, yaml};

use super::access::{check_version, data, member};
use crate::files;

/// Reads all users of the kubeconfig at `path`.
///
/// # Errors
/// The user that cannot be used.
pub(crate) fn read_users(path: &Path) -> Result<WebhookUsers> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let parsed = yaml::parse(&files::read(path)?, &Limits::REQUEST);
    let config = parsed.with_context(|| format!("{} is no kubeconfig", path.display()))?;
    from_config(&config, folder).with_context(|| format!("in {}", path.display()))
}

/// Reads the users of `config`, which names files relative to `folder`.
fn from_config(config: &Value, folder: &Path) -> Result<WebhookUsers> {
    check_version(config)?;
    let mut users = WebhookUsers::default();
    for entry in items(config, &["users"]) {
        let name = entry.str_at(&["name"]).unwrap_or_default();
        let user = entry.get("user").unwrap_or(&Value::Null);
        let result = fields(user, folder).and_then(|fields| WebhookUser::new(fields).map_err(|why| anyhow!(why)));
        let read = result.with_context(|| format!("user {name:?}"))?;
        // The first of several entries of one name counts.
        users.users.entry(name.to_owned()).or_insert(Arc::new(read));
    }
    let current = config.str_at(&["current-context"]).filter(|name| !name.is_empty());
    let context = current.and_then(|name| member(config, "contexts", "context", name).ok());
    users.current = context
        .and_then(|context| context.str_at(&["user"]))
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
    Ok(users)
}

fn fields(user: &Value, folder: &Path) -> Result<UserFields> {
    if user.get("exec").is_some() || user.get("auth-provider").is_some() {
        bail!("credentials from other programs are not supported");
    }
    let text = |name: &str| user.str_at(&[name]).filter(|text| !text.is_empty());
    let certificate = data(user, "client-certificate", folder)?;
    let basic = (text("username"), text("password"));
    Ok(UserFields {
        token: text("token").map(str::to_owned),
        token_file: text("tokenFile").map(|file| folder.join(file)),
        basic: (basic != (None, None)).then(|| {
            let [name, password] = [basic.0, basic.1].map(|part| part.unwrap_or_default().to_owned());
            (name, password)
        }),
        certificate: certificate.zip(data(user, "client-key", folder)?),
        impersonation: impersonation(user),
    })
}

/// Returns the headers of impersonation, if the user impersonates anyone.
fn impersonation(user: &Value) -> Vec<(String, String)> {
    let text = |name: &str| user.str_at(&[name]).filter(|text| !text.is_empty());
    let Some(name) = text("as") else {
        return Vec::new();
    };
    let mut headers = vec![("Impersonate-User".to_owned(), name.to_owned())];
    headers.extend(text("as-uid").map(|uid| ("Impersonate-Uid".to_owned(), uid.to_owned())));
    let groups = items(user, &["as-groups"]).iter().filter_map(Value::as_str);
    headers.extend(groups.map(|group| ("Impersonate-Group".to_owned(), group.to_owned())));
    let extra = user.get("as-user-extra").and_then(Value::as_map);
    for (key, values) in extra.into_iter().flatten() {
        let values = values.as_list().into_iter().flat_map(|values| values.iter());
        let name = format!("Impersonate-Extra-{key}");
        headers.extend(
            values
                .filter_map(Value::as_str)
                .map(|value| (name.clone(), value.to_owned())),
        );
    }
    headers
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn users(text: &str) -> Result<WebhookUsers> {
        from_config(&yaml::parse(text.as_bytes(), &Limits::REQUEST)?, Path::new("."))
    }

    #[test]
    fn kubeconfig_users_are_read_by_name() {
        let users = users(
            "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {user: other}}], users: \
             [{name: '*.svc', user: {token: a}}, {name: other, user: {username: u, password: p, as: x, as-groups: [g]}}]}",
        )
        .unwrap();
        assert_eq!(users.users.len(), 2);
        assert_eq!(users.current.as_deref(), Some("other"));
    }

    #[test]
    fn kubeconfig_user_with_program_is_rejected() {
        let error = users("{users: [{name: a, user: {exec: {command: x}}}]}").unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "user \"a\": credentials from other programs are not supported"
        );
    }
}
