use super::*;
use crate::fabric::tests::Fixed;
use crate::model::Step;
use crate::placement::Placement;
use crate::process::tests::machine;
use crate::progress::{GENERAL_REGISTERS, ThreadPlace};
use crate::reuse::WindowTrace;
use crate::sys;

/// Local memory, and a device.
const FAR: Fixed = Fixed(&[90.0, 290.0], 1.0);

fn facts() -> Facts {
    Facts {
        llc_bytes: 1,
        ..machine(90.0, 9.0, &[(4, 90.0), (256, 90.0)])
    }
}

/// A place in a loop of four instructions, whose counter is in the first register.
fn at(code: u64, executed: u64) -> ThreadPlace {
    let mut values = [0; GENERAL_REGISTERS];
    values[0] = executed / 4;
    let code = code + executed % 4;
    ThreadPlace { code, values }
}

/// A window of such a loop, which does not wait for memory.
fn window(followed: &mut Followed<'_>, code: u64) -> PhaseId {
    let places: Vec<ThreadPlace> = (0..100).map(|executed| at(code, executed)).collect();
    add(followed, code, &places)
}

fn add(followed: &mut Followed<'_>, code: u64, places: &[ThreadPlace]) -> PhaseId {
    let trace = WindowTrace::new(vec![Step::default().at(code); 100], 0, &mut |_| None);
    let prices = &followed.prices;
    let (facts, fabric) = (&prices.facts, &*prices.fabric);
    let phase = followed.process.add(trace, places, facts, fabric).unwrap();
    let process = &followed.process;
    followed.thread.find_code(|place| process.at(place.code));
    phase
}

const ONE: u64 = 0x1000;
const OTHER: u64 = 0x2000;

/// The interval is from 1.1 to 1.15, then to 1.25. Without a delay there is none.
#[test]
fn a_slowdown_is_uncertain_if_its_interval_is_wide() {
    let mut fabric = FAR;
    let mut prices = Prices::new(&mut fabric, facts());
    assert!(!prices.is_uncertain(1e9));
    (prices.priced.least_ns, prices.priced.most_ns) = (0.1e9, 0.15e9);
    assert!(!prices.is_uncertain(1e9));
    prices.priced.most_ns = 0.25e9;
    assert!(prices.is_uncertain(1e9));
}

/// Time without a price may owe as much as it is, but nothing where no pool adds anything.
#[test]
fn open_time_may_owe_delay_only_if_a_pool_adds_some() {
    let owed = |local_ns| {
        let (mut fabric, all) = (FAR, facts());
        let mut prices = Prices::new(&mut fabric, Facts { local_ns, ..all });
        prices.priced.most_ns = 1e6;
        prices.most_owed_ns(2e6)
    };
    assert_eq!([90.0, 289.0, 290.0, 1e6].map(owed), [3e6, 3e6, 1e6, 1e6]);
}

struct Followed<'a> {
    prices: Prices<'a>,
    thread: Thread,
    process: Process,
}

