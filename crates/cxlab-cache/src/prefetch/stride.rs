//! Prefetching for streams with a constant stride.
//!
//! A device sees no program counters, so streams are told apart by address. An access belongs to
//! the stream whose last page is nearest, if that is within the window. Otherwise it begins a
//! new stream in place of the least recently used one. A stream prefetches after two equal
//! distances in a row (Chen and Baer 1995, steady state). Repeated accesses to the last page of
//! a stream are ignored.

use cxlab_engine::catalog::{Entry, in_range, read_params};
use cxlab_engine::save_state;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_DEGREE, PageAccessResult, PrefetchCandidates, PrefetchPolicy, Prefetcher};

pub(super) const ENTRY: Entry<Box<dyn PrefetchPolicy>> = Entry {
    name: "stride",
    summary: "the next pages of streams of pages at equal distances",
    schema: <StrideParams as JsonSchema>::json_schema,
    build: |params| {
        let params: StrideParams = read_params(params)?;
        in_range("degree", params.degree, 1..=MAX_DEGREE)?;
        in_range("streams", params.streams, 1..=256)?;
        in_range("window", params.window, 1..=1 << 20)?;
        Ok(Box::new(params))
    },
};

/// Parameters of stride prefetching.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct StrideParams {
    /// Number of pages to prefetch in a stream. 1 to 16. Default 2 (*assumed*).
    #[schemars(range(min = 1, max = 16))]
    degree: u32,
    /// Streams tracked at once; each access is compared with all of them. 1 to 256.
    /// Default 16 (*assumed*).
    #[schemars(range(min = 1, max = 256))]
    streams: u32,
    /// Most pages between two accesses of a stream. 1 to 1048576. Default 64 (*assumed*).
    #[schemars(range(min = 1, max = 1_048_576))]
    window: u32,
}

impl Default for StrideParams {
    fn default() -> Self {
        StrideParams {
            degree: 2,
            streams: 16,
            window: 64,
        }
    }
}

impl PrefetchPolicy for StrideParams {
    fn state(&self) -> Box<dyn Prefetcher> {
        Box::new(Stride {
            params: *self,
            streams: Vec::with_capacity(self.streams as usize),
            clock: 0,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct AccessStream {
    last: u64,
    stride: i64,
    /// Number of equal distances in a row.
    equal: u32,
    used: u64,
}

struct Stride {
    params: StrideParams,
    streams: Vec<AccessStream>,
    clock: u64,
}

save_state!(Stride {
    values: streams, clock;
    built: params;
});

impl Prefetcher for Stride {
    fn accessed(&mut self, page: u64, _: PageAccessResult, wanted: &mut PrefetchCandidates) {
        self.clock += 1;
        let distance = |stream: &AccessStream| stream.last.abs_diff(page);
        let nearest = self.streams.iter_mut().min_by_key(|one| distance(one));
        match nearest {
            Some(stream) if distance(stream) <= u64::from(self.params.window) => {
                stream.used = self.clock;
                let stride = page.wrapping_sub(stream.last) as i64;
                if stride == 0 {
                    return;
                }
                stream.equal = if stride == stream.stride {
                    stream.equal.saturating_add(1)
                } else {
                    1
                };
                (stream.last, stream.stride) = (page, stride);
                if stream.equal >= 2 {
                    wanted.push_from(page, stride, self.params.degree);
                }
            }
            _ => {
                let stream = AccessStream {
                    last: page,
                    stride: 0,
                    equal: 0,
                    used: self.clock,
                };
                if self.streams.len() < self.params.streams as usize {
                    self.streams.push(stream);
                } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|one| one.used) {
                    *oldest = stream;
                }
            }
        }
    }
}
