//! PriorityLevelConfigurations: concurrency limits of priority levels, and the handling of requests above them.

use holdfast_schema::{Check, Field, Part, Rules};

use super::EXEMPT;
use crate::rules::PriorityLevelRule;
use crate::validation::Errors;

const OF_EXEMPT: &str = "Exempt";
const LIMITED: &str = "Limited";
/// Number of bits of the hash that assigns queues to a flow.
const HASH_BITS: f64 = 60.0;

/// Validation rules of PriorityLevelConfigurations that validation tags do not cover.
pub(super) struct LevelRules<'n> {
    /// Name of the level.
    pub(super) name: &'n str,
}

impl<'v> Rules<'v> for LevelRules<'_> {
    type Rule = PriorityLevelRule;

    fn rule(&self, rule: PriorityLevelRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            PriorityLevelRule::Level => self.validate_level(part, check),
            PriorityLevelRule::Response => self.validate_response(part, check),
            PriorityLevelRule::HandSize => validate_hand(part, &mut check.errors),
        }
    }
}

impl LevelRules<'_> {
    /// upstream: pkg/apis/flowcontrol/validation#ValidatePriorityLevelConfigurationSpec
    fn validate_level<'v>(&self, spec: &Part<'v, '_>, check: &mut Check<'_>) {
        let (type_field, limited, exempt) = (spec.child("type"), spec.child("limited"), spec.child("exempt"));
        let errors = &mut check.errors;
        if (self.name == EXEMPT) != (type_field.text() == OF_EXEMPT) {
            errors.push(type_field.invalid_text("must be 'Exempt' if and only if `name` is 'exempt'"));
        }
        match type_field.text() {
            OF_EXEMPT => {
                if limited.is_set() {
                    errors.push(limited.forbidden("must be nil if the type is not Limited"));
                }
                check.field(spec, "exempt", self);
            }
            LIMITED => {
                if exempt.is_set() {
                    errors.push(exempt.forbidden("must be nil if the type is Limited"));
                }
                if !limited.is_set() {
                    errors.push(limited.required("must not be empty when type is Limited"));
                }
                check.field(spec, "limited", self);
            }
            _ => errors.push(type_field.not_supported(&[OF_EXEMPT, LIMITED])),
        }
    }

    /// upstream: pkg/apis/flowcontrol/validation#ValidateLimitResponse
    fn validate_response<'v>(&self, response: &Part<'v, '_>, check: &mut Check<'_>) {
        let (type_field, queuing) = (response.child("type"), response.child("queuing"));
        let errors = &mut check.errors;
        match type_field.text() {
            "Reject" if queuing.is_set() => {
                errors.push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"));
            }
            "Reject" => {}
            "Queue" if !queuing.is_set() => {
                errors.push(queuing.required("must not be empty if limited.limitResponse.type is Limited"));
            }
            "Queue" => check.field(response, "queuing", self),
            _ => errors.push(type_field.not_supported(&["Queue", "Reject"])),
        }
    }
}

/// Validates the hand size: it is at most the number of queues, and the hash has enough bits to deal the hand.
///
/// upstream: pkg/apis/flowcontrol/validation#ValidatePriorityLevelQueuingConfiguration
fn validate_hand(queuing: &Field<'_, '_>, errors: &mut Errors) {
    let hand = queuing.child("handSize");
    let deck = queuing.child("queues").number().unwrap_or_default();
    let cards = hand.number().unwrap_or_default();
    if cards <= 0 {
        errors.push(hand.invalid_as(cards, "must be positive"));
    } else if cards > deck {
        errors.push(hand.invalid(format!("should not be greater than queues ({deck})")));
    } else if bits_to_deal(deck, cards) > HASH_BITS {
        errors.push(hand.invalid(format!(
            "required entropy bits of deckSize {deck} and handSize {cards} should not be greater than {HASH_BITS}"
        )));
    }
}

/// Returns the number of bits for dealing a hand of cards from a deck. The loop stops above the bits of the hash, which
/// bounds the work for a large hand.
fn bits_to_deal(deck: i64, cards: i64) -> f64 {
    let mut bits = 0.0;
    for dealt in 0..cards {
        bits += ((deck - dealt) as f64).log2();
        if bits > HASH_BITS {
            break;
        }
    }
    bits.ceil()
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn level(name: &str, spec: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {{name: {name}}}, \
             spec: {{{spec}}}}}"
        ))
    }

    #[test]
    fn a_level_is_limited_unless_it_is_that_of_the_exempt() {
        assert_eq!(
            level("a", "type: Limited"),
            ["spec.limited: Required value: must not be empty when type is Limited"]
        );
        assert_eq!(
            level("a", "type: Exempt"),
            [r#"spec.type: Invalid value: "Exempt": must be 'Exempt' if and only if `name` is 'exempt'"#]
        );
        assert!(level("a", "type: Limited, limited: {limitResponse: {type: Reject}}").is_empty());
    }

    #[test]
    fn hands_fit_their_decks() {
        let queuing = |queuing: &str| {
            level(
                "a",
                &format!("type: Limited, limited: {{limitResponse: {{type: Queue, queuing: {{{queuing}}}}}}}"),
            )
        };
        assert!(queuing("queues: 64, handSize: 8").is_empty());
        assert_eq!(
            queuing("queues: 4, handSize: 8"),
            ["spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)"]
        );
        assert_eq!(
            queuing("queues: 1000000, handSize: 1000000"),
            [
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 1000000: required entropy bits of deckSize \
                 1000000 and handSize 1000000 should not be greater than 60"
            ]
        );
    }

    #[test]
    fn the_exempt_level_is_fixed() {
        assert!(level("exempt", "type: Exempt, exempt: {nominalConcurrencyShares: 5}").is_empty());
        assert_eq!(
            level("catch-all", "type: Limited, limited: {limitResponse: {type: Reject}}").len(),
            1
        );
    }
}