impl<'a> Followed<'a> {
    fn new(fabric: &'a mut Fixed) -> Followed<'a> {
        let own = sys::own();
        let prices = Prices::new(fabric, facts());
        let mut process = Process::new(own, Placement::Cxl);
        process.sample(&prices.facts);
        Followed {
            prices,
            thread: Thread::new(own, own),
            process,
        }
    }

    /// Samples the thread after another millisecond of CPU time.
    fn sample(&mut self, place: ThreadPlace) {
        let cpu_ns = 1e6;
        self.thread.stretch.add(SpentTime {
            cpu_ns,
            user_ns: cpu_ns,
            lines: 0.0,
        });
        let phase = self.process.at(place.code);
        let before = self.thread.last_sample();
        let before = before.filter(|sample| sample.code == phase);
        let progress = phase.and_then(|phase| self.process.progress(phase));
        let counted = before
            .zip(progress)
            .and_then(|(before, progress)| progress.count(&before.place, &place, cpu_ns, true));
        self.thread.record_sample(place, phase, counted, 0);
        if let Some(phase) = phase {
            let (thread, process) = (&mut self.thread, &mut self.process);
            self.prices.seen(thread, process, phase);
        }
    }

    fn told_ms(&self) -> [f64; 3] {
        let time = self.prices.priced.by_method;
        [time.counted_ns, time.paced_ns, time.priced_ns].map(|ns| ns / 1e6)
    }
}

/// Where an event counts lines, as many are charged as it counted, whatever windows say of the cache.
#[test]
fn counted_lines_are_the_misses() {
    let mut fabric = FAR;
    let mut followed = Followed::new(&mut fabric);
    followed.prices.has_lines = true;
    let memory = crate::placement::Region {
        start: 0,
        end: 1 << 20,
    };
    followed.process.layout.update(&[memory]);
    // A chain through CXL memory, a load in ten instructions.
    let load = |at: u64| Step::load(at * 6400, &[1], &[1]).at(ONE);
    let compute = vec![Step::default().at(ONE); 9];
    let steps = (0..100).flat_map(|at| [vec![load(at)], compute.clone()].concat());
    let trace = WindowTrace::new(steps.collect(), 0, &mut |_| Some(1));
    let (facts, fabric) = (&followed.prices.facts, &*followed.prices.fabric);
    followed.process.add(trace, &[], facts, fabric).unwrap();
    let lines = |number: u32| 9_000.0 + 500.0 * f64::from(number % 3);
    for number in 1..=20 {
        followed.thread.stretch.lines = lines(number);
        followed.sample(at(ONE, 0));
    }
    let counted: f64 = (1..=20).map(lines).sum();
    let [local, far] = [0, 1].map(|pool| followed.prices.pools()[pool].misses);
    assert!((far / counted - 1.0).abs() < 1e-9, "{far} {counted}");
    assert_eq!(local, 0.0);
    // Each waits for 200 ns more.
    let asked = followed.thread.ledger.asked_ns as f64;
    assert!((asked / (200.0 * counted) - 1.0).abs() < 0.02, "{asked}");
}

/// Five intervals pass before the window, at another pace, and eight until the counter is known to count. Then all of
/// them are counted, and only the time before the first sample is priced by the pace.
#[test]
fn what_passed_before_a_window_is_counted_behind_it() {
    let mut fabric = FAR;
    let mut followed = Followed::new(&mut fabric);
    let mut executed = 0;
    for _ in 0..6 {
        followed.sample(at(ONE, executed));
        executed += 400_000;
    }
    assert_eq!(followed.told_ms(), [0.0; 3]);
    window(&mut followed, ONE);
    for number in 0..8 {
        assert_eq!(followed.told_ms(), [0.0; 3], "{number}");
        executed += 1_600_000;
        followed.sample(at(ONE, executed));
    }
    let [counted, paced, priced] = followed.told_ms();
    assert_eq!((counted, priced), (13.0, 0.0));
    assert_eq!(paced, 1.0);
    // 0.25 ns an instruction, and one millisecond at the pace of the eight intervals.
    let modelled = (executed as f64 + 1.65e6) * 0.25;
    let found = followed.prices.priced.modelled_ns;
    assert!((found / modelled - 1.0).abs() < 0.01, "{found} {modelled}");
    assert!(followed.thread.open.is_empty());
}

/// A thread goes from one piece of code to another, through code without a window, for which it waits. There
/// is none. Half of the first interval belongs to the first, and the rest to the other.
#[test]
fn what_passed_between_two_pieces_of_code_is_shared() {
    let mut fabric = FAR;
    let mut followed = Followed::new(&mut fabric);
    // Their windows show no register that counts, so the model's time gives the number of instructions.
    for code in [ONE, OTHER] {
        add(&mut followed, code, &[]);
    }
    followed.sample(at(ONE, 0));
    assert_eq!(followed.told_ms(), [0.0, 0.0, 1.0]);
    followed.sample(at(0x9000, 0));
    assert_eq!(followed.told_ms(), [0.0, 0.0, 1.0]);
    assert_eq!(followed.thread.waits_ns(), 1e6);
    for number in 1..MOST_WAITING - 1 {
        followed.sample(at(OTHER, 0));
        assert_eq!(followed.told_ms(), [0.0, 0.0, 1.0], "{number}");
    }
    followed.sample(at(OTHER, 0));
    let all = MOST_WAITING as f64 + 1.0;
    assert_eq!(followed.told_ms(), [0.0, 0.0, all]);
    followed.sample(at(0x9000, 0));
    let (thread, process) = (&mut followed.thread, &mut followed.process);
    followed.prices.end(thread, process);
    assert_eq!(followed.told_ms(), [0.0, 0.0, all + 1.0]);
    assert_eq!(followed.prices.priced.unpriced_ns, 0.0);
}

/// The window of the code behind comes after a while. Then that time has its price.
#[test]
fn time_in_code_without_a_window_waits_for_one() {
    let mut fabric = FAR;
    let mut followed = Followed::new(&mut fabric);
    add(&mut followed, ONE, &[]);
    for place in [ONE, OTHER, ONE, OTHER] {
        followed.sample(at(place, 0));
    }
    let known = |followed: &Followed<'_>, place: u64| {
        let mut open = followed.thread.open.iter();
        open.all(|sample| sample.place.code != place || sample.code.is_some())
    };
    assert_eq!(followed.told_ms(), [0.0, 0.0, 1.0]);
    assert!(!known(&followed, OTHER) && followed.thread.is_unknown());
    let phase = add(&mut followed, OTHER, &[]);
    assert!(known(&followed, OTHER) && !followed.thread.is_unknown());
    let (thread, process) = (&mut followed.thread, &mut followed.process);
    followed.prices.seen(thread, process, phase);
    assert_eq!(followed.told_ms(), [0.0, 0.0, 4.0]);
}
