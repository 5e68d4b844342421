#![forbid(unsafe_code)]
//! Controllers that an API server's promises need: a namespace that is deleted takes everything in it along, an object
//! that is deleted takes its dependents, an aggregated role has the rules of the roles it is made of. Elsewhere they are
//! part of kube-controller-manager.
//!
//! Each controller is a client of the server's own API ([`Client`]): it knows nothing of the store, has no rights that a
//! user of `system:masters` lacks, and can be switched off for those who run kube-controller-manager. Each is a task that
//! sleeps until something changes; see `reconcile.rs`.
//!
//! Only one process may run them. Where several serve one store, [`Selection::run`] is the place to wait for the lease
//! of a leader before the controllers begin, and to stop them when it is lost.

mod aggregation;
mod dangling;
mod definitions;
mod garbage;
mod namespace;
mod queue;
mod reconcile;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use holdfast_server::loopback::Client;
use holdfast_server::service::Service;

/// A controller that can be switched on and off.
struct Controller {
    /// Its name, as kube-controller-manager has it.
    name: &'static str,
    run: fn(Client) -> BoxFuture<'static, ()>,
}

/// All controllers.
const CONTROLLERS: [Controller; 3] = [
    Controller {
        name: namespace::NAME,
        run: |client| Box::pin(namespace::run(client)),
    },
    Controller {
        name: garbage::NAME,
        run: |client| Box::pin(garbage::run(client)),
    },
    Controller {
        name: aggregation::NAME,
        run: |client| Box::pin(aggregation::run(client)),
    },
];

/// The controllers that are parts of kube-apiserver, and run always.
const ESSENTIAL: [Controller; 3] = [
    Controller {
        name: dangling::NAME,
        run: |client| Box::pin(dangling::run(client)),
    },
    Controller {
        name: "naming-condition-controller",
        run: |client| Box::pin(definitions::run_names(client)),
    },
    Controller {
        name: "custom-resource-cleanup",
        run: |client| Box::pin(definitions::run_cleanup(client)),
    },
];

/// Why a choice of controllers makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such controller to switch on.
    #[error("there is no controller {name}; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
}

/// The controllers that are to run.
pub struct Selection(Vec<&'static Controller>);

impl Selection {
    /// The controllers that `words` choose, in the words of kube-controller-manager's `--controllers`: `*` for all, `NAME`
    /// for one, `-NAME` to leave one out. Controllers that exist there alone may be left out, but not chosen.
    ///
    /// # Errors
    /// [`Error::Unknown`]
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, Error> {
        let has = |wanted: &str| words.iter().any(|word| word.as_ref() == wanted);
        for word in words.iter().map(AsRef::as_ref) {
            let known = word == "*" || word.is_empty() || word.starts_with('-');
            if !known && !CONTROLLERS.iter().any(|controller| controller.name == word) {
                return Err(Error::Unknown {
                    name: word.to_owned(),
                    known: CONTROLLERS.map(|controller| controller.name).join(", "),
                });
            }
        }
        let chosen = CONTROLLERS
            .iter()
            .filter(|controller| !has(&format!("-{}", controller.name)) && (has(controller.name) || has("*")));
        Ok(Self(chosen.collect()))
    }

    /// The names of the controllers.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|controller| controller.name)
    }

    /// Runs the chosen controllers, and those that the server is nothing without, each as a task of its own, until the server ends.
    pub fn run(&self, service: &Arc<Service>) {
        for controller in self.0.iter().copied().chain(&ESSENTIAL) {
            let client = Client::new(Arc::clone(service), controller.name);
            tokio::spawn((controller.run)(client));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<&'static str> {
        Selection::parse(words).unwrap().names().collect()
    }

    #[test]
    fn controllers_are_chosen_in_the_words_of_kube_controller_manager() {
        let all = CONTROLLERS.map(|controller| controller.name);
        assert_eq!(names(&["*"]), all);
        assert_eq!(names(&["*", "-namespace-controller"]), all[1..]);
        assert_eq!(names(&["namespace-controller"]), ["namespace-controller"]);
        assert_eq!(names(&["*", "-deployment-controller"]), all);
        assert!(names(&[""]).is_empty());
        assert!(Selection::parse(&["deployment-controller"]).is_err());
    }
}
