//! Scheduling of windows. A window stops the program, so windows may take only a part of its time.

/// Reciprocals of the share of real time that windows may take: for the first windows, then while a
/// thread executes code without a window, and otherwise.
const FIRST_COST: u32 = 10;
const WINDOW_COST: u32 = 20;
const KNOWN_COST: u32 = 40;
/// Factor on the cost of a window in any code, while time waits for a window of its own code (*assumed*).
pub(crate) const LATER: u32 = 2;
/// Factor on the cost of a window, while windows have taken more time than the program may owe (*assumed*). Their
/// time counts toward what it owes, so up to there they slow nothing down.
pub(crate) const UNPAID: u32 = 2;
/// Number of the first windows, and how many of those are taken only in code without a window. There are
/// more of them while it is uncertain how many lines miss.
const UNCERTAIN_WINDOWS: u64 = 32;
const FIRST_WINDOWS: u64 = 8;
const FIRST_ELSEWHERE: u64 = 4;

/// Factor by which the time since the last window must exceed the mean time of a window, after
/// `windows` windows. With `elsewhere`, the thread executes code in which no window has been, or too
/// few; `uncertain` says that touched pages mislead, or that the interval of the slowdown is wide.
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
