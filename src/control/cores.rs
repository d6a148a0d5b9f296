//! How many shards there are, and on which cores.

use super::log::Log;
use crate::ids::SHARDS_MAX;
use crate::log::{Level, Module};
use core_affinity::CoreId;

/// A core for each shard, of those that the process may use: as many as `wanted`, or all.
pub fn choose(wanted: Option<u16>, log: &mut Log) -> Vec<Option<CoreId>> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let chosen = spread(&cores, wanted, std::process::id());
    if let Some(wanted) = wanted.filter(|wanted| usize::from(*wanted) > chosen.len()) {
        let there = chosen.len();
        log.write(
            Module::Server,
            Level::Notice,
            format_args!(
                "{wanted} threads are asked for, {there} are started: one for each core that the process may use, \
                 at most {SHARDS_MAX}"
            ),
        );
    }
    chosen
}

/// `seed`: where to begin, so that several routers on a machine don't all sit on its first cores.
fn spread(cores: &[CoreId], wanted: Option<u16>, seed: u32) -> Vec<Option<CoreId>> {
    if cores.is_empty() {
        return vec![None];
    }
    let count = wanted.map_or(cores.len(), usize::from).clamp(1, cores.len().min(SHARDS_MAX));
    let from_seed = cores.iter().cycle().skip(seed as usize % cores.len());
    from_seed.take(count).copied().map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread_over(cores: &[usize], wanted: Option<u16>, seed: u32) -> Vec<usize> {
        let cores: Vec<CoreId> = cores.iter().map(|id| CoreId { id: *id }).collect();
        spread(&cores, wanted, seed).into_iter().flatten().map(|core| core.id).collect()
    }

    #[test]
    fn each_shard_has_a_core_of_its_own() {
        let cores = [2, 3, 6];
        assert_eq!(spread_over(&cores, None, 3), [2, 3, 6]);
        assert_eq!(spread_over(&cores, Some(2), 4), [3, 6]);
        assert_eq!(spread_over(&cores, Some(2), 5), [6, 2]);
        assert_eq!(spread_over(&cores, Some(9), 5), [6, 2, 3]);
        assert_eq!(spread(&[], Some(2), 5), [None]);
        let many: Vec<usize> = (0..300).collect();
        assert_eq!(spread_over(&many, None, 0).len(), SHARDS_MAX);
        assert_eq!(spread_over(&many, Some(300), 0).len(), SHARDS_MAX);
    }
}
