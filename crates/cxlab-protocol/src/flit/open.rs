//! The open flit of a link, represented by the number of its content.
//!
//! Open flits have few distinct contents. Requests and writes fill 256-byte flits in 1,046 ways that
//! matter, their responses in 7,046. What [`FlitPacker`] does with each content and message is therefore
//! computed once per program and stored in a table. A link stores a number instead of a packer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::format::FlitFormat;
use super::packer::{FlitPacker, FlitPosition};
use crate::opcode::Channel;

/// Number of contents that a table has room for: twice the number that links with CXL.mem without
/// back-invalidation reach in 256-byte flits. Traffic of more classes has more contents (100,000 to
/// 300,000 with back-invalidation). A content outside the table is packed by a packer of the link.
const ROOM: usize = 1 << 14;

/// The number that stands for every content outside the table, which the link packs itself.
const OWN: u32 = ROOM as u32 - 1;

/// The first content: the flit is empty, and the last flit does not limit it.
const FRESH: u32 = EMPTY;

/// Number of entries for the steps of a flit: a message of each class of CXL.mem and CXL.cache, a
/// message with byte enables after its line, and the start of transmission.
const STEPS: usize = 16;
const RWD_TRAILER: usize = Channel::IoPosted.index();
const D2H_TRAILER: usize = RWD_TRAILER + 1;
const BEGINS: usize = D2H_TRAILER + 1;
const _: () = assert!(BEGINS < STEPS);

/// The result of a step: 0 if unknown, otherwise the number of the next content and the bits below.
type Step = AtomicU32;
const NUMBER: u32 = ROOM as u32 - 1;
/// The flit is empty.
const EMPTY: u32 = 1 << 14;
const KNOWN: u32 = 1 << 15;
/// The flit has a slot for the message.
const PLACED: u32 = 1 << 16;
/// The last byte of the message is in the second half.
const SECOND_HALF: u32 = 1 << 17;
/// The lowest bit of [`FlitPosition::last_flit`], or of the number that [`FlitPacker::close`] returns.
const FLITS: u32 = 18;

/// The steps of one content, in one cache line.
#[repr(align(64))]
struct Steps([Step; STEPS]);

/// By format and content: the results of the steps. The table grows while a program runs. Its
/// results do not depend on the time of the lookup or on the thread. Only the numbers of contents
/// do, and they are not visible outside this module.
static CONTENTS: [[Steps; ROOM]; FlitFormat::ALL.len()] =
    [const { [const { Steps([const { Step::new(0) }; STEPS]) }; ROOM] }; FlitFormat::ALL.len()];

/// The contents by their numbers, and the numbers by content. The counters of the contents are zero.
struct KnownContents {
    packers: Vec<FlitPacker>,
    numbers: HashMap<FlitPacker, u32>,
}

/// The known contents of each format.
static KNOWN_CONTENTS: [LazyLock<Mutex<KnownContents>>; FlitFormat::ALL.len()] = [
    LazyLock::new(|| KnownContents::nothing(FlitFormat::B68)),
    LazyLock::new(|| KnownContents::nothing(FlitFormat::B256)),
    LazyLock::new(|| KnownContents::nothing(FlitFormat::B256Pbr)),
    LazyLock::new(|| KnownContents::nothing(FlitFormat::B256LatencyOptimized)),
];

/// The known contents of a format, locked.
fn known(format: FlitFormat) -> MutexGuard<'static, KnownContents> {
    // The contents are complete at any time, so a poisoned lock is no obstacle.
    let known = KNOWN_CONTENTS[format as usize].lock();
    known.unwrap_or_else(PoisonError::into_inner)
}

impl KnownContents {
    /// A table that has only the first content.
    fn nothing(format: FlitFormat) -> Mutex<KnownContents> {
        let fresh = FlitPacker::new(format);
        Mutex::new(KnownContents {
            packers: vec![fresh],
            numbers: HashMap::from([(fresh, 0)]),
        })
    }

    /// The number of a content, with [`EMPTY`] if the flit is empty. `None` if the table has no
    /// room for a further content.
    fn number(&mut self, packer: &FlitPacker) -> Option<u32> {
        let content = packer.without_counters();
        let next = self.packers.len() as u32;
        let number = match self.numbers.get(&content) {
            Some(number) => *number,
            None if next < OWN => {
                self.packers.push(content);
                self.numbers.insert(content, next);
                next
            }
            None => return None,
        };
        Some(number | emptiness(packer))
    }
}

