//! Default sizes of topologies and their bounds.

use cxlab_engine::catalog::ParamError;

use crate::graph::Endpoints;

/// Most switches of a fabric: one for each PID (12 bits). *Assumed*: no CXL text bounds the number. The
/// routing tables of 4,096 switches take about 100 MB.
pub(super) const MAX_SWITCHES: usize = 4096;

/// Number of requester-device pairs, or `least` if that is more.
pub(super) fn one_per_pair(endpoints: &Endpoints, least: usize) -> usize {
    endpoints
        .requesters
        .len()
        .max(endpoints.devices.len())
        .max(least)
}

/// The size of a topology: `given`, or the legal value nearest to `default`. Fails if `given`
/// is outside `least..=most`.
pub(super) fn bounded(
    field: &str,
    given: Option<usize>,
    default: usize,
    least: usize,
    most: usize,
) -> Result<usize, ParamError> {
    let value = given.unwrap_or(default.clamp(least, most));
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(ParamError::new(
        field,
        format!("found {value}; allowed: {least} to {most}"),
    ))
}
