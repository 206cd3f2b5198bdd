//! Tagged sequential prefetching (Smith, ACM Computing Surveys 1982, section 2.1): a miss, or the
//! first use of a prefetched page, prefetches the pages that follow.

use cxlab_engine::catalog::{Entry, in_range, read_params};
use cxlab_engine::save_state;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_DEGREE, PageAccessResult, PrefetchCandidates, PrefetchPolicy, Prefetcher};

pub(super) const ENTRY: Entry<Box<dyn PrefetchPolicy>> = Entry {
    name: "next-page",
    summary: "the pages after one that is missed or is used for the first time after its prefetch",
    schema: <NextPage as JsonSchema>::json_schema,
    build: |params| {
        let params: NextPage = read_params(params)?;
        in_range("degree", params.degree, 1..=MAX_DEGREE)?;
        Ok(Box::new(params))
    },
};

/// Parameters of next-page prefetching.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct NextPage {
    /// Number of pages to prefetch. 1 to 16. Default 1 (Smith).
    #[schemars(range(min = 1, max = 16))]
    degree: u32,
}

save_state!(NextPage {
    built: degree;
});

impl Default for NextPage {
    fn default() -> Self {
        NextPage { degree: 1 }
    }
}

impl PrefetchPolicy for NextPage {
    fn state(&self) -> Box<dyn Prefetcher> {
        Box::new(*self)
    }
}

impl Prefetcher for NextPage {
    fn accessed(&mut self, page: u64, outcome: PageAccessResult, wanted: &mut PrefetchCandidates) {
        if outcome != PageAccessResult::Hit {
            wanted.push_from(page, 1, self.degree);
        }
    }
}
