use std::cmp::Ordering;

/// The order in which the reference writes the keys of a mapping: letters by their code and after anything else, runs of
/// digits by their value.
pub(super) fn natural(a: &str, b: &str) -> Ordering {
    let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let mut a_rest = a.chars().skip(common);
    let mut b_rest = b.chars().skip(common);
    let (a_next, b_next) = match (a_rest.next(), b_rest.next()) {
        (Some(a_next), Some(b_next)) => (a_next, b_next),
        (a_next, b_next) => return a_next.is_some().cmp(&b_next.is_some()),
    };
    match (a_next.is_alphabetic(), b_next.is_alphabetic()) {
        (true, true) => a_next.cmp(&b_next),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            // Zeros do not lead a number that digits before them belong to.
            let significant = (a_next == '0' || b_next == '0') && has_digit_before(a, common);
            let start = u64::from(significant);
            let (a_value, a_digits) = number(start, std::iter::once(a_next).chain(a_rest));
            let (b_value, b_digits) = number(start, std::iter::once(b_next).chain(b_rest));
            a_value
                .cmp(&b_value)
                .then(a_digits.cmp(&b_digits))
                .then(a_next.cmp(&b_next))
        }
    }
}

/// Whether the run of digits that ends before character `at` has one other than zero.
fn has_digit_before(text: &str, at: usize) -> bool {
    let before: Vec<char> = text.chars().take(at).collect();
    before
        .iter()
        .rev()
        .take_while(|character| character.is_ascii_digit())
        .any(|character| *character != '0')
}

/// The value and the length of the run of digits at the start; the value grows from `start`.
fn number(start: u64, text: impl Iterator<Item = char>) -> (u64, usize) {
    text.map_while(|character| character.to_digit(10))
        .fold((start, 0), |(value, digits), digit| {
            (value.wrapping_mul(10).wrapping_add(u64::from(digit)), digits + 1)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_natural_order() {
        let sorted = [
            "", ".", "1", "2", "10", "a", "a-b", "a1", "a2", "a02", "a10", "a100", "aB", "ab", "b", "f:a", "é",
        ];
        let mut keys = sorted;
        keys.reverse();
        keys.sort_by(|a, b| natural(a, b));
        assert_eq!(keys, sorted);
    }
}
