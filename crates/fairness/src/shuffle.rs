//! Shuffle sharding: a flow's hand of queues, dealt from the hash of the flow.

/// Maximum size of a hand. A larger one would need more entropy than [`MAX_HASH_BITS`].
pub(crate) const MAX_HAND: usize = 15;

/// Maximum number of hash bits for a deal, so that the last card is dealt nearly uniformly.
const MAX_HASH_BITS: f64 = 60.0;

/// Dealer of hands of cards from a deck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealer {
    deck: u64,
    hand: usize,
}

/// Cards of a flow.
pub(crate) struct Hand {
    cards: [u64; MAX_HAND],
    size: usize,
}

impl Dealer {
    /// Creates a dealer of `hand` cards from `deck`; `None` if such a hand cannot be dealt.
    pub(crate) fn new(deck: u64, hand: u64) -> Option<Self> {
        let bits = ((deck as f64).log2() * hand as f64).ceil();
        let deals = hand > 0 && hand <= deck && deck <= 1 << 26 && bits <= MAX_HASH_BITS;
        let hand = usize::try_from(hand).ok().filter(|hand| *hand <= MAX_HAND)?;
        deals.then_some(Self { deck, hand })
    }

    /// Returns the hand of `hash`: distinct numbers below the size of the deck.
    pub(crate) fn deal(&self, mut hash: u64) -> Hand {
        let mut hand = Hand {
            cards: [0; MAX_HAND],
            size: self.hand,
        };
        let mut deck = self.deck;
        for card in hand.cards.iter_mut().take(self.hand) {
            *card = hash % deck;
            hash /= deck;
            deck -= 1;
        }
        // The n-th remainder is an index into the remaining cards: each earlier card that is not larger shifts it.
        for at in (1..self.hand).rev() {
            let (dealt, rest) = hand.cards.split_at_mut(at);
            if let Some(card) = rest.first_mut() {
                for before in dealt.iter().rev() {
                    *card += u64::from(*card >= *before);
                }
            }
        }
        hand
    }
}

impl Hand {
    /// Iterates over the cards in order, beginning at `offset`.
    pub(crate) fn from(&self, offset: u64) -> impl Iterator<Item = u32> {
        let size = self.size.max(1);
        let start = usize::try_from(offset % size as u64).unwrap_or_default();
        let cards = self.cards.iter().take(size);
        let turned = cards.clone().skip(start).chain(cards.take(start));
        turned.map(|card| u32::try_from(*card).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hand(deck: u64, size: u64, hash: u64) -> Vec<u32> {
        Dealer::new(deck, size).map_or_else(Vec::new, |dealer| dealer.deal(hash).from(0).collect())
    }

    #[test]
    fn hands_are_those_of_the_reference() {
        assert_eq!(hand(128, 6, 0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(hand(128, 6, u64::MAX), [127, 1, 7, 56, 91, 6]);
        assert_eq!(hand(64, 8, 0xfedc_ba98_7654_3210), [16, 57, 6, 29, 22, 30, 59, 8]);
        assert_eq!(hand(16, 4, 0x0123_4567_89ab_cdef), [15, 0, 7, 1]);
    }

    #[test]
    fn every_hand_has_different_cards_and_every_order_comes_up_once() {
        let hands: std::collections::HashSet<Vec<u32>> = (0..720).map(|hash| hand(6, 6, hash)).collect();
        assert_eq!(hands.len(), 720);
        assert_eq!(hand(6, 6, 719), [5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn a_hand_begins_at_its_offset() {
        let dealer = Dealer::new(16, 4).map(|dealer| dealer.deal(0x0123_4567_89ab_cdef));
        let turned: Vec<u32> = dealer.iter().flat_map(|hand| hand.from(6)).collect();
        assert_eq!(turned, [7, 1, 15, 0]);
    }

    #[test]
    fn impossible_hand_is_rejected() {
        assert!(Dealer::new(128, 8).is_some());
        for (deck, hand) in [(0, 0), (4, 0), (4, 5), (128, 9), (1 << 27, 1), (16, 16)] {
            assert_eq!(Dealer::new(deck, hand), None, "{deck} {hand}");
        }
    }
}
