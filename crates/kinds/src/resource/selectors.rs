//! Device selectors: CEL expressions about one device
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>).

use std::sync::Arc;

use holdfast_cel::limits::PER_CALL;
use holdfast_cel::{CompileError, DeclField, DeclType, Environment, Type};
use holdfast_schema::Field;

use crate::admissionregistration::policy::error_of;
use crate::validation::Errors;

/// Maximum length of a selector expression in bytes.
const EXPRESSION: usize = 10 * 1024;
/// Maximum number of attributes, and of capacities, of a device.
const ATTRIBUTES: u64 = 32;
/// Maximum length of an attribute value in characters.
const ATTRIBUTE: u64 = 64;
const DRIVER_NAME: u64 = 63;

/// Reports an expression that is not a valid device selector.
///
/// upstream: pkg/apis/resource/validation#validateCELSelector
pub(super) fn validate_expression(expression: &Field<'_, '_>, errors: &mut Errors) {
    if expression.text().len() > EXPRESSION {
        errors.push(expression.too_long(EXPRESSION));
        return;
    }
    let compiled = environment().compile(expression.text(), &[Type::Bool, Type::Dyn]);
    errors.extend(match compiled {
        Ok(program) if program.estimate_cost().max > PER_CALL => {
            Some(expression.forbidden("too complex, exceeds cost limit"))
        }
        Ok(_) => None,
        Err(CompileError::Output { actual, .. }) => {
            let why = format!("must evaluate to bool or the unknown type, not {actual}");
            Some(expression.invalid_text(why))
        }
        Err(error) => Some(error_of(expression, expression.text(), &error)),
    });
}

/// Returns the environment of selectors: `device`, and `cel.bind` for repeated lookups.
fn environment() -> Environment {
    let of_domain = |values: DeclType| {
        let by_name = DeclType::map(values, Some(ATTRIBUTES));
        DeclType::map(by_name, Some(ATTRIBUTES))
    };
    let declared = [
        ("driver", DeclType::string(None).with_max_elements(DRIVER_NAME)),
        ("allowMultipleAllocations", DeclType::bool().with_max_elements(1)),
        ("attributes", of_domain(DeclType::dyn_().with_max_elements(ATTRIBUTE))),
        ("capacity", of_domain(DeclType::quantity())),
    ];
    let fields = declared
        .into_iter()
        .filter_map(|(name, decl)| DeclField::new(name, decl, true));
    let device = Arc::new(DeclType::object(fields));
    Environment::new()
        .with_named_object("device", "kubernetes.DRADevice", device)
        .with_bindings()
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn errors(expression: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {{name: a}}, spec: {{selectors: [{{cel: \
             {{expression: {expression:?}}}}}]}}}}"
        ))
    }

    #[test]
    fn expressions_are_about_a_device() {
        for expression in [
            "true",
            "device.driver == 'gpu.example.com'",
            "device.attributes['gpu.example.com'].model == 'a100'",
            "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.0.0'))",
            "device.capacity['gpu.example.com'].memory.compareTo(quantity('10Gi')) >= 0",
            "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.fast && gpu.new)",
            "device.attributes['gpu.example.com'].fast",
            "!device.allowMultipleAllocations",
        ] {
            assert!(errors(expression).is_empty(), "{expression}: {:?}", errors(expression));
        }
    }

    #[test]
    fn expressions_that_say_nothing_of_a_device_are_refused() {
        for (expression, message) in [
            ("1", "must evaluate to bool or the unknown type, not int"),
            (
                "device.drivers == 'a'",
                "compilation failed: ERROR: <input>:1:7: undefined field 'drivers'\n | device.drivers == 'a'\n | ......^",
            ),
            (
                "device.driver == 1",
                "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_' applied to '(string, int)'\n | device.driver == 1\n | ..............^",
            ),
        ] {
            assert_eq!(
                errors(expression),
                [format!(
                    "spec.selectors[0].cel.expression: Invalid value: {expression:?}: {message}"
                )]
            );
        }
    }

    #[test]
    fn expressions_that_may_cost_too_much_are_refused() {
        let list = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
        let nested = (0..6).fold("true".to_owned(), |inner, at| format!("{list}.all(x{at}, {inner})"));
        assert_eq!(
            errors(&nested),
            ["spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"]
        );
    }
}
