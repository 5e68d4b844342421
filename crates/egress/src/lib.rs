#![forbid(unsafe_code)]
//! Connections through proxies: kube-apiserver's egress selector
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/>).
//!
//! A configuration names a proxy for each network: the cluster, etcd and the control plane. A proxy speaks HTTP CONNECT, or
//! the protocol of konnectivity.

mod configuration;
mod connect;
mod dialer;
mod konnectivity;
mod validation;

pub use configuration::EgressConfiguration;
pub use dialer::{DialError, DialEvent, DialObserver, Dialer, EgressSelector, Network, ProxiedStream, Stage, Through};