/// Takes a step with a packer. Returns the result without the number of the next content.
fn taken(packer: &mut FlitPacker, what: usize) -> u32 {
    let placed = match what {
        BEGINS => return KNOWN | packer.close() << FLITS,
        RWD_TRAILER => packer.place_with_trailer(Channel::M2sRwd),
        D2H_TRAILER => packer.place_with_trailer(Channel::D2hData),
        class => packer.place(Channel::ALL[class]),
    };
    match placed {
        None => KNOWN,
        Some(placement) => {
            let second = if placement.last_half > 0 {
                SECOND_HALF
            } else {
                0
            };
            KNOWN | PLACED | second | placement.last_flit << FLITS
        }
    }
}

/// [`EMPTY`] if the open flit of the packer is empty, otherwise 0.
fn emptiness(packer: &FlitPacker) -> u32 {
    if packer.is_empty() { EMPTY } else { 0 }
}

/// The open flit of a link. It behaves as a [`FlitPacker`], without counters and faster. Only its
/// first eight bytes are accessed while the content is in the table.
#[derive(Clone)]
#[repr(C)]
pub struct OpenFlit {
    /// The number of the content, with [`EMPTY`].
    content: u32,
    format: FlitFormat,
    /// The packer of a content that is not in the table.
    own: Option<Box<FlitPacker>>,
}

impl OpenFlit {
    /// An empty flit of a link that has sent nothing.
    pub fn new(format: FlitFormat) -> Self {
        OpenFlit {
            content: FRESH,
            format,
            own: None,
        }
    }

    /// The open flit with the content of a packer.
    fn of(packer: FlitPacker) -> Self {
        let mut flit = OpenFlit::new(packer.format());
        let number = known(flit.format).number(&packer);
        flit.come_to(number, packer);
        flit
    }

    /// Format of the link's flits.
    #[inline]
    pub fn format(&self) -> FlitFormat {
        self.format
    }

    /// Whether the flit is empty: see [`FlitPacker::is_empty`].
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.content & EMPTY != 0
    }

    /// Places a message: see [`FlitPacker::place`].
    ///
    /// # Panics
    /// If the class is one of CXL.io, which has flits of its own.
    #[inline]
    pub fn place(&mut self, channel: Channel) -> Option<FlitPosition> {
        debug_assert!(!channel.is_io(), "{channel:?} has no slots");
        self.place_step(channel.index())
    }

    /// Places a message with byte enables: see [`FlitPacker::place_with_trailer`].
    ///
    /// # Panics
    /// If the class has no byte enables.
    #[cold]
    pub fn place_with_trailer(&mut self, channel: Channel) -> Option<FlitPosition> {
        match channel {
            Channel::M2sRwd => self.place_step(RWD_TRAILER),
            Channel::D2hData => self.place_step(D2H_TRAILER),
            other => panic!("{other:?} has no byte enables"),
        }
    }

    #[inline]
    fn place_step(&mut self, what: usize) -> Option<FlitPosition> {
        let step = self.step(what);
        if step & PLACED == 0 {
            return None;
        }
        Some(FlitPosition {
            last_flit: step >> FLITS,
            last_half: u8::from(step & SECOND_HALF != 0),
        })
    }

    /// Begins transmission of the flit: see [`FlitPacker::close`].
    #[inline]
    pub fn close(&mut self) -> u32 {
        self.step(BEGINS) >> FLITS
    }

    /// Index of the content in the table.
    #[inline]
    fn number(&self) -> usize {
        (self.content & NUMBER) as usize
    }

    /// Results of the steps from the current content.
    #[inline]
    fn steps(&self) -> &'static [Step; STEPS] {
        &CONTENTS[self.format as usize][self.number()].0
    }

    /// Takes a step and returns its result.
    #[inline]
    fn step(&mut self, what: usize) -> u32 {
        let step = self.steps()[what].load(Ordering::Relaxed);
        if step == 0 {
            return self.step_by_packer(what);
        }
        self.content = step & (NUMBER | EMPTY);
        step
    }

    /// Takes a step whose result is unknown. The result is computed, and stored if the table has room for it.
    #[cold]
    #[inline(never)]
    fn step_by_packer(&mut self, what: usize) -> u32 {
        if let Some(own) = &mut self.own {
            let step = taken(own, what);
            self.content = OWN | emptiness(own);
            // Only once nothing is left of the content: a lookup after each step would take longer.
            if own.is_fresh() {
                self.own = None;
                self.content = FRESH;
            }
            return step;
        }
        let mut known = known(self.format);
        let mut packer = known.packers[self.number()];
        let step = taken(&mut packer, what);
        let number = known.number(&packer);
        if let Some(number) = number {
            self.steps()[what].store(step | number, Ordering::Relaxed);
        }
        self.come_to(number, packer);
        step
    }

    /// Switches to a content: the one with this number, or the content of the packer.
    fn come_to(&mut self, number: Option<u32>, packer: FlitPacker) {
        self.content = number.unwrap_or(OWN | emptiness(&packer));
        self.own = match number {
            Some(_) => None,
            None => Some(Box::new(packer)),
        };
    }

    /// A packer with the same content.
    fn packer(&self) -> FlitPacker {
        match &self.own {
            Some(own) => own.without_counters(),
            None => known(self.format).packers[self.number()],
        }
    }
}

