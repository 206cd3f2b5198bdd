//! Scheduling of windows. A window stops the program, so windows may take only a part of its time.

/// Reciprocals of the share of real time that windows may take: for the first windows, then while a
/// thread executes code without a window, and otherwise.
const FIRST_COST: u32 = 10;
const WINDOW_COST: u32 = 20;
const KNOWN_COST: u32 = 40;
/// Factor on the cost of a window in any code, while time without a price waits for a window of its own code (*assumed*).
pub(crate) const LATER_FACTOR: u32 = 2;
/// Factor on the cost of a window, while windows have taken more time than the program owes in delay (*assumed*). The time
/// of windows counts as paid delay, so up to that amount windows do not slow the program down.
pub(crate) const UNPAID_FACTOR: u32 = 2;
/// Number of first windows while the miss rate is uncertain and otherwise, and number of those that are taken only in
/// code without a window.
const UNCERTAIN_WINDOWS: u64 = 32;
const FIRST_WINDOWS: u64 = 8;
const FIRST_ELSEWHERE: u64 = 4;

/// Factor by which the time since the last window must exceed the mean time of a window, after `windows` windows. With
/// `elsewhere`, the thread executes code with no or too few windows. `uncertain` is set if touched pages are doubtful, or
/// if the interval of the slowdown is wide.
pub fn cost(windows: u64, elsewhere: bool, uncertain: bool) -> u32 {
    let first = match (uncertain, elsewhere) {
        (true, _) => UNCERTAIN_WINDOWS,
        (false, true) => FIRST_WINDOWS,
        (false, false) => FIRST_WINDOWS - FIRST_ELSEWHERE,
    };
    match (windows < first, elsewhere) {
        (true, _) => FIRST_COST,
        (false, true) => WINDOW_COST,
        (false, false) => KNOWN_COST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_windows_are_more_and_some_are_kept_for_other_code() {
        let numbers = [0, 3, 4, 7, 8, 100];
        let costs = |elsewhere| numbers.map(|windows| cost(windows, elsewhere, false));
        assert_eq!(costs(true), [10, 10, 10, 10, 20, 20]);
        assert_eq!(costs(false), [10, 10, 40, 40, 40, 40]);
        assert_eq!((cost(31, true, true), cost(32, true, true)), (10, 20));
    }
}
