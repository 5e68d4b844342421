//! Priority and fairness through the real binary: shares, levels that are followed, objects that are kept.

use std::time::Duration;

use conformance::hog::{LEVELS, SCHEMAS, figures, load, server, token};
use conformance::{Binary, Client, MERGE, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hog_gets_no_more_than_its_share() {
    const COUNTED: usize = 60;
    let (server, mut client) = server(
        &Binary::debug().unwrap(),
        &[
            "--max-requests-inflight=1",
            "--max-mutating-requests-inflight=1",
            // A request is queued for a quarter of that.
            "--request-timeout=10m",
        ],
    )
    .await;
    let target = Target::new(&server).unwrap();
    let hog = target.clone().with_token(token(&mut client, "hog").await);
    let quiet = target.clone().with_token(token(&mut client, "quiet").await);
    let (mut tasks, (sender, mut answers)) = (JoinSet::new(), unbounded_channel());
    load(&hog, 40, "hog", &mut tasks, &sender).await;
    load(&quiet, 4, "quiet", &mut tasks, &sender).await;
    // Both users are active before the measurement.
    let (mut of_hog, mut of_quiet) = (0, 0);
    while of_hog < 10 || of_quiet < 10 {
        match answers.recv().await.unwrap() {
            ("hog", _) => of_hog += 1,
            _ => of_quiet += 1,
        }
    }
    (of_hog, of_quiet) = (0, 0);
    while of_quiet < COUNTED {
        let (user, status) = answers.recv().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{user}");
        match user {
            "hog" => of_hog += 1,
            _ => of_quiet += 1,
        }
    }
    tasks.abort_all();
    // With one queue for all, the other user's ten connections would get ten responses for each of this one.
    assert!(
        of_hog < 2 * COUNTED,
        "the hog got {of_hog} answers while the other got {COUNTED}"
    );
}

#[tokio::test]
async fn levels_may_be_switched_off() {
    let off = ["--enable-priority-and-fairness=false"];
    let server = Server::start(&Binary::debug().unwrap(), &off).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let answer = connection.get("/readyz?verbose", "*/*").await.unwrap();
    assert!(!answer.headers().contains_key("x-kubernetes-pf-flowschema-uid"));
    let text = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(text.contains("[+]poststarthook/max-in-flight-filter ok"), "{text}");
    assert!(!text.contains("priority-and-fairness-filter"), "{text}");
    drop(connection);
    let server = server.restart(&[]).unwrap();
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let answer = connection.get("/version", "*/*").await.unwrap();
    assert_eq!(answer.headers()["x-kubernetes-pf-flowschema-uid"].len(), 36);
    assert_eq!(answer.headers()["x-kubernetes-pf-prioritylevel-uid"].len(), 36);
}

#[tokio::test]
async fn mandatory_and_suggested_objects_are_restored_at_the_start() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    let (low, system) = (format!("{LEVELS}/workload-low"), format!("{LEVELS}/system"));
    let shares = |shares: i64| json!({"spec": {"limited": {"nominalConcurrencyShares": shares}}});
    let change = async |client: &mut Client, path: &str, change: Value| {
        assert_eq!(client.ask(Method::PATCH, path, MERGE, change).await.0, StatusCode::OK);
    };
    change(&mut client, &low, shares(7)).await;
    let own = json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}});
    change(&mut client, &system, own).await;
    change(&mut client, &system, shares(7)).await;
    client.delete(&format!("{SCHEMAS}/probes"), Value::Null).await;
    let obsolete = json!({
        "metadata": {"name": "obsolete", "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": {"priorityLevelConfiguration": {"name": "nowhere"}},
    });
    client.make(SCHEMAS, obsolete).await;
    let server = server.restart(&[]).unwrap();
    let mut client = Client::new(&server).await;
    let is = |expected: i64| {
        move |_: StatusCode, level: &Value| level["spec"]["limited"]["nominalConcurrencyShares"] == expected
    };
    client.until(&low, is(100)).await;
    client.until(&system, is(7)).await;
    client
        .until(&format!("{SCHEMAS}/probes"), |status, _| status == StatusCode::OK)
        .await;
    client.until_gone(&format!("{SCHEMAS}/obsolete")).await;
    let probes = client.get(&format!("{SCHEMAS}/probes")).await.1;
    let manager = &probes["metadata"]["managedFields"].as_array().unwrap().iter();
    let managers: Vec<&str> = manager.clone().filter_map(|entry| entry["manager"].as_str()).collect();
    assert!(
        managers.contains(&"api-priority-and-fairness-config-producer-v1"),
        "{managers:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures times: run it on a machine that has nothing else to do, and read what it prints"]
async fn figures_of_a_quiet_user_beside_a_hog() {
    let figures = figures(&Binary::debug().unwrap(), 1000, 60).await;
    let at = |times: &[Duration], part: usize| times[times.len() * part / 100 - 1];
    for (name, times) in [("idle", &figures.idle), ("beside a hog", &figures.beside)] {
        eprintln!("{name}: p50 {:?}, p99 {:?}", at(times, 50), at(times, 99));
    }
    eprintln!("hog: {} served, {} refused", figures.served, figures.rejected);
}
