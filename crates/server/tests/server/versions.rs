//! Resource versions of reads: the table of their semantics, chunks and continue tokens, and versions that are too old
//! or in the future (<https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>).

use std::time::Duration;

use crate::support::{Answer, CONFIG_MAPS, MERGE, Server, config_map};
use holdfast_store::HistoryLimits;

const FUTURE: &str = "9000000000000000000";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn names(list: &Answer) -> Vec<&str> {
    assert_eq!(list.code, 200, "{}", list.message());
    let items = list.at("/items").as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

async fn list(server: &Server, query: &str) -> Answer {
    server.get(&format!("{CONFIG_MAPS}?{query}")).await
}

/// Creates the objects, each of which the next changes; returns the version of the list after the first.
async fn make(server: &Server, names: &[&str]) -> String {
    let mut version = String::new();
    for name in names {
        let made = server.post(CONFIG_MAPS, &config_map(name, "1")).await;
        assert_eq!(made.code, 201, "{}", made.message());
        if version.is_empty() {
            version = made.version().to_owned();
        }
    }
    version
}

fn token(list: &Answer) -> String {
    list.at("/metadata/continue").as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn lists_show_the_state_that_version_and_rule_name() {
    let server = Server::start().await;
    let first = make(&server, &["a", "b", "c"]).await;
    let exact = list(&server, &format!("resourceVersion={first}&resourceVersionMatch=Exact")).await;
    assert_eq!((names(&exact), exact.version()), (vec!["a"], first.as_str()));
    let chunk = list(&server, &format!("resourceVersion={first}&limit=5")).await;
    assert_eq!((names(&chunk), chunk.version()), (vec!["a"], first.as_str()));
    let cases = [
        format!("resourceVersion={first}"),
        format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan&limit=5"),
        "resourceVersion=0".to_owned(),
        "resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(),
        // Any version is answered as from a watch cache, which does not support chunks.
        "resourceVersion=0&limit=1".to_owned(),
        "resourceVersionMatch=".to_owned(),
        String::new(),
    ];
    for query in cases {
        assert_eq!(names(&list(&server, &query).await), ["a", "b", "c"], "{query}");
    }
}

#[tokio::test]
async fn combinations_that_say_nothing_are_refused() {
    let server = Server::start().await;
    let version = make(&server, &["a", "b"]).await;
    let next = token(&list(&server, "limit=1").await);
    let cases = [
        ("resourceVersionMatch=Exact".to_owned(), 422),
        ("resourceVersionMatch=NotOlderThan&limit=1".to_owned(), 422),
        ("resourceVersionMatch=Exact&resourceVersion=0".to_owned(), 422),
        (format!("resourceVersionMatch=Nearly&resourceVersion={version}"), 422),
        (
            format!("continue={next}&resourceVersionMatch=Exact&resourceVersion={version}"),
            422,
        ),
        (format!("continue={next}&resourceVersion={version}"), 400),
        ("sendInitialEvents=true".to_owned(), 422),
    ];
    for (query, code) in cases {
        assert_eq!(list(&server, &query).await.code, code, "{query}");
    }
}

#[tokio::test]
async fn each_verb_rejects_non_numeric_versions_with_its_message() {
    let server = Server::start().await;
    let why = |text: &str, why: &str| {
        format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": {why}")
    };
    for (text, problem) in [
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("99999999999999999999", "value out of range"),
    ] {
        let refused = list(&server, &format!("resourceVersion={text}")).await;
        let expected = format!("invalid resource version: {}", why(text, problem));
        assert_eq!((refused.code, refused.message()), (400, expected.as_str()));
        for path in [
            format!("{CONFIG_MAPS}/a?resourceVersion={text}"),
            format!("{CONFIG_MAPS}?watch=1&resourceVersion={text}"),
        ] {
            let refused = server.get(&path).await;
            assert_eq!((refused.code, refused.message()), (500, why(text, problem).as_str()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn future_version_is_awaited_until_timeout() {
    let server = Server::start().await;
    for path in [
        format!("{CONFIG_MAPS}?resourceVersion={FUTURE}"),
        format!("{CONFIG_MAPS}?resourceVersion={FUTURE}&resourceVersionMatch=Exact"),
        format!("{CONFIG_MAPS}?resourceVersion={FUTURE}&limit=1"),
        format!("{CONFIG_MAPS}/a?resourceVersion={FUTURE}"),
    ] {
        let refused = server.get(&path).await;
        assert_eq!(
            (refused.code, refused.headers["retry-after"].to_str().unwrap()),
            (504, "1")
        );
        let message = refused.message();
        assert!(
            message.starts_with(&format!("Timeout: Too large resource version: {FUTURE}, current: ")),
            "{message}"
        );
        assert_eq!(refused.at("/details/causes/0/reason"), "ResourceVersionTooLarge");
    }
}

#[tokio::test]
async fn versions_before_the_history_are_gone() {
    let server = Server::start().await;
    for query in [
        "resourceVersion=1&resourceVersionMatch=Exact",
        "resourceVersion=1&limit=1",
    ] {
        let gone = list(&server, query).await;
        assert_eq!((gone.code, gone.at("/reason").as_str().unwrap()), (410, "Expired"));
        assert_eq!(gone.message(), "The resourceVersion for the provided list is too old.");
    }
    assert_eq!(list(&server, "resourceVersion=1").await.code, 200);
    for accept in ["application/json", TABLE] {
        let mut watch = server
            .watch_as(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1"), accept)
            .await;
        let (_, error) = watch.next().await.unwrap();
        assert_eq!(
            (error["type"].as_str().unwrap(), error["object"]["code"].as_i64()),
            ("ERROR", Some(410))
        );
        let message = error["object"]["message"].as_str().unwrap();
        assert!(message.starts_with("too old resource version: 1 ("), "{message}");
        assert!(watch.next().await.is_none());
    }
}

#[tokio::test]
async fn chunks_make_up_the_list_however_they_are_shown() {
    let server = Server::start().await;
    make(&server, &["a", "b", "c", "d", "e"]).await;
    for (accept, items, name) in [
        ("application/json", "/items", "/metadata/name"),
        (PARTIAL, "/items", "/metadata/name"),
        (TABLE, "/rows", "/object/metadata/name"),
    ] {
        let (mut seen, mut left, mut next) = (Vec::new(), Vec::new(), String::new());
        loop {
            let page = server
                .get_as(&format!("{CONFIG_MAPS}?limit=2&continue={next}"), accept)
                .await;
            for item in page.at(items).as_array().unwrap() {
                seen.push(item.pointer(name).unwrap().as_str().unwrap().to_owned());
            }
            left.push(page.at("/metadata/remainingItemCount").as_i64());
            next = token(&page);
            if next.is_empty() {
                break;
            }
            // Changes between two chunks are not visible.
            server
                .post(CONFIG_MAPS, &config_map(&format!("z{}", seen.len()), "1"))
                .await;
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e"], "{accept}");
        assert_eq!(left, [Some(3), Some(1), None], "{accept}");
        for made in ["z2", "z4"] {
            server.delete(&format!("{CONFIG_MAPS}/{made}")).await;
        }
    }
}

#[tokio::test]
async fn selected_lists_have_chunks_without_a_count() {
    let server = Server::start().await;
    make(&server, &["a", "b", "c"]).await;
    let first = list(&server, "limit=1&fieldSelector=metadata.name!%3Db").await;
    assert_eq!(names(&first), ["a"]);
    assert!(first.at("/metadata/remainingItemCount").is_null());
    let rest = list(
        &server,
        &format!("limit=5&fieldSelector=metadata.name!%3Db&continue={}", token(&first)),
    )
    .await;
    assert_eq!(names(&rest), ["c"]);
    // The server cannot know in advance if objects after a chunk are selected; only the next chunk shows it.
    let others = "fieldSelector=metadata.name!%3Dc";
    let full = list(&server, &format!("limit=2&{others}")).await;
    assert_eq!(names(&full), ["a", "b"]);
    let none = list(&server, &format!("limit=2&{others}&continue={}", token(&full))).await;
    assert_eq!((names(&none), token(&none)), (Vec::new(), String::new()));
    let named = list(&server, "limit=1&fieldSelector=metadata.name%3Db").await;
    assert_eq!((names(&named), token(&named)), (vec!["b"], String::new()));
}

#[tokio::test]
async fn continue_token_is_only_valid_within_its_list() {
    let server = Server::start().await;
    make(&server, &["a", "b"]).await;
    let next = token(&list(&server, "limit=1").await);
    let secrets = "/api/v1/namespaces/default/secrets";
    let elsewhere = server.get(&format!("{secrets}?continue={next}")).await;
    assert_eq!(names(&elsewhere), [""; 0]);
    let other_namespace = server
        .get(&format!("/api/v1/namespaces/other/configmaps?continue={next}"))
        .await;
    assert_eq!(names(&other_namespace), [""; 0]);
    // {"v":"meta.k8s.io/v1","rv":5,"start":"../../secrets/default/a"}
    let climbing = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi8uLi9zZWNyZXRzL2RlZmF1bHQvYSJ9";
    let refused = list(&server, &format!("continue={climbing}")).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            400,
            "invalid continue token: continue key is not valid: ../../secrets/default/a"
        )
    );
}

#[tokio::test]
async fn a_list_that_expired_offers_to_go_on_with_what_is_there_now() {
    let limits = HistoryLimits {
        age: Duration::from_secs(300),
        bytes: 1,
    };
    let server = Server::start_with(limits).await;
    make(&server, &["a", "b", "c"]).await;
    let first = list(&server, "limit=1").await;
    // The history has no capacity: each write discards the previous state.
    for value in ["2", "3", "4"] {
        let patch = format!(r#"{{"data":{{"k":"{value}"}}}}"#);
        server.patch(&format!("{CONFIG_MAPS}/c"), MERGE, &patch).await;
    }
    server.delete(&format!("{CONFIG_MAPS}/b")).await;
    make(&server, &["d"]).await;
    let expired = list(&server, &format!("limit=1&continue={}", token(&first))).await;
    assert_eq!(
        (expired.code, expired.at("/reason").as_str().unwrap()),
        (410, "Expired")
    );
    assert!(expired.message().contains("or use the continue token in this response"));
    let rest = list(&server, &format!("limit=1&continue={}", token(&expired))).await;
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(rest.at("/items/0/data/k"), "4");
    assert_eq!(rest.at("/metadata/remainingItemCount"), 1);
    assert_ne!(rest.version(), first.version());
}
