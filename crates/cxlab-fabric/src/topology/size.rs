//! Default sizes of topologies and their bounds.

use std::ops::RangeInclusive;

use cxlab_engine::catalog::ParamError;

use crate::graph::Endpoints;

/// Most switches of a fabric: one for each PID (12 bits). *Assumed*: no CXL text bounds the number. The
/// routing tables of 4,096 switches take about 100 MB.
pub(super) const MAX_SWITCHES: usize = 4096;

/// Number of requester-device pairs, or `least` if that is more.
pub(super) fn one_per_pair(endpoints: &Endpoints, least: usize) -> usize {
    let (requesters, devices) = (endpoints.requesters.len(), endpoints.devices.len());
    requesters.max(devices).max(least)
}

/// The size of a topology: `given`, or the legal value nearest to `default`. Fails if `given`
/// is outside `legal`.
pub(super) fn bounded(
    field: &str,
    given: Option<usize>,
    default: usize,
    legal: RangeInclusive<usize>,
) -> Result<usize, ParamError> {
    let (least, most) = (*legal.start(), *legal.end());
    within(field, given.unwrap_or(default.clamp(least, most)), legal)
}

/// A size that the user gives or that has a constant default. Fails if it is outside `legal`.
pub(super) fn within(
    field: &str,
    value: usize,
    legal: RangeInclusive<usize>,
) -> Result<usize, ParamError> {
    if legal.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (legal.start(), legal.end());
    let message = format!("found {value}; allowed: {least} to {most}");
    Err(ParamError::new(field, message))
}
