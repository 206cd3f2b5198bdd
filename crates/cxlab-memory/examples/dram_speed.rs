//! Feeds one stream of requests to the DRAM medium as fast as it takes them, for timing from
//! outside: `dram_speed PARAMETERS PATTERN REQUESTS`.
//!
//! `PARAMETERS` are those of the medium, as JSON; `PATTERN` is `random` or `stream`, after a colon
//! followed by the clocks from one request to the next in picoseconds (`random:200000`; 0 without
//! it: one more waits always). A third of the requests write. Addresses come from SplitMix64 seeded
//! with 1, so that a driver for another simulator can send the same stream: each request draws once
//! for its address, modulo the lines of 8 GiB, and once for its kind, modulo 3 (0: a write).

use std::error::Error;

use cxlab_engine::catalog::find;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{CATALOG, MemoryRequest, Site};

const CAPACITY: u64 = 8 << 30;

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "dram_speed PARAMETERS random|stream[:PICOSECONDS] REQUESTS";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [params, pattern, requests] = &args[..] else {
        return Err(usage.into());
    };
    let (pattern, gap) = pattern.split_once(':').unwrap_or((pattern, "0"));
    let random = match pattern {
        "random" => true,
        "stream" => false,
        _ => return Err(usage.into()),
    };
    let (gap, requests): (u64, u64) = (gap.parse()?, requests.parse()?);
    let entry = find(CATALOG, "dram").ok_or("no DRAM in the catalog")?;
    let medium = (entry.build)(&serde_json::from_str(params)?)?;
    medium.check(Bytes(CAPACITY))?;
    let mut memory = medium.backend(Site::alone(Bytes(CAPACITY), 1));

    let mut draws = SplitMix(1);
    let mut sent: Vec<u64> = Vec::with_capacity(1024);
    let mut free: Vec<u32> = Vec::with_capacity(1024);
    let mut done = Vec::with_capacity(64);
    let (mut left, mut line, mut wish) = (requests, 0, None);
    let (mut now, mut next) = (0u64, 0u64);
    let (mut reads, mut read_ps) = (0u64, 0u64);
    loop {
        memory.advance(SimTime(now), &mut done);
        for one in done.drain(..) {
            let began = sent[one.id as usize];
            if began != u64::MAX {
                reads += 1;
                read_ps += one.at.0 - began;
            }
            free.push(one.id);
        }
        while left > 0 && next <= now {
            let (at, write) = *wish.get_or_insert_with(|| {
                line = match random {
                    true => draws.next() % (CAPACITY / 64),
                    false => (line + 1) % (CAPACITY / 64),
                };
                (line, draws.next().is_multiple_of(3))
            });
            if !memory.can_accept(SimTime(now), write) {
                break;
            }
            let id = free.pop().unwrap_or_else(|| {
                sent.push(0);
                sent.len() as u32 - 1
            });
            sent[id as usize] = if write { u64::MAX } else { now };
            let dpa = Dpa(at * 64);
            let request = MemoryRequest {
                id,
                dpa,
                lines: 1,
                write,
            };
            memory.enqueue(SimTime(now), request);
            wish = None;
            left -= 1;
            next = next.max(now.saturating_sub(gap)) + gap;
        }
        let event = memory.next_event().map(|at| at.0);
        let sends = Some(next).filter(|next| left > 0 && *next > now);
        match event.into_iter().chain(sends).min() {
            Some(at) => now = at.max(now),
            None => break,
        }
    }
    println!(
        "{requests} requests, {:.3} us, {:.3} GB/s, reads {:.2} ns",
        now as f64 / 1e6,
        requests as f64 * 64e3 / now as f64,
        read_ps as f64 / 1e3 / reads.max(1) as f64
    );
    Ok(())
}
