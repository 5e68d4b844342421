//! Connections and what goes over them: TLS, bodies, compression, slow clients, WebSockets.

pub mod body;
pub(crate) mod compression;
pub mod connection;
pub(crate) mod slow_clients;
pub mod tls;
pub(crate) mod websocket;
pub(crate) mod x509;
