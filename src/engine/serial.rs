//! Serial numbers (RFC 1982): delivery-ids, transfer-ids, delivery-counts (section 2.8.10) wrap at 2^32.

/// How far `to` lies ahead of `from`; negative when it lies behind.
#[inline]
pub(super) fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

/// How far `to` lies ahead of `from`, zero when it lies behind.
#[inline]
pub(super) fn ahead(from: u32, to: u32) -> u32 {
    distance(from, to).max(0) as u32
}

/// The last of a range that may name so many ids; None where `last` lies before `first`. A distance of exactly 2^31
/// has no order by the RFC; it is taken as a range.
#[inline]
pub(super) fn range_len_minus_one(first: u32, last: u32) -> Option<u32> {
    let span = last.wrapping_sub(first);
    (span <= 1 << 31).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        assert_eq!(distance(u32::MAX, 0), 1);
        assert_eq!(distance(0, u32::MAX), -1);
        assert_eq!(ahead(u32::MAX - 1, 3), 5);
        assert_eq!(ahead(3, u32::MAX - 1), 0);
        assert_eq!(range_len_minus_one(u32::MAX, 1), Some(2));
        assert_eq!(range_len_minus_one(1, 0), None);
        assert_eq!(range_len_minus_one(5, 5), Some(0));
    }
}
