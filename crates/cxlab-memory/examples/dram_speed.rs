//! Sends a stream of requests to the DRAM medium as fast as it accepts them, for timing from
//! outside: `dram_speed PARAMETERS PATTERN REQUESTS [CAPACITY]`.
//!
//! `PARAMETERS` are those of the medium, as JSON. `PATTERN` is `random` or `stream`. An optional
//! `:` and number give the picoseconds from one request to the next (default 0: a further request
//! always waits). A second `:` and number give how many of three requests write (default 1).
//! Addresses come from SplitMix64 seeded with 1, so that a driver for another simulator can send
//! the same stream. Each request draws once for its address, modulo the lines of the capacity (in
//! bytes; 8 GiB), and once for its kind, modulo 3 (a write if less than that number).

use std::error::Error;

use cxlab_engine::catalog::find;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{CATALOG, MediumSite, MemoryRequest};

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
    let usage = "dram_speed PARAMETERS random|stream[:GAP[:WRITES]] REQUESTS [CAPACITY]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (params, pattern, requests, capacity) = match &args[..] {
        [params, pattern, requests] => (params, pattern, requests, 8 << 30),
        [params, pattern, requests, capacity] => (params, pattern, requests, capacity.parse()?),
        _ => return Err(usage.into()),
    };
    let parts: Vec<&str> = pattern.split(':').collect();
    let (pattern, gap, writes) = match parts[..] {
        [pattern] => (pattern, "0", "1"),
        [pattern, gap] => (pattern, gap, "1"),
        [pattern, gap, writes] => (pattern, gap, writes),
        _ => return Err(usage.into()),
    };
    let random = match pattern {
        "random" => true,
        "stream" => false,
        _ => return Err(usage.into()),
    };
    let (gap, writes): (u64, u64) = (gap.parse()?, writes.parse()?);
    let requests: u64 = requests.parse()?;
    let entry = find(CATALOG, "dram").ok_or("no DRAM in the catalog")?;
    let medium = (entry.build)(&serde_json::from_str(params)?)?;
    medium.check(Bytes(capacity))?;
    let mut memory = medium.backend(MediumSite::alone(Bytes(capacity), 1));

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
                    true => draws.next() % (capacity / 64),
                    false => (line + 1) % (capacity / 64),
                };
                (line, draws.next() % 3 < writes)
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
