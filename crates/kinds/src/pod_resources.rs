//! Total resources of a Pod, as limit ranges and quotas count them.

use holdfast_resource::quota::{Amounts, add, amounts};
use holdfast_schema::Field;

/// Returns the maximum `part` (`requests` or `limits`) that the containers of a Pod use at once: the concurrent
/// containers, or an init container with the sidecars that were started before it.
pub fn of_containers(spec: &Field<'_, '_>, part: &str) -> Amounts {
    let mut running = Amounts::new();
    for container in spec.child("containers").items() {
        add(&mut running, &amounts(&container.child("resources").child(part)));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.child("initContainers").items() {
        let own = amounts(&container.child("resources").child(part));
        let at_once = if container.child("restartPolicy").text() == "Always" {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            sidecars.clone()
        } else {
            let mut at_once = own;
            add(&mut at_once, &sidecars);
            at_once
        };
        raise(&mut starting, at_once);
    }
    raise(&mut running, starting);
    running
}

/// Returns the `part` of a whole Pod: its pod-level resources, for all others the sum of its containers, and its
/// overhead (which only counts towards limits that exist).
pub fn of_pod(spec: &Field<'_, '_>, part: &str) -> Amounts {
    let mut total = of_containers(spec, part);
    total.extend(amounts(&spec.child("resources").child(part)));
    for (name, overhead) in amounts(&spec.child("overhead")) {
        match total.get_mut(&name) {
            Some(sum) => *sum = sum.plus(overhead),
            None if part == "requests" => {
                total.insert(name, overhead);
            }
            None => {}
        }
    }
    total
}

fn raise(to: &mut Amounts, others: Amounts) {
    for (name, amount) in others {
        to.entry(name)
            .and_modify(|most| *most = amount.max(*most))
            .or_insert(amount);
    }
}
