//! Random numbers from a seed (SplitMix64), and nothing else: the same seed, the same numbers.

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A source of its own, so that what one part draws doesn't change another's.
    pub fn fork(&mut self) -> Random {
        Random::new(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `bound` - 1; 0 where that is nothing.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// Both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True `percent` times of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Small as a rule, up to `high` now and then: each order of magnitude is as likely.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let bits = 64 - high.saturating_sub(low).leading_zeros() as u64;
        let cut = self.below(bits + 1);
        (low + (self.next() & ((1u64 << cut.min(63)) - 1))).min(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_bounds_and_repeat() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        for _ in 0..10_000 {
            let value = a.skewed(3, 1000);
            assert!((3..=1000).contains(&value));
            assert_eq!(value, b.skewed(3, 1000));
            assert!(a.below(5) < 5);
            b.below(5);
            assert_eq!(a.between(9, 9), b.between(9, 9));
        }
        assert_eq!(a.below(0), 0);
    }
}