impl std::fmt::Debug for OpenFlit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.packer().fmt(out)
    }
}

impl Serialize for OpenFlit {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.packer().serialize(to)
    }
}

impl<'de> Deserialize<'de> for OpenFlit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        FlitPacker::deserialize(from).map(OpenFlit::of)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use cxlab_engine::rng::StreamRng;
    use cxlab_engine::state::{StateReader, StateWriter};

    /// Takes random steps with messages of these classes. Returns how many steps a packer of the link took.
    fn walk(format: FlitFormat, classes: &[Channel], steps: u32) -> u32 {
        let mut rng = StreamRng::new(7, "open flit");
        let mut flit = OpenFlit::new(format);
        let mut packer = FlitPacker::new(format);
        let mut own = 0;
        for step in 0..steps {
            if !packer.is_empty() && rng.chance(0.15) {
                assert_eq!(flit.close(), packer.close(), "{format:?} step {step}");
            } else {
                let class = classes[rng.below(classes.len() as u64) as usize];
                let partial = matches!(class, Channel::D2hData) && rng.chance(0.5);
                let placed = match partial {
                    true => (
                        flit.place_with_trailer(class),
                        packer.place_with_trailer(class),
                    ),
                    false => (flit.place(class), packer.place(class)),
                };
                assert_eq!(placed.0, placed.1, "{format:?} {class:?} step {step}");
            }
            assert_eq!(flit.is_empty(), packer.is_empty(), "{format:?} step {step}");
            own += u32::from(flit.own.is_some());
            if step % 1_000 == 0 {
                let mut out = StateWriter::default();
                out.value("flit", &flit);
                let bytes = out.finish().expect("a flit can be saved");
                let mut from = StateReader::open(&bytes).expect("and opened");
                flit = from.value("flit").expect("and restored");
                assert_eq!(flit.packer(), packer.without_counters());
            }
        }
        own
    }

    /// All contents that messages of these classes reach. Each of their steps is checked against the packer's.
    fn contents(format: FlitFormat, classes: &[Channel]) -> usize {
        let mut found = vec![FlitPacker::new(format)];
        let mut known: HashSet<FlitPacker> = found.iter().copied().collect();
        let mut at = 0;
        while let Some(content) = found.get(at).copied() {
            at += 1;
            let places = classes.iter().map(|class| Some(*class));
            for step in places.chain((!content.is_empty()).then_some(None)) {
                let (mut flit, mut packer) = (OpenFlit::of(content), content);
                match step {
                    Some(class) => assert_eq!(flit.place(class), packer.place(class)),
                    None => assert_eq!(flit.close(), packer.close()),
                }
                let after = packer.without_counters();
                assert_eq!((flit.packer(), flit.is_empty()), (after, after.is_empty()));
                if known.insert(after) {
                    found.push(after);
                }
            }
        }
        found.len()
    }

    #[test]
    fn contents_are_as_few_as_is_said() {
        use Channel::*;
        for (format, requests, responses) in [
            (FlitFormat::B68, 20, 33),
            (FlitFormat::B256, 1_046, 7_046),
            (FlitFormat::B256Pbr, 1_046, 4_413),
            (FlitFormat::B256LatencyOptimized, 1_076, 6_031),
        ] {
            assert_eq!(contents(format, &[M2sReq, M2sRwd]), requests, "{format:?}");
            assert_eq!(contents(format, &[S2mNdr, S2mDrs]), responses, "{format:?}");
        }
    }

    #[test]
    fn every_step_is_that_of_a_packer() {
        use Channel::*;
        for format in FlitFormat::ALL {
            for classes in [[M2sReq, M2sRwd], [S2mNdr, S2mDrs]] {
                let own = walk(format, &classes, 20_000);
                assert_eq!(own, 0, "{format:?}: the table has room for all");
            }
            let own = walk(format, &[D2hReq, D2hData], 20_000);
            assert!(own < 10_000, "{format:?}: {own} of 20,000 steps");
        }
        // Far more contents than the table has room for.
        let classes = [M2sReq, M2sRwd, M2sBirsp, H2dReq, H2dRsp, H2dData];
        let own = walk(FlitFormat::B256LatencyOptimized, &classes, 200_000);
        assert!((1_000..150_000).contains(&own), "{own} of 200,000 steps");
    }
}
