//! Connections and their content: TLS, bodies, compression, slow clients, WebSockets.

pub mod body;
pub mod certificates;
pub mod client_authorities;
pub mod connection;
pub mod fairness;
pub(crate) mod gathered;
pub(crate) mod heads;
pub mod in_flight;
pub(crate) mod keep_alive;
mod named_certificates;
pub(crate) mod passed;
pub mod pem_source;
pub(crate) mod slow_clients;
pub mod tls;
pub(crate) mod upgrade;
pub(crate) mod websocket;
pub(crate) mod x509;
