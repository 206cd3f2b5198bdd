//! A pool: blocks of memory on some devices, and the owner of each.

/// A block of a pool: the unit in which memory is granted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolBlock {
    /// Number of the device in the pool.
    pub device: u32,
    /// Number of the block among the device's blocks in the pool.
    pub number: u32,
}

/// The owner of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockOwner {
    /// No owner; the block may be granted.
    Free,
    /// The host with this number.
    Host(usize),
    /// A host that is giving the block up.
    Leaving,
    /// No owner; the block must be scrubbed before it is granted again.
    Dirty,
}

/// Consecutive free blocks of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRun {
    /// The first block of the run.
    pub first: PoolBlock,
    /// Number of blocks in the run.
    pub blocks: u32,
}

impl BlockRun {
    /// The first `blocks` blocks of the run, or all of them if there are fewer.
    pub fn take(self, blocks: u32) -> impl Iterator<Item = PoolBlock> {
        let PoolBlock { device, number } = self.first;
        (number..number + blocks.min(self.blocks)).map(move |number| PoolBlock { device, number })
    }
}

/// The blocks of a pool with their owners. A block is granted to one host at a time, and only after a
/// scrub. A caller that breaks these rules has an error, and the pool panics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Owners by device, and by block number.
    owners: Vec<Vec<BlockOwner>>,
}

impl Pool {
    /// A pool of `devices` devices with `blocks` free blocks each.
    pub fn new(devices: u32, blocks: u32) -> Pool {
        Pool {
            owners: vec![vec![BlockOwner::Free; blocks as usize]; devices as usize],
        }
    }

    /// All blocks, in order of device and number.
    pub fn blocks(&self) -> impl Iterator<Item = PoolBlock> {
        self.all().map(|(block, _)| block)
    }

    fn all(&self) -> impl Iterator<Item = (PoolBlock, BlockOwner)> {
        let devices = (0..).zip(&self.owners);
        devices.flat_map(|(device, owners)| {
            let numbers = (0..).zip(owners);
            numbers.map(move |(number, owner)| (PoolBlock { device, number }, *owner))
        })
    }

    fn count(&self, wanted: impl Fn(BlockOwner) -> bool) -> u32 {
        self.all().filter(|(_, owner)| wanted(*owner)).count() as u32
    }

    /// Number of blocks in the pool.
    pub fn total(&self) -> u32 {
        self.count(|_| true)
    }

    /// Number of blocks that may be granted.
    pub fn free(&self) -> u32 {
        self.count(|owner| owner == BlockOwner::Free)
    }

    /// Number of blocks of a host, without those that it is giving up.
    pub fn of(&self, host: usize) -> u32 {
        self.count(|owner| owner == BlockOwner::Host(host))
    }

    /// Number of blocks of all hosts, without those that they are giving up.
    pub fn held(&self) -> u32 {
        self.count(|owner| matches!(owner, BlockOwner::Host(_)))
    }

    /// Number of blocks that hosts are giving up or that are being scrubbed.
    pub fn returning(&self) -> u32 {
        self.count(|owner| matches!(owner, BlockOwner::Leaving | BlockOwner::Dirty))
    }

    /// Whether a block has no owner and needs no scrub.
    pub fn is_free(&self, block: PoolBlock) -> bool {
        self.owners[block.device as usize][block.number as usize] == BlockOwner::Free
    }

    /// Runs of free blocks, in order of device and number.
    pub fn free_runs(&self) -> Vec<BlockRun> {
        let mut runs: Vec<BlockRun> = Vec::new();
        for (block, _) in self.all().filter(|(_, owner)| *owner == BlockOwner::Free) {
            match runs.last_mut() {
                Some(run)
                    if run.first.device == block.device
                        && run.first.number + run.blocks == block.number =>
                {
                    run.blocks += 1;
                }
                _ => runs.push(BlockRun {
                    first: block,
                    blocks: 1,
                }),
            }
        }
        runs
    }

    /// Moves blocks from one owner to another. Panics if `from` is not the owner.
    fn pass(&mut self, blocks: &[PoolBlock], from: BlockOwner, to: BlockOwner) {
        for block in blocks {
            let owner = &mut self.owners[block.device as usize][block.number as usize];
            assert_eq!(*owner, from, "{block:?} goes to {to:?}");
            *owner = to;
        }
    }

    /// Grants blocks to a host.
    ///
    /// # Panics
    /// If one of the blocks is not free.
    pub fn grant(&mut self, host: usize, blocks: &[PoolBlock]) {
        self.pass(blocks, BlockOwner::Free, BlockOwner::Host(host));
    }

    /// Begins to take blocks from a host.
    ///
    /// # Panics
    /// If one of the blocks does not belong to the host.
    pub fn give_up(&mut self, host: usize, blocks: &[PoolBlock]) {
        self.pass(blocks, BlockOwner::Host(host), BlockOwner::Leaving);
    }

    /// Records that a host has given up a block.
    ///
    /// # Panics
    /// If no host was giving up the block.
    pub fn release(&mut self, block: PoolBlock) {
        self.pass(&[block], BlockOwner::Leaving, BlockOwner::Dirty);
    }

    /// Records that a block has been scrubbed.
    ///
    /// # Panics
    /// If no host has released the block.
    pub fn scrubbed(&mut self, block: PoolBlock) {
        self.pass(&[block], BlockOwner::Dirty, BlockOwner::Free);
    }
}
