//! How many a second, as a count that only grows tells it.

/// Seconds that a rate is taken over, the current one among them.
const SECONDS: u32 = 5;

/// What a count was at the end of each of the last seconds. Whoever changes the count says so before, which costs a look
/// at the second in all cases but the first of each.
///
/// ```
/// use ringway::routing::Rate;
/// let (mut rate, mut count) = (Rate::default(), 0);
/// for second in 100..104 {
///     rate.about_to_change(second, || count);
///     count += 50;
/// }
/// assert_eq!(rate.per_second(104, count), 40);
/// assert_eq!(rate.per_second(107, count), 10);
/// assert_eq!(rate.per_second(109, count), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rate {
    second: u32,
    /// By the second's number, modulo; they wrap as the count's low half does.
    counts: [u32; SECONDS as usize],
}

impl Rate {
    /// The count may change now; `count` is what it is so far.
    #[inline]
    pub fn about_to_change(&mut self, second: u32, count: impl FnOnce() -> u64) {
        if second != self.second {
            self.turn(second, count());
        }
    }

    #[cold]
    fn turn(&mut self, second: u32, count: u64) {
        for ended in self.second..second.min(self.second.saturating_add(SECONDS)) {
            self.counts[(ended % SECONDS) as usize] = count as u32;
        }
        if second > self.second.saturating_add(SECONDS) {
            self.counts = [count as u32; SECONDS as usize];
        }
        self.second = second;
    }

    /// The rate over the last seconds.
    pub fn per_second(mut self, second: u32, count: u64) -> u32 {
        self.about_to_change(second, || count);
        // What it was at the end of the second that is just beyond.
        let before = self.counts[(second % SECONDS) as usize];
        (count as u32).wrapping_sub(before) / SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_came_in_the_last_seconds() {
        // By a plain list of moments.
        let mut moments: Vec<u32> = Vec::new();
        let mut rate = Rate::default();
        let mut random = 3u64;
        let mut second = 7;
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            second += [0, 0, 0, 1, 1, 2, 9][(random >> 33) as usize % 7];
            rate.about_to_change(second, || moments.len() as u64);
            moments.extend(std::iter::repeat_n(second, (random >> 40) as usize % 30));
            for later in 0..8 {
                let now = second + later;
                let recent = moments.iter().filter(|moment| **moment + SECONDS > now).count() as u32;
                assert_eq!(rate.per_second(now, moments.len() as u64), recent / SECONDS);
            }
        }
    }
}
