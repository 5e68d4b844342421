//! Admission by quotas: <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.
//!
//! The usage of a write is added to the status of each quota that counts it, in the same transaction as the write. Of
//! two concurrent writes for the last remaining amount, one therefore finds it used. The quota controller counts what
//! is released.

use std::fmt;
use std::ops::ControlFlow;

use holdfast_admission::{AdmissionPlugin, Calls, Interest, Reservation};
use holdfast_gotext::errors::aggregate;
use holdfast_gotext::quantity::Quantity;
use holdfast_resource::quota::{Amounts, amounts};
use holdfast_resource::table::items;
use holdfast_resource::{Counted, Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::common::{check_fields, group_resource, texts};

/// Plugin that rejects a write that uses more than a quota of the namespace allows, or that uses a
/// [limited resource](LimitedResource) that no quota covers.
pub(super) struct ResourceQuota {
    /// Resources that the configuration of the plugin limits.
    pub(super) limited: Vec<LimitedResource>,
}

/// Entry of `limitedResources` in the configuration of the plugin: a resource that can only be consumed if a quota
/// covers it
/// (<https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedResource {
    group: String,
    resource: String,
    /// Parts of the names under which quotas count the limited amounts.
    match_contains: Vec<String>,
    /// Scopes whose objects need a quota with the same scope.
    match_scopes: Vec<ScopeRequirement>,
}

/// Requirement on the scope of an object, as in the scope selector of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScopeRequirement {
    scope: String,
    operator: String,
    values: Vec<String>,
}

impl LimitedResource {
    /// Reads `limitedResources` from the configuration of the plugin.
    ///
    /// # Errors
    /// If the configuration has fields that the reference rejects.
    pub fn from_configuration(configuration: &Value) -> Result<Vec<Self>, String> {
        check_fields(configuration, "", &["apiVersion", "kind", "limitedResources"])?;
        let mut limited = Vec::new();
        let mut missing = Vec::new();
        for (index, entry) in items(configuration, &["limitedResources"]).iter().enumerate() {
            let place = format!("limitedResources[{index}]");
            check_fields(
                entry,
                &format!("{place}."),
                &["apiGroup", "resource", "matchContains", "matchScopes"],
            )?;
            let resource = text(entry, "resource");
            if resource.is_empty() {
                missing.push(format!("{place}.resource: Required value"));
            }
            let scopes = items(entry, &["matchScopes"]).iter().enumerate().map(|(at, scope)| {
                let place = format!("{place}.matchScopes[{at}].");
                check_fields(scope, &place, &["scopeName", "operator", "values"])?;
                Ok(ScopeRequirement {
                    scope: text(scope, "scopeName"),
                    operator: text(scope, "operator"),
                    values: texts(scope, "values"),
                })
            });
            limited.push(Self {
                group: text(entry, "apiGroup"),
                resource,
                match_contains: texts(entry, "matchContains"),
                match_scopes: scopes.collect::<Result<_, String>>()?,
            });
        }
        match missing.is_empty() {
            true => Ok(limited),
            false => Err(aggregate(&missing)),
        }
    }
}

fn text(object: &Value, field: &str) -> String {
    object.str_at(&[field]).unwrap_or_default().to_owned()
}

impl ScopeRequirement {
    /// Returns the requirements of a quota: its scopes, then its scope selector.
    fn of_quota(quota: &Value) -> Vec<Self> {
        let scopes = texts(quota.get("spec").unwrap_or(&Value::Null), "scopes")
            .into_iter()
            .map(|scope| Self {
                scope,
                operator: "Exists".to_owned(),
                values: Vec::new(),
            });
        let selector = items(quota, &["spec", "scopeSelector", "matchExpressions"])
            .iter()
            .map(|expression| Self {
                scope: text(expression, "scopeName"),
                operator: text(expression, "operator"),
                values: texts(expression, "values"),
            });
        scopes.chain(selector).collect()
    }

