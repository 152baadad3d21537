//! Random numbers for offsets and names.

/// A random generator (xorshift64*): fast, and good enough for offsets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator with its own sequence for each `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(mixed) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_reach_every_block_and_none_beyond() {
        let mut seen = [0u32; 16];
        let mut random = Random::new(0);
        (0..16_000).for_each(|_| seen[random.below(16) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        let (mut a, mut b) = (Random::new(1), Random::new(2));
        assert_ne!(a.below(u64::MAX), b.below(u64::MAX));
    }
}
