use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

/// Plugin that rejects new external addresses of Services.
pub(super) struct DenyServiceExternalIPs;

impl AdmissionPlugin for DenyServiceExternalIPs {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_written("", "services")] }
    }

    /// upstream: plugin/pkg/admission/network/denyserviceexternalips#externalIPsDenierPlugin.Validate
    fn validate(
        &self,
        _context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let before = addresses(old);
        match addresses(object).iter().all(|address| before.contains(address)) {
            true => Ok(()),
            false => Err(Rejection::forbidden(
                "Use of external IPs is denied by admission control",
            )),
        }
    }
}

fn addresses(service: Option<&Value>) -> &[Value] {
    let list = service.and_then(|service| service.at(&["spec", "externalIPs"])?.as_list());
    list.map_or(&[], |list| list)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn services_keep_and_lose_external_addresses_but_get_none() {
        let service = |addresses: &str| {
            format!(
                "{{apiVersion: v1, kind: Service, metadata: {{name: s}}, spec: {{externalIPs: [{addresses}], ports: [{{port: \
                 1}}]}}}}"
            )
        };
        let harness = Harness::new();
        let rejected = "Use of external IPs is denied by admission control";
        let new = |addresses: &str| harness.admit("DenyServiceExternalIPs", &service(addresses));
        assert_eq!(new("1.2.3.4").unwrap_err(), rejected);
        assert!(new("").is_ok());
        let update =
            |from: &str, to: &str| harness.admit_update("DenyServiceExternalIPs", None, &service(from), &service(to));
        assert_eq!(update("1.2.3.4, 1.2.3.5", "1.2.3.5"), Ok(()));
        assert_eq!(update("1.2.3.4", "1.2.3.4, 1.2.3.5").unwrap_err(), rejected);
    }
}
