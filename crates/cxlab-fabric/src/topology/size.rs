//! Default sizes and their bounds, the same for every topology.

use cxlab_engine::catalog::ParamError;

use crate::graph::Endpoints;

/// The most switches of one fabric: one for each PID (12 bits). *Assumed*: no CXL text bounds
/// it; the routing tables of 4,096 switches take about 100 MB.
pub(super) const MAX_SWITCHES: usize = 4096;

/// One switch for each requester-device pair, and no fewer than `least`.
pub(super) fn one_per_pair(endpoints: &Endpoints, least: usize) -> usize {
    endpoints
        .requesters
        .len()
        .max(endpoints.devices.len())
        .max(least)
}

/// `given` when it lies within `least..=most`, or the nearest legal value to `default` when it is
/// absent.
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
        format!("{value} is not from {least} to {most}"),
    ))
}