    fn matches(&self, counted: &Counted<'_>, object: &Value) -> bool {
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        let usage = counted.beyond_number();
        usage.is_some_and(|usage| usage.is_within(object, &self.scope, &self.operator, &values))
    }
}

/// Formats the requirement as Go prints the struct.
impl fmt::Display for ScopeRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(" ");
        write!(formatter, "{{{} {} [{values}]}}", self.scope, self.operator)
    }
}

impl AdmissionPlugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                subresources: &["", "resize"],
                operations: &[Operation::Create, Operation::Update],
                ..Interest::EVERYTHING
            }]
        }
    }

    fn reserves(&self) -> bool {
        true
    }

    fn reserve(
        &self,
        context: &WriteContext<'_>,
        object: &Value,
        old: Option<&dyn Fn() -> Value>,
    ) -> Result<Vec<Reservation>, Rejection> {
        let Some(counted) = Counted::for_resource(context.resource).filter(|counted| may_take(context, counted)) else {
            return Ok(Vec::new());
        };
        let name = group_resource("", "resourcequotas");
        let (mut quotas, mut covered_scopes) = (Vec::new(), Vec::new());
        context.lookup.list(&name, context.namespace, &mut |quota| {
            if !self.limited.is_empty() {
                let scopes = ScopeRequirement::of_quota(quota).into_iter();
                let matching = scopes.filter(|scope| scope.matches(&counted, object));
                covered_scopes.extend(matching.map(|scope| scope.scope));
            }
            if counts(quota, &counted, object) {
                quotas.push(quota.clone());
            }
            ControlFlow::Continue(())
        });
        if quotas.is_empty() && self.limited.is_empty() {
            return Ok(Vec::new());
        }
        let before = old.map(|read| read());
        if !takes(context, &counted, object, before.as_ref()) {
            return Ok(Vec::new());
        }
        for quota in &quotas {
            check_status(quota, &counted, object)?;
        }
        let taken = counted.usage(object, context.now());
        let growth = before
            .as_ref()
            .map(|old| growth(&taken, &counted.usage(old, context.now())));
        let charges: Vec<&Amounts> = quotas
            .iter()
            .map(|quota| match (&before, &growth) {
                (Some(old), Some(growth)) if counts(quota, &counted, old) => growth,
                _ => &taken,
            })
            .collect();
        let uncounted = growth.as_ref().unwrap_or(&taken);
        let is_zero = |amounts: &&Amounts| amounts.values().all(Quantity::is_zero);
        let is_unchanged = match charges.is_empty() {
            true => is_zero(&uncounted),
            false => charges.iter().all(is_zero),
        };
        if is_unchanged {
            return Ok(Vec::new());
        }
        self.check_coverage(&counted, object, &taken, &quotas, &covered_scopes)?;
        let mut reservations = Vec::new();
        for (quota, more) in quotas.iter().zip(charges) {
            reservations.extend(reserved(quota.clone(), more)?.map(|object| Reservation {
                resource: name.clone(),
                object,
            }));
        }
        Ok(reservations)
    }
}

