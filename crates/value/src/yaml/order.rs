use std::cmp::Ordering;

use crate::tree::Entry;

/// Compares keys of a mapping in the reference's output order: letters by their code and after all other characters,
/// runs of digits by their value.
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
            // Zeros are not leading if digits of the same number precede them.
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

/// Sorts the entries with [`natural`]. The reference's comparison is not a valid order for some keys: of three keys
/// each may sort before the next. The standard library's sort panics on such a comparison, this one does not.
pub(super) fn in_natural_order<'a>(entries: &[&'a Entry]) -> Vec<&'a Entry> {
    if entries.len() < 2 {
        return entries.to_vec();
    }
    let (left, right) = entries.split_at(entries.len() / 2);
    let mut left = in_natural_order(left).into_iter().peekable();
    let mut right = in_natural_order(right).into_iter().peekable();
    let mut sorted = Vec::with_capacity(entries.len());
    while let (Some((one, _)), Some((other, _))) = (left.peek(), right.peek()) {
        let takes_right = natural(other, one).is_lt();
        sorted.extend(if takes_right { right.next() } else { left.next() });
    }
    sorted.extend(left);
    sorted.extend(right);
    sorted
}

/// True if the run of digits that ends before character `at` has one other than zero.
fn has_digit_before(text: &str, at: usize) -> bool {
    let before: Vec<char> = text.chars().take(at).collect();
    before
        .iter()
        .rev()
        .take_while(|character| character.is_ascii_digit())
        .any(|character| *character != '0')
}

/// Returns the value and the length of the leading run of digits; the value continues from `start`.
fn number(start: u64, text: impl Iterator<Item = char>) -> (u64, usize) {
    text.map_while(|character| character.to_digit(10))
        .fold((start, 0), |(value, digits), digit| {
            (value.wrapping_mul(10).wrapping_add(u64::from(digit)), digits + 1)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Value;

    #[test]
    fn keys_that_have_no_order_are_all_there() {
        let letters = ['0', '1', '2', '3', 'a', '.', '-', '\''];
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            letters[(state >> 16) as usize % letters.len()]
        };
        let entries: Vec<Entry> = (0..2_000)
            .map(|number| ((0..number % 30).map(|_| next()).collect::<String>().into(), Value::Null))
            .collect();
        let sorted = in_natural_order(&entries.iter().collect::<Vec<_>>());
        let text = |keys: &mut Vec<String>| {
            keys.sort_unstable();
            keys.concat()
        };
        let mut before: Vec<String> = entries.iter().map(|(key, _)| key.to_string()).collect();
        let mut after: Vec<String> = sorted.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(text(&mut before), text(&mut after));
    }

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
