//! The table of addresses: from a name to the address, hashed with a seed that peers don't know.

use crate::ids::AddressId;
use crate::routing::name::{Class, Name};
use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// Makes hashers that begin with the seed, so that a peer can't choose names that collide.
#[derive(Clone)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;
    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

type Names = HashMap<Box<str>, AddressId, Seeded>;

/// Addresses by their names, a class each.
pub struct AddressTable {
    mobile: Names,
    local: Names,
}

impl AddressTable {
    pub fn new(seed: u64) -> AddressTable {
        let names = || HashMap::with_hasher(Seeded(seed));
        AddressTable { mobile: names(), local: names() }
    }

    fn class(&self, class: Class) -> Option<&Names> {
        match class {
            Class::Mobile => Some(&self.mobile),
            Class::Local => Some(&self.local),
            Class::Router => None,
        }
    }

    fn class_mut(&mut self, class: Class) -> Option<&mut Names> {
        match class {
            Class::Mobile => Some(&mut self.mobile),
            Class::Local => Some(&mut self.local),
            Class::Router => None,
        }
    }

    pub fn find(&self, name: Name<'_>) -> Option<AddressId> {
        self.class(name.class)?.get(name.rest).copied()
    }

    pub fn insert(&mut self, name: Name<'_>, id: AddressId) {
        if let Some(names) = self.class_mut(name.class) {
            names.insert(name.rest.into(), id);
        }
    }

    pub fn remove(&mut self, name: Name<'_>) {
        if let Some(names) = self.class_mut(name.class) {
            names.remove(name.rest);
        }
    }

    pub fn len(&self) -> usize {
        self.mobile.len() + self.local.len()
    }
}
