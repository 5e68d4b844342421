//! Watches over real connections: going on after a break, readers that do not read, and many at once.

use bytes::Bytes;
use conformance::{Binary, Connection, Server, Target};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

const PATH: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

/// The events of a watch.
struct Events {
    body: Incoming,
    text: Vec<u8>,
}

impl From<http::Response<Incoming>> for Events {
    fn from(answer: http::Response<Incoming>) -> Self {
        assert_eq!(answer.status(), 200);
        Self {
            body: answer.into_body(),
            text: Vec::new(),
        }
    }
}

impl Events {
    async fn next(&mut self) -> Value {
        let end = loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            let frame = self.body.frame().await.unwrap().unwrap();
            self.text.extend_from_slice(&frame.into_data().unwrap());
        };
        let line: Vec<u8> = self.text.drain(..=end).collect();
        serde_json::from_slice(&line).unwrap()
    }

    /// Returns the values of the next objects.
    async fn values(&mut self, count: usize) -> Vec<String> {
        let mut values = Vec::new();
        for _ in 0..count {
            let event = self.next().await;
            values.push(event["object"]["data"]["value"].as_str().unwrap().to_owned());
        }
        values
    }
}

/// Creates or changes the object, whose version is returned.
async fn write(connection: &mut Connection, value: &str, more: &str) -> String {
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"value": value, "more": more}
    });
    let path = format!("{PATH}/a?fieldManager=test&force=true");
    let body = Bytes::from(object.to_string());
    let bytes = connection
        .send(Method::PATCH, &path, "application/apply-patch+yaml", body)
        .await
        .unwrap();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    answer["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_watch_goes_on_where_it_broke_off_even_across_a_crash() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut writer = Target::new(&server).unwrap().connect().await.unwrap();
    let first = write(&mut writer, "1", "").await;
    for value in ["2", "3"] {
        write(&mut writer, value, "").await;
    }
    let server = server.kill_and_restart(&[]).unwrap();
    let target = Target::new(&server).unwrap();
    let mut watcher = target.connect().await.unwrap();
    let path = format!("{PATH}?watch=1&resourceVersion={first}");
    let mut events = Events::from(watcher.get(&path, JSON).await.unwrap());
    assert_eq!(events.values(2).await, ["2", "3"]);
    write(&mut target.connect().await.unwrap(), "4", "").await;
    assert_eq!(events.values(1).await, ["4"]);
}

#[tokio::test]
async fn idle_watcher_delays_no_other_and_misses_no_event() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let mut writer = target.connect().await.unwrap();
    let version = write(&mut writer, "0", "").await;
    let path = format!("{PATH}?watch=1&resourceVersion={version}");
    let (mut slow, mut quick) = (target.connect().await.unwrap(), target.connect().await.unwrap());
    let mut slow = Events::from(slow.get(&path, JSON).await.unwrap());
    let mut quick = Events::from(quick.get(&path, JSON).await.unwrap());
    // This is more than the buffers between server and client can hold.
    let large = "x".repeat(500_000);
    let expected: Vec<String> = (1..=60).map(|number| number.to_string()).collect();
    for value in &expected {
        write(&mut writer, value, &large).await;
        assert_eq!(quick.values(1).await, [value.as_str()]);
    }
    assert_eq!(slow.values(60).await, expected);
}

#[tokio::test]
async fn a_thousand_watches_share_a_few_connections_and_little_memory() {
    const WATCHES: usize = 1_000;
    // Other controllers create ConfigMaps, too.
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let mut writer = target.connect().await.unwrap();
    let version = write(&mut writer, "0", "").await;
    let before = server.memory().unwrap();
    let (mut connections, mut watches) = (Vec::new(), Vec::new());
    for number in 0..WATCHES {
        if number % 200 == 0 {
            connections.push(target.connect_http2().await.unwrap());
        }
        let connection = connections.last_mut().unwrap();
        let path = format!("{PATH}?watch=1&resourceVersion={version}");
        watches.push(Events::from(connection.get(&path, JSON).await.unwrap()));
    }
    let each = server.memory().unwrap().saturating_sub(before) / WATCHES as u64;
    assert!(each < 40_000, "{each} bytes a watch");
    write(&mut writer, "1", "").await;
    for watch in &mut watches {
        assert_eq!(watch.values(1).await, ["1"]);
    }
}