impl ResourceQuota {
    /// Rejects a write that uses a limited resource that none of `quotas`, which count the object, covers.
    /// `covered_scopes` are the scopes of all quotas of the namespace that match the object.
    ///
    /// upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota#CheckRequest
    fn check_coverage(
        &self,
        counted: &Counted<'_>,
        object: &Value,
        taken: &Amounts,
        quotas: &[Value],
        covered_scopes: &[String],
    ) -> Result<(), Rejection> {
        let of_resource = self
            .limited
            .iter()
            .filter(|limited| counted.is_of(&limited.group, &limited.resource));
        let parts: Vec<&String> = of_resource.flat_map(|limited| &limited.match_contains).collect();
        let is_limited = |name: &str| parts.iter().any(|part| name.contains(part.as_str()));
        let is_covered = |name: &str| {
            let hard = |quota: &Value| quota.at(&["status", "hard", name]).is_some();
            quotas.iter().any(hard)
        };
        let uncovered: Vec<&str> = taken
            .iter()
            .filter(|(name, amount)| amount.is_positive() && is_limited(name) && !is_covered(name))
            .map(|(name, _)| name.as_str())
            .collect();
        if !uncovered.is_empty() {
            return Err(Rejection::forbidden(format!(
                "insufficient quota to consume: {}",
                uncovered.join(",")
            )));
        }
        // The reference compares the scopes of all entries, whatever resource they name.
        let scopes = self.limited.iter().flat_map(|limited| &limited.match_scopes);
        let uncovered: Vec<String> = scopes
            .filter(|scope| scope.matches(counted, object) && !covered_scopes.contains(&scope.scope))
            .map(ToString::to_string)
            .collect();
        match uncovered.is_empty() {
            true => Ok(()),
            false => Err(Rejection::Failed(format!(
                "insufficient quota to match these scopes: [{}]",
                uncovered.join(" ")
            ))),
        }
    }
}

/// Returns true if a write can increase usage. Updates of kinds without further counted amounts cannot.
fn may_take(context: &WriteContext<'_>, counted: &Counted<'_>) -> bool {
    let subresource = context.subresource.unwrap_or_default();
    match context.operation {
        Operation::Create => subresource.is_empty(),
        Operation::Update => counted
            .beyond_number()
            .is_some_and(|usage| subresource.is_empty() || usage.changed_by() == subresource),
        _ => false,
    }
}

/// Returns true if a write that can increase usage does. An update through another subresource than that of the counted
/// amounts only does if it changes the scope.
fn takes(context: &WriteContext<'_>, counted: &Counted<'_>, object: &Value, old: Option<&Value>) -> bool {
    context.operation == Operation::Create
        || counted.beyond_number().is_some_and(|usage| {
            usage.changed_by() == context.subresource.unwrap_or_default()
                || old.is_some_and(|old| usage.changes_scope(object, old))
        })
}

/// Returns true if a quota, by the limits in its status, counts the object.
fn counts(quota: &Value, counted: &Counted<'_>, object: &Value) -> bool {
    let root = Field::root(quota);
    let status = root.child("status");
    status.child("hard").entries().any(|(name, _)| counted.takes(name)) && counted.is_within_scopes_of(quota, object)
}

/// Rejects a Pod without an amount that the quota counts, and any object while the usage of the quota is unknown.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota#CheckRequest
fn check_status(quota: &Value, counted: &Counted<'_>, object: &Value) -> Result<(), Rejection> {
    let root = Field::root(quota);
    let status = root.child("status");
    let (hard, used) = (status.child("hard"), status.child("used"));
    let mut taken: Vec<&str> = hard
        .entries()
        .map(|(name, _)| name)
        .filter(|name| counted.takes(name))
        .collect();
    let name = quota.str_at(&["metadata", "name"]).unwrap_or_default();
    let usage = counted.beyond_number();
    if let Some(missing) = usage.and_then(|usage| usage.unstated(&taken, object)) {
        return Err(Rejection::forbidden(format!(
            "failed quota: {name}: must specify {missing}"
        )));
    }
    if taken.iter().any(|resource| !used.entry(resource).is_set()) {
        taken.sort_unstable();
        return Err(Rejection::forbidden(format!(
            "status unknown for quota: {name}, resources: {}",
            taken.join(",")
        )));
    }
    Ok(())
}

/// Returns the increases from `before` to `now`. The quota controller counts decreases.
fn growth(now: &Amounts, before: &Amounts) -> Amounts {
    let grown = now.iter().filter_map(|(name, amount)| {
        let more = before.get(name).map_or(*amount, |before| amount.minus(*before));
        more.is_positive().then(|| (name.clone(), more))
    });
    grown.collect()
}

