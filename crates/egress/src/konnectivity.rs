//! The protocol of konnectivity: a stream of packets over gRPC for each connection
//! (<https://github.com/kubernetes-sigs/apiserver-network-proxy>).

use holdfast_grpc::{Client, Responses};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::mpsc::{Sender, channel};

use crate::dialer::{DialError, ProxiedStream, Stage};

/// Number of bytes that wait in each direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum size of the data in one packet.
const MAX_DATA_BYTES: usize = 16 * 1024;

/// Number of packets that wait for the proxy.
const QUEUED_PACKETS: usize = 4;

const METHOD: &str = "/ProxyService/Proxy";

/// Types of packets.
const DIAL_REQUEST: i32 = 0;
const CLOSE_REQUEST: i32 = 2;
const DATA: i32 = 4;

#[derive(Clone, PartialEq, prost::Message)]
struct Packet {
    #[prost(int32, tag = "1")]
    r#type: i32,
    #[prost(oneof = "Payload", tags = "2, 3, 4, 5, 6, 7")]
    payload: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Payload {
    #[prost(message, tag = "2")]
    DialRequest(DialRequest),
    #[prost(message, tag = "3")]
    DialResponse(DialResponse),
    #[prost(message, tag = "4")]
    Data(Data),
    #[prost(message, tag = "5")]
    CloseRequest(CloseRequest),
    #[prost(message, tag = "6")]
    CloseResponse(CloseResponse),
    #[prost(message, tag = "7")]
    CloseDial(CloseDial),
}

#[derive(Clone, PartialEq, prost::Message)]
struct DialRequest {
    #[prost(string, tag = "1")]
    protocol: String,
    #[prost(string, tag = "2")]
    address: String,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DialResponse {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    connection: i64,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Data {
    #[prost(int64, tag = "1")]
    connection: i64,
    #[prost(string, tag = "2")]
    error: String,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct CloseRequest {
    #[prost(int64, tag = "1")]
    connection: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CloseResponse {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    connection: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct CloseDial {
    #[prost(int64, tag = "1")]
    random: i64,
}

/// Connects to `address` through the proxy on `socket`. Each connection has a stream of its own.
pub(crate) async fn tunnel(socket: &str, address: &str, stage: &mut Stage) -> Result<ProxiedStream, DialError> {
    let (packets, queue) = channel(QUEUED_PACKETS);
    let requests = futures_util::stream::unfold(queue, |mut queue| async move {
        let packet: Packet = queue.recv().await?;
        Some((packet, queue))
    });
    let random = random();
    let request = Packet {
        r#type: DIAL_REQUEST,
        payload: Some(Payload::DialRequest(DialRequest {
            protocol: "tcp".to_owned(),
            address: address.to_owned(),
            random,
        })),
    };
    let closed = || DialError("tunnel is closed".to_owned());
    packets.send(request).await.map_err(|_| closed())?;
    let opened = Client::on_socket(socket).stream(METHOD, requests).await;
    let mut responses: Responses<Packet> = opened.map_err(|error| DialError(error.to_string()))?;
    *stage = Stage::Proxy;
    let connection = loop {
        let packet = responses.next().await.map_err(|error| DialError(error.to_string()))?;
        match packet.ok_or_else(closed)?.payload {
            Some(Payload::DialResponse(response)) if response.random == random => {
                if !response.error.is_empty() {
                    return Err(DialError(response.error));
                }
                break response.connection;
            }
            Some(Payload::CloseDial(close)) if close.random == random => {
                return Err(DialError("dial closed".to_owned()));
            }
            _ => {}
        }
    };
    let (own, other) = duplex(BUFFER_BYTES);
    let (reader, writer) = split(other);
    tokio::spawn(send(reader, packets, connection));
    tokio::spawn(receive(responses, writer, connection));
    Ok(Box::new(own))
}

/// Sends what the caller writes, and then the request to close the connection.
async fn send(mut reader: ReadHalf<DuplexStream>, packets: Sender<Packet>, connection: i64) {
    let mut buffer = vec![0; MAX_DATA_BYTES];
    while let Ok(read @ 1..) = reader.read(&mut buffer).await {
        let data = buffer.get(..read).unwrap_or_default().to_vec();
        let packet = Packet {
            r#type: DATA,
            payload: Some(Payload::Data(Data {
                connection,
                error: String::new(),
                data,
            })),
        };
        if packets.send(packet).await.is_err() {
            return;
        }
    }
    let close = Packet {
        r#type: CLOSE_REQUEST,
        payload: Some(Payload::CloseRequest(CloseRequest { connection })),
    };
    let _ = packets.send(close).await;
}

/// Passes data of the proxy to the caller, until one of them closes the connection.
async fn receive(mut responses: Responses<Packet>, mut writer: WriteHalf<DuplexStream>, connection: i64) {
    while let Ok(Some(packet)) = responses.next().await {
        match packet.payload {
            Some(Payload::Data(packet)) if packet.connection == connection => {
                let written = writer.write_all(&packet.data).await;
                if written.is_err() {
                    return;
                }
            }
            Some(Payload::CloseResponse(close)) if close.connection == connection => break,
            _ => {}
        }
    }
    let _ = writer.shutdown().await;
}

/// Returns a random positive number, which identifies a dial in its stream.
fn random() -> i64 {
    let mut bytes = [0; 8];
    // A stream has one dial, so that a constant is good enough.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    i64::from_le_bytes(bytes) & i64::MAX
}
