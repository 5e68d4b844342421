//! DeviceTaintRules: taints that an administrator adds to devices.

use holdfast_kind_tables::Kind;
use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::time::time_text;

/// Strategy of DeviceTaintRules.
pub(crate) struct DeviceTaintRule;

const TAINT: [&str; 2] = ["spec", "taint"];

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(DeviceTaintRule)
        .empty_status()
        .converts_by(config, super::GROUP, super::versions::TAINT_RULES)
        .done()
}

impl Strategy for DeviceTaintRule {
    /// upstream: pkg/registry/resource/devicetaintrule#deviceTaintRuleStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        stamp(context, object, None);
        Ok(())
    }

    /// upstream: pkg/registry/resource/devicetaintrule#deviceTaintRuleStrategy.PrepareForUpdate
    /// upstream: pkg/registry/resource/devicetaintrule#deviceTaintRuleStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        if context.subresource.is_none() {
            stamp(context, object, old.at(&TAINT));
        }
        Ok(())
    }
}

/// Sets `timeAdded` of the taint if it is missing, or if the effect differs from that of `old`.
fn stamp(context: &WriteContext<'_>, object: &mut Value, old: Option<&Value>) {
    let Some(taint) = object.at_mut(&TAINT) else { return };
    let stale = old
        .is_some_and(|old| old.get("effect") != taint.get("effect") && old.get("timeAdded") == taint.get("timeAdded"));
    if stale || taint.get("timeAdded").is_none() {
        taint.set_at(&["timeAdded"], time_text(context.now()));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn rule(taint: &str) -> String {
        format!(
            "{{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {{name: a}}, spec: {{deviceSelector: \
             {{driver: d.io}}, taint: {{{taint}}}}}}}"
        )
    }

    #[test]
    fn a_taint_says_since_when_it_is_there_and_has_an_effect() {
        let harness = Harness::serving("resource.k8s.io/v1beta2=true", "");
        let created = harness.create(&rule("key: a.io/b, effect: NoExecute"));
        assert_ne!(at(&created, "spec.taint.timeAdded"), "nothing");
        assert_eq!(
            harness.errors(&rule("key: '', effect: Odd")).len(),
            harness.errors(&rule("key: '', effect: NoSchedule")).len() + 1
        );
    }
}