/// Returns the quota with `more` added to its usage, or `None` if it counts none of it.
///
/// upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota#CheckRequest
fn reserved(mut quota: Value, more: &Amounts) -> Result<Option<Value>, Rejection> {
    let root = Field::root(&quota);
    let status = root.child("status");
    let (hard, used) = (amounts(&status.child("hard")), amounts(&status.child("used")));
    let (mut now, mut exceeded) = (Amounts::new(), Vec::new());
    for (name, more) in more
        .iter()
        .filter(|(name, more)| hard.contains_key(*name) && !more.is_zero())
    {
        let sum = used.get(name).map_or(*more, |used| used.plus(*more));
        if hard.get(name).is_some_and(|hard| sum > *hard) {
            exceeded.push(name);
        }
        now.insert(name.clone(), sum);
    }
    if !exceeded.is_empty() {
        let shown = |list: &Amounts| {
            let amounts = exceeded
                .iter()
                .filter_map(|name| Some(format!("{name}={}", list.get(*name)?)));
            amounts.collect::<Vec<_>>().join(",")
        };
        return Err(Rejection::forbidden(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.str_at(&["metadata", "name"]).unwrap_or_default(),
            shown(more),
            shown(&used),
            shown(&hard)
        )));
    }
    if now.is_empty() {
        return Ok(None);
    }
    for (name, sum) in now {
        quota.set_at(&["status", "used", &name], sum.to_string().into());
    }
    Ok(Some(quota))
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const PLUGIN: &str = "ResourceQuota";

    fn quota(spec: &str, hard: &str, used: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q, namespace: default}}, spec: {{{spec}}}, status: \
             {{hard: {{{hard}}}, used: {{{used}}}}}}}"
        )
    }

    fn rejection(quota: &str, text: &str) -> String {
        let reserved = Harness::new().with(quota).reserved(PLUGIN, text, None);
        reserved.map(|_| String::new()).unwrap_or_else(|rejection| rejection)
    }

    fn pod(spec: &str, resources: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{spec} containers: [{{name: c, image: i, resources: \
             {{{resources}}}}}]}}, status: {{qosClass: Burstable}}}}"
        )
    }

    const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}";

    #[test]
    fn objects_are_counted_by_either_name() {
        for name in ["configmaps", "count/configmaps"] {
            let full = quota("", &format!("{name}: '2'"), &format!("{name}: '2'"));
            assert_eq!(
                rejection(&full, CONFIG_MAP),
                format!("exceeded quota: q, requested: {name}=1, used: {name}=2, limited: {name}=2")
            );
            let room = quota("", &format!("{name}: '2'"), &format!("{name}: '1'"));
            let reserved = Harness::new().with(&room).reserved(PLUGIN, CONFIG_MAP, None).unwrap();
            assert_eq!(reserved, [format!(r#"{{"{name}":"2"}}"#)]);
        }
    }

    #[test]
    fn uncounted_resource_is_rejected() {
        assert_eq!(
            rejection(&quota("", "configmaps: '2'", ""), CONFIG_MAP),
            "status unknown for quota: q, resources: configmaps"
        );
        // Limits that are only in the specification are not in force yet.
        assert_eq!(rejection(&quota("hard: {configmaps: '0'}", "", ""), CONFIG_MAP), "");
    }

    #[test]
    fn pods_state_and_take_what_is_counted() {
        let quota = quota(
            "",
            "requests.cpu: '1', limits.memory: 1Gi, pods: '5'",
            "requests.cpu: 900m, limits.memory: '0', pods: '0'",
        );
        assert_eq!(
            rejection(&quota, &pod("", "")),
            "failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
        );
        assert_eq!(
            rejection(&quota, &pod("", "requests: {cpu: 200m}, limits: {memory: 1Mi}")),
            "exceeded quota: q, requested: requests.cpu=200m, used: requests.cpu=900m, limited: requests.cpu=1"
        );
        let fits = pod("", "requests: {cpu: 50m}, limits: {memory: 1Mi}");
        assert_eq!(
            Harness::new().with(&quota).reserved(PLUGIN, &fits, None).unwrap(),
            [r#"{"limits.memory":"1Mi","pods":"1","requests.cpu":"950m"}"#]
        );
    }

    #[test]
    fn quotas_count_within_their_scopes() {
        let full = |spec: &str| quota(spec, "pods: '0'", "pods: '0'");
        for (scope, spec, counts) in [
            ("scopes: [NotBestEffort]", "", true),
            ("scopes: [BestEffort]", "", false),
            ("scopes: [Terminating]", "activeDeadlineSeconds: 5,", true),
            ("scopes: [Terminating]", "", false),
            ("scopes: [PriorityClass]", "priorityClassName: high,", true),
            (
                "scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}",
                "priorityClassName: high,",
                false,
            ),
        ] {
            assert_eq!(
                !rejection(&full(scope), &pod(spec, "")).is_empty(),
                counts,
                "{scope} {spec}"
            );
        }
        assert_eq!(rejection(&full("scopes: [BestEffort]"), CONFIG_MAP), "");
    }

    #[test]
    fn a_pod_that_gets_a_deadline_is_counted_by_quotas_of_those() {
        let full = quota("scopes: [Terminating]", "pods: '0'", "pods: '0'");
        let harness = Harness::new().with(&full);
        let (free, bounded) = (pod("", ""), pod("activeDeadlineSeconds: 5,", ""));
        assert!(harness.reserved(PLUGIN, &bounded, Some(&free)).is_err());
        assert!(harness.reserved(PLUGIN, &bounded, Some(&bounded)).is_ok());
        assert!(harness.reserved(PLUGIN, &free, Some(&bounded)).is_ok());
    }

    #[test]
    fn services_and_claims_are_measured_too() {
        let balancer = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, ports: [{port: 1}, \
                        {name: b, port: 2}]}}";
        let quota_of_services = quota(
            "",
            "services.nodeports: '2', services.loadbalancers: '1'",
            "services.nodeports: '0', services.loadbalancers: '0'",
        );
        assert_eq!(
            Harness::new()
                .with(&quota_of_services)
                .reserved(PLUGIN, balancer, None)
                .unwrap(),
            [r#"{"services.loadbalancers":"1","services.nodeports":"2"}"#]
        );
        let claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v}, spec: {storageClassName: fast, \
                     resources: {requests: {storage: 3Gi}}}}";
        let name = "fast.storageclass.storage.k8s.io/requests.storage";
        assert_eq!(
            rejection(&quota("", &format!("{name}: 2Gi"), &format!("{name}: '0'")), claim),
            format!("exceeded quota: q, requested: {name}=3Gi, used: {name}=0, limited: {name}=2Gi")
        );
    }

    #[test]
    fn an_update_takes_what_it_adds() {
        let quota = quota(
            "",
            "services: '1', services.nodeports: '2'",
            "services: '1', services.nodeports: '1'",
        );
        let service = |ports: &str| {
            format!(
                "{{apiVersion: v1, kind: Service, metadata: {{name: s}}, spec: {{type: NodePort, ports: [{ports}]}}}}"
            )
        };
        let (one, two) = (service("{port: 1}"), service("{port: 1}, {name: b, port: 2}"));
        let three = service("{port: 1}, {name: b, port: 2}, {name: c, port: 3}");
        let harness = Harness::new().with(&quota);
        let updated = |old: &str, new: &str| harness.reserved(PLUGIN, new, Some(old));
        assert_eq!(
            updated(&one, &two).unwrap(),
            [r#"{"services":"1","services.nodeports":"2"}"#]
        );
        assert_eq!(
            updated(&one, &three).unwrap_err(),
            "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2"
        );
        // The controller counts what is released.
        assert!(updated(&two, &one).unwrap().is_empty());
    }
}
