//! A pool: blocks of some devices, and who has each.

/// A block of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block {
    /// The device's number in the pool.
    pub device: u32,
    /// The block's number in the device's part of the pool.
    pub number: u32,
}

/// Who has a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// Nobody, and it may be granted.
    Free,
    /// A host.
    Host(usize),
    /// A host that is giving it up.
    Leaving,
    /// Nobody, until it has been scrubbed.
    Dirty,
}

/// Blocks in a row of one device that nobody has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first of them.
    pub first: Block,
    /// How many.
    pub blocks: u32,
}

impl Run {
    /// The first so many of its blocks.
    pub fn take(self, blocks: u32) -> impl Iterator<Item = Block> {
        let Block { device, number } = self.first;
        (number..number + blocks.min(self.blocks)).map(move |number| Block { device, number })
    }
}

/// The blocks of a pool. Whatever is asked of it that must not be is an error of ours, and ends the
/// program: a block is granted to one host at a time, and after a scrub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// By device, and by number.
    owners: Vec<Vec<Owner>>,
}

impl Pool {
    /// So many blocks on each of so many devices, all free.
    pub fn new(devices: u32, blocks: u32) -> Pool {
        Pool {
            owners: vec![vec![Owner::Free; blocks as usize]; devices as usize],
        }
    }

    /// All blocks, in order.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.all().map(|(block, _)| block)
    }

    fn all(&self) -> impl Iterator<Item = (Block, Owner)> {
        let devices = (0..).zip(&self.owners);
        devices.flat_map(|(device, owners)| {
            let numbers = (0..).zip(owners);
            numbers.map(move |(number, owner)| (Block { device, number }, *owner))
        })
    }

    fn count(&self, wanted: impl Fn(Owner) -> bool) -> u32 {
        self.all().filter(|(_, owner)| wanted(*owner)).count() as u32
    }

    /// How many blocks there are.
    pub fn total(&self) -> u32 {
        self.count(|_| true)
    }

    /// How many may be granted.
    pub fn free(&self) -> u32 {
        self.count(|owner| owner == Owner::Free)
    }

    /// How many a host has, without those that it gives up.
    pub fn of(&self, host: usize) -> u32 {
        self.count(|owner| owner == Owner::Host(host))
    }

    /// How many hosts have in all, without those that they give up.
    pub fn held(&self) -> u32 {
        self.count(|owner| matches!(owner, Owner::Host(_)))
    }

    /// How many hosts are giving up, or are being scrubbed.
    pub fn returning(&self) -> u32 {
        self.count(|owner| matches!(owner, Owner::Leaving | Owner::Dirty))
    }

    /// Whether a block may be granted.
    pub fn is_free(&self, block: Block) -> bool {
        self.owners[block.device as usize][block.number as usize] == Owner::Free
    }

    /// Free blocks in a row, in order.
    pub fn free_runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (block, _) in self.all().filter(|(_, owner)| *owner == Owner::Free) {
            match runs.last_mut() {
                Some(run)
                    if run.first.device == block.device
                        && run.first.number + run.blocks == block.number =>
                {
                    run.blocks += 1;
                }
                _ => runs.push(Run {
                    first: block,
                    blocks: 1,
                }),
            }
        }
        runs
    }

    /// Moves blocks from one owner to another.
    fn pass(&mut self, blocks: &[Block], from: Owner, to: Owner) {
        for block in blocks {
            let owner = &mut self.owners[block.device as usize][block.number as usize];
            assert_eq!(*owner, from, "{block:?} goes to {to:?}");
            *owner = to;
        }
    }

    /// A host is granted blocks.
    ///
    /// # Panics
    /// If one of them is not free.
    pub fn grant(&mut self, host: usize, blocks: &[Block]) {
        self.pass(blocks, Owner::Free, Owner::Host(host));
    }

    /// A host begins to give up blocks.
    ///
    /// # Panics
    /// If it does not have one of them.
    pub fn give_up(&mut self, host: usize, blocks: &[Block]) {
        self.pass(blocks, Owner::Host(host), Owner::Leaving);
    }

    /// A host has given up a block.
    ///
    /// # Panics
    /// If it was not giving it up.
    pub fn release(&mut self, block: Block) {
        self.pass(&[block], Owner::Leaving, Owner::Dirty);
    }

    /// A block has been scrubbed.
    ///
    /// # Panics
    /// If no host has released it.
    pub fn scrubbed(&mut self, block: Block) {
        self.pass(&[block], Owner::Dirty, Owner::Free);
    }
}
