//! Tokens of OpenID Connect issuers and of the token webhook, through the real binary.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::issuer::{TestIssuer, TokenKey};
use conformance::{Binary, Client, Server, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const JSON: &str = "application/json";

/// Time limit of anything that happens asynchronously.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a request with this token.
async fn ask(server: &Server, token: &str, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
    let target = Target::new(server).unwrap().with_token(token);
    let mut connection = target.connect().await.unwrap();
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let (status, answer) = connection.ask(method, path, JSON, body).await.unwrap();
    (status, serde_json::from_slice(&answer).unwrap_or_default())
}

/// Returns the user of a token as the server knows it.
async fn who(server: &Server, token: &str) -> Result<Value, StatusCode> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    match ask(server, token, Method::POST, WHO, &review).await {
        (StatusCode::CREATED, answer) => Ok(answer["status"]["userInfo"].clone()),
        (status, _) => Err(status),
    }
}

/// Waits until the server knows the user of a token.
async fn until_known(server: &Server, token: &str) -> Value {
    let end = Instant::now() + LIMIT;
    loop {
        match who(server, token).await {
            Ok(user) => return user,
            Err(status) => assert!(Instant::now() < end, "{status}: {}", server.log_tail()),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the status of a TokenReview by an administrator.
async fn review(client: &mut Client, token: &str, audiences: &[&str]) -> Value {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences}});
    let (status, answer) = client.ask(Method::POST, REVIEWS, JSON, review).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["status"].clone()
}

/// Returns an AuthenticationConfiguration of this issuer.
fn configuration(issuer: &TestIssuer, audience: &str, more: &str) -> String {
    let authority = issuer.authority.replace('\n', "\n      ");
    format!(
        "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {}\n    audiences: \
         [{audience}]\n    certificateAuthority: |\n      {authority}\n  claimMappings:\n    username: {{claim: sub, prefix: \
         'oidc:'}}\n    groups: {{expression: 'claims.roles.map(r, \"team-\" + r)'}}\n    uid: {{claim: oid}}\n    extra: [{{key: \
         example.org/tenant, valueExpression: claims.tenant}}]\n  claimValidationRules: [{{expression: 'claims.tenant != \"bad\"', \
         message: bad tenant}}]\n  userValidationRules: [{{expression: \"!user.username.startsWith('oidc:system:')\", message: \
         reserved}}]\n{more}",
        issuer.url
    )
}

/// Writes a file atomically and returns the flag for it.
fn write(folder: &Path, text: &str) -> String {
    let (file, next) = (folder.join("authentication.yaml"), folder.join("next"));
    fs::write(&next, text).unwrap();
    fs::rename(next, &file).unwrap();
    format!("--authentication-config={}", file.display())
}

/// Waits until the configuration was read again this number of times with that result.
async fn reloaded(client: &mut Client, status: &str, times: u32) {
    let name = "apiserver_authentication_config_controller_automatic_reloads_total";
    client.until_counted(name, status, times).await;
}

fn alice() -> Value {
    json!({"sub": "alice", "roles": ["a", "b"], "oid": "42", "tenant": "t", "jti": "one"})
}

