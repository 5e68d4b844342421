//! PriorityLevelConfigurations: how many requests of a level may run, and what becomes of the others.

use holdfast_resource::Field;

use super::EXEMPT;
use crate::validation::Errors;

const OF_EXEMPT: &str = "Exempt";
const LIMITED: &str = "Limited";
const QUEUES: i64 = 10_000_000;
/// As many bits as the hash has that deals a flow its queues.
const HASH_BITS: f64 = 60.0;

/// Reports what is wrong with the specification of the object of that name.
pub(super) fn validate_spec(spec: &Field<'_, '_>, name: &str, errors: &mut Errors) {
    let (sort, limited, exempt) = (spec.child("type"), spec.child("limited"), spec.child("exempt"));
    if (name == EXEMPT) != (sort.text() == OF_EXEMPT) {
        errors.push(sort.invalid_text("must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    match sort.text() {
        OF_EXEMPT => {
            if limited.is_set() {
                errors.push(limited.forbidden("must be nil if the type is not Limited"));
            }
            if exempt.is_set() {
                validate_shares(&exempt, errors);
            }
        }
        LIMITED => {
            if exempt.is_set() {
                errors.push(exempt.forbidden("must be nil if the type is Limited"));
            }
            if limited.is_set() {
                validate_response(&limited.child("limitResponse"), errors);
                validate_shares(&limited, errors);
            } else {
                errors.push(limited.required("must not be empty when type is Limited"));
            }
        }
        _ => errors.push(sort.not_supported(&[OF_EXEMPT, LIMITED])),
    }
}

/// Reports shares below zero, and shares that are lent or borrowed beyond what there is.
fn validate_shares(level: &Field<'_, '_>, errors: &mut Errors) {
    let (shares, lent, borrowed) = (
        level.child("nominalConcurrencyShares"),
        level.child("lendablePercent"),
        level.child("borrowingLimitPercent"),
    );
    if shares.number().is_some_and(|shares| shares < 0) {
        errors.push(shares.invalid("must be a non-negative integer"));
    }
    if lent.number().is_some_and(|percent| !(0..=100).contains(&percent)) {
        errors.push(lent.invalid("must be between 0 and 100, inclusive"));
    }
    if borrowed.number().is_some_and(|percent| percent < 0) {
        errors.push(borrowed.invalid("if specified, must be a non-negative integer"));
    }
}

fn validate_response(response: &Field<'_, '_>, errors: &mut Errors) {
    let (sort, queuing) = (response.child("type"), response.child("queuing"));
    match sort.text() {
        "Reject" if queuing.is_set() => {
            errors.push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"));
        }
        "Reject" => {}
        "Queue" if !queuing.is_set() => {
            errors.push(queuing.required("must not be empty if limited.limitResponse.type is Limited"));
        }
        "Queue" => validate_queuing(&queuing, errors),
        _ => errors.push(sort.not_supported(&["Queue", "Reject"])),
    }
}

fn validate_queuing(queuing: &Field<'_, '_>, errors: &mut Errors) {
    let (length, queues, hand) = (
        queuing.child("queueLengthLimit"),
        queuing.child("queues"),
        queuing.child("handSize"),
    );
    let number = |field: &Field<'_, '_>| field.number().unwrap_or_default();
    if number(&length) <= 0 {
        errors.push(length.invalid_as(number(&length), "must be positive"));
    }
    let deck = number(&queues);
    if deck <= 0 {
        errors.push(queues.invalid_as(deck, "must be positive"));
    } else if deck > QUEUES {
        errors.push(queues.invalid(format!("must not be greater than {QUEUES}")));
    }
    let cards = number(&hand);
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

/// How many bits it takes to deal a hand of cards from a deck. No hand of more cards than the hash has bits fits a deck of
/// as many, so that the sum is short.
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
