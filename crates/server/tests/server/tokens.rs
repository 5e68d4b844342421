//! Service account tokens: creation, authentication, and rejection once the objects that they reference are deleted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use holdfast_resource::access::{BoundObject, ServiceAccountToken, TokenAuthenticator, TokenError, TokenIssuer};
use holdfast_server::identity::{
    AccountsContext, Keys, ServiceAccounts, Signer, SigningKey, TokenConfig, VerifyingKey,
};
use holdfast_server::objects::{Objects, Store};
use holdfast_server::runtime::{Clock, RandomIdentifiers};
use holdfast_store::Transaction;
use parking_lot::Mutex;
use rcgen::{KeyPair, PublicKeyData as _};
use smol_str::SmolStr;

const KEY: &str = "/registry/serviceaccounts/default/robot";

struct Hand(Mutex<SystemTime>);

impl Clock for Hand {
    fn now(&self) -> SystemTime {
        *self.0.lock()
    }
}

struct World {
    accounts: ServiceAccounts,
    store: Arc<Store>,
    clock: Arc<Hand>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(key: &KeyPair) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let built_in = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        let registry = Arc::new(ArcSwap::from_pointee(built_in));
        let config = holdfast_store::Config::new(folder.path());
        let store = Arc::new(Store::open(config, Objects::new(Arc::clone(&registry))).unwrap());
        let clock = Arc::new(Hand(Mutex::new(
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        )));
        let public = VerifyingKey::from_der(&key.subject_public_key_info()).unwrap();
        let signing = SigningKey::from_pem(key.serialize_pem().as_bytes(), &public).unwrap();
        let config = TokenConfig {
            issuers: vec!["https://me".to_owned()],
            audiences: vec![SmolStr::new_static("https://me")],
            longest: None,
            extended_life: None,
        };
        let surroundings = AccountsContext {
            registry,
            store: Arc::clone(&store),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            identifiers: Arc::new(RandomIdentifiers::default()),
        };
        let world = Self {
            accounts: ServiceAccounts::new(config, Signer::Key(signing), Keys::new([public]).into(), surroundings),
            store,
            clock,
            _folder: folder,
        };
        world.put_account("u").await;
        world
    }

    async fn put_account(&self, uid: &str) {
        let text = format!(
            r#"{{"kind":"ServiceAccount","apiVersion":"v1","metadata":{{"name":"robot","namespace":"default","uid":"{uid}"}}}}"#
        );
        let transaction = Transaction::new().put(KEY, holdfast_store::Value::plain(text.into_bytes()));
        self.store.commit(transaction).await.unwrap();
    }

    fn token(&self, audience: &'static str) -> String {
        let audiences = [SmolStr::new_static(audience)];
        let token = ServiceAccountToken {
            namespace: "default",
            account: BoundObject {
                name: "robot".to_owned(),
                uid: "u".to_owned(),
            },
            audiences: &audiences,
            now: self.clock.now(),
            seconds: 600,
            warn_after: Some(300),
            pod: None,
            node: None,
            secret: None,
        };
        self.accounts.issue(&token).unwrap().token
    }

    fn refused(&self, token: &str) -> String {
        match self.accounts.authenticate(token, &[]) {
            Err(TokenError::Refused(why)) => why,
            other => format!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_token_makes_the_user_that_the_account_is() {
    let world = World::new(&KeyPair::generate().unwrap()).await;
    let known = world.accounts.authenticate(&world.token("https://me"), &[]).unwrap();
    assert_eq!(known.user.name, "system:serviceaccount:default:robot");
    assert_eq!(known.user.uid, "u");
    assert_eq!(
        known.user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ]
    );
    assert_eq!(known.user.extra[0].0, "authentication.kubernetes.io/credential-id");
    assert_eq!(known.audiences, ["https://me"]);
}

#[tokio::test]
async fn stale_token_use_is_annotated_in_the_audit_log() {
    let world = World::new(&KeyPair::generate().unwrap()).await;
    let token = world.token("https://me");
    let reported = || world.accounts.authenticate(&token, &[]).unwrap().annotations;
    assert_eq!(reported(), []);
    *world.clock.0.lock() += Duration::from_secs(400);
    let why = "subject: system:serviceaccount:default:robot, seconds after warning threshold: 100";
    assert_eq!(reported(), [("authentication.k8s.io/stale-token", why.to_owned())]);
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_with_its_account() {
    let world = World::new(&KeyPair::generate().unwrap()).await;
    let token = world.token("https://me");
    assert!(world.accounts.authenticate(&token, &[]).is_ok());
    world.put_account("another").await;
    assert_eq!(
        world.refused(&token),
        "service account UID (another) does not match claim (u)"
    );
    world.store.commit(Transaction::new().delete(KEY)).await.unwrap();
    assert_eq!(world.refused(&token), "serviceaccounts \"robot\" not found");
    world.put_account("u").await;
    assert!(world.accounts.authenticate(&token, &[]).is_ok());
    *world.clock.0.lock() += Duration::from_secs(700);
    assert_eq!(world.refused(&token), "service account token has expired");
}

#[tokio::test]
async fn a_token_of_another_key_or_for_another_audience_is_refused() {
    let (world, other) = (
        World::new(&KeyPair::generate().unwrap()).await,
        World::new(&KeyPair::generate().unwrap()).await,
    );
    assert_eq!(world.refused(&other.token("https://me")), "failed to verify signature");
    let token = world.token("somebody");
    assert!(
        world
            .refused(&token)
            .contains("token audiences [\"somebody\"] is invalid")
    );
    let for_somebody = world.accounts.authenticate(&token, &["somebody", "nobody"]).unwrap();
    assert_eq!(for_somebody.audiences, ["somebody"]);
    assert_eq!(
        world.accounts.authenticate("no.token.atall", &[]),
        Err(TokenError::Unknown)
    );
    let (body, _) = token.rsplit_once('.').unwrap();
    assert_eq!(world.refused(&format!("{body}.AAAA")), "failed to verify signature");
}
