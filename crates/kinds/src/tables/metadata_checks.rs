//! How often the validation of each kind looks at metadata, beside the checks for all kinds.

use holdfast_resource::{MetadataChecks, RepeatedChecks};

/// As most kinds do: the core group's checks, as at creation and against the old object; of a status the latter.
const MOST: MetadataChecks = of_core(1, 1);

/// The kinds that differ: their group and names, and what they do.
const OTHERS: [(&str, &[&str], MetadataChecks); 18] = [
    (
        "",
        &["podtemplates", "replicationcontrollers", "resourcequotas", "services"],
        of_core(0, 1),
    ),
    ("", &["limitranges"], of_core(1, 0)),
    ("", &["persistentvolumes"], of_core(2, 0)),
    ("", &["events"], of_apimachinery(0, 0)),
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ],
        with_status(of_apimachinery(1, 0), 0, 0),
    ),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        of_apimachinery(0, 1),
    ),
    ("apiregistration.k8s.io", &["apiservices"], of_apimachinery(1, 1)),
    (
        "apps",
        &["daemonsets", "deployments", "replicasets", "statefulsets"],
        of_core(0, 1),
    ),
    ("autoscaling", &["horizontalpodautoscalers"], of_core(0, 1)),
    ("batch", &["cronjobs"], with_status(of_core(0, 1), 0, 0)),
    (
        "certificates.k8s.io",
        &["certificatesigningrequests"],
        with_status(MOST, 1, 1),
    ),
    ("coordination.k8s.io", &["leases"], of_apimachinery(0, 1)),
    ("discovery.k8s.io", &["endpointslices"], of_core(1, 0)),
    (
        "flowcontrol.apiserver.k8s.io",
        &["flowschemas", "prioritylevelconfigurations"],
        with_status(of_core(1, 0), 0, 0),
    ),
    ("networking.k8s.io", &["networkpolicies", "servicecidrs"], of_core(0, 1)),
    ("node.k8s.io", &["runtimeclasses"], of_apimachinery(1, 1)),
    (
        "policy",
        &["poddisruptionbudgets"],
        with_status(of_apimachinery(0, 0), 0, 0),
    ),
    (
        "storage.k8s.io",
        &["csinodes", "volumeattachments"],
        with_status(of_core(1, 0), 1, 0),
    ),
];

/// Kinds of groups in which others do as most do, by the core group's checks against the old object alone.
const UPDATE_ALONE: [(&str, &str); 5] = [
    ("events.k8s.io", "events"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// What the validation of a resource's objects looks at.
pub(super) fn of(group: &str, plural: &str) -> MetadataChecks {
    if UPDATE_ALONE.contains(&(group, plural)) {
        return of_core(0, 1);
    }
    let other = OTHERS
        .iter()
        .find(|(of, plurals, _)| *of == group && plurals.contains(&plural));
    other.map_or(MOST, |(.., checks)| *checks)
}

const fn of_core(whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        object: RepeatedChecks { whole, update },
        subresource: RepeatedChecks { whole: 0, update: 1 },
        finalizer_names: true,
    }
}

/// By the checks of apimachinery, which do not look at the names of finalizers.
const fn of_apimachinery(whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        finalizer_names: false,
        ..of_core(whole, update)
    }
}

const fn with_status(checks: MetadataChecks, whole: u8, update: u8) -> MetadataChecks {
    MetadataChecks {
        subresource: RepeatedChecks { whole, update },
        ..checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_differs_is_a_resource() {
        let table = include_str!("resources.txt");
        let plurals = OTHERS.iter().flat_map(|(_, plurals, _)| plurals.iter().copied());
        for plural in plurals.chain(UPDATE_ALONE.map(|(_, plural)| plural)) {
            assert!(table.contains(&format!("resource {plural} ")), "{plural}");
        }
    }
}
