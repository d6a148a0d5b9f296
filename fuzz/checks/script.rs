//! The bytes that a check plays. Shared, by inclusion, by the checks.

/// A script's bytes; behind its end zeros.
pub struct Script<'a> {
    pub data: &'a [u8],
}

impl<'a> Script<'a> {
    pub fn byte(&mut self) -> u8 {
        match self.data.split_first() {
            Some((&first, rest)) => {
                self.data = rest;
                first
            }
            None => 0,
        }
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// As many as the first of them says, or are left.
    pub fn bytes(&mut self) -> &'a [u8] {
        let count = (self.byte() as usize).min(self.data.len());
        let (first, rest) = self.data.split_at(count);
        self.data = rest;
        first
    }
}
