//! Runs the checks of the fuzz target `texts` on seeded mutations of sample texts.

mod invariants;

const SAMPLES: [&str; 10] = [
    "1.5Gi",
    "-12e-3",
    "000000000000800000000000000000000000000000E0000009",
    "9223372036854775807Ki",
    "0.1234567890123456789Ei",
    "100000000000000000000.0000000001",
    "1h2m3.5s",
    "2024-02-29T23:59:22.123456+01:30",
    "0000-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59.999999-24:60",
];

/// Characters that are significant to one of the parsers.
const SIGNIFICANT: &[u8] = b"0123456789.+-eEnumkKMGTPi:TZhs,";

#[test]
fn texts_are_read_from_themselves_as_the_same() {
    // xorshift, so that each run feeds the same texts.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound.max(1) as u64) as usize
    };
    for sample in SAMPLES {
        invariants::text(sample);
        for _ in 0..20_000 {
            let mut text = sample.as_bytes().to_vec();
            for _ in 0..=below(4) {
                let (at, letter) = (below(text.len() + 1), below(SIGNIFICANT.len()));
                let letter = SIGNIFICANT.get(letter).copied().unwrap_or(b'0');
                match below(4) {
                    0 => text.insert(at, letter),
                    1 => text.truncate(at.max(1)),
                    2 => drop(text.drain(at..(at + below(5)).min(text.len()))),
                    _ => text.extend(std::iter::repeat_n(letter, below(12))),
                }
            }
            invariants::text(&String::from_utf8_lossy(&text));
        }
    }
}
