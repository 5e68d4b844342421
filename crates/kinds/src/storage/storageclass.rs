//! StorageClasses: <https://kubernetes.io/docs/concepts/storage/storage-classes/>.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::table::NamedCell;
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::metadata::labels::validate_label_name;
use holdfast_schema::{AnyRules, Check, Field, FieldError, Part, Rules, UpdateOrder};
use holdfast_value::Value;

use crate::cells::default_class;
use crate::kind::kind;
use crate::pod_spec::deprecated_node_label;
use crate::rules::StorageClassRule;
use crate::validation::Errors;

/// Strategy of StorageClasses.
pub(crate) struct StorageClass;

const PARAMETERS: usize = 512;
const PARAMETERS_SIZE: usize = 256 * 1024;
/// Number of times that a term without expressions is reported as a duplicate.
const SHOWN_DUPLICATES: usize = 16;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(StorageClass)
        .cells(CELLS)
        .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
        .done()
}

impl Strategy for StorageClass {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// upstream: pkg/registry/storage/storageclass#storageClassStrategy.WarningsOnCreate
    /// upstream: pkg/registry/storage/storageclass#storageClassStrategy.WarningsOnUpdate
    fn warnings(&self, _context: &WriteContext<'_>, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let root = Field::root(object);
        let mut warnings = Vec::new();
        for term in root.child("allowedTopologies").items() {
            for expression in term.child("matchLabelExpressions").items() {
                let key = expression.child("key");
                if let Some(text) = deprecated_node_label(key.text()) {
                    warnings.push(format!("{}: {text}", key.path()));
                }
            }
        }
        warnings
    }
}

impl<'v> Rules<'v> for StorageClass {
    type Rule = StorageClassRule;

    fn rule(&self, rule: StorageClassRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            StorageClassRule::Provisioner => validate_provisioner(&part.child("provisioner"), errors),
            StorageClassRule::Parameters => validate_parameters(&part.child("parameters"), errors),
            StorageClassRule::AllowedTopologies => validate_topologies(&part.child("allowedTopologies"), errors),
        }
    }
}

/// Checks that a provisioner is a qualified name in any letter case.
///
/// upstream: pkg/apis/storage/validation#validateProvisioner
pub(super) fn validate_provisioner(provisioner: &Field<'_, '_>, errors: &mut Errors) {
    if provisioner.text().is_empty() {
        errors.push(provisioner.required(""));
        return;
    }
    let lower = provisioner.text().to_lowercase();
    let messages = qualified_name(&lower).into_iter();
    errors.extend(messages.map(|message| provisioner.invalid_as(lower.as_str(), message)));
}

/// Validates the parameters for the driver.
///
/// upstream: pkg/apis/storage/validation#validateParameters
pub(super) fn validate_parameters(parameters: &Field<'_, '_>, errors: &mut Errors) {
    if parameters.len() > PARAMETERS {
        let detail = format!("must have at most {PARAMETERS} items");
        errors.push(FieldError {
            detail,
            ..parameters.too_many(PARAMETERS)
        });
        return;
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errors.push(parameters.invalid_as(key, "field can not be empty."));
        }
        size += key.len() + value.text().len();
    }
    if size > PARAMETERS_SIZE {
        errors.push(parameters.too_long(PARAMETERS_SIZE));
    }
}

/// Checks that no two terms are equal.
///
/// upstream: pkg/apis/storage/validation#validateAllowedTopologies
fn validate_topologies(terms: &Field<'_, '_>, errors: &mut Errors) {
    let mut seen: HashMap<BTreeMap<&str, BTreeSet<&str>>, usize> = HashMap::new();
    for term in terms.items() {
        let topology = validate_topology(&term, errors);
        // The reference also compares each term with as many empty terms as the list has items.
        let times = if topology.is_empty() { terms.len() } else { 0 };
        let before = seen.entry(topology).or_default();
        let times = times + *before;
        *before += 1;
        let place = term.path().child("matchLabelExpressions");
        errors.extend((0..times.min(SHOWN_DUPLICATES)).map(|_| FieldError::duplicate(&place, "")));
    }
}

/// Returns the values of each key.
///
/// upstream: pkg/apis/core/validation#ValidateTopologySelectorTerm
fn validate_topology<'v>(term: &Field<'v, '_>, errors: &mut Errors) -> BTreeMap<&'v str, BTreeSet<&'v str>> {
    let mut topology = BTreeMap::new();
    for expression in term.child("matchLabelExpressions").items() {
        let (key, values) = (expression.child("key"), expression.child("values"));
        if values.is_empty() {
            errors.push(values.required(""));
        }
        let mut seen = BTreeSet::new();
        for value in values.items() {
            if !seen.insert(value.text()) {
                errors.push(value.duplicate());
            }
        }
        validate_label_name(&key, errors);
        if topology.insert(key.text(), seen).is_some() {
            errors.push(key.duplicate());
        }
    }
    topology
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[("default-storage-class", |object, _| {
    const BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
    default_class(object, &["storageclass.kubernetes.io/is-default-class", BETA])
})];

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const FAST: &str = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: p, \
                        parameters: {a: '1'}}";

    #[test]
    fn topologies_by_deprecated_labels_are_warned_of() {
        let terms = "allowedTopologies: [{matchLabelExpressions: [{key: failure-domain.beta.kubernetes.io/zone, values: [a]}]}]";
        let class = FAST.replace("parameters: {a: '1'}", terms);
        assert_eq!(
            Harness::new().warnings(&class),
            [
                "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
            ]
        );
    }

    #[test]
    fn parameters_are_immutable() {
        let harness = Harness::new();
        assert!(harness.errors(FAST).is_empty());
        assert_eq!(
            harness.update_errors(FAST, &FAST.replace("{a: '1'}", "{a: '1', b: '1'}")),
            [r#"parameters: Invalid value: {"a":"1","b":"1"}: field is immutable"#]
        );
        assert_eq!(
            harness.errors(&FAST.replace("provisioner: p, ", "")),
            ["provisioner: Required value"]
        );
        let fields = |update: &str| harness.update_errors(FAST, update).len();
        assert_eq!(fields(&FAST.replace("provisioner: p", "provisioner: '-'")), 2);
    }

    #[test]
    fn no_topology_stands_there_twice() {
        let term = "{matchLabelExpressions: [{key: z, values: [a, b]}]}";
        let again = "{matchLabelExpressions: [{key: z, values: [b, a]}]}";
        let class = FAST.replace(
            "parameters:",
            &format!("allowedTopologies: [{term}, {again}], parameters:"),
        );
        assert_eq!(
            Harness::new().errors(&class),
            [r#"allowedTopologies[1].matchLabelExpressions: Duplicate value: """#]
        );
    }
}
