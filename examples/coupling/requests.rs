//! The requests of requests.c, from Rust: `cxlab_system::session` is the interface below the C functions.
//!
//! cargo run --release -p cxlab-capi --example requests -- SCENARIO REQUESTS GAP_PS

use std::error::Error;
use std::path::Path;

use cxlab_engine::units::SimTime;
use cxlab_plan::{Externals, Files, load};
use cxlab_system::session::{RequestKind, Session, SessionError, Submission};

/// The numbers of a xorshift generator.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// How many requests have completed, and a hash (FNV-1a) of their ids and times in their order.
struct Sum {
    count: u64,
    hash: u64,
}

impl Sum {
    fn take(&mut self, session: &mut Session) {
        while let Some(done) = session.take_completion() {
            self.count += 1;
            for number in [done.id, done.issued.0, done.completed.0] {
                for byte in number.to_le_bytes() {
                    self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
        }
    }
}

fn open(path: &str) -> Result<Session, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let files = Files::of(folder);
    let loaded = load::read(path, &text, &[])
        .and_then(|document| load::resolve(document, files, &Externals::new()))
        .map_err(|mistakes| mistakes.render(false))?;
    let seed = loaded.plan.scenario.seed;
    Ok(Session::new(loaded, seed, false)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, scenario, requests, gap] = &arguments[..] else {
        return Err("usage: requests SCENARIO REQUESTS GAP_PS".into());
    };
    let (requests, gap): (u64, u64) = (requests.parse()?, gap.parse()?);
    let mut session = open(scenario)?;
    let port = session.find_port("outside").ok_or("no port `outside`")?;
    let lines = session.port_info(port)?.span.0 / 64;
    let mut sum = Sum {
        count: 0,
        hash: 0xcbf2_9ce4_8422_2325,
    };
    let mut generator = Generator(0x9e37_79b9_7f4a_7c15);
    let mut time = SimTime(0);
    for id in 0..requests {
        let address = generator.next() % lines * 64;
        let kind = match generator.next() % 4 {
            0 => RequestKind::Write,
            _ => RequestKind::Read,
        };
        session.advance(time)?;
        sum.take(&mut session);
        let size = 64;
        loop {
            let request = Submission {
                id,
                address,
                size,
                kind,
                time,
            };
            match session.submit(port, request) {
                Err(SessionError::Full) => {}
                other => break other?,
            }
            time = SimTime(session.next_event().ok_or("a full port has an event")?.0 + 1);
            session.advance(time)?;
            sum.take(&mut session);
        }
        time = SimTime(time.0 + 1 + generator.next() % (2 * gap));
    }
    session.close(port)?;
    session.drain()?;
    sum.take(&mut session);
    let (digest, _) = session.digest();
    println!(
        "completed {} hash {:016x} digest {digest:016x}",
        sum.count, sum.hash
    );
    Ok(())
}
