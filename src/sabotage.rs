//! Errors made on purpose, for the simulator alone: each shows that a checker finds errors of its kind.
//!
//! Owns: their names, and the switch. Doesn't: exist in a router's build, where the switch has no place for one and each
//! question to it is answered at compile time.
//! Driven by: the simulator, through the settings of engine and routing; some it makes itself, at its lanes and sockets.

/// At most one error, switched on with the feature `sim` alone.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Switch {
    #[cfg(feature = "sim")]
    on: Option<Sabotage>,
}

/// One error. None is so coarse that every delivery meets it: such a one would be found by the first that looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// A consumer's flow is read as one credit more than it gave.
    Overdraw,
    /// A sender's grant goes beyond the share rule's budget.
    Overgrant,
    /// Some grants never reach their senders.
    LoseGrant,
    /// What a sender was told of its deliveries is told again.
    SettleTwice,
    /// Some settled deliveries are settled without a word to their senders.
    LoseOutcome,
    /// Some deliveries are sent twice.
    SendTwice,
    /// Some that wait go before those that came earlier.
    Overtake,
    /// Some multicast messages miss one of their consumers.
    MissCopy,
    /// Some parcels between shards get lost.
    LoseParcel,
    /// Some threshold edges get lost.
    LoseEdge,
    /// Some buffers that were sent are never given back.
    LoseBuffers,
    /// Some deliveries aren't counted when they arrive.
    Miscount,
}

impl Sabotage {
    pub const ALL: [Sabotage; 12] = [
        Sabotage::Overdraw,
        Sabotage::Overgrant,
        Sabotage::LoseGrant,
        Sabotage::SettleTwice,
        Sabotage::LoseOutcome,
        Sabotage::SendTwice,
        Sabotage::Overtake,
        Sabotage::MissCopy,
        Sabotage::LoseParcel,
        Sabotage::LoseEdge,
        Sabotage::LoseBuffers,
        Sabotage::Miscount,
    ];
}

impl Switch {
    #[cfg(feature = "sim")]
    pub fn on(sabotage: Sabotage) -> Switch {
        Switch { on: Some(sabotage) }
    }

    #[inline(always)]
    pub fn is(self, _sabotage: Sabotage) -> bool {
        #[cfg(feature = "sim")]
        return self.on == Some(_sabotage);
        #[cfg(not(feature = "sim"))]
        return false;
    }

    /// Whether an error meets one of those that it could meet, by a number of theirs.
    #[inline(always)]
    pub fn meets(self, sabotage: Sabotage, number: u32) -> bool {
        self.is(sabotage) && number % 8 == 5
    }
}