#[tokio::test]
async fn token_of_issuer_names_user_by_claims() {
    let (issuer, folder, key) = (TestIssuer::start().await, TempDir::new().unwrap(), TokenKey::new("one"));
    let flag = write(folder.path(), &configuration(&issuer, "kubernetes", ""));
    let server = Server::start(&Binary::debug().unwrap(), &[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    let token = key.sign(&issuer.claims("kubernetes", 3600, &alice()));
    assert_eq!(who(&server, &token).await, Err(StatusCode::UNAUTHORIZED));
    let status = review(&mut client, &token, &[]).await;
    assert_eq!(
        status["error"],
        "[invalid bearer token, oidc: authenticator not initialized]"
    );

    issuer.publish(&[&key]);
    let user = until_known(&server, &token).await;
    assert_eq!(
        user,
        json!({"username": "oidc:alice", "uid": "42", "groups": ["team-a", "team-b", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=one"], "example.org/tenant": ["t"]}})
    );
    let status = review(&mut client, &token, &[]).await;
    assert_eq!(status["user"], user, "{status}");
    assert_eq!(status["audiences"], json!(["https://kubernetes.default.svc"]));
    let status = review(&mut client, &token, &["elsewhere"]).await;
    assert_eq!(
        (&status["authenticated"], &status["error"]),
        (&Value::Null, &json!("invalid bearer token"))
    );

    let mut other = alice();
    other["tenant"] = json!("bad");
    let mut reserved = alice();
    reserved["sub"] = json!("system:admin");
    for (claims, why) in [
        (
            issuer.claims("kubernetes", -10, &alice()),
            "oidc: verify token: oidc: token is expired",
        ),
        (
            issuer.claims("others", 3600, &alice()),
            "oidc: verify token: oidc: expected audience \"kubernetes\" got [\"others\"]",
        ),
        (issuer.claims("kubernetes", 3600, &other), "failed: bad tenant"),
        (issuer.claims("kubernetes", 3600, &reserved), "failed: reserved"),
        (
            issuer.claims("kubernetes", 3600, &json!({"sub": "alice"})),
            "oidc: error evaluating group claim expression",
        ),
    ] {
        let token = key.sign(&claims);
        assert_eq!(who(&server, &token).await, Err(StatusCode::UNAUTHORIZED), "{claims}");
        let status = review(&mut client, &token, &[]).await;
        assert!(status["error"].as_str().unwrap().contains(why), "{status}");
    }
    let forged = TokenKey::new("one").sign(&issuer.claims("kubernetes", 3600, &alice()));
    assert_eq!(who(&server, &forged).await, Err(StatusCode::UNAUTHORIZED));
    // Local tokens are still accepted, and do not ask the issuer.
    let asked = issuer.requests("/keys").len();
    assert_eq!(
        who(&server, conformance::USER_TOKEN).await.unwrap()["username"],
        "alice"
    );
    assert_eq!(issuer.requests("/keys").len(), asked);
}

#[tokio::test]
async fn rotated_keys_are_fetched_at_bounded_rate() {
    let (issuer, folder) = (TestIssuer::start().await, TempDir::new().unwrap());
    let (old, new) = (TokenKey::new("old"), TokenKey::new("new"));
    issuer.publish(&[&old]);
    let flag = write(folder.path(), &configuration(&issuer, "kubernetes", ""));
    let server = Server::start(&Binary::debug().unwrap(), &[&flag]).unwrap();
    let claims = issuer.claims("kubernetes", 3600, &alice());
    until_known(&server, &old.sign(&claims)).await;
    issuer.publish(&[&new]);
    until_known(&server, &new.sign(&claims)).await;
    // The old key is no longer trusted; its answer may be cached for ten seconds, that for other claims is not.
    let other = old.sign(&issuer.claims("kubernetes", 1800, &alice()));
    assert_eq!(who(&server, &other).await, Err(StatusCode::UNAUTHORIZED));

    let (before, begun) = (issuer.requests("/keys").len(), Instant::now());
    // The last fetch may have been just before.
    let mut lifetimes = 3600..;
    while begun.elapsed() < Duration::from_secs(2) {
        let claims = issuer.claims("kubernetes", lifetimes.next().unwrap(), &alice());
        let unknown = TokenKey::new("unknown").sign(&claims);
        assert_eq!(who(&server, &unknown).await, Err(StatusCode::UNAUTHORIZED));
    }
    let fetches = issuer.requests("/keys").len() - before;
    let allowed = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!(
        (1..=allowed).contains(&fetches),
        "{fetches} fetches, {allowed} are allowed"
    );
}

#[tokio::test]
async fn changed_configuration_is_used_unless_it_is_invalid() {
    let (issuer, folder, key) = (TestIssuer::start().await, TempDir::new().unwrap(), TokenKey::new("one"));
    issuer.publish(&[&key]);
    let flag = write(folder.path(), &configuration(&issuer, "first", ""));
    let server = Server::start(&Binary::debug().unwrap(), &[&flag]).unwrap();
    let mut client = Client::new(&server).await;
    let token = |audience: &str, seconds: i64| key.sign(&issuer.claims(audience, seconds, &alice()));
    until_known(&server, &token("first", 3600)).await;

    for (times, broken) in [
        "jwt: {",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{issuer: {uri: x}}]",
        &configuration(&issuer, "first", "anonymous: {enabled: true}"),
        &configuration(&issuer, "''", ""),
    ]
    .iter()
    .enumerate()
    {
        write(folder.path(), broken);
        reloaded(&mut client, "failure", u32::try_from(times).unwrap() + 1).await;
        let valid = 3000 + i64::try_from(times).unwrap();
        assert!(who(&server, &token("first", valid)).await.is_ok(), "{broken}");
    }
    server.until_logged(&["the old one stays"]).await.unwrap();

    write(folder.path(), &configuration(&issuer, "second", ""));
    reloaded(&mut client, "success", 1).await;
    assert_eq!(
        who(&server, &token("second", 3600)).await.unwrap()["username"],
        "oidc:alice"
    );
    assert_eq!(who(&server, &token("first", 2000)).await, Err(StatusCode::UNAUTHORIZED));
    let (_, text) = client.get("/metrics").await;
    for name in [
        "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds{",
        "apiserver_authentication_config_controller_last_config_info{",
        "apiserver_authentication_jwt_authenticator_latency_seconds_count{",
        "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds{",
        "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info{",
    ] {
        assert!(text.as_str().unwrap().contains(name), "{name}");
    }
}

#[tokio::test]
async fn invalid_configuration_ends_the_start() {
    let (issuer, folder, binary) = (
        TestIssuer::start().await,
        TempDir::new().unwrap(),
        Binary::debug().unwrap(),
    );
    let good = configuration(&issuer, "x", "");
    for (text, why) in [
        ("", "empty config data"),
        (
            &good.replace("sub, prefix", "sub, prefixes"),
            "strict decoding error: unknown field \"jwt[0].claimMappings.username.prefixes\"",
        ),
        (
            &good.replace("https://127", "http://127"),
            "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"http://127",
        ),
        (
            &good.replace("claims.roles.map", "claim.roles.map"),
            "undeclared reference to 'claim'",
        ),
        (
            &good.replace("    audiences", "    egressSelectorType: cluster\n    audiences"),
            "oidc: egress lookup required with egress selector type \"cluster\"",
        ),
    ] {
        let rejection = binary.rejection(&[write(folder.path(), text)]).unwrap();
        assert!(rejection.contains(why), "{rejection}");
    }
    let flag = write(folder.path(), &good);
    for (flags, why) in [
        (
            &[flag.as_str(), "--oidc-issuer-url=https://a"][..],
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (
            &["--oidc-issuer-url=https://a"],
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
        ),
        (&["--authentication-config=/nowhere"], "/nowhere"),
        (&["--authentication-token-webhook-config-file=/nowhere"], "/nowhere"),
    ] {
        let rejection = binary.rejection(flags).unwrap();
        assert!(rejection.contains(why), "{rejection}");
    }
}

#[tokio::test]
async fn oidc_flags_configure_one_issuer() {
    let (issuer, folder, key) = (TestIssuer::start().await, TempDir::new().unwrap(), TokenKey::new("one"));
    issuer.publish(&[&key]);
    let authority = folder.path().join("ca.crt");
    fs::write(&authority, &issuer.authority).unwrap();
    let owned = [
        format!("--oidc-issuer-url={}", issuer.url),
        "--oidc-client-id=kubectl".to_owned(),
        format!("--oidc-ca-file={}", authority.display()),
        "--oidc-groups-claim=roles".to_owned(),
        "--oidc-groups-prefix=oidc:".to_owned(),
        "--oidc-required-claim=tenant=t".to_owned(),
    ];
    let flags: Vec<&str> = owned.iter().map(String::as_str).collect();
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let user = until_known(&server, &key.sign(&issuer.claims("kubectl", 3600, &alice()))).await;
    assert_eq!(user["username"], format!("{}#alice", issuer.url));
    assert_eq!(user["groups"], json!(["oidc:a", "oidc:b", "system:authenticated"]));
    let other = key.sign(&issuer.claims("kubectl", 3600, &json!({"sub": "bob", "tenant": "u"})));
    assert_eq!(who(&server, &other).await, Err(StatusCode::UNAUTHORIZED));
}

#[tokio::test]
async fn anonymous_requests_are_limited_to_paths() {
    let folder = TempDir::new().unwrap();
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: \
                [{path: /livez}]}\n";
    let flag = write(folder.path(), text);
    let binary = Binary::debug().unwrap();
    let rejection = binary.rejection(&[flag.as_str(), "--anonymous-auth=true"]).unwrap();
    let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured";
    assert!(rejection.contains(why), "{rejection}");
    let server = Server::start(&binary, &[&flag]).unwrap();
    let mut anonymous = Target::new(&server).unwrap().anonymous().connect().await.unwrap();
    for (path, expected) in [
        ("/livez", StatusCode::OK),
        ("/readyz", StatusCode::UNAUTHORIZED),
        ("/version", StatusCode::UNAUTHORIZED),
    ] {
        let (status, _) = anonymous.ask(Method::GET, path, JSON, Bytes::new()).await.unwrap();
        assert_eq!(status, expected, "{path}");
    }
}

#[tokio::test]
async fn webhook_reviews_unknown_tokens() {
    let (hook, folder) = (TestIssuer::start().await, TempDir::new().unwrap());
    let kubeconfig = folder.path().join("webhook.yaml");
    fs::write(folder.path().join("ca.crt"), &hook.authority).unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: w\ncontexts: [{{name: w, context: {{cluster: w, user: u}}}}]\nclusters: \
         [{{name: w, cluster: {{server: '{}/review', certificate-authority: ca.crt}}}}]\nusers: [{{name: u, user: {{token: \
         secret}}}}]\n",
        hook.url
    );
    fs::write(&kubeconfig, text).unwrap();
    let answer = |status: Value| {
        let answer = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status});
        hook.serve("/review", 200, &answer);
    };
    answer(
        json!({"authenticated": true, "user": {"username": "ann", "uid": "7", "groups": ["devs"], "extra": {"a": ["b"]}}}),
    );
    let owned = [
        format!("--authentication-token-webhook-config-file={}", kubeconfig.display()),
        "--authentication-token-webhook-version=v1".to_owned(),
        "--api-audiences=one,two".to_owned(),
    ];
    let flags: Vec<&str> = owned.iter().map(String::as_str).collect();
    let server = Server::start(&Binary::debug().unwrap(), &flags).unwrap();
    let mut client = Client::new(&server).await;
    let expected =
        json!({"username": "ann", "uid": "7", "groups": ["devs", "system:authenticated"], "extra": {"a": ["b"]}});
    for _ in 0..3 {
        assert_eq!(who(&server, "opaque").await.unwrap(), expected);
    }
    let calls = hook.requests("/review");
    assert_eq!(calls.len(), 1, "answers are cached");
    assert_eq!(
        calls[0]["spec"],
        json!({"token": "opaque", "audiences": ["one", "two"]})
    );
    let status = review(&mut client, "opaque", &["two", "three"]).await;
    assert_eq!((&status["user"], &status["audiences"]), (&expected, &json!(["two"])));
    assert_eq!(
        who(&server, conformance::USER_TOKEN).await.unwrap()["username"],
        "alice"
    );
    assert_eq!(hook.requests("/review").len(), 2, "local tokens are not reviewed");

    answer(json!({"authenticated": false, "error": "no such token"}));
    assert_eq!(who(&server, "wrong").await, Err(StatusCode::UNAUTHORIZED));
    let status = review(&mut client, "wrong", &[]).await;
    assert_eq!(status["error"], "[invalid bearer token, no such token]");

    hook.serve("/review", 500, &json!({}));
    let before = hook.requests("/review").len();
    let waiting = who(&server, "later");
    let recovery = async {
        while hook.requests("/review").len() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        answer(json!({"authenticated": true, "user": {"username": "ann"}}));
    };
    let (outcome, ()) = tokio::join!(waiting, recovery);
    assert_eq!(outcome.unwrap()["username"], "ann", "the review is repeated");
}
