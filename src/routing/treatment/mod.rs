//! Treatments: which consumer gets the next delivery of an address.

pub mod balanced;
